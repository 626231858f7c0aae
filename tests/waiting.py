"""Waiting for a condition with a deadline: the only way in which a test lets time pass."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(
    condition: Callable[[], T | Awaitable[T]], *, timeout: float = 30.0, what: str = "", interval: float = 0.05
) -> T:
    """Call ``condition`` until it returns something true, and return that.

    Raises AssertionError after ``timeout`` seconds, naming ``what`` was waited for and the last value or error seen.
    """
    deadline = time.monotonic() + timeout
    last: object = None
    while True:
        try:
            outcome = condition()
            value = await outcome if inspect.isawaitable(outcome) else outcome
            if value:
                return value
            last = value
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s: {what or condition} (last seen: {last!r})")
        await asyncio.sleep(interval)
