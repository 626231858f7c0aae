"""A gateway that counts what is written through it, and makes one write after the other go wrong."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from tests.faults.gateway import Fault, Gateway, _reset

WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass
class Stage(Gateway):
    """`away`: nothing gets through. `each_first`: how each write fails when it is tried first. `on_first`: called when
    a write has taken effect for the first time, before the reply, which is then lost.

    A write is what it is by verb and path (for a create: by the collection); events and leases do not count.
    """

    away: bool = False
    each_first: Fault | None = None
    on_first: Callable[[str], None] | None = None
    writes: Counter[str] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)

    def leave(self) -> None:
        """The API server is away from here on: its connections too."""
        self.away = True
        self.cut()

    def come_back(self) -> None:
        """It is there again."""
        self.away = False

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        what = f"{request.method} {request.path}"
        self.requests[what] += 1
        if self.away:
            return await _reset(request)
        counts = request.method in WRITES and "/events" not in request.path and "/leases" not in request.path
        if not counts:
            return await super()._serve(request)
        self.writes[what] += 1
        if self.writes[what] > 1:
            return await super()._serve(request)
        fault = self.each_first
        if fault is Fault.REFUSED:
            return await self._gone_wrong(request, fault)
        reply = await super()._serve(request)
        if fault is Fault.LOST:
            return await self._gone_wrong(request, fault)
        if self.on_first is not None:
            self.on_first(what)
            return await _reset(request)
        return reply

    async def _gone_wrong(self, request: web.Request, fault: Fault) -> web.Response:
        self.happened[fault] += 1
        return await _reset(request)
