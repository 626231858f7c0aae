"""The cascade: which pool a block comes from, which pools must be made for that first, and what a pool hands out. Pure.

Root pool -> one pool per scope tuple of a class -> one pool per longer tuple of its child class -> block. Pools appear
on first use, under names that are functions of class and scope: a herd of first claims makes one of each level.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from netclaim.api import ipam
from netclaim.api.conditions import message_of, reason_of, status_of
from netclaim.api.meta import Key, Raw
from nso.ipam import classes, reasons
from nso.ipam.blocks import Block
from nso.ipam.catalogue import Catalogue
from nso.ipam.index import Kind, Shape
from nso.ipam.names import Scope, missing_roles, pool_name, space_name
from nso.ipam.reasons import Refusal
from nso.ipam.views import ClassView, PoolView, write_scope
from nso.ipam.waiting import Wait, for_pool, for_space

LABEL_LENGTH = 63


@dataclass(frozen=True, slots=True)
class Offer:
    """A usable pool, the shape of what it hands out, and the address space that a claim falls into there."""

    pool: PoolView
    shape: Shape
    space: str

    def is_open(self, live: PoolView) -> bool:
        """Whether the pool, read after a block was taken, still is the one that offered it."""
        return live.id.uid == self.pool.id.uid and live.kind == self.shape.kind and not live.going


@dataclass(frozen=True, slots=True)
class PoolOrder:
    """A pool that a class needs for a scope and that is not there yet."""

    key: Key
    parent: Key
    cls: ClassView
    scope: Scope
    class_names: tuple[str, ...]

    def to_raw(self) -> Raw:
        """The IPPool to create: without a CIDR, which its carve brings, and with its finalizer."""
        spec: dict[str, Any] = {
            "parentRef": {"name": self.parent[1]},
            "prefixLength": self.cls.length,
            "classNames": list(self.class_names),
            "madeFor": {"className": self.cls.name, "scope": write_scope(self.scope)},
        }
        if self.parent[0] != self.key[0]:
            spec["parentRef"]["namespace"] = self.parent[0]
        leading, trailing = self.cls.reserved
        if leading or trailing:
            spec["reservations"] = {"leading": leading, "trailing": trailing}
        return {
            "metadata": {
                "name": self.key[1],
                "namespace": self.key[0],
                "labels": {ipam.CLASS_LABEL: label(self.cls.name)},
                "finalizers": [ipam.POOL_FINALIZER],
            },
            "spec": spec,
        }

    def __str__(self) -> str:
        return f"pool {self.key[0]}/{self.key[1]} in {self.parent[0]}/{self.parent[1]}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where blocks of a class are for a scope: `offers` in the order of trying; or pools to make first; or why not."""

    offers: tuple[Offer, ...] = ()
    orders: tuple[PoolOrder, ...] = ()
    refusal: Refusal | None = None
    waits: frozenset[Wait] = frozenset()


@dataclass(frozen=True, slots=True)
class Held:
    """The pool that a class has for a scope; or the pools to make, uppermost first; or why there is none yet."""

    pool: PoolView | None = None
    orders: tuple[PoolOrder, ...] = ()
    refusal: Refusal | None = None
    waits: frozenset[Wait] = frozenset()


def label(text: str) -> str:
    """A name as a label's value: cut to its length."""
    return text[:LABEL_LENGTH].rstrip("-.")


def served(pool: PoolView, catalogue: Catalogue) -> tuple[ClassView, ...]:
    """Classes whose claims get their blocks from this pool: those named, and the child classes of the one it is of."""
    named = [catalogue.class_named(pool.id.namespace, name) for name in pool.class_names]
    found = {cls.name: cls for cls in named if cls is not None}
    if pool.made_for:
        made_for = pool.made_for[0]
        found |= {cls.name: cls for cls in catalogue.classes(pool.id.namespace) if cls.parent == made_for}
    return tuple(cls for _, cls in sorted(found.items()) if classes.judge(cls, catalogue) is None)


