"""Identifiers, device names and object names (R20, R32, T31)."""

import json
import random
import secrets
from ipaddress import IPv6Network
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from netclaim import identity

VECTORS = json.loads((Path(__file__).parent.parent / "vectors" / "identity.json").read_text())

VPCS = st.integers(1, 2**48 - 2)
ATTACHMENTS = st.integers(1, 2**16 - 2)
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,60}[a-z0-9])?", fullmatch=True)
ANY_TEXT = st.text(max_size=300)


def test_the_alphabet_is_the_one_of_the_vectors() -> None:
    assert VECTORS["alphabet"] == identity.ALPHABET


@pytest.mark.parametrize("vector", VECTORS["vpc"], ids=lambda vector: vector["base62"])
def test_a_vpc_is_written_as_the_vectors_say(vector: dict) -> None:
    """R20: vrfInterface is the per-VPC name."""
    value = vector["value"]
    assert identity.to_base62(value) == vector["base62"]
    assert identity.from_base62(vector["base62"]) == value
    assert identity.vrf_interface(value) == vector["vrf"]
    assert identity.vpc_identifier_name(value) == f"vpc-{vector['hex']}"


@pytest.mark.parametrize("vector", VECTORS["attachment"], ids=lambda vector: vector["base62"])
def test_an_attachment_is_written_as_the_vectors_say(vector: dict) -> None:
    assert identity.to_base62(vector["value"]) == vector["base62"]
    assert identity.attachment_identifier_name(62, vector["value"]) == f"att-3e-{vector['hex']}"


@pytest.mark.parametrize("vector", VECTORS["combined"], ids=lambda vector: vector["advertisement"])
def test_device_and_advertisement_names_are_those_of_the_vectors(vector: dict) -> None:
    pair = vector["vpc"], vector["attachment"]
    assert identity.host_interface(*pair) == vector["host_interface"]
    assert identity.advertisement_name(*pair) == vector["advertisement"]
    assert identity.parse_host_interface(vector["host_interface"]) == pair


@pytest.mark.parametrize("value", VECTORS["reserved"]["vpc"])
def test_a_reserved_vpc_has_no_names(value: int) -> None:
    """T31: 0 and the highest value are never given out."""
    assert not identity.is_valid(value, identity.VPC_BITS)
    for name in (identity.vrf_interface, identity.pair_inner, identity.pair_outer, identity.vpc_identifier_name):
        with pytest.raises(ValueError, match="reserved"):
            name(value)


@pytest.mark.parametrize("value", VECTORS["reserved"]["attachment"])
def test_a_reserved_attachment_has_no_names(value: int) -> None:
    for name in (identity.host_interface, identity.advertisement_name, identity.attachment_identifier_name):
        with pytest.raises(ValueError, match="reserved"):
            name(62, value)


@given(VPCS, ATTACHMENTS)
def test_names_lead_back_to_the_identity_they_were_made_from(vpc: int, attachment: int) -> None:
    """T31: round trip over all identifiers, uppercase base62 included."""
    assert identity.parse_host_interface(identity.host_interface(vpc, attachment)) == (vpc, attachment)
    assert identity.from_base62(identity.to_base62(vpc)) == vpc
    assert identity.from_base62(identity.vrf_interface(vpc)[1:-1]) == vpc


@given(VPCS, ATTACHMENTS)
def test_devices_fit_the_kernel_and_objects_fit_the_api(vpc: int, attachment: int) -> None:
    """R32, T31: links of at most 15 characters; object names without base62."""
    devices = [
        identity.host_interface(vpc, attachment),
        identity.vrf_interface(vpc),
        identity.pair_inner(vpc),
        identity.pair_outer(vpc),
    ]
    assert all(len(device) <= 15 for device in devices)
    assert len(set(devices)) == 4
    for name in (
        identity.vpc_identifier_name(vpc),
        identity.attachment_identifier_name(vpc, attachment),
        identity.advertisement_name(vpc, attachment),
    ):
        assert identity.is_object_name(name)


@given(VPCS, ATTACHMENTS, VPCS, ATTACHMENTS)
def test_two_identities_never_share_a_name(vpc: int, attachment: int, other_vpc: int, other_attachment: int) -> None:
    assume((vpc, attachment) != (other_vpc, other_attachment))
    for name in (identity.host_interface, identity.advertisement_name, identity.attachment_identifier_name):
        assert name(vpc, attachment) != name(other_vpc, other_attachment)


