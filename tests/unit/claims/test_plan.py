"""The plan of a live claim."""

from dataclasses import replace
from typing import Any

import pytest

from netclaim.api import networking
from netclaim.kube.writes import ApplyStatus, Create, Delete, Emit, JsonPatch
from nso.claims import reasons
from nso.claims.needs import needs_of
from nso.claims.plan import plan
from nso.claims.reasons import Refusal
from tests.unit.claims.builders import (
    CIDRS,
    claim_raw,
    context,
    held,
    ip_claim,
    ip_claims,
    network,
    refused,
    seen,
    subnets,
)
from tests.unit.claims.reading import order, told, whole, writes

HELD = [networking.CLAIM_RELEASE_FINALIZER]
BOUND_STATUS = {
    "project": "project-alpha",
    "networkInterfaceRef": {"name": "web-0-eth0"},
    "addresses": [{"family": "IPv6", "address": CIDRS["IPv6"], "primary": True}],
    "conditions": [
        {"type": "Bound", "status": "True", "reason": "Bound"},
        {"type": "Allocated", "status": "True", "reason": "Allocated"},
        {"type": "Ready", "status": "True", "reason": "Ready"},
    ],
}


def test_nothing_is_asked_for_before_the_claim_is_held_and_its_project_is_recorded() -> None:
    """R15: a crash between any two writes leaves nothing that nobody would give back."""
    written = order(plan(seen()))
    assert written[:2] == ["AddFinalizer NetworkInterfaceClaim", "ApplyStatus NetworkInterfaceClaim"]
    assert written[2:4] == ["Create IPClaim", "Create IPClaim"]
    status = writes(plan(seen()), ApplyStatus)[0]
    assert status.status["project"] == "project-alpha"


def test_each_family_and_each_class_is_asked_for_once_with_the_uid_and_ipams_finalizer() -> None:
    """R2: the consumer names families and classes; the IPClaim names its owner by uid."""
    around = seen(claim_raw(addresses=[{"class": "public"}]))
    asked = [write.obj for write in writes(plan(around), Create)]
    assert [obj["spec"].get("ipFamily") or obj["spec"]["className"] for obj in asked] == ["IPv6", "IPv4", "public"]
    assert {obj["spec"]["ownerRef"]["uid"] for obj in asked} == {"uid-1"}
    assert {obj["metadata"]["namespace"] for obj in asked} == {"project-alpha"}
    assert all(obj["metadata"]["finalizers"] for obj in asked)
    assert "address" not in asked[0]["spec"]


@pytest.mark.parametrize(
    ("changes", "reason", "named"),
    [
        ({"project": ""}, reasons.PROJECT_UNRESOLVED, [networking.PROJECT_LABEL, "shop"]),
        ({"project_exists": False}, reasons.PROJECT_NOT_FOUND, ["project-alpha"]),
        ({"network": None, "context": None, "subnets": {}}, reasons.NETWORK_NOT_FOUND, ["default"]),
        ({"context": None, "subnets": {}}, reasons.NETWORK_NOT_AVAILABLE, ["default", "us-central-1"]),
        ({"subnets": subnets(("IPv6",))}, reasons.NETWORK_NOT_AVAILABLE, ["default", "us-central-1", "IPv4"]),
        (
            {"context": context(deletionTimestamp="2026-01-01T00:00:00Z")},
            reasons.NETWORK_NOT_AVAILABLE,
            ["being deleted"],
        ),
        (
            {"network": network(deletionTimestamp="2026-01-01T00:00:00Z")},
            reasons.NETWORK_NOT_AVAILABLE,
            ["being deleted"],
        ),
    ],
)
def test_a_claim_that_cannot_be_placed_says_why_and_asks_for_nothing(
    changes: dict[str, Any], reason: reasons.Reason, named: list[str]
) -> None:
    """R12: each cause has a reason of its own, and the message names what is concerned."""
    planned = plan(seen(**changes))
    for condition in ("Ready", "Bound", "Allocated"):
        assert told(planned, condition) == ("False", reason.name)
    assert all(word in whole(planned, "Ready")["message"] for word in named)
    assert not writes(planned, Create)


