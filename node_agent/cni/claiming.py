"""Reading and claiming a VPCAttachment at the API server, each within seconds or refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from netclaim.api import managers, resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError, Lost, NotFound, ServerError, Throttled
from node_agent.cni import refusals
from node_agent.cni.protocol import Pointer
from node_agent.cni.refusals import Refusal

ANSWER_WITHIN: Final = 6.0
"""Seconds for one request: two of them, and the kernel's work, must fit into the deadline of a call."""


async def read(client: Client, pointer: Pointer) -> Raw:
    """The attachment as it is now. Raises Refusal (ATTACHMENT_GONE, API_AWAY, API_REFUSED)."""
    async with _answered(pointer):
        return await client.get(resources.ATTACHMENTS, pointer.namespace, pointer.name)


async def claim(client: Client, pointer: Pointer, resource_version: str, facts: dict[str, Any]) -> Raw:
    """Apply the node's facts, only over the version that was read.

    Raises:
        Conflict: the attachment has changed since; read it again and decide anew.
        Refusal: ATTACHMENT_GONE, API_AWAY (the outcome is then unknown), API_REFUSED.
    """
    metadata = {"namespace": pointer.namespace, "name": pointer.name, "resourceVersion": resource_version}
    async with _answered(pointer):
        return await client.apply_status(
            resources.ATTACHMENTS, {"metadata": metadata, "status": facts}, manager=managers.NODE_AGENT
        )


@asynccontextmanager
async def _answered(pointer: Pointer) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(ANSWER_WITHIN):
            yield
    except TimeoutError as error:
        raise Refusal(refusals.API_AWAY, attachment=pointer, why=f"no answer within {ANSWER_WITHIN:g} s") from error
    except NotFound as error:
        raise Refusal(refusals.ATTACHMENT_GONE, attachment=pointer) from error
    except (Lost, ServerError, Throttled) as error:
        raise Refusal(refusals.API_AWAY, attachment=pointer, why=error) from error
    except ApiError as error:
        if error.status == 409:
            raise
        raise Refusal(refusals.API_REFUSED, attachment=pointer, why=error) from error
