"""What a program knows of one kind: objects by key, with indexes that are never behind them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource
from netclaim.kube import metrics
from netclaim.kube.objects import key_of, uid_of, version_of

log = logging.getLogger(__name__)

IndexFn: TypeAlias = Callable[[Raw], Iterable[Hashable]]


@dataclass(frozen=True, slots=True)
class Change:
    """One object appeared, changed or went. `initial` marks what the first list brought."""

    kind: Literal["added", "modified", "deleted"]
    key: Key
    old: Raw | None
    new: Raw | None
    initial: bool = False


class _Index:
    """value -> keys. A value that one object has (a uid) is stored without a set of its own: most are of that sort."""

    def __init__(self, fn: IndexFn) -> None:
        self._fn = fn
        self._keys: dict[Hashable, Key | dict[Key, None]] = {}

    def values(self, raw: Raw) -> set[Hashable]:
        return set(self._fn(raw))

    def move(self, key: Key, before: set[Hashable], after: set[Hashable]) -> None:
        for value in before - after:
            held = self._keys[value]
            if isinstance(held, tuple) or len(held) == 1:
                del self._keys[value]
            else:
                del held[key]
        for value in after - before:
            held_or_none = self._keys.get(value)
            if held_or_none is None:
                self._keys[value] = key
            elif isinstance(held_or_none, tuple):
                self._keys[value] = {held_or_none: None, key: None}
            else:
                held_or_none[key] = None

    def keys(self, value: Hashable) -> Iterable[Key]:
        held = self._keys.get(value, ())
        return (held,) if isinstance(held, tuple) and held else held


class Store:
    """Objects of one kind by (namespace, name). Nobody but its reflector writes; nobody ever changes an object.

    Every change takes effect on objects and indexes in one step, then subscribers hear of it, in order.
    """

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self._objects: dict[Key, Raw] = {}
        self._indexes: dict[str, _Index] = {}
        self._subscribers: list[Callable[[Change], None]] = []

    # -- reading ---------------------------------------------------------------------------------------------------

    def get(self, key: Key) -> Raw | None:
        """The object under `key`, or None."""
        return self._objects.get(key)

    def all(self) -> Iterable[Raw]:
        """Every object. Copy it before anything that awaits."""
        return self._objects.values()

    def keys(self) -> Iterable[Key]:
        """Every key. Copy it before anything that awaits."""
        return self._objects.keys()

    def by(self, index_name: str, value: Hashable) -> list[Raw]:
        """The objects for which the index function named `value`, in the order in which they came.

        Raises:
            KeyError: there is no such index.
        """
        return [self._objects[key] for key in self._indexes[index_name].keys(value)]

    def any_by(self, index_name: str, value: Hashable) -> Raw | None:
        """One of the objects that `by` gives, None when there is none; costs the same however many there are.

        Raises:
            KeyError: there is no such index.
        """
        key = next(iter(self._indexes[index_name].keys(value)), None)
        return self._objects[key] if key is not None else None

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    # -- wiring ----------------------------------------------------------------------------------------------------

    def add_index(self, name: str, fn: IndexFn) -> None:
        """Look objects up by what `fn` says of them. `fn` is pure; one that raises indexes that object under nothing.

        The same name again is left alone when it is the same function.

        Raises:
            ValueError: the name is taken by another function.
        """
        present = self._indexes.get(name)
        if present is not None:
            if present._fn is not fn:  # noqa: SLF001 - private to this module
                raise ValueError(f"index {name!r} of {self.resource.plural} is already another function")
            return
        index = _Index(fn)
        self._indexes[name] = index
        for key, raw in self._objects.items():
            index.move(key, set(), self._values(index, raw))

    def subscribe(self, fn: Callable[[Change], None]) -> None:
        """Call `fn` with every change from now on."""
        self._subscribers.append(fn)

    def unsubscribe(self, fn: Callable[[Change], None]) -> None:
        """No longer call `fn`."""
        if fn in self._subscribers:
            self._subscribers.remove(fn)

    # -- writing (the reflector) -----------------------------------------------------------------------------------

    def put(self, raw: Raw, *, initial: bool = False, force: bool = False) -> None:
        """Take an object in, unless a later version of it is known (`force`: even then).

        An object of another uid under the same key is a deletion and an addition.
        """
        key = key_of(raw)
        old = self._objects.get(key)
        if old is None:
            self._set(key, None, raw, Change("added", key, None, raw, initial))
            return
        if uid_of(old) != uid_of(raw):
            if version_of(raw) < version_of(old) and not force:
                return
            self._set(key, old, None, Change("deleted", key, old, None, initial))
            self._set(key, None, raw, Change("added", key, None, raw, initial))
            return
        ours, theirs = version_of(old), version_of(raw)
        if old["metadata"].get("resourceVersion") == raw["metadata"].get("resourceVersion") or (
            theirs < ours and not force
        ):
            return
        self._set(key, old, raw, Change("modified", key, old, raw, initial))

    def remove(self, key: Key, *, version: int | None = None) -> None:
        """Forget an object, unless a version later than `version` is known."""
        old = self._objects.get(key)
        if old is not None and (version is None or version_of(old) <= version):
            self._set(key, old, None, Change("deleted", key, old, None))

    def replace(self, objects: Mapping[Key, Raw], *, version: int, initial: bool, force: bool) -> None:
        """Make the store equal to a full list as of `version`; what is missing from it is deleted.

        An object that became known in a later version than the list stays, unless `force`.
        """
        for key in [key for key in self._objects if key not in objects]:
            self.remove(key, version=None if force else version)
        for raw in objects.values():
            self.put(raw, initial=initial, force=force)

    def _values(self, index: _Index, raw: Raw) -> set[Hashable]:
        try:
            return index.values(raw)
        except Exception as error:  # noqa: BLE001 - a malformed object must not stop the stream
            self.report_malformed(raw, error)
            return set()

    def report_malformed(self, raw: Raw, error: Exception) -> None:
        """Count and log an object that one of our functions could not read."""
        metrics.MALFORMED.labels(self.resource.plural).inc()
        log.warning("cannot read %s %s: %s: %s", self.resource.kind, "/".join(key_of(raw)), type(error).__name__, error)

    def _set(self, key: Key, old: Raw | None, new: Raw | None, change: Change) -> None:
        for index in self._indexes.values():
            before = self._values(index, old) if old is not None else set()
            after = self._values(index, new) if new is not None else set()
            if before != after:
                index.move(key, before, after)
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        for subscriber in list(self._subscribers):
            try:
                subscriber(change)
            except Exception as error:  # noqa: BLE001 - one bad mapping must not hide the change from the others
                self.report_malformed(new or old or {"metadata": {"name": "?"}}, error)
