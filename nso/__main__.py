"""`nso`: the controllers of a cell and of its IPAM, in one process or in several."""

from __future__ import annotations

import sys

from netclaim.kube.process import Process, run
from nso.settings import Settings

PROGRAM = "nso"


async def main(settings: Settings) -> int:
    """Connect, add the chosen controllers, run until SIGTERM; returns the exit code.

    With `--controllers=ipam` alone, `--kubeconfig` names the IPAM control plane.
    """
    process = Process(PROGRAM, settings.model_copy(update={"lease_name": settings.lease}))
    home = await process.connect(settings.kubeconfig, identify=settings.needs_location)
    # What a cell holds goes on while its IPAM is away, after a restart too: only what asks IPAM waits for it.
    ipam = home
    if settings.ipam_kubeconfig and settings.needs_ipam:
        ipam = await process.connect(settings.ipam_kubeconfig, identify=False, apart=True)
    # Only what was chosen is imported: start time and memory of a process follow what it does.
    if "networks" in settings.controllers:
        from nso import networks

        networks.register(process, home, ipam, settings)
    if "claims" in settings.controllers:
        from nso import claims

        claims.register(process, home, ipam, settings)
    if "compute" in settings.controllers:
        from nso import compute

        compute.register(process, home, settings)
    if "ipam" in settings.controllers:
        from nso import ipam as ipam_controllers

        ipam_controllers.register(process, ipam, settings)
    return await process.run()


def cli() -> None:
    """Entry point of the command."""
    sys.exit(run(main, Settings, PROGRAM))


if __name__ == "__main__":
    cli()