def shape_of(pool: PoolView, catalogue: Catalogue) -> Shape | Refusal:
    """What the pool hands out; a refusal when its classes do not agree, or it has none, or no addresses yet."""
    cidr = pool.cidr or pool.wanted
    if cidr is None:
        return reasons.waiting_for_pool(pool.key, "its block is not carved yet")
    serving = served(pool, catalogue)
    if not serving:
        return Refusal(
            ipam.REASON_CLASS_NOT_FOUND, f"IPPool {pool.id} serves no class that exists and is accepted: create one"
        )
    kinds = {(cls.length, cls.unique_within) for cls in serving}
    if len(kinds) > 1 or any(cls.family != cidr.family or cls.length < cidr.length for cls in serving):
        return Refusal(
            ipam.REASON_MIXED_BLOCKS,
            f"IPPool {pool.id} ({cidr}) hands out blocks of one length and one uniqueWithin, but its classes are "
            + ", ".join(f"{cls.name} ({cls.family} /{cls.length}, {list(cls.unique_within)})" for cls in serving),
        )
    kind = Kind(serving[0].length, separating(pool, serving[0].unique_within))
    if pool.kind not in {None, kind}:
        return reasons.other_blocks(pool.key, str(pool.kind), str(kind))
    return _shape(pool, cidr, kind)


def _shape(pool: PoolView, cidr: Block, kind: Kind) -> Shape:
    length = kind.length
    start, end = cidr.numbers(length)
    leading, trailing = pool.reserved
    withheld = [(start, min(start + leading, end)), (max(end - trailing, start), end)]
    withheld += [excluded.numbers(length) for excluded in pool.excluded if excluded.overlaps(cidr)]
    parts = sorted((max(first, start), min(last, end)) for first, last in withheld if first < last)
    return Shape(cidr, length, tuple(parts), kind.unique_within)


def is_judged(pool: PoolView) -> bool:
    """Whether its own reconcile has said what the pool is good for: nothing is given out of it before."""
    return pool.kind is not None if pool.ready else status_of(pool.raw, ipam.READY) is not None


def separating(pool: PoolView, unique_within: Iterable[str]) -> tuple[str, ...]:
    """The roles that separate address spaces inside a pool: those that it is itself made for do not."""
    fixed = pool.made_for[1] if pool.made_for else {}
    return tuple(role for role in unique_within if role not in fixed)


def space_in(pool: PoolView, unique_within: Iterable[str], scope: Scope) -> str:
    """The address space of a scope inside a pool.

    Raises:
        KeyError: the scope does not fill a role.
    """
    return space_name(separating(pool, unique_within), scope)


def cooldown_of(pool: Key, catalogue: Catalogue) -> float:
    """Seconds for which a block of the pool rests when nobody can tell any more by which class it was given."""
    found = catalogue.pool(pool)
    return max((cls.cooldown for cls in served(found, catalogue)), default=0.0) if found else 0.0


def standing_space(pool: PoolView, scope: Scope, catalogue: Catalogue) -> str | None:
    """The address space of what a pool gave out before; None when that cannot be told."""
    standing = _standing(pool, scope, catalogue)
    return standing[1] if standing else None


def standing_offer(pool: PoolView, block: Block, scope: Scope, catalogue: Catalogue) -> Offer | None:
    """The pool for a block that it gave out before, whatever became of its classes; None when it cannot be told."""
    standing = _standing(pool, scope, catalogue)
    if standing is None or pool.cidr is None or not pool.cidr.contains(block):
        return None
    roles, space = standing
    return Offer(pool, _shape(pool, pool.cidr, Kind(block.length, roles)), space)


def _standing(pool: PoolView, scope: Scope, catalogue: Catalogue) -> tuple[tuple[str, ...], str] | None:
    """The roles that separate the spaces of what a pool gave out before, and the space of `scope` among them.

    Never those of the class that a claim of its blocks names, or has by default: that one can be another by now.
    """
    if pool.kind is not None:
        roles = pool.kind.unique_within
    elif serving := served(pool, catalogue):
        roles = separating(pool, serving[0].unique_within)
    else:
        return None
    return None if missing_roles(roles, scope) else (roles, space_name(roles, scope))


