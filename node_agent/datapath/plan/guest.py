"""Plans for what is inside a guest's namespace: its interface, and what leaves by which interface. Pure.

A Pod's first interface has the default routes of the table ``main``. Any other interface of ours has default routes of
its own: in ``main`` behind eth0's, and first in a table that a rule leads to whatever has one of the interface's own
addresses as its source. So an answer leaves by the interface that was asked, as it has to: the node drops a source that
is not the interface's own.
"""

from __future__ import annotations

import hashlib

from node_agent.datapath.model import GATEWAY_MAC, Address, Attachment
from node_agent.datapath.objects import (
    AwaitLocal,
    DeviceAddress,
    Ensure,
    Family,
    Neighbour,
    Object,
    Remove,
    Route,
    Rule,
    SetLink,
    SetSysctl,
    Step,
)
from node_agent.datapath.plan.common import DEFAULT, MAIN_TABLE, families, family_of, gateways

PRIMARY = "eth0"
"""A Pod's first interface."""
OWN_SOURCE_PRIORITY = 1000
"""Where the rules for an interface's own addresses go: between the tables ``local`` and ``main``."""


def own_number(guest_ifname: str) -> int | None:
    """A number of this interface's own in its guest, from its name: its table and its metric. None for eth0.

    The tables 253-255 are the kernel's, and a low metric would come before eth0's.
    """
    if guest_ifname == PRIMARY:
        return None
    return 2048 + int.from_bytes(hashlib.sha256(guest_ifname.encode()).digest()[:3], "big")


def guest_rules(attachment: Attachment) -> tuple[Rule, ...]:
    """Of an interface beside eth0: its own sources go to its own table."""
    table = own_number(attachment.guest_ifname)
    if table is None:
        return ()
    return tuple(
        Rule(family=family_of(each), priority=OWN_SOURCE_PRIORITY, source=each.block, table=table)
        for each in attachment.addresses
    )


def guest_objects(attachment: Attachment) -> tuple[Object, ...]:
    """What the guest's end holds: its addresses, its gateways as neighbours, its default routes (onlink), its rules."""
    device, own = attachment.guest_ifname, own_number(attachment.guest_ifname)
    found: list[Object] = [DeviceAddress(device, each.interface) for each in attachment.addresses]
    found += [Neighbour(device, gateway, GATEWAY_MAC) for gateway in gateways(attachment)]
    first: dict[Family, Address] = {}
    for each in attachment.addresses:
        first.setdefault(family_of(each), each.gateway)
    for family, gateway in sorted(first.items()):
        found.append(Route(table=MAIN_TABLE, destination=DEFAULT[family], dev=device, via=gateway, metric=own))
        if own is not None:
            found.append(Route(table=own, destination=DEFAULT[family], dev=device, via=gateway))
    return (*found, *guest_rules(attachment))


def guest_up(attachment: Attachment) -> tuple[Step, ...]:
    """Addresses and neighbours before the interface is up, routes and rules after it."""
    device, wanted = attachment.guest_ifname, guest_objects(attachment)
    steps: list[Step] = []
    if 6 in families(attachment):
        steps += [
            SetSysctl(f"net/ipv6/conf/{device}/disable_ipv6", "0", optional=True),
            SetSysctl(f"net/ipv6/conf/{device}/accept_ra", "0", optional=True),
        ]
    steps.append(SetLink(device, no_link_local=True))
    steps += [Ensure(each) for each in wanted if not isinstance(each, Route | Rule)]
    steps.append(SetLink(device, up=True))
    steps += [Ensure(each) for each in wanted if isinstance(each, Route | Rule)]
    steps += [AwaitLocal(each.address) for each in attachment.addresses if family_of(each) == 6]
    return tuple(steps)


def guest_down(attachment: Attachment) -> tuple[Step, ...]:
    """What outlives the interface in a guest that lives on."""
    return tuple(Remove(rule) for rule in guest_rules(attachment))
