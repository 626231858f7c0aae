"""The plan of an attachment: what comes first, what waits, what is never touched (R26, R28)."""

from typing import Any

from netclaim.api import cloud, resources
from netclaim.api.cloud import VPC, VPCAttachment
from netclaim.api.cni import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from netclaim.api.networking import NetworkInterface, NetworkInterfaceClaim
from netclaim.kube.writes import Apply, ApplyStatus, Create, Delete, DropFinalizer, Write
from vpc_controller import nad
from vpc_controller.attachment_plan import Attach, LetGo, Observed, Protect, exhausted, plan
from vpc_controller.identifiers import Draw, Holder

UNHELD: dict[str, Any] = {"finalizers": []}
GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def interface(*, finalizers: tuple[str, ...] = (cloud.ATTACHED_FINALIZER,), **parts: Any) -> NetworkInterface:
    status = {
        "phase": "Bound",
        "networkContextRef": {"name": "default-home"},
        "conditions": [{"type": "Allocated", "status": "True", "reason": "Allocated"}],
    }
    return NetworkInterface.model_validate(
        {
            "metadata": {
                "name": "web-0-eth0",
                "namespace": "shop",
                "uid": "u-interface",
                "resourceVersion": "7",
                "generation": 3,
                "finalizers": list(finalizers),
                **parts.get("metadata", {}),
            },
            "spec": {
                "network": {"name": "default"},
                "claimRef": {"name": "web-0-eth0", "uid": "u-claim"},
                "interfaceName": "eth0",
                "mtu": 1400,
                "addresses": [
                    {"family": "IPv4", "address": "10.1.0.7/32", "gateway": "10.1.0.1"},
                    {"family": "IPv6", "address": "fd20::7:0:0/96", "gateway": "fd20::1", "primary": True},
                ],
                **parts.get("spec", {}),
            },
            "status": {**status, **parts.get("status", {})},
        }
    )


def vpc(identifier: str | None = "10") -> VPC:
    owner = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkContext", "uid": "u-context"}
    return VPC.model_validate(
        {
            "metadata": {
                "name": "default-home",
                "namespace": "shop",
                "ownerReferences": [{**owner, "name": "default-home", "controller": True}],
            },
            "spec": {"networkContextRef": {"name": "default-home"}},
            "status": {"conditions": []} | ({"vpc": identifier} if identifier else {}),
        }
    )


CLAIM = NetworkInterfaceClaim.model_validate(
    {
        "metadata": {"name": "web-0-eth0", "namespace": "shop", "uid": "u-claim"},
        "spec": {"network": {"name": "default"}},
    }
)


def attachment(*, owner: str = "u-interface", facts: bool = False, **parts: Any) -> VPCAttachment:
    owned = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "NetworkInterface", "name": "web-0-eth0"}
    return VPCAttachment.model_validate(
        {
            "metadata": {
                "name": "web-0-eth0",
                "namespace": "shop",
                "uid": "u-attachment",
                "resourceVersion": "9",
                "generation": 1,
                "finalizers": [cloud.IN_USE_FINALIZER],
                "ownerReferences": [{**owned, "uid": owner, "controller": True}] if owner else [],
                **parts.get("metadata", {}),
            },
            "spec": {
                "vpc": {"name": "default-home"},
                "interfaceRef": {"name": "web-0-eth0"},
                "claimUID": "u-claim",
                "interface": {
                    "name": "eth0",
                    "mode": "Netns",
                    "mtu": 1400,
                    "addresses": ["fd20::7:0:1/96", "10.1.0.7/32"],
                    "gateways": ["fd20::1", "10.1.0.1"],
                },
                **parts.get("spec", {}),
            },
            "status": {"conditions": [], "vpc": "10", "vpcAttachment": "13"}
            | ({"node": "n1", "podName": "web-0", "containerID": "c"} if facts else {}),
        }
    )


def definition(owner: str = "u-attachment") -> NetworkAttachmentDefinition:
    made = nad.render(attachment(), "10", "13")
    made["metadata"]["uid"] = "u-definition"
    made["metadata"]["ownerReferences"][0]["uid"] = owner
    if not owner:
        made["metadata"]["ownerReferences"] = []
    return NetworkAttachmentDefinition.model_validate(made)


