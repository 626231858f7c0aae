"""NetworkContext -> VPC and its identifier, on a real API server (R25, R32)."""

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.conditions import reason_of
from netclaim.kube.client import Client
from tests.api.vpc.world import CONTEXT, SYSTEM, World


async def vpc_of(world: World, name: str = CONTEXT) -> dict:  # type: ignore[type-arg]
    return await world.says(resources.VPCS, name, "Ready", "True")


def identifier_name(vpc: dict) -> str:  # type: ignore[type-arg]
    return identity.vpc_identifier_name(identity.from_base62(vpc["status"]["vpc"]))


async def test_a_context_gets_a_vpc_of_its_name_with_an_identifier_that_is_an_object(world: World) -> None:
    """R25: random 48 bits, published in base62, drawn by creating the Identifier."""
    context = await world.context()
    vpc = await vpc_of(world)
    value = identity.from_base62(vpc["status"]["vpc"])
    assert identity.is_valid(value, identity.VPC_BITS)
    assert [owner["uid"] for owner in vpc["metadata"]["ownerReferences"]] == [context["metadata"]["uid"]]
    drawn = await world.cell.get(resources.IDENTIFIERS, SYSTEM, f"vpc-{value:x}")
    assert drawn["spec"]["holder"] == {
        "kind": "NetworkContext",
        "namespace": world.namespace,
        "name": CONTEXT,
        "uid": context["metadata"]["uid"],
    }
    assert drawn["metadata"]["labels"] == {cloud.VPC_LABEL: vpc["status"]["vpc"]}


async def test_the_networks_of_a_vpc_follow_its_subnets(world: World) -> None:
    """spec.networks has the ranges, also of a subnet that comes or goes later."""
    await world.context()
    await world.subnet("IPv6", "fd20:0:0:1::", 64)

    async def networks() -> list[str]:
        return list((await vpc_of(world))["spec"]["networks"])

    async def are(*wanted: str) -> None:
        async def match() -> bool:
            return await networks() == list(wanted)

        await world.eventually(match, f"networks {wanted}")

    await are("fd20:0:0:1::/64")
    await world.subnet("IPv4", "10.1.0.0", 20)
    await are("10.1.0.0/20", "fd20:0:0:1::/64")
    await world.cell.delete(resources.SUBNETS, world.namespace, f"{CONTEXT}-ipv6")
    await are("10.1.0.0/20")


async def test_two_contexts_of_one_name_in_two_namespaces_are_two_vpcs(world: World, cell: Client) -> None:
    """R32: unique in the cell, not in the namespace."""
    other = World(cell, f"{world.namespace}-b")
    await cell.create(resources.NAMESPACES, {"metadata": {"name": other.namespace}})
    try:
        await world.context()
        await other.context()
        assert (await vpc_of(world))["status"]["vpc"] != (await vpc_of(other))["status"]["vpc"]
    finally:
        await other.close()
        await cell.delete(resources.NAMESPACES, None, other.namespace)


async def test_a_vpc_that_was_deleted_by_hand_comes_back_with_its_identity(world: World) -> None:
    """R32: the identifier is held by the context, not by the VPC object."""
    await world.context()
    before = await vpc_of(world)
    await world.cell.delete(resources.VPCS, world.namespace, CONTEXT)

    async def back() -> bool:
        found = await world.find(resources.VPCS, CONTEXT)
        return found is not None and found["metadata"]["uid"] != before["metadata"]["uid"]

    await world.eventually(back, "a new VPC object")
    assert (await vpc_of(world))["status"]["vpc"] == before["status"]["vpc"]


async def test_an_identifier_that_was_deleted_by_hand_is_taken_up_again(world: World) -> None:
    """R32: what is published stays true, and nobody else can draw the value."""
    await world.context()
    before = await vpc_of(world)
    await world.cell.delete(resources.IDENTIFIERS, SYSTEM, identifier_name(before))

    async def back() -> bool:
        return not await world.gone(resources.IDENTIFIERS, identifier_name(before), SYSTEM)

    await world.eventually(back, "the Identifier")
    assert (await vpc_of(world))["status"]["vpc"] == before["status"]["vpc"]


async def test_an_identifier_is_not_freed_while_an_advertisement_carries_it(world: World) -> None:
    """R32: a freed value must not be given out while routes to its predecessor may still be in place."""
    await world.context()
    await world.interface("web-0-eth0")
    attachment = await world.prepared("web-0-eth0")
    vpc = await vpc_of(world)
    advertisement = await world.advertise(attachment, "nowhere")
    await world.cell.delete(resources.INTERFACES, world.namespace, "web-0-eth0")
    await world.eventually(world._released, "the interface is gone")
    await world.cell.delete(resources.NETWORK_CONTEXTS, world.namespace, CONTEXT)

    async def vpc_gone() -> bool:
        return await world.gone(resources.VPCS, CONTEXT)

    await world.eventually(vpc_gone, "the VPC is collected with its context", timeout=30.0)
    mine = identity.attachment_identifier_name(
        identity.from_base62(vpc["status"]["vpc"]), identity.from_base62(attachment["status"]["vpcAttachment"])
    )
    assert not await world.gone(resources.IDENTIFIERS, mine, SYSTEM)
    assert not await world.gone(resources.IDENTIFIERS, identifier_name(vpc), SYSTEM)
    await world.withdraw(advertisement)

    async def freed() -> bool:
        return await world.gone(resources.IDENTIFIERS, mine, SYSTEM) and await world.gone(
            resources.IDENTIFIERS, identifier_name(vpc), SYSTEM
        )

    await world.eventually(freed, "both identifiers are free")


async def test_a_vpc_of_somebody_else_is_never_overwritten(world: World) -> None:
    """An object of that name that is not ours is refused by name."""
    spec = {"networkContextRef": {"name": "something"}, "networks": ["192.0.2.0/24"]}
    await world.cell.create(resources.VPCS, {"metadata": {"name": CONTEXT, "namespace": world.namespace}, "spec": spec})
    await world.context()
    await world.interface("web-0-eth0")
    told = await world.says(resources.INTERFACES, "web-0-eth0", "Prepared", "False", "NameConflict")
    assert CONTEXT in str(told["status"]["conditions"])
    assert (await world.get(resources.VPCS, CONTEXT))["spec"] == spec

    async def event() -> bool:
        events = await world.cell.list(resources.EVENTS, world.namespace)
        return any(one["reason"] == "NameConflict" and one["regarding"]["kind"] == "NetworkContext" for one in events)

    await world.eventually(event, "an Event on the context")
    await world.cell.delete(resources.VPCS, world.namespace, CONTEXT)
    assert reason_of(await world.says(resources.CLAIMS, "web-0-eth0", "Prepared", "True"), "Prepared") == "Prepared"
