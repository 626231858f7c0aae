"""Nodes, VPCs and attachments for property tests."""

from ipaddress import IPv4Address, IPv4Interface, IPv6Address, IPv6Interface, IPv6Network

from hypothesis import settings
from hypothesis import strategies as st

from node_agent.datapath import plan
from node_agent.datapath.model import Attachment, GuestAddress, Mode, NodeConfig, RemotePrefix, Routing, Vpc

unhurried = settings(deadline=None, max_examples=25)
"""A busy machine is no failure."""

BLOCK = IPv6Network("fd5f::/32")


def config(routing: Routing) -> NodeConfig:
    """A node with this backend."""
    return NodeConfig(
        node_name="a",
        uplink="up0",
        underlay=IPv6Address("fd00:aa::1"),
        locator=IPv6Network("fd5f:0:0:a::/64"),
        locator_block=BLOCK,
        routing=routing,
        mtu=1460,
    )


configs = st.sampled_from([config(routing) for routing in Routing])
vpcs = st.builds(Vpc, st.integers(1, 2**48 - 2), st.integers(1, 49_999))
_hosts = st.integers(2, 2**16)
_ipv4 = st.builds(
    lambda host: GuestAddress(IPv4Interface((IPv4Address("10.128.0.0") + host, 32)), IPv4Address("10.128.0.1")), _hosts
)
_ipv6 = st.builds(
    lambda host: GuestAddress(
        IPv6Interface((IPv6Address("fd20:0:1::") + (host << 32) + 1, 96)), IPv6Address("fd20:0:1::1")
    ),
    _hosts,
)
addresses = st.lists(st.one_of(_ipv4, _ipv6), max_size=4, unique=True).map(tuple)


@st.composite
def attachments(draw: st.DrawFn, mode: Mode | None = None) -> Attachment:
    """An attachment of any mode, with no address up to several of both families."""
    vpc, identifier = draw(vpcs), draw(st.integers(1, 2**16 - 2))
    return Attachment(
        vpc=vpc,
        identifier=identifier,
        mode=mode or draw(st.sampled_from(Mode)),
        mtu=draw(st.integers(1280, 8856)),
        guest_ifname="eth0",
        guest_mac=plan.guest_mac(vpc.identifier, identifier),
        addresses=draw(addresses),
        owner="0123456789abcdef",
    )


_segments = st.integers(0, 2**96 - 1).map(lambda low: BLOCK[low])
_prefixes = st.one_of(
    st.builds(lambda address: address.interface.network, st.one_of(_ipv4, _ipv6)),
    st.sampled_from(list(plan.DEFAULT.values())),
)
remotes = st.builds(RemotePrefix, _prefixes, _segments)