def said(writes: tuple[Write, ...], kind: str) -> tuple[str, str]:
    """Prepared as it is told on an object of the kind."""
    (told,) = [w for w in writes if isinstance(w, ApplyStatus) and w.resource.kind == kind]
    (entry,) = told.status["conditions"]
    return entry["status"], entry["reason"]


def test_nothing_exists_before_the_finalizer_holds_the_interface() -> None:
    """The `attached` finalizer is set before the definition exists."""
    planned = plan(Observed(interface(finalizers=()), CLAIM, vpc(), identifier=65), "Netns")
    assert planned.writes == ()
    assert isinstance(planned.then, Protect)


def test_the_identifier_comes_before_the_attachment() -> None:
    planned = plan(Observed(interface(), CLAIM, vpc()), "Netns")
    assert planned.writes == ()
    assert planned.then == Draw(Holder("NetworkInterface", "shop", "web-0-eth0", "u-interface"), vpc=62)


def test_an_attachment_that_lost_its_identifier_takes_up_the_same_value() -> None:
    """R32."""
    planned = plan(Observed(interface(), CLAIM, vpc(), attachment()), "Netns")
    assert isinstance(planned.then, Draw)
    assert planned.then.again == 65


def test_the_attachment_holds_host_forms_the_primary_first_and_every_gateway() -> None:
    """R18: without its gateways a guest has no way out."""
    planned = plan(Observed(interface(), CLAIM, vpc(), identifier=65), "Hypervisor")
    assert isinstance(planned.then, Attach)
    made = planned.then.attachment
    assert made["metadata"]["finalizers"] == [cloud.IN_USE_FINALIZER]
    assert made["spec"]["interface"] == {
        "name": "eth0",
        "mode": "Hypervisor",
        "mtu": 1400,
        "addresses": ["fd20::7:0:1/96", "10.1.0.7/32"],
        "gateways": ["fd20::1", "10.1.0.1"],
    }


def test_status_definition_interface_and_claim_follow_in_this_order() -> None:
    planned = plan(Observed(interface(), CLAIM, vpc(), attachment(), identifier=65), "Netns")
    assert [(type(write), write.resource.kind) for write in planned.writes if not isinstance(write, DropFinalizer)] == [
        (ApplyStatus, "VPCAttachment"),
        (Create, "NetworkAttachmentDefinition"),
        (ApplyStatus, "NetworkInterface"),
        (ApplyStatus, "NetworkInterfaceClaim"),
    ]
    assert planned.then is None
    assert said(planned.writes, "NetworkInterfaceClaim") == ("True", "Prepared")


def test_a_settled_interface_is_only_compared() -> None:
    """T21: status applies that the cache shows already are not sent; nothing else is left in the plan."""
    planned = plan(Observed(interface(), CLAIM, vpc(), attachment(), definition(), identifier=65), "Netns")
    assert {type(write) for write in planned.writes} == {ApplyStatus}


def test_another_identity_is_said_only_over_the_version_that_was_seen() -> None:
    """R32: neither under a node that claims it in the same moment, nor by a leader that wakes up too late."""

    def fence(number: int) -> str | None:
        planned = plan(Observed(interface(), CLAIM, vpc(), attachment(), definition(), identifier=number), "Netns")
        (told,) = [w for w in planned.writes if isinstance(w, ApplyStatus) and w.resource is resources.ATTACHMENTS]
        return told.resource_version

    assert fence(65) is None
    assert fence(66) == "9"


def test_a_definition_of_an_earlier_attachment_is_replaced() -> None:
    """T06: what a predecessor left behind is not collected yet."""
    planned = plan(Observed(interface(), CLAIM, vpc(), attachment(), definition("u-earlier"), identifier=65), "Netns")
    kinds = [type(write) for write in planned.writes if write.resource.kind == "NetworkAttachmentDefinition"]  # type: ignore[union-attr]
    assert kinds == [Delete, Create]


