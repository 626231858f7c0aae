"""Why something is refused: each reason once, next to the message that tells what, for whom, why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from netclaim.api import ipam
from netclaim.api.meta import Key
from nso.ipam.blocks import Block

REASON_CARVED: Final = "Carved"
REASON_OFFERED: Final = "Offered"
REASON_AVAILABLE: Final = "BlocksAvailable"
REASON_ALL_TAKEN: Final = "NoBlockLeft"
REASON_ACCEPTED: Final = "Accepted"
REASON_ONLY_DEFAULT: Final = "OnlyDefault"

WAITING_FOR_POOL: Final = "WaitingForPool"
PARENT_CYCLE: Final = "ParentCycle"
PARENT_TOO_DEEP: Final = "ParentChainTooLong"
PARENT_MAKES_NO_POOLS: Final = "ParentMakesNoPools"
FAMILY_MISMATCH: Final = "FamilyMismatch"
ROLES_NOT_REPEATED: Final = "RolesNotRepeated"
SEVERAL_DEFAULTS: Final = "SeveralDefaults"
PARENT_NOT_READY: Final = "ParentNotReady"
NOT_SHARED: Final = "NotShared"
POOL_OCCUPIED: Final = "PoolOccupied"
NAME_CONFLICT: Final = "NameConflict"
ALLOCATION_LOST: Final = "AllocationLost"
CARVE_LOST: Final = "CarveLost"
MALFORMED: Final = "Malformed"

MAX_DEPTH: Final = 8
"""Classes in one chain of parents."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason and its message. `final`: the object as written can never be served, as far as can be seen now."""

    reason: str
    message: str
    final: bool = False


def _named(key: Key) -> str:
    return f"{key[0]}/{key[1]}"


def other_blocks(pool: Key, given: str, wanted: str) -> Refusal:
    """A class was made anew as another: an address that the pool gave out could be given again in its new blocks."""
    return Refusal(
        ipam.REASON_MIXED_BLOCKS,
        f"IPPool {_named(pool)} gives out {given}, and its classes now say {wanted}: create the classes as they were, "
        "or, when nothing holds a block of it, the pool anew",
    )


def class_not_found(name: str, project: str) -> Refusal:
    """A claim names a class that the project has not."""
    return Refusal(
        ipam.REASON_CLASS_NOT_FOUND,
        f"IPClass {name} does not exist in project {project}: create it, or name another class",
    )


def class_not_accepted(name: str, cause: Refusal) -> Refusal:
    """The class is there but cannot be used."""
    return Refusal(ipam.REASON_CLASS_NOT_FOUND, f"IPClass {name} cannot be used: {cause.message}")


def no_default_class(family: str, project: str, defaults: Sequence[str]) -> Refusal:
    """A claim names a family alone, and not exactly one class of it is the default."""
    if defaults:
        why = f"{len(defaults)} classes say they are ({', '.join(defaults)}), so none is used"
    else:
        why = f"annotate one with {ipam.DEFAULT_CLASS_ANNOTATION}=true"
    return Refusal(ipam.REASON_NO_DEFAULT_CLASS, f"project {project} has no default class for {family}: {why}")


def no_offering_pool(class_name: str, project: str, present: Sequence[str]) -> Refusal:
    """No pool of the project serves the class, or none that does can be used."""
    if present:
        why = f"none of its pools can be used now: {'; '.join(present)}"
    else:
        why = "create an IPPool that lists it in classNames"
    return Refusal(ipam.REASON_NO_OFFERING_POOL, f"project {project} offers no pool for class {class_name}: {why}")


def makes_no_pools(class_name: str) -> Refusal:
    """A Range claim of a leaf class."""
    return Refusal(
        ipam.REASON_NO_OFFERING_POOL,
        f"class {class_name} has no poolPer roles, so there is no range of it to hold: use target Block",
        final=True,
    )


def roles_missing(class_name: str, roles: Sequence[str]) -> Refusal:
    """The scope does not fill every role that the class and its parents need."""
    return Refusal(
        ipam.REASON_SCOPE_ROLES_MISSING,
        f"class {class_name} needs the scope role{'s' if len(roles) > 1 else ''} {', '.join(roles)}: "
        "name what fills them in spec.scope",
        final=True,
    )


def exhausted(pool: Key, class_name: str, family: str, used: int, total: int) -> Refusal:
    """No block is left in the pool's space."""
    return Refusal(
        ipam.REASON_POOL_EXHAUSTED,
        f"IPPool {_named(pool)} has no {family} block left for class {class_name}: {used}/{total} used; "
        "release addresses, grow the pool, or add another",
    )


def address_unavailable(address: str, why: str, *, final: bool) -> Refusal:
    """The very block that was asked for cannot be had."""
    return Refusal(ipam.REASON_ADDRESS_UNAVAILABLE, f"address {address} cannot be given: {why}", final=final)


def prefix_length_rejected(address: str, class_name: str, length: int) -> Refusal:
    """The block that was asked for has another length than the class's blocks."""
    return Refusal(
        ipam.REASON_PREFIX_LENGTH_REJECTED,
        f"address {address} is not a block of class {class_name}, which hands out /{length}: ask for such a block",
        final=True,
    )


def range_occupied(pool: Key, occupants: Sequence[str]) -> Refusal:
    """The last Range claim of a pool goes while something is inside."""
    shown = ", ".join(occupants[:3])
    more = f" and {len(occupants) - 3} more" if len(occupants) > 3 else ""
    return Refusal(
        ipam.REASON_RANGE_OCCUPIED,
        f"the range of IPPool {_named(pool)} is still in use by {shown}{more}: it is released when they are gone",
    )


def waiting_for_pool(pool: Key, why: str) -> Refusal:
    """The pool that the block will come from is not usable yet."""
    return Refusal(WAITING_FOR_POOL, f"IPPool {_named(pool)} is not usable yet: {why}")


def name_conflict(pool: Key) -> Refusal:
    """A pool with the cascade's name belongs to somebody else."""
    return Refusal(
        NAME_CONFLICT, f"IPPool {_named(pool)} has the name that the cascade needs, and is not its own: rename it"
    )


def allocation_lost(block: Block, allocation: Key) -> Refusal:
    """A bound claim's allocation is gone, and its block is somebody else's."""
    return Refusal(
        ALLOCATION_LOST,
        f"the IPAllocation {_named(allocation)} of {block} is not this claim's any more: "
        "delete the claim to get another block",
        final=True,
    )


def carve_lost(pool: Key, block: Block, parent: Key, holder: str) -> Refusal:
    """A pool's block is not carved any more, and cannot be carved again."""
    return Refusal(
        CARVE_LOST,
        f"{block} of IPPool {_named(pool)} is not its own in IPPool {_named(parent)} any more: {holder}; nothing new "
        "is given out here. Replace the claims inside, or free the block for it",
    )
