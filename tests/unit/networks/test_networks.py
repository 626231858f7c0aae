"""The plans of networks: ranges, contexts, teardown."""

from dataclasses import replace
from typing import Any

import pytest

from netclaim.api import ipam
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.api.networking import Network, NetworkContext
from netclaim.identity import network_range_name
from netclaim.kube.writes import ApplyStatus, Create, Delete, DropFinalizer
from nso.ipclaims import Owner
from nso.networks import networks
from nso.steps import writes_of
from tests.unit.networks.objects import (
    CELL,
    GONE,
    PROJECT,
    READY,
    RECORDED,
    context_raw,
    controlled_by,
    ip_claim,
    network_raw,
    told,
    writes,
)

RANGE = network_range_name("us-central-1", "shop", "default", "IPv6")


def on_network(raw: Raw | None = None, **changes: Any) -> networks.Observed:
    raw = raw or network_raw()
    whole = networks.Observed(
        cell=CELL,
        raw=raw,
        network=Network.model_validate(raw),
        project=PROJECT,
        range_classes={"IPv6": "network-ipv6"},
        ip_claims=(),
        context=None,
        interfaces=(),
    )
    return replace(whole, **changes)


def held_range(seen: networks.Observed, cidr: str = "fd20:1000::/48") -> tuple[IPClaim, ...]:
    return (ip_claim(RANGE, seen.owner, cidr=cidr),)


def test_a_network_records_its_project_before_it_asks_for_a_range() -> None:
    """R15: release goes where was allocated, whatever the namespace says later."""
    planned = networks.plan(on_network(network_raw(finalizers=[], annotations={})))
    kinds = [f"{type(write).__name__} {write.resource.kind}" for write in writes_of(planned)]
    assert kinds == ["Apply Network", "Create IPClaim", "ApplyStatus Network"]


def test_only_a_family_with_a_network_class_gets_a_range_of_its_own() -> None:
    """Claims.md, Networks: one range per family that is cascaded."""
    (asked,) = writes(networks.plan(on_network()), Create)
    assert asked.obj["spec"]["className"] == "network-ipv6"
    assert asked.obj["spec"]["target"] == "Range"
    assert asked.obj["spec"]["ownerRef"]["uid"] == "net-1"


def test_the_context_is_made_when_the_ranges_are_known() -> None:
    """Claims.md: the network's ranges are known before any endpoint is."""
    seen = on_network()
    assert not [w for w in writes(networks.plan(seen), Create) if w.resource.kind == "NetworkContext"]
    planned = networks.plan(replace(seen, ip_claims=held_range(seen)))
    (made,) = writes(planned, Create)
    assert made.obj["metadata"]["name"] == "default-us-central-1"
    assert made.obj["metadata"]["annotations"] == RECORDED
    assert told(planned, "Allocated")["status"] == "True"
    assert told(planned, "Ready")["reason"] == "ContextPending"
    assert writes(planned, ApplyStatus)[0].status["prefixes"] == [{"family": "IPv6", "cidr": "fd20:1000::/48"}]


def test_a_network_is_ready_with_its_context() -> None:
    """Api.md, Network."""
    seen = on_network(context=NetworkContext.model_validate(context_raw(READY)))
    planned = networks.plan(replace(seen, ip_claims=held_range(seen)))
    assert told(planned, "Ready")["status"] == "True"
    assert not writes(planned, Create)


def test_a_network_that_does_not_reach_this_location_has_no_context_here() -> None:
    """Claims.md: NetworkContext when spec.locations allows it."""
    seen = on_network(network_raw(spec={"locations": ["eu-west-1"]}))
    planned = networks.plan(replace(seen, ip_claims=held_range(seen)))
    assert not writes(planned, Create)
    assert told(planned, "Ready")["status"] == "True"
    left = replace(seen, ip_claims=held_range(seen), context=NetworkContext.model_validate(context_raw(READY)))
    assert [w.resource.kind for w in writes(networks.plan(left), Delete)] == ["NetworkContext"]


def test_a_context_of_another_owner_is_named_and_left_alone() -> None:
    """Architecture.md, Names: NameConflict."""
    foreign = context_raw(READY, ownerReferences=controlled_by("Network", "default", "net-0"))
    seen = on_network(context=NetworkContext.model_validate(foreign))
    planned = networks.plan(replace(seen, ip_claims=held_range(seen)))
    assert told(planned, "Ready")["reason"] == "NameConflict"
    assert not writes(planned, Delete)


