"""What an interface's attachment needs next. Pure: from what was observed to an ordered list of writes.

The order is what makes it safe: nothing that a Pod could attach through exists before the `attached` finalizer holds
the interface, no status says Prepared before the definition is there, and nothing is let go while a node still has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from netclaim import addresses, identity
from netclaim.api import cloud, resources
from netclaim.api.cloud import VPC, AttachedInterface, AttachmentMode, VPCAttachment, VPCAttachmentSpec
from netclaim.api.cni import NetworkAttachmentDefinition
from netclaim.api.managers import VPC_CONTROLLER
from netclaim.api.meta import Condition, ConditionedStatus, NameRef, Raw
from netclaim.api.networking import (
    ALLOCATED,
    PHASE_BOUND,
    PREPARED,
    READY,
    NetworkInterface,
    NetworkInterfaceClaim,
)
from netclaim.kube.writes import AddFinalizer, Apply, ApplyStatus, Create, Delete, DropFinalizer, Owned, Write
from vpc_controller import facts, nad, reasons
from vpc_controller.identifiers import Draw, Holder, value_of
from vpc_controller.reasons import Verdict

ATTACHMENT_OWNED: Final = Owned(fields=frozenset({"vpc", "vpcAttachment"}), conditions=frozenset({READY}))
INTERFACE_OWNED: Final = Owned(fields=frozenset({"vpc", "attachmentRef"}), conditions=frozenset({PREPARED}))
CLAIM_OWNED: Final = Owned(fields=frozenset(), conditions=frozenset({PREPARED}))


@dataclass(frozen=True, slots=True)
class Observed:
    """An interface and all that carries its name.

    `claim` is the one that holds the interface, if it is there with that uid. `vpc` is the one of the interface's
    context. `identifier` is the one that the interface holds in that VPC. `is_fresh`: the interface was made moments
    ago, and what it waits for is about to follow.
    """

    interface: NetworkInterface | None
    claim: NetworkInterfaceClaim | None = None
    vpc: VPC | None = None
    attachment: VPCAttachment | None = None
    definition: NetworkAttachmentDefinition | None = None
    identifier: int | None = None
    is_fresh: bool = False


@dataclass(frozen=True, slots=True)
class Protect:
    """Put the `attached` finalizer on the interface; everything else waits for it."""

    interface: NetworkInterface


@dataclass(frozen=True, slots=True)
class Attach:
    """Create the VPCAttachment; what belongs to it needs its uid."""

    attachment: Raw


@dataclass(frozen=True, slots=True)
class LetGo:
    """Drop the `attached` finalizer, once the API server itself says that there is no attachment left."""

    interface: NetworkInterface


Step: TypeAlias = Protect | Draw | Attach | LetGo


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of a pass, then one step whose outcome the next pass is planned from.

    `waits` tells that something was left unsaid because it is about to change.
    """

    writes: tuple[Write, ...] = ()
    then: Step | None = None
    waits: bool = False


def plan(seen: Observed, mode: AttachmentMode) -> Plan:
    """What brings the attachment of an interface in line with it."""
    interface = seen.interface
    if interface is None or interface.is_going:
        return _release(seen)
    waits_for = _conflict(seen, interface) or _precondition(interface, seen.vpc) or _move(seen, interface)
    if waits_for is not None:
        waits = seen.is_fresh and waits_for.reason in reasons.PASSING and not _was_prepared(seen)
        return Plan((*_old_life(seen), *(() if waits else _tell(seen, waits_for))), waits=waits)
    if not interface.has_finalizer(cloud.ATTACHED_FINALIZER):
        return Plan(then=Protect(interface))
    if seen.identifier is None:
        return Plan(then=_draw(seen, interface))
    if seen.attachment is None:
        return Plan(then=Attach(_attachment(interface, mode)))
    return Plan(tuple(_realize(seen, interface, seen.attachment, mode)))


def _was_prepared(seen: Observed) -> bool:
    """Whether interface or claim say so: that is corrected at once."""
    told = (_condition(one.status, PREPARED) for one in (seen.interface, seen.claim) if one is not None)
    return any(one is not None and one.status == "True" for one in told)


