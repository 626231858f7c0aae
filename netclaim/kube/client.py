"""The verbs of one API server. Objects are raw dicts; every failure is an `ApiError` of one kind.

What a verb does about a lost reply follows from what the verb means: reads and server-side applies are sent again, a
create is read back before anything else, the rest is left to the caller, who looks again (`Lost`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube import endpoint
from netclaim.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Invalid,
    Lost,
    NotFound,
    ServerError,
    from_status,
)
from netclaim.kube.lines import LineTooLong, split
from netclaim.kube.objects import covers, is_going
from netclaim.kube.transport import STANDARD, Patience, Timeout, Transport

PAGE = 500
_APPLY = "application/apply-patch+yaml"
_JSON_PATCH = "application/json-patch+json"
# A field that the server does not know must be an error, never be dropped in silence.
_STRICT = {"fieldValidation": "Strict"}


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `resource_version` is that of the whole list, the same on every page."""

    items: list[Raw]
    resource_version: str
    token: str = ""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch. A BOOKMARK's object holds a resourceVersion only."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    object: Raw


class Client:
    """One API server as one identity."""

    def __init__(self, transport: Transport, *, pool: str = "request", timeout: Timeout | None = None) -> None:
        self._transport = transport
        self._pool = pool
        self._timeout = timeout

    @classmethod
    async def connect(cls, kubeconfig: str | None, *, user_agent: str, patience: Patience = STANDARD) -> Client:
        """A client for `kubeconfig` (None: in cluster, else `$KUBECONFIG`). Opens no connection yet.

        Raises:
            ConfigError: no configuration, or one that cannot be used; the text says which file and why.
        """
        transport = Transport(await endpoint.find(kubeconfig), user_agent=user_agent, patience=patience)
        try:
            await transport.credentials.refresh()
        except BaseException:
            await transport.close()
            raise
        return cls(transport)

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    @property
    def server(self) -> str:
        """The API server's URL."""
        return self._transport.endpoint.server

    @property
    def source(self) -> str:
        """Where the configuration came from, for messages."""
        return self._transport.endpoint.source

    @property
    def host(self) -> str:
        """host:port of the API server, for metrics."""
        return self._transport.host

    def for_leases(self, timeout: float) -> Client:
        """The same server through the connections that are kept for leases, each call at most `timeout` seconds."""
        return Client(self._transport, pool="lease", timeout=Timeout(timeout))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        """Any call that has no verb of its own, such as a token request."""
        return await self._transport.call(
            method, path, query=query, body=body, content_type=content_type, timeout=self._timeout, pool=self._pool
        )

    # -- reading ---------------------------------------------------------------------------------------------------

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = PAGE,
    ) -> AsyncGenerator[Page, None]:
        """A consistent list in pages of `limit` objects (0: all in one).

        Raises:
            Gone: the list took so long that its version expired between two pages.
            NotFound: the kind is not served.
        """
        query = _selectors(label_selector, field_selector)
        if limit:
            query["limit"] = str(limit)
        while True:
            reply = await self._transport.call(
                "GET", resource.path(namespace), query=query, timeout=self._transport.patience.list_page
            )
            page = _page(reply, resource)
            token = page.token
            yield page
            if not token:
                return
            query["continue"] = token

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> list[Raw]:
        """All objects, live. A list that expires on the way is read again in one piece."""
        for limit in (PAGE, 0):
            items: list[Raw] = []
            try:
                async for page in self.list_pages(
                    resource, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit
                ):
                    items += page.items
            except Gone:
                if not limit:
                    raise
            else:
                for item in items:
                    item.update(apiVersion=resource.api_version, kind=resource.kind)
                return items
        raise AssertionError("unreachable")

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int = 300,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes after `resource_version`, bookmarks included, until the server ends the watch.

        Use it inside `contextlib.aclosing`: its connection is freed when the generator is closed.

        Raises:
            Gone: the version is too old (also when the server says so inside the stream).
            Lost: the stream broke, went silent, or held a line that is cut off or not JSON.
        """
        query = {
            **_selectors(label_selector, field_selector),
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        path = resource.path(namespace)
        patience = self._transport.patience
        timeout = Timeout(timeout_seconds + patience.watch_grace, patience.watch_read)
        async with self._transport.open("GET", path, query=query, timeout=timeout, pool="watch") as reply:
            try:
                async for line in split(self._transport.chunks(reply, "GET", path)):
                    yield _event(line, resource)
            except LineTooLong as error:
                raise Lost(f"watch of {resource.plural}: {error}") from error

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Raw:
        """The object as it is now.

        Raises:
            NotFound: nothing has this name, or the kind is not served.
        """
        return await self._send("GET", resource.path(namespace or None, name))

    async def find(self, resource: Resource, namespace: str | None, name: str) -> Raw | None:
        """The object as it is now, None when nothing has this name."""
        try:
            return await self.get(resource, namespace, name)
        except NotFound:
            return None

    # -- writing ---------------------------------------------------------------------------------------------------

    async def create(self, resource: Resource, obj: Raw, *, field_manager: str | None = None) -> Raw:
        """Create `obj` (metadata.namespace says where).

        A reply that was lost is read back: an object that says all that `obj` says is the answer, and only when there
        is none the create is sent once more.

        Raises:
            AlreadyExists: the name is taken by an object that says something else.
        """
        metadata = obj["metadata"]
        query = dict(_STRICT) | ({"fieldManager": field_manager} if field_manager else {})
        body = _typed(resource, obj)
        path = resource.path(metadata.get("namespace"))
        try:
            return await self._send("POST", path, query=query, body=body)
        except (Lost, ServerError) as error:
            if not metadata.get("name") or _is_denied(error):
                raise
            found = await self._read_back(resource, body, error)
        if found is not None:
            return found
        try:
            return await self._send("POST", path, query=query, body=body)
        except AlreadyExists:
            # The first request was still on its way when we looked.
            found = await self._read_back(resource, body, None)
            if found is None:
                raise
            return found

    async def _read_back(self, resource: Resource, body: Raw, error: ApiError | None) -> Raw | None:
        """What a create with an unknown outcome left behind; None when nothing is there."""
        metadata = body["metadata"]
        try:
            found = await self.find(resource, metadata.get("namespace"), metadata["name"])
        except ApiError:
            raise (error or Lost("create with unknown outcome")) from None
        if found is None:
            return None
        wanted = {name: value for name, value in body.items() if name != "status"}
        if is_going(found) or not covers(found, wanted):
            raise AlreadyExists(
                f"{resource.plural} {metadata['name']!r} already exists", reason="AlreadyExists"
            ) from error
        return found

    async def apply(self, resource: Resource, obj: Raw, *, manager: str, force: bool = True) -> Raw:
        """Server-side apply of the main resource. Send `metadata.uid` when the object must be that very one.

        Raises:
            Conflict: without `force`, another manager owns a field.
            Invalid: `metadata.uid` is not that of the object under this name.
        """
        return await self._apply(resource, obj, manager, None, force=force)

    async def apply_status(self, resource: Resource, obj: Raw, *, manager: str, force: bool = True) -> Raw:
        """Server-side apply of the status. It never creates, and does not check `metadata.uid`.

        Raises:
            NotFound: no such object.
            Conflict: without `force` another manager owns a field; or `metadata.resourceVersion` was sent and is old.
        """
        return await self._apply(resource, obj, manager, "status", force=force)

    async def _apply(self, resource: Resource, obj: Raw, manager: str, subresource: str | None, *, force: bool) -> Raw:
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"], subresource)
        query = {**_STRICT, "fieldManager": manager, "force": "true" if force else "false"}
        body = _typed(resource, obj)
        try:
            return await self._send("PATCH", path, query=query, body=body, content_type=_APPLY)
        except Lost as error:
            if not error.dropped:
                raise
            return await self._send("PATCH", path, query=query, body=body, content_type=_APPLY)

    async def json_patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        ops: Sequence[Mapping[str, Any]],
        *,
        subresource: str | None = None,
    ) -> Raw:
        """RFC 6902 patch.

        Raises:
            Conflict: a `test` failed.
            Invalid: the result breaks a rule.
        """
        path = resource.path(namespace or None, name, subresource)
        try:
            return await self._send("PATCH", path, body=list(ops), content_type=_JSON_PATCH)
        except Invalid as error:
            # A failed `test` is answered with a 422 that, unlike a broken rule, names no cause.
            if error.details.get("causes") or not any(op["op"] == "test" for op in ops):
                raise
            raise Conflict(
                f"{resource.plural} {name!r} is not as it was when the patch was made", reason="PatchTestFailed"
            ) from error

    async def replace(self, resource: Resource, obj: Raw, *, subresource: str | None = None) -> Raw:
        """PUT; with metadata.resourceVersion only over that version (Conflict)."""
        metadata = obj["metadata"]
        path = resource.path(metadata.get("namespace"), metadata["name"], subresource)
        return await self._send("PUT", path, query=_STRICT, body=_typed(resource, obj))

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: str | None = None,
    ) -> Raw:
        """Ask for deletion; returns the object when finalizers still hold it, else a Status.

        Raises:
            NotFound: nothing has this name.
            Conflict: `uid` or `resource_version` is not that of the object.
        """
        options: Raw = {"apiVersion": "v1", "kind": "DeleteOptions"}
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        if uid or resource_version:
            options["preconditions"] = {field: value for field, value in preconditions.items() if value}
        if propagation:
            options["propagationPolicy"] = propagation
        return await self._send("DELETE", resource.path(namespace or None, name), body=options)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Raw:
        reply: Raw = await self.request(method, path, query=query, body=body, content_type=content_type)
        return reply


def _is_denied(error: ApiError) -> bool:
    """Whether an admission webhook said no, with whatever code: nothing was written, and asking twice helps nobody.

    These are the API server's own words before the webhook's. Should they ever change, the request is sent once more.
    """
    return error.message.startswith("admission webhook ") and " denied the request" in error.message


def _page(reply: Any, resource: Resource) -> Page:
    """A page, once it is sure that the reply is a list: an empty object must not read as "everything is gone"."""
    metadata = reply.get("metadata") if isinstance(reply, dict) else None
    items = reply.get("items") or [] if isinstance(reply, dict) else None
    if not isinstance(metadata, dict) or not isinstance(items, list) or not metadata.get("resourceVersion"):
        raise ServerError(f"list of {resource.plural}: the reply is not a list", reason="NotAList")
    if not all(isinstance(item, dict) and (item.get("metadata") or {}).get("name") for item in items):
        raise ServerError(f"list of {resource.plural}: an item has no name", reason="NotAList")
    return Page(items, str(metadata["resourceVersion"]), str(metadata.get("continue") or ""))


def _typed(resource: Resource, obj: Raw) -> Raw:
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {name: value for name, value in query.items() if value}


def _event(line: bytes, resource: Resource) -> WatchEvent:
    try:
        document = orjson.loads(line)
        kind, body = document["type"], document["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise Lost(f"watch of {resource.plural}: a line is cut off or not JSON: {error}", dropped=True) from error
    if kind == "ERROR":
        code = body.get("code") if isinstance(body, dict) else None
        raise from_status(int(code or 500), body, "error in the stream", where=f"watch of {resource.plural}")
    if kind not in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK") or not isinstance(body, dict):
        raise Lost(f"watch of {resource.plural}: unknown event {kind!r}", dropped=True)
    return WatchEvent(kind, body)
