"""The rules of an API server that IPAM relies on, over a dict: what a plan's writes do to objects.

Used to explore orders of steps in their millions; the same rules are tested against a real API server in the api tier.
"""

import copy
import itertools
from collections import OrderedDict
from datetime import UTC, datetime, timedelta

from netclaim.api import ipam
from netclaim.api.conditions import timestamp
from netclaim.api.meta import Key, Raw
from netclaim.api.resources import IP_ALLOCATIONS, IP_CLAIMS, IP_CLASSES, IP_POOLS, Resource
from netclaim.kube import writes
from netclaim.kube.errors import AlreadyExists, Conflict, Invalid, NotFound
from netclaim.kube.objects import key_of
from nso.ipam.blocks import Block
from nso.ipam.snapshot import Snapshot

_SNAPSHOTS: OrderedDict[tuple[int, ...], tuple[list[list[Raw]], Snapshot]] = OrderedDict()
"""By the objects in them, which are never changed once they are stored: most steps look at what was seen before."""


def snapshot_of(classes: list[Raw], pools: list[Raw], claims: list[Raw], allocations: list[Raw]) -> Snapshot:
    """These lists as planners see them."""
    lists = [classes, pools, claims, allocations]
    key = tuple(id(raw) for listed in lists for raw in (*listed, listed.__class__))
    found = _SNAPSHOTS.get(key)
    if found is None:
        seen = Snapshot(classes=classes, pools=pools, claims=claims, allocations=allocations)
        # The lists are kept: an id is one object's as long as that lives.
        found = _SNAPSHOTS[key] = ([list(listed) for listed in lists], seen)
        if len(_SNAPSHOTS) > 32:
            _SNAPSHOTS.popitem(last=False)
    return found[1]


KINDS = (IP_CLASSES, IP_POOLS, IP_CLAIMS, IP_ALLOCATIONS)