@pytest.mark.parametrize(
    ("owner", "reason"),
    [
        (Owner("Network", "shop", "default", "net-0"), "RangeBeingReleased"),
        (Owner("Network", "shop", "other", "net-9"), "AddressClaimConflict"),
    ],
)
def test_a_range_of_somebody_else_is_never_published(owner: Owner, reason: str) -> None:
    """T06: a network that was deleted and made again meets its former range."""
    planned = networks.plan(on_network(ip_claims=(ip_claim(RANGE, owner, cidr="fd20:1000::/48"),)))
    assert told(planned, "Allocated")["reason"] == reason
    assert (
        "prefixes" not in writes(planned, ApplyStatus)[0].status
        or not writes(planned, ApplyStatus)[0].status["prefixes"]
    )
    assert not writes(planned, Create)


def test_what_ipam_says_about_a_range_is_told() -> None:
    """R12."""
    refused = {
        "conditions": [{"type": "Bound", "status": "False", "reason": "PoolExhausted", "message": "pool p full"}]
    }
    seen = on_network()
    planned = networks.plan(replace(seen, ip_claims=(ip_claim(RANGE, seen.owner, **refused),)))
    assert "pool p full" in told(planned, "Ready")["message"]


def test_a_range_that_moved_is_told_and_the_published_one_stays() -> None:
    """Claims.md step 6, for ranges."""
    prefixes = {"prefixes": [{"family": "IPv6", "cidr": "fd20:1000::/48"}]}
    seen = on_network(network_raw(prefixes))
    planned = networks.plan(replace(seen, ip_claims=held_range(seen, "fd20:2000::/48")))
    assert told(planned, "Allocated")["reason"] == "AddressAllocationMissing"
    assert writes(planned, ApplyStatus)[0].status["prefixes"] == prefixes["prefixes"]


def test_a_network_goes_after_its_interfaces_then_its_context_then_its_range() -> None:
    """Claims.md: teardown order; RangeOccupied names what is inside."""
    going = on_network(network_raw(deletionTimestamp=GONE), context=NetworkContext.model_validate(context_raw(READY)))
    occupied = replace(going, ip_claims=held_range(going), interfaces=("web-0-eth0", "web-1-eth0"))
    planned = networks.plan(occupied)
    assert told(planned, "Ready")["reason"] == "RangeOccupied"
    assert "web-0-eth0, web-1-eth0" in told(planned, "Ready")["message"]
    assert not writes(planned, Delete)
    empty = replace(occupied, interfaces=())
    assert [w.resource.kind for w in writes(networks.plan(empty), Delete)] == ["NetworkContext"]
    alone = replace(empty, context=None)
    assert [w.resource.kind for w in writes(networks.plan(alone), Delete)] == ["IPClaim"]
    assert not writes(networks.plan(alone), DropFinalizer)
    assert len(writes(networks.plan(replace(alone, ip_claims=())), DropFinalizer)) == 1


def test_a_range_that_another_cell_still_uses_is_reported_in_ipams_words() -> None:
    """Ipam.md: RangeOccupied."""
    seen = on_network(network_raw(deletionTimestamp=GONE))
    occupied = {
        "conditions": [
            {"type": ipam.RELEASED, "status": "False", "reason": "RangeOccupied", "message": "IPClaim db-0 of cell b"}
        ]
    }
    planned = networks.plan(replace(seen, ip_claims=(ip_claim(RANGE, seen.owner, going=True, **occupied),)))
    assert told(planned, "Ready")["reason"] == "RangeOccupied"
    assert "db-0 of cell b" in told(planned, "Ready")["message"]


def test_a_context_that_was_orphaned_is_still_the_networks() -> None:
    """T07: deletion with propagation policy Orphan takes the owner references away."""
    orphan = NetworkContext.model_validate(context_raw(READY, ownerReferences=[]))
    seen = on_network(network_raw(deletionTimestamp=GONE), context=orphan)
    assert [w.resource.kind for w in writes(networks.plan(seen), Delete)] == ["NetworkContext"]
