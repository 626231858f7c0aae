"""The plan of a claim: from what was observed around it to the writes that bring it further.

A live claim is in one of four places: its interface is bound to it (follow), there and not its own (adopt or refuse),
or not there (resolve, ask IPAM, make it). A claim that goes is planned in `release`.
"""

from __future__ import annotations

from dataclasses import replace

from netclaim import addresses
from netclaim.api import conditions, ipam, resources
from netclaim.api.ipam import IPClaim
from netclaim.api.managers import NSO
from netclaim.api.meta import Raw
from netclaim.api.networking import (
    ALLOCATED_FOR_ANNOTATION,
    CLAIM_RELEASE_FINALIZER,
    INTERFACE_RELEASE_FINALIZER,
    PROJECT_ANNOTATION,
    READY,
    NetworkInterface,
)
from netclaim.kube.writes import AddFinalizer, Create, Delete
from nso.claims import adoption, reasons, status
from nso.claims.answers import missing_allocations, refusal_of
from nso.claims.needs import Need, needs_of, owner
from nso.claims.observed import ClaimSeen, HeldInterface
from nso.claims.placement import Placement, place
from nso.claims.reasons import Refusal
from nso.claims.release import plan_release
from nso.ipclaims import describe_owner, is_bound
from nso.steps import EachOf, InCell, Plan


def plan(seen: ClaimSeen) -> Plan:
    """The writes that bring the claim further; none when it is as it should be (a write that is done is skipped)."""
    if seen.claim.is_going:
        return plan_release(seen)
    if seen.namespace_is_going:
        return ()
    if seen.failure is not None:
        return (*_give_up(seen, seen.failure), *status.refused(seen, seen.failure))
    if seen.interface is not None:
        steps = _held(seen, seen.interface) if seen.holds_interface else _unheld(seen, seen.interface)
    else:
        steps = _make(seen)
    return (*steps, *status.seed(seen))


def _held(seen: ClaimSeen, held: HeldInterface) -> Plan:
    """Follow the interface that serves the claim."""
    moving = adoption.finish(seen, held)
    if held.interface.is_going:
        return (*moving, *status.refused(seen, being_released(seen, held)))
    if moving:
        moved = replace(seen, project=held.project or seen.project)
        return (*moving, *status.bound(moved, held.interface, None))
    project = held.project or seen.project
    missing = missing_allocations(held.interface, seen.ip_claims, seen.claim.uid, project)
    return status.bound(replace(seen, project=project), held.interface, missing)


def being_released(seen: ClaimSeen, held: HeldInterface) -> Refusal:
    """The interface goes: who is waited for."""
    others = [name for name in held.interface.metadata.finalizers if name != INTERFACE_RELEASE_FINALIZER]
    waits_for = seen.detaching or (
        f"{', '.join(others)} to let go of it" if others else "its addresses to be given back"
    )
    return reasons.INTERFACE_BEING_RELEASED.refuse(what=f"Interface {held.interface.name}", waits_for=waits_for)


def _unheld(seen: ClaimSeen, held: HeldInterface) -> Plan:
    """Adopt the interface that is there, or say why not. What this claim had asked for by itself is given back."""
    if held.interface.is_going:
        refusal: Refusal | None = being_released(seen, held)
    elif held.interface.spec.claim_ref is not None:
        refusal = reasons.INTERFACE_HELD.refuse(
            interface=held.interface.name, holder=held.interface.spec.claim_ref.name
        )
    else:
        refusal = adoption.refusal(seen.claim, held)
    if refusal is not None:
        return (*_give_up(seen, refusal), *status.refused(seen, refusal))
    seen = replace(seen, project=held.project or seen.project)
    own = tuple(one for one in seen.ip_claims if seen.cell.is_for(one, owner(seen.claim)))
    return (
        *(() if held.minted_for == seen.claim.uid else _give_back(own)),
        *_hold(seen),
        *status.asking(seen, f"the addresses of interface {held.interface.name}"),
        *adoption.take(seen, held),
    )