def test_a_family_that_the_network_does_not_carry_is_named_with_what_it_carries() -> None:
    """R12."""
    around = seen(claim_raw(ipFamilies=["IPv4"]), network=network(("IPv6",)))
    condition = whole(plan(around), "Ready")
    assert condition["reason"] == "AddressFamilyNotCarried"
    assert "IPv4" in condition["message"]
    assert "IPv6" in condition["message"]


def test_a_network_of_another_project_is_not_mixed_with_the_claims_project() -> None:
    """R14: a namespace that was relabelled after its network was made must not get a gateway of another project."""
    around = seen(network=network(annotations={networking.PROJECT_ANNOTATION: "project-beta"}))
    planned = plan(around)
    assert told(planned, "Ready") == ("False", "AllocationFailed")
    assert "project-beta" in whole(planned, "Ready")["message"]
    assert not writes(planned, Create)


def test_the_interface_carries_all_that_a_nic_needs_and_is_held_from_its_first_moment() -> None:
    """R6."""
    around = seen(claim_raw(addresses=[{"class": "public"}], reclaimPolicy="Retain", finalizers=HELD))
    around = replace(around, ip_claims=ip_claims(around))
    planned = plan(around)
    (made,) = [write.obj for write in writes(planned, Create)]
    assert made["spec"] == {
        "network": {"name": "default"},
        "claimRef": {"name": "web-0-eth0", "uid": "uid-1"},
        "interfaceName": "eth0",
        "mtu": 1460,
        "addresses": [
            {"family": "IPv6", "address": CIDRS["IPv6"], "gateway": "fd20:1000::1", "primary": True},
            {"family": "IPv4", "address": CIDRS["IPv4"], "gateway": "10.128.0.1", "primary": False},
        ],
        "externalAddresses": [{"family": "IPv4", "address": "198.51.100.11", "class": "public"}],
        "reclaimPolicy": "Retain",
    }
    assert made["metadata"]["finalizers"] == [networking.INTERFACE_RELEASE_FINALIZER]
    assert made["metadata"]["annotations"][networking.ALLOCATED_FOR_ANNOTATION] == "web-0-eth0/uid-1"
    assert order(planned)[:2] == ["Create NetworkInterface", "ApplyStatus NetworkInterfaceClaim"]
    assert told(planned, "Bound") == ("True", "Bound")
    assert told(planned, "Allocated") == ("True", "Allocated")
    assert told(planned, "Ready") == ("False", "NotProgrammed")


def test_no_interface_is_made_while_one_address_is_missing() -> None:
    """R15: all or nothing."""
    around = seen(claim_raw(finalizers=HELD))
    one, other = ip_claims(around)
    waiting = other.model_copy(update={"status": type(other.status)()})
    planned = plan(replace(around, ip_claims=(one, waiting)))
    assert not writes(planned, Create)
    assert told(planned, "Allocated") == ("False", "Allocating")
    assert told(planned, "Ready") == ("False", "NotBound")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("PoolExhausted", "AddressPoolExhausted"),
        ("ClassNotFound", "AddressClassNotFound"),
        ("NoDefaultClass", "NoDefaultAddressClass"),
        ("NoOfferingPool", "AddressAllocationRejected"),
        ("SomethingNew", "AddressAllocationRejected"),
    ],
)
def test_what_ipam_refuses_is_told_in_its_words_and_the_other_addresses_keep_waiting(answer: str, reason: str) -> None:
    """R12, T24."""
    around = seen(claim_raw(finalizers=HELD))
    one, other = ip_claims(around)
    exhausted = ip_claim(around, other.name, ipFamily="IPv4", status=refused(answer, "pool x: 14 of 14 used"))
    planned = plan(replace(around, ip_claims=(one, exhausted)))
    assert told(planned, "Ready") == ("False", reason)
    assert "pool x: 14 of 14 used" in whole(planned, "Ready")["message"]
    assert "family IPv4" in whole(planned, "Ready")["message"]
    assert not writes(planned, Delete)


