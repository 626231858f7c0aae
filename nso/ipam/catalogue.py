"""What the planners may ask about a project: classes, pools, and how much room is left. No I/O behind any of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from netclaim.api.meta import Key
from nso.ipam.blocks import Block
from nso.ipam.index import Shape
from nso.ipam.views import AllocationView, ClaimView, ClassView, PoolView
from nso.ipam.waiting import Wait

Standing = Literal["free", "taken", "reserved"]
"""Of one block: what a search would say of it."""


@dataclass(frozen=True, slots=True)
class Room:
    """Blocks of one space of a pool. `free` is what a search would find now, `used` and `total` are for messages."""

    free: int
    cooling: int
    used: int
    total: int


class Catalogue(Protocol):
    """One moment's view of the stores."""

    def class_named(self, namespace: str, name: str) -> ClassView | None:
        """The class, or None."""

    def classes(self, namespace: str) -> Sequence[ClassView]:
        """All classes of a project."""

    def pool(self, key: Key) -> PoolView | None:
        """The pool, or None."""

    def offered_pools(self, namespace: str) -> Sequence[PoolView]:
        """The project's pools that an operator made: those that no cascade did."""

    def children(self, pool: Key) -> Sequence[PoolView]:
        """Pools that are carved from this one."""

    def room(self, pool: PoolView, shape: Shape, space: str) -> Room:
        """What the index says of that space."""

    def standing(self, pool: PoolView, shape: Shape, space: str, block: Block) -> Standing:
        """What the index says of one block inside the pool."""

    def ahead(self, wait: Wait, claim: ClaimView) -> int:
        """How many older claims wait for the same and come first."""

    def allocations_in(self, pool: Key) -> Sequence[AllocationView]:
        """All allocations of a pool, whatever their purpose."""

    def allocations_for(self, uid: str) -> Sequence[AllocationView]:
        """Allocations held by the claim or the pool with that uid, oldest first."""

    def range_claims(self, pool: Key) -> Sequence[ClaimView]:
        """Range claims whose status names this pool."""

    def shared_pools(self, namespace: str) -> Sequence[PoolView]:
        """Pools of other projects that this one may carve from: those whose owner consents."""

    def consents(self, pool: PoolView, namespace: str) -> bool:
        """Whether a project may carve from a pool of another namespace (`sharedWith`)."""


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a Kubernetes label selector selects an object with these labels; an empty one selects everything."""
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    for requirement in selector.get("matchExpressions") or ():
        key, values = requirement["key"], requirement.get("values") or ()
        match requirement["operator"]:
            case "In":
                holds = labels.get(key) in values
            case "NotIn":
                holds = labels.get(key) not in values
            case "Exists":
                holds = key in labels
            case _:
                holds = key not in labels
        if not holds:
            return False
    return True
