"""Identities: what is drawn, how it is written, and the names of devices and objects that follow from it.

A VPC has 48 bits, unique in its cell; an attachment 16 bits, unique in its VPC. Zero and the highest value of each are
reserved. People and device names see base62 (0-9, a-z, A-Z); object names see lower-case hex, because base62 is not a
valid object name. Nobody ever parses an object name to learn an identity.

Pure: draws with the randomness that it is handed.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, IPv6Network
from typing import Final

VPC_BITS: Final = 48
ATTACHMENT_BITS: Final = 16

ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGIT: Final = {character: value for value, character in enumerate(ALPHABET)}
_VPC_DIGITS: Final = 9
_ATTACHMENT_DIGITS: Final = 3

SID_DX4: Final = 0x0004
SID_DX6: Final = 0x0006
SID_DT46: Final = 0x0046
"""Function numbers of a VPC's SIDs on a node: with VRF one End.DT46, without it an End.DX4 and an End.DX6."""

NAME_LIMIT: Final = 253
LABEL_LIMIT: Final = 63
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*")
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_HOST_INTERFACE: Final = re.compile(r"G([0-9a-zA-Z]{9})([0-9a-zA-Z]{3})H")


def to_base62(value: int) -> str:
    """The value in base62, without padding.

    Raises:
        ValueError: the value is negative.
    """
    if value < 0:
        raise ValueError(f"{value} has no base62 form: it is negative")
    digits = ""
    while True:
        value, digit = divmod(value, len(ALPHABET))
        digits = ALPHABET[digit] + digits
        if value == 0:
            return digits


def from_base62(text: str) -> int:
    """The value of a base62 text; leading zeros (the padding of device names) are allowed.

    Raises:
        ValueError: the text is empty or holds a character outside the alphabet.
    """
    if not text:
        raise ValueError("an empty text is not base62")
    value = 0
    for character in text:
        digit = _DIGIT.get(character)
        if digit is None:
            raise ValueError(f"{text!r} is not base62: it holds {character!r}")
        value = value * len(ALPHABET) + digit
    return value


def is_valid(value: int, bits: int) -> bool:
    """Whether the value can be given out: neither 0 nor the highest value of that many bits."""
    return 0 < value < (1 << bits) - 1


def capacity(bits: int) -> int:
    """How many identifiers of that many bits can be given out at once."""
    return (1 << bits) - 2


def draw(bits: int, taken: Sequence[int], randbelow: Callable[[int], int]) -> int | None:
    """One of the free identifiers of that many bits, each as likely as any other; None when all are taken.

    It is taken from the free set, not found by retrying: an almost full space costs what an empty one does.
    `taken` holds valid identifiers, ascending and each once. `randbelow(n)` gives a number in 0..n-1
    (`secrets.randbelow`).
    """
    free = capacity(bits) - len(taken)
    if free <= 0:
        return None
    rank = randbelow(free)
    # Below taken[i] there are taken[i] - 1 - i free values, which never falls with i: so the number of taken values
    # under the one of that rank is found by bisection.
    below = bisect_left(range(len(taken)), rank + 1, key=lambda index: taken[index] - 1 - index)
    return rank + 1 + below


def host_interface(vpc: int, attachment: int) -> str:
    """The host end of an attachment: `G000000010001H`."""
    return f"G{_padded_vpc(vpc)}{_padded_attachment(attachment)}H"


def vrf_interface(vpc: int) -> str:
    """The VPC's routing device, one per VPC and node: `G000000010V`."""
    return f"G{_padded_vpc(vpc)}V"


def pair_inner(vpc: int) -> str:
    """The tenant's end of the VPC's veth pair: `V000000010I`."""
    return f"V{_padded_vpc(vpc)}I"


def pair_outer(vpc: int) -> str:
    """The underlay's end of the VPC's veth pair: `V000000010O`."""
    return f"V{_padded_vpc(vpc)}O"


def parse_host_interface(name: str) -> tuple[int, int] | None:
    """(VPC, attachment) of a host device's name; None when no attachment can have a device of that name."""
    match = _HOST_INTERFACE.fullmatch(name)
    if match is None:
        return None
    vpc, attachment = from_base62(match[1]), from_base62(match[2])
    if not is_valid(vpc, VPC_BITS) or not is_valid(attachment, ATTACHMENT_BITS):
        return None
    return vpc, attachment


def sid(locator: IPv6Network | str, vpc: int, function: int) -> IPv6Address:
    """The SID of a VPC on a node: locator /64, 48 bits of VPC, 16 bits of function.

    Raises:
        ValueError: the locator is not a /64, the VPC cannot be given out, or the function does not fit.
    """
    network = IPv6Network(locator)
    if network.prefixlen != 64:
        raise ValueError(f"locator {network} must be a /64 to hold a VPC and a function")
    _check(vpc, VPC_BITS)
    if not 0 < function < 1 << 16:
        raise ValueError(f"function {function:#x} does not fit 16 bits")
    return network.network_address + ((vpc << 16) | function)


def vpc_identifier_name(vpc: int) -> str:
    """Name of the Identifier object of a VPC: `vpc-3e`."""
    _check(vpc, VPC_BITS)
    return f"vpc-{vpc:x}"


def attachment_identifier_name(vpc: int, attachment: int) -> str:
    """Name of the Identifier object of an attachment: `att-3e-41`."""
    return f"att-{advertisement_name(vpc, attachment)}"


