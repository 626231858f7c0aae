"""Identifiers as locks: an Identifier object that exists is a value that is taken.

Creating the object is drawing the value, so two programs that both believe that they lead cannot give out one value
twice. The object names the holder behind the realized one (the NetworkContext of a VPC, the NetworkInterface of an
attachment), so a VPC or an attachment that was deleted by hand comes back with the same identity. It lives until
neither the holder nor an advertisement with that identity is left: so a value is not given out again while routes to
its predecessor may still be in place.

Pure; `drawing` creates and deletes the objects.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.cloud import Identifier
from netclaim.api.meta import Raw
from netclaim.kube.objects import uid_of
from netclaim.kube.store import Change, Store

BY_HOLDER: Final = "holder"
BY_VPC: Final = "vpc"
BY_IDENTITY: Final = "identity"


@dataclass(frozen=True, slots=True)
class Holder:
    """Whom an identifier is drawn for. `kind` is NetworkContext or NetworkInterface."""

    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Draw:
    """The wish for an identifier: of a VPC (`vpc` None), or of an attachment in the VPC with that identifier.

    `again` is the value that the holder had before; it is taken up again unless somebody else has it.
    """

    holder: Holder
    vpc: int | None = None
    again: int | None = None

    @property
    def bits(self) -> int:
        """How many bits the identifier has."""
        return identity.VPC_BITS if self.vpc is None else identity.ATTACHMENT_BITS

    def object_name(self, value: int) -> str:
        """Name of the Identifier of that value."""
        if self.vpc is None:
            return identity.vpc_identifier_name(value)
        return identity.attachment_identifier_name(self.vpc, value)

    def render(self, value: int, system_namespace: str) -> Raw:
        """The Identifier that takes the value."""
        mine = identity.to_base62(value)
        vpc = mine if self.vpc is None else identity.to_base62(self.vpc)
        labels = {cloud.VPC_LABEL: vpc} | ({} if self.vpc is None else {cloud.VPC_ATTACHMENT_LABEL: mine})
        holder = self.holder
        return {
            "apiVersion": resources.IDENTIFIERS.api_version,
            "kind": resources.IDENTIFIERS.kind,
            "metadata": {"name": self.object_name(value), "namespace": system_namespace, "labels": labels},
            "spec": {
                "holder": {
                    "kind": holder.kind,
                    "namespace": holder.namespace,
                    "name": holder.name,
                    "uid": holder.uid,
                }
            },
        }

    def __str__(self) -> str:
        what = "VPC identifier" if self.vpc is None else f"attachment identifier in VPC {identity.to_base62(self.vpc)}"
        return f"draw {what} for {self.holder}"


def labelled(raw: Raw) -> tuple[str, str]:
    """(VPC, attachment) in base62 from the labels of an Identifier or an advertisement; empty where there is none."""
    labels = raw["metadata"].get("labels") or {}
    return labels.get(cloud.VPC_LABEL, ""), labels.get(cloud.VPC_ATTACHMENT_LABEL, "")


def said(raw: Raw) -> tuple[str, str]:
    """(VPC, attachment) in base62 from the status of a VPC or a VPCAttachment; empty where there is none."""
    status = raw.get("status") or {}
    return status.get("vpc") or "", status.get("vpcAttachment") or ""


@dataclass(slots=True)
class Space:
    """The values that are taken among VPCs, or among the attachments of one VPC: how often each is said; in order."""

    counts: Counter[int] = field(default_factory=Counter)
    ordered: list[int] = field(default_factory=list)

    def add(self, value: int, by: int) -> None:
        """Say the value once more, or (`by` -1) once less."""
        before = self.counts[value]
        self.counts[value] += by
        if not before:
            insort(self.ordered, value)
        elif not self.counts[value]:
            del self.counts[value]
            del self.ordered[bisect_left(self.ordered, value)]


class Taken:
    """Which values are not free, kept up to date by the changes of stores instead of being counted for each draw.

    A value is taken while an Identifier, an advertisement or a status says it.
    """

    def __init__(self) -> None:
        self._spaces: dict[int | None, Space] = {}

    def follow(self, store: Store, read: Callable[[Raw], tuple[str, str]]) -> None:
        """Count what `read` finds in the store's objects, from now on and of those that are there."""

        def on_change(change: Change) -> None:
            if change.old is not None:
                self._count(read(change.old), -1)
            if change.new is not None:
                self._count(read(change.new), 1)

        for raw in store.all():
            self._count(read(raw), 1)
        store.subscribe(on_change)

    def values(self, vpc: int | None) -> Sequence[int]:
        """The values taken among VPCs (None), or among the attachments of a VPC, ascending."""
        space = self._spaces.get(vpc)
        return space.ordered if space else ()

    def _count(self, texts: tuple[str, str], by: int) -> None:
        vpc = value_of(texts[0], identity.VPC_BITS)
        mine = value_of(texts[1], identity.ATTACHMENT_BITS)
        if vpc is None:
            return
        self._add(None, vpc, by)
        if mine is not None:
            self._add(vpc, mine, by)

    def _add(self, vpc: int | None, value: int, by: int) -> None:
        space = self._spaces.setdefault(vpc, Space())
        space.add(value, by)
        if not space.ordered:
            del self._spaces[vpc]


