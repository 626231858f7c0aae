"""One API server as a program sees it: what it follows there, and how it writes there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import NAMESPACES, Resource
from netclaim.kube import flight
from netclaim.kube.client import Client
from netclaim.kube.errors import Conflict, Invalid, LeadershipLost, NotFound
from netclaim.kube.flight import Expectation
from netclaim.kube.objects import describe, is_going, key_of, uid_of, version_of
from netclaim.kube.reflector import STANDARD, Pace, Reflector, Selection
from netclaim.kube.selectors import selects
from netclaim.kube.store import Store

FINALIZER_TRIES = 3


class Cluster:
    """Reflectors by what they select, and the verbs of the client for use inside a reconcile.

    Each write remembers in the running reconcile what the stores must show before its key runs again, and is refused
    (LeadershipLost) when the process that the reconcile belongs to no longer leads. `guarded` writes are refused
    outside of a reconcile too.
    """

    def __init__(self, client: Client, *, leads: Callable[[], bool] = lambda: True, pace: Pace = STANDARD) -> None:
        self.client = client
        self._pace = pace
        self.leads = leads
        self.on_reflector: Callable[[Reflector], None] | None = None
        self.on_forget: Callable[[Reflector], Awaitable[None]] | None = None
        self._reflectors: dict[Selection, Reflector] = {}
        self._by_resource: dict[Resource, list[Reflector]] = {}
        self._control_plane_id = ""

    # -- identity --------------------------------------------------------------------------------------------------

    @property
    def control_plane_id(self) -> str:
        """The uid of the kube-system namespace: what tells control planes apart. Known after `identify`.

        Raises:
            RuntimeError: `identify` was not awaited.
        """
        if not self._control_plane_id:
            raise RuntimeError(f"the control plane at {self.client.server} was not identified yet")
        return self._control_plane_id

    async def identify(self) -> str:
        """Read `control_plane_id`; needs `get` on the namespace kube-system."""
        self._control_plane_id = uid_of(await self.client.get(NAMESPACES, None, "kube-system"))
        return self._control_plane_id

    # -- reading ---------------------------------------------------------------------------------------------------

    def reflect(
        self,
        resource: Resource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        slim: Callable[[Raw], Raw] | None = None,
    ) -> Reflector:
        """Follow a kind. The same selection again is the same reflector (whose `slim` stays as it was).

        Once the process runs, a new reflector starts by itself.
        """
        selection = Selection(resource, namespace, label_selector, field_selector)
        reflector = self._reflectors.get(selection)
        if reflector is None:
            reflector = self._reflectors[selection] = Reflector(self.client, selection, slim=slim, pace=self._pace)
            self._by_resource.setdefault(resource, []).append(reflector)
            if self.on_reflector is not None:
                self.on_reflector(reflector)
        return reflector

    async def forget(self, reflector: Reflector) -> None:
        """Stop following; its store keeps nothing and wakes nobody any more."""
        if self._reflectors.pop(reflector.selection, None) is not None:
            self._by_resource[reflector.resource].remove(reflector)
        reflector.forgotten = True
        if self.on_forget is not None:
            await self.on_forget(reflector)

    @property
    def reflectors(self) -> list[Reflector]:
        """All that is followed."""
        return list(self._reflectors.values())

    def store(self, resource: Resource) -> Store:
        """The store of a reflected kind: of the reflector without selectors, or the only one.

        Raises:
            LookupError: the kind is not reflected, or in several selections.
        """
        found = self._by_resource.get(resource, ())
        if len(found) == 1:
            return found[0].store
        whole = self._reflectors.get(Selection(resource))
        if whole is None:
            raise LookupError(f"{resource.plural}: {len(found)} reflectors, name one and use its store")
        return whole.store

    def held(self, resource: Resource, key: Key) -> Raw | None:
        """The object as whichever store has it, None when nobody follows it or it is not there.

        As the running reconcile left it, where no store shows that yet.
        """
        running = flight.current.get()
        written = running.written.get((resource, key)) if running is not None else None
        for reflector in self._by_resource.get(resource, ()):
            raw = reflector.store.get(key)
            if raw is not None:
                return written if written is not None and version_of(raw) < version_of(written) else raw
        return written

    # -- writing ---------------------------------------------------------------------------------------------------

    async def create(
        self, resource: Resource, obj: Raw, *, guarded: bool = False, field_manager: str | None = None
    ) -> Raw:
        """As the client's."""
        self._check(f"create of {resource.kind} {obj['metadata'].get('name')}", guarded=guarded)
        return self._wrote(resource, await self.client.create(resource, obj, field_manager=field_manager))

    async def apply(
        self, resource: Resource, obj: Raw, *, manager: str, force: bool = True, guarded: bool = False
    ) -> Raw:
        """As the client's."""
        self._check(f"apply of {describe(resource, key_of(obj))}", guarded=guarded)
        return self._wrote(resource, await self.client.apply(resource, obj, manager=manager, force=force))

    async def apply_status(
        self, resource: Resource, obj: Raw, *, manager: str, force: bool = True, guarded: bool = False
    ) -> Raw:
        """As the client's."""
        self._check(f"status of {describe(resource, key_of(obj))}", guarded=guarded)
        return self._wrote(resource, await self.client.apply_status(resource, obj, manager=manager, force=force))

    async def json_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        ops: Sequence[Mapping[str, Any]],
        *,
        subresource: str | None = None,
        guarded: bool = False,
    ) -> Raw:
        """As the client's."""
        self._check(f"patch of {describe(resource, (namespace or '', name))}", guarded=guarded)
        patched = await self.client.json_patch(resource, namespace, name, ops, subresource=subresource)
        return self._wrote(resource, patched)

    async def replace(
        self, resource: Resource, obj: Raw, *, subresource: str | None = None, guarded: bool = False
    ) -> Raw:
        """As the client's."""
        self._check(f"update of {describe(resource, key_of(obj))}", guarded=guarded)
        return self._wrote(resource, await self.client.replace(resource, obj, subresource=subresource))

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        guarded: bool = False,
    ) -> Raw:
        """As the client's."""
        key = (namespace or "", name)
        self._check(f"deletion of {describe(resource, key)}", guarded=guarded)
        reply = await self.client.delete(
            resource, namespace, name, uid=uid, resource_version=resource_version, propagation=propagation
        )
        running = flight.current.get()
        if running is not None:
            running.expectations += [
                Expectation(each, key, None, uid or "")
                for each in self._by_resource.get(resource, ())
                if key in each.store
            ]
        return reply

    async def delete_if_present(
        self,
        resource: Resource,
        obj_or_key: Raw | Key,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
        guarded: bool = False,
    ) -> bool:
        """Delete that very object; False when it is gone, or another has its name. An object brings its own uid.

        Raises:
            Conflict: `resource_version` was given and is not the object's; or the server refused for another reason.
        """
        namespace, name = obj_or_key if isinstance(obj_or_key, tuple) else key_of(obj_or_key)
        if not isinstance(obj_or_key, tuple):
            uid = uid or uid_of(obj_or_key)
        try:
            await self.delete(
                resource,
                namespace or None,
                name,
                uid=uid,
                resource_version=resource_version,
                propagation=propagation,
                guarded=guarded,
            )
        except NotFound:
            return False
        except Conflict:
            # Another uid under that name is as good as gone; whatever else was in the way is not.
            if resource_version is not None or await self._is_there(resource, namespace, name, uid):
                raise
            return False
        return True

    async def _is_there(self, resource: Resource, namespace: str, name: str, uid: str | None) -> bool:
        """Whether the object (of that uid, when one is given) is there now."""
        found = await self.client.find(resource, namespace, name)
        return found is not None and (uid is None or uid_of(found) == uid)

    # -- finalizers ------------------------------------------------------------------------------------------------

    async def add_finalizer(self, resource: Resource, obj: Raw, finalizer: str) -> Raw | None:
        """Hold the object; returns it as it is then, or None when it is going or gone. Present: nothing is written.

        Raises:
            Conflict: it changed three times while we tried.
        """
        for attempt in range(FINALIZER_TRIES):
            if is_going(obj):
                return None
            finalizers = obj["metadata"].get("finalizers")
            if finalizer in (finalizers or ()):
                return obj
            add: Raw = {"op": "add", "path": "/metadata/finalizers/-", "value": finalizer}
            if not finalizers:
                add = {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]}
            try:
                return await self._patch_version(resource, obj, [add])
            except NotFound:
                return None
            except Invalid as error:
                # "no new finalizers can be added if the object is being deleted"
                if "metadata.finalizers" in str(error.details):
                    return None
                raise
            except Conflict:
                if attempt == FINALIZER_TRIES - 1:
                    raise
                fresh = await self._same(resource, obj)
                if fresh is None:
                    return None
                obj = fresh
        raise AssertionError("unreachable")

    async def drop_finalizer(
        self, resource: Resource, obj: Raw, finalizer: str, *, exact: bool = False, guarded: bool = False
    ) -> None:
        """Let the object go; gone, or held by others only, is success.

        With `exact` one patch over the version that was seen: whatever the caller concluded from it still holds then.

        Raises:
            Conflict: it changed three times while we tried (with `exact`: once).
        """
        for attempt in range(FINALIZER_TRIES):
            finalizers = obj["metadata"].get("finalizers") or []
            if finalizer not in finalizers:
                return
            remove = {"op": "remove", "path": f"/metadata/finalizers/{finalizers.index(finalizer)}"}
            try:
                await self._patch_version(resource, obj, [remove], guarded=guarded)
            except NotFound:
                return
            except Conflict:
                if exact or attempt == FINALIZER_TRIES - 1:
                    raise
                fresh = await self._same(resource, obj)
                if fresh is None:
                    return
                obj = fresh
            else:
                return

    async def _patch_version(self, resource: Resource, obj: Raw, ops: list[Raw], *, guarded: bool = False) -> Raw:
        """Patch exactly the version that `obj` is."""
        namespace, name = key_of(obj)
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": obj["metadata"]["resourceVersion"]}
        return await self.json_patch(resource, namespace or None, name, [test, *ops], guarded=guarded)

    async def _same(self, resource: Resource, obj: Raw) -> Raw | None:
        """The object as it is now, None when it is gone or another has its name."""
        namespace, name = key_of(obj)
        fresh = await self.client.find(resource, namespace, name)
        return fresh if fresh is not None and uid_of(fresh) == uid_of(obj) else None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _check(self, what: str, *, guarded: bool) -> None:
        flight.check_leads(what)
        if guarded and not self.leads():
            raise LeadershipLost(f"{what} was not sent: this process does not lead right now")

    def _wrote(self, resource: Resource, raw: Raw) -> Raw:
        running = flight.current.get()
        version = version_of(raw)
        if running is not None and version:
            key = key_of(raw)
            running.written[resource, key] = raw
            running.expectations += [
                Expectation(each, key, version)
                for each in self._by_resource.get(resource, ())
                if selects(each.selection, raw)
            ]
        return raw


async def run_reflectors(cluster: Cluster) -> None:
    """Follow everything that the cluster reflects until cancelled: for tests and tools without a process."""
    async with asyncio.TaskGroup() as group:
        for reflector in cluster.reflectors:
            group.create_task(reflector.run(), name=f"reflector-{reflector.selection}")