def test_an_address_that_fails_for_good_gives_the_others_back_and_is_itself_kept_as_the_handle() -> None:
    """R15: all or nothing; the refused IPClaim holds no block and tells when its cause is gone."""
    around = seen(claim_raw(finalizers=HELD))
    one, other = ip_claims(around)
    failed = ip_claim(around, other.name, ipFamily="IPv4", status=refused("ScopeRolesMissing", phase="Failed"))
    planned = plan(replace(around, ip_claims=(one, failed)))
    assert [write.key[1] for write in writes(planned, Delete)] == [one.name]
    again = plan(replace(around, ip_claims=(failed,)))
    assert not writes(again, Delete)
    assert not writes(again, Create)


def test_an_ip_claim_of_a_namesake_is_neither_published_nor_given_back() -> None:
    """T06: a claim that was deleted and made again meets the addresses of its former self."""
    around = seen(claim_raw(finalizers=HELD))
    stale = tuple(
        ip_claim(around, one.name, ipFamily=one.spec.ip_family, owner={"uid": "uid-0"}) for one in ip_claims(around)
    )
    planned = plan(replace(around, ip_claims=stale))
    assert told(planned, "Ready") == ("False", "InterfaceBeingReleased")
    assert not writes(planned, Create)
    assert not writes(planned, Delete)


def test_an_ip_claim_of_somebody_else_is_refused_by_its_owner_and_left_alone() -> None:
    """R15."""
    around = seen(claim_raw(finalizers=HELD))
    one, other = ip_claims(around)
    foreign = ip_claim(around, other.name, ipFamily="IPv4", owner={"uid": "uid-9", "name": "db", "controlPlane": "far"})
    planned = plan(replace(around, ip_claims=(one, foreign)))
    assert told(planned, "Ready") == ("False", "AddressClaimConflict")
    assert "db" in whole(planned, "Ready")["message"]
    assert [write.key[1] for write in writes(planned, Delete)] == [one.name]


def test_an_ip_claim_of_this_claim_for_another_network_is_not_taken_for_an_answer() -> None:
    """Claims.md: found by name it is ours only if the uid, and class and scope fit."""
    around = seen(claim_raw(finalizers=HELD))
    one, other = ip_claims(around)
    astray = ip_claim(around, other.name, ipFamily="IPv4", scope=around.cell.scope("shop", "elsewhere"))
    assert told(plan(replace(around, ip_claims=(one, astray))), "Ready") == ("False", "AddressClaimConflict")


def test_a_block_outside_the_networks_subnet_is_never_published() -> None:
    """R6: its gateway could not be reached."""
    around = seen(claim_raw(finalizers=HELD))
    one, other = ip_claims(around)
    stray = ip_claim(around, other.name, ipFamily="IPv4", status={"phase": "Bound", "cidr": "192.0.2.7/32"})
    planned = plan(replace(around, ip_claims=(one, stray)))
    assert not writes(planned, Create)
    assert told(planned, "Ready") == ("False", "AllocationFailed")


def test_a_refusal_of_a_bound_claim_demotes_ready_alone() -> None:
    """R22."""
    raw = claim_raw(finalizers=HELD, status=BOUND_STATUS)
    planned = plan(seen(raw, interface=held(going=True, finalizers=["cloud.datumapis.com/attached"])))
    status = writes(planned, ApplyStatus)[0].status
    assert told(planned, "Ready") == ("False", "InterfaceBeingReleased")
    assert told(planned, "Bound") == ("True", "Bound")
    assert told(planned, "Allocated") == ("True", "Allocated")
    assert status["addresses"] == BOUND_STATUS["addresses"]
    assert status["networkInterfaceRef"] == {"name": "web-0-eth0"}


def test_who_the_interface_waits_for_is_named() -> None:
    """Claims.md: InterfaceBeingReleased names the Pod and the node."""
    around = seen(
        claim_raw(finalizers=HELD, status=BOUND_STATUS),
        interface=held(going=True),
        detaching="Pod web-0 on node node-a to end",
    )
    assert "Pod web-0 on node node-a" in whole(plan(around), "Ready")["message"]


