"""What an Instance reads of its claims. Pure: raw claims in, facts out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from netclaim import addresses
from netclaim.api import networking
from netclaim.api.compute import WORKLOAD_LABEL, InstanceInterface
from netclaim.api.conditions import condition, is_true, message_of, reason_of, status_of
from netclaim.api.meta import ObjectRef, Raw
from netclaim.identity import label_value
from netclaim.kube.objects import is_going, uid_of
from nso.compute import reasons
from nso.compute.observed import controller_of, label
from nso.compute.reasons import Refusal

GATING: Final = (networking.BOUND, networking.ALLOCATED, networking.PREPARED)
"""What a claim must be before the Pod is made. Never Programmed: that takes the Pod (R31)."""


@dataclass(frozen=True, slots=True)
class Interface:
    """An interface of an instance, and its claim as it is; None when there is no claim that the instance may use."""

    wanted: InstanceInterface
    claim: Raw | None

    @property
    def uid(self) -> str:
        """The claim's uid, empty without a claim."""
        return uid_of(self.claim) if self.claim is not None else ""

    @property
    def is_live(self) -> bool:
        """Whether the claim is there, stays, and is the one that the instance started with (any, before that)."""
        started_with = self.wanted.claim_ref.uid
        return self.claim is not None and not is_going(self.claim) and started_with in (None, self.uid)

    @property
    def is_prepared(self) -> bool:
        """Whether a Pod can be made on it."""
        return self.is_live and all(is_true(self.claim, kind) for kind in GATING)

    @property
    def is_ready(self) -> bool:
        """Whether it carries traffic."""
        return self.is_live and is_true(self.claim, networking.READY)


def usable(claim: Raw | None, workload: ObjectRef) -> Raw | None:
    """The claim when it belongs to the instance's Workload, else None: a namesake of somebody else is no claim.

    One that lost its owner and says that it was made for that Workload still serves, until it is adopted.
    """
    if claim is None:
        return None
    owner = controller_of(claim)
    if owner is None:
        return claim if label(claim, WORKLOAD_LABEL) == label_value(workload.name) else None
    return claim if owner["uid"] == workload.uid else None


def refusal(interfaces: Iterable[Interface]) -> Refusal | None:
    """Why the network is not ready: the first claim that is not, in its own words."""
    for one in interfaces:
        name = one.wanted.claim_ref.name
        if one.claim is None:
            return reasons.awaiting_claim(name)
        if is_going(one.claim):
            return reasons.claim_going(name)
        if not one.is_live:
            return reasons.claim_gone(name)
        if condition(one.claim, networking.READY) is None:
            return reasons.awaiting_network(name)
        if not is_true(one.claim, networking.READY):
            message = message_of(one.claim, networking.READY) or reasons.awaiting_network(name).message
            return Refusal(reason_of(one.claim, networking.READY), message)
    return None


def programmed(interfaces: Iterable[Interface]) -> tuple[str, Refusal]:
    """Status of the Programmed condition over all claims, with the first claim's reason that is not True."""
    for one in interfaces:
        status = status_of(one.claim, networking.PROGRAMMED) if one.is_live else "Unknown"
        if status != "True":
            name = one.wanted.claim_ref.name
            said = condition(one.claim, networking.PROGRAMMED) if one.is_live else None
            default = reasons.awaiting_network(name) if one.claim is not None else reasons.awaiting_claim(name)
            why = Refusal(str(said.get("reason")), str(said.get("message") or "")) if said else default
            return status or "Unknown", why
    return "True", Refusal(reasons.PROGRAMMED, "")


def mirrored(one: Interface) -> Raw:
    """The interface's part of the Instance's status: what the claim says, and the addresses that answer."""
    made: Raw = {"name": one.wanted.name, "conditions": []}
    status = (one.claim or {}).get("status") or {}
    for name in ("networkInterfaceRef", "addresses", "externalAddresses"):
        if status.get(name):
            made[name] = status[name]
    made["conditions"] = sorted(status.get("conditions") or (), key=lambda said: str(said["type"]))
    assignments = _assignments(status)
    if assignments:
        made["assignments"] = assignments
    return made


def _assignments(status: Raw) -> Raw:
    """networkIP is bare: the address that answers a ping, of the primary family."""
    made: Raw = {}
    listed = status.get("addresses") or []
    primary = next((one for one in listed if one.get("primary")), listed[0] if listed else None)
    if primary is not None:
        made["networkIP"] = addresses.host_address(primary["address"])
    if status.get("externalAddresses"):
        made["externalIP"] = status["externalAddresses"][0]["address"]
    return made
