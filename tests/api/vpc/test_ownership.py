"""Who owns which field after a full life of an interface (R23 table, T20)."""

from collections.abc import Iterator
from typing import Any

from netclaim.api import resources
from tests.api.vpc.world import CONTEXT, World

Raw = dict[str, Any]
NAME = "web-0-eth0"

NODE_FACTS = ("node", "podName", "podUID", "containerID")
ATTACHMENT = {
    **dict.fromkeys(("vpc", "vpcAttachment", "Ready"), "vpc-controller"),
    "Programmed": "vpc-controller-programmed",
    **dict.fromkeys(NODE_FACTS, "node-agent"),
}
INTERFACE = {
    **dict.fromkeys(("vpc", "attachmentRef", "Prepared"), "vpc-controller"),
    "Programmed": "vpc-controller-programmed",
    **dict.fromkeys(("phase", "networkContextRef", "Allocated"), "nso"),
}
CLAIM = {"Prepared": "vpc-controller", "Programmed": "vpc-controller-programmed"}
VPC = dict.fromkeys(("vpc", "Ready"), "vpc-controller")


def status_owners(found: Raw) -> dict[str, set[str]]:
    """Field or condition type of the status -> its managers, from managedFields."""
    owners: dict[str, set[str]] = {}
    for entry in found["metadata"]["managedFields"]:
        for name in _names(entry.get("fieldsV1", {}).get("f:status", {})):
            owners.setdefault(name, set()).add(entry["manager"])
    return owners


def _names(fields: Raw) -> Iterator[str]:
    """Names of the fields, and types of the conditions whose status (not only the list's key) is owned."""
    for key, inner in fields.items():
        if key == "f:conditions":
            owned = (item for item, parts in inner.items() if item != "." and "f:status" in parts)
            yield from (item.removeprefix('k:{"type":"').removesuffix('"}') for item in owned)
        elif key.startswith("f:"):
            yield key.removeprefix("f:")


async def owners_are(world: World, resource: Any, name: str, table: dict[str, str]) -> None:
    found = status_owners(await world.get(resource, name))
    assert found == {field: {manager} for field, manager in table.items()}, f"{resource.kind} {name}"


async def test_after_a_full_life_no_field_has_an_owner_outside_the_table(world: World) -> None:
    """T20: one manager per row, the seed replaced by the owner, nothing left behind by an earlier state."""
    node = f"n-{world.namespace}"
    await world.context()
    await world.subnet("IPv4", "10.1.0.0", 20)
    await world.node(node)
    await world.interface(NAME)
    attachment = await world.prepared(NAME)
    await world.attach(NAME, node)
    advertisement = await world.advertise(attachment, node)
    await world.says(resources.CLAIMS, NAME, "Programmed", "True")
    await owners_are(world, resources.ATTACHMENTS, NAME, ATTACHMENT)
    await owners_are(world, resources.INTERFACES, NAME, INTERFACE)
    await owners_are(world, resources.CLAIMS, NAME, CLAIM)
    await owners_are(world, resources.VPCS, CONTEXT, VPC)

    await world.withdraw(advertisement)
    await world.detach(NAME)
    await world.says(resources.CLAIMS, NAME, "Programmed", "False", "Detached")
    await world.cell.delete(resources.CLAIMS, world.namespace, NAME)
    await world.hold(NAME, None)
    await world.says(resources.INTERFACES, NAME, "Prepared", "False", "InterfaceNotBound")
    await world.hold(NAME, await world.claim(NAME))
    await world.says(resources.CLAIMS, NAME, "Prepared", "True")
    await world.attach(NAME, node, "c-2")
    await world.advertise(attachment, node, container="c-2")
    await world.says(resources.CLAIMS, NAME, "Programmed", "True")
    await owners_are(world, resources.ATTACHMENTS, NAME, ATTACHMENT)
    await owners_are(world, resources.INTERFACES, NAME, INTERFACE)
    await owners_are(world, resources.CLAIMS, NAME, CLAIM)


async def test_facts_of_a_lost_node_leave_no_owner_behind(world: World) -> None:
    """T20: the controller applies the empty set *as* the agent, so that the next node starts from nothing."""
    node = f"n-{world.namespace}"
    await world.context()
    await world.node(node)
    await world.interface(NAME)
    attachment = await world.prepared(NAME)
    await world.attach(NAME, node)
    await world.advertise(attachment, node)
    await world.says(resources.CLAIMS, NAME, "Programmed", "True")
    await world.cell.delete(resources.NODES, None, node)
    await world.says(resources.CLAIMS, NAME, "Programmed", "False", "NodeGone")

    async def cleared() -> bool:
        found = status_owners(await world.get(resources.ATTACHMENTS, NAME))
        return all("node-agent" not in managers for managers in found.values())

    await world.eventually(cleared, "no field owned by node-agent")


async def test_the_objects_that_the_controller_makes_are_its_own(world: World) -> None:
    """T20: spec, finalizers and owners of VPC, attachment and definition."""
    await world.context()
    await world.interface(NAME)
    await world.prepared(NAME)
    for resource, name in ((resources.VPCS, CONTEXT), (resources.ATTACHMENTS, NAME), (resources.NADS, NAME)):
        found = await world.get(resource, name)
        managers = {e["manager"] for e in found["metadata"]["managedFields"] if "f:spec" in e["fieldsV1"]}
        assert managers == {"vpc-controller"}, resource.kind


async def test_the_programs_write_nothing_at_rest(world: World) -> None:
    """T32, T21: a settled interface has the same versions after the controller looked at it again."""
    await world.context()
    await world.interface(NAME)
    await world.prepared(NAME)
    kinds = ((resources.VPCS, CONTEXT), (resources.ATTACHMENTS, NAME), (resources.NADS, NAME), (resources.CLAIMS, NAME))

    async def versions() -> list[str]:
        return [(await world.get(kind, name))["metadata"]["resourceVersion"] for kind, name in kinds]

    await world.says(resources.CLAIMS, NAME, "Prepared", "True")
    before = await versions()
    # A neighbour's whole way to Prepared gives the controller reason and time to look at this one again.
    op = {"op": "add", "path": "/metadata/annotations", "value": {"looked": "again"}}
    await world.cell.json_patch(resources.INTERFACES, world.namespace, NAME, [op])
    await world.interface("other", number=9)
    await world.says(resources.CLAIMS, "other", "Prepared", "True")
    assert await versions() == before
