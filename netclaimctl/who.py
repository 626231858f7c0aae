"""Who holds an address: every allocation that has it, in every project and address space. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from netclaim.api.meta import Key, Raw
from netclaim.kube.objects import key_of
from netclaimctl.objects import CellObjects, IpamObjects, by_key, minted_for, owner_ref, published, status
from nso.ipam.blocks import Block
from nso.ipam.cascade import shape_of
from nso.ipam.index import Purpose, Shape
from nso.ipam.names import space_name
from nso.ipam.snapshot import Snapshot
from nso.ipam.views import AllocationView, PoolView

FREE: Final = "free"
RESERVED: Final = "reserved"


@dataclass(frozen=True, slots=True)
class Holding:
    """A block that has the address. `held_by`: the IPClaim or child pool; `owner`: whom that is for, as far as known.

    `purpose` is an allocation's, or `free` or `reserved` for a block of a pool that nobody holds.
    """

    project: str
    block: str
    purpose: str
    pool: str
    held_by: str = "-"
    owner: str = "-"

    @property
    def is_held(self) -> bool:
        """Whether somebody has the address, or it is kept from everybody."""
        return self.purpose not in {FREE, str(Purpose.CARVE)}


def read_address(text: str) -> Block:
    """The address that is asked for, as a block; host bits of a CIDR are left out.

    Raises:
        ValueError: not an address or CIDR.
    """
    return Block.parse(str(ipaddress.ip_interface(text.strip()).network))


def holdings(wanted: Block, seen: IpamObjects, cells: Iterable[CellObjects] = ()) -> list[Holding]:
    """What has `wanted`: by project, from the root pool's carve down to the holder of the address itself."""
    snapshot = Snapshot(classes=seen.classes, pools=seen.pools, claims=seen.claims, allocations=seen.allocations)
    views = sorted(
        (view for view in snapshot.allocation_views.values() if view.block.overlaps(wanted)),
        key=lambda view: (view.id.namespace, view.block.length, view.id),
    )
    claims, users = by_key(seen.claims), _users(cells)
    found = [_holding(view, claims, users) for view in views]
    found += [_vacancy(pool, wanted, snapshot) for pool in _without_holder(wanted, views, snapshot)]
    return sorted(found, key=lambda holding: (holding.project, int(holding.block.rpartition("/")[2]), holding.pool))


def _holding(view: AllocationView, claims: dict[Key, Raw], users: dict[tuple[str, str], str]) -> Holding:
    held_by = owner = "-"
    if view.holder is not None:
        kind = "IPPool" if view.purpose is Purpose.CARVE else "IPClaim"
        held_by = f"{kind} {view.holder.name}"
        claim = claims.get(view.holder.key)
        if claim is not None and view.purpose is Purpose.CLAIM:
            owner = _owner(claim, users)
        elif view.purpose is Purpose.CLAIM:
            held_by += " (gone)"
    return Holding(view.id.namespace, str(view.block), str(view.purpose), view.pool[1], held_by, owner)


def _owner(ip_claim: Raw, users: dict[tuple[str, str], str]) -> str:
    ref = owner_ref(ip_claim)
    if not ref:
        return "nobody (no ownerRef)"
    told = f"{ref.get('kind')} {ref.get('namespace')}/{ref['name']}"
    user = users.get((ref["uid"], status(ip_claim).get("cidr") or ""))
    return f"{told}, {user}" if user else told


def _users(cells: Iterable[CellObjects]) -> dict[tuple[str, str], str]:
    """By the uid that an address was minted for, and its block: the interface, and the Pod and node that use it."""
    found: dict[tuple[str, str], str] = {}
    for cell in cells:
        attachments = by_key(cell.attachments)
        for interface in cell.interfaces:
            namespace, name = key_of(interface)
            reference = (status(interface).get("attachmentRef") or {}).get("name", "")
            facts = status(attachments.get((namespace, reference), {"status": {}}))
            user = f"interface {namespace}/{name}"
            if facts.get("node"):
                user += f", Pod {facts.get('podName', '?')} on node {facts['node']}"
            for address in published(interface["spec"]):
                found[minted_for(interface), str(read_address(address))] = user
    return found


def _without_holder(wanted: Block, held: list[AllocationView], snapshot: Snapshot) -> list[PoolView]:
    """The narrowest pools that have the address and in which no allocation has it."""
    with_it = [pool for pool in snapshot.pool_views.values() if pool.cidr is not None and pool.cidr.contains(wanted)]
    inside = {view.pool for view in held}
    parents = {pool.parent for pool in with_it}
    return [pool for pool in with_it if pool.key not in inside and pool.key not in parents]


def _vacancy(pool: PoolView, wanted: Block, snapshot: Snapshot) -> Holding:
    shape = shape_of(pool, snapshot)
    block, purpose = wanted, FREE
    if isinstance(shape, Shape):
        if wanted.length > shape.length:
            numbered = wanted.address >> (wanted.bits - shape.length)
            block = Block.numbered(wanted.family, shape.length, numbered)
        standing = snapshot.standing(pool, shape, space_name((), {}), block) if block.length == shape.length else FREE
        purpose = RESERVED if standing == "reserved" else FREE
    return Holding(pool.id.namespace, str(block), purpose, pool.id.name)
