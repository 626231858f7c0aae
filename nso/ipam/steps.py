"""What a plan consists of: plain writes, and two steps whose outcome is known only at the API server."""

from __future__ import annotations

from dataclasses import dataclass, field

from netclaim.api import ipam, managers, resources
from netclaim.api.meta import Raw
from netclaim.kube.writes import Create, Delete, Replace, Write
from nso.ipam.blocks import Block
from nso.ipam.cascade import Offer, PoolOrder, label
from nso.ipam.index import Purpose, Strategy
from nso.ipam.names import allocation_name
from nso.ipam.views import AllocationView, Holder, PoolView
from nso.ipam.waiting import Wait


@dataclass(frozen=True, slots=True)
class Allocate:
    """Create an IPAllocation for `holder` in the first of `offers` that has a block left; `exact` for that one only.

    `again`: the holder publishes `exact` already, and its allocation is gone. It is made once more whatever the index
    says, and also in a pool that is going: the pool waits for this holder too.
    """

    holder: Holder
    purpose: Purpose
    offers: tuple[Offer, ...]
    strategy: Strategy
    exact: Block | None = None
    again: bool = False

    def to_raw(self, offer: Offer, block: Block) -> Raw:
        """The IPAllocation for one block. Its name makes the block this holder's, or nobody's."""
        pool = offer.pool.id
        return {
            "metadata": {
                "name": allocation_name(pool.name, offer.space, block),
                "namespace": pool.namespace,
                "labels": {ipam.POOL_LABEL: label(pool.name)},
            },
            "spec": {
                "poolRef": {"name": pool.name},
                "cidr": str(block),
                "space": offer.space,
                "purpose": str(self.purpose),
                "claimRef": {"namespace": self.holder.namespace, "name": self.holder.name, "uid": self.holder.uid},
            },
        }

    def __str__(self) -> str:
        pools = ", ".join(str(offer.pool.id) for offer in self.offers)
        return f"allocate {self.exact or 'a block'} for {self.holder.namespace}/{self.holder.name} in {pools}"


@dataclass(frozen=True, slots=True)
class HoldPool:
    """Write the claim's uid on the pool: a removal that has not seen it fails, and a later one waits for the claim.

    Ends when the pool goes.
    """

    pool: PoolView
    claim_uid: str

    def __str__(self) -> str:
        return f"hold IPPool {self.pool.id} for claim uid {self.claim_uid}"


Step = Write | Allocate | HoldPool


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order; what to wait for when they do not finish the job; seconds after which to look again."""

    steps: tuple[Step, ...] = ()
    waits: frozenset[Wait] = field(default_factory=frozenset)
    again: float | None = None

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)


def make_pool(order: PoolOrder) -> Create:
    """Create a pool of the cascade; one that is there already is fine."""
    return Create(resources.IP_POOLS, order.to_raw(), guarded=True, ok_if_exists=True, manager=managers.IPAM)


def free(allocation: AllocationView, release_at: str | None = None) -> Write:
    """Delete an allocation, this very object only; or let its block cool until `release_at` (RFC 3339)."""
    if release_at is None:
        return Delete(resources.IP_ALLOCATIONS, allocation.key, allocation.id.uid, guarded=True)
    spec = {name: value for name, value in allocation.raw["spec"].items() if name != "claimRef"}
    cooling = {**allocation.raw, "spec": {**spec, "purpose": str(Purpose.COOLING), "releaseAt": release_at}}
    return Replace(resources.IP_ALLOCATIONS, cooling, guarded=True)
