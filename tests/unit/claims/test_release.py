"""What becomes of an interface and its addresses when a claim or an interface goes (claims.md, Release)."""

from dataclasses import replace
from typing import Any

import pytest

from netclaim.api import networking
from netclaim.kube.writes import AddFinalizer, ApplyStatus, Delete, DropFinalizer, Emit, JsonPatch
from nso.claims import interfaces
from nso.claims.plan import plan
from tests.unit.claims.builders import claim_raw, held, interface_seen, ip_claim, ip_claims, seen
from tests.unit.claims.reading import order, told, writes

HELD = [networking.CLAIM_RELEASE_FINALIZER]
POLICIES = ["Delete", "Retain"]


def going(**spec: Any) -> Any:
    """A claim that is being deleted."""
    return claim_raw(finalizers=HELD, going=True, **spec)


# -- the claim goes ----------------------------------------------------------------------------------------------------


def test_under_delete_the_interface_goes_first_and_the_claim_waits_for_it() -> None:
    """R8."""
    around = seen(going(), interface=held())
    planned = plan(replace(around, ip_claims=ip_claims(around)))
    assert order(planned) == ["Delete NetworkInterface"]
    assert writes(planned, Delete)[0].uid == "uid-of-interface"


def test_under_retain_the_holder_is_cleared_and_the_addresses_stay() -> None:
    """R8, R21: nothing of the data plane's report is touched."""
    around = seen(going(reclaimPolicy="Retain"), interface=held(reclaimPolicy="Retain"))
    planned = plan(replace(around, ip_claims=ip_claims(around)))
    assert order(planned) == ["JsonPatch NetworkInterface", "DropFinalizer NetworkInterfaceClaim"]
    assert writes(planned, JsonPatch)[0].ops[-1] == {"op": "remove", "path": "/spec/claimRef"}


def test_a_kept_interface_is_not_robbed_when_the_release_was_cut_off() -> None:
    """T03: the holder is cleared, the finalizer was not dropped: the IPClaims are the interface's now."""
    around = seen(going(reclaimPolicy="Retain"), interface=held(holder=None, reclaimPolicy="Retain"))
    planned = plan(replace(around, ip_claims=ip_claims(around)))
    assert order(planned) == ["DropFinalizer NetworkInterfaceClaim"]


