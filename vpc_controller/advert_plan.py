"""What Programmed says, and which node facts are ours to write. Pure.

An attachment is programmed when a router whose node exists advertises it: the advertisement's labels carry the
attachment's identity (compared exactly: base62 knows case) and its attachmentRef names this very attachment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.cloud import VPCAttachment
from netclaim.api.managers import NODE_AGENT, VPC_CONTROLLER_PROGRAMMED
from netclaim.api.meta import Condition, ConditionedStatus, KubeObject, Raw
from netclaim.api.network import ADVERTISED, BGPAdvertisement
from netclaim.api.networking import PROGRAMMED, NetworkInterface, NetworkInterfaceClaim
from netclaim.kube.writes import ApplyStatus, Owned, Write
from vpc_controller import facts, reasons
from vpc_controller.identifiers import value_of
from vpc_controller.reasons import Verdict

OWNED: Final = Owned(fields=frozenset(), conditions=frozenset({PROGRAMMED}))
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""The taint by which an operator says that a node is off for good, though its Node object is still there."""


@dataclass(frozen=True, slots=True)
class Heard:
    """An advertisement that names the attachment. `node` is its router's, None when there is no such router."""

    advertisement: BGPAdvertisement
    node: str | None
    node_exists: bool


@dataclass(frozen=True, slots=True)
class Observed:
    """An attachment, what is said of it, and whom it is told to.

    `facts_node_exists` speaks of the node in the attachment's facts, if there is one. `is_fresh`: the advertisement was
    made moments ago, and what its node says about it is about to follow.
    """

    interface: NetworkInterface | None
    claim: NetworkInterfaceClaim | None
    attachment: VPCAttachment | None
    heard: tuple[Heard, ...] = ()
    facts_node_exists: bool = True
    is_fresh: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of a pass.

    `lost_node` names a node whose facts are cleared once it is gone at the API server too. `waits` tells that something
    was left unsaid because it is about to change.
    """

    writes: tuple[Write, ...] = ()
    lost_node: str | None = None
    waits: bool = False


def exists(node: Raw | None) -> bool:
    """Whether the node is there for good or ill; one that is merely not ready still carries its interfaces."""
    if node is None:
        return False
    taints = (node.get("spec") or {}).get("taints") or ()
    return all(taint.get("key") != OUT_OF_SERVICE for taint in taints)


def plan(seen: Observed) -> Plan:
    """What is said about Programmed, and what becomes of the node facts."""
    ours = tuple(one for one in seen.heard if seen.attachment is not None and is_about(one, seen.attachment))
    judged = _judge(seen, ours)
    waits = seen.is_fresh and judged is not None and judged.reason == reasons.AWAITING_DATA_PLANE.name
    writes = list(_tell(seen, judged, waits=waits))
    attachment = seen.attachment
    if attachment is not None and attachment.status.node and not seen.facts_node_exists:
        return Plan(tuple(writes), lost_node=attachment.status.node)
    if attachment is not None:
        writes.extend(_foreign_facts(attachment, ours))
    return Plan(tuple(writes), waits=waits)


def _tell(seen: Observed, judged: Verdict | None, *, waits: bool) -> Iterator[Write]:
    """Programmed on attachment, interface and claim.

    While the verdict is about to change, only an object that says True is corrected: three writes less for each Pod.
    """
    for found in (seen.attachment, seen.interface, seen.claim):
        if found is None or (found.is_going and not isinstance(found, VPCAttachment)):
            continue
        verdict, current = _for_object(found, judged, seen), programmed(found)
        if verdict is not None and (not waits or (current is not None and current.status == "True")):
            yield _programmed(found, verdict)


def is_about(heard: Heard, attachment: VPCAttachment) -> bool:
    """Whether the advertisement carries the identity of this very attachment, in labels and in attachmentRef."""
    labels, ref = heard.advertisement.metadata.labels, heard.advertisement.spec.attachment_ref
    status = attachment.status
    return (
        bool(status.vpc and status.vpc_attachment)
        and labels.get(cloud.VPC_LABEL) == status.vpc
        and labels.get(cloud.VPC_ATTACHMENT_LABEL) == status.vpc_attachment
        and (ref.namespace, ref.name, ref.uid) == (attachment.namespace, attachment.name, attachment.uid)
    )


def clear_facts(attachment: VPCAttachment) -> Write:
    """Apply the empty set as the agent, from the version in which its node was found gone."""
    return _as_agent(attachment, {})


def _judge(seen: Observed, ours: tuple[Heard, ...]) -> Verdict | None:
    """The verdict; None when nothing has been advertised (which for an object that knew better means Detached)."""
    alive = [one for one in ours if one.node is not None and one.node_exists]
    said = [verdict for one in alive if (verdict := _by_advertisement(seen, one)) is not None]
    if said:
        return min(said, key=lambda verdict: ("True", "Unknown", "False").index(verdict.status))
    gone = next((one.node for one in ours if one.node is not None and not one.node_exists), None)
    if gone is None and seen.attachment is not None and not seen.facts_node_exists:
        gone = seen.attachment.status.node
    if gone is not None:
        return reasons.NODE_GONE(node=gone)
    return None


def _by_advertisement(seen: Observed, heard: Heard) -> Verdict | None:
    """What one advertisement says; None when it is a leftover of a container that has let go."""
    advertisement, status = heard.advertisement, seen.attachment.status if seen.attachment else None
    container = advertisement.spec.container_id
    advertised = next((one for one in advertisement.status.conditions if one.type == ADVERTISED), None)
    if container and status is not None and container != status.container_id:
        if not status.container_id:
            return None
        return reasons.AWAITING_DATA_PLANE(why="the advertisement is still that of an earlier container")
    if advertised is None or advertised.status == "Unknown":
        why = f"advertisement {advertisement.name} is not advertised yet"
        return reasons.AWAITING_DATA_PLANE(why=why)
    if advertised.status == "False":
        return reasons.DETACHED(why=f"advertisement {advertisement.name}: {advertised.message or advertised.reason}")
    prefixes = ", ".join(advertisement.status.advertised_prefixes or advertisement.spec.prefixes)
    return reasons.PROGRAMMED(node=heard.node, prefixes=prefixes or "nothing")


def _for_object(found: KubeObject, judged: Verdict | None, seen: Observed) -> Verdict | None:
    """What is said on one object; None leaves it as it is."""
    interface, attachment = seen.interface, seen.attachment
    is_users_side = not isinstance(found, VPCAttachment)
    if is_users_side and interface and attachment and facts.is_previous_holders(interface, attachment):
        return reasons.PREVIOUS_HOLDER_ATTACHED(
            name=interface.name, holder=facts.holder(attachment), claim=attachment.spec.claim_uid
        )
    if judged is not None:
        return judged
    current = programmed(found)
    if current is None or current.reason not in reasons.PROGRAMMED_REASONS:
        return None
    if current.reason == reasons.NODE_GONE.name:
        return Verdict("False", current.reason, current.message or "")
    return reasons.DETACHED(why="no advertisement for it is left")


def programmed(found: KubeObject) -> Condition | None:
    """The Programmed condition of an object."""
    status: ConditionedStatus = found.status  # type: ignore[attr-defined]
    return next((one for one in status.conditions if one.type == PROGRAMMED), None)


def _programmed(found: KubeObject, verdict: Verdict) -> Write:
    status = {"conditions": [verdict.condition(PROGRAMMED, found.metadata.generation)]}
    return ApplyStatus(found.RESOURCE, found.key, status, manager=VPC_CONTROLLER_PROGRAMMED, owns=OWNED)


def _foreign_facts(attachment: VPCAttachment, ours: Iterable[Heard]) -> list[Write]:
    """Node facts for a data plane that writes advertisements alone.

    Our own agent names the container, in its facts (before there is an advertisement) and in its advertisement, and is
    left alone. Facts without a container are those that were filled in here: they follow the advertisement.
    """
    status = attachment.status
    if status.container_id or status.pod_uid:
        return []
    speaking = next((one for one in ours if not one.advertisement.spec.container_id and one.node_exists), None)
    if speaking is None:
        return [] if facts.are_empty(attachment) else [clear_facts(attachment)]
    return [_as_agent(attachment, _facts_from(attachment, speaking))]


def _facts_from(attachment: VPCAttachment, heard: Heard) -> Raw:
    vpc = value_of(attachment.status.vpc or "", identity.VPC_BITS) or 0
    mine = value_of(attachment.status.vpc_attachment or "", identity.ATTACHMENT_BITS) or 0
    prefixes = heard.advertisement.spec.prefixes
    return {
        "node": heard.node,
        "hostInterface": identity.host_interface(vpc, mine),
        "vrfInterface": identity.vrf_interface(vpc),
        **({"podSubnet": prefixes[0], "podSubnets": prefixes} if prefixes else {}),
    }


def _as_agent(attachment: VPCAttachment, status: Raw) -> Write:
    return ApplyStatus(
        resources.ATTACHMENTS,
        attachment.key,
        status,
        manager=NODE_AGENT,
        owns=facts.OWNED,
        resource_version=attachment.metadata.resource_version,
    )
