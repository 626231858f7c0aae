"""The plans of contexts: a subnet for each family, teardown."""

from dataclasses import replace
from typing import Any

from netclaim.api import networking
from netclaim.api.meta import Raw
from netclaim.api.networking import Network, NetworkContext, Subnet
from netclaim.kube.writes import Create, Delete, DropFinalizer
from nso.networks import contexts
from tests.unit.networks.objects import (
    GONE,
    PROJECT,
    READY,
    context_raw,
    network_raw,
    subnet_raw,
    told,
    writes,
)


def on_context(raw: Raw | None = None, **changes: Any) -> contexts.Observed:
    raw = raw or context_raw()
    whole = contexts.Observed(
        raw=raw,
        context=NetworkContext.model_validate(raw),
        project=PROJECT,
        network=Network.model_validate(network_raw()),
        subnets=(),
        interfaces=(),
    )
    return replace(whole, **changes)


def test_a_context_makes_one_subnet_for_each_family() -> None:
    """Claims.md, Networks."""
    made = [write.obj for write in writes(contexts.plan(on_context()), Create)]
    assert [obj["metadata"]["name"] for obj in made] == ["default-us-central-1-ipv6", "default-us-central-1-ipv4"]
    assert {obj["metadata"]["annotations"][networking.PROJECT_ANNOTATION] for obj in made} == {"project-alpha"}


def test_a_context_is_ready_when_each_subnet_is() -> None:
    """Api.md, NetworkContext."""
    both = tuple(Subnet.model_validate(subnet_raw(family, READY)) for family in ("IPv6", "IPv4"))
    assert told(contexts.plan(on_context(subnets=both)), "Ready")["status"] == "True"
    one = (both[0], Subnet.model_validate(subnet_raw("IPv4")))
    assert told(contexts.plan(on_context(subnets=one)), "Ready")["reason"] == "SubnetNotReady"


def test_a_family_that_the_network_no_longer_carries_loses_its_subnet() -> None:
    """R12: and gets it back when the family is added again."""
    both = tuple(Subnet.model_validate(subnet_raw(family, READY)) for family in ("IPv6", "IPv4"))
    lone = Network.model_validate(network_raw(spec={"ipFamilies": ["IPv6"]}))
    planned = contexts.plan(on_context(subnets=both, network=lone))
    assert [write.key[1] for write in writes(planned, Delete)] == ["default-us-central-1-ipv4"]


def test_a_context_goes_after_the_interfaces_and_after_every_subnet() -> None:
    """Claims.md: teardown order."""
    one = (Subnet.model_validate(subnet_raw("IPv6", READY)),)
    going = on_context(context_raw(deletionTimestamp=GONE), subnets=one, interfaces=("web-0-eth0",))
    assert not writes(contexts.plan(going), Delete)
    assert told(contexts.plan(going), "Ready")["reason"] == "RangeOccupied"
    assert len(writes(contexts.plan(replace(going, interfaces=())), Delete)) == 1
    assert not writes(contexts.plan(replace(going, interfaces=())), DropFinalizer)
    assert len(writes(contexts.plan(replace(going, interfaces=(), subnets=())), DropFinalizer)) == 1


def test_a_subnet_that_was_orphaned_is_still_the_contexts() -> None:
    """T07."""
    orphan = (Subnet.model_validate(subnet_raw("IPv6", READY, ownerReferences=[])),)
    seen = on_context(context_raw(deletionTimestamp=GONE), subnets=orphan)
    assert len(writes(contexts.plan(seen), Delete)) == 1