def test_under_retain_a_namespace_that_goes_releases_all_the_same() -> None:
    """Claims.md: namespace deleted, always release."""
    around = seen(going(reclaimPolicy="Retain"), interface=held(reclaimPolicy="Retain"), namespace_is_going=True)
    assert order(plan(around)) == ["Delete NetworkInterface"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_claim_without_an_interface_gives_back_what_it_asked_for_by_uid(policy: str) -> None:
    """R15: deleted before the interface existed, or when it is already gone."""
    around = seen(going(reclaimPolicy=policy))
    one, other = ip_claims(around)
    namesakes = ip_claim(around, other.name, ipFamily="IPv4", owner={"uid": "uid-2"})
    planned = plan(replace(around, ip_claims=(one, namesakes)))
    assert [write.key[1] for write in writes(planned, Delete)] == [one.name]
    assert not writes(planned, DropFinalizer)


def test_the_claim_goes_only_when_nothing_of_it_is_left_in_ipam() -> None:
    """R15."""
    around = seen(going())
    leaving = tuple(ip_claim(around, one.name, ipFamily=one.spec.ip_family, going=True) for one in ip_claims(around))
    assert plan(replace(around, ip_claims=leaving)) == ()
    assert order(plan(around)) == ["DropFinalizer NetworkInterfaceClaim"]


def test_a_claim_waits_for_an_interface_that_the_data_plane_still_uses_and_says_so() -> None:
    """R15: no address is freed under a running Pod."""
    attached = held(going=True, finalizers=[networking.INTERFACE_RELEASE_FINALIZER, "cloud.datumapis.com/attached"])
    around = seen(going(), interface=attached)
    planned = plan(replace(around, ip_claims=ip_claims(around)))
    assert told(planned, "Ready") == ("False", "InterfaceBeingReleased")
    assert not writes(planned, Delete)
    assert not writes(planned, DropFinalizer)


def test_an_adoption_that_was_cut_off_is_finished_before_the_holder_is_cleared() -> None:
    """R15: else nobody would find the IPClaims of the former claim when the interface is deleted later."""
    around = seen(going(reclaimPolicy="Retain"), interface=held(minted_for="uid-0", reclaimPolicy="Retain"))
    former = tuple(
        ip_claim(around, one.name, ipFamily=one.spec.ip_family, owner={"uid": "uid-0"}) for one in ip_claims(around)
    )
    planned = plan(replace(around, ip_claims=former))
    assert order(planned) == [
        "JsonPatch IPClaim",
        "JsonPatch IPClaim",
        "JsonPatch NetworkInterface",
        "JsonPatch NetworkInterface",
        "DropFinalizer NetworkInterfaceClaim",
    ]


def test_a_claim_that_holds_no_finalizer_of_ours_is_left_alone() -> None:
    """T06."""
    assert plan(seen(claim_raw(going=True, finalizers=["example.com/other"]))) == ()


# -- the interface goes ------------------------------------------------------------------------------------------------


def minted(uid: str = "uid-1") -> Any:
    """IPClaims of the claim of that uid."""
    around = seen()
    return tuple(
        ip_claim(around, one.name, ipFamily=one.spec.ip_family, owner={"uid": uid}) for one in ip_claims(around)
    )


@pytest.mark.parametrize(
    "finalizers",
    [
        [networking.INTERFACE_RELEASE_FINALIZER, "cloud.datumapis.com/attached"],
        ["cloud.datumapis.com/attached", networking.INTERFACE_RELEASE_FINALIZER],
        ["foregroundDeletion", networking.INTERFACE_RELEASE_FINALIZER],
        ["cloud.datumapis.com/attached"],
    ],
)
def test_no_address_is_freed_while_anyone_else_holds_the_interface(finalizers: list[str]) -> None:
    """Api.md: why the `attached` finalizer."""
    around = interface_seen(held(going=True, holder=None, finalizers=finalizers), ip_claims=minted())
    assert interfaces.plan(around) == ()


def test_an_unheld_interface_gives_its_addresses_back_and_then_goes() -> None:
    """Claims.md: this is how a retained address is given back."""
    around = interface_seen(held(going=True, holder=None), ip_claims=minted())
    assert order(interfaces.plan(around)) == ["Delete IPClaim", "Delete IPClaim"]
    assert order(interfaces.plan(replace(around, ip_claims=()))) == ["DropFinalizer NetworkInterface"]


def test_the_addresses_of_a_live_holder_stay_when_its_interface_goes() -> None:
    """Claims.md: interface deleted while held by a live claim."""
    around = interface_seen(held(going=True), claim_raw(), ip_claims=minted())
    assert order(interfaces.plan(around)) == ["DropFinalizer NetworkInterface"]


def test_a_holder_that_goes_itself_or_whose_namespace_goes_keeps_nothing() -> None:
    """Claims.md: claim deleted, and namespace deleted."""
    released = ["Delete IPClaim", "Delete IPClaim"]
    assert order(interfaces.plan(interface_seen(held(going=True), going(), ip_claims=minted()))) == released
    around = interface_seen(held(going=True), claim_raw(), ip_claims=minted(), namespace_is_going=True)
    assert order(interfaces.plan(around)) == released


def test_an_interface_waits_until_its_adoption_is_finished() -> None:
    """R15: the live holder could not find the IPClaims of the former one."""
    around = interface_seen(held(going=True, minted_for="uid-0"), claim_raw(), ip_claims=minted("uid-0"))
    assert interfaces.plan(around) == ()


def test_an_adoption_that_was_cut_off_leaks_nothing_when_claim_and_interface_go() -> None:
    """R15: IPClaims of the former claim and of the new one are all given back."""
    one, other = minted("uid-0")[0], minted("uid-1")[1]
    around = interface_seen(held(going=True, minted_for="uid-0"), going(), ip_claims=(one, other))
    assert {write.key[1] for write in writes(interfaces.plan(around), Delete)} == {one.name, other.name}


@pytest.mark.parametrize(
    ("policy", "done"), [("Retain", ["JsonPatch NetworkInterface"]), ("Delete", ["Delete NetworkInterface"])]
)
def test_an_interface_whose_claim_vanished_without_a_release_is_treated_as_released(
    policy: str, done: list[str]
) -> None:
    """T07: a claim that was forced away."""
    assert order(interfaces.plan(interface_seen(held(reclaimPolicy=policy)))) == done


# -- the interface lives -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("around", "phase"),
    [
        (held(), "Bound"),
        (held(holder=None), "Available"),
        (held(minted_for="uid-0"), "Available"),
    ],
)
def test_an_interface_is_bound_only_when_holder_and_addresses_agree(around: Any, phase: str) -> None:
    """T25: an adoption that is not finished is not told as Bound."""
    planned = interfaces.plan(interface_seen(around, claim_raw(), ip_claims=minted(around.minted_for)))
    (status,) = [write for write in writes(planned, ApplyStatus) if write.manager == "nso"]
    assert status.status["phase"] == phase
    assert status.status["networkContextRef"] == {"name": "default-us-central-1"}
    assert told(planned, "Allocated") == ("True", "Allocated")


def test_an_interface_whose_allocation_is_gone_says_so_once() -> None:
    """Claims.md step 6: also while it is unheld."""
    around = held(holder=None)
    planned = interfaces.plan(interface_seen(around, ip_claims=minted()[:1]))
    assert told(planned, "Allocated") == ("False", "AddressAllocationMissing")
    assert [event.reason for event in writes(planned, Emit)] == ["AddressAllocationMissing"]
    before = {"conditions": [{"type": "Allocated", "status": "False", "reason": "AddressAllocationMissing"}]}
    again = interfaces.plan(interface_seen(held(holder=None, status=before), ip_claims=minted()[:1]))
    assert not writes(again, Emit)


def test_the_seed_covers_what_is_absent_and_keeps_what_it_said_before() -> None:
    """R21: an apply that omitted its own earlier entry would take it away."""

    def seeded(*present: tuple[str, str]) -> set[str]:
        listed = [{"type": kind, "status": "Unknown", "reason": reason} for kind, reason in present]
        around = held(status={"conditions": listed})
        planned = interfaces.plan(interface_seen(around, claim_raw(), ip_claims=minted()))
        applied = [write for write in writes(planned, ApplyStatus) if write.manager == "nso-seed"]
        assert all(not write.force for write in applied)
        return {entry["type"] for write in applied for entry in write.status["conditions"]}

    assert seeded() == {"Programmed", "ExternalProgrammed"}
    assert seeded(("Programmed", "Detached")) == {"ExternalProgrammed"}
    assert seeded(("Programmed", "Pending")) == {"Programmed", "ExternalProgrammed"}
    assert seeded(("Programmed", "Detached"), ("ExternalProgrammed", "Said")) == set()


def test_a_live_interface_is_always_held_by_our_finalizer() -> None:
    """Api.md: in the create, and again when somebody took it away."""
    around = interface_seen(held(finalizers=[]), claim_raw(), ip_claims=minted())
    assert len(writes(interfaces.plan(around), AddFinalizer)) == 1
