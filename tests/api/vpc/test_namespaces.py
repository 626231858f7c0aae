"""A namespace that is deleted before anything in it (T07)."""

from netclaim.api import networking, resources
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from tests.api.vpc.invariants import violations
from tests.api.vpc.programs import Program
from tests.api.vpc.world import World
from tests.waiting import until


async def test_a_namespace_that_is_deleted_first_goes_without_a_trace_or_an_error(
    vpc_controller: Program, cell: Client
) -> None:
    """T07: with an attachment that a node still has; nothing is Terminating once the node lets go."""
    world = World(cell, "deleted-first")
    await cell.create(resources.NAMESPACES, {"metadata": {"name": world.namespace}})
    await world.context()
    await world.node("n-deleted-first")
    for number in range(5):
        await world.interface(f"web-{number}-eth0", number=number + 2)
    for number in range(5):
        await world.prepared(f"web-{number}-eth0")
    await world.attach("web-0-eth0", "n-deleted-first")
    await cell.delete(resources.NAMESPACES, None, world.namespace)
    await world.says(resources.INTERFACES, "web-0-eth0", "Prepared", "False", "AttachmentBeingReleased", timeout=30.0)
    held = await world.get(resources.INTERFACES, "web-0-eth0")
    assert networking.INTERFACE_RELEASE_FINALIZER in held["metadata"]["finalizers"]
    await world.close()

    async def gone() -> bool:
        try:
            await cell.get(resources.NAMESPACES, None, world.namespace)
        except NotFound:
            return True
        return False

    await until(gone, timeout=60.0, what="the namespace is gone")
    assert await violations(cell, world.namespace) == []
    assert '"level":"error"' not in vpc_controller.log.read_text()
