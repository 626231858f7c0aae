"""A node that was set up by the version before: its agent is replaced under guests that go on talking."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.net.datapath.backend import SOON, VRF
from tests.net.datapath.lab import Guest, Node, Sniffer
from tests.net.datapath.scene import FAMILIES, Scene, frame, token
from tests.waiting import until

FORMER = """flush ruleset
table inet netclaim {
  counter to_segment { }
  counter to_multicast { }
  counter spoofed { packets 1000 bytes 64000 }
  counter to_node { }
  counter foreign_encap { }
  counter to_nexthop { }
  set src4 { type ifname . ipv4_addr; flags interval; }
  set src6 { type ifname . ipv6_addr; flags interval; }
  map marks { type ifname : mark; }
  chain prerouting {
    type filter hook prerouting priority -450; policy accept;
    iifname "G*" goto guest
  }
  chain guest {
    %(first)s
    ip6 daddr fd5f::/32 counter name to_segment drop
    ip daddr { 224.0.0.0/4, 255.255.255.255 } counter name to_multicast drop
    ip6 daddr ff00::/8 counter name to_multicast drop
    meta mark set iifname map @marks
    iifname . ip saddr @src4 accept
    iifname . ip6 saddr @src6 accept
    counter name spoofed drop
  }
}
table arp netclaim {
  counter spoofed_arp { }
  set src4 { type ifname . ipv4_addr; flags interval; }
  chain input {
    type filter hook input priority 0; policy accept;
    iifname "G*" iifname . arp saddr ip != @src4 counter name spoofed_arp drop
  }
}
"""
"""The tables of the version before, in one transaction that puts them in the place of this version's."""


def _former(guests: Sequence[Guest]) -> str:
    lines = [FORMER % {"first": 'meta iifkind "vrf" accept' if VRF else ""}]
    for guest in guests:
        device = f'"{guest.host_device}"'
        block6, block4 = guest.blocks
        elements = {"inet netclaim src6": block6, "inet netclaim src4": block4, "arp netclaim src4": block4}
        lines += [f"add element {where} {{ {device} . {block} }}" for where, block in elements.items()]
        lines += [] if VRF else [f"add element inet netclaim marks {{ {device} : {0x6E000000 + guest.vpc[1]:#x} }}"]
    return "\n".join(lines)


class _Talk:
    """Numbered packets from one guest to another in both families, each after one that it must not send."""

    def __init__(self, source: Guest, target: Guest, sending: Sniffer, receiving: Sniffer) -> None:
        self._ends = source, target
        self._sending, self._receiving = sending, receiving
        self._own, self._forged = token(), token()
        self._number = 0
        self._stopped = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        source, target = self._ends
        nobody = {4: "10.128.0.251", 6: "2001:db8::1"}
        while not self._stopped.is_set():
            for family in FAMILIES:
                there = target.address(family)
                self._sending.send(frame(source, nobody[family], there, self._forged))
                self._sending.send(frame(source, source.address(family), there, self._mark(family, self._number)))
            self._number += 1
            self._receiving.read()
            await asyncio.sleep(0.002)

    def _mark(self, family: int, number: int) -> bytes:
        return b"%d-%06d-%s" % (family, number, self._own)

    async def more(self) -> None:
        """Wait until it has said some more."""
        wanted = self._number + 20
        await until(lambda: self._number >= wanted, timeout=SOON, what="more packets")

    async def end(self) -> None:
        """Every packet has arrived, and none that was forged."""
        self._stopped.set()
        await self._task
        for family in FAMILIES:
            await self._receiving.until(self._mark(family, self._number - 1))
        wanted = {self._mark(family, number) for family in FAMILIES for number in range(self._number)}
        arrived = {each[-len(self._mark(4, 0)) :] for each in self._receiving.frames}
        assert wanted - arrived == set()
        assert not self._receiving.saw(self._forged)
        self._sending.close()
        self._receiving.close()


def _put_former_rules(node: Node) -> None:
    """The rules of the first network's pair where they were: behind those of the guests."""
    outer = ("iif", "V05Gomdd23O", "to", "fd5f::/32", "lookup", "main", "protocol", "110")
    ways = [("-6", "1999", "899", outer)]
    for device, table in (("V05Gomdd23I", "100001"), ("V05Gomdd23O", "150001")):
        way = ("iif", device, "lookup", table, "protocol", "110")
        ways += [(family, "2000", "900", way) for family in ("-4", "-6")]
    for family, former, now, rule in ways:
        node.namespace.ip(family, "rule", "add", "pref", former, *rule)
        node.namespace.ip(family, "rule", "del", "pref", now, *rule)


async def test_a_node_of_the_version_before_is_taken_over_without_a_lost_packet_or_a_hole(
    own_stage: Scene, tmp_path: Path
) -> None:
    """R35, T10: the tables are replaced in one transaction, open for the same guests, before any row is looked at; the
    rules stand twice until the sweep takes the former ones away."""
    node, guests = own_stage.one_a.node, [own_stage.one_a, own_stage.one_c, own_stage.two_a]
    former = tmp_path / "former.nft"
    former.write_text(_former(guests))
    ways = ((own_stage.one_a, own_stage.one_b), (own_stage.one_b, own_stage.one_a), (own_stage.one_a, own_stage.one_c))
    talks = [_Talk(source, target, await source.sniffer(), await target.sniffer()) for source, target in ways]

    async def go_on() -> None:
        await asyncio.gather(*(talk.more() for talk in talks))

    await go_on()
    node.namespace.exec("nft", "-f", str(former))
    if not VRF:
        _put_former_rules(node)
    assert any("firewall" in each for each in await node.call("check_node"))
    await node.restart()
    await go_on()
    await node.call("setup_node")
    await go_on()
    assert await node.call("check_node") == []
    for guest in guests:
        await node.call("ensure_vpc", vpc=guest.vpc)
        await node.call("adopt", record=guest.record)
        assert await node.call("check", record=guest.record) == []
    records = [guest.record for guest in guests]
    strays = await node.call("strays", records=records)
    assert [kind for kind, _ in strays] == ([] if VRF else ["rule"] * 5)
    await node.call("remove", strays=strays)
    await go_on()
    for talk in talks:
        await talk.end()
    assert await node.call("strays", records=records) == []
    for guest in guests:
        assert await node.call("check", record=guest.record) == []
    assert (await node.call("drops"))["spoofed"] > 1000, "what was counted before is counted on"
    assert node.traces("marks", "src6") == []
