"""The marks by which what is ours is recognised in the kernel. Pure."""

from __future__ import annotations

TABLE = "netclaim"
"""Name of the nftables tables (families inet and arp)."""

LINK_GROUP = 0x6E63
"""Link group of every device that we create ("nc"); part of the creating message, so none of ours is ever without."""

PROTOCOL = 110
"""Routing protocol number of every route and rule that we create: the sweep removes nothing that does not carry it."""

GUEST_PATTERN = "G*"
"""nftables interface pattern of the host ends (and VRF devices): closed unless an element opens it.

The pair of a VPC (``V...``) stays out of it on purpose.
"""

PAIR_PATTERN = "V*"
"""The same of the pairs of VPCs: what comes out of one is a guest's on another node, and no more for a socket here."""

ALIAS = "netclaim"
"""First word of the alias of every device of ours; what follows says whose it is."""
