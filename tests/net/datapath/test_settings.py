"""Whatever a node's settings were, and whatever MTU a network has: the agent's come first (T14)."""

import pytest

from node_agent.datapath import namespaces
from tests.net.datapath.lab import Lab, Node
from tests.net.datapath.passing import new_guest, take_away
from tests.net.datapath.scene import FAMILIES, answered

HOSTILE = {
    "net/ipv4/ip_forward": "0",
    "net/ipv4/conf/all/rp_filter": "1",
    "net/ipv4/conf/default/rp_filter": "2",
    "net/ipv4/conf/all/send_redirects": "1",
    "net/ipv4/conf/all/accept_redirects": "1",
    "net/ipv4/conf/all/accept_source_route": "1",
    "net/ipv6/conf/all/forwarding": "0",
    "net/ipv6/conf/all/accept_redirects": "1",
}
UNUSUAL = {
    "net/ipv4/conf/default/rp_filter": "1",
    "net/ipv6/conf/default/accept_ra": "2",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv6/conf/default/proxy_ndp": "1",
    "net/ipv6/conf/default/accept_dad": "1",
    "net/ipv6/conf/default/addr_gen_mode": "0",
}
"""Defaults of a new device that a distribution, or another plugin, may have chosen."""


async def write(namespace: str, settings: dict[str, str]) -> None:
    """Write settings of a namespace."""
    for path, value in settings.items():
        await namespaces.within(namespace, lambda path=path, value=value: namespaces.write_sysctl(path, value))


async def test_each_setting_that_somebody_changed_is_named_and_put_back(bench: Lab, node: Node) -> None:
    """T14: rp_filter 0, 1 and 2, forwarding, redirects, source routes."""
    guests = [await bench.attach(new_guest(bench)) for _ in range(2)]
    await write(node.namespace.path, HOSTILE)
    found = await node.call("check_node")
    for path in HOSTILE:
        assert any(f"sysctl {path}:" in each for each in found), (path, found)
    await node.call("setup_node")
    assert await node.call("check_node") == []
    for family in FAMILIES:
        assert await answered(*guests, family)
    for guest in guests:
        await take_away(guest)


async def test_a_guest_works_whatever_the_defaults_for_new_devices_are(bench: Lab, node: Node) -> None:
    """T14: reverse path filter, IPv6 switched off by default, addresses by the kernel: on the node and in the guest."""
    before = {path: node.namespace.exec("cat", f"/proc/sys/{path}").strip() for path in UNUSUAL}
    guests = [new_guest(bench) for _ in range(2)]
    await write(node.namespace.path, {path: value for path, value in UNUSUAL.items() if "rp_filter" not in path})
    try:
        for guest in guests:
            await write(guest.namespace.path, UNUSUAL)
            await bench.attach(guest)
            assert await node.call("check", record=guest.record) == []
        for family in FAMILIES:
            assert await answered(*guests, family)
            assert await answered(*reversed(guests), family)
    finally:
        await write(node.namespace.path, before)
    for guest in guests:
        await take_away(guest)


@pytest.mark.parametrize("mode", ["Netns", "Hypervisor"])
@pytest.mark.parametrize("mtu", [1280, 1500, 9000, 65521])
async def test_a_device_has_the_mtu_of_its_network_from_the_start(bench: Lab, node: Node, mode: str, mtu: int) -> None:
    """T14, kubevirt#10055: veth and tap, the smallest that IPv6 takes to the largest that a device takes."""
    guest = new_guest(bench, mtu=mtu, mode=mode)
    await bench.attach(guest)
    assert f"mtu {mtu} " in node.namespace.ip("-o", "link", "show", guest.host_device)
    assert await node.call("check", record=guest.record) == []
    await take_away(guest)
