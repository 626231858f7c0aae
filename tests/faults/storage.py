"""What the fault server holds: objects with versions, and the history that watches are served from."""

import asyncio
import copy
import uuid
from collections import deque
from dataclasses import dataclass, field
from typing import Any

Raw = dict[str, Any]
Path = str
Key = tuple[str, str]


class RefusedError(Exception):
    """A request that is answered with a Status object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message

    def status(self) -> Raw:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "code": self.code,
            "reason": self.reason,
            "message": self.message,
        }


@dataclass
class Happened:
    """One line of history: the collection it belongs to, the version, the event."""

    collection: str
    version: int
    type: str
    object: Raw


@dataclass
class Storage:
    """Objects by collection path without namespace (`/api/v1/configmaps`) and key."""

    objects: dict[str, dict[Key, Raw]] = field(default_factory=dict)
    history: deque[Happened] = field(default_factory=deque)
    version: int = 100
    oldest: int = 100
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    def collection(self, name: str) -> dict[Key, Raw]:
        return self.objects.setdefault(name, {})

    def create(self, collection: str, obj: Raw) -> Raw:
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        if key in self.collection(collection):
            raise RefusedError(409, "AlreadyExists", f"{collection} {key[1]!r} already exists")
        stored = copy.deepcopy(obj)
        stored["metadata"] = {**metadata, "uid": str(uuid.uuid4())}
        return self._store(collection, key, stored, "ADDED")

    def get(self, collection: str, key: Key) -> Raw:
        found = self.collection(collection).get(key)
        if found is None:
            raise RefusedError(404, "NotFound", f"{collection} {key[1]!r} not found")
        return found

    def replace(self, collection: str, key: Key, obj: Raw) -> Raw:
        held = self.get(collection, key)
        wanted = obj["metadata"].get("resourceVersion")
        if wanted and wanted != held["metadata"]["resourceVersion"]:
            raise RefusedError(409, "Conflict", "the object has been modified")
        stored = copy.deepcopy(obj)
        stored["metadata"] = {**obj["metadata"], "uid": held["metadata"]["uid"]}
        if held["metadata"].get("deletionTimestamp"):
            stored["metadata"]["deletionTimestamp"] = held["metadata"]["deletionTimestamp"]
            if not stored["metadata"].get("finalizers"):
                return self._remove(collection, key)
        return self._store(collection, key, stored, "MODIFIED")

    def merge(self, collection: str, key: Key, patch: Raw) -> Raw:
        """Apply, without field owners: the patch over what is there, created when nothing is."""
        if key not in self.collection(collection):
            return self.create(collection, patch)
        merged = _merged(self.get(collection, key), patch)
        merged["metadata"]["resourceVersion"] = ""
        if patch["metadata"].get("resourceVersion"):
            merged["metadata"]["resourceVersion"] = patch["metadata"]["resourceVersion"]
        return self.replace(collection, key, merged)

    def json_patch(self, collection: str, key: Key, ops: list[Raw]) -> Raw:
        patched = copy.deepcopy(self.get(collection, key))
        for op in ops:
            _patch(patched, op)
        return self.replace(collection, key, patched)

    def delete(self, collection: str, key: Key, preconditions: Raw) -> Raw:
        held = self.get(collection, key)
        for name in ("uid", "resourceVersion"):
            if preconditions.get(name) not in (None, held["metadata"][name]):
                raise RefusedError(409, "Conflict", f"precondition failed: {name}")
        if held["metadata"].get("finalizers"):
            going = copy.deepcopy(held)
            going["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
            return self._store(collection, key, going, "MODIFIED")
        return self._remove(collection, key)

    def compact(self) -> None:
        """Forget the history: watches from older versions are Gone."""
        self.history.clear()
        self.oldest = self.version

    def rewind(self, version: int) -> None:
        """As after a restored backup: versions start over at an older one."""
        self.version = version
        self.compact()

    def _store(self, collection: str, key: Key, obj: Raw, kind: str) -> Raw:
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.collection(collection)[key] = obj
        self._happened(collection, kind, obj)
        return obj

    def _remove(self, collection: str, key: Key) -> Raw:
        self.version += 1
        gone = copy.deepcopy(self.collection(collection).pop(key))
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._happened(collection, "DELETED", gone)
        return gone

    def _happened(self, collection: str, kind: str, obj: Raw) -> None:
        self.history.append(Happened(collection, self.version, kind, obj))
        asyncio.get_running_loop().create_task(self._notify())

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()


def _merged(held: Raw, patch: Raw) -> Raw:
    result = copy.deepcopy(held)
    for name, value in patch.items():
        inner = result.get(name)
        result[name] = _merged(inner, value) if isinstance(value, dict) and isinstance(inner, dict) else value
    return result


def _patch(document: Raw, op: Raw) -> None:
    *parents, last = op["path"].strip("/").split("/")
    target: Any = document
    for part in parents:
        target = target[int(part)] if isinstance(target, list) else target[part]
    if op["op"] == "test":
        if (target[int(last)] if isinstance(target, list) else target.get(last)) != op["value"]:
            raise RefusedError(422, "Invalid", "the server rejected our request due to an error in our request")
    elif op["op"] == "add" and isinstance(target, list):
        target.append(op["value"])
    elif op["op"] in ("add", "replace"):
        target[last] = op["value"]
    elif isinstance(target, list):
        del target[int(last)]
    else:
        del target[last]