def test_an_interface_without_fulfilled_claim_is_told_and_left_alone() -> None:
    """R28."""
    for seen, reason in (
        (Observed(interface(status={"phase": "Available"}), None, vpc()), "InterfaceNotBound"),
        (Observed(interface(status={"conditions": []}), CLAIM, vpc()), "AwaitingAllocation"),
        (Observed(interface(status={"networkContextRef": None}), CLAIM, vpc()), "AwaitingNetworkContext"),
        (Observed(interface(), CLAIM, None), "AwaitingVPC"),
        (Observed(interface(), CLAIM, vpc(None)), "AwaitingVPCIdentifier"),
        (Observed(interface(), CLAIM, vpc(), attachment(owner="", metadata=UNHELD)), "NameConflict"),
        (Observed(interface(), CLAIM, vpc(), attachment(owner="u-earlier")), "AttachmentBeingReleased"),
        (Observed(interface(), CLAIM, vpc(), attachment(metadata=GOING)), "AttachmentBeingReleased"),
    ):
        planned = plan(seen, "Netns")
        assert planned.then is None
        assert said(planned.writes, "NetworkInterface") == ("False", reason)
        assert not [write for write in planned.writes if isinstance(write, Create | Apply)]


def test_the_previous_holders_pod_keeps_the_attachment_as_it_is() -> None:
    """The new claim is told; claimUID and mode change only when no node has it any more."""
    held = interface(spec={"claimRef": {"name": "web-0-eth0", "uid": "u-next"}})
    planned = plan(Observed(held, None, vpc(), attachment(facts=True), definition(), identifier=65), "Hypervisor")
    assert said(planned.writes, "NetworkInterface") == ("False", "PreviousHolderAttached")
    assert not [write for write in planned.writes if isinstance(write, Apply)]
    planned = plan(Observed(held, None, vpc(), attachment(), definition(), identifier=65), "Hypervisor")
    (update,) = [write for write in planned.writes if isinstance(write, Apply)]
    assert (update.obj["spec"]["claimUID"], update.obj["spec"]["interface"]["mode"]) == ("u-next", "Hypervisor")
    assert (update.obj["metadata"]["uid"], update.obj["metadata"]["resourceVersion"]) == ("u-attachment", "9")
    assert said(planned.writes, "NetworkInterface") == ("True", "Prepared")


def test_release_goes_from_the_attachment_to_the_interface_and_only_without_facts() -> None:
    """Release against ADD: in-use and attached are dropped only when no node has the attachment."""
    going = interface(metadata=GOING)
    (delete,) = plan(Observed(going, None, vpc(), attachment(facts=True)), "Netns").writes
    assert isinstance(delete, Delete)
    assert delete.uid == "u-attachment"
    held = plan(Observed(going, None, vpc(), attachment(facts=True, metadata=GOING)), "Netns")
    assert said(held.writes, "NetworkInterface") == ("False", "AttachmentBeingReleased")
    assert held.then is None
    (drop,) = plan(Observed(going, None, vpc(), attachment(metadata=GOING)), "Netns").writes
    assert isinstance(drop, DropFinalizer)
    assert (drop.exact, drop.obj["metadata"]["resourceVersion"]) == (True, "9")
    last = plan(Observed(going, None, vpc()), "Netns")
    assert isinstance(last.then, LetGo)
    assert plan(Observed(interface(metadata=GOING, finalizers=()), None, vpc()), "Netns").then is None


def test_an_attachment_whose_interface_is_gone_is_taken_down_the_same_way() -> None:
    """T07: an interface that was forced away leaves its attachment to us."""
    assert [type(write) for write in plan(Observed(None, attachment=attachment()), "Netns").writes] == [Delete]
    held = plan(Observed(None, attachment=attachment(facts=True, metadata=GOING)), "Netns")
    assert (held.writes, held.then) == ((), None)
    assert [type(w) for w in plan(Observed(None, attachment=attachment(metadata=GOING)), "Netns").writes] == [
        DropFinalizer
    ]