def exhausted(seen: Observed) -> Plan:
    """What is said when the VPC has no attachment identifier left."""
    vpc = _vpc_name(seen.interface) if seen.interface else ""
    verdict = reasons.IDENTIFIERS_EXHAUSTED(
        what=f"Attachment {seen.interface.name if seen.interface else ''}",
        capacity=identity.capacity(identity.ATTACHMENT_BITS),
        space=f"VPC {vpc}",
    )
    return Plan(_tell(seen, verdict))


def is_of_this_life(attachment: VPCAttachment, interface: NetworkInterface | None) -> bool:
    """Whether the attachment was made for this very interface, not for a namesake before it."""
    owner = attachment.controller_ref
    return interface is not None and owner is not None and owner.uid == interface.uid


def _conflict(seen: Observed, interface: NetworkInterface) -> Verdict | None:
    """Why an object of the interface's name stands in the way."""
    attachment, definition = seen.attachment, seen.definition
    if attachment is not None and not facts.is_of_interface(attachment):
        return _name_conflict(interface, attachment)
    if attachment is not None and (attachment.is_going or not is_of_this_life(attachment, interface)):
        return reasons.ATTACHMENT_BEING_RELEASED(name=attachment.name, holder=facts.holder(attachment))
    if definition is not None and not nad.is_ours(definition):
        return _name_conflict(interface, definition)
    return None


def _name_conflict(interface: NetworkInterface, found: VPCAttachment | NetworkAttachmentDefinition) -> Verdict:
    return reasons.NAME_CONFLICT(
        what=f"The attachment of interface {interface.name}",
        kind=found.RESOURCE.kind,
        name=found.name,
        owner=facts.owner_of(found),
    )


def _precondition(interface: NetworkInterface, vpc: VPC | None) -> Verdict | None:
    """Why the interface cannot have an attachment yet."""
    name, context = interface.name, interface.status.network_context_ref
    allocated = _condition(interface.status, ALLOCATED)
    if interface.status.phase != PHASE_BOUND or interface.spec.claim_ref is None:
        return reasons.INTERFACE_NOT_BOUND(name=name)
    if allocated is None or allocated.status != "True":
        return reasons.AWAITING_ALLOCATION(name=name, why=allocated.reason if allocated else "nothing allocated yet")
    if context is None:
        return reasons.AWAITING_CONTEXT(name=name)
    if vpc is None:
        return reasons.AWAITING_VPC(vpc=context.name, name=name)
    owner = vpc.controller_ref
    if owner is None or owner.kind != resources.NETWORK_CONTEXTS.kind or owner.name != context.name:
        return reasons.NAME_CONFLICT(
            what=f"The VPC of interface {name}", kind=vpc.RESOURCE.kind, name=vpc.name, owner=facts.owner_of(vpc)
        )
    if value_of(vpc.status.vpc or "", identity.VPC_BITS) is None:
        ready = _condition(vpc.status, READY)
        why = ready.message or ready.reason if ready else "not drawn yet"
        return reasons.AWAITING_VPC_IDENTIFIER(vpc=vpc.name, name=name, why=why)
    return None


def _move(seen: Observed, interface: NetworkInterface) -> Verdict | None:
    """Why the attachment cannot take on the identity of another VPC yet: a node has it in the former one."""
    attachment, new = seen.attachment, seen.vpc.status.vpc if seen.vpc else None
    if attachment is None or attachment.status.vpc in (None, new) or facts.are_empty(attachment):
        return None
    return reasons.VPC_CHANGED(name=interface.name, holder=facts.holder(attachment), old=attachment.status.vpc, new=new)


def _draw(seen: Observed, interface: NetworkInterface) -> Draw:
    vpc = _vpc(seen)
    holder = Holder(resources.INTERFACES.kind, interface.namespace, interface.name, interface.uid)
    said = seen.attachment.status if seen.attachment else None
    again = None
    if said is not None and said.vpc == identity.to_base62(vpc):
        again = value_of(said.vpc_attachment or "", identity.ATTACHMENT_BITS)
    return Draw(holder, vpc=vpc, again=again)


def _attachment(interface: NetworkInterface, mode: AttachmentMode) -> Raw:
    return {
        "apiVersion": resources.ATTACHMENTS.api_version,
        "kind": resources.ATTACHMENTS.kind,
        "metadata": {
            "name": interface.name,
            "namespace": interface.namespace,
            "finalizers": [cloud.IN_USE_FINALIZER],
            "ownerReferences": [interface.owner_reference().to_dict()],
        },
        "spec": _spec(interface, mode, _claim_uid(interface)).to_dict(),
    }


