"""Identifiers as locks: an Identifier object that exists is a value that is taken.

Creating the object is drawing the value, so two programs that both believe that they lead cannot give out one value
twice. The object names the holder behind the realized one (the NetworkContext of a VPC, the NetworkInterface of an
attachment), so a VPC or an attachment that was deleted by hand comes back with the same identity. It lives until
neither the holder nor an advertisement with that identity is left: so a value is not given out again while routes to
its predecessor may still be in place.
"""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.cloud import Identifier
from netclaim.api.managers import VPC_CONTROLLER
from netclaim.api.meta import Key, Raw
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import AlreadyExists, NotFound
from netclaim.kube.objects import uid_of
from netclaim.kube.store import Store

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


class ExhaustedError(Exception):
    """Every identifier of a space is taken."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        super().__init__(f"{draw}: all {identity.capacity(draw.bits)} are taken")


def labelled(raw: Raw) -> tuple[str, str]:
    """(VPC, attachment) in base62 from the labels of an Identifier or an advertisement; empty where there is none."""
    labels = raw["metadata"].get("labels") or {}
    return labels.get(cloud.VPC_LABEL, ""), labels.get(cloud.VPC_ATTACHMENT_LABEL, "")


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
    vpc = (raw.get("status") or {}).get("vpc")
    return [vpc] if vpc else []


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


class Drawing:
    """Draws identifiers by creating their objects. Only the leader draws."""

    def __init__(self, cluster: Cluster, system_namespace: str) -> None:
        self._cluster = cluster
        self._namespace = system_namespace

    async def draw(self, wish: Draw) -> int:
        """Take a value for the wish and return it.

        Raises:
            ExhaustedError: the space has no free value.
            ApiError: the API server could not be asked; a value that was taken nevertheless is found by its holder.
        """
        used = self._used(wish)
        value = wish.again
        while True:
            if value is None:
                value = identity.draw(wish.bits, used, secrets.randbelow)
            if value is None:
                raise ExhaustedError(wish)
            try:
                await self._cluster.create(
                    resources.IDENTIFIERS,
                    wish.render(value, self._namespace),
                    guarded=True,
                    field_manager=VPC_CONTROLLER,
                )
            except AlreadyExists:
                if await self._is_held_by(wish, value):
                    return value
                used.add(value)
                value = None
            else:
                return value

    async def _is_held_by(self, wish: Draw, value: int) -> bool:
        """Whether the value that could not be taken is the holder's already (the cache lags behind our own create)."""
        try:
            found = await self._cluster.client.get(resources.IDENTIFIERS, self._namespace, wish.object_name(value))
        except NotFound:
            return False
        return Identifier.model_validate(found).spec.holder.uid == wish.holder.uid

    def _used(self, wish: Draw) -> set[int]:
        """Values that are not free: those with an Identifier, and those that something else still says."""
        identifiers = self._cluster.store(resources.IDENTIFIERS)
        advertisements = self._cluster.store(resources.BGP_ADVERTISEMENTS)
        if wish.vpc is None:
            texts = {labelled(raw)[0] for store in (identifiers, advertisements) for raw in store.all()}
            vpcs = self._cluster.store(resources.VPCS).all()
            texts |= {(raw.get("status") or {}).get("vpc") or "" for raw in vpcs}
        else:
            vpc = identity.to_base62(wish.vpc)
            labelled_ones = (*identifiers.by(BY_VPC, vpc), *advertisements.by(BY_VPC, vpc))
            texts = {labelled(raw)[1] for raw in labelled_ones}
            attachments = self._cluster.store(resources.ATTACHMENTS).by(BY_VPC, vpc)
            texts |= {(raw.get("status") or {}).get("vpcAttachment") or "" for raw in attachments}
        values = {value_of(text, wish.bits) for text in texts}
        return {value for value in values if value is not None}


@dataclass(frozen=True, slots=True)
class Seen:
    """What stands behind one Identifier: who may still use its value.

    `holder` is the object of the holder's kind and name, whatever its uid. `superseded` tells that the holder is
    realized with another value. `users` name what else still carries the identity: advertisements, attachments,
    Identifiers of attachments in the VPC.
    """

    identifier: Identifier
    holder: Raw | None
    superseded: bool
    users: tuple[str, ...]


def is_free(seen: Seen) -> bool:
    """Whether the value may be given out again."""
    wanted = seen.identifier.spec.holder.uid
    is_held = seen.holder is not None and uid_of(seen.holder) == wanted and not seen.superseded
    return not is_held and not seen.users


class Releases:
    """Deletes Identifiers that nobody needs any more."""

    def __init__(self, cluster: Cluster, system_namespace: str) -> None:
        self._cluster = cluster
        self._namespace = system_namespace

    async def reconcile(self, key: Key) -> None:
        """Free one identifier when neither its holder nor anything that carries it is left."""
        raw = self._cluster.store(resources.IDENTIFIERS).get(key)
        if raw is None:
            return
        identifier = Identifier.model_validate(raw)
        if not is_free(self._observe(identifier, raw)) or not await self._is_free_live(identifier, raw):
            return
        await self._cluster.delete_if_present(resources.IDENTIFIERS, key, uid=identifier.uid, guarded=True)

    def _observe(self, identifier: Identifier, raw: Raw) -> Seen:
        vpc, attachment = labelled(raw)
        holder = identifier.spec.holder
        key = (holder.namespace, holder.name)
        is_vpc = not attachment
        kind = resources.NETWORK_CONTEXTS if is_vpc else resources.INTERFACES
        realized = self._cluster.store(resources.VPCS if is_vpc else resources.ATTACHMENTS).get(key)
        status = (realized or {}).get("status") or {}
        said = (status.get("vpc"), "" if is_vpc else status.get("vpcAttachment"))
        return Seen(
            identifier,
            self._cluster.store(kind).get(key),
            superseded=realized is not None and all(part is not None for part in said) and said != (vpc, attachment),
            users=tuple(self._users(vpc, attachment)),
        )

    def _users(self, vpc: str, attachment: str) -> Iterable[str]:
        advertisements = self._cluster.store(resources.BGP_ADVERTISEMENTS)
        attachments = self._cluster.store(resources.ATTACHMENTS).by(BY_VPC, vpc)
        if attachment:
            found = advertisements.by(BY_IDENTITY, (vpc, attachment))
            found += [raw for raw in attachments if (raw["status"].get("vpcAttachment")) == attachment]
        else:
            found = [*advertisements.by(BY_VPC, vpc), *self._cluster.store(resources.IDENTIFIERS).by(BY_VPC, vpc)]
            found += attachments
        return (raw["metadata"]["name"] for raw in found)

    async def _is_free_live(self, identifier: Identifier, raw: Raw) -> bool:
        """Ask the API server itself: the stores may know of the identifier and not yet of its holder."""
        vpc, attachment = labelled(raw)
        holder = identifier.spec.holder
        kind = resources.INTERFACES if attachment else resources.NETWORK_CONTEXTS
        selector = f"{cloud.VPC_LABEL}={vpc}" + (f",{cloud.VPC_ATTACHMENT_LABEL}={attachment}" if attachment else "")
        client = self._cluster.client
        if await client.list(resources.BGP_ADVERTISEMENTS, self._namespace, label_selector=selector):
            return False
        try:
            found = await client.get(kind, holder.namespace, holder.name)
        except NotFound:
            return True
        return uid_of(found) != holder.uid or self._observe(identifier, raw).superseded