def test_what_was_orphaned_is_still_ours_to_take_down() -> None:
    """T07: propagationPolicy Orphan takes the owners away; our finalizer and our own words are left to go by."""
    orphan = attachment(owner="")
    assert [type(write) for write in plan(Observed(None, attachment=orphan), "Netns").writes] == [Delete]
    going = attachment(owner="", metadata=GOING)
    gone = Observed(interface(metadata=GOING), None, vpc(), going)
    assert [type(write) for write in plan(gone, "Netns").writes] == [DropFinalizer]
    pointer = definition(owner="")
    left = plan(Observed(interface(metadata=GOING), None, vpc(), definition=pointer), "Netns")
    assert [type(write) for write in left.writes] == [Delete]
    assert isinstance(left.then, LetGo)
    anew = plan(Observed(interface(), CLAIM, vpc(), attachment(), pointer, identifier=65), "Netns")
    assert [type(w) for w in anew.writes if w.resource is resources.NADS] == [Delete, Create]
    foreign = pointer.model_copy(update={"spec": NetworkAttachmentDefinitionSpec(config="{}")})
    assert plan(Observed(None, definition=foreign), "Netns").writes == ()


def test_what_is_not_ours_is_never_deleted() -> None:
    foreign = attachment(owner="", metadata=UNHELD)
    for seen in (
        Observed(None, attachment=foreign),
        Observed(interface(metadata=GOING), None, vpc(), foreign),
        Observed(interface(), CLAIM, vpc(), foreign),
    ):
        assert not [write for write in plan(seen, "Netns").writes if isinstance(write, Delete | DropFinalizer | Apply)]


def test_a_full_vpc_is_said_on_interface_and_claim() -> None:
    """T31."""
    planned = exhausted(Observed(interface(), CLAIM, vpc()))
    assert said(planned.writes, "NetworkInterface") == ("False", "IdentifiersExhausted")
    assert said(planned.writes, "NetworkInterfaceClaim") == ("False", "IdentifiersExhausted")


def test_an_attachment_that_a_node_still_has_does_not_move_to_another_vpc() -> None:
    """T06: a context that was forced away and made anew has another VPC; the guest still runs in the former one."""
    held = plan(Observed(interface(), CLAIM, vpc("jU"), attachment(facts=True), definition(), identifier=9), "Netns")
    assert said(held.writes, "NetworkInterface") == ("False", "VPCChanged")
    assert all(write.resource.kind != "VPCAttachment" for write in held.writes if isinstance(write, ApplyStatus))
    moved = plan(Observed(interface(), CLAIM, vpc("jU"), attachment(), definition(), identifier=9), "Netns")
    assert said(moved.writes, "NetworkInterface") == ("True", "Prepared")
    (status,) = [w for w in moved.writes if isinstance(w, ApplyStatus) and w.resource.kind == "VPCAttachment"]
    assert (status.status["vpc"], status.status["vpcAttachment"]) == ("jU", "9")


def test_what_a_new_interface_waits_for_is_told_only_when_the_wait_lasts() -> None:
    """T32: address, context and VPC mostly follow within a second; what said True is corrected at once all the same."""
    for young in (
        Observed(interface(status={"phase": "Available"}), None, vpc(), is_fresh=True),
        Observed(interface(status={"conditions": []}), CLAIM, vpc(), is_fresh=True),
        Observed(interface(), CLAIM, None, is_fresh=True),
        Observed(interface(), CLAIM, vpc(None), is_fresh=True),
    ):
        assert (plan(young, "Netns").writes, plan(young, "Netns").waits) == ((), True)
    conflict = plan(Observed(interface(), CLAIM, vpc(), attachment(owner="", metadata=UNHELD), is_fresh=True), "Netns")
    assert said(conflict.writes, "NetworkInterface") == ("False", "NameConflict")
    prepared = {"phase": "Available", "conditions": [{"type": "Prepared", "status": "True", "reason": "Prepared"}]}
    stale = plan(Observed(interface(status=prepared), None, vpc(), is_fresh=True), "Netns")
    assert said(stale.writes, "NetworkInterface") == ("False", "InterfaceNotBound")
    assert not stale.waits
