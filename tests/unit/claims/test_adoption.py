"""Binding an interface that was kept."""

from dataclasses import replace
from typing import Any

import pytest

from netclaim.api import networking
from netclaim.kube.writes import ApplyStatus, Create, Delete, JsonPatch
from nso.claims.plan import plan
from tests.unit.claims.builders import claim_raw, held, ip_claim, ip_claims, seen
from tests.unit.claims.reading import told, whole, writes

HELD = [networking.CLAIM_RELEASE_FINALIZER]


def kept(**changes: Any) -> Any:
    """An available interface that was minted for a claim that is gone."""
    return held(holder=None, minted_for="uid-0", reclaimPolicy="Retain", **changes)


def test_the_interface_is_taken_over_its_seen_version_then_its_ip_claims_then_the_record() -> None:
    """R8, T25: of two claims one gets the interface, and a crash anywhere is finished later."""
    around = seen(claim_raw(reclaimPolicy="Retain", finalizers=HELD), interface=kept())
    former = tuple(
        ip_claim(around, one.name, ipFamily=one.spec.ip_family, owner={"uid": "uid-0"}) for one in ip_claims(around)
    )
    patches = writes(plan(replace(around, ip_claims=former)), JsonPatch)
    assert [patch.resource.kind for patch in patches] == ["NetworkInterface", "IPClaim", "IPClaim", "NetworkInterface"]
    taken, moved, _, recorded = patches
    assert taken.ops[0] == {"op": "test", "path": "/metadata/resourceVersion", "value": "42"}
    assert taken.ops[1]["value"] == {"name": "web-0-eth0", "uid": "uid-1"}
    assert moved.ops[1] == {"op": "test", "path": "/spec/ownerRef/uid", "value": "uid-0"}
    assert moved.ops[2]["value"]["uid"] == "uid-1"
    assert recorded.ops[1]["value"] == "web-0-eth0/uid-1"


def test_an_adoption_asks_for_nothing_new_and_records_the_interfaces_project() -> None:
    """R8: same interface, same addresses; release goes where they were allocated, whatever the label says now."""
    around = seen(claim_raw(reclaimPolicy="Retain", finalizers=HELD), interface=kept(), project="project-beta")
    planned = plan(around)
    assert not writes(planned, Create)
    assert writes(planned, ApplyStatus)[0].status["project"] == "project-alpha"


def test_an_adoption_that_was_cut_off_is_finished() -> None:
    """T03: taken, one IPClaim moved, then a crash."""
    around = seen(claim_raw(reclaimPolicy="Retain", finalizers=HELD), interface=held(minted_for="uid-0"))
    one, other = ip_claims(around)
    former = ip_claim(around, other.name, ipFamily="IPv4", owner={"uid": "uid-0"})
    planned = plan(replace(around, ip_claims=(one, former)))
    patches = writes(planned, JsonPatch)
    assert [patch.key[1] for patch in patches] == [other.name, "web-0-eth0"]
    assert told(planned, "Bound") == ("True", "Bound")


@pytest.mark.parametrize(
    ("interface", "claim", "reason", "values"),
    [
        ({"network": {"name": "other"}}, {}, "NetworkMismatch", ("other", "default")),
        ({"interfaceName": "net1"}, {}, "InterfaceNameMismatch", ("net1", "eth0")),
        ({}, {"ipFamilies": ["IPv4"]}, "AddressFamilyMissing", ("IPv6, IPv4", "IPv4")),
        ({}, {"ipFamilies": ["IPv4", "IPv6"]}, "AddressFamilyMissing", ("IPv6, IPv4", "IPv4, IPv6")),
        ({}, {"addresses": [{"class": "public"}]}, "AddressClassMissing", ("no class", "public")),
        ({}, {"reclaimPolicy": "Delete"}, "ReclaimPolicyMismatch", ("Retain", "Delete")),
    ],
)
def test_an_interface_that_is_not_what_the_claim_wants_is_refused_with_both_values(
    interface: dict[str, Any], claim: dict[str, Any], reason: str, values: tuple[str, str]
) -> None:
    """R12: adoption refused by name, and nothing is changed."""
    raw = claim_raw(finalizers=HELD, **{"reclaimPolicy": "Retain", **claim})
    planned = plan(seen(raw, interface=kept(**interface)))
    assert told(planned, "Ready") == ("False", reason)
    assert all(value in whole(planned, "Ready")["message"] for value in values)
    assert not writes(planned, JsonPatch)
    assert not writes(planned, Create)
    assert not writes(planned, Delete)


def test_an_interface_that_is_going_is_not_adopted() -> None:
    """T06."""
    planned = plan(seen(claim_raw(reclaimPolicy="Retain", finalizers=HELD), interface=kept(going=True)))
    assert told(planned, "Ready") == ("False", "InterfaceBeingReleased")
    assert not writes(planned, JsonPatch)


def test_what_a_claim_had_asked_for_by_itself_is_given_back_when_it_adopts() -> None:
    """R15: no address without an interface."""
    around = seen(claim_raw(reclaimPolicy="Retain", finalizers=HELD), interface=kept())
    planned = plan(replace(around, ip_claims=ip_claims(around)))
    assert len(writes(planned, Delete)) == 2


def test_an_interface_that_lost_its_holder_by_hand_keeps_its_addresses_when_it_is_taken_back() -> None:
    """R15: the IPClaims that stand behind the interface are not leftovers."""
    around = seen(claim_raw(finalizers=HELD), interface=held(holder=None, minted_for="uid-1"))
    planned = plan(replace(around, ip_claims=ip_claims(around)))
    assert not writes(planned, Delete)
    assert len(writes(planned, JsonPatch)) == 1
