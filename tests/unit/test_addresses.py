"""The forms that addresses are published in, and block arithmetic (R3, R6, T13)."""

from ipaddress import IPv4Network, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from netclaim import addresses

V6_BLOCKS = st.builds(
    lambda value, length: IPv6Network((value >> (128 - length) << (128 - length), length)),
    st.integers(0, 2**128 - 1),
    st.integers(1, 127),
)
V4_BLOCKS = st.builds(
    lambda value, length: IPv4Network((value >> (32 - length) << (32 - length), length)),
    st.integers(0, 2**32 - 1),
    st.integers(1, 31),
)
BLOCKS = V6_BLOCKS | V4_BLOCKS


@pytest.mark.parametrize(
    ("subnet", "gateway"),
    [
        ("10.128.0.0/20", "10.128.0.1"),
        ("2001:db8:a001::/64", "2001:db8:a001::1"),
        ("FD20:1000:0:1::/64", "fd20:1000:0:1::1"),
        ("192.0.2.7/32", "192.0.2.7"),
    ],
)
def test_the_gateway_is_the_first_usable_address(subnet: str, gateway: str) -> None:
    assert addresses.gateway(subnet) == gateway


@pytest.mark.parametrize(
    ("cidr", "published", "host", "answers"),
    [
        (
            "fd20:1000:0:1::1:0:0/96",
            "fd20:1000:0:1:0:1::/96",
            "fd20:1000:0:1:0:1:0:1/96",
            "fd20:1000:0:1:0:1:0:1",
        ),
        ("fd00:10:ff01:0:1::/96", "fd00:10:ff01:0:1::/96", "fd00:10:ff01:0:1::1/96", "fd00:10:ff01:0:1::1"),
        ("172.20.1.7/32", "172.20.1.7/32", "172.20.1.7/32", "172.20.1.7"),
    ],
)
def test_an_endpoint_is_published_as_its_block_and_used_at_its_first_address(
    cidr: str, published: str, host: str, answers: str
) -> None:
    """spec/claims.md: address forms; spec/node-agent.md: the guest's address is base+1."""
    assert addresses.endpoint_form(cidr) == published
    assert addresses.host_form(cidr) == host
    assert addresses.host_address(cidr) == answers
    assert addresses.block_of_host(host) == published


@pytest.mark.parametrize(
    ("cidr", "form"),
    [
        ("198.51.100.11/32", "198.51.100.11"),
        ("198.51.100.11", "198.51.100.11"),
        ("2001:db8::7/128", "2001:db8::7"),
        ("2001:db8:1::/96", "2001:db8:1::/96"),
    ],
)
def test_an_external_address_is_bare_when_it_is_a_single_one(cidr: str, form: str) -> None:
    assert addresses.external_form(cidr) == form


def test_families_are_told_apart_with_and_without_length_and_host_bits() -> None:
    assert [addresses.family(text) for text in ("10.0.0.1", "10.0.0.1/8", "::1", "fd00::1/64")] == [
        "IPv4",
        "IPv4",
        "IPv6",
        "IPv6",
    ]


@pytest.mark.parametrize("text", ["", "10.0.0.0/33", "10.0.0.1/24", "fd00::1/64", "x", "10.0.0.01"])
def test_what_is_no_block_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        addresses.block(text)


@given(BLOCKS)
def test_the_host_form_lies_in_its_block_and_is_not_its_first_address(network: IPv4Network | IPv6Network) -> None:
    """T13: the subnet's own address (the routers' anycast in IPv6) is never a guest's."""
    host = ip_address(addresses.host_address(str(network)))
    assert host in network
    assert host != network.network_address
    assert addresses.block_of_host(addresses.host_form(str(network))) == str(network)


@given(BLOCKS, BLOCKS)
def test_contains_and_overlap_agree_with_the_standard_library(
    one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network
) -> None:
    expected = one.version == other.version and one.overlaps(other)
    assert addresses.overlap(str(one), str(other)) == expected
    if one.version == other.version:
        assert addresses.contains(str(one), str(other)) == other.subnet_of(one)  # type: ignore[arg-type]
    else:
        assert not addresses.contains(str(one), str(other))


@given(V6_BLOCKS)
def test_equal_addresses_are_the_same_however_they_are_written(network: IPv6Network) -> None:
    assert addresses.same(network.exploded.upper(), str(network))
    assert addresses.endpoint_form(network.exploded.upper()) == str(network)


def test_different_lengths_are_not_the_same() -> None:
    assert not addresses.same("10.0.0.0/24", "10.0.0.0/25")
    assert not addresses.same("10.0.0.1", "10.0.0.2")
