"""`vpc-controller`: VPCs, attachments and what the data plane says of them, for one cell."""

from __future__ import annotations

import sys

from netclaim.kube.process import Process, run
from vpc_controller.controllers import register
from vpc_controller.settings import Settings

PROGRAM = "vpc-controller"


async def main(settings: Settings) -> int:
    """Connect, add the reconcilers, run until SIGTERM; returns the exit code."""
    process = Process(PROGRAM, settings)
    cell = await process.connect(settings.kubeconfig)
    register(process, cell, settings)
    return await process.run()


def cli() -> None:
    """Entry point."""
    sys.exit(run(main, Settings, PROGRAM))


if __name__ == "__main__":
    cli()
