"""NetworkInterface -> VPCAttachment, identity, definition and Prepared, on a real API server (R17, R18, R26, R28)."""

import asyncio
import contextlib
import json
from typing import Any, Self

import pytest

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.conditions import condition, message_of
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import Conflict, NotFound
from tests.api.vpc.world import CONTEXT, SYSTEM, World
from tests.waiting import until

Raw = dict[str, Any]
NAME = "web-0-eth0"


def identity_of(attachment: Raw) -> tuple[str, str]:
    return attachment["status"]["vpc"], attachment["status"]["vpcAttachment"]


async def test_a_bound_interface_gets_attachment_identity_definition_and_prepared(world: World) -> None:
    """R26, R18: all of one name, each owned by the one before, addresses in host form with every gateway."""
    await world.context()
    interface = await world.interface(NAME)
    attachment = await world.prepared(NAME)
    assert attachment["spec"] == {
        "vpc": {"name": CONTEXT},
        "interfaceRef": {"name": NAME},
        "claimUID": interface["spec"]["claimRef"]["uid"],
        "interface": {
            "name": "eth0",
            "mode": "Netns",
            "mtu": 1400,
            "addresses": ["fd20::1:7:0:0:1/96", "10.1.0.7/32"],
            "gateways": ["fd20:0:0:1::1", "10.1.0.1"],
        },
    }
    assert attachment["metadata"]["ownerReferences"][0]["uid"] == interface["metadata"]["uid"]
    assert attachment["metadata"]["finalizers"] == [cloud.IN_USE_FINALIZER]
    vpc, mine = identity_of(attachment)
    definition = await world.get(resources.NADS, NAME)
    assert definition["metadata"]["ownerReferences"][0]["uid"] == attachment["metadata"]["uid"]
    assert definition["metadata"]["labels"] == {cloud.VPC_LABEL: vpc, cloud.VPC_ATTACHMENT_LABEL: mine}
    assert json.loads(definition["spec"]["config"])["plugins"] == [
        {
            "type": "netclaim-cni",
            "vpc": vpc,
            "vpcAttachment": mine,
            "attachment": {"namespace": world.namespace, "name": NAME},
        }
    ]
    drawn = identity.attachment_identifier_name(identity.from_base62(vpc), identity.from_base62(mine))
    held = await world.cell.get(resources.IDENTIFIERS, SYSTEM, drawn)
    assert held["spec"]["holder"]["uid"] == interface["metadata"]["uid"]
    told = await world.get(resources.INTERFACES, NAME)
    assert (told["status"]["vpc"], told["status"]["attachmentRef"]) == (vpc, {"name": NAME})
    assert cloud.ATTACHED_FINALIZER in told["metadata"]["finalizers"]
    await world.says(resources.CLAIMS, NAME, "Prepared", "True", "Prepared")


async def test_everything_happens_in_the_order_that_protects_the_addresses(world: World, cell: Client) -> None:
    """Finalizer, identifier, attachment, its status, definition, interface status, claim status."""
    await world.context()
    await world.interface(NAME, bound=False)
    async with Recorder(world, cell) as seen:
        await world.bind(NAME)
        await world.says(resources.CLAIMS, NAME, "Prepared", "True")
        order = [
            await seen.first(resources.INTERFACES, lambda o: cloud.ATTACHED_FINALIZER in o["metadata"]["finalizers"]),
            await seen.first(resources.IDENTIFIERS, lambda o: o["spec"]["holder"]["name"] == NAME),
            await seen.first(resources.ATTACHMENTS, lambda _: True),
            await seen.first(resources.ATTACHMENTS, lambda o: bool(o.get("status", {}).get("vpcAttachment"))),
            await seen.first(resources.NADS, lambda _: True),
            await seen.first(resources.INTERFACES, _is_prepared),
            await seen.first(resources.CLAIMS, _is_prepared),
        ]
    assert order == sorted(order)


def _is_prepared(found: Raw) -> bool:
    return (condition(found, "Prepared") or {}).get("status") == "True"