@pytest.mark.parametrize(
    "name",
    ["eth0", "G000000010V", "G000000000001H", "G000000010000H", "G00000001000!H", "GZZZZZZZZZ001H", "G000000010ZZZH"],
)
def test_a_foreign_device_name_is_no_identity(name: str) -> None:
    assert identity.parse_host_interface(name) is None


@pytest.mark.parametrize("text", ["", "a-b", "a b", "\u00e4"])
def test_what_is_not_base62_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="base62"):
        identity.from_base62(text)


def test_a_negative_value_has_no_base62_form() -> None:
    with pytest.raises(ValueError, match="negative"):
        identity.to_base62(-1)


def test_a_sid_holds_locator_vpc_and_function() -> None:
    sid = identity.sid("fd00:ff:0:1::/64", 0x1234567890AB, identity.SID_DT46)
    assert str(sid) == "fd00:ff:0:1:1234:5678:90ab:46"


@given(VPCS, VPCS, st.sampled_from([identity.SID_DX4, identity.SID_DX6, identity.SID_DT46]))
def test_sids_lie_in_the_locator_and_tell_vpcs_apart(vpc: int, other: int, function: int) -> None:
    locator = IPv6Network("fd00:ff:0:1::/64")
    assume(vpc != other)
    assert identity.sid(locator, vpc, function) in locator
    assert identity.sid(locator, vpc, function) != identity.sid(locator, other, function)


def test_a_sid_needs_a_64_bit_locator_and_a_16_bit_function() -> None:
    with pytest.raises(ValueError, match="must be a /64"):
        identity.sid("fd00:ff::/48", 1, identity.SID_DX4)
    with pytest.raises(ValueError, match="16 bits"):
        identity.sid("fd00:ff:0:1::/64", 1, 0x10000)


@given(st.integers(2, 9), st.data())
def test_a_draw_gives_each_free_value_once_over_all_ranks(bits: int, data: st.DataObject) -> None:
    """R32: drawn from the free set: rank r is the r-th free value, so a uniform rank is a uniform draw."""
    everything = set(range(1, 2**bits - 1))
    used = data.draw(st.sets(st.sampled_from(sorted(everything)), max_size=2**bits))
    free = sorted(everything - used)
    drawn = [identity.draw(bits, sorted(used), lambda _, rank=rank: rank) for rank in range(len(free))]
    assert drawn == free


@given(st.sets(VPCS, max_size=50))
def test_a_draw_is_never_used_nor_reserved(used: set[int]) -> None:
    drawn = identity.draw(identity.VPC_BITS, sorted(used), secrets.randbelow)
    assert drawn is not None
    assert drawn not in used
    assert identity.is_valid(drawn, identity.VPC_BITS)


def test_an_almost_full_space_still_gives_its_last_values() -> None:
    """T31: 99.9 % of 16 bits used."""
    everything = list(range(1, 2**16 - 1))
    random.Random(7).shuffle(everything)
    used, free = set(everything[64:]), set(everything[:64])
    for _ in range(64):
        drawn = identity.draw(identity.ATTACHMENT_BITS, sorted(used), secrets.randbelow)
        assert drawn in free
        used.add(drawn)
        free.discard(drawn)
    assert identity.draw(identity.ATTACHMENT_BITS, sorted(used), secrets.randbelow) is None


def test_names_are_joined_as_the_architecture_says() -> None:
    assert identity.instance_name("web", 0) == "web-0"
    assert identity.claim_name("web", 0, "eth0") == "web-0-eth0"
    assert identity.context_name("default", "us-central-1") == "default-us-central-1"
    assert identity.subnet_name("default-us-central-1", "IPv6") == "default-us-central-1-ipv6"


@given(st.lists(ANY_TEXT, min_size=1, max_size=4))
def test_every_derived_name_is_an_object_name(parts: list[str]) -> None:
    assert identity.is_object_name(identity.derived_name(*parts))
    assert identity.is_label_name(identity.derived_name(*parts, label=True))