def test_an_interface_that_went_under_a_live_claim_is_made_again_on_its_addresses() -> None:
    """R7: the addresses stay; nothing new is asked for."""
    around = seen(claim_raw(finalizers=HELD, status=BOUND_STATUS))
    around = replace(around, ip_claims=ip_claims(around))
    planned = plan(around)
    (made,) = writes(planned, Create)
    assert made.resource.kind == "NetworkInterface"
    assert made.obj["spec"]["addresses"][0]["address"] == CIDRS["IPv6"]


def test_a_rebuilt_interface_asks_for_a_lost_block_by_its_address() -> None:
    """Claims.md step 6: an address is never silently renumbered."""
    around = seen(claim_raw(finalizers=HELD, status=BOUND_STATUS))
    kept = tuple(one for one in ip_claims(around) if one.spec.ip_family == "IPv4")
    (asked,) = writes(plan(replace(around, ip_claims=kept)), Create)
    assert asked.obj["spec"]["address"] == CIDRS["IPv6"]


@pytest.mark.parametrize("lost", ["gone", "going", "moved", "another's"])
def test_an_allocation_that_is_gone_is_told_and_the_address_stays(lost: str) -> None:
    """Claims.md step 6, R22: Allocated falls, with one warning; Bound and the address stay."""
    around = seen(claim_raw(finalizers=HELD, status=BOUND_STATUS), interface=held())
    one, other = ip_claims(around)
    found = {
        "gone": (other,),
        "going": (ip_claim(around, one.name, ipFamily="IPv6", going=True), other),
        "moved": (ip_claim(around, one.name, ipFamily="IPv6", status={"phase": "Bound", "cidr": "fd20::/96"}), other),
        "another's": (ip_claim(around, one.name, ipFamily="IPv6", owner={"uid": "uid-9"}), other),
    }[lost]
    planned = plan(replace(around, ip_claims=found))
    assert told(planned, "Allocated") == ("False", "AddressAllocationMissing")
    assert told(planned, "Ready") == ("False", "AddressAllocationMissing")
    assert told(planned, "Bound")[0] == "True"
    assert CIDRS["IPv6"] in whole(planned, "Allocated")["message"]
    assert CIDRS["IPv4"] not in whole(planned, "Allocated")["message"]
    assert writes(planned, ApplyStatus)[0].status["addresses"][0]["address"] == CIDRS["IPv6"]
    assert [event.reason for event in writes(planned, Emit)] == ["AddressAllocationMissing"]
    assert not writes(planned, Create)


@pytest.mark.parametrize(
    ("prepared", "programmed", "ready"),
    [
        (None, None, ("False", "NotProgrammed")),
        (None, "True", ("True", "Ready")),
        ("True", "True", ("True", "Ready")),
        ("Unknown", "True", ("True", "Ready")),
        ("False", "True", ("False", "NotPrepared")),
        ("False", None, ("False", "NotPrepared")),
        ("True", "False", ("False", "NotProgrammed")),
        ("True", "Unknown", ("False", "NotProgrammed")),
    ],
)
def test_ready_needs_programmed_and_no_refusal_of_prepared(
    prepared: str | None, programmed: str | None, ready: tuple[str, str]
) -> None:
    """R5: allocation and programming are told apart; a foreign data plane may know no Prepared."""
    others = [
        {"type": kind, "status": status, "reason": "Said", "message": "words"}
        for kind, status in (("Prepared", prepared), ("Programmed", programmed))
        if status
    ]
    around = seen(claim_raw(finalizers=HELD, status={**BOUND_STATUS, "conditions": others}), interface=held())
    planned = plan(replace(around, ip_claims=ip_claims(around)))
    assert told(planned, "Ready") == ready
    assert told(planned, "Allocated")[0] == "True"


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_programmed_is_seeded_only_while_nobody_has_said_anything(status: str) -> None:
    """R21."""
    seeds = [write for write in writes(plan(seen()), ApplyStatus) if write.manager == "nso-seed"]
    assert [seed.force for seed in seeds] == [False]
    assert told(plan(seen()), "Programmed", "nso-seed")[0] == "Unknown"
    assert not [write for write in writes(plan(seen(is_fresh=True)), ApplyStatus) if write.manager == "nso-seed"]
    said = claim_raw(status={"conditions": [{"type": "Programmed", "status": status, "reason": "Said"}]})
    assert not [write for write in writes(plan(seen(said)), ApplyStatus) if write.manager == "nso-seed"]


