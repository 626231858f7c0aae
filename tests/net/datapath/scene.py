"""The scene of most tests: two VPCs with the same addresses on the same two nodes."""

import asyncio
import errno
import secrets
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.net.datapath import frames
from tests.net.datapath.backend import SOON
from tests.net.datapath.lab import Guest, Lab, Sniffer, Vpc, lab

ONE: Vpc = (20015998341291, 1)
TWO: Vpc = (36, 2)
FAMILIES = (4, 6)


@dataclass
class Scene:
    """``one_a``, ``one_c`` on A and ``one_b`` on B are of the first VPC; ``two_a`` and ``two_b`` of the second.

    Guests of the same letter but c have the same addresses.
    """

    lab: Lab
    one_a: Guest
    one_b: Guest
    one_c: Guest
    two_a: Guest
    two_b: Guest

    @property
    def guests(self) -> tuple[Guest, ...]:
        return self.one_a, self.one_b, self.one_c, self.two_a, self.two_b


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    """Everything attached and announced; every check passes."""
    async with lab() as made:
        await made.two_nodes()
        found = Scene(
            lab=made,
            one_a=made.guest("A", ONE, 65, 2, name="one-a"),
            one_b=made.guest("B", ONE, 36, 4, name="one-b"),
            one_c=made.guest("A", ONE, 66, 3, name="one-c"),
            two_a=made.guest("A", TWO, 65, 2, name="two-a"),
            two_b=made.guest("B", TWO, 36, 4, name="two-b"),
        )
        for guest in found.guests:
            await made.attach(guest)
        await made.announce(*found.guests)
        yield found


def token() -> bytes:
    """Something that no other packet carries."""
    return secrets.token_hex(8).encode()


async def answered(client: Guest, server: Guest, family: int, *, size: int = 16) -> bool:
    """One UDP packet there and one back, of this payload size; no retry: the first packet counts."""
    loop = asyncio.get_running_loop()
    listening, asking = await server.udp(family, 4002), await client.udp(family, 4003)
    try:
        content = token().ljust(size, b"x")
        asking.sendto(content, (server.address(family), 4002))
        try:
            got, origin = await asyncio.wait_for(loop.sock_recvfrom(listening, 65535), SOON / 5)
            listening.sendto(got, origin)
            return await asyncio.wait_for(loop.sock_recv(asking, 65535), SOON / 5) == content
        except TimeoutError:
            return False
    finally:
        listening.close()
        asking.close()


async def error_of(
    guest: Guest, family: int, destination: str, *, size: int = 16, ttl: int = 64
) -> tuple[str, int, int]:
    """Send a packet that cannot arrive; the ICMP error that comes back: from whom, which errno, and its MTU."""
    asking = await guest.udp(family, 4004)
    try:
        if family == 4:
            asking.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, ttl)
        else:
            asking.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, ttl)
        asking.sendto(b"x" * size, (destination, 4001))
        return await _error(asking, family)
    finally:
        asking.close()


async def _error(asking: socket.socket, family: int) -> tuple[str, int, int]:
    deadline = asyncio.get_running_loop().time() + SOON
    while asyncio.get_running_loop().time() < deadline:
        try:
            _, ancillary, _, _ = asking.recvmsg(2048, 512, socket.MSG_ERRQUEUE)
        except BlockingIOError:
            await asyncio.sleep(0.01)
            continue
        content = ancillary[0][2]
        code, origin, _, _, _, information, _ = struct.unpack_from("IBBBBII", content)
        if origin in (2, 3):  # ICMP, ICMPv6
            offender = content[16 + 4 : 16 + 8] if family == 4 else content[16 + 8 : 16 + 24]
            return socket.inet_ntop(socket.AF_INET if family == 4 else socket.AF_INET6, offender), code, information
    raise AssertionError("no ICMP error came back")


async def arrives_nowhere(attack: bytes, *, by: Guest, control: bytes, control_by: Guest, at: list[Sniffer]) -> None:
    """Send an attack and, after it, a packet that may pass: where that one is seen, the attack would have been too.

    Both end with a token of 16 bytes.
    """
    sender = await by.sniffer()
    sender.send(attack)
    sender.close()
    await arrives_alone(control, of=control_by, without=attack, at=at)


async def arrives_alone(control: bytes, *, of: Guest, without: bytes, at: list[Sniffer]) -> None:
    """A packet that may pass arrives, and an attack that was sent before it did not."""
    sender = await of.sniffer()
    sender.send(control)
    sender.close()
    for watcher in at:
        await watcher.until(control[-16:])
        assert not watcher.saw(without[-16:]), f"the attack {without[-16:]!r} arrived"


def frame(guest: Guest, source: str, destination: str, content: bytes, *, ttl: int = 64) -> bytes:
    """A UDP frame from a guest's own MAC."""
    packet = frames.packet(source, destination, content, ttl=ttl)
    return frames.ethernet(packet, frames.kind_of(packet), source=guest.attachment["guestMAC"])


UNREACHABLE = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EACCES})
