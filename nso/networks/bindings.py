"""NetworkBinding: the older way to ask for a network in a location. It mirrors the context that serves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netclaim.api import resources
from netclaim.api.managers import NSO
from netclaim.api.meta import Raw
from netclaim.api.networking import READY, Network, NetworkBinding, NetworkContext
from netclaim.identity import context_name
from netclaim.kube.writes import ApplyStatus, Owned
from nso.conditions import is_true, message_of
from nso.networks import reasons
from nso.networks.networks import reaches
from nso.networks.verdicts import Why, verdict
from nso.steps import InCell, Plan

OWNED: Final = Owned(fields=frozenset({"networkContextRef"}), conditions=frozenset({READY}))


@dataclass(frozen=True, slots=True)
class Observed:
    """What a binding's plan is made from. The context exists because the network reaches this location."""

    location: str
    raw: Raw
    binding: NetworkBinding
    network: Network | None
    context: NetworkContext | None


def plan(seen: Observed) -> Plan:
    """The binding's status. Deleting a binding leaves the context: there is nothing to plan then."""
    if seen.binding.is_going:
        return ()
    refusal = _why_not_ready(seen)
    ready = (reasons.READY.name, reasons.READY.message(what=f"Network {seen.binding.spec.network.name}"))
    status: Raw = {"conditions": [verdict(seen.raw, READY, refusal, ready)]}
    if seen.context is not None:
        status["networkContextRef"] = {"name": seen.context.name}
    return (InCell(ApplyStatus(resources.NETWORK_BINDINGS, seen.binding.key, status, manager=NSO, owns=OWNED)),)


def _why_not_ready(seen: Observed) -> Why | None:
    name = seen.binding.spec.network.name
    wanted = seen.binding.spec.location or seen.location
    if wanted != seen.location:
        message = reasons.LOCATION_NOT_SERVED.message(location=seen.location, wanted=wanted)
        return reasons.LOCATION_NOT_SERVED.name, message
    if seen.network is None:
        message = reasons.NETWORK_NOT_FOUND.message(network=name, namespace=seen.binding.namespace)
        return reasons.NETWORK_NOT_FOUND.name, message
    if not reaches(seen.network, wanted):
        message = reasons.NETWORK_NOT_AVAILABLE.message(network=name, location=wanted)
        return reasons.NETWORK_NOT_AVAILABLE.name, message
    if seen.context is None:
        words = message_of(seen.network.status, READY)
        message = reasons.CONTEXT_PENDING.message(context=context_name(name, wanted))
        return reasons.CONTEXT_PENDING.name, f"{message} {words}".strip()
    if seen.context.is_going or not is_true(seen.context.status, READY):
        words = message_of(seen.context.status, READY) or "nobody has said why yet."
        return reasons.CONTEXT_NOT_READY.name, reasons.CONTEXT_NOT_READY.message(context=seen.context.name, words=words)
    return None
