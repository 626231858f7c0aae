"""Network: its ranges in IPAM, and its context in this cell's location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netclaim.api import resources
from netclaim.api.ipam import IPClaim
from netclaim.api.managers import NSO
from netclaim.api.meta import Raw
from netclaim.api.networking import (
    ALLOCATED,
    PROJECT_ANNOTATION,
    READY,
    TEARDOWN_FINALIZER,
    IPFamily,
    Network,
    NetworkContext,
)
from netclaim.identity import context_name, network_range_name
from netclaim.kube.writes import ApplyStatus, Create, Delete, DropFinalizer, Owned
from nso.conditions import is_true, message_of
from nso.ipclaims import Cell, Owner
from nso.networks import reasons, record
from nso.networks.ranges import Settled, Wanted, give_back, listed, settle, why_still_held
from nso.networks.record import Project
from nso.networks.verdicts import kept, verdict
from nso.steps import InCell, Plan

OWNED: Final = Owned(fields=frozenset({"prefixes"}), conditions=frozenset({READY, ALLOCATED}))


@dataclass(frozen=True, slots=True)
class Observed:
    """What a network's plan is made from.

    `range_classes` are the families that have a class of network ranges in the project, with its name; `ip_claims`
    those that this network owns by uid or that have a name it would use; `interfaces` the names of those on it.
    """

    cell: Cell
    raw: Raw
    network: Network
    project: Project
    range_classes: dict[IPFamily, str]
    ip_claims: tuple[IPClaim, ...]
    context: NetworkContext | None
    interfaces: tuple[str, ...]

    @property
    def what(self) -> str:
        """The network, for people."""
        return f"Network {self.network.namespace}/{self.network.name}"

    @property
    def owner(self) -> Owner:
        """The network as the owner of its IPClaims."""
        return Owner("Network", self.network.namespace, self.network.name, self.network.uid)


def reaches(network: Network, location: str) -> bool:
    """Whether the network is wanted in that location; no locations at all means every one."""
    return not network.spec.locations or location in network.spec.locations


def plan(seen: Observed) -> Plan:
    """The writes that bring the network further."""
    if seen.network.is_going:
        return _tear_down(seen)
    if seen.project.refusal is not None:
        return (_status(seen, (), seen.project.refusal, seen.project.refusal),)
    recording = record.steps(resources.NETWORKS, seen.raw, seen.project.name)
    ranges = {family: _settle(seen, family) for family in seen.network.spec.ip_families if family in seen.range_classes}
    asked = tuple(step for settled in ranges.values() for step in settled.steps)
    waiting = next((settled for settled in ranges.values() if not settled.is_held), None)
    prefixes = tuple({"family": family, "cidr": settled.cidr} for family, settled in ranges.items() if settled.cidr)
    if waiting is not None:
        refusal = (waiting.reason, waiting.message)
        return (*recording, *asked, _status(seen, prefixes, refusal, refusal))
    return (*recording, *_context_steps(seen), _status(seen, prefixes, None, _why_not_ready(seen)))


def _settle(seen: Observed, family: IPFamily) -> Settled:
    held = next((prefix.cidr for prefix in seen.network.status.prefixes if prefix.family == family), None)
    name = network_range_name(seen.cell.location, seen.network.namespace, seen.network.name, family)
    wanted = Wanted(
        what=f"{seen.what} ({family})",
        owner=seen.owner,
        ip_claim_name=name,
        project=seen.project.name,
        class_name=seen.range_classes[family],
        network=seen.network.name,
        held=held,
    )
    return settle(seen.cell, wanted, next((one for one in seen.ip_claims if one.name == name), None))


def _context_steps(seen: Observed) -> Plan:
    """Make the context where the network is wanted, delete it where it no longer is."""
    if reaches(seen.network, seen.cell.location):
        if seen.context is None:
            return (InCell(Create(resources.NETWORK_CONTEXTS, _context(seen), ok_if_exists=True)),)
        return ()
    if seen.context is not None and _is_ours(seen) and not seen.context.is_going:
        return (InCell(Delete(resources.NETWORK_CONTEXTS, seen.context.key, seen.context.uid)),)
    return ()


def _context(seen: Observed) -> Raw:
    owner = seen.network.owner_reference().to_dict()
    return {
        "metadata": {
            "name": context_name(seen.network.name, seen.cell.location),
            "namespace": seen.network.namespace,
            "ownerReferences": [owner],
            "finalizers": [TEARDOWN_FINALIZER],
            "annotations": {PROJECT_ANNOTATION: seen.project.name},
        },
        "spec": {"network": {"name": seen.network.name}, "location": seen.cell.location},
    }


def _is_ours(seen: Observed) -> bool:
    """Whether the context was made for this very network; one that was orphaned belongs to whom it names."""
    if seen.context is None:
        return False
    ref = seen.context.controller_ref
    return ref is None or ref.uid == seen.network.uid


def _why_not_ready(seen: Observed) -> tuple[str, str] | None:
    """(reason, message), None when the network is ready: its ranges are held, and its context (if any) is ready."""
    if not reaches(seen.network, seen.cell.location):
        return None
    name = context_name(seen.network.name, seen.cell.location)
    if seen.context is None:
        return reasons.CONTEXT_PENDING.name, reasons.CONTEXT_PENDING.message(context=name)
    if not _is_ours(seen):
        ref = seen.context.controller_ref
        owner = f"{ref.kind} {ref.name} (uid {ref.uid})" if ref is not None else ""
        what = f"Network context {name}"
        return reasons.NAME_CONFLICT.name, reasons.NAME_CONFLICT.message(what=what, owner=owner)
    if seen.context.is_going:
        message = reasons.TEARING_DOWN.message(what=f"Network context {name}", waits_for="what is in it")
        return reasons.CONTEXT_NOT_READY.name, message
    if is_true(seen.context.status, READY):
        return None
    words = message_of(seen.context.status, READY) or "nobody has said why yet."
    message = reasons.CONTEXT_NOT_READY.message(context=name, words=words)
    return reasons.CONTEXT_NOT_READY.name, message


def _status(
    seen: Observed,
    prefixes: tuple[Raw, ...],
    not_allocated: tuple[str, str] | None,
    not_ready: tuple[str, str] | None,
) -> InCell:
    ranges = ", ".join(str(prefix["cidr"]) for prefix in prefixes) or "no range of its own (no family is cascaded)"
    allocated = (reasons.ALLOCATED.name, reasons.ALLOCATED.message(what=seen.what, ranges=ranges))
    ready = (reasons.READY.name, reasons.READY.message(what=seen.what))
    held = [prefix.to_dict() for prefix in seen.network.status.prefixes]
    known = {prefix["family"]: dict(prefix) for prefix in (*held, *prefixes)}
    status = {
        # A range that was published stays published until the network gives it back.
        "prefixes": [known[family] for family in seen.network.spec.ip_families if family in known],
        "conditions": [
            verdict(seen.raw, ALLOCATED, not_allocated, allocated),
            verdict(seen.raw, READY, not_ready, ready),
        ],
    }
    return InCell(ApplyStatus(resources.NETWORKS, seen.network.key, status, manager=NSO, owns=OWNED))


def _tear_down(seen: Observed) -> Plan:
    """Interfaces, then subnets and the context, then the ranges, then the finalizer."""
    if not seen.network.has_finalizer(TEARDOWN_FINALIZER):
        return ()
    if seen.interfaces:
        occupants = f"interfaces {listed(seen.interfaces)}"
        return (
            _going(
                seen, reasons.RANGE_OCCUPIED.name, reasons.RANGE_OCCUPIED.message(what=seen.what, occupants=occupants)
            ),
        )
    if seen.context is not None and _is_ours(seen):
        delete = (
            ()
            if seen.context.is_going
            else (InCell(Delete(resources.NETWORK_CONTEXTS, seen.context.key, seen.context.uid)),)
        )
        words = message_of(seen.context.status, READY)
        waits_for = f"network context {seen.context.name}" + (f" ({words})" if seen.context.is_going and words else "")
        message = reasons.TEARING_DOWN.message(what=seen.what, waits_for=waits_for)
        return (*delete, _going(seen, reasons.TEARING_DOWN.name, message))
    owned = tuple(one for one in seen.ip_claims if seen.cell.is_for(one, seen.owner))
    if owned:
        return (*give_back(owned), _going(seen, *why_still_held(seen.what, owned)))
    return (InCell(DropFinalizer(resources.NETWORKS, seen.raw, TEARDOWN_FINALIZER)),)


def _going(seen: Observed, reason: str, message: str) -> InCell:
    """The status of a network that is being deleted: what was allocated stays told until it is given back."""
    status = {
        "prefixes": [prefix.to_dict() for prefix in seen.network.status.prefixes],
        "conditions": [
            *kept(seen.raw, ALLOCATED),
            verdict(seen.raw, READY, (reason, message), ("", "")),
        ],
    }
    return InCell(ApplyStatus(resources.NETWORKS, seen.network.key, status, manager=NSO, owns=OWNED))
