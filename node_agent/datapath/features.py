"""What this kernel and this process can do, found out by trying in a throw-away network namespace."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path

from node_agent.datapath import namespaces, nft
from node_agent.datapath.errors import DatapathError
from node_agent.datapath.execute import Executor
from node_agent.datapath.model import Routing
from node_agent.datapath.netlink import Netlink, Refusal, route_socket, tunnel_source
from node_agent.datapath.objects import (
    Create,
    Decapsulate,
    Encapsulate,
    Ensure,
    Route,
    Rule,
    SetLink,
    Step,
    Veth,
    Vrf,
)

CAPABILITIES = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}
"""Bit in CapEff and name of what the data path needs: the network, and entering a guest's namespace."""

_PROBE_RULESET = """
table inet netclaim_probe {
  counter dropped { }
  map own { type ipv6_addr . ifname : mark; }
  map range { type ipv6_addr . ifname : mark; flags interval; }
  chain prerouting {
    type filter hook prerouting priority -450; policy accept;
    meta mark set ip6 saddr & ffff:ffff:ffff:ffff:ffff:ffff:: . iifname map @own accept
    meta mark set ip6 saddr . iifname map @range accept
    iifname "G*" counter name dropped drop
  }
}
table arp netclaim_probe {
  chain input {
    type filter hook input priority 0; policy accept;
    arp saddr ip 192.0.2.1 drop
  }
}
"""


@dataclass(frozen=True, slots=True)
class Features:
    """``missing``: what the data path cannot do without, one plain sentence each. ``vrf``: whether VRF devices work."""

    missing: tuple[str, ...]
    vrf: bool


def choose_routing(asked: str, features: Features) -> Routing:
    """The backend for ``--routing auto|vrf|rules``. ValueError when VRF is asked for and the kernel has none."""
    if asked == "auto":
        return Routing.VRF if features.vrf else Routing.RULES
    routing = Routing(asked)
    if routing is Routing.VRF and not features.vrf:
        raise ValueError("--routing vrf: this kernel has no VRF device (module vrf); use --routing rules or auto")
    return routing


async def kernel_features() -> Features:
    """Try everything that the data path uses in a network namespace of its own; nothing outside of it changes."""
    missing = _missing_capabilities()
    if missing:
        return Features(tuple(missing), vrf=False)
    if not _settings_writable():
        missing.append("/proc/sys/net is not writable: run the agent's container privileged or mount it read-write")
    try:
        opened = await namespaces.within_new(route_socket)
    except PermissionError as error:
        return Features((*missing, f"no network namespace can be made: {error.strerror}"), vrf=False)
    threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="probe")
    netlink = Netlink(opened, threads)
    try:
        executor = Executor(netlink)
        for sentence, step in _probes():
            try:
                await executor.run([step])
            except DatapathError as error:
                missing.append(f"{sentence} ({error})")
        vrf = await _works(executor, Create(Vrf(name="probe-vrf", table=100_000, alias="probe")))
    finally:
        netlink.close()
        threads.shutdown()
    missing += await _missing_segment_routing()
    missing += await _missing_firewall()
    return Features(tuple(missing), vrf)


def _settings_writable() -> bool:
    """Whether /proc/sys/net can be written. A container runtime mounts it read-only unless the container is privileged;
    who may mount can take that back in the mount namespace that is its own, and needs no other privilege for it."""
    probe = "/proc/sys/net/ipv4/ip_forward"
    if not os.access(probe, os.W_OK):
        namespaces.remount_writable("/proc/sys")
    return os.access(probe, os.W_OK)


def _missing_capabilities() -> list[str]:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff:"))
    held = int(line.split()[1], 16)
    return [f"the process lacks the capability {name}" for bit, name in CAPABILITIES.items() if not held >> bit & 1]


def _probes() -> tuple[tuple[str, Step], ...]:
    device, other = "probe0", "probe1"
    veth = Veth(name=device, mac="02:00:00:00:00:02", mtu=1460, alias="probe", peer=other, peer_mac="02:00:00:00:00:03")
    sid = IPv6Address("fd5f::1")
    return (
        ("this kernel has no veth devices (module veth)", Create(veth)),
        ("a device cannot be put up", SetLink(device, up=True)),
        ("a device cannot be put up", SetLink(other, up=True)),
        (
            "this kernel has no policy routing for IPv4 (CONFIG_IP_MULTIPLE_TABLES)",
            Ensure(Rule(family=4, priority=1000, table=100_000, iif=device)),
        ),
        (
            "this kernel has no policy routing for IPv6 (CONFIG_IPV6_MULTIPLE_TABLES)",
            Ensure(Rule(family=6, priority=1000, table=100_000, iif=device)),
        ),
        (
            "this kernel cannot encapsulate in reduced segment routing (CONFIG_IPV6_SEG6_LWTUNNEL, encap.red)",
            Ensure(Route(table=100_000, destination=IPv4Network("192.0.2.0/24"), dev=device, encap=Encapsulate(sid))),
        ),
        (
            "this kernel cannot decapsulate segment routing (CONFIG_IPV6_SEG6_LWTUNNEL, End.DX4)",
            Ensure(
                Route(
                    table=100_000,
                    destination=IPv6Network(sid),
                    dev=device,
                    encap=Decapsulate("End.DX4", nexthop=IPv4Address("198.18.0.1")),
                )
            ),
        ),
    )


async def _works(executor: Executor, step: Step) -> bool:
    try:
        await executor.run([step])
    except DatapathError:
        return False
    return True


async def _missing_segment_routing() -> list[str]:
    try:
        await tunnel_source()
    except Refusal as refusal:
        return [f"this kernel has no segment routing control (CONFIG_IPV6_SEG6_LWTUNNEL): {refusal.said}"]
    return []


async def _missing_firewall() -> list[str]:
    def probe() -> str | None:
        return nft.try_ruleset(_PROBE_RULESET)

    try:
        said = await namespaces.within_new(probe)
    except OSError as error:
        return [f"libnftables.so.1 cannot be loaded (Debian: libnftables1): {error}"]
    return [f"this kernel's nftables cannot do what is needed: {said}"] if said else []
