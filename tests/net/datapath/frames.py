"""Frames built by hand, as a guest that obeys nobody would send them."""

import fcntl
import os
import socket
import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

GATEWAY_MAC = "02:00:00:00:00:01"
ARP, IPV4, IPV6 = 0x0806, 0x0800, 0x86DD
UDP, ICMP6, ROUTING = 17, 58, 43


def mac(text: str) -> bytes:
    """A MAC address as bytes."""
    return bytes.fromhex(text.replace(":", ""))


def checksum(content: bytes) -> int:
    """The internet checksum."""
    padded = content + b"\0" * (len(content) % 2)
    total = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(payload: bytes, kind: int, *, to: str = GATEWAY_MAC, source: str = "02:10:00:00:00:99") -> bytes:
    """An Ethernet frame."""
    return mac(to) + mac(source) + struct.pack("!H", kind) + payload


def packet(source: str, destination: str, token: bytes, *, port: int = 4001, ttl: int = 64) -> bytes:
    """A UDP packet of either family that carries a token."""
    src, dst = ip_address(source), ip_address(destination)
    length = 8 + len(token)
    if isinstance(src, IPv4Address):
        pseudo = src.packed + dst.packed + struct.pack("!BBH", 0, UDP, length)
    else:
        pseudo = src.packed + dst.packed + struct.pack("!II", length, UDP)
    bare = struct.pack("!HHHH", 4000, port, length, 0) + token
    datagram = bare[:6] + struct.pack("!H", checksum(pseudo + bare) or 0xFFFF) + bare[8:]
    if isinstance(src, IPv4Address):
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 1, 0, ttl, UDP, 0) + src.packed + dst.packed
        return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + datagram
    return ipv6(src, dst, UDP, datagram, ttl)


def ipv6(source: IPv6Address, destination: IPv6Address, following: int, payload: bytes, hops: int = 64) -> bytes:
    """An IPv6 packet around any payload."""
    return struct.pack("!IHBB", 6 << 28, len(payload), following, hops) + source.packed + destination.packed + payload


def tunnel(inner: bytes, source: str, segment: str, *, with_header: bool = False) -> bytes:
    """``inner`` sent to a segment, as only a node may: with or without a segment routing header."""
    following = 4 if inner[0] >> 4 == 4 else 41
    if with_header:
        inner = struct.pack("!BBBBBBH", following, 2, 4, 0, 0, 0, 0) + IPv6Address(segment).packed + inner
        following = ROUTING
    return ipv6(IPv6Address(source), IPv6Address(segment), following, inner)


def kind_of(content: bytes) -> int:
    """The EtherType of an IP packet."""
    return IPV4 if content[0] >> 4 == 4 else IPV6


def arp_request(sender: str, target: str, sender_mac: str) -> bytes:
    """Who has ``target``?"""
    body = struct.pack("!HHBBH", 1, IPV4, 6, 4, 1) + mac(sender_mac) + IPv4Address(sender).packed
    return ethernet(body + bytes(6) + IPv4Address(target).packed, ARP, to="ff:ff:ff:ff:ff:ff", source=sender_mac)


def arp_answer(frame: bytes, target: str) -> str | None:
    """The MAC that an ARP answer for ``target`` gives; None: the frame is none."""
    if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\2" and frame[28:32] == IPv4Address(target).packed:
        return frame[22:28].hex(":")
    return None


def neighbour_solicitation(sender: str, target: str, sender_mac: str) -> bytes:
    """Who is ``target``, in IPv6?"""
    wanted, source = IPv6Address(target), IPv6Address(sender)
    group = IPv6Address(int(IPv6Address("ff02::1:ff00:0")) | int(wanted) & 0xFFFFFF)
    bare = struct.pack("!BBHI", 135, 0, 0, 0) + wanted.packed + b"\1\1" + mac(sender_mac)
    pseudo = source.packed + group.packed + struct.pack("!II", len(bare), ICMP6)
    body = bare[:2] + struct.pack("!H", checksum(pseudo + bare)) + bare[4:]
    multicast = "33:33:" + group.packed[12:].hex(":")
    return ethernet(ipv6(source, group, ICMP6, body, 255), IPV6, to=multicast, source=sender_mac)


def neighbour_advertisement(frame: bytes, target: str) -> str | None:
    """The MAC that a neighbour advertisement for ``target`` comes from; None: the frame is none."""
    if frame[12:14] == b"\x86\xdd" and frame[20] == ICMP6 and frame[54] == 136:
        return frame[6:12].hex(":") if frame[62:78] == IPv6Address(target).packed else None
    return None


def packet_socket(device: str) -> socket.socket:
    """A socket for whole frames on a device of the calling thread's namespace."""
    opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    opened.bind((device, 3))
    opened.settimeout(0)
    return opened


def tap(name: str) -> int:
    """A descriptor on a persistent tap of the calling thread's namespace, as a virtual machine holds it."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(descriptor, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x1002))  # TUNSETIFF, TAP without headers
    return descriptor


def udp_socket(address: str, port: int) -> socket.socket:
    """A UDP socket of the calling thread's namespace; errors that come back are kept with who sent them."""
    family = socket.AF_INET if "." in address else socket.AF_INET6
    opened = socket.socket(family, socket.SOCK_DGRAM)
    if family == socket.AF_INET:
        opened.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR
        opened.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER: never fragment
    else:
        opened.setsockopt(socket.IPPROTO_IPV6, 25, 1)  # IPV6_RECVERR
        opened.setsockopt(socket.IPPROTO_IPV6, 23, 2)  # IPV6_MTU_DISCOVER
    opened.bind((address, port))
    opened.settimeout(0)
    return opened
