"""What the planners see of the four kinds: frozen, typed, addresses as integers.

A view is made from a raw object when a reconcile takes it in hand. An object that cannot be read raises `Malformed`,
which its controller turns into a condition; it never stops another object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from netclaim.api import ipam
from netclaim.api.conditions import is_true
from netclaim.api.meta import Key, Raw
from nso.ipam.blocks import Block
from nso.ipam.index import Entry, Kind, Purpose, Strategy
from nso.ipam.names import Scope, ScopeValue
from nso.ipam.waiting import Since

REMOVING: Final = "ipam.datumapis.com/removing"
"""On an IPPool that a cascade made: since when (RFC 3339) its removal is announced, so that nothing new comes in."""

HELD_BY: Final = "ipam.datumapis.com/held-by"
"""On an IPPool: uids of the Range claims that took hold of it last, the newest first, separated by commas."""

HOLDS_KEPT: Final = 16
"""How many: a uid matters only from the hold to the status of its claim, which is the next write."""


class Malformed(ValueError):  # noqa: N818 - what an object is, told in a condition
    """A stored object that cannot be read; the text says which field and why."""


def epoch(text: str) -> float:
    """An RFC 3339 time as seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """Who an object is: `created` is RFC 3339 text, which sorts by time."""

    created: str
    namespace: str
    name: str
    uid: str
    version: str
    generation: int
    going: bool
    finalizers: tuple[str, ...]

    @classmethod
    def of(cls, raw: Raw) -> Identity:
        """Read the metadata."""
        meta = raw["metadata"]
        return cls(
            created=meta.get("creationTimestamp") or "",
            namespace=meta.get("namespace") or "",
            name=meta["name"],
            uid=meta.get("uid") or "",
            version=meta.get("resourceVersion") or "",
            generation=meta.get("generation") or 0,
            going=bool(meta.get("deletionTimestamp")),
            finalizers=tuple(meta.get("finalizers") or ()),
        )

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return (self.namespace, self.name)

    def __str__(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ClassView:
    """An IPClass. `cooldown` in seconds."""

    id: Identity
    family: str
    parent: str | None
    length: int
    pool_per: tuple[str, ...]
    unique_within: tuple[str, ...]
    reserved: tuple[int, int]
    strategy: Strategy
    cooldown: float
    is_default: bool

    @classmethod
    def of(cls, raw: Raw) -> ClassView:
        """Read the object."""
        spec = raw["spec"]
        reservations = spec.get("reservations") or {}
        annotations = raw["metadata"].get("annotations") or {}
        try:
            return cls(
                id=Identity.of(raw),
                family=spec["ipFamily"],
                parent=spec.get("parentClassName") or None,
                length=int(spec["prefixLength"]),
                pool_per=tuple(spec.get("poolPer") or ()),
                unique_within=tuple(spec.get("uniqueWithin") or ()),
                reserved=(int(reservations.get("leading") or 0), int(reservations.get("trailing") or 0)),
                strategy=Strategy(spec.get("strategy") or Strategy.NEXT_FIT),
                cooldown=ipam.duration_seconds(spec.get("cooldown") or "0s"),
                is_default=annotations.get(ipam.DEFAULT_CLASS_ANNOTATION) == "true",
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"IPClass cannot be read: {error}") from error

    @property
    def name(self) -> str:
        """The class's name."""
        return self.id.name


@dataclass(frozen=True, slots=True)
class PoolView:
    """An IPPool. `wanted` is what a root's spec asks for.

    From the status: `cidr` is what it may hand out of, `kind` what it hands out, None while it never offered anything.
    """

    id: Identity
    wanted: Block | None
    parent: Key | None
    length: int | None
    class_names: tuple[str, ...]
    reserved: tuple[int, int]
    excluded: tuple[Block, ...]
    shared_with: Mapping[str, Any] | None
    made_for: tuple[str, Scope] | None
    cidr: Block | None
    kind: Kind | None
    ready: bool
    raw: Raw

    @classmethod
    def of(cls, raw: Raw) -> PoolView:
        """Read the object."""
        spec, status = raw["spec"], raw.get("status") or {}
        reservations = spec.get("reservations") or {}
        parent, made_for, blocks = spec.get("parentRef"), spec.get("madeFor"), status.get("blocks")
        identity = Identity.of(raw)
        try:
            return cls(
                id=identity,
                wanted=Block.parse(spec["cidr"]) if spec.get("cidr") else None,
                parent=(parent.get("namespace") or identity.namespace, parent["name"]) if parent else None,
                length=int(spec["prefixLength"]) if spec.get("prefixLength") is not None else None,
                class_names=tuple(spec.get("classNames") or ()),
                reserved=(int(reservations.get("leading") or 0), int(reservations.get("trailing") or 0)),
                excluded=tuple(Block.parse(text) for text in spec.get("excluded") or ()),
                shared_with=spec.get("sharedWith"),
                made_for=(made_for["className"], read_scope(made_for.get("scope"))) if made_for else None,
                cidr=Block.parse(status["cidr"]) if status.get("cidr") else None,
                kind=Kind(blocks["prefixLength"], tuple(blocks["uniqueWithin"])) if blocks else None,
                ready=is_true(raw, ipam.READY),
                raw=raw,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"IPPool cannot be read: {error}") from error

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.id.key

    @property
    def since(self) -> Since:
        """Its place among those who wait."""
        return (self.id.created, self.id.name)

    @property
    def removing(self) -> str | None:
        """Since when the removal is announced (RFC 3339), or None."""
        return (self.raw["metadata"].get("annotations") or {}).get(REMOVING)

    @property
    def held_by(self) -> tuple[str, ...]:
        """Uids of the Range claims that took hold of it last, the newest first."""
        told = (self.raw["metadata"].get("annotations") or {}).get(HELD_BY)
        return tuple(told.split(",")) if told else ()

    def with_hold(self, claim_uid: str) -> dict[str, str]:
        """Its annotations once that claim took hold of it."""
        uids = [claim_uid, *(uid for uid in self.held_by if uid != claim_uid)][:HOLDS_KEPT]
        return {**(self.raw["metadata"].get("annotations") or {}), HELD_BY: ",".join(uids)}

    @property
    def going(self) -> bool:
        """Whether nothing new may come in: deleted, or its removal announced."""
        return self.id.going or self.removing is not None

    @property
    def is_root(self) -> bool:
        """Whether its addresses are its own and not carved from another pool."""
        return self.parent is None


@dataclass(frozen=True, slots=True)
class ClaimView:
    """An IPClaim. `cidr`, `pool` and `allocation` are what its status says."""

    id: Identity
    class_name: str | None
    family: str | None
    scope: Scope
    is_range: bool
    address: str | None
    phase: str
    cidr: Block | None
    pool: Key | None
    allocation: Key | None
    raw: Raw

    @classmethod
    def of(cls, raw: Raw) -> ClaimView:
        """Read the object."""
        spec, status = raw["spec"], raw.get("status") or {}
        identity = Identity.of(raw)
        try:
            return cls(
                id=identity,
                class_name=spec.get("className") or None,
                family=spec.get("ipFamily") or None,
                scope=read_scope(spec.get("scope")),
                is_range=spec.get("target") == ipam.TARGET_RANGE,
                address=spec.get("address") or None,
                phase=status.get("phase") or ipam.PHASE_PENDING,
                cidr=Block.parse(status["cidr"]) if status.get("cidr") else None,
                pool=_reference(status.get("poolRef"), identity.namespace),
                allocation=_reference(status.get("allocationRef"), identity.namespace),
                raw=raw,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"IPClaim cannot be read: {error}") from error

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.id.key

    @property
    def since(self) -> Since:
        """Its place among those who wait."""
        return (self.id.created, self.id.name)


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom an allocation is for: an IPClaim (purpose Claim) or a child IPPool (purpose Carve), by uid."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return (self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class AllocationView:
    """An IPAllocation. `release_at` in seconds since the epoch, for cooling blocks."""

    id: Identity
    pool: Key
    block: Block
    space: str
    purpose: Purpose
    holder: Holder | None
    release_at: float
    raw: Raw

    @classmethod
    def of(cls, raw: Raw) -> AllocationView:
        """Read the object."""
        spec = raw["spec"]
        identity = Identity.of(raw)
        holder = spec.get("claimRef")
        try:
            return cls(
                id=identity,
                pool=(identity.namespace, spec["poolRef"]["name"]),
                block=Block.parse(spec["cidr"]),
                space=spec.get("space") or "",
                purpose=Purpose(spec["purpose"]),
                holder=Holder(holder.get("namespace") or identity.namespace, holder["name"], holder["uid"])
                if holder
                else None,
                release_at=epoch(spec["releaseAt"]) if spec.get("releaseAt") else 0.0,
                raw=raw,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise Malformed(f"IPAllocation cannot be read: {error}") from error

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return self.id.key

    @property
    def entry(self) -> Entry:
        """The allocation as the index counts it."""
        return Entry(self.block, self.space, self.purpose, self.release_at)


def read_scope(raw: Mapping[str, Any] | None) -> Scope:
    """The scope of a claim or of a pool that a class made."""
    return {
        role: ScopeValue(kind=value["kind"], name=value["name"], namespace=value.get("namespace") or "")
        for role, value in (raw or {}).items()
    }


def write_scope(scope: Scope) -> Raw:
    """The scope as the API reads it."""
    return {
        role: {"kind": value.kind, "name": value.name, **({"namespace": value.namespace} if value.namespace else {})}
        for role, value in scope.items()
    }


def _reference(raw: Mapping[str, Any] | None, namespace: str) -> Key | None:
    return (raw.get("namespace") or namespace, raw["name"]) if raw else None
