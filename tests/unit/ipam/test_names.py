"""Names are functions of identity: the same one for whoever asks, never one for two blocks."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nso.ipam.blocks import BITS, Block
from nso.ipam.names import ScopeValue, allocation_name, missing_roles, pool_name, space_name

SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
SCOPE = {
    "network": ScopeValue("Network", "default", "shop"),
    "location": ScopeValue("Location", "us-central-1"),
}


@pytest.mark.parametrize(
    ("pool", "space", "block", "name"),
    [
        ("v4-default-us-central-1", "", "10.128.0.2/32", "v4-default-us-central-1-0a800002"),
        ("v4-default-us-central-1", "", "10.128.0.0/20", "v4-default-us-central-1-0a800000"),
        ("private-ipv4", "39f73f51da", "10.128.0.0/20", "private-ipv4-s39f73f51da-0a800000"),
        ("subnet", "", "fd20:1000:0:1::1:0:0/96", "subnet-fd201000000000010000000100000000"),
        ("root", "", "::/0", "root-00000000000000000000000000000000"),
    ],
)
def test_the_name_of_an_allocation_is_pool_space_and_block(pool: str, space: str, block: str, name: str) -> None:
    """Test vectors of spec "Uniqueness is the object's name"."""
    assert allocation_name(pool, space, Block.parse(block)) == name


POOLS = st.from_regex(r"\A[a-z0-9]{1,4}(-s[0-9a-f]{10})?(-[a-z]{1,3})?\Z")
SPACES = st.one_of(st.just(""), st.from_regex(r"\A[0-9a-f]{10}\Z"))
BLOCKS = st.builds(
    lambda family, number: Block(family, number << (BITS[family] - 24), 24),
    st.sampled_from(sorted(BITS)),
    st.integers(0, 40),
)
PARTS = st.tuples(POOLS, SPACES, BLOCKS)


@given(PARTS, PARTS)
def test_two_blocks_never_have_one_name(one: tuple[str, str, Block], other: tuple[str, str, Block]) -> None:
    """T01: uniqueness is the object's name; a pool that is named like a space of another does not matter."""
    assert (allocation_name(*one) == allocation_name(*other)) == (one == other)


LONG_NAMES = st.builds(
    lambda length, seed: ".".join([f"{seed:x}-pool"] * 40)[:length].rstrip("-."),
    st.integers(200, 253),
    st.integers(0, 1000),
)


@given(LONG_NAMES, SPACES, BLOCKS)
def test_a_long_pool_name_is_cut_to_a_valid_and_distinct_name(pool: str, space: str, block: Block) -> None:
    """Spec "Names": longer than 253 characters is cut and given a digest."""
    name = allocation_name(pool, space, block)
    assert len(name) <= 253
    assert SUBDOMAIN.fullmatch(name)
    assert name != allocation_name(pool[:-1] + ("b" if pool[-1] != "b" else "c"), space, block)


def test_a_pool_is_named_after_class_and_scope_by_value() -> None:
    """A network is named by its namespace and name: one network in two cells is one scope, a namesake is another."""
    roles = ("network", "location")
    name = pool_name("subnet-ipv4", roles, SCOPE)
    assert re.fullmatch(r"subnet-ipv4-default-us-central-1-[0-9a-f]{10}", name)
    assert name == pool_name("subnet-ipv4", roles, dict(reversed(SCOPE.items())))
    elsewhere = SCOPE | {"network": ScopeValue("Network", "default", "other-shop")}
    assert name != pool_name("subnet-ipv4", roles, elsewhere)
    assert name != pool_name("subnet", roles, SCOPE)


@given(st.text(min_size=1, max_size=250), st.text(min_size=1, max_size=250))
def test_a_pool_name_is_valid_whatever_the_scope_is_called(network: str, location: str) -> None:
    """Scope values are free text of a client; the name of the pool is an RFC 1123 subdomain with room for a block."""
    scope = {"network": ScopeValue("N", network), "location": ScopeValue("L", location)}
    name = pool_name("subnet-ipv4", ("network", "location"), scope)
    assert SUBDOMAIN.fullmatch(name)
    assert len(allocation_name(name, "0123456789", Block.parse("::/0"))) <= 253


def test_a_space_is_told_apart_by_its_roles_alone() -> None:
    """`uniqueWithin: [network]` lets two networks hold the same address, and [] is one space for the project."""
    assert space_name((), SCOPE) == ""
    one = space_name(("network",), SCOPE)
    assert one == space_name(("network",), SCOPE | {"location": ScopeValue("Location", "elsewhere")})
    assert one != space_name(("network",), SCOPE | {"network": ScopeValue("Network", "other", "shop")})


def test_all_missing_roles_are_named() -> None:
    """ScopeRolesMissing names all of them."""
    assert missing_roles(("network", "location", "tenant"), {"location": SCOPE["location"]}) == ("network", "tenant")
