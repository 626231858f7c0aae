"""The plans of bindings and subnet claims: what they mirror, and why they are refused."""

from dataclasses import replace
from typing import Any

import pytest

from netclaim.api.meta import Raw
from netclaim.api.networking import Network, NetworkBinding, NetworkContext, Subnet, SubnetClaim
from netclaim.kube.writes import ApplyStatus, Create
from nso.networks import bindings, subnet_claims
from tests.unit.networks.objects import (
    READY,
    context_raw,
    controlled_by,
    metadata,
    network_raw,
    subnet_raw,
    told,
    writes,
)


def on_binding(location: str | None = None, **changes: Any) -> bindings.Observed:
    spec = {"network": {"name": "default"}, **({"location": location} if location else {})}
    raw = {"metadata": metadata("b", "b-1"), "spec": spec}
    whole = bindings.Observed(
        location="us-central-1",
        raw=raw,
        binding=NetworkBinding.model_validate(raw),
        network=Network.model_validate(network_raw()),
        context=NetworkContext.model_validate(context_raw(READY)),
    )
    return replace(whole, **changes)


def test_a_binding_mirrors_its_context() -> None:
    """R16."""
    planned = bindings.plan(on_binding())
    assert told(planned, "Ready")["status"] == "True"
    assert writes(planned, ApplyStatus)[0].status["networkContextRef"] == {"name": "default-us-central-1"}
    failing = on_binding(context=NetworkContext.model_validate(context_raw()))
    assert told(bindings.plan(failing), "Ready")["reason"] == "ContextNotReady"


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (on_binding("eu-west-1"), "LocationNotServed"),
        (on_binding(network=None, context=None), "NetworkNotFound"),
        (on_binding(context=None), "ContextPending"),
        (
            on_binding(network=Network.model_validate(network_raw(spec={"locations": ["x"]})), context=None),
            "NetworkNotAvailableInLocation",
        ),
    ],
)
def test_a_binding_says_why_it_is_not_ready(seen: bindings.Observed, reason: str) -> None:
    """R16."""
    assert told(bindings.plan(seen), "Ready")["reason"] == reason


SUBNET_STATUS = {**READY, "cidr": "fd20:1000::/64", "startAddress": "fd20:1000::", "prefixLength": 64}


def on_subnet_claim(**changes: Any) -> subnet_claims.Observed:
    spec = {"networkContext": {"name": "default-us-central-1"}, "ipFamily": "IPv6", **changes.pop("spec", {})}
    raw = {"metadata": metadata("sc", "5c11-uid-1"), "spec": spec}
    whole = subnet_claims.Observed(
        location="us-central-1",
        raw=raw,
        claim=SubnetClaim.model_validate(raw),
        context=NetworkContext.model_validate(context_raw(READY)),
        subnets=(Subnet.model_validate(subnet_raw("IPv6", SUBNET_STATUS)),),
    )
    return replace(whole, **changes)


def test_a_subnet_claim_gets_the_contexts_subnet_of_its_family() -> None:
    """R16."""
    planned = subnet_claims.plan(on_subnet_claim())
    status = writes(planned, ApplyStatus)[0].status
    assert status["subnetRef"] == {"name": "default-us-central-1-ipv6"}
    assert (status["startAddress"], status["prefixLength"]) == ("fd20:1000::", 64)
    assert not writes(planned, Create)


def test_a_subnet_claim_of_another_class_gets_a_subnet_that_goes_with_it() -> None:
    """R16."""
    planned = subnet_claims.plan(on_subnet_claim(spec={"subnetClass": "dmz-ipv6"}))
    (made,) = writes(planned, Create)
    assert made.obj["spec"]["subnetClass"] == "dmz-ipv6"
    assert made.obj["metadata"]["ownerReferences"][0]["uid"] == "5c11-uid-1"
    own = Subnet.model_validate(
        subnet_raw(
            "IPv6",
            SUBNET_STATUS,
            name="sc-5c11-uid",
            ownerReferences=controlled_by("SubnetClaim", "sc", "5c11-uid-1"),
        )
    )
    again = subnet_claims.plan(on_subnet_claim(spec={"subnetClass": "dmz-ipv6"}, subnets=(own,)))
    assert not writes(again, Create)
    assert told(again, "Ready")["status"] == "True"


@pytest.mark.parametrize("spec", [{"prefixLength": 56}, {"startAddress": "fd20:2000::"}])
def test_a_subnet_claim_that_wants_another_range_is_refused_with_both(spec: Raw) -> None:
    """R16."""
    planned = subnet_claims.plan(on_subnet_claim(spec=spec))
    assert told(planned, "Ready")["reason"] == "SubnetDoesNotFit"
    assert "fd20:1000::/64" in told(planned, "Ready")["message"]
