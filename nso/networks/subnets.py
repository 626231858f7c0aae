"""Subnet: the range of one family of a network in this location, held in IPAM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netclaim.addresses import block, gateway
from netclaim.api import resources
from netclaim.api.ipam import IPClaim
from netclaim.api.managers import NSO
from netclaim.api.meta import Raw
from netclaim.api.networking import ALLOCATED, READY, TEARDOWN_FINALIZER, NetworkContext, Subnet
from netclaim.identity import context_range_name
from netclaim.kube.writes import ApplyStatus, DropFinalizer, Owned
from nso.ipclaims import Cell, Owner
from nso.networks import reasons, record
from nso.networks.ranges import Settled, Wanted, give_back, listed, settle, why_still_held
from nso.networks.record import Project
from nso.networks.verdicts import Why, kept, verdict
from nso.steps import InCell, Plan

PRIVATE: Final = "private"
"""The class of a context's own subnets, which the flags map to an IPAM class; any other name is an IPAM class."""

FIELDS: Final = ("cidr", "startAddress", "prefixLength", "gateway")
OWNED: Final = Owned(fields=frozenset(FIELDS), conditions=frozenset({READY, ALLOCATED}))


@dataclass(frozen=True, slots=True)
class Observed:
    """What a subnet's plan is made from.

    `class_name` is the IPAM class of its range; `interfaces` the interfaces with an address in it.
    """

    cell: Cell
    raw: Raw
    subnet: Subnet
    context: NetworkContext | None
    project: Project
    class_name: str
    ip_claims: tuple[IPClaim, ...]
    interfaces: tuple[str, ...]

    @property
    def what(self) -> str:
        """The subnet, for people."""
        return f"Subnet {self.subnet.namespace}/{self.subnet.name}"

    @property
    def owner(self) -> Owner:
        """The subnet as the owner of its IPClaim."""
        return Owner("Subnet", self.subnet.namespace, self.subnet.name, self.subnet.uid)


def range_name(cell: Cell, subnet: Subnet) -> str:
    """Name of the IPClaim of a subnet's range; a subnet claim's own subnet has one of its own."""
    return context_range_name(cell.location, subnet.namespace, subnet.name, subnet.spec.ip_family)


def plan(seen: Observed) -> Plan:
    """The writes that bring the subnet further."""
    if seen.subnet.is_going:
        return _tear_down(seen)
    if seen.context is None:
        where = {"context": seen.subnet.spec.network_context.name, "namespace": seen.subnet.namespace}
        return (_refused(seen, (reasons.CONTEXT_NOT_FOUND.name, reasons.CONTEXT_NOT_FOUND.message(**where))),)
    if seen.context.spec.location != seen.cell.location:
        message = reasons.LOCATION_NOT_SERVED.message(location=seen.cell.location, wanted=seen.context.spec.location)
        return (_refused(seen, (reasons.LOCATION_NOT_SERVED.name, message)),)
    if seen.project.refusal is not None:
        return (_refused(seen, seen.project.refusal),)
    name = range_name(seen.cell, seen.subnet)
    wanted = Wanted(
        what=seen.what,
        owner=seen.owner,
        ip_claim_name=name,
        project=seen.project.name,
        class_name=seen.class_name,
        network=seen.context.spec.network.name,
        held=seen.subnet.status.cidr,
    )
    settled = settle(seen.cell, wanted, next((one for one in seen.ip_claims if one.name == name), None))
    recording = record.steps(resources.SUBNETS, seen.raw, seen.project.name)
    return (*recording, *settled.steps, _settled(seen, settled))


def _settled(seen: Observed, settled: Settled) -> InCell:
    if not settled.is_held or settled.cidr is None:
        return _refused(seen, (settled.reason, settled.message))
    found = block(settled.cidr)
    facts: Raw = {
        "cidr": str(found),
        "startAddress": str(found.network_address),
        "prefixLength": found.prefixlen,
        "gateway": settled.gateway or gateway(settled.cidr),
    }
    ready = (reasons.READY.name, reasons.READY.message(what=seen.what))
    return _status(
        seen,
        facts,
        (
            verdict(seen.raw, ALLOCATED, None, (settled.reason, settled.message)),
            verdict(seen.raw, READY, None, ready),
        ),
    )


def _refused(seen: Observed, refusal: Why) -> InCell:
    """Not usable; a range that was published stays published."""
    unused = (reasons.READY.name, "")
    return _status(
        seen,
        _published(seen),
        (
            verdict(seen.raw, ALLOCATED, refusal, unused),
            verdict(seen.raw, READY, refusal, unused),
        ),
    )


def _published(seen: Observed) -> Raw:
    status = seen.raw.get("status") or {}
    return {name: status[name] for name in FIELDS if name in status}


def _status(seen: Observed, facts: Raw, conditions: tuple[Raw, ...]) -> InCell:
    status = {**facts, "conditions": list(conditions)}
    return InCell(ApplyStatus(resources.SUBNETS, seen.subnet.key, status, manager=NSO, owns=OWNED))


def _tear_down(seen: Observed) -> Plan:
    """Interfaces first, then the range, then the finalizer."""
    if not seen.subnet.has_finalizer(TEARDOWN_FINALIZER):
        return ()
    if seen.interfaces:
        message = reasons.RANGE_OCCUPIED.message(what=seen.what, occupants=f"interfaces {listed(seen.interfaces)}")
        return (_going(seen, (reasons.RANGE_OCCUPIED.name, message)),)
    owned = tuple(one for one in seen.ip_claims if seen.cell.is_for(one, seen.owner))
    if owned:
        return (*give_back(owned), _going(seen, why_still_held(seen.what, owned)))
    return (InCell(DropFinalizer(resources.SUBNETS, seen.raw, TEARDOWN_FINALIZER)),)


def _going(seen: Observed, why: Why) -> InCell:
    waiting = verdict(seen.raw, READY, why, ("", ""))
    return _status(seen, _published(seen), (*kept(seen.raw, ALLOCATED), waiting))
