"""What the data plane says -> Programmed, on a real API server (R24, R27, R31, R32)."""

from typing import Any

import pytest

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.conditions import message_of, status_of
from tests.api.vpc.world import CONTEXT, SYSTEM, World

Raw = dict[str, Any]
NAME = "web-0-eth0"
KINDS = (resources.ATTACHMENTS, resources.INTERFACES, resources.CLAIMS)


def node_of(world: World) -> str:
    return f"n-{world.namespace}"


async def all_say(world: World, status: str, reason: str) -> None:
    for kind in KINDS:
        await world.says(kind, NAME, "Programmed", status, reason)


async def attached(world: World) -> Raw:
    """An interface whose attachment a node has claimed; not advertised yet."""
    await world.context()
    await world.node(node_of(world))
    await world.interface(NAME)
    await world.prepared(NAME)
    await world.attach(NAME, node_of(world))
    return await world.get(resources.ATTACHMENTS, NAME)


async def test_nothing_is_said_before_the_data_plane_has_spoken(world: World) -> None:
    """R31: Programmed stays the seed until CNI ADD; the claim alone does not make it true."""
    attachment = await attached(world)
    assert status_of(await world.get(resources.CLAIMS, NAME), "Programmed") == "Unknown"
    await world.advertise(attachment, node_of(world), advertised=None)
    await all_say(world, "Unknown", "AwaitingDataPlane")


async def test_an_advertised_attachment_is_programmed_on_all_three(world: World) -> None:
    """R27."""
    attachment = await attached(world)
    await world.advertise(attachment, node_of(world))
    await all_say(world, "True", "Programmed")
    assert node_of(world) in message_of(await world.get(resources.CLAIMS, NAME), "Programmed")


async def test_a_withdrawn_advertisement_is_detached_also_when_nobody_holds_the_interface(world: World) -> None:
    """R24: a stale Programmed after release under Retain is corrected here, not by NSO."""
    attachment = await attached(world)
    advertisement = await world.advertise(attachment, node_of(world))
    await all_say(world, "True", "Programmed")
    await world.cell.delete(resources.CLAIMS, world.namespace, NAME)
    await world.hold(NAME, None)
    await world.says(resources.INTERFACES, NAME, "Programmed", "True", "Programmed")
    await world.withdraw(advertisement)
    await world.detach(NAME)
    await world.says(resources.INTERFACES, NAME, "Programmed", "False", "Detached")
    await world.says(resources.ATTACHMENTS, NAME, "Programmed", "False", "Detached")


async def test_a_node_that_says_no_is_believed(world: World) -> None:
    attachment = await attached(world)
    advertisement = await world.advertise(attachment, node_of(world))
    await all_say(world, "True", "Programmed")
    await world.say(advertisement, "False")
    await all_say(world, "False", "Detached")
    await world.say(advertisement, "True")
    await all_say(world, "True", "Programmed")


async def test_a_deleted_node_frees_what_it_had(world: World) -> None:
    """T08: Programmed=False, and the facts are cleared, so that the interface can be released."""
    attachment = await attached(world)
    await world.advertise(attachment, node_of(world))
    await all_say(world, "True", "Programmed")
    await world.cell.delete(resources.NODES, None, node_of(world))
    await all_say(world, "False", "NodeGone")

    async def cleared() -> bool:
        return "node" not in (await world.get(resources.ATTACHMENTS, NAME))["status"]

    await world.eventually(cleared, "no node facts")
    found = await world.get(resources.ATTACHMENTS, NAME)
    assert (found["status"]["vpc"], found["status"]["vpcAttachment"]) == (
        attachment["status"]["vpc"],
        attachment["status"]["vpcAttachment"],
    )


async def test_a_node_that_is_merely_not_ready_keeps_its_interfaces_and_one_out_of_service_does_not(
    world: World,
) -> None:
    """T08: an operator's taint says that a node is off for good."""
    attachment = await attached(world)
    await world.advertise(attachment, node_of(world))
    await all_say(world, "True", "Programmed")
    await _taint(world, "node.kubernetes.io/unreachable")
    await world.cell.json_patch(
        resources.ATTACHMENTS,
        world.namespace,
        NAME,
        [{"op": "add", "path": "/metadata/annotations", "value": {"seen": "1"}}],
    )
    await all_say(world, "True", "Programmed")
    assert (await world.get(resources.ATTACHMENTS, NAME))["status"]["node"] == node_of(world)
    await _taint(world, "node.kubernetes.io/out-of-service")
    await all_say(world, "False", "NodeGone")


async def _taint(world: World, key: str) -> None:
    taints = [{"key": key, "effect": "NoExecute"}]
    await world.cell.json_patch(
        resources.NODES, None, node_of(world), [{"op": "add", "path": "/spec/taints", "value": taints}]
    )


