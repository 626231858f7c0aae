"""Turns: so many calls at work, the others in the order in which they came.

A call that is in a hurry (an ADD: its runtime holds a sandbox, and can do other things meanwhile) is refused as soon as
it is clear that it would end too late, from its place in the queue and from how long such calls have taken lately.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final

from node_agent import metrics

_WEIGHT: Final = 1 / 8
"""How much a call counts that was faster than calls have been; a slower one counts at once."""
_CERTAIN: Final = 0.2
"""For this part of its time a call may wait whatever others have taken: an agent that is slow still serves some."""


class LateError(Exception):
    """The call would end too late."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    turn: asyncio.Future[None]
    arrived: float
    hurried: bool


class Turns:
    """Hands out turns. Times are the event loop's, in seconds."""

    def __init__(self, most: int, prompt: float) -> None:
        """``most``: turns at a time; ``prompt``: how long after its arrival a call in a hurry may end."""
        self._most = most
        self._prompt = prompt
        self._taken = 0
        self._usual = 0.0
        """Seconds that a call in a hurry has taken lately, once it had its turn."""
        self._waiters: deque[_Waiter] = deque()
        self._crowded_since: float | None = None

    @property
    def waiting(self) -> int:
        """Calls that wait."""
        return len(self._waiters)

    @property
    def crowded(self) -> float:
        """Seconds since when there always was a call that waited; 0 when none does."""
        if self._crowded_since is None:
            return 0.0
        return asyncio.get_running_loop().time() - self._crowded_since

    async def take(self, *, hurried: bool) -> None:
        """Wait for a turn. Raises LateError."""
        if self._taken < self._most and not self._waiters:
            self._taken += 1
            return
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop.create_future(), loop.time(), hurried)
        self._waiters.append(waiter)
        self._look()
        try:
            async with asyncio.timeout(self._prompt if hurried else None):
                await waiter.turn
        except TimeoutError as error:
            self._leave(waiter)
            raise LateError from error
        except asyncio.CancelledError:
            self._leave(waiter)
            raise

    def give_back(self, *, took: float | None = None) -> None:
        """End a turn; ``took``: the seconds that it lasted, of a call in a hurry that was done."""
        if took is not None:
            self._usual = max(took, self._usual + (took - self._usual) * _WEIGHT)
        self._taken -= 1
        self._look()

    def _leave(self, waiter: _Waiter) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)
        elif waiter.turn.done() and not waiter.turn.cancelled() and waiter.turn.exception() is None:
            self._taken -= 1  # the turn came at the moment in which it was no longer wanted
        self._look()

    def _look(self) -> None:
        """Refuse whoever would end too late, hand out what is free.

        While all turns are taken, as many calls end within the usual time as there are turns.
        """
        now = asyncio.get_running_loop().time()
        usual = min(self._usual, self._prompt * (1 - _CERTAIN))
        staying: deque[_Waiter] = deque()
        for waiter in self._waiters:
            if waiter.turn.done():
                continue
            free = self._taken < self._most
            ahead = 0.0 if free else usual * (len(staying) + 1) / self._most
            if waiter.hurried and now - waiter.arrived + ahead + usual > self._prompt:
                waiter.turn.set_exception(LateError())
            elif free:
                self._taken += 1
                waiter.turn.set_result(None)
            else:
                staying.append(waiter)
        self._waiters = staying
        metrics.QUEUED.set(len(staying))
        if not staying:
            self._crowded_since = None
        elif self._crowded_since is None:
            self._crowded_since = now
