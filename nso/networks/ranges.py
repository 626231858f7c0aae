"""A range that a network or a subnet holds in IPAM: asking for it, reading the answer, giving it back."""

from __future__ import annotations

from dataclasses import dataclass

from netclaim import addresses
from netclaim.api import ipam, resources
from netclaim.api.ipam import IPClaim
from netclaim.kube.writes import Create, Delete
from nso.conditions import find
from nso.ipclaims import Cell, Owner, describe_owner, is_bound
from nso.networks import reasons
from nso.steps import EachOf, InIpam, Plan


@dataclass(frozen=True, slots=True)
class Wanted:
    """A range that `owner` should hold: `what` names it for people, `held` is the CIDR its status already tells."""

    what: str
    owner: Owner
    ip_claim_name: str
    project: str
    class_name: str
    network: str
    held: str | None


@dataclass(frozen=True, slots=True)
class Settled:
    """How far a range is: `cidr` once IPAM has answered, else why not. `steps` bring it further."""

    reason: str
    message: str
    cidr: str | None = None
    gateway: str | None = None
    steps: Plan = ()

    @property
    def is_held(self) -> bool:
        """Whether the range is there, as its status tells."""
        return self.reason == reasons.ALLOCATED.name


def settle(cell: Cell, wanted: Wanted, ip_claim: IPClaim | None) -> Settled:
    """What to ask IPAM for, or what its answer means."""
    where = {"project": wanted.project, "ip_claim": wanted.ip_claim_name}
    if ip_claim is None:
        return _ask(cell, wanted)
    if cell.is_for_namesake(ip_claim, wanted.owner):
        message = reasons.RANGE_BEING_RELEASED.message(what=wanted.what, **where)
        return Settled(reasons.RANGE_BEING_RELEASED.name, message)
    if not cell.is_for(ip_claim, wanted.owner):
        message = reasons.RANGE_CLAIM_CONFLICT.message(what=wanted.what, owner=describe_owner(ip_claim), **where)
        return Settled(reasons.RANGE_CLAIM_CONFLICT.name, message)
    if is_bound(ip_claim):
        return _read(wanted, ip_claim)
    if ip_claim.is_going and wanted.held:
        return _missing(wanted, "is being deleted")
    bound = find(ip_claim.status, ipam.BOUND)
    if bound is None or bound.status == "True" or not bound.message:
        return Settled(reasons.ALLOCATION_PENDING.name, reasons.ALLOCATION_PENDING.message(**where))
    words = reasons.ALLOCATION_REJECTED.message(reason=bound.reason, words=bound.message, **where)
    return Settled(reasons.ALLOCATION_REJECTED.name, words)


def _ask(cell: Cell, wanted: Wanted) -> Settled:
    """Create the IPClaim. Asking again for a range that was held finds the same one: others still hold blocks in it."""
    obj = cell.build(
        wanted.ip_claim_name,
        project=wanted.project,
        owner=wanted.owner,
        network=wanted.network,
        target=ipam.TARGET_RANGE,
        class_name=wanted.class_name,
    )
    message = reasons.ALLOCATION_PENDING.message(project=wanted.project, ip_claim=wanted.ip_claim_name)
    create = InIpam(Create(resources.IP_CLAIMS, obj))
    return Settled(reasons.ALLOCATION_PENDING.name, message, steps=(create,))


def _read(wanted: Wanted, ip_claim: IPClaim) -> Settled:
    """IPAM's answer; a range that was published before is never silently another one."""
    cidr = str(ip_claim.status.cidr)
    if wanted.held and not addresses.same(wanted.held, cidr):
        return _missing(wanted, f"holds {cidr}")
    message = reasons.ALLOCATED.message(what=wanted.what, ranges=cidr)
    return Settled(reasons.ALLOCATED.name, message, cidr=cidr, gateway=ip_claim.status.gateway)


def _missing(wanted: Wanted, found: str) -> Settled:
    message = reasons.ALLOCATION_MISSING.message(
        what=wanted.what,
        held=wanted.held,
        project=wanted.project,
        ip_claim=wanted.ip_claim_name,
        found=found,
    )
    return Settled(reasons.ALLOCATION_MISSING.name, message)


def give_back(ip_claims: tuple[IPClaim, ...]) -> Plan:
    """Delete those that are not going yet, each by uid."""
    deletes = tuple(
        Delete(resources.IP_CLAIMS, ip_claim.key, ip_claim.uid) for ip_claim in ip_claims if not ip_claim.is_going
    )
    return (EachOf(deletes),) if deletes else ()


def why_still_held(what: str, ip_claims: tuple[IPClaim, ...]) -> tuple[str, str]:
    """(reason, message) while IPAM still keeps the ranges: its own words when it says who is inside."""
    for ip_claim in ip_claims:
        released = find(ip_claim.status, ipam.RELEASED)
        if released is not None and released.reason == ipam.REASON_RANGE_OCCUPIED:
            words = released.message or "another cell uses it."
            message = reasons.RANGE_OCCUPIED_IN_IPAM.message(what=what, words=words)
            return reasons.RANGE_OCCUPIED_IN_IPAM.name, message
    names = ", ".join(f"IPClaim {ip_claim.namespace}/{ip_claim.name}" for ip_claim in ip_claims)
    return reasons.TEARING_DOWN.name, reasons.TEARING_DOWN.message(what=what, waits_for=names)


def listed(names: tuple[str, ...], limit: int = 5) -> str:
    """At most `limit` names, and how many more there are."""
    shown = ", ".join(names[:limit])
    return f"{shown} and {len(names) - limit} more" if len(names) > limit else shown