def _spec(interface: NetworkInterface, mode: AttachmentMode, claim_uid: str | None) -> VPCAttachmentSpec:
    """The attachment's spec: host forms of the addresses, the primary first, and every gateway.

    Without its gateways a guest would have no way out although its prefix is advertised.
    """
    ordered = sorted(interface.spec.addresses, key=lambda address: not address.primary)
    return VPCAttachmentSpec(
        vpc=NameRef(name=_vpc_name(interface)),
        interface_ref=NameRef(name=interface.name),
        claim_uid=claim_uid,
        interface=AttachedInterface(
            name=interface.spec.interface_name,
            mode=mode,
            mtu=interface.spec.mtu,
            addresses=[addresses.host_form(address.address) for address in ordered],
            gateways=[address.gateway for address in ordered if address.gateway],
        ),
    )


def _realize(
    seen: Observed, interface: NetworkInterface, attachment: VPCAttachment, mode: AttachmentMode
) -> list[Write]:
    """Attachment, its status, definition, interface status, claim status: in this order."""
    vpc, mine = identity.to_base62(_vpc(seen)), identity.to_base62(seen.identifier or 0)
    ready = reasons.ATTACHMENT_READY(vpc=vpc, attachment=mine)
    status = {
        "vpc": vpc,
        "vpcAttachment": mine,
        "conditions": [ready.condition(READY, attachment.metadata.generation)],
    }
    prepared = reasons.PREPARED(vpc=vpc, attachment=mine, name=attachment.name)
    if facts.is_previous_holders(interface, attachment):
        prepared = reasons.PREVIOUS_HOLDER_ATTACHED(
            name=interface.name, holder=facts.holder(attachment), claim=attachment.spec.claim_uid
        )
    return [
        *_spec_writes(interface, attachment, mode),
        ApplyStatus(
            resources.ATTACHMENTS,
            attachment.key,
            status,
            manager=VPC_CONTROLLER,
            owns=ATTACHMENT_OWNED,
            resource_version=_fence(attachment, vpc, mine),
        ),
        *_definition_writes(seen.definition, nad.render(attachment, vpc, mine)),
        *_tell(seen, prepared, vpc=vpc),
    ]


def _fence(attachment: VPCAttachment, vpc: str, mine: str) -> str | None:
    """The version over which an identity is said for the first time, or another one.

    So it never changes under a node that claims the attachment in the same moment, nor by a leader that was thought
    gone and wakes up.
    """
    said = (attachment.status.vpc, attachment.status.vpc_attachment)
    return attachment.metadata.resource_version if said != (vpc, mine) else None


def _spec_writes(interface: NetworkInterface, attachment: VPCAttachment, mode: AttachmentMode) -> list[Write]:
    """Bring the spec in line; while a node has the attachment, its holder and mode stay as they are.

    Over the version in which that was seen: a node that claims it in the same moment is not given another holder.
    """
    writes: list[Write] = []
    claim_uid = _claim_uid(interface)
    if not facts.are_empty(attachment):
        claim_uid, mode = attachment.spec.claim_uid, attachment.spec.interface.mode
    wanted = _spec(interface, mode, claim_uid)
    if attachment.spec.to_dict() != wanted.to_dict():
        raw: Raw = {
            "apiVersion": resources.ATTACHMENTS.api_version,
            "kind": resources.ATTACHMENTS.kind,
            "metadata": {
                "name": attachment.name,
                "namespace": attachment.namespace,
                "uid": attachment.uid,
                "resourceVersion": attachment.metadata.resource_version,
            },
            "spec": wanted.to_dict(),
        }
        writes.append(Apply(resources.ATTACHMENTS, raw, manager=VPC_CONTROLLER))
    if not attachment.has_finalizer(cloud.IN_USE_FINALIZER):
        writes.append(AddFinalizer(resources.ATTACHMENTS, attachment.to_dict(), cloud.IN_USE_FINALIZER))
    return writes


