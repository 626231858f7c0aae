"""Names of what the controllers create: functions of identity, so that whoever asks gets the same one.

An IPAllocation's name is a function of (pool, address space, block): that is what makes a block unique. Nobody ever
parses a name; identity travels in fields.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from nso.ipam.blocks import Block

MAX_POOL_NAME: Final = 253 - len("-s0123456789") - len("-") - 32
"""Longest pool name that still leaves room for space and block in an allocation's name."""

_SPACE_SUFFIX: Final = re.compile(r"-s[0-9a-f]{10}\Z")
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9-]+")


@dataclass(frozen=True, slots=True, order=True)
class ScopeValue:
    """What fills a scope role: an object named by kind, namespace and name, compared by value, whatever its cell."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """`Network shop/default`, `Location us-central-1`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


Scope = Mapping[str, ScopeValue]
"""Scope roles (`network`, `location`) and what fills them."""


def digest(parts: Iterable[str], length: int) -> str:
    """`length` hexadecimal digits of sha256 over the parts, joined by NUL."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:length]


def _scope_parts(roles: Sequence[str], scope: Scope) -> list[str]:
    parts = []
    for role in roles:
        value = scope[role]
        parts += [role, value.kind, value.namespace, value.name]
    return parts


def missing_roles(roles: Sequence[str], scope: Scope) -> tuple[str, ...]:
    """Roles that `scope` does not fill, in order."""
    return tuple(role for role in roles if role not in scope)


def space_name(roles: Sequence[str], scope: Scope) -> str:
    """The address space for these roles: empty for no roles (one space), else 10 hexadecimal digits.

    Raises:
        KeyError: a role is not filled (`missing_roles` tells which).
    """
    return digest(_scope_parts(roles, scope), 10) if roles else ""


def pool_name(class_name: str, roles: Sequence[str], scope: Scope) -> str:
    """The pool that a class has for a scope: `<class>-<names in the scope>-<10 hexadecimal digits of all of it>`.

    Raises:
        KeyError: a role is not filled.
    """
    readable = "-".join([class_name, *(scope[role].name for role in roles)]).lower()
    readable = _NOT_IN_NAMES.sub("-", readable).strip("-")[: MAX_POOL_NAME - 11].rstrip("-")
    return f"{readable}-{digest([class_name, *_scope_parts(roles, scope)], 10)}"


def allocation_name(pool: str, space: str, block: Block) -> str:
    """The name of the one IPAllocation that a block can have: `<pool>[-s<space>]-<first address in hexadecimal>`.

    The length of the block needs no place in it, since a pool hands out blocks of one length. The space is left out
    when it is the only one, unless the pool's own name could be read as one with a space in it.
    """
    if len(pool) > MAX_POOL_NAME:
        pool = f"{pool[: MAX_POOL_NAME - 13].rstrip('-.')}-{digest([pool], 12)}"
    if space or _SPACE_SUFFIX.search(pool):
        pool = f"{pool}-s{space or digest([''], 10)}"
    return f"{pool}-{block.hex}"
