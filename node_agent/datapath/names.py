"""Names of the devices of our own, and the marks by which they are recognised. Pure."""

from __future__ import annotations

from netclaim import identity

TABLE = "netclaim"
"""Name of the nftables tables (families inet and arp)."""

LINK_GROUP = 0x6E63
"""Link group of every device that we create ("nc"); set in the creating message, so no device of ours is ever without."""

PROTOCOL = 110
"""Routing protocol number of every route and rule that we create: the sweep removes nothing that does not carry it."""

GUEST_PATTERN = "G*"
"""nftables interface pattern of the host ends (and VRF devices): closed unless an element opens it."""


def host_interface(vpc: int, attachment: int) -> str:
    """Host end of an attachment: ``G<vpc9><attachment3>H``, 14 characters."""
    return identity.host_interface(vpc, attachment)


def vrf(vpc: int) -> str:
    """VRF device of a VPC: ``G<vpc9>V``."""
    return identity.vrf_interface(vpc)


def pair_inner(vpc: int) -> str:
    """The VPC's veth pair, tenant side: ``V<vpc9>I``. Outside the ``G*`` pattern on purpose."""
    return f"V{identity.vrf_interface(vpc)[1:-1]}I"


def pair_outer(vpc: int) -> str:
    """The VPC's veth pair, underlay side: ``V<vpc9>O``."""
    return f"V{identity.vrf_interface(vpc)[1:-1]}O"