class Recorder:
    """Every version of the interface's objects, by watches that begin before anything happens."""

    KINDS = (resources.INTERFACES, resources.CLAIMS, resources.ATTACHMENTS, resources.NADS, resources.IDENTIFIERS)

    def __init__(self, world: World, cell: Client) -> None:
        self._world = world
        self._cell = cell
        self._seen: list[tuple[Resource, Raw]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for kind in self.KINDS:
            namespace = SYSTEM if kind is resources.IDENTIFIERS else self._world.namespace
            async for page in self._cell.list_pages(kind, namespace):
                version = page.resource_version
            self._tasks.append(asyncio.create_task(self._follow(kind, namespace, version)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _follow(self, kind: Resource, namespace: str, version: str) -> None:
        async with contextlib.aclosing(self._cell.watch(kind, namespace, resource_version=version)) as events:
            async for event in events:
                self._seen.append((kind, event.object))

    async def first(self, kind: Resource, is_wanted: Any) -> int:
        """Version of the first object of the kind that is as wanted (versions count over all kinds)."""

        def found() -> int:
            versions = (
                int(one["metadata"]["resourceVersion"])
                for seen, one in self._seen
                if seen is kind and "name" in one["metadata"] and is_wanted(one)
            )
            return next(versions, 0)

        return await until(found, what=f"a {kind.kind} as wanted")


@pytest.mark.parametrize(
    ("phase", "allocated", "reason"),
    [("Available", "True", "InterfaceNotBound"), ("Bound", "False", "AwaitingAllocation")],
)
async def test_an_interface_that_is_not_fulfilled_has_no_attachment(
    world: World, phase: str, allocated: str, reason: str
) -> None:
    """R28: a fulfilled claim is the trigger, and the event that fulfils it is enough."""
    await world.context()
    await world.interface(NAME, bound=False)
    await world.bind(NAME, phase, allocated)
    await world.says(resources.INTERFACES, NAME, "Prepared", "False", reason)
    assert await world.gone(resources.ATTACHMENTS, NAME)
    await world.bind(NAME)
    await world.prepared(NAME)


async def test_a_missing_vpc_is_waited_for_and_its_event_ends_the_wait(world: World) -> None:
    """`AwaitingVPC` is left by the VPC's event, not by a timer."""
    await world.interface(NAME)
    told = await world.says(resources.INTERFACES, NAME, "Prepared", "False", "AwaitingVPC")
    assert CONTEXT in message_of(told, "Prepared")
    await world.says(resources.CLAIMS, NAME, "Prepared", "False", "AwaitingVPC")
    assert await world.gone(resources.ATTACHMENTS, NAME)
    await world.context()
    await world.says(resources.CLAIMS, NAME, "Prepared", "True")


@pytest.mark.parametrize("resource", [resources.NADS, resources.ATTACHMENTS, resources.VPCS])
async def test_an_object_that_was_deleted_by_hand_comes_back_with_the_same_identity(
    world: World, resource: Resource
) -> None:
    """R28, R32: identity is held by what is behind the objects."""
    await world.context()
    await world.interface(NAME)
    before = await world.prepared(NAME)
    name = CONTEXT if resource is resources.VPCS else NAME
    lost = await world.get(resource, name)
    await world.cell.delete(resource, world.namespace, name)

    async def back() -> bool:
        found = await world.find(resource, name)
        definition = await world.find(resources.NADS, NAME)
        attachment = await world.find(resources.ATTACHMENTS, NAME)
        if found is None or definition is None or attachment is None or "vpc" not in attachment.get("status", {}):
            return False
        owned = definition["metadata"]["ownerReferences"][0]["uid"] == attachment["metadata"]["uid"]
        return owned and bool(found["metadata"]["uid"] != lost["metadata"]["uid"])

    await world.eventually(back, f"a new {resource.kind}, and all that belongs to it")
    assert identity_of(await world.prepared(NAME)) == identity_of(before)


async def test_what_was_changed_by_hand_is_set_right(world: World) -> None:
    """A tenant who can write definitions and attachments gains nothing by it."""
    await world.context()
    await world.interface(NAME)
    attachment = await world.prepared(NAME)
    definition = await world.get(resources.NADS, NAME)
    await world.cell.json_patch(
        resources.NADS, world.namespace, NAME, [{"op": "replace", "path": "/spec/config", "value": "{}"}]
    )
    await world.cell.json_patch(
        resources.ATTACHMENTS,
        world.namespace,
        NAME,
        [
            {"op": "replace", "path": "/spec/interface/addresses", "value": ["10.1.0.99/32"]},
            {"op": "remove", "path": "/metadata/finalizers"},
        ],
    )

    async def right() -> bool:
        now = await world.get(resources.ATTACHMENTS, NAME)
        return (
            (await world.get(resources.NADS, NAME))["spec"] == definition["spec"]
            and now["spec"] == attachment["spec"]
            and now["metadata"].get("finalizers") == [cloud.IN_USE_FINALIZER]
        )

    await world.eventually(right, "definition and attachment as they were")


@pytest.mark.parametrize("resource", [resources.NADS, resources.ATTACHMENTS])
async def test_an_object_of_somebody_else_is_refused_by_name_and_never_overwritten(
    world: World, resource: Resource
) -> None:
    """`NameConflict` names it; it is taken over by nobody, and its removal ends the refusal."""
    spec: Raw = {"config": "{}"}
    if resource is resources.ATTACHMENTS:
        spec = {"vpc": {"name": "mine"}, "interface": {"name": "eth7", "mode": "Hypervisor", "addresses": []}}
    made = await world.cell.create(resource, {"metadata": {"name": NAME, "namespace": world.namespace}, "spec": spec})
    await world.context()
    await world.interface(NAME)
    told = await world.says(resources.INTERFACES, NAME, "Prepared", "False", "NameConflict")
    assert f"{resource.kind} {NAME}" in message_of(told, "Prepared")
    assert (await world.get(resource, NAME))["spec"] == made["spec"]
    await world.cell.delete(resource, world.namespace, NAME)
    await world.prepared(NAME)


async def test_an_unheld_interface_keeps_its_attachment_and_identity_for_the_next_claim(world: World) -> None:
    """Retain: the attachment follows the new holder, with the same identity and device names (R28)."""
    await world.context()
    first = await world.claim(NAME)
    await world.interface(NAME, first)
    before = await world.prepared(NAME)
    await world.cell.delete(resources.CLAIMS, world.namespace, NAME)
    await world.hold(NAME, None)
    told = await world.says(resources.INTERFACES, NAME, "Prepared", "False", "InterfaceNotBound")
    assert (told["status"]["vpc"], told["status"]["attachmentRef"]) == (before["status"]["vpc"], {"name": NAME})
    second = await world.claim(NAME)
    await world.hold(NAME, second)
    await world.says(resources.CLAIMS, NAME, "Prepared", "True")
    after = await world.get(resources.ATTACHMENTS, NAME)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert identity_of(after) == identity_of(before)
    assert after["spec"]["claimUID"] == second["metadata"]["uid"]


async def test_a_new_claim_waits_while_the_pod_of_the_previous_one_still_runs(world: World) -> None:
    """`PreviousHolderAttached` on the new claim until the facts are empty; then the attachment is its own."""
    await world.context()
    await world.node(f"n-{world.namespace}")
    first = await world.claim(NAME)
    await world.interface(NAME, first)
    await world.prepared(NAME)
    await world.attach(NAME, f"n-{world.namespace}")
    await world.cell.delete(resources.CLAIMS, world.namespace, NAME)
    await world.hold(NAME, None)
    second = await world.claim(NAME)
    await world.hold(NAME, second)
    told = await world.says(resources.CLAIMS, NAME, "Prepared", "False", "PreviousHolderAttached")
    assert "Pod web-0" in message_of(told, "Prepared")
    await world.says(resources.CLAIMS, NAME, "Programmed", "False", "PreviousHolderAttached")
    assert (await world.get(resources.ATTACHMENTS, NAME))["spec"]["claimUID"] == first["metadata"]["uid"]
    await world.detach(NAME)
    await world.says(resources.CLAIMS, NAME, "Prepared", "True")
    assert (await world.get(resources.ATTACHMENTS, NAME))["spec"]["claimUID"] == second["metadata"]["uid"]


async def test_a_released_interface_waits_for_the_node_and_then_goes(world: World) -> None:
    """No address is released under a running Pod: `attached` stays until the node's facts are empty."""
    await world.context()
    await world.node(f"n-{world.namespace}")
    await world.interface(NAME)
    await world.prepared(NAME)
    await world.attach(NAME, f"n-{world.namespace}")
    await world.cell.delete(resources.INTERFACES, world.namespace, NAME)
    told = await world.says(resources.INTERFACES, NAME, "Prepared", "False", "AttachmentBeingReleased")
    assert f"n-{world.namespace}" in message_of(told, "Prepared")
    attachment = await world.get(resources.ATTACHMENTS, NAME)
    assert attachment["metadata"]["finalizers"] == [cloud.IN_USE_FINALIZER]
    assert cloud.ATTACHED_FINALIZER in told["metadata"]["finalizers"]
    await world.detach(NAME)

    async def let_go() -> bool:
        found = await world.get(resources.INTERFACES, NAME)
        return cloud.ATTACHED_FINALIZER not in found["metadata"]["finalizers"]

    await world.eventually(let_go, "the interface without `attached`")
    assert await world.gone(resources.ATTACHMENTS, NAME)


async def test_of_release_and_add_one_comes_first_and_the_other_sees_it(world: World) -> None:
    """An ADD that read the attachment before its deletion cannot claim it afterwards."""
    await world.context()
    await world.node(f"n-{world.namespace}")
    await world.interface(NAME)
    read = await world.prepared(NAME)
    await world.cell.delete(resources.INTERFACES, world.namespace, NAME)
    await world.eventually(lambda: world.gone(resources.ATTACHMENTS, NAME), "the attachment is gone")
    with pytest.raises(NotFound):
        await world.claim_attachment(read, f"n-{world.namespace}")


async def test_an_add_that_comes_during_the_release_holds_it(world: World) -> None:
    """The facts that a node wrote before `in-use` was dropped keep the interface: `in-use` is dropped over the very
    version in which the facts were empty, and nothing is read again in between."""
    await world.context()
    await world.node(f"n-{world.namespace}")
    await world.interface(NAME)
    for _ in range(10):
        attachment = await world.prepared(NAME)
        release = asyncio.create_task(world.cell.delete(resources.ATTACHMENTS, world.namespace, NAME))
        try:
            await world.claim_attachment(attachment, f"n-{world.namespace}")
            claimed = True
        except (Conflict, NotFound):
            claimed = False
        await release
        if claimed:
            found = await world.get(resources.ATTACHMENTS, NAME)
            assert found["metadata"]["uid"] == attachment["metadata"]["uid"]
            assert found["metadata"]["finalizers"] == [cloud.IN_USE_FINALIZER]
            await world.detach(NAME)

        async def anew(old: str = attachment["metadata"]["uid"]) -> bool:
            found = await world.find(resources.ATTACHMENTS, NAME)
            return found is not None and found["metadata"]["uid"] != old and "vpc" in found.get("status", {})

        await world.eventually(anew, "a new attachment")


async def test_an_attachment_outlives_an_interface_that_was_forced_away_until_its_node_lets_go(world: World) -> None:
    """T07: finalizers removed by hand do not free a device that a Pod uses."""
    await world.context()
    await world.node(f"n-{world.namespace}")
    await world.interface(NAME)
    attachment = await world.prepared(NAME)
    await world.attach(NAME, f"n-{world.namespace}")
    await world.cell.delete(resources.INTERFACES, world.namespace, NAME)
    await world.says(resources.INTERFACES, NAME, "Prepared", "False", "AttachmentBeingReleased")
    ops = [{"op": "remove", "path": "/metadata/finalizers"}]
    await world.cell.json_patch(resources.INTERFACES, world.namespace, NAME, ops)
    await world.eventually(lambda: world.gone(resources.INTERFACES, NAME), "the interface is gone")
    # A namesake must wait for the old one's guest.
    claim = await world.claim("second")
    await world.interface(NAME, claim)
    await world.says(resources.INTERFACES, NAME, "Prepared", "False", "AttachmentBeingReleased")
    found = await world.get(resources.ATTACHMENTS, NAME)
    assert found["metadata"]["uid"] == attachment["metadata"]["uid"]
    await world.detach(NAME)
    after = await world.prepared(NAME)
    assert after["metadata"]["uid"] != attachment["metadata"]["uid"]
    assert identity_of(after) != identity_of(attachment)
