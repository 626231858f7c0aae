"""SubnetClaim: the older way to ask for a subnet. It gets the context's own when that fits, else one made for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netclaim import addresses
from netclaim.api import resources
from netclaim.api.managers import NSO
from netclaim.api.meta import Raw
from netclaim.api.networking import (
    PROJECT_ANNOTATION,
    READY,
    TEARDOWN_FINALIZER,
    NetworkContext,
    Subnet,
    SubnetClaim,
)
from netclaim.identity import derived_name
from netclaim.kube.writes import ApplyStatus, Create, Owned
from nso.conditions import is_true, message_of
from nso.networks import reasons
from nso.networks.record import recorded
from nso.networks.verdicts import Why, verdict
from nso.steps import InCell, Plan

OWNED: Final = Owned(fields=frozenset({"subnetRef", "startAddress", "prefixLength"}), conditions=frozenset({READY}))


@dataclass(frozen=True, slots=True)
class Observed:
    """What a subnet claim's plan is made from; `subnets` are all of its context."""

    location: str
    raw: Raw
    claim: SubnetClaim
    context: NetworkContext | None
    subnets: tuple[Subnet, ...]


def plan(seen: Observed) -> Plan:
    """The writes that bring the claim further. A claim that goes takes a subnet of its own with it (its owner)."""
    if seen.claim.is_going:
        return ()
    wanted = seen.claim.spec
    if seen.context is None or seen.context.is_going:
        where = {"context": wanted.network_context.name, "namespace": seen.claim.namespace}
        return (_refuse(seen, reasons.CONTEXT_NOT_FOUND.name, reasons.CONTEXT_NOT_FOUND.message(**where)),)
    if seen.context.spec.location != seen.location:
        message = reasons.LOCATION_NOT_SERVED.message(location=seen.location, wanted=seen.context.spec.location)
        return (_refuse(seen, reasons.LOCATION_NOT_SERVED.name, message),)
    shared = next((one for one in seen.subnets if _is_offered(seen, one)), None)
    if shared is not None:
        return _mirror(seen, shared)
    own = next((one for one in seen.subnets if _is_own(seen, one)), None)
    if own is not None:
        return _mirror(seen, own)
    name = own_subnet_name(seen.claim.name, seen.claim.uid)
    message = reasons.SUBNET_NOT_READY.message(subnet=name, words="it is being created.")
    create = InCell(Create(resources.SUBNETS, _own_subnet(seen, name), ok_if_exists=True))
    return (create, _refuse(seen, reasons.SUBNET_NOT_READY.name, message))


def own_subnet_name(claim: str, uid: str) -> str:
    """Name of a subnet that is made for one claim: another claim of that name gets another subnet."""
    return derived_name(claim, uid[:8])


def _is_offered(seen: Observed, subnet: Subnet) -> bool:
    """Whether the subnet is the context's own, of that family and class."""
    ref = subnet.controller_ref
    return (
        seen.context is not None
        and ref is not None
        and ref.uid == seen.context.uid
        and subnet.spec.ip_family == seen.claim.spec.ip_family
        and subnet.spec.subnet_class == seen.claim.spec.subnet_class
    )


def _is_own(seen: Observed, subnet: Subnet) -> bool:
    ref = subnet.controller_ref
    return ref is not None and ref.uid == seen.claim.uid


def _own_subnet(seen: Observed, name: str) -> Raw:
    assert seen.context is not None  # noqa: S101 - a plan without a context has ended before
    project = recorded(seen.context)
    metadata: Raw = {
        "name": name,
        "namespace": seen.claim.namespace,
        "ownerReferences": [seen.claim.owner_reference().to_dict()],
        "finalizers": [TEARDOWN_FINALIZER],
    }
    if project:
        metadata["annotations"] = {PROJECT_ANNOTATION: project}
    spec = seen.claim.spec
    return {
        "metadata": metadata,
        "spec": {
            "networkContext": {"name": seen.context.name},
            "ipFamily": spec.ip_family,
            "subnetClass": spec.subnet_class,
        },
    }


def _mirror(seen: Observed, subnet: Subnet) -> Plan:
    """Tell what the subnet is; one that is not what was asked for is never bound."""
    found = subnet.status
    if subnet.is_going or not is_true(found, READY) or found.start_address is None or found.prefix_length is None:
        words = message_of(found, READY) or "IPAM has not answered yet."
        message = reasons.SUBNET_NOT_READY.message(subnet=subnet.name, words=words)
        return (_refuse(seen, reasons.SUBNET_NOT_READY.name, message),)
    wanted = seen.claim.spec
    fits = wanted.prefix_length in (None, found.prefix_length) and (
        wanted.start_address is None or addresses.same(wanted.start_address, found.start_address)
    )
    if not fits:
        asked = f"{wanted.start_address or '*'}/{wanted.prefix_length if wanted.prefix_length is not None else '*'}"
        message = reasons.SUBNET_DOES_NOT_FIT.message(
            wanted=asked,
            context=wanted.network_context.name,
            found=f"{found.start_address}/{found.prefix_length}",
        )
        return (_refuse(seen, reasons.SUBNET_DOES_NOT_FIT.name, message),)
    facts = {
        "subnetRef": {"name": subnet.name},
        "startAddress": found.start_address,
        "prefixLength": found.prefix_length,
    }
    return (_status(seen, facts, None),)


def _refuse(seen: Observed, reason: str, message: str) -> InCell:
    """Not ready; a subnet that was bound before stays told."""
    standing = seen.raw.get("status") or {}
    facts = {name: standing[name] for name in ("subnetRef", "startAddress", "prefixLength") if name in standing}
    return _status(seen, facts, (reason, message))


def _status(seen: Observed, facts: Raw, refusal: Why | None) -> InCell:
    ready = (reasons.READY.name, reasons.READY.message(what="The subnet"))
    status = {**facts, "conditions": [verdict(seen.raw, READY, refusal, ready)]}
    return InCell(ApplyStatus(resources.SUBNET_CLAIMS, seen.claim.key, status, manager=NSO, owns=OWNED))