def test_no_plan_ever_tells_what_another_writer_owns() -> None:
    """R21: nso's applies hold Bound, Allocated and Ready, and none of the data plane's fields."""
    for around in (seen(), seen(interface=held()), seen(project="")):
        for write in writes(plan(around), ApplyStatus):
            if write.manager == "nso":
                assert {entry["type"] for entry in write.status["conditions"]} <= {"Bound", "Allocated", "Ready"}
                assert set(write.status) <= {
                    "project",
                    "networkInterfaceRef",
                    "addresses",
                    "externalAddresses",
                    "conditions",
                }


def test_two_claims_never_share_one_interface() -> None:
    """R11, T25: bound elsewhere is a refusal that names the holder; nothing is changed."""
    around = seen(claim_raw("web-1-eth0", uid="uid-2", networkInterfaceName="web-0-eth0"), interface=held())
    planned = plan(around)
    assert told(planned, "Ready") == ("False", "InterfaceHeldByAnotherClaim")
    assert "web-0-eth0" in whole(planned, "Ready")["message"]
    assert not writes(planned, JsonPatch)
    assert not writes(planned, Create)


def test_what_ipam_does_not_take_is_told_with_the_error_as_it_came() -> None:
    """R12: AllocationFailed is never a guess."""
    failure = Refusal("AllocationFailed", "The addresses could not be asked for: ServerError (500): etcd is away")
    planned = plan(seen(failure=failure))
    assert told(planned, "Ready") == ("False", "AllocationFailed")
    assert not writes(planned, Create)


@pytest.mark.parametrize("reason", ["QuotaExceeded", "AllocationFailed"])
def test_a_claim_whose_ask_was_refused_says_so_until_an_ask_is_taken(reason: str) -> None:
    """R12: no condition flips at every retry, and no event is told twice."""
    failure = Refusal(reason, "A quota of project project-alpha is used up: few.")
    raw = claim_raw(status={"project": "project-alpha"})
    (refusal,) = (write for write in writes(plan(seen(raw, failure=failure)), ApplyStatus) if write.manager == "nso")
    standing = seen({**raw, "status": refusal.status})
    retry = plan(standing)
    assert len(writes(retry, Create)) == 2
    assert not [write for write in writes(retry, ApplyStatus) if write.manager == "nso"]
    assert not writes(retry, Emit)
    names = [need.name for need in needs_of(standing.cell, standing.claim, ("IPv6", "IPv4"))]
    taken = tuple(
        ip_claim(standing, name, ipFamily=family, status={})
        for name, family in zip(names, ("IPv6", "IPv4"), strict=True)
    )
    assert told(plan(replace(standing, ip_claims=taken)), "Allocated") == ("False", "Allocating")


def test_a_claim_in_a_namespace_that_goes_asks_for_nothing() -> None:
    """Claims.md: namespace deleted, never rebuild."""
    assert plan(seen(namespace_is_going=True)) == ()


def test_the_names_of_ip_claims_depend_on_nothing_but_what_is_asked_for() -> None:
    """T03: a restart finds what was asked for before."""
    around = seen(claim_raw(addresses=[{"class": "b"}, {"class": "a"}]))
    one = {need.name for need in needs_of(around.cell, around.claim, ("IPv6", "IPv4"))}
    other = {need.name for need in needs_of(around.cell, around.claim, ("IPv4", "IPv6"))}
    assert one == other
    assert len(one) == 4
