"""Binding an interface that was kept: may this claim have it, and the writes that move it over.

The interface is the arbiter: the first write puts the claim into its `claimRef`, over the very version that was seen
unheld, so that of two claims one gets it. Then its IPClaims are moved to the claim by `ownerRef`, then its record of
whom they are for. Until that record agrees with the holder, nobody calls the interface Bound, and a crash anywhere is
finished by the next pass.
"""

from __future__ import annotations

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.api.networking import ALLOCATED_FOR_ANNOTATION, NetworkInterfaceClaim
from netclaim.kube.writes import JsonPatch
from nso.claims import needs, reasons
from nso.claims.observed import ClaimSeen, HeldInterface
from nso.claims.reasons import ADOPTION_ADVICE, Reason, Refusal
from nso.steps import EachOf, InCell, Plan

_RECORD_PATH = "/metadata/annotations/" + ALLOCATED_FOR_ANNOTATION.replace("/", "~1")


def refusal(claim: NetworkInterfaceClaim, held: HeldInterface) -> Refusal | None:
    """Why the claim may not have this unheld interface; None when it may. Nothing is changed in either case."""
    spec, found = claim.spec, held.interface.spec
    primary_first = sorted(found.addresses, key=lambda entry: not entry.primary)
    families = [entry.family for entry in primary_first]
    classes = {entry.class_ for entry in found.external_addresses}
    wanted_classes = {entry.class_ for entry in spec.addresses}
    wanted_families = list(spec.ip_families or families)
    if found.network.name != spec.network.name:
        return _mismatch(reasons.NETWORK_MISMATCH, held, found.network.name, spec.network.name)
    if found.interface_name != spec.interface_name:
        return _mismatch(reasons.INTERFACE_NAME_MISMATCH, held, found.interface_name, spec.interface_name)
    if families != wanted_families:
        return _mismatch(reasons.ADDRESS_FAMILY_MISSING, held, ", ".join(families), ", ".join(wanted_families))
    if classes != wanted_classes:
        return _mismatch(reasons.ADDRESS_CLASS_MISSING, held, _listed(classes), _listed(wanted_classes))
    if found.reclaim_policy != spec.reclaim_policy:
        return _mismatch(reasons.RECLAIM_POLICY_MISMATCH, held, found.reclaim_policy, spec.reclaim_policy)
    return None


def _mismatch(reason: Reason, held: HeldInterface, found: str, wanted: str) -> Refusal:
    return reason.refuse(interface=held.interface.name, found=found, wanted=wanted, advice=ADOPTION_ADVICE)


def _listed(classes: set[str]) -> str:
    return ", ".join(sorted(classes)) or "no class"


def take(seen: ClaimSeen, held: HeldInterface) -> Plan:
    """Put the claim into an unheld interface, over the version that was seen; then move its IPClaims."""
    ref: Raw = {"name": seen.claim.name, "uid": seen.claim.uid}
    version = held.interface.metadata.resource_version
    operations = (
        {"op": "test", "path": "/metadata/resourceVersion", "value": version},
        {"op": "add", "path": "/spec/claimRef", "value": ref},
    )
    return (InCell(JsonPatch(resources.INTERFACES, held.interface.key, operations)), *finish(seen, held))


def finish(seen: ClaimSeen, held: HeldInterface) -> Plan:
    """Move what was minted for the former holder to this claim, then record that; nothing when it is so already."""
    if held.minted_for == seen.claim.uid:
        return ()
    former = tuple(
        one
        for one in seen.ip_claims
        if held.minted_for and one.spec.owner_ref is not None and one.spec.owner_ref.uid == held.minted_for
    )
    moves = tuple(
        JsonPatch(
            resources.IP_CLAIMS,
            one.key,
            (
                {"op": "test", "path": "/metadata/uid", "value": one.uid},
                {"op": "test", "path": "/spec/ownerRef/uid", "value": held.minted_for},
                {"op": "replace", "path": "/spec/ownerRef", "value": seen.cell.owner_ref(needs.owner(seen.claim))},
            ),
        )
        for one in former
        if not one.is_going
    )
    record = (
        {"op": "test", "path": "/spec/claimRef/uid", "value": seen.claim.uid},
        {"op": "add", "path": _RECORD_PATH, "value": minted_record(seen.claim)},
    )
    recorded = InCell(JsonPatch(resources.INTERFACES, held.interface.key, record))
    return (*((EachOf(moves),) if moves else ()), recorded)


def minted_record(claim: NetworkInterfaceClaim) -> str:
    """Value of the annotation that tells whose the IPClaims of an interface are."""
    return f"{claim.name}/{claim.uid}"
