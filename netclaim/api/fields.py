"""Types of fields that several kinds share: addresses, blocks and names, with the rules that the API server checks."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from netclaim.api.schema import Rule

IS_CIDR: Final = Rule("isCIDR(self)", "write an address block such as 10.0.0.0/24 or fd00:1::/64")
IS_ADDRESS: Final = Rule("isIP(self)", "write one bare address such as 10.0.0.1 or fd00:1::1")

Cidr = Annotated[str, IS_CIDR, Field(min_length=1, max_length=49)]
"""An address block, or an address with the length of its block."""

BareAddress = Annotated[str, IS_ADDRESS, Field(min_length=1, max_length=45)]
"""One address without a length."""

CanonicalCidr = Annotated[
    str,
    Rule(
        "isCIDR(self) && cidr(self) == cidr(self).masked()",
        "write an address block without host bits such as 10.0.0.0/24 or fd00:1::/64",
    ),
    Field(min_length=1, max_length=49),
]
"""An address block as it is written once and for all: no host bits."""

AddressOrCidr = Annotated[
    str,
    Rule("isIP(self) || isCIDR(self)", "write an address such as 198.51.100.7 or a block such as 2001:db8::/96"),
    Field(min_length=1, max_length=49),
]
ClassName = Annotated[str, Field(min_length=1, max_length=63)]
ObjectName = Annotated[
    str,
    Rule(
        "!format.dns1123Subdomain().validate(self).hasValue()",
        "write a name of lower-case letters, digits, '-' and '.', that begins and ends with a letter or digit",
    ),
    Field(min_length=1, max_length=253),
]
LocationName = Annotated[str, Field(min_length=1, max_length=63)]

InterfaceName = Annotated[
    str,
    Rule(
        # The kernel refuses '/', ':' and spaces and expands '%'; ',' and '@' separate entries of the Pod annotation.
        "self.matches('^[!-$&-+.0-9;-?A-~-]{1,15}$') && !(self in ['.', '..', 'lo'])",
        "write an interface name of 1 to 15 printable ASCII characters without '/', ':', '%', ',', '@' or spaces, "
        "other than '.', '..' and 'lo'",
    ),
    Field(min_length=1, max_length=15),
]