def _make(seen: ClaimSeen) -> Plan:
    """Resolve, ask for all addresses, and make the interface when every one is there."""
    placement = place(seen)
    if isinstance(placement, Refusal):
        return (*_give_up(seen, placement), *status.refused(seen, placement))
    needs = needs_of(seen.cell, seen.claim, placement.families)
    found = {need: _ip_claim_for(seen, need) for need in needs}
    for need, ip_claim in found.items():
        conflict = _conflict(seen, need, ip_claim)
        if conflict is not None:
            return (*_give_up(seen, conflict), *status.refused(seen, conflict))
    missing = tuple(need for need, ip_claim in found.items() if ip_claim is None)
    answered = {need: ip_claim for need, ip_claim in found.items() if ip_claim is not None}
    refusals = [
        refusal for need, one in answered.items() if (refusal := refusal_of(need, one, seen.project)) is not None
    ]
    refusals.sort(key=lambda refusal: not refusal.is_final)
    if refusals:
        # What could not be served for good stays asked for: its answer is how this claim learns of a change.
        given_back = _give_up(seen, refusals[0]) if refusals[0].is_final else _ask(seen, missing)
        return (*given_back, *status.refused(seen, refusals[0], project=seen.project))
    if missing or not all(is_bound(one) for one in answered.values()):
        told = () if missing and _says_why_not(seen) else status.asking(seen, ", ".join(need.wanted for need in needs))
        return (*_hold(seen), *told, *_ask(seen, missing))
    return _bind(seen, placement, answered)


def _ip_claim_for(seen: ClaimSeen, need: Need) -> IPClaim | None:
    """The claim's own IPClaim for a need (an adopted one has another name), else the one that has the need's name."""
    namespace, network = seen.claim.namespace, seen.claim.spec.network.name
    own = [one for one in seen.ip_claims if seen.cell.is_for(one, owner(seen.claim))]
    fitting = next((one for one in own if need.is_met_by(one, namespace, network)), None)
    if fitting is not None:
        return fitting
    return next((one for one in seen.ip_claims if (one.namespace, one.name) == (seen.project, need.name)), None)


def _conflict(seen: ClaimSeen, need: Need, ip_claim: IPClaim | None) -> Refusal | None:
    """Why an IPClaim that is there cannot be this claim's: another's, or one that still goes."""
    if ip_claim is None:
        return None
    where = f"IPClaim {ip_claim.namespace}/{ip_claim.name}"
    if seen.cell.is_for_namesake(ip_claim, owner(seen.claim)):
        waits_for = f"{where} of the former claim of this name to be given back"
        return reasons.INTERFACE_BEING_RELEASED.refuse(what=f"Interface {seen.interface_name}", waits_for=waits_for)
    fits = need.is_met_by(ip_claim, seen.claim.namespace, seen.claim.spec.network.name)
    if not seen.cell.is_for(ip_claim, owner(seen.claim)) or not fits:
        return reasons.ADDRESS_CLAIM_CONFLICT.refuse(
            project=ip_claim.namespace, ip_claim=ip_claim.name, owner=describe_owner(ip_claim)
        )
    if ip_claim.is_going:
        return reasons.INTERFACE_BEING_RELEASED.refuse(
            what=f"Interface {seen.interface_name}", waits_for=f"{where} to be given back"
        )
    return None


def _says_why_not(seen: ClaimSeen) -> bool:
    """Whether the claim, its project recorded, says why IPAM did not take the last ask: it does until one is taken."""
    return bool(seen.claim.status.project) and conditions.reason_of(seen.raw, READY) in reasons.OF_AN_ASK


def _hold(seen: ClaimSeen) -> Plan:
    """The finalizer that comes before the first address is asked for."""
    if seen.claim.has_finalizer(CLAIM_RELEASE_FINALIZER):
        return ()
    return (InCell(AddFinalizer(resources.CLAIMS, seen.raw, CLAIM_RELEASE_FINALIZER)),)


