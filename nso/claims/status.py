"""A claim's status: what NSO owns of it, worked out from how far the claim is."""

from __future__ import annotations

from typing import Final

from netclaim.api import conditions, resources
from netclaim.api.managers import NSO, NSO_SEED
from netclaim.api.meta import Raw
from netclaim.api.networking import ALLOCATED, BOUND, PREPARED, PROGRAMMED, READY, NetworkInterface
from netclaim.kube.writes import ApplyStatus, Emit, Owned
from nso.claims import reasons
from nso.claims.observed import ClaimSeen
from nso.claims.reasons import Refusal
from nso.conditions import told
from nso.steps import InCell, Plan

OWNED: Final = Owned(
    fields=frozenset({"project", "networkInterfaceRef", "addresses", "externalAddresses"}),
    conditions=frozenset({BOUND, ALLOCATED, READY}),
)
SEEDED: Final = Owned(conditions=frozenset({PROGRAMMED}))
_FACTS: Final = ("project", "networkInterfaceRef", "addresses", "externalAddresses")


def refused(seen: ClaimSeen, refusal: Refusal, *, project: str | None = None, ready_reason: str = "") -> Plan:
    """Not served, and why. A claim that was bound before keeps what it was told: only Ready falls.

    `project` is recorded when it is given; `ready_reason` stands in for a reason that is no refusal.
    """
    facts = _standing(seen, project)
    why = (refusal.reason, refusal.message)
    if seen.was_bound:
        standing = (conditions.condition(seen.raw, BOUND), conditions.condition(seen.raw, ALLOCATED))
        kept = [dict(condition) for condition in standing if condition is not None]
    else:
        kept = [told(seen.raw, BOUND, "False", *why), told(seen.raw, ALLOCATED, "False", *why)]
    return _write(seen, facts, [*kept, told(seen.raw, READY, "False", ready_reason or why[0], why[1])])


def asking(seen: ClaimSeen, wanted: str) -> Plan:
    """The project is recorded, and IPAM is asked; neither served nor refused."""
    refusal = reasons.ALLOCATING.refuse(wanted=wanted, project=seen.project)
    return refused(seen, refusal, project=seen.project, ready_reason=f"Not{BOUND}")


def bound(seen: ClaimSeen, interface: NetworkInterface, missing: Refusal | None) -> Plan:
    """Served by `interface`; `missing` tells that an address of it is no longer allocated."""
    spec = interface.spec
    facts: Raw = {
        "project": seen.project,
        "networkInterfaceRef": {"name": interface.name},
        "addresses": [
            {"family": entry.family, "address": entry.address, "primary": entry.primary}
            for entry in sorted(spec.addresses, key=lambda entry: not entry.primary)
        ],
        "externalAddresses": [entry.to_dict() for entry in spec.external_addresses],
    }
    held = ", ".join([*(e.address for e in spec.addresses), *(e.address for e in spec.external_addresses)])
    is_bound = reasons.BOUND.refuse(interface=interface.name)
    allocated = reasons.ALLOCATED.refuse(addresses=held, project=seen.project)
    told_allocated = (
        told(seen.raw, ALLOCATED, "False", missing.reason, missing.message)
        if missing is not None
        else told(seen.raw, ALLOCATED, "True", allocated.reason, allocated.message)
    )
    own = [told(seen.raw, BOUND, "True", is_bound.reason, is_bound.message), told_allocated]
    return _write(seen, facts, [*own, _ready(seen, interface, missing)])


def _ready(seen: ClaimSeen, interface: NetworkInterface, missing: Refusal | None) -> Raw:
    """Bound, Allocated and Programmed are True, and Prepared is not False: a data plane may know no Prepared."""
    if missing is not None:
        return told(seen.raw, READY, "False", missing.reason, missing.message)
    for kind, must_be_true in ((PREPARED, False), (PROGRAMMED, True)):
        status = conditions.status_of(seen.raw, kind)
        if status == "False" or (must_be_true and status != "True"):
            silence = reasons.NOT_REPORTED.refuse(interface=seen.interface_name).message
            words = conditions.message_of(seen.raw, kind) or silence
            why = reasons.NOT_READY.refuse(first=kind, status=status or "Unknown", words=words)
            return told(seen.raw, READY, "False", f"Not{kind}", why.message)
    ready = reasons.READY.refuse(interface=interface.name)
    return told(seen.raw, READY, "True", ready.reason, ready.message)


def seed(seen: ClaimSeen) -> Plan:
    """Programmed=Unknown while nobody has said anything about it; never over what somebody said.

    Not in a claim's first moments: mostly a data plane has spoken when they are over.
    """
    if seen.is_fresh or conditions.condition(seen.raw, PROGRAMMED) is not None:
        return ()
    why = reasons.NOT_REPORTED.refuse(interface=seen.interface_name)
    status: Raw = {"conditions": [told(seen.raw, PROGRAMMED, "Unknown", why.reason, why.message)]}
    write = ApplyStatus(resources.CLAIMS, seen.claim.key, status, manager=NSO_SEED, owns=SEEDED, force=False)
    return (InCell(write),)


def _standing(seen: ClaimSeen, project: str | None) -> Raw:
    status = seen.raw.get("status") or {}
    facts = {name: status[name] for name in _FACTS if name in status}
    if project:
        facts["project"] = project
    return facts


def _write(seen: ClaimSeen, facts: Raw, conditions_told: list[Raw]) -> Plan:
    status = {**facts, "conditions": conditions_told}
    write = ApplyStatus(resources.CLAIMS, seen.claim.key, status, manager=NSO, owns=OWNED)
    return (InCell(write), *_events(seen, conditions_told))


def _events(seen: ClaimSeen, conditions_told: list[Raw]) -> Plan:
    """One event for a refusal that is new, and one when Ready is True again or for the first time lost."""
    now = next(condition for condition in conditions_told if condition["type"] == READY)
    before = conditions.condition(seen.raw, READY) or {}
    if (before.get("status"), before.get("reason")) == (now["status"], now["reason"]):
        return ()
    was_refused = before.get("reason") in reasons.REFUSALS
    if now["status"] == "False" and (now["reason"] in reasons.REFUSALS or before.get("status") == "True"):
        return (InCell(Emit(seen.raw, "Warning", now["reason"], now["message"])),)
    if was_refused or (now["status"] == "True" and before.get("status") == "False"):
        return (InCell(Emit(seen.raw, "Normal", now["reason"], now["message"])),)
    return ()
