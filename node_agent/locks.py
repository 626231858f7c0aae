"""Locks by key, and the gate that lets a VPC be taken down only while nobody works in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class KeyedLocks:
    """One lock per key, forgotten when nobody holds or awaits it."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the key's lock; first come, first served."""
        lock, users = self._locks.get(key, (asyncio.Lock(), 0))
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks[key]
            if users == 1:
                del self._locks[key]
            else:
                self._locks[key] = (lock, users - 1)


class Gate:
    """Many may use a key at once; closing it is alone."""

    def __init__(self) -> None:
        self._users: dict[Hashable, int] = {}
        self._closing: dict[Hashable, asyncio.Event] = {}

    @asynccontextmanager
    async def using(self, key: Hashable) -> AsyncIterator[None]:
        """Use the key; waits while it is being closed."""
        while key in self._closing:
            await self._closing[key].wait()
        self._users[key] = self._users.get(key, 0) + 1
        try:
            yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key]

    @asynccontextmanager
    async def closing(self, key: Hashable) -> AsyncIterator[bool]:
        """Close the key. Yields False, and closes nothing, while somebody uses it or closes it already."""
        if key in self._users or key in self._closing:
            yield False
            return
        opened = self._closing[key] = asyncio.Event()
        try:
            yield True
        finally:
            del self._closing[key]
            opened.set()
