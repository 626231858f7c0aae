"""The static nftables tables of a node, as text. Pure.

Every packet of a guest passes the chain ``guest`` before anything else sees it. A host end (``G*``) without elements
is closed: its packets match no ``src4`` / ``src6`` element and are dropped. So the table is loaded before the first
attachment, and what opens a device is one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from node_agent.datapath.model import NodeConfig, Routing
from node_agent.datapath.names import GUEST_PATTERN, TABLE
from node_agent.datapath.objects import Element

DROPS = {
    "to_segment": "a guest's packet to a SID or locator",
    "to_multicast": "a guest's multicast or broadcast",
    "spoofed": "a source address that is not the guest's own",
    "to_node": "a guest's packet to a socket of the node",
    "foreign_encap": "a packet for a SID whose outer source is no node",
    "to_nexthop": "a packet from the uplink to an internal next hop",
    "spoofed_arp": "an ARP sender that is not the guest",
}
"""The drop counters by name, each with what it counts."""

REMOVAL = "".join(f"table {family} {TABLE} {{ }}\ndelete table {family} {TABLE}\n" for family in ("inet", "arp"))
"""Text for one transaction that leaves neither table, whether they were there or not."""

_MARK_GUEST = "    meta mark set iifname map @marks"
_SKIP_VRF = '    meta iifkind "vrf" accept'


def ruleset(config: NodeConfig, elements: Iterable[Element] = ()) -> str:
    """Text for one libnftables transaction: creates what is missing, replaces the rules, keeps elements and counters.

    ``elements`` are there when it is done: a table that somebody flushed never stands without those of live guests.
    In VRF mode the prerouting hook runs twice (host end, then VRF device), hence the first line of the guest chain
    there; without VRF the mark leads the node's own ICMP answers back to the VPC.
    """
    vrf = config.routing is Routing.VRF
    uplink, block = config.uplink, config.locator_block
    opened = "".join(f"add element {each.family} {TABLE} {each.set} {_braced(each)}\n" for each in elements)
    counters = "\n".join(f"  counter {name} {{ }}" for name in DROPS if name != "spoofed_arp")
    return f"""
table inet {TABLE} {{
{counters}
  set src4 {{ type ifname . ipv4_addr; flags interval; }}
  set src6 {{ type ifname . ipv6_addr; flags interval; }}
  map marks {{ type ifname : mark; }}
  chain prerouting {{ type filter hook prerouting priority -450; policy accept; }}
  chain guest {{ }}
  chain input {{ type filter hook input priority 0; policy accept; }}
  chain guest_input {{ }}
}}
flush table inet {TABLE}
table inet {TABLE} {{
  chain prerouting {{
    iifname "{GUEST_PATTERN}" goto guest
    iifname "{uplink}" ip6 daddr {block} ip6 saddr != {block} counter name foreign_encap drop
    iifname "{uplink}" ip daddr {config.nexthops4} counter name to_nexthop drop
    iifname "{uplink}" ip6 daddr {config.nexthops6} counter name to_nexthop drop
  }}
  chain guest {{
{_SKIP_VRF if vrf else ""}
    ip6 daddr {block} counter name to_segment drop
    ip daddr {{ 224.0.0.0/4, 255.255.255.255 }} counter name to_multicast drop
    icmpv6 type nd-neighbor-solicit ip6 hoplimit 255 ip6 daddr ff02::1:ff00:0/104 accept
    icmpv6 type nd-neighbor-solicit ip6 hoplimit 255 ip6 daddr fe80::1 accept
    ip6 daddr ff00::/8 counter name to_multicast drop
{"" if vrf else _MARK_GUEST}
    iifname . ip saddr @src4 accept
    iifname . ip6 saddr @src6 accept
    counter name spoofed drop
  }}
  chain input {{
    iifname "{GUEST_PATTERN}" jump guest_input
  }}
  chain guest_input {{
    icmp type echo-request limit rate 100/second accept
    icmpv6 type {{ echo-request, nd-neighbor-solicit }} limit rate 100/second accept
    counter name to_node drop
  }}
}}
table arp {TABLE} {{
  counter spoofed_arp {{ }}
  set src4 {{ type ifname . ipv4_addr; flags interval; }}
  chain input {{ type filter hook input priority 0; policy accept; }}
}}
flush table arp {TABLE}
table arp {TABLE} {{
  chain input {{
    iifname "{GUEST_PATTERN}" iifname . arp saddr ip != @src4 counter name spoofed_arp drop
  }}
}}
{opened}"""


def _braced(element: Element) -> str:
    key = f'"{element.device}"' if element.source is None else f'"{element.device}" . {element.source}'
    return f"{{ {key} }}" if element.value is None else f"{{ {key} : {element.value:#x} }}"
