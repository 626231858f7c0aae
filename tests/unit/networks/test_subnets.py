"""The plans of subnets: their range and gateway, teardown."""

from dataclasses import replace
from typing import Any

from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.api.networking import NetworkContext, Subnet
from netclaim.kube.writes import ApplyStatus, Create, Delete, DropFinalizer
from nso.networks import subnets
from tests.unit.networks.objects import CELL, GONE, PROJECT, context_raw, ip_claim, subnet_raw, told, writes


def on_subnet(raw: Raw | None = None, **changes: Any) -> subnets.Observed:
    raw = raw or subnet_raw()
    whole = subnets.Observed(
        cell=CELL,
        raw=raw,
        subnet=Subnet.model_validate(raw),
        context=NetworkContext.model_validate(context_raw()),
        project=PROJECT,
        class_name="subnet-ipv6",
        ip_claims=(),
        interfaces=(),
    )
    return replace(whole, **changes)


def subnet_range(seen: subnets.Observed, **status: Any) -> tuple[IPClaim, ...]:
    return (ip_claim(subnets.range_name(CELL, seen.subnet), seen.owner, cidr="fd20:1000::/64", **status),)


def test_a_subnet_tells_its_range_and_its_gateway() -> None:
    """Claims.md: gateway = first usable address."""
    seen = on_subnet()
    planned = subnets.plan(replace(seen, ip_claims=subnet_range(seen, gateway="fd20:1000::1")))
    status = writes(planned, ApplyStatus)[0].status
    assert {name: status[name] for name in ("cidr", "startAddress", "prefixLength", "gateway")} == {
        "cidr": "fd20:1000::/64",
        "startAddress": "fd20:1000::",
        "prefixLength": 64,
        "gateway": "fd20:1000::1",
    }
    assert told(planned, "Ready")["status"] == "True"


def test_a_subnet_asks_for_a_range_in_its_network_and_location() -> None:
    """Claims.md, Networks."""
    (asked,) = writes(subnets.plan(on_subnet()), Create)
    assert asked.obj["spec"]["scope"]["network"] == {"kind": "Network", "namespace": "shop", "name": "default"}
    assert asked.obj["spec"]["scope"]["location"] == {"kind": "Location", "name": "us-central-1"}
    assert asked.obj["spec"]["className"] == "subnet-ipv6"


def test_a_subnet_goes_after_the_interfaces_in_it() -> None:
    """Claims.md: teardown order, never forced."""
    going = on_subnet(subnet_raw(deletionTimestamp=GONE))
    occupied = replace(going, ip_claims=subnet_range(going), interfaces=("web-0-eth0",))
    assert told(subnets.plan(occupied), "Ready")["reason"] == "RangeOccupied"
    assert not writes(subnets.plan(occupied), Delete)
    assert len(writes(subnets.plan(replace(occupied, interfaces=())), Delete)) == 1
    assert len(writes(subnets.plan(replace(occupied, interfaces=(), ip_claims=())), DropFinalizer)) == 1
