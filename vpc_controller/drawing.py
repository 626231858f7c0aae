"""Creates Identifiers, which is drawing them, and deletes those that nobody needs any more."""

from __future__ import annotations

import secrets
from collections.abc import Hashable

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.cloud import Identifier
from netclaim.api.managers import VPC_CONTROLLER
from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import AlreadyExists
from netclaim.kube.objects import describe, key_of, uid_of
from vpc_controller.identifiers import BY_IDENTITY, BY_VPC, Draw, Seen, Taken, is_free, labelled, said


class ExhaustedError(Exception):
    """Every identifier of a space is taken."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        super().__init__(f"{draw}: all {identity.capacity(draw.bits)} are taken")


class Drawing:
    """Draws identifiers by creating their objects. Only the leader draws."""

    def __init__(self, cluster: Cluster, system_namespace: str) -> None:
        self._cluster = cluster
        self._namespace = system_namespace
        self._taken = Taken()
        for resource in (resources.IDENTIFIERS, resources.BGP_ADVERTISEMENTS):
            self._taken.follow(cluster.store(resource), labelled)
        for resource in (resources.VPCS, resources.ATTACHMENTS):
            self._taken.follow(cluster.store(resource), said)

    async def draw(self, wish: Draw) -> int:
        """Take a value for the wish and return it.

        Raises:
            ExhaustedError: the space has no free value.
            ApiError: the API server could not be asked; a value that was taken nevertheless is found by its holder.
        """
        refused: set[int] = set()
        value = wish.again
        while True:
            if value is None:
                taken = self._taken.values(wish.vpc)
                value = identity.draw(wish.bits, sorted({*taken, *refused}) if refused else taken, secrets.randbelow)
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
                refused.add(value)
                value = None
            else:
                return value

    async def _is_held_by(self, wish: Draw, value: int) -> bool:
        """Whether the value that could not be taken is the holder's already (the cache lags behind our own create)."""
        found = await self._cluster.client.find(resources.IDENTIFIERS, self._namespace, wish.object_name(value))
        return found is not None and Identifier.model_validate(found).spec.holder.uid == wish.holder.uid


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
            user=self._user(vpc, attachment),
        )

    def _user(self, vpc: str, attachment: str) -> str | None:
        """One object that carries the identity; a VPC has as many as interfaces, and any of them will do."""
        kinds: tuple[Resource, ...] = (resources.BGP_ADVERTISEMENTS, resources.ATTACHMENTS)
        index: tuple[str, Hashable] = (BY_IDENTITY, (vpc, attachment))
        if not attachment:
            kinds, index = (*kinds, resources.IDENTIFIERS), (BY_VPC, vpc)
        for kind in kinds:
            found = self._cluster.store(kind).any_by(*index)
            if found is not None:
                return describe(kind, key_of(found))
        return None

    async def _is_free_live(self, identifier: Identifier, raw: Raw) -> bool:
        """Ask the API server itself: the stores may know of the identifier and not yet of its holder."""
        vpc, attachment = labelled(raw)
        holder = identifier.spec.holder
        kind = resources.INTERFACES if attachment else resources.NETWORK_CONTEXTS
        selector = f"{cloud.VPC_LABEL}={vpc}" + (f",{cloud.VPC_ATTACHMENT_LABEL}={attachment}" if attachment else "")
        client = self._cluster.client
        if await client.list(resources.BGP_ADVERTISEMENTS, self._namespace, label_selector=selector):
            return False
        found = await client.find(kind, holder.namespace, holder.name)
        return found is None or uid_of(found) != holder.uid or self._observe(identifier, raw).superseded
