"""Projects in IPAM: one project's account sees and touches nothing of another's (R14)."""

import secrets
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import NamedTuple

import pytest

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import Forbidden
from tests.api.roles.accounts import acting_as, granted, role_ref, user_subject
from tests.conftest import create_project
from tests.control_plane import ControlPlane
from tests.waiting import until

KINDS = (resources.IP_CLASSES, resources.IP_POOLS, resources.IP_CLAIMS, resources.IP_ALLOCATIONS)
ALL_VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]


class Pair(NamedTuple):
    """Two projects with the same class names, and the account of the first."""

    own: str
    other: str
    account: Client


def ip_claim(project: str, name: str) -> Raw:
    return {
        "metadata": {"name": name, "namespace": project},
        "spec": {"className": "public-unicast-ipv4", "target": "Block"},
    }


def allocation(project: str) -> Raw:
    spec = {"poolRef": {"name": "public-ipv4"}, "cidr": "198.51.100.9/32", "purpose": "Reservation"}
    return {"metadata": {"name": "kept", "namespace": project}, "spec": spec}


@pytest.fixture
async def pair(control_plane: ControlPlane, ipam: Client) -> AsyncIterator[Pair]:
    """The account has every verb on every IPAM kind in its own project's namespace, by a Role there."""
    suffix = secrets.token_hex(3)
    own, other = f"alpha-{suffix}", f"beta-{suffix}"
    for project, like in ((own, "project-alpha"), (other, "project-beta")):
        await create_project(ipam, project, like=like)
        await ipam.create(resources.IP_CLAIMS, ip_claim(project, "kept"))
        await ipam.create(resources.IP_ALLOCATIONS, allocation(project))
    role = {
        "metadata": {"name": "project", "namespace": own},
        "rules": [{"apiGroups": [resources.IP_CLAIMS.group], "resources": ["*"], "verbs": ALL_VERBS}],
    }
    await ipam.create(resources.ROLES, role)
    user = f"account-of-{own}"
    binding = {
        "metadata": {"name": "project", "namespace": own},
        "subjects": [user_subject(user)],
        "roleRef": role_ref("Role", "project"),
    }
    await ipam.create(resources.ROLE_BINDINGS, binding)
    async with acting_as(control_plane, user, plane="ipam") as account:

        async def known() -> bool:
            return bool(await granted(account, own))

        await until(known, what="the binding known to the API server")
        yield Pair(own, other, account)
    for project in (own, other):
        await ipam.delete(resources.NAMESPACES, None, project)


async def names_of(client: Client, resource: Resource, project: str) -> list[str]:
    return [raw["metadata"]["name"] for raw in await client.list(resource, project)]


async def watched(client: Client, resource: Resource, project: str | None) -> list[str]:
    """Types of the events of a short watch from now on."""
    async with aclosing(client.watch(resource, project, resource_version="0", timeout_seconds=1)) as events:
        return [event.type async for event in events]


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.plural)
async def test_an_account_reads_its_own_project_and_nothing_of_another(
    pair: Pair, ipam: Client, resource: Resource
) -> None:
    """R14: get, list and watch, in the other's namespace and across all; the same calls work at home."""
    account = pair.account
    own = await names_of(account, resource, pair.own)
    assert own
    assert (await account.get(resource, pair.own, own[0]))["metadata"]["namespace"] == pair.own
    assert "ADDED" in await watched(account, resource, pair.own)
    (theirs, *_) = await names_of(ipam, resource, pair.other)
    with pytest.raises(Forbidden):
        await account.get(resource, pair.other, theirs)
    for project in (pair.other, None):
        with pytest.raises(Forbidden):
            await account.list(resource, project)
        with pytest.raises(Forbidden):
            await watched(account, resource, project)


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.plural)
async def test_an_account_cannot_tell_whether_a_name_exists_in_another_project(pair: Pair, resource: Resource) -> None:
    """R14: the refusal for a name that is there reads as that for one that is not."""
    told = []
    for name in ("kept", "never"):
        with pytest.raises(Forbidden) as refused:
            await pair.account.get(resource, pair.other, name)
        told.append(refused.value.message.replace(name, "NAME"))
    assert told[0] == told[1]


async def test_an_account_writes_its_own_project_and_nothing_of_another(pair: Pair, ipam: Client) -> None:
    """R14: no claim, no release and no pool in the other's address space."""
    account = pair.account
    await account.create(resources.IP_CLAIMS, ip_claim(pair.own, "new"))
    await account.delete(resources.IP_CLAIMS, pair.own, "new")
    with pytest.raises(Forbidden):
        await account.create(resources.IP_CLAIMS, ip_claim(pair.other, "new"))
    for resource in (resources.IP_CLAIMS, resources.IP_ALLOCATIONS):
        with pytest.raises(Forbidden):
            await account.delete(resource, pair.other, "kept")
    ops = [{"op": "replace", "path": "/spec/cidr", "value": "198.51.0.0/16"}]
    with pytest.raises(Forbidden):
        await account.json_patch(resources.IP_POOLS, pair.other, "public-ipv4", ops)
    assert await names_of(ipam, resources.IP_CLAIMS, pair.other) == ["kept"]


async def test_an_account_is_granted_nothing_outside_its_project(pair: Pair) -> None:
    """R14: the API server's own list for the other's namespace is empty."""
    assert await granted(pair.account, pair.other) == set()