class World:
    """Objects by kind and key, with uid, resourceVersion, finalizers and the write-once rules."""

    def __init__(self) -> None:
        self.objects: dict[Resource, dict[Key, Raw]] = {kind: {} for kind in KINDS}
        self.seconds = 0
        self._numbers = itertools.count(1_000_000)

    def snapshot(self) -> Snapshot:
        """Everything as it is now."""
        return snapshot_of(*(self.listed(kind) for kind in KINDS))

    def listed(self, kind: Resource) -> list[Raw]:
        """All objects of a kind; never changed afterwards."""
        return list(self.objects[kind].values())

    def get(self, kind: Resource, key: Key) -> Raw | None:
        """One object."""
        return self.objects[kind].get(key)

    def put(self, kind: Resource, raw: Raw) -> None:
        """Store an object as it is."""
        self.objects[kind][key_of(raw)] = raw

    def create(self, kind: Resource, obj: Raw) -> Raw:
        """Raises AlreadyExists when the name is taken."""
        if key_of(obj) in self.objects[kind]:
            raise AlreadyExists(f"{key_of(obj)}")
        raw = copy.deepcopy(obj)
        raw["metadata"] |= {
            "uid": f"uid-{next(self._numbers)}",
            "creationTimestamp": self.stamp(),
            "generation": 1,
        }
        return self._store(kind, raw)

    def stamp(self) -> str:
        """The time as the API writes it."""
        moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.seconds)
        return timestamp(moment)

    def execute(self, write: writes.Write) -> None:
        """Do what the write says, or raise as the API server would."""
        match write:
            case writes.Create():
                try:
                    self.create(write.resource, write.obj)
                except AlreadyExists:
                    if not write.ok_if_exists:
                        raise
            case writes.ApplyStatus():
                self._apply_status(write)
            case writes.JsonPatch():
                self._patch(write)
            case writes.Replace():
                raw = self._same(write.resource, key_of(write.obj), None, write.obj["metadata"]["resourceVersion"])
                self._store(write.resource, {**copy.deepcopy(write.obj), "metadata": raw["metadata"]})
            case writes.Delete():
                self._delete(write)
            case writes.AddFinalizer():
                raw = self._same(write.resource, key_of(write.obj), None, write.obj["metadata"]["resourceVersion"])
                if not raw["metadata"].get("deletionTimestamp"):
                    raw["metadata"]["finalizers"] = [*raw["metadata"]["finalizers"], write.finalizer]
                    self._store(write.resource, raw)
            case writes.DropFinalizer():
                self._drop(write)
            case _:
                pass

    def delete(self, kind: Resource, key: Key) -> None:
        """A user's delete."""
        raw = copy.deepcopy(self.objects[kind][key])
        if raw["metadata"].get("finalizers"):
            raw["metadata"]["deletionTimestamp"] = raw["metadata"].get("deletionTimestamp") or self.stamp()
            raw["metadata"]["generation"] += 1
            self._store(kind, raw)
        else:
            del self.objects[kind][key]

    def _store(self, kind: Resource, raw: Raw) -> Raw:
        raw["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.objects[kind][key_of(raw)] = raw
        return raw

    def _same(self, kind: Resource, key: Key, uid: str | None, version: str | None) -> Raw:
        raw = self.objects[kind].get(key)
        if raw is None or (uid is not None and raw["metadata"]["uid"] != uid):
            raise NotFound(f"{key}")
        if version is not None and raw["metadata"]["resourceVersion"] != version:
            raise Conflict(f"{key}")
        return copy.deepcopy(raw)

    def _apply_status(self, write: writes.ApplyStatus) -> None:
        raw = self._same(write.resource, write.key, None, write.resource_version)
        before, after = (raw.get("status") or {}).get("cidr"), write.status.get("cidr")
        grown = after and before and Block.parse(after).contains(Block.parse(before))
        if before and before != after and not (write.resource is IP_POOLS and grown):
            raise Invalid("cidr is written once")
        blocks = (raw.get("status") or {}).get("blocks")
        if blocks and blocks != write.status.get("blocks"):
            raise Invalid("blocks are written once")
        if (raw.get("status") or {}) != write.status:
            raw["status"] = copy.deepcopy(write.status)
            self._store(write.resource, raw)

    def _patch(self, write: writes.JsonPatch) -> None:
        test, add = write.ops
        raw = self._same(write.resource, write.key, None, test["value"])
        raw["metadata"]["annotations"] = dict(add["value"])
        self._store(write.resource, raw)

    def _delete(self, write: writes.Delete) -> None:
        try:
            self._same(write.resource, write.key, write.uid, write.resource_version)
        except NotFound:
            return
        self.delete(write.resource, write.key)

    def _drop(self, write: writes.DropFinalizer) -> None:
        try:
            raw = self._same(write.resource, key_of(write.obj), write.obj["metadata"]["uid"], None)
        except NotFound:
            return
        left = [name for name in raw["metadata"]["finalizers"] if name != write.finalizer]
        if raw["metadata"].get("deletionTimestamp") and not left:
            del self.objects[write.resource][key_of(raw)]
        elif left != raw["metadata"]["finalizers"]:
            raw["metadata"]["finalizers"] = left
            self._store(write.resource, raw)

    def conditions(self, kind: Resource, key: Key) -> dict[str, Raw]:
        """Conditions by type."""
        raw = self.get(kind, key) or {}
        return {entry["type"]: entry for entry in (raw.get("status") or {}).get("conditions") or ()}

    def published(self) -> list[tuple[str, str]]:
        """(name, CIDR) of every bound Block claim that nobody gives back."""
        return [
            (raw["metadata"]["name"], raw["status"]["cidr"])
            for raw in self.listed(IP_CLAIMS)
            if (raw.get("status") or {}).get("cidr")
            and raw["spec"]["target"] == ipam.TARGET_BLOCK
            and not raw["metadata"].get("deletionTimestamp")
        ]
