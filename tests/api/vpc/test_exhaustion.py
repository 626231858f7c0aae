"""A VPC whose attachment identifiers are all taken (T24, T31)."""

from pathlib import Path

from netclaim import identity
from netclaim.api import resources
from netclaim.kube.client import Client
from tests.api.vpc import narrow
from tests.api.vpc.invariants import sound
from tests.api.vpc.programs import Program
from tests.api.vpc.world import World
from tests.control_plane import ControlPlane


async def test_who_finds_no_identifier_says_so_and_gets_the_first_that_comes_free(
    control_plane: ControlPlane, cell: Client, namespace: str, tmp_path: Path
) -> None:
    """T24, T31: full to the last value; the wait ends by the release of another, long before the next full look."""
    world = World(cell, namespace)
    names = [f"web-{number}-eth0" for number in range(identity.capacity(narrow.BITS))]
    flags = ("--attachment-mode", "Netns", "--leader-elect", "false")
    kubeconfig = ("--kubeconfig", str(control_plane.cell_kubeconfig))
    async with Program("tests.api.vpc.narrow", tmp_path / "log", *flags, *kubeconfig) as program:
        await program.says("working:", timeout=60.0)
        await world.context()
        for number, name in enumerate(names):
            await world.interface(name, number=number + 2)
        values = {(await world.prepared(name))["status"]["vpcAttachment"] for name in names}
        assert values == {identity.to_base62(value) for value in range(1, len(names) + 1)}
        await world.interface("late", number=99)
        for kind in (resources.INTERFACES, resources.CLAIMS):
            await world.says(kind, "late", "Prepared", "False", "IdentifiersExhausted")
        freed = (await world.get(resources.ATTACHMENTS, names[2]))["status"]["vpcAttachment"]
        await cell.delete(resources.INTERFACES, namespace, names[2])

        async def gone() -> bool:
            await world._released()
            return await world.gone(resources.INTERFACES, names[2])

        await world.eventually(gone, "the interface is gone")
        await world.says(resources.CLAIMS, "late", "Prepared", "True", timeout=60.0)
        assert (await world.get(resources.ATTACHMENTS, "late"))["status"]["vpcAttachment"] == freed
        await sound(cell, namespace)
        await world.close()
        assert program.tracebacks == []
