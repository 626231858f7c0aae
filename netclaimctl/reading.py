"""Reading control planes for one command, and ending it with exit code 2 and one line when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypeVar

import typer

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError, ConfigError, NotFound
from netclaim.kube.objects import uid_of
from netclaimctl.objects import CellObjects, IpamObjects
from netclaimctl.printing import UNREADABLE, remark

T = TypeVar("T")

CellKubeconfig = Annotated[
    str | None,
    typer.Option(help="kubeconfig of the cell; without it $KUBECONFIG, or the cluster that this runs in"),
]
IpamKubeconfig = Annotated[
    str | None, typer.Option(help="kubeconfig of the IPAM control plane; default: the cell's own API server")
]
"""Options that several commands have."""


class UnreadableError(Exception):
    """A control plane that does not answer the question; the text says which and why."""


@asynccontextmanager
async def connected(kubeconfig: str | None, plane: str) -> AsyncIterator[Client]:
    """A client of the `plane` (for messages).

    Raises:
        UnreadableError: it cannot be reached, or refuses.
    """
    client = None
    try:
        client = await Client.connect(kubeconfig, user_agent="netclaimctl")
        yield client
    except ConfigError as error:
        raise UnreadableError(f"{plane}: {error}") from error
    except ApiError as error:
        where = f" at {client.server}" if client is not None else ""
        raise UnreadableError(f"{plane}{where} cannot be read: {error}") from error
    finally:
        if client is not None:
            await client.close()


def run(work: Coroutine[Any, Any, T]) -> T:
    """The result; ends the program with 2 and one line when a control plane does not answer."""
    try:
        return asyncio.run(work)
    except UnreadableError as error:
        remark(f"netclaimctl: {error}")
        raise typer.Exit(UNREADABLE) from None


async def ipam_objects(client: Client, project: str | None) -> IpamObjects:
    """IPAM's objects. Allocations come first: a claim made in between is then simply one without an allocation yet."""
    allocations = tuple(await client.list(resources.IP_ALLOCATIONS, project))
    claims = tuple(await client.list(resources.IP_CLAIMS, project))
    pools = tuple(await client.list(resources.IP_POOLS, project))
    classes = tuple(await client.list(resources.IP_CLASSES, project))
    return IpamObjects(classes=classes, pools=pools, claims=claims, allocations=allocations)


async def control_plane_id(client: Client) -> str:
    """By what IPAM knows the cell."""
    return uid_of(await client.get(resources.NAMESPACES, None, "kube-system"))


async def cell_objects(client: Client) -> CellObjects:
    """A cell's objects; kinds of a data plane that is not ours may not be served there."""

    async def listed(resource: Resource) -> tuple[Raw, ...]:
        return tuple(await client.list(resource))

    async def listed_where_served(resource: Resource) -> tuple[Raw, ...]:
        try:
            return await listed(resource)
        except NotFound:
            return ()

    return CellObjects(
        control_plane=await control_plane_id(client),
        # From what is made last to what is made first, so that whatever an object names was there before it.
        definitions=await listed_where_served(resources.NADS),
        attachments=await listed_where_served(resources.ATTACHMENTS),
        identifiers=await listed_where_served(resources.IDENTIFIERS),
        claims=await listed(resources.CLAIMS),
        interfaces=await listed(resources.INTERFACES),
        subnets=await listed(resources.SUBNETS),
        networks=await listed(resources.NETWORKS),
    )
