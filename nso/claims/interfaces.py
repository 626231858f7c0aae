"""The plan of an interface: its status, and giving its addresses back when it is deleted for good."""

from __future__ import annotations

from typing import Final

from netclaim.api import conditions, resources
from netclaim.api.managers import NSO, NSO_SEED
from netclaim.api.meta import Raw
from netclaim.api.networking import (
    ALLOCATED,
    EXTERNAL_PROGRAMMED,
    INTERFACE_RELEASE_FINALIZER,
    PHASE_AVAILABLE,
    PHASE_BOUND,
    PROGRAMMED,
)
from netclaim.identity import context_name
from netclaim.kube.writes import AddFinalizer, ApplyStatus, Delete, DropFinalizer, Emit, Owned
from nso.claims import reasons
from nso.claims.answers import missing_allocations
from nso.claims.observed import InterfaceSeen
from nso.claims.release import RETAIN, clear_holder
from nso.conditions import told
from nso.steps import EachOf, InCell, Plan

OWNED: Final = Owned(fields=frozenset({"phase", "networkContextRef"}), conditions=frozenset({ALLOCATED}))
_SEEDS: Final = (PROGRAMMED, EXTERNAL_PROGRAMMED)


def plan(seen: InterfaceSeen) -> Plan:
    """The writes that bring the interface further."""
    if seen.interface.is_going:
        return _give_back(seen)
    if seen.held.holder and seen.claim is None:
        return _orphaned(seen)
    hold: Plan = ()
    if not seen.interface.has_finalizer(INTERFACE_RELEASE_FINALIZER):
        hold = (InCell(AddFinalizer(resources.INTERFACES, seen.held.raw, INTERFACE_RELEASE_FINALIZER)),)
    return (*hold, *_status(seen), *_seed(seen))


def _orphaned(seen: InterfaceSeen) -> Plan:
    """Its claim went without a release (somebody took the finalizer away): what that release would have done."""
    if seen.interface.spec.reclaim_policy == RETAIN and not seen.namespace_is_going:
        return (InCell(clear_holder(seen.held)),)
    return (InCell(Delete(resources.INTERFACES, seen.interface.key, seen.interface.uid)),)


def _status(seen: InterfaceSeen) -> Plan:
    interface, held = seen.interface, seen.held
    is_bound = bool(held.holder) and held.is_settled_on(held.holder)
    missing = missing_allocations(interface, seen.ip_claims, held.minted_for, held.project)
    addresses = [entry.address for entry in interface.spec.addresses]
    addresses += [entry.address for entry in interface.spec.external_addresses]
    allocated = reasons.INTERFACE_ALLOCATED.refuse(addresses=", ".join(addresses))
    why = missing or allocated
    status: Raw = {
        "phase": PHASE_BOUND if is_bound else PHASE_AVAILABLE,
        "networkContextRef": {"name": context_name(interface.spec.network.name, seen.cell.location)},
        "conditions": [told(held.raw, ALLOCATED, "False" if missing else "True", why.reason, why.message)],
    }
    write = ApplyStatus(resources.INTERFACES, interface.key, status, manager=NSO, owns=OWNED)
    was = conditions.status_of(held.raw, ALLOCATED)
    if missing is not None and was != "False":
        return (InCell(write), InCell(Emit(held.raw, "Warning", missing.reason, missing.message)))
    if missing is None and was == "False":
        return (InCell(write), InCell(Emit(held.raw, "Normal", allocated.reason, allocated.message)))
    return (InCell(write),)


def _seed(seen: InterfaceSeen) -> Plan:
    """Programmed and ExternalProgrammed=Unknown while nobody has said anything about them.

    An apply names all that its manager has said so far: one that is absent is seeded together with the others that
    still say what the seed says.
    """
    raw = seen.held.raw
    why = reasons.NOT_REPORTED.refuse(interface=seen.interface.name)
    absent = [kind for kind in _SEEDS if conditions.condition(raw, kind) is None]
    if not absent:
        return ()
    seeded = [kind for kind in _SEEDS if kind in absent or conditions.reason_of(raw, kind) == why.reason]
    status: Raw = {"conditions": [told(raw, kind, "Unknown", why.reason, why.message) for kind in seeded]}
    owns = Owned(conditions=frozenset(seeded))
    write = ApplyStatus(resources.INTERFACES, seen.interface.key, status, manager=NSO_SEED, owns=owns, force=False)
    return (InCell(write),)


def _give_back(seen: InterfaceSeen) -> Plan:
    """Wait until the data plane let go; then keep the addresses for a live holder, or release them, and go."""
    finalizers = seen.interface.metadata.finalizers
    if finalizers != [INTERFACE_RELEASE_FINALIZER]:
        return ()
    let_go = InCell(DropFinalizer(resources.INTERFACES, seen.held.raw, INTERFACE_RELEASE_FINALIZER))
    claim = seen.claim
    if claim is not None and not claim.is_going and not seen.namespace_is_going:
        # The claim makes the interface again on these addresses; an adoption is finished first, so that it finds them.
        return (let_go,) if seen.held.is_settled_on(claim.uid) else ()
    minted_for = {uid for uid in (seen.held.minted_for, seen.held.holder) if uid}
    own = [
        one
        for one in seen.ip_claims
        if seen.cell.owns(one) and one.spec.owner_ref is not None and one.spec.owner_ref.uid in minted_for
    ]
    deletes = tuple(Delete(resources.IP_CLAIMS, one.key, one.uid) for one in own if not one.is_going)
    if deletes:
        return (EachOf(deletes),)
    return () if own else (let_go,)