@given(st.lists(NAMES, min_size=1, max_size=3))
def test_a_name_that_fits_is_the_plain_join(parts: list[str]) -> None:
    assert identity.derived_name(*parts) == "-".join(parts)


@pytest.mark.parametrize(
    ("name", "is_object", "is_label"),
    [
        ("a", True, True),
        ("a-b.c", True, False),
        ("a" * 63, True, True),
        ("a" * 64, True, False),
        ("a" * 253, True, False),
        ("a" * 254, False, False),
        ("", False, False),
        ("a.", False, False),
        ("a..b", False, False),
        ("a-.b", False, False),
        ("-a", False, False),
        ("A", False, False),
    ],
)
def test_names_are_judged_as_the_api_server_judges_them(name: str, is_object: bool, is_label: bool) -> None:
    assert identity.is_object_name(name) == is_object
    assert identity.is_label_name(name) == is_label


def test_cut_names_that_begin_alike_stay_apart() -> None:
    long = "a" * 250
    names = {identity.derived_name(long, suffix) for suffix in ("one", "two", "three")}
    assert len(names) == 3
    assert all(len(name) <= 253 for name in names)


def test_a_cut_name_ends_in_twelve_digits_of_the_parts() -> None:
    name = identity.derived_name("A", "b", label=True)
    assert name == f"a-b-{identity.digest('A', 'b', digits=12)}"


@given(st.lists(NAMES, min_size=2, max_size=3), st.lists(NAMES, min_size=2, max_size=3))
def test_the_digest_tells_lists_of_parts_apart(one: list[str], other: list[str]) -> None:
    assume(one != other)
    assert identity.digest(*one, digits=40) != identity.digest(*other, digits=40)


@given(NAMES, st.integers(0, 999), st.from_regex(r"[a-z][a-z0-9]{0,14}", fullmatch=True), st.data())
def test_two_slots_of_any_workloads_never_share_a_claim_name(
    workload: str, ordinal: int, template: str, data: st.DataObject
) -> None:
    """Templates without '-' make the join <workload>-<ordinal>-<template> unique."""
    other = data.draw(
        st.tuples(
            st.sampled_from([workload, f"{workload}-{ordinal}", f"{workload}-0"]),
            st.integers(0, 999),
            st.from_regex(r"[a-z][a-z0-9]{0,14}", fullmatch=True),
        )
    )
    assume(other != (workload, ordinal, template))
    assert identity.claim_name(workload, ordinal, template) != identity.claim_name(*other)


def test_ip_claims_of_cells_and_namespaces_stay_apart() -> None:
    """One project holds many namespaces and cells that all have a web-0-eth0."""
    names = {
        identity.family_claim_name(location, namespace, "web-0-eth0", family)
        for location in ("us-central-1", "eu-west-1")
        for namespace in ("shop", "shop-2")
        for family in ("IPv4", "IPv6")
    }
    assert len(names) == 8
    assert all(identity.is_object_name(name) for name in names)


def test_ip_claim_names_say_whom_they_serve() -> None:
    parts = ("us-central-1", "shop", "web-0-eth0")
    expected = identity.digest(*parts, "f-ipv6", digits=10)
    assert identity.family_claim_name(*parts, "IPv6") == f"web-0-eth0-f-ipv6-{expected}"
    name = identity.class_claim_name(*parts, "public-unicast-ipv4")
    assert name.startswith("web-0-eth0-c-public-unicast-ipv4-")
    assert identity.network_range_name("us-central-1", "shop", "default", "IPv6").startswith("net-ipv6-")
    assert identity.context_range_name("us-central-1", "shop", "default-x", "IPv4").startswith("ctx-ipv4-")


@given(NAMES, ANY_TEXT)
def test_ip_claim_names_are_object_names_and_keep_their_digits(claim: str, class_name: str) -> None:
    name = identity.class_claim_name("here", "shop", claim, class_name)
    assert identity.is_object_name(name)
    assert name.endswith(identity.digest("here", "shop", claim, f"c-{class_name}", digits=10))


@given(st.lists(ANY_TEXT, min_size=1, max_size=3))
def test_label_values_are_valid_labels(parts: list[str]) -> None:
    value = identity.label_value(*parts)
    assert len(value) <= 63
    assert value == "" or (value[0].isalnum() and value[-1].isalnum() and value.isascii())
