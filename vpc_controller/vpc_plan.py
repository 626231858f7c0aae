"""What a VPC needs next. Pure: from what was observed to an ordered list of writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netclaim import identity
from netclaim.api import resources
from netclaim.api.cloud import VPC
from netclaim.api.managers import VPC_CONTROLLER
from netclaim.api.meta import Raw
from netclaim.api.networking import READY, NetworkContext, Subnet
from netclaim.kube.writes import Apply, ApplyStatus, Create, Emit, Owned, Write
from vpc_controller import facts, reasons
from vpc_controller.identifiers import Draw, Holder, value_of
from vpc_controller.reasons import Verdict

OWNED: Final = Owned(fields=frozenset({"vpc"}), conditions=frozenset({READY}))


@dataclass(frozen=True, slots=True)
class Observed:
    """A context, its subnets, and what realizes it. `identifier` is the one that the context holds."""

    context: NetworkContext | None
    subnets: tuple[Subnet, ...]
    vpc: VPC | None
    identifier: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """The writes of a pass; `draw` is set when an identifier is needed before there can be any."""

    writes: tuple[Write, ...] = ()
    draw: Draw | None = None


def is_ours(vpc: VPC, context: NetworkContext) -> bool:
    """Whether the VPC was made for this very context, or is there for the taking."""
    owner = vpc.controller_ref
    return is_orphan(vpc) or (owner is not None and owner.uid == context.uid)


def is_orphan(vpc: VPC) -> bool:
    """Whether nobody owns what we made: a context was deleted, and it was asked to stay. The next one takes it over."""
    return not vpc.metadata.owner_references and vpc.spec.network_context_ref.name == vpc.name and bool(vpc.status.vpc)


def plan(seen: Observed) -> Plan:
    """What brings the VPC of a context in line with it."""
    context = seen.context
    if context is None or (context.is_going and seen.vpc is None):
        return Plan()
    if seen.vpc is not None and not is_ours(seen.vpc, context):
        return Plan(_conflict(seen.vpc, context))
    if seen.vpc is not None and seen.vpc.is_going:
        return Plan()
    if seen.identifier is None:
        recorded = value_of(seen.vpc.status.vpc or "", identity.VPC_BITS) if seen.vpc else None
        holder = Holder(resources.NETWORK_CONTEXTS.kind, context.namespace, context.name, context.uid)
        return Plan(draw=Draw(holder, again=recorded))
    base62 = identity.to_base62(seen.identifier)
    ready = reasons.VPC_READY(vpc=base62, context=context.name)
    return Plan((*_object(seen, context), _status(seen, context, base62, ready)))


def exhausted(seen: Observed) -> Plan:
    """What is said when no identifier is left."""
    context = seen.context
    if context is None:
        return Plan()
    verdict = reasons.IDENTIFIERS_EXHAUSTED(
        what=f"VPC {context.name}", capacity=identity.capacity(identity.VPC_BITS), space="the cell"
    )
    return Plan((*_object(seen, context), _status(seen, context, None, verdict)))


def _object(seen: Observed, context: NetworkContext) -> tuple[Write, ...]:
    networks = _networks(seen.subnets)
    owner = context.owner_reference().to_dict()
    raw: Raw = {
        "apiVersion": resources.VPCS.api_version,
        "kind": resources.VPCS.kind,
        "metadata": {"name": context.name, "namespace": context.namespace, "ownerReferences": [owner]},
        "spec": {"networkContextRef": {"name": context.name}, "networks": networks},
    }
    if seen.vpc is None:
        return (Create(resources.VPCS, raw, manager=VPC_CONTROLLER),)
    if seen.vpc.spec.networks == networks and not is_orphan(seen.vpc):
        return ()
    raw["metadata"]["uid"] = seen.vpc.uid
    return (Apply(resources.VPCS, raw, manager=VPC_CONTROLLER),)


def _networks(subnets: tuple[Subnet, ...]) -> list[str]:
    """The ranges of the subnets that have one, in the order of the subnets' names."""
    named = sorted(subnets, key=lambda subnet: subnet.name)
    return [
        f"{subnet.status.start_address}/{subnet.status.prefix_length}"
        for subnet in named
        if subnet.status.start_address and subnet.status.prefix_length is not None
    ]


def _status(seen: Observed, context: NetworkContext, vpc: str | None, verdict: Verdict) -> Write:
    """The status of the VPC; another identity than the present one only over the version that was seen.

    So a leader that was thought gone and wakes up does not overtake its successor.
    """
    is_other = seen.vpc is not None and seen.vpc.status.vpc != vpc
    version = seen.vpc.metadata.resource_version if seen.vpc is not None and is_other else None
    generation = seen.vpc.metadata.generation if seen.vpc else 1
    status: Raw = {"conditions": [verdict.condition(READY, generation)]} | ({"vpc": vpc} if vpc else {})
    return ApplyStatus(
        resources.VPCS, context.key, status, manager=VPC_CONTROLLER, owns=OWNED, resource_version=version
    )


def _conflict(vpc: VPC, context: NetworkContext) -> tuple[Write, ...]:
    """A VPC of that name that is not ours: said to those who can do something about it, never overwritten.

    The predecessor's VPC of a context that was made anew is collected with its owner; only another owner is a conflict.
    """
    owner = vpc.controller_ref
    if owner is not None and owner.kind == resources.NETWORK_CONTEXTS.kind and owner.name == context.name:
        return ()
    verdict = reasons.NAME_CONFLICT(
        what=f"The VPC of network context {context.name}",
        kind=resources.VPCS.kind,
        name=vpc.name,
        owner=facts.owner_of(vpc),
    )
    return (Emit(context.to_dict(), "Warning", verdict.reason, verdict.message),)
