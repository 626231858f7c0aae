"""The plan of a claim that goes: what becomes of its interface and its addresses.

Nothing is let go before it is certain who frees the addresses: the interface (when it is deleted, by its own
finalizer), nobody (kept under Retain), or the claim itself (asked for, and no interface there).
"""

from __future__ import annotations

from netclaim.api import resources
from netclaim.api.ipam import IPClaim
from netclaim.api.networking import CLAIM_RELEASE_FINALIZER, INTERFACE_RELEASE_FINALIZER
from netclaim.kube.writes import Delete, DropFinalizer, JsonPatch
from nso.claims import adoption, reasons, status
from nso.claims.needs import owner
from nso.claims.observed import ClaimSeen, HeldInterface
from nso.steps import EachOf, InCell, Plan

RETAIN = "Retain"


def plan_release(seen: ClaimSeen) -> Plan:
    """The writes that bring a claim further that is being deleted."""
    if not seen.claim.has_finalizer(CLAIM_RELEASE_FINALIZER):
        return ()
    if seen.interface is not None and seen.holds_interface:
        return _release_held(seen, seen.interface)
    if seen.interface is not None and seen.interface.minted_for == seen.claim.uid:
        # Kept: the interface is the retention, and gives its addresses back when it is deleted.
        return (_let_go(seen),)
    own = _own(seen)
    deletes = tuple(Delete(resources.IP_CLAIMS, one.key, one.uid) for one in own if not one.is_going)
    if deletes:
        return (EachOf(deletes),)
    return () if own else (_let_go(seen),)


def plan_departed(seen: ClaimSeen) -> Plan:
    """Give back what a claim had asked for that is gone without a release.

    The API server lets a deletion overtake a finalizer that is added at the same moment: the claim is gone although its
    finalizer was accepted. Only for a claim that was never bound: nothing it asked for was ever in use.
    """
    deletes = tuple(Delete(resources.IP_CLAIMS, one.key, one.uid) for one in _own(seen) if not one.is_going)
    return (EachOf(deletes),) if deletes else ()


def _own(seen: ClaimSeen) -> tuple[IPClaim, ...]:
    return tuple(one for one in seen.ip_claims if seen.cell.is_for(one, owner(seen.claim)))


def _release_held(seen: ClaimSeen, held: HeldInterface) -> Plan:
    interface = held.interface
    moving = adoption.finish(seen, held)
    if interface.is_going:
        # Its own finalizer frees the addresses. Only a wait for somebody else is worth telling.
        others = [name for name in interface.metadata.finalizers if name != INTERFACE_RELEASE_FINALIZER]
        if not others:
            return moving
        waits_for = seen.detaching or f"{', '.join(others)} to let go of it"
        refusal = reasons.INTERFACE_BEING_RELEASED.refuse(what=f"Interface {interface.name}", waits_for=waits_for)
        return (*moving, *status.refused(seen, refusal))
    if interface.spec.reclaim_policy == RETAIN and not seen.namespace_is_going:
        return (*moving, InCell(clear_holder(held)), _let_go(seen))
    return (*moving, InCell(Delete(resources.INTERFACES, interface.key, interface.uid)))


def clear_holder(held: HeldInterface) -> JsonPatch:
    """Make the interface available: only of this holder, on this very interface."""
    operations = (
        {"op": "test", "path": "/metadata/uid", "value": held.interface.uid},
        {"op": "test", "path": "/spec/claimRef/uid", "value": held.holder},
        {"op": "remove", "path": "/spec/claimRef"},
    )
    return JsonPatch(resources.INTERFACES, held.interface.key, operations)


def _let_go(seen: ClaimSeen) -> InCell:
    return InCell(DropFinalizer(resources.CLAIMS, seen.raw, CLAIM_RELEASE_FINALIZER))