async def test_an_advertisement_of_an_earlier_container_does_not_count(world: World) -> None:
    """T10: what a dead container left behind says nothing about its successor."""
    attachment = await attached(world)
    await world.advertise(attachment, node_of(world), container="c-0")
    await all_say(world, "Unknown", "AwaitingDataPlane")
    await world.advertise(attachment, node_of(world), container="c-1")
    await all_say(world, "True", "Programmed")


@pytest.mark.parametrize("spoiled", ["case", "other vpc", "other uid"])
async def test_an_advertisement_with_another_identity_never_counts(world: World, spoiled: str) -> None:
    """R32: labels and attachmentRef must both carry the identity; base62 knows case."""
    attachment = await attached(world)
    vpc, mine = attachment["status"]["vpc"], attachment["status"]["vpcAttachment"]
    labels = {cloud.VPC_LABEL: vpc, cloud.VPC_ATTACHMENT_LABEL: mine}
    spoil = dict(attachment)
    if spoiled == "case":
        labels[cloud.VPC_LABEL] = vpc.swapcase() if vpc.swapcase() != vpc else f"{vpc[:-1]}Z"
    elif spoiled == "other vpc":
        labels[cloud.VPC_LABEL] = f"{vpc}1"[-9:] if f"{vpc}1"[-9:] != vpc else "1"
    else:
        spoil = {**attachment, "metadata": {**attachment["metadata"], "uid": "another"}}
    await world.advertise(spoil, node_of(world), labels=labels)
    other = await world.claim("other")
    await world.interface("other", other, number=9)
    second = await world.prepared("other")
    await world.attach("other", node_of(world), "c-2")
    await world.advertise(second, node_of(world), container="c-2")
    await world.says(resources.CLAIMS, "other", "Programmed", "True", "Programmed")
    assert status_of(await world.get(resources.CLAIMS, NAME), "Programmed") == "Unknown"


async def test_an_advertisement_that_comes_before_the_router_and_the_facts_is_not_lost(world: World) -> None:
    """The order of arrival does not matter: each later event completes it."""
    await world.context()
    await world.interface(NAME)
    attachment = await world.prepared(NAME)
    await world.advertise(attachment, node_of(world))
    await world.attach(NAME, node_of(world))
    await world.node(node_of(world))
    await all_say(world, "True", "Programmed")


async def test_an_uppercase_identity_finds_its_way_back(world: World) -> None:
    """T31: identifiers of 36 and more have upper case letters; names never do."""
    await world.context()
    await world.node(node_of(world))
    interface = await world.interface(NAME, bound=False)
    vpc = (await world.says(resources.VPCS, CONTEXT, "Ready", "True"))["status"]["vpc"]
    holder = {
        "kind": "NetworkInterface",
        "namespace": world.namespace,
        "name": NAME,
        "uid": interface["metadata"]["uid"],
    }
    number = identity.from_base62(vpc)
    await world.cell.create(
        resources.IDENTIFIERS,
        {
            "metadata": {
                "name": identity.attachment_identifier_name(number, 36),
                "namespace": SYSTEM,
                "labels": {cloud.VPC_LABEL: vpc, cloud.VPC_ATTACHMENT_LABEL: "A"},
            },
            "spec": {"holder": holder},
        },
    )
    await world.bind(NAME)
    attachment = await world.prepared(NAME)
    assert attachment["status"]["vpcAttachment"] == "A"
    await world.attach(NAME, node_of(world))
    advertisement = await world.advertise(attachment, node_of(world))
    assert advertisement == advertisement.lower()
    await all_say(world, "True", "Programmed")


async def test_facts_are_filled_in_for_a_data_plane_that_writes_advertisements_alone(world: World) -> None:
    """Node facts from the router and the labels; they follow the advertisement."""
    await world.context()
    await world.node(node_of(world))
    await world.interface(NAME)
    attachment = await world.prepared(NAME)
    advertisement = await world.advertise(attachment, node_of(world), container=None)
    await all_say(world, "True", "Programmed")

    async def facts() -> Raw | None:
        status = (await world.get(resources.ATTACHMENTS, NAME))["status"]
        return status if "node" in status else None

    told = await world.eventually(facts, "node facts")
    vpc, mine = (identity.from_base62(attachment["status"][key]) for key in ("vpc", "vpcAttachment"))
    assert (told["node"], told["hostInterface"], told["vrfInterface"]) == (
        node_of(world),
        identity.host_interface(vpc, mine),
        identity.vrf_interface(vpc),
    )
    assert told["podSubnets"] == ["10.1.0.7/32"]
    await world.withdraw(advertisement)

    async def cleared() -> bool:
        return await facts() is None

    await world.eventually(cleared, "no node facts")
    await all_say(world, "False", "Detached")
