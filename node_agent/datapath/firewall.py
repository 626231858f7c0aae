"""The static nftables tables of a node, as text. Pure.

Every packet of a guest passes the chain ``guest`` before anything else sees it. A host end (``G*``) without elements
is closed: its packets match none and are dropped. So the table is loaded before the first attachment, and what opens
a device is one transaction.

Whatever a node forwards pays for these chains, at every device it comes in by. So one lookup in a hash says of a
guest's packet that device and source belong together, and which mark its VPC has. Blocks of the usual length have maps
of their own for it (``own``): a map with intervals (``range``) costs each packet more than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Network

from node_agent.datapath.model import NodeConfig, Routing
from node_agent.datapath.names import GUEST_PATTERN, LINK_GROUP, PAIR_PATTERN, TABLE
from node_agent.datapath.objects import LENGTHS, Element

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

_FORMER = """  set src4 { type ifname . ipv4_addr; flags interval; }
  set src6 { type ifname . ipv6_addr; flags interval; }
  map marks { type ifname : mark; }"""
"""What the table held in the layout before this one: whoever finds it there removes it in the same transaction."""
_NO_FORMER = f"""delete set inet {TABLE} src4
delete set inet {TABLE} src6
delete map inet {TABLE} marks"""
_MASK6 = IPv6Network(("::", LENGTHS["own6"])).netmask
_SKIP_VRF = '    meta iifkind "vrf" accept'


def ruleset(config: NodeConfig, elements: Iterable[Element] = ()) -> str:
    """Text for one libnftables transaction: creates what is missing, replaces the rules, keeps elements and counters.

    ``elements`` are there when it is done: a table that somebody flushed never stands without those of live guests.
    In VRF mode the prerouting hook runs twice (host end, then VRF device), hence the first line of the guest chain
    there; without VRF the mark leads the node's own ICMP answers back to the VPC.
    """
    uplink, block = config.uplink, config.locator_block
    opened = "".join(f"add element {each.family} {TABLE} {each.set} {_braced(each)}\n" for each in elements)
    counters = "\n".join(f"  counter {name} {{ }}" for name in DROPS if name != "spoofed_arp")
    return f"""
table inet {TABLE} {{
{counters}
{_FORMER}
  map own4 {{ type ipv4_addr . ifname : mark; }}
  map own6 {{ type ipv6_addr . ifname : mark; }}
  map range4 {{ type ipv4_addr . ifname : mark; flags interval; }}
  map range6 {{ type ipv6_addr . ifname : mark; flags interval; }}
  chain prerouting {{ type filter hook prerouting priority -450; policy accept; }}
  chain uplink {{ }}
  chain encapsulated {{ }}
  chain guest {{ }}
  chain guest4 {{ }}
  chain guest4_multicast {{ }}
  chain guest6 {{ }}
  chain guest6_multicast {{ }}
  chain input {{ type filter hook input priority 0; policy accept; }}
  chain guest_input {{ }}
}}
flush table inet {TABLE}
table inet {TABLE} {{
  chain prerouting {{
    iifname "{GUEST_PATTERN}" goto guest
    iifname "{uplink}" goto uplink
  }}
  chain uplink {{
    ip6 daddr {block} goto encapsulated
    ip daddr {config.nexthops4} counter name to_nexthop drop
    ip6 daddr {config.nexthops6} counter name to_nexthop drop
  }}
  chain encapsulated {{
    ip6 saddr {block} accept
    counter name foreign_encap drop
  }}
  chain guest {{
{_SKIP_VRF if config.routing is Routing.VRF else ""}
    meta nfproto ipv4 goto guest4
    goto guest6
  }}
  chain guest4 {{
    ip daddr >= 224.0.0.0 jump guest4_multicast
    meta mark set ip saddr . iifname map @own4 accept
    meta mark set ip saddr . iifname map @range4 accept
    counter name spoofed drop
  }}
  chain guest4_multicast {{
    ip daddr 224.0.0.0/4 counter name to_multicast drop
    ip daddr 255.255.255.255 counter name to_multicast drop
  }}
  chain guest6 {{
    ip6 daddr {block} counter name to_segment drop
    ip6 daddr ff00::/8 goto guest6_multicast
    meta mark set ip6 saddr & {_MASK6} . iifname map @own6 accept
    meta mark set ip6 saddr . iifname map @range6 accept
    icmpv6 type nd-neighbor-solicit ip6 hoplimit 255 ip6 daddr fe80::1 accept
    counter name spoofed drop
  }}
  chain guest6_multicast {{
    icmpv6 type nd-neighbor-solicit ip6 hoplimit 255 ip6 daddr ff02::1:ff00:0/104 accept
    counter name to_multicast drop
  }}
  chain input {{
    iifname "{GUEST_PATTERN}" jump guest_input
    iifname "{PAIR_PATTERN}" meta iifgroup {LINK_GROUP} jump guest_input
  }}
  chain guest_input {{
    icmp type echo-request limit rate 100/second accept
    icmpv6 type {{ echo-request, nd-neighbor-solicit }} limit rate 100/second accept
    counter name to_node drop
  }}
}}
{_NO_FORMER}
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
    key = " . ".join(f'"{each}"' if isinstance(each, str) else str(each) for each in element.key)
    return f"{{ {key} }}" if element.value is None else f"{{ {key} : {element.value:#x} }}"
