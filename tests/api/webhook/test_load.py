"""Reviews under load, and of a Pod that was reviewed before (T18, T19)."""

import asyncio
import base64
import contextlib
import re
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from netclaim.api import resources
from netclaim.api.cni import DEFAULT_NETWORK_ANNOTATION, NETWORKS_ANNOTATION
from netclaim.api.networking import INJECT_LABEL, INJECTED_ANNOTATION
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError
from tests.api.vpc.programs import Program
from tests.api.webhook.site import free_port
from tests.api.webhook.test_certificates import wanted
from tests.api.webhook.yard import Yard
from tests.waiting import until
from webhook import certificates, server
from webhook.certificates import Stored

Raw = dict[str, Any]
AT_ONCE = 100


async def counted(program: Program) -> dict[str, float]:
    """What the program has counted so far, summed over all labels but `kind` and `method`."""
    address = re.search(r"on (http://[0-9.:]+)", program.log.read_text())
    assert address is not None
    async with aiohttp.ClientSession() as session, session.get(f"{address[1]}/metrics") as reply:
        text = await reply.text()
    found: dict[str, float] = {}
    for name, labels, value in re.findall(r"^(\w+)(\{[^}]*\})? (\S+)$", text, re.MULTILINE):
        kind = re.search(r'(?:kind|method|verdict)="(\w+)"', labels)
        key = f"{name} {kind[1]}" if kind else name
        found[key] = found.get(key, 0.0) + float(value)
    return found


async def test_a_hundred_reviews_at_once_cost_at_most_one_live_read_each_and_no_list(
    webhook: Program, yard: Yard
) -> None:
    """T18: half of the Pods are admitted from what is known, the others' instances are looked for once."""
    instance = await yard.instance("web-0", "eth0")
    await yard.interface("web-0-eth0", "eth0")
    known = yard.pod(instance)
    unknown = yard.pod(instance)
    unknown["metadata"]["ownerReferences"] = [{**unknown["metadata"]["ownerReferences"][0], "name": "web-7"}]
    await yard.try_out(known)
    before = await counted(webhook)
    pods = [known, unknown] * (AT_ONCE // 2)
    outcomes = await asyncio.gather(*(yard.try_out(pod) for pod in pods), return_exceptions=True)
    after = await counted(webhook)

    def more(name: str) -> float:
        return after.get(name, 0.0) - before.get(name, 0.0)

    refused = [one for one in outcomes if isinstance(one, ApiError)]
    assert len(refused) == AT_ONCE // 2
    assert {one.details["causes"][0]["reason"] for one in refused} == {"InstanceNotFound"}
    assert more("netclaim_webhook_reviews_total admitted") == AT_ONCE // 2
    assert more("netclaim_webhook_live_lookups_total Instance") == AT_ONCE // 2
    # Lists would count among these too; a watch that was opened again in the meantime does.
    assert more("rest_client_requests_total GET") < AT_ONCE // 2 + 10


async def test_a_second_review_of_the_same_pod_changes_nothing(webhook: Program, yard: Yard, cell: Client) -> None:
    """T19: another webhook changes the Pod after ours, so the API server asks ours again (reinvocationPolicy)."""
    instance = await yard.instance("web-0", "eth0", "data")
    await yard.interface("web-0-eth0", "eth0")
    await yard.interface("web-0-data", "net1")
    pod = yard.pod(instance, {NETWORKS_ANNOTATION: "a"})
    once = await yard.try_out(pod)
    async with _sidecar_injector(cell):

        async def injected() -> Raw | None:
            # The API server hears of the other webhook a moment after it was installed.
            before = await counted(webhook)
            made = await yard.try_out(pod)
            reviews = (await counted(webhook))["netclaim_webhook_reviews_total admitted"]
            again = reviews - before["netclaim_webhook_reviews_total admitted"]
            return made if len(made["spec"]["containers"]) == 2 and again == 2 else None

        twice = await until(injected, what="a Pod with a sidecar that was reviewed twice")
    for annotation in (NETWORKS_ANNOTATION, DEFAULT_NETWORK_ANNOTATION, INJECTED_ANNOTATION):
        assert twice["metadata"]["annotations"][annotation] == once["metadata"]["annotations"][annotation]
    assert twice["spec"]["affinity"] == once["spec"]["affinity"]


@contextlib.asynccontextmanager
async def _sidecar_injector(cell: Client) -> AsyncIterator[None]:
    """A webhook of somebody else, called after ours: it adds a container."""
    name = "zz-sidecars"
    stored = certificates.plan(Stored(), wanted(days=1), datetime.now(UTC), b"")
    assert stored.serving is not None
    sidecar = {"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar", "image": "sidecar:1"}}

    async def answer(request: web.Request) -> web.Response:
        review = orjson.loads(await request.read())
        has_one = len(review["request"]["object"]["spec"]["containers"]) > 1
        encoded = "" if has_one else base64.b64encode(orjson.dumps([sidecar])).decode()
        patch = {"patchType": "JSONPatch", "patch": encoded} if encoded else {}
        response = {"uid": review["request"]["uid"], "allowed": True, **patch}
        return web.json_response({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response})

    app = web.Application()
    app.router.add_post("/", answer)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
    await runner.setup()
    port = free_port()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server._load(context, stored.serving)
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    bundle = base64.b64encode(certificates.issuer_of(stored)).decode()
    hook = {
        "name": "sidecars.tests.netclaim",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle},
        "rules": [rule],
        "objectSelector": {"matchLabels": {INJECT_LABEL: "true"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await cell.create(resources.MUTATING_WEBHOOKS, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        yield
    finally:
        await cell.delete(resources.MUTATING_WEBHOOKS, None, name)
        await runner.cleanup()
