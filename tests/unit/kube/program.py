"""A small program on the runtime, for tests that need a process of its own: ``python -m tests.unit.kube.program``.

For each ConfigMap it creates two Secrets, ``<name>-begun`` and ``<name>-ended``, with time in between.
"""

import asyncio
import sys
from typing import Literal

from pydantic import Field, model_validator

from netclaim.api.meta import Key
from netclaim.api.resources import CONFIG_MAPS, SECRETS
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.leader import Timings
from netclaim.kube.process import CommonSettings, Process, run

FAST = Timings(lease=3.0, deadline=2.0, retry=0.2)


class Settings(CommonSettings):
    mode: Literal["Netns", "Hypervisor"] = Field(description="How interfaces are attached: Netns or Hypervisor.")
    pause: float = Field(default=0.2, ge=0, description="Seconds between the two Secrets.")
    location: str = Field(default="", description="Where this runs; required in mode Hypervisor.")

    @model_validator(mode="after")
    def _located(self) -> "Settings":
        if self.mode == "Hypervisor" and not self.location:
            raise ValueError("--location is required in mode Hypervisor: name the location")
        return self


async def main(settings: Settings) -> int:
    """Run until SIGTERM."""
    process = Process("program", settings, timings=FAST)
    cell = await process.connect(settings.kubeconfig, identify=False)
    maps = cell.reflect(CONFIG_MAPS)

    async def reconcile(key: Key) -> float | None:
        namespace, name = key
        for part in ("begun", "ended"):
            await cell.create(SECRETS, {"metadata": {"namespace": namespace, "name": f"{name}-{part}"}})
            await asyncio.sleep(settings.pause if part == "begun" else 0)
        return None

    controller = Controller("pairs", reconcile, workers=8)
    controller.watch(maps, own_key)
    process.add(controller)
    return await process.run()


if __name__ == "__main__":
    sys.exit(run(main, Settings, "program"))