def by_holder(raw: Raw) -> Iterable[Hashable]:
    """Index of Identifiers: the uid of the holder."""
    return [raw["spec"]["holder"]["uid"]]


def by_vpc(raw: Raw) -> Iterable[Hashable]:
    """Index of Identifiers and advertisements: the VPC, for those that belong to an attachment of it."""
    vpc, attachment = labelled(raw)
    return [vpc] if vpc and attachment else []


def by_identity(raw: Raw) -> Iterable[Hashable]:
    """Index of Identifiers and advertisements: (VPC, attachment)."""
    return [labelled(raw)]


def by_status_vpc(raw: Raw) -> Iterable[Hashable]:
    """Index of VPCAttachments: the VPC that their status says."""
    vpc, _ = said(raw)
    return [vpc] if vpc else []


def by_status_identity(raw: Raw) -> Iterable[Hashable]:
    """Index of VPCAttachments: (VPC, attachment) that their status says."""
    return [said(raw)]


def value_of(text: str, bits: int) -> int | None:
    """The value of a base62 text, None when it is not an identifier of that many bits."""
    try:
        value = identity.from_base62(text)
    except ValueError:
        return None
    return value if identity.is_valid(value, bits) else None


def held_vpc(store: Store, uid: str) -> list[int]:
    """VPC identifiers held by the context with that uid, the smallest first."""
    pairs = [labelled(raw) for raw in store.by(BY_HOLDER, uid)]
    values = [value_of(vpc, identity.VPC_BITS) for vpc, attachment in pairs if not attachment]
    return sorted(value for value in values if value is not None)


def held_attachment(store: Store, uid: str, vpc: int) -> list[int]:
    """Identifiers in that VPC held by the interface with that uid, the smallest first."""
    pairs = [labelled(raw) for raw in store.by(BY_HOLDER, uid)]
    mine = identity.to_base62(vpc)
    values = [value_of(attachment, identity.ATTACHMENT_BITS) for owner, attachment in pairs if owner == mine]
    return sorted(value for value in values if value is not None)


def chosen(held: list[int], recorded: int | None) -> int | None:
    """Which of the held identifiers counts: the one that is in use already, else the smallest."""
    if recorded in held:
        return recorded
    return held[0] if held else None


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands behind one Identifier: who may still use its value.

    `holder` is the object of the holder's kind and name, whatever its uid. `superseded` tells that the holder is
    realized with another value. `user` names one object that still carries the identity besides: an advertisement, an
    attachment, an Identifier of an attachment in the VPC.
    """

    identifier: Identifier
    holder: Raw | None
    superseded: bool
    user: str | None


def is_free(seen: Seen) -> bool:
    """Whether the value may be given out again."""
    wanted = seen.identifier.spec.holder.uid
    is_held = seen.holder is not None and uid_of(seen.holder) == wanted and not seen.superseded
    return not is_held and seen.user is None
