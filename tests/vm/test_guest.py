"""Hypervisor mode with a real guest: a virtual machine on the tap (R35, isolation 7)."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dev import vm
from dev.vm import Kernel
from tests.net.agent.node import Node
from tests.net.agent.plumbing import Guest
from tests.net.agent.world import World
from tests.vm.conftest import Worlds
from tests.vm.machine import Machine, running
from tests.waiting import until

BOOTS_WITHIN = 240.0
MODULES = ("virtio_pci", "virtio_net")
INIT = """
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
for module in virtio_pci virtio_net; do modprobe $module; done
for word in $(cat /proc/cmdline); do case $word in nc.*) eval "${word#nc.}";; esac; done
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
ip link set lo up
ip link set eth0 mtu $mtu up
ip addr add $own4 dev eth0; ip route add $via4 dev eth0; ip route add default via $via4
ip -6 addr add $own6 dev eth0; ip -6 route add $via6 dev eth0; ip -6 route add default via $via6
echo ADDRESSED > /dev/ttyS1
while :; do
  for peer in $(echo $peers | tr , ' '); do
    ping -c 1 -W 2 $peer > /dev/null && echo "PINGED $peer" > /dev/ttyS1
  done
  sleep 1
done
"""
VM, NEAR, FAR, OTHER = "vm-0-eth0", "near-0-eth0", "far-0-eth0", "other-0-eth0"
PEERS = {NEAR: ("10.128.0.3", "fd20:0:1:3::1"), FAR: ("10.128.0.4", "fd20:0:1:4::1")}
OWN = ("10.128.0.2", "fd20:0:1:2::1")


@dataclass
class Stage:
    """Two nodes: a machine's Pod and ``near`` on the first, ``far`` on the second, ``other`` of another tenant."""

    world: World
    node: Node
    pod: Guest
    guests: dict[str, Guest]
    root: Path
    kernel: Kernel

    def boot(self, result: dict[str, Any], folder: Path, name: str) -> AbstractAsyncContextManager[Machine]:
        """A machine on the tap that a CNI result tells of, with the addresses that it tells of."""
        tap, inside = result["interfaces"]
        own = {6 if ":" in ip["address"] else 4: ip for ip in result["ips"]}
        peers = ",".join(address for pair in PEERS.values() for address in pair)
        words = [f"nc.mtu={inside['mtu']}", f"nc.peers={peers}"]
        words += [f"nc.own{family}={ip['address']} nc.via{family}={ip['gateway']}" for family, ip in own.items()]
        network = f"tap,id=net,ifname={tap['name']},script=no,downscript=no"
        devices = ("-netdev", network, "-device", f"virtio-net-pci,netdev=net,mac={inside['mac']},romfile=")
        argv = vm.command(self.kernel, self.root, memory=256, arguments=devices, append=" ".join(words))
        return running(["ip", "netns", "exec", self.node.namespace, *argv], folder, name)

    async def is_whole(self, machine: Machine) -> None:
        """The machine pings everybody of its network and is pinged, both families, the far one with full size too."""
        for peer in (address for pair in PEERS.values() for address in pair):
            await machine.says(f"PINGED {peer}", timeout=60)
        for guest in (self.guests[NEAR], self.guests[FAR]):
            for address in OWN:
                await until(lambda guest=guest, address=address: guest.pings(address), timeout=30, what=f"{address}")
        assert await self.guests[FAR].pings(OWN[0], size=1460 - 28)
        assert await self.guests[FAR].pings(OWN[1], size=1460 - 48)


@pytest.fixture(scope="module")
async def stage(kernel: Kernel, worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    folder = tmp_path_factory.mktemp("guest")
    root = folder / "root.cpio"
    vm.bare_root(kernel, INIT, MODULES).write(root)
    async with worlds(folder) as world:
        a, b = await world.add_nodes("a", "b")
        await world.attach(VM, 36, 65, 2, mode="Hypervisor")
        await world.attach(NEAR, 36, 72, 3)
        await world.attach(FAR, 36, 73, 4)
        await world.attach(OTHER, 62, 65, 2)
        guests = {name: await world.guest(name) for name in (NEAR, FAR, OTHER)}
        for name, node in ((NEAR, a), (FAR, b), (OTHER, a)):
            await node.cni("ADD", guests[name])
        yield Stage(world, a, await world.guest(VM), guests, root, kernel)
        await world.sound()


async def test_a_machine_addresses_itself_pings_and_is_pinged_and_keeps_its_address_over_restarts(
    stage: Stage, tmp_path: Path
) -> None:
    """R35, R7: the tap outlives the machine: after a power cut it is found again, by a repeated ADD too."""
    result = (await stage.node.cni("ADD", stage.pod)).json
    device = result["interfaces"][0]["name"]
    async with stage.boot(result, tmp_path, "first") as machine:
        await machine.says("ADDRESSED", timeout=BOOTS_WITHIN)
        await stage.is_whole(machine)
        # Another tenant's guest of the same address on the same node has nothing to do with it.
        assert not await stage.guests[OTHER].pings(PEERS[NEAR][0])
        refused = await stage.node.cni("ADD", await stage.world.guest(VM, pod="rival"), check=False)
        assert refused.json["code"] == 11
        assert stage.pod.container in refused.json["msg"]
        async with stage.boot(result, tmp_path, "rival") as rival:
            assert "busy" in (await rival.complaint(timeout=60)).lower()
        assert await stage.guests[FAR].pings(OWN[0])
    before = await stage.node.ip("-o", "link", "show", device)
    again = (await stage.node.cni("ADD", stage.pod)).json
    assert again == result
    assert (await stage.node.ip("-o", "link", "show", device)).split(":")[0] == before.split(":")[0]
    async with stage.boot(again, tmp_path, "second") as machine:
        await machine.says("ADDRESSED", timeout=BOOTS_WITHIN)
        await stage.is_whole(machine)
        await stage.node.cni("CHECK", stage.pod)
        await stage.world.sound()
    await stage.node.cni("DEL", stage.pod)
    assert device not in await stage.node.ip("-o", "link")
    await stage.world.withdrawn(VM)
