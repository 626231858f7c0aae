"""The plans of networks, contexts, subnets, bindings and subnet claims."""

from dataclasses import replace
from typing import Any

import pytest

from netclaim.api import ipam, networking
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.api.networking import Network, NetworkBinding, NetworkContext, Subnet, SubnetClaim
from netclaim.identity import network_range_name
from netclaim.kube.writes import ApplyStatus, Create, Delete, DropFinalizer
from nso.ipclaims import Cell, Owner
from nso.networks import bindings, contexts, networks, subnet_claims, subnets
from nso.networks.record import Project
from nso.steps import Plan, writes_of

CELL = Cell("us-central-1", "cell-id")
PROJECT = Project("project-alpha")
TEARDOWN = [networking.TEARDOWN_FINALIZER]
RECORDED = {networking.PROJECT_ANNOTATION: "project-alpha"}
GONE = "2026-01-01T00:00:00Z"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def metadata(name: str, uid: str, **more: Any) -> Raw:
    whole: Raw = {"name": name, "namespace": "shop", "uid": uid, "generation": 1, "resourceVersion": "7"}
    return {**whole, "finalizers": TEARDOWN, "annotations": RECORDED, **more}


def controlled_by(kind: str, name: str, uid: str) -> list[Raw]:
    owner = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": kind, "name": name, "uid": uid}
    return [{**owner, "controller": True}]


def network_raw(status: Raw | None = None, spec: Raw | None = None, **more: Any) -> Raw:
    return {
        "metadata": metadata("default", "net-1", **more),
        "spec": {"ipFamilies": ["IPv6", "IPv4"], **(spec or {})},
        "status": status or {},
    }


def context_raw(status: Raw | None = None, **more: Any) -> Raw:
    owners = controlled_by("Network", "default", "net-1")
    return {
        "metadata": metadata("default-us-central-1", "ctx-1", **{"ownerReferences": owners, **more}),
        "spec": {"network": {"name": "default"}, "location": "us-central-1"},
        "status": status or {},
    }


def subnet_raw(family: str = "IPv6", status: Raw | None = None, **more: Any) -> Raw:
    owners = controlled_by("NetworkContext", "default-us-central-1", "ctx-1")
    name = more.pop("name", f"default-us-central-1-{family.lower()}")
    return {
        "metadata": metadata(name, f"sub-{family}", **{"ownerReferences": owners, **more}),
        "spec": {"networkContext": {"name": "default-us-central-1"}, "ipFamily": family},
        "status": status or {},
    }


def ip_claim(name: str, owner: Owner, *, cidr: str | None = None, going: bool = False, **status: Any) -> IPClaim:
    whole: Raw = {"name": name, "namespace": "project-alpha", "uid": f"uid-of-{name}"}
    if going:
        whole["deletionTimestamp"] = GONE
    bound = {"phase": "Bound", "cidr": cidr} if cidr else {}
    spec = {"className": "c", "target": "Range", "ownerRef": CELL.owner_ref(owner)}
    return IPClaim.model_validate({"metadata": whole, "spec": spec, "status": {**bound, **status}})


def writes(plan: Plan, kind: Any) -> list[Any]:
    return [write for write in writes_of(plan) if isinstance(write, kind)]


def told(plan: Plan, condition: str) -> Raw:
    found = [e for w in writes(plan, ApplyStatus) for e in w.status["conditions"] if e["type"] == condition]
    return found[-1]


# -- networks ----------------------------------------------------------------------------------------------------------

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


# -- contexts ----------------------------------------------------------------------------------------------------------


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


# -- subnets -----------------------------------------------------------------------------------------------------------


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


# -- bindings and subnet claims ----------------------------------------------------------------------------------------


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