def advertisement_name(vpc: int, attachment: int) -> str:
    """Name of the BGPAdvertisement of an attachment: `3e-41`."""
    _check(vpc, VPC_BITS)
    _check(attachment, ATTACHMENT_BITS)
    return f"{vpc:x}-{attachment:x}"


def digest(*parts: str, digits: int) -> str:
    """That many hex digits of sha256 over the parts joined by NUL: no two lists of parts are the same text."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:digits]


def is_object_name(text: str) -> bool:
    """Whether the API server takes the text as an object's name: an RFC 1123 subdomain of at most 253 characters."""
    return len(text) <= NAME_LIMIT and _SUBDOMAIN.fullmatch(text) is not None


def is_label_name(text: str) -> bool:
    """Whether the text is an RFC 1123 label of at most 63 characters, as a Namespace's or a Service's name must be."""
    return len(text) <= LABEL_LIMIT and _LABEL.fullmatch(text) is not None


def derived_name(*parts: str, label: bool = False) -> str:
    """The parts joined by `-`; cut and given `-` and 12 hex digits when that is no object name (or `label`).

    The digits are of sha256 over the parts joined by NUL (spec: Names).
    """
    plain = "-".join(parts)
    if is_label_name(plain) if label else is_object_name(plain):
        return plain
    return _cut(plain, digest(*parts, digits=12), LABEL_LIMIT if label else NAME_LIMIT)


def suffixed_name(*parts: str, suffix: str) -> str:
    """The parts joined by `-`, cut where needed, always followed by `-` and the suffix (hex digits)."""
    plain = "-".join(parts)
    whole = f"{plain}-{suffix}"
    return whole if is_object_name(whole) else _cut(plain, suffix, NAME_LIMIT)


def label_value(*parts: str) -> str:
    """The parts joined by `-` as a label's value: cut with `-` and 12 hex digits when it is too long or not valid."""
    plain = "-".join(parts)
    if not plain or (len(plain) <= LABEL_LIMIT and _LABEL_VALUE.fullmatch(plain)):
        return plain
    return _cut(plain, digest(*parts, digits=12), LABEL_LIMIT)


def instance_name(workload: str, ordinal: int) -> str:
    """`<workload>-<ordinal>`: the Instance and its Pod."""
    return derived_name(workload, str(ordinal))


def claim_name(workload: str, ordinal: int, template: str) -> str:
    """`<workload>-<ordinal>-<template>`: the claim of a slot."""
    return derived_name(workload, str(ordinal), template)


def context_name(network: str, location: str) -> str:
    """`<network>-<location>`: the NetworkContext and its VPC."""
    return derived_name(network, location)


def subnet_name(context: str, family: str) -> str:
    """`<context>-ipv4` or `<context>-ipv6`."""
    return derived_name(context, family.lower())


def family_claim_name(location: str, namespace: str, claim: str, family: str) -> str:
    """Name of the IPClaim for a claim's address of a family: `<claim>-f-ipv6-<10 hex>`."""
    return _ip_claim_name(location, namespace, claim, f"f-{family.lower()}")


def class_claim_name(location: str, namespace: str, claim: str, class_name: str) -> str:
    """Name of the IPClaim for a claim's external address of a class: `<claim>-c-<class>-<10 hex>`."""
    return _ip_claim_name(location, namespace, claim, f"c-{class_name}")


def network_range_name(location: str, namespace: str, network: str, family: str) -> str:
    """Name of the IPClaim that holds a network's range: `net-<family>-<10 hex>`."""
    return _range_name("net", location, namespace, network, family)


def context_range_name(location: str, namespace: str, context: str, family: str) -> str:
    """Name of the IPClaim that holds a context's subnet: `ctx-<family>-<10 hex>`."""
    return _range_name("ctx", location, namespace, context, family)


def _ip_claim_name(location: str, namespace: str, claim: str, discriminator: str) -> str:
    suffix = digest(location, namespace, claim, discriminator, digits=10)
    return suffixed_name(claim, discriminator, suffix=suffix)


def _range_name(kind: str, location: str, namespace: str, owner: str, family: str) -> str:
    discriminator = f"{kind}-{family.lower()}"
    return f"{discriminator}-{digest(location, namespace, owner, discriminator, digits=10)}"


def _cut(plain: str, suffix: str, limit: int) -> str:
    foreign = r"[^a-z0-9-]" if limit == LABEL_LIMIT else r"[^a-z0-9.-]"
    cut = re.sub(foreign, "-", plain.lower())[: limit - len(suffix) - 1]
    # Every label between dots begins and ends with a letter or digit.
    cut = re.sub(r"[.-]*\.[.-]*", ".", cut).strip(".-")
    return f"{cut}-{suffix}" if cut else suffix


def _padded_vpc(vpc: int) -> str:
    _check(vpc, VPC_BITS)
    return to_base62(vpc).rjust(_VPC_DIGITS, "0")


def _padded_attachment(attachment: int) -> str:
    _check(attachment, ATTACHMENT_BITS)
    return to_base62(attachment).rjust(_ATTACHMENT_DIGITS, "0")


def _check(value: int, bits: int) -> None:
    if not is_valid(value, bits):
        raise ValueError(f"{value} is not an identifier of {bits} bits: 0 and the highest value are reserved")
