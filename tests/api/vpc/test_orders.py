"""Deletion in every order and with every propagation, also half-way up, and namesakes on every level (T06, T07)."""

import asyncio
import contextlib
import random

import pytest

from netclaim import identity
from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import NotFound
from tests.api.vpc.invariants import sound, violations
from tests.api.vpc.test_attachments import identity_of
from tests.api.vpc.world import CONTEXT, World
from vpc_controller import drawing
from vpc_controller.identifiers import Draw, Holder

KINDS = (resources.INTERFACES, resources.CLAIMS, resources.ATTACHMENTS, resources.NADS)
POLICIES = ("Foreground", "Background", "Orphan")


async def test_whatever_is_deleted_in_whatever_order_all_of_it_goes(world: World) -> None:
    """T07: each interface with its own order and propagation policies, half of them before they were prepared."""
    chance = random.Random(7)
    await world.context()
    names = [f"web-{number}-eth0" for number in range(12)]
    for number, name in enumerate(names):
        await world.interface(name, number=number + 2)
        if number % 2:
            await world.prepared(name)
    await asyncio.gather(*(_delete(world, name, chance.sample(KINDS, len(KINDS)), chance) for name in names))
    await world.cell.delete(resources.NETWORK_CONTEXTS, world.namespace, CONTEXT, propagation="Foreground")
    # Fails when anything is still there, or an identifier is still held.
    await world.close()
    assert await violations(world.cell, world.namespace) == []


async def _delete(world: World, name: str, order: list[Resource], chance: random.Random) -> None:
    for kind in order:
        with contextlib.suppress(NotFound):
            await world.cell.delete(kind, world.namespace, name, propagation=chance.choice(POLICIES))


async def test_an_orphaned_attachment_is_taken_down_when_its_interface_is_gone(world: World) -> None:
    """T07: orphaning takes the owner reference away; what a node has stays until it lets go."""
    await world.context()
    node = f"n-{world.namespace}"
    await world.node(node)
    await world.interface("web-0-eth0")
    await world.prepared("web-0-eth0")
    await world.attach("web-0-eth0", node)
    await world.cell.delete(resources.INTERFACES, world.namespace, "web-0-eth0", propagation="Orphan")
    await world.says(resources.INTERFACES, "web-0-eth0", "Prepared", "False", "AttachmentBeingReleased")
    assert (await world.get(resources.ATTACHMENTS, "web-0-eth0"))["status"]["node"] == node
    await world.detach("web-0-eth0")
    await world.close()


async def test_a_context_of_the_same_name_is_another_network(world: World) -> None:
    """T06: a new VPC with an identity of its own; the interfaces follow, and the old identities are freed."""
    await world.context()
    await world.interface("web-0-eth0")
    before = await world.prepared("web-0-eth0")
    old = await world.get(resources.VPCS, CONTEXT)
    await world.cell.delete(resources.NETWORK_CONTEXTS, world.namespace, CONTEXT)
    await world.context()

    async def moved() -> Raw | None:
        vpc = await world.find(resources.VPCS, CONTEXT)
        found = await world.find(resources.ATTACHMENTS, "web-0-eth0")
        if vpc is None or found is None or vpc["metadata"]["uid"] == old["metadata"]["uid"]:
            return None
        is_there = "vpc" in vpc.get("status", {}) and found["status"].get("vpc") == vpc["status"]["vpc"]
        return found if is_there else None

    after = await world.eventually(moved, "the attachment is one of the new VPC")
    assert identity_of(after)[0] != identity_of(before)[0]
    # The old identities are freed, and the definition says the new one.
    await sound(world.cell, world.namespace)


async def test_a_vpc_that_was_orphaned_is_taken_over_by_the_next_context_of_its_name(world: World) -> None:
    """T06, T07: nobody has to clean up by hand before the name can be used again."""
    await world.context()
    await world.says(resources.VPCS, CONTEXT, "Ready", "True")
    await world.cell.delete(resources.NETWORK_CONTEXTS, world.namespace, CONTEXT, propagation="Orphan")
    await world.eventually(lambda: world.gone(resources.NETWORK_CONTEXTS, CONTEXT), "the context is gone")
    context = await world.context()
    await world.interface("web-0-eth0")
    await world.prepared("web-0-eth0")
    vpc = await world.get(resources.VPCS, CONTEXT)
    assert [owner["uid"] for owner in vpc["metadata"]["ownerReferences"]] == [context["metadata"]["uid"]]
    # The VPC's identity is held by the new context.
    await sound(world.cell, world.namespace)


