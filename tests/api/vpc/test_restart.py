"""Crashes and restarts of the VPC controller (R32, T03, T21)."""

from pathlib import Path

from netclaim.api import resources
from netclaim.kube.client import Client
from tests.api.vpc.invariants import sound
from tests.api.vpc.programs import controller
from tests.api.vpc.world import SYSTEM, World
from tests.control_plane import ControlPlane


async def test_a_killed_controller_leaves_nothing_half_made_and_its_successor_draws_nothing_twice(
    control_plane: ControlPlane, cell: Client, namespace: str, tmp_path: Path
) -> None:
    """T03: kill -9 while 20 interfaces come up, twice; every holder ends with one identifier of its own."""
    world = World(cell, namespace)
    await world.context()
    names = [f"web-{number}-eth0" for number in range(20)]
    for round_number, name in enumerate(names):
        await world.interface(name, number=round_number + 2)
    alone = ("--leader-elect", "false")
    for attempt in range(2):
        async with controller(control_plane, tmp_path / f"log-{attempt}", *alone):

            async def begun(wanted: int = (attempt + 1) * 7) -> bool:
                return len(await cell.list(resources.ATTACHMENTS, namespace)) >= wanted

            # Leaving the block is kill -9.
            await world.eventually(begun, "some attachments", timeout=60.0)
    async with controller(control_plane, tmp_path / "log-last", *alone) as last:
        for name in names:
            await world.says(resources.CLAIMS, name, "Prepared", "True", timeout=60.0)
        attachments = await cell.list(resources.ATTACHMENTS, namespace)
        published = {(one["status"]["vpc"], one["status"]["vpcAttachment"]) for one in attachments}
        assert len(published) == len(names)
        held = [
            one["spec"]["holder"]["uid"]
            for one in await cell.list(resources.IDENTIFIERS, SYSTEM)
            if one["spec"]["holder"]["namespace"] == namespace
        ]
        assert len(held) == len(set(held)) == len(names) + 1
        await sound(cell, namespace)
        await world.close()
        assert last.tracebacks == []


async def test_a_restart_on_a_settled_cell_writes_nothing(
    control_plane: ControlPlane, cell: Client, namespace: str, tmp_path: Path
) -> None:
    """T21: what is right already is left alone."""
    world = World(cell, namespace)
    names = [f"web-{number}-eth0" for number in range(5)]
    async with controller(control_plane, tmp_path / "first") as first:
        await first.says("working:", timeout=60.0)
        await world.context()
        for number, name in enumerate(names):
            await world.interface(name, number=number + 2)
            await world.says(resources.CLAIMS, name, "Prepared", "True")
        await first.stop()
    kinds = (resources.VPCS, resources.ATTACHMENTS, resources.NADS, resources.INTERFACES, resources.CLAIMS)

    async def versions() -> list[str]:
        return [one["metadata"]["resourceVersion"] for kind in kinds for one in await cell.list(kind, namespace)]

    before = await versions()
    async with controller(control_plane, tmp_path / "second") as second:
        for controller_name in ("vpcs", "attachments", "adverts", "identifiers"):
            await second.says(f"{controller_name}: first pass done", timeout=60.0)
        assert await versions() == before
        await sound(cell, namespace)
        await world.close()
        await second.stop()
