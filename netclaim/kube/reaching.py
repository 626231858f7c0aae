"""Reaching an API server at the start: asked until it answers, with what is wrong said each time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

from netclaim.kube.backoff import Backoff
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import ApiError, Forbidden, Lost, NotFound, Unauthorized

log = logging.getLogger(__name__)


async def reach(cluster: Cluster, unreached: dict[Cluster, str], stop: asyncio.Event, *, identify: bool) -> bool:
    """Ask until the server answers; False when `stop` was set first. `unreached` holds the reason meanwhile."""
    backoff = Backoff(0.8, 30.0, 120.0)
    client = cluster.client
    while True:
        try:
            if not await _unless(stop, _greet(cluster, identify=identify)):
                return False
        except ApiError as error:
            delay = max(backoff.next(), error.retry_after or 0.0)
            unreached[cluster] = str(error)
            log.warning(
                "cannot use the API server %s (%s): %s. %s Trying again in %.1f s",
                client.server,
                client.source,
                error,
                _advice(error),
                delay,
            )
            if not await _unless(stop, asyncio.sleep(delay)):
                return False
        else:
            unreached.pop(cluster, None)
            log.info("connected to the API server %s (%s)", client.server, client.source)
            return True


async def _unless(stop: asyncio.Event, work: Awaitable[object]) -> bool:
    """Await `work`; False when `stop` was set before it ended."""
    task = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return False
        task.result()
        return True
    finally:
        task.cancel()
        stopped.cancel()


async def _greet(cluster: Cluster, *, identify: bool) -> None:
    if identify:
        await cluster.identify()
    else:
        await cluster.client.request("GET", "/version")


def _advice(error: ApiError) -> str:
    """What to check."""
    if isinstance(error, Lost):
        return "Check that it runs, that this address is right, and that nothing blocks the way."
    if isinstance(error, Unauthorized):
        return "Check that the token or client certificate is valid there."
    if isinstance(error, Forbidden):
        return "Check the account's role: it needs get on the namespace kube-system."
    if isinstance(error, NotFound):
        return "Check that this address is an API server's."
    return "Check the server's own log."