def _definition_writes(found: NetworkAttachmentDefinition | None, wanted: Raw) -> list[Write]:
    if found is None:
        return [Create(resources.NADS, wanted, manager=VPC_CONTROLLER)]
    owner = found.controller_ref
    if owner is None or owner.uid != wanted["metadata"]["ownerReferences"][0]["uid"]:
        # What a predecessor left behind is not collected yet.
        return [Delete(resources.NADS, found.key, found.uid), Create(resources.NADS, wanted, manager=VPC_CONTROLLER)]
    labels = wanted["metadata"]["labels"]
    if found.spec.config == wanted["spec"]["config"] and labels.items() <= found.metadata.labels.items():
        return []
    metadata = {**wanted["metadata"], "uid": found.uid}
    return [Apply(resources.NADS, {**wanted, "metadata": metadata}, manager=VPC_CONTROLLER)]


def _tell(seen: Observed, verdict: Verdict, vpc: str | None = None) -> tuple[Write, ...]:
    """Prepared on the interface and on the claim that holds it."""
    interface, attachment = seen.interface, seen.attachment
    if interface is None:
        return ()
    status: Raw = {"conditions": [verdict.condition(PREPARED, interface.metadata.generation)]}
    if attachment is not None and is_of_this_life(attachment, interface):
        vpc = vpc or attachment.status.vpc
        status |= {"attachmentRef": {"name": attachment.name}} | ({"vpc": vpc} if vpc else {})
    writes: list[Write] = [
        ApplyStatus(resources.INTERFACES, interface.key, status, manager=VPC_CONTROLLER, owns=INTERFACE_OWNED)
    ]
    if seen.claim is not None:
        told = {"conditions": [verdict.condition(PREPARED, seen.claim.metadata.generation)]}
        writes.append(ApplyStatus(resources.CLAIMS, seen.claim.key, told, manager=VPC_CONTROLLER, owns=CLAIM_OWNED))
    return tuple(writes)


def _old_life(seen: Observed) -> tuple[Write, ...]:
    """Take away the attachment of a namesake that is gone, and let an attachment that is going go."""
    attachment = seen.attachment
    if attachment is None or not facts.is_of_interface(attachment):
        return ()
    if attachment.is_going:
        return _let_attachment_go(attachment)
    if is_of_this_life(attachment, seen.interface):
        return ()
    return (Delete(resources.ATTACHMENTS, attachment.key, attachment.uid),)


def _let_attachment_go(attachment: VPCAttachment) -> tuple[Write, ...]:
    """Drop `in-use`, only from the very version in which no node has the attachment: ADD claims that same object."""
    if facts.are_empty(attachment) and attachment.has_finalizer(cloud.IN_USE_FINALIZER):
        return (DropFinalizer(resources.ATTACHMENTS, attachment.to_dict(), cloud.IN_USE_FINALIZER, exact=True),)
    return ()


def _release(seen: Observed) -> Plan:
    """The interface is going or gone: its attachment first, then the interface."""
    attachment, interface = seen.attachment, seen.interface
    if attachment is not None and facts.is_of_interface(attachment):
        if not attachment.is_going:
            return Plan((Delete(resources.ATTACHMENTS, attachment.key, attachment.uid),))
        if facts.are_empty(attachment):
            return Plan(_let_attachment_go(attachment))
        verdict = reasons.ATTACHMENT_BEING_RELEASED(name=attachment.name, holder=facts.holder(attachment))
        return Plan(_tell(seen, verdict))
    definition = seen.definition
    left: tuple[Write, ...] = ()
    if definition is not None and attachment is None and nad.is_orphan(definition):
        left = (Delete(resources.NADS, definition.key, definition.uid),)
    if interface is not None and interface.has_finalizer(cloud.ATTACHED_FINALIZER):
        return Plan(left, then=LetGo(interface))
    return Plan(left)


def _vpc(seen: Observed) -> int:
    """The VPC's identifier; there is one once the preconditions hold."""
    return value_of((seen.vpc.status.vpc if seen.vpc else None) or "", identity.VPC_BITS) or 0


def _vpc_name(interface: NetworkInterface) -> str:
    """A VPC carries its context's name."""
    context = interface.status.network_context_ref
    return context.name if context else ""


def _claim_uid(interface: NetworkInterface) -> str | None:
    return interface.spec.claim_ref.uid if interface.spec.claim_ref else None


def _condition(status: ConditionedStatus, kind: str) -> Condition | None:
    return next((one for one in status.conditions if one.type == kind), None)
