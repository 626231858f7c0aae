"""`netclaim-webhook`: attaches claimed interfaces to Pods at their admission."""

from __future__ import annotations

import sys

from netclaim.api import resources
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller
from netclaim.kube.process import Process, run
from webhook.publishing import Places, Publishing
from webhook.reviewer import Reviewer
from webhook.server import Endpoint
from webhook.settings import Settings

PROGRAM = "netclaim-webhook"


def register(process: Process, cell: Cluster, settings: Settings) -> Endpoint:
    """Add the endpoint and the certificates' reconciler to the process."""
    host, port = settings.address
    endpoint = Endpoint(Reviewer(cell, settings.node_labels), host, port, process.unready)
    places = Places(settings.system_namespace, settings.secret_name, settings.configuration_name)
    secrets = cell.reflect(
        resources.SECRETS, namespace=places.namespace, field_selector=f"metadata.name={places.secret}"
    )
    configurations = cell.reflect(resources.MUTATING_WEBHOOKS, field_selector=f"metadata.name={places.configuration}")
    publishing = Publishing(cell, endpoint, places, settings.wanted)
    controller = Controller("certificates", publishing.reconcile, workers=1)
    controller.watch(secrets, lambda _: [("", PROGRAM)])
    controller.watch(configurations, lambda _: [("", PROGRAM)])
    controller.enqueue(("", PROGRAM))
    process.add(controller)
    process.add_ready_check(
        f"no certificate is served that MutatingWebhookConfiguration {places.configuration} trusts",
        publishing.is_trusted,
    )
    return endpoint


async def main(settings: Settings) -> int:
    """Connect, serve reviews and keep the certificates until SIGTERM; returns the exit code."""
    process = Process(PROGRAM, settings)
    cell = await process.connect(settings.kubeconfig)
    endpoint = register(process, cell, settings)
    try:
        return await process.run()
    finally:
        await endpoint.close()


def cli() -> None:
    """Entry point."""
    sys.exit(run(main, Settings, PROGRAM))


if __name__ == "__main__":
    cli()
