"""Blocks of addresses as integers: parsing, numbering, containment.

A block is `length` leading bits of an address. In a pool that hands out blocks of one length every block has a
*number*, its leading bits read as an integer, and neighbours have consecutive numbers. Numbers do not move when a
pool grows, because they count from address zero and not from the start of the pool.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"
BITS: Final = {IPV4: 32, IPV6: 128}


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """`length` leading bits of an IPv4 or IPv6 address; `address` is the first address as an integer."""

    family: str
    address: int
    length: int

    @classmethod
    def parse(cls, text: str) -> Block:
        """Read `10.0.0.0/8`, `fd20::/48`, or a bare address as a block of full length.

        Raises:
            ValueError: not an address or CIDR, or bits are set behind the prefix.
        """
        return cls(*_parse(text))

    @classmethod
    def numbered(cls, family: str, length: int, number: int) -> Block:
        """The block of that length with that number."""
        return cls(family, number << (BITS[family] - length), length)

    @property
    def bits(self) -> int:
        """Bits of an address of this family: 32 or 128."""
        return BITS[self.family]

    @property
    def number(self) -> int:
        """The leading bits as an integer."""
        return self.address >> (self.bits - self.length)

    @property
    def last_address(self) -> int:
        """The last address as an integer."""
        return self.address + (1 << (self.bits - self.length)) - 1

    def numbers(self, length: int) -> tuple[int, int]:
        """Numbers [start, end) of the blocks of `length` that touch this one: rounded outwards."""
        shift = self.bits - length
        return self.address >> shift, (self.last_address >> shift) + 1

    def contains(self, other: Block) -> bool:
        """Whether `other` lies inside this block, or is the same."""
        return (
            self.family == other.family
            and self.length <= other.length
            and self.address <= other.address <= self.last_address
        )

    def overlaps(self, other: Block) -> bool:
        """Whether the two share an address."""
        return self.contains(other) or other.contains(self)

    @property
    def hex(self) -> str:
        """The first address as 8 or 32 hexadecimal digits."""
        return f"{self.address:0{self.bits // 4}x}"

    def address_text(self, offset: int = 0) -> str:
        """The address `offset` addresses after the first, without a prefix length."""
        return str(_ADDRESS[self.family](self.address + offset))

    def __str__(self) -> str:
        """CIDR text in canonical form."""
        return f"{self.address_text()}/{self.length}"


_ADDRESS: Final = {IPV4: ipaddress.IPv4Address, IPV6: ipaddress.IPv6Address}


@lru_cache(maxsize=4096)
def _parse(text: str) -> tuple[str, int, int]:
    """Family, address and length. One allocation is read many times on its way from a request to the index."""
    network = ipaddress.ip_network(text.strip())
    return IPV4 if network.version == 4 else IPV6, int(network.network_address), network.prefixlen