async def test_a_node_of_the_same_name_does_not_inherit_what_its_predecessor_said(world: World) -> None:
    """T06, T08: the router goes with its Node; what it advertised counts no more, although a namesake is there."""
    await world.context()
    node = f"n-{world.namespace}"
    await world.node(node)
    await world.interface("web-0-eth0")
    attachment = await world.prepared("web-0-eth0")
    await world.attach("web-0-eth0", node)
    await world.advertise(attachment, node)
    await world.says(resources.CLAIMS, "web-0-eth0", "Programmed", "True")
    await world.cell.delete(resources.NODES, None, node)
    await world.cell.create(resources.NODES, {"metadata": {"name": node}})
    for kind in (resources.ATTACHMENTS, resources.INTERFACES, resources.CLAIMS):
        await world.says(kind, "web-0-eth0", "Programmed", "False")


async def test_a_claim_of_the_same_name_gets_the_identity_and_none_of_the_old_promises(world: World) -> None:
    """T06, R28: the interface is bound anew; the new claim hears of Prepared itself."""
    await world.context()
    first = await world.claim("web-0-eth0")
    await world.interface("web-0-eth0", first)
    before = await world.prepared("web-0-eth0")
    await world.cell.delete(resources.CLAIMS, world.namespace, "web-0-eth0")
    second = await world.claim("web-0-eth0")
    await world.hold("web-0-eth0", second)
    told = await world.says(resources.CLAIMS, "web-0-eth0", "Prepared", "True")
    assert told["metadata"]["uid"] == second["metadata"]["uid"]
    after = await world.get(resources.ATTACHMENTS, "web-0-eth0")
    assert identity_of(after) == identity_of(before)
    assert after["spec"]["claimUID"] == second["metadata"]["uid"]


async def test_a_second_identifier_of_one_holder_is_freed_as_soon_as_the_attachment_says_which_one_it_took(
    world: World, cell: Client
) -> None:
    """R32, T02: a draw whose reply was lost, or a second leader, leaves one that nobody uses."""
    await world.context()
    interface = await world.interface("web-0-eth0", bound=False)
    vpc = (await world.says(resources.VPCS, CONTEXT, "Ready", "True"))["status"]["vpc"]
    drawn = [await world.draw(interface, vpc, value) for value in (5, 9)]
    await world.bind("web-0-eth0")
    attachment = await world.prepared("web-0-eth0")
    assert attachment["status"]["vpcAttachment"] == "5"

    async def freed() -> bool:
        return await world.gone(resources.IDENTIFIERS, drawn[1], world.SYSTEM)

    await world.eventually(freed, "the second one is free again")
    assert not await world.gone(resources.IDENTIFIERS, drawn[0], world.SYSTEM)


@pytest.mark.parametrize("of", ["a stranger", "the interface itself"])
async def test_a_value_that_is_taken_in_the_very_moment_is_drawn_by_one_of_the_two(world: World, of: str) -> None:
    """T31: a forced collision. The store knows nothing of the other's Identifier; the API server does."""
    interface = await world.interface("web-0-eth0", bound=False)
    other = interface if of == "the interface itself" else await world.interface("other", bound=False, number=9)
    vpc = 2**47 + random.Random(world.namespace).randrange(2**40)
    await world.draw(other, identity.to_base62(vpc), 1)
    # Nothing follows the API server here, as if all of it had happened in the moment before.
    cluster = Cluster(world.cell)
    for kind in (resources.IDENTIFIERS, resources.BGP_ADVERTISEMENTS, resources.VPCS, resources.ATTACHMENTS):
        cluster.reflect(kind)
    holder = Holder("NetworkInterface", world.namespace, "web-0-eth0", interface["metadata"]["uid"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing.secrets, "randbelow", lambda _: 0)
        value = await drawing.Drawing(cluster, world.SYSTEM).draw(Draw(holder, vpc=vpc))
    assert value == (1 if of == "the interface itself" else 2)
    held = await world.cell.get(resources.IDENTIFIERS, world.SYSTEM, identity.attachment_identifier_name(vpc, value))
    assert held["spec"]["holder"]["uid"] == interface["metadata"]["uid"]