def _ask(seen: ClaimSeen, missing: tuple[Need, ...]) -> Plan:
    creates = tuple(
        Create(
            resources.IP_CLAIMS,
            seen.cell.build(
                need.name,
                project=seen.project,
                owner=owner(seen.claim),
                network=seen.claim.spec.network.name,
                target=ipam.TARGET_BLOCK,
                class_name=need.class_name,
                family=need.family,
                address=need.address,
            ),
            manager=NSO,
        )
        for need in missing
    )
    return (EachOf(creates),) if creates else ()


def _give_up(seen: ClaimSeen, refusal: Refusal) -> Plan:
    """All or nothing: give back what this attempt was given, unless the claim once had an interface on it.

    The refused IPClaims themselves stay: they tell when the cause is gone, and hold no address. While a former holder
    still goes nothing was given yet, and a claim that waits for a quota or for IPAM keeps its turn.
    """
    waiting = {*reasons.OF_AN_ASK, reasons.INTERFACE_BEING_RELEASED.name}
    kept = seen.interface is not None and seen.interface.minted_for == seen.claim.uid
    if kept or seen.was_bound or (refusal.reason in waiting and not refusal.is_final):
        return ()
    own = tuple(one for one in seen.ip_claims if seen.cell.is_for(one, owner(seen.claim)))
    return _give_back(tuple(one for one in own if one.status.phase != ipam.PHASE_FAILED or not refusal.is_final))


def _give_back(ip_claims: tuple[IPClaim, ...]) -> Plan:
    deletes = tuple(Delete(resources.IP_CLAIMS, one.key, one.uid) for one in ip_claims if not one.is_going)
    return (EachOf(deletes),) if deletes else ()


def _bind(seen: ClaimSeen, placement: Placement, answered: dict[Need, IPClaim]) -> Plan:
    """Every address is there: the interface, then the status."""
    stray = placement.outside_its_subnet({n.family: str(c.status.cidr) for n, c in answered.items() if n.family})
    if stray is not None:
        return status.refused(seen, stray, project=seen.project)
    made = interface_for(seen, placement, answered)
    create = InCell(Create(resources.INTERFACES, made, manager=NSO))
    interface = NetworkInterface.model_validate(made)
    return (*_hold(seen), create, *status.bound(seen, interface, None))


def interface_for(seen: ClaimSeen, placement: Placement, answered: dict[Need, IPClaim]) -> Raw:
    """The interface: all that it takes to bring up the NIC, held by this claim from its first moment."""
    inside = [(need.family, str(one.status.cidr)) for need, one in answered.items() if need.family is not None]
    outside = [(need.class_name, str(one.status.cidr)) for need, one in answered.items() if need.class_name is not None]
    spec = seen.claim.spec
    made: Raw = {
        "network": {"name": spec.network.name},
        "claimRef": {"name": seen.claim.name, "uid": seen.claim.uid},
        "interfaceName": spec.interface_name,
        "mtu": placement.mtu,
        "addresses": [
            {
                "family": family,
                "address": addresses.endpoint_form(cidr),
                "gateway": placement.gateways[family],
                "primary": family == placement.families[0],
            }
            for family, cidr in inside
        ],
        "externalAddresses": [
            {"family": addresses.family(cidr), "address": addresses.external_form(cidr), "class": class_name}
            for class_name, cidr in outside
        ],
        "reclaimPolicy": spec.reclaim_policy,
    }
    return {
        "metadata": {
            "name": seen.interface_name,
            "namespace": seen.claim.namespace,
            "finalizers": [INTERFACE_RELEASE_FINALIZER],
            "annotations": {
                ALLOCATED_FOR_ANNOTATION: adoption.minted_record(seen.claim),
                PROJECT_ANNOTATION: seen.project,
            },
        },
        "spec": made,
    }
