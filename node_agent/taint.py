"""The start-up taint: a Node that registers with it takes no Pods until its agent is ready.

A cluster's operator sets it (kubelet --register-with-taints); the agent takes it off its own Node, once, when it serves
CNI calls. That the account cannot touch another Node, or anything else of its own, is an admission policy's to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent.taint")

TAINT_KEY: Final = "networking.datumapis.com/agent-not-ready"
LOOK_AGAIN: Final = 1.0
"""Seconds between two looks at whether the agent is ready."""

AGAIN: Final = 5.0
"""Seconds until the API server is asked again when it did not answer, or the Node changed meanwhile."""


def removal(node: Raw) -> list[Raw]:
    """The patch that takes the taint, and nothing else, off this version of the Node; empty when it has none."""
    taints = (node.get("spec") or {}).get("taints") or []
    kept = [taint for taint in taints if taint.get("key") != TAINT_KEY]
    if len(kept) == len(taints):
        return []
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": node["metadata"]["resourceVersion"]}
    if not kept:
        return [test, {"op": "remove", "path": "/spec/taints"}]
    return [test, {"op": "replace", "path": "/spec/taints", "value": kept}]


async def remove_when_ready(client: Client, node_name: str, obstacles: Callable[[], list[str]]) -> None:
    """Wait until nothing keeps the agent from its work, then take the taint off its Node."""
    while obstacles():  # noqa: ASYNC110 - readiness is a sum of many states, none of which tells of a change
        await asyncio.sleep(LOOK_AGAIN)
    while True:
        try:
            patch = removal(await client.get(resources.NODES, None, node_name))
            if patch:
                await client.json_patch(resources.NODES, None, node_name, patch)
                log.info("start-up taint removed", node=node_name)
        except ApiError as error:
            log.warning("the start-up taint cannot be removed yet", node=node_name, error=str(error))
            await asyncio.sleep(AGAIN)
        else:
            return