def locate(cls: ClassView, scope: Scope, namespace: str, catalogue: Catalogue) -> Place:
    """Where blocks of `cls` come from. The scope fills all roles (`classes.scope_refusal`)."""
    offers: list[Offer] = []
    excuses: list[str] = []
    unjudged: PoolView | None = None
    for pool in sorted(catalogue.offered_pools(namespace), key=lambda pool: pool.id):
        if cls.name not in pool.class_names:
            continue
        if not pool.going and not is_judged(pool):
            unjudged = unjudged or pool
            continue
        shape = shape_of(pool, catalogue)
        if pool.going:
            excuses.append(f"{pool.id.name} is being removed")
        elif isinstance(shape, Refusal):
            excuses.append(shape.message)
        elif not pool.ready or pool.cidr is None:
            excuses.append(message_of(pool.raw, ipam.READY) or f"{pool.id.name} is not Ready")
        else:
            offers.append(Offer(pool, shape, space_in(pool, cls.unique_within, scope)))
    above = catalogue.class_named(namespace, cls.parent) if cls.parent else None
    if unjudged and not offers and above is None:
        waiting = reasons.waiting_for_pool(unjudged.key, "it was not looked at yet")
        return Place(refusal=waiting, waits=frozenset({for_pool(unjudged.key)}))
    if offers or above is None:
        refusal = None if offers else reasons.no_offering_pool(cls.name, namespace, excuses)
        return Place(offers=tuple(offers), refusal=refusal)
    held = hold(above, scope, namespace, catalogue)
    if held.pool is None:
        return Place(orders=held.orders, refusal=held.refusal, waits=held.waits)
    shape = shape_of(held.pool, catalogue)
    if isinstance(shape, Refusal):
        return Place(refusal=shape)
    if not is_judged(held.pool):
        waiting = reasons.waiting_for_pool(held.pool.key, "it was not looked at yet")
        return Place(refusal=waiting, waits=frozenset({for_pool(held.pool.key)}))
    return Place(offers=(Offer(held.pool, shape, space_in(held.pool, cls.unique_within, scope)),))


def hold(cls: ClassView, scope: Scope, namespace: str, catalogue: Catalogue) -> Held:
    """The pool of `cls` for this scope; orders for it and what is missing above it when it does not exist."""
    own_scope = {role: scope[role] for role in cls.pool_per}
    key = (namespace, pool_name(cls.name, cls.pool_per, scope))
    pool = catalogue.pool(key)
    if pool is None:
        return _order(cls, own_scope, scope, key, catalogue)
    if pool.made_for != (cls.name, own_scope):
        return Held(refusal=reasons.name_conflict(key), waits=frozenset({for_pool(key)}))
    waits = frozenset({for_pool(key)})
    if pool.going:
        return Held(refusal=reasons.waiting_for_pool(key, "it is being removed"), waits=waits)
    if not pool.ready or pool.cidr is None:
        if status_of(pool.raw, ipam.READY) == "False":
            return Held(refusal=Refusal(reason_of(pool.raw, ipam.READY), message_of(pool.raw, ipam.READY)), waits=waits)
        return Held(refusal=reasons.waiting_for_pool(key, "its block is not carved yet"), waits=waits)
    return Held(pool=pool)


def _order(cls: ClassView, own_scope: Scope, scope: Scope, key: Key, catalogue: Catalogue) -> Held:
    namespace = key[0]
    place = locate(cls, scope, namespace, catalogue)
    if place.refusal:
        shared = _shared_offers(cls, scope, namespace, catalogue)
        if not shared:
            return Held(refusal=place.refusal, waits=place.waits)
        place = Place(offers=shared)
    below = tuple(sorted(child.name for child in catalogue.classes(namespace) if child.parent == cls.name))
    if place.orders:
        return Held(orders=(*place.orders, PoolOrder(key, place.orders[-1].key, cls, own_scope, below)))
    for offer in place.offers:
        room = catalogue.room(offer.pool, offer.shape, offer.space)
        if room.free > 0 or room.cooling:
            return Held(orders=(PoolOrder(key, offer.pool.key, cls, own_scope, below),))
    first = place.offers[0]
    room = catalogue.room(first.pool, first.shape, first.space)
    return Held(
        refusal=reasons.exhausted(first.pool.key, cls.name, cls.family, room.used, room.total),
        waits=frozenset(for_space(offer.pool.key, offer.space) for offer in place.offers),
    )


def _shared_offers(cls: ClassView, scope: Scope, namespace: str, catalogue: Catalogue) -> tuple[Offer, ...]:
    """Pools of other projects that may be carved for this class: shared with this project, and of its block length."""
    offers = []
    for pool in sorted(catalogue.shared_pools(namespace), key=lambda pool: pool.id):
        if cls.name not in pool.class_names or pool.going or not pool.ready:
            continue
        shape = shape_of(pool, catalogue)
        if isinstance(shape, Refusal) or (shape.length, shape.cidr.family) != (cls.length, cls.family):
            continue
        if is_judged(pool) and not missing_roles(shape.unique_within, scope):
            offers.append(Offer(pool, shape, space_in(pool, shape.unique_within, scope)))
    return tuple(offers)
