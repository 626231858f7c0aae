"""NetworkContext: a network in this cell's location, with one Subnet per family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netclaim.api import resources
from netclaim.api.managers import NSO
from netclaim.api.meta import Raw
from netclaim.api.networking import (
    PROJECT_ANNOTATION,
    READY,
    TEARDOWN_FINALIZER,
    IPFamily,
    Network,
    NetworkContext,
    Subnet,
)
from netclaim.identity import subnet_name
from netclaim.kube.writes import ApplyStatus, Create, Delete, DropFinalizer, Owned
from nso.conditions import is_true, message_of
from nso.networks import reasons, record
from nso.networks.ranges import listed
from nso.networks.record import Project
from nso.networks.verdicts import Why, verdict
from nso.steps import InCell, Plan

OWNED: Final = Owned(fields=frozenset({"subnets"}), conditions=frozenset({READY}))


@dataclass(frozen=True, slots=True)
class Observed:
    """What a context's plan is made from; `subnets` are all that name this context, whoever made them."""

    raw: Raw
    context: NetworkContext
    project: Project
    network: Network | None
    subnets: tuple[Subnet, ...]
    interfaces: tuple[str, ...]

    @property
    def what(self) -> str:
        """The context, for people."""
        return f"Network context {self.context.namespace}/{self.context.name}"


def plan(seen: Observed) -> Plan:
    """The writes that bring the context further."""
    if seen.context.is_going:
        return _tear_down(seen)
    if seen.network is None:
        where = {"network": seen.context.spec.network.name, "namespace": seen.context.namespace}
        return (_status(seen, (), (reasons.NETWORK_NOT_FOUND.name, reasons.NETWORK_NOT_FOUND.message(**where))),)
    if seen.project.refusal is not None:
        return (_status(seen, (), seen.project.refusal),)
    recording = record.steps(resources.NETWORK_CONTEXTS, seen.raw, seen.project.name)
    families = tuple(seen.network.spec.ip_families)
    missing = tuple(family for family in families if _subnet(seen, family) is None)
    creates = tuple(
        InCell(Create(resources.SUBNETS, _new_subnet(seen, family), ok_if_exists=True)) for family in missing
    )
    deletes = tuple(
        InCell(Delete(resources.SUBNETS, subnet.key, subnet.uid))
        for subnet in seen.subnets
        if _is_ours(seen, subnet) and subnet.spec.ip_family not in families and not subnet.is_going
    )
    return (*recording, *creates, *deletes, _status(seen, families, _why_not_ready(seen, families)))


def _subnet(seen: Observed, family: IPFamily) -> Subnet | None:
    name = subnet_name(seen.context.name, family)
    return next((subnet for subnet in seen.subnets if subnet.name == name), None)


def _is_ours(seen: Observed, subnet: Subnet) -> bool:
    """Whether the subnet was made for this very context; one that was orphaned is known by its name."""
    ref = subnet.controller_ref
    if ref is None:
        return subnet.name == subnet_name(seen.context.name, subnet.spec.ip_family)
    return ref.uid == seen.context.uid


def _new_subnet(seen: Observed, family: IPFamily) -> Raw:
    return {
        "metadata": {
            "name": subnet_name(seen.context.name, family),
            "namespace": seen.context.namespace,
            "ownerReferences": [seen.context.owner_reference().to_dict()],
            "finalizers": [TEARDOWN_FINALIZER],
            "annotations": {PROJECT_ANNOTATION: seen.project.name},
        },
        "spec": {"networkContext": {"name": seen.context.name}, "ipFamily": family},
    }


def _why_not_ready(seen: Observed, families: tuple[IPFamily, ...]) -> Why | None:
    for family in families:
        name = subnet_name(seen.context.name, family)
        subnet = _subnet(seen, family)
        if subnet is None:
            words = "it is being created."
        elif not _is_ours(seen, subnet):
            ref = subnet.controller_ref
            owner = f"{ref.kind} {ref.name} (uid {ref.uid})" if ref is not None else ""
            return reasons.NAME_CONFLICT.name, reasons.NAME_CONFLICT.message(what=f"Subnet {name}", owner=owner)
        elif subnet.is_going or not is_true(subnet.status, READY):
            words = message_of(subnet.status, READY) or "IPAM has not answered yet."
        else:
            continue
        return reasons.SUBNET_NOT_READY.name, reasons.SUBNET_NOT_READY.message(subnet=name, words=words)
    return None


def _status(seen: Observed, families: tuple[IPFamily, ...], refusal: Why | None) -> InCell:
    standing = {entry.family: entry.name for entry in seen.context.status.subnets}
    named = {family: subnet_name(seen.context.name, family) for family in families} or standing
    ready = (reasons.READY.name, reasons.READY.message(what=seen.what))
    status = {
        "subnets": [{"family": family, "name": name} for family, name in named.items()],
        "conditions": [verdict(seen.raw, READY, refusal, ready)],
    }
    return InCell(ApplyStatus(resources.NETWORK_CONTEXTS, seen.context.key, status, manager=NSO, owns=OWNED))


def _tear_down(seen: Observed) -> Plan:
    """Interfaces first, then the subnets, then the finalizer."""
    if not seen.context.has_finalizer(TEARDOWN_FINALIZER):
        return ()
    deletes = tuple(
        InCell(Delete(resources.SUBNETS, subnet.key, subnet.uid))
        for subnet in seen.subnets
        if _is_ours(seen, subnet) and not subnet.is_going
    )
    if seen.interfaces:
        occupants = f"interfaces {listed(seen.interfaces)}"
        message = reasons.RANGE_OCCUPIED.message(what=seen.what, occupants=occupants)
        return (_status(seen, (), (reasons.RANGE_OCCUPIED.name, message)),)
    if seen.subnets:
        waits_for = "; ".join(_waits_for(subnet) for subnet in seen.subnets)
        message = reasons.TEARING_DOWN.message(what=seen.what, waits_for=waits_for)
        return (*deletes, _status(seen, (), (reasons.TEARING_DOWN.name, message)))
    return (InCell(DropFinalizer(resources.NETWORK_CONTEXTS, seen.raw, TEARDOWN_FINALIZER)),)


def _waits_for(subnet: Subnet) -> str:
    words = message_of(subnet.status, READY) if subnet.is_going else ""
    return f"subnet {subnet.name}" + (f" ({words})" if words else "")
