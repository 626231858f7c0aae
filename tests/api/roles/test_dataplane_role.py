"""networkinterface-dataplane-role: acting as an account that is bound to it (R23)."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from netclaim.api import networking, resources
from netclaim.api.conditions import status_of
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import Forbidden
from tests.api.roles.accounts import acting_as, granted, role_ref, user_subject
from tests.control_plane import ControlPlane
from tests.waiting import until

ROLE = "networkinterface-dataplane-role"
MANIFEST = Path(__file__).resolve().parents[3] / "charts" / "nso" / "templates" / f"{ROLE}.yaml"
KINDS = (resources.INTERFACES, resources.CLAIMS)
PROGRAMMED = {"type": "Programmed", "status": "True", "reason": "Programmed", "message": "said by the data plane"}


def interface_body(namespace: str, name: str) -> Raw:
    """An interface as NSO would make it."""
    address = {"family": "IPv4", "address": "10.1.0.7/32", "gateway": "10.1.0.1", "primary": True}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"network": {"name": "default"}, "mtu": 1400, "addresses": [address]},
    }


def claim_body(namespace: str, name: str) -> Raw:
    """A consumer's claim."""
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"network": {"name": "default"}}}


BODIES: dict[str, Callable[[str, str], Raw]] = {
    resources.INTERFACES.kind: interface_body,
    resources.CLAIMS.kind: claim_body,
}


@pytest.fixture
async def house(cell: Client) -> AsyncIterator[str]:
    """A namespace with one interface and one claim, both named web-0-eth0."""
    name = f"house-{secrets.token_hex(3)}"
    await cell.create(resources.NAMESPACES, {"metadata": {"name": name}})
    for resource in KINDS:
        await cell.create(resource, BODIES[resource.kind](name, "web-0-eth0"))
    yield name
    await cell.delete(resources.NAMESPACES, None, name)


@pytest.fixture
async def dataplane(control_plane: ControlPlane, cell: Client, house: str) -> AsyncIterator[Client]:
    """An account that holds the role in the whole cell and nothing else."""
    control_plane.kubectl("apply", "-f", str(MANIFEST))
    user = f"dataplane-{secrets.token_hex(3)}"
    binding = {"metadata": {"name": user}, "subjects": [user_subject(user)], "roleRef": role_ref("ClusterRole", ROLE)}
    await cell.create(resources.CLUSTER_ROLE_BINDINGS, binding)
    async with acting_as(control_plane, user) as client:

        async def known() -> bool:
            return ("get", networking_group(), "networkinterfaces") in await granted(client, house)

        await until(known, what="the binding known to the API server")
        yield client
    await cell.delete(resources.CLUSTER_ROLE_BINDINGS, None, user)


def networking_group() -> str:
    return resources.INTERFACES.group


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.plural)
async def test_it_reads_interfaces_and_claims_in_every_namespace(
    dataplane: Client, house: str, resource: Resource
) -> None:
    """R23: get, list and watch."""
    assert (await dataplane.get(resource, house, "web-0-eth0"))["metadata"]["name"] == "web-0-eth0"
    (page,) = [page async for page in dataplane.list_pages(resource)]
    assert [raw for raw in page.items if raw["metadata"]["namespace"] == house]
    version = str(int(page.resource_version) - 1)
    watch = dataplane.watch(resource, house, resource_version=version, timeout_seconds=1)
    assert [event.type async for event in watch if event.type == "ERROR"] == []


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.plural)
async def test_it_writes_both_statuses_by_apply_and_by_update(
    dataplane: Client, house: str, resource: Resource
) -> None:
    """R23: what a data plane says is stored."""
    metadata = {"name": "web-0-eth0", "namespace": house}
    status = {"conditions": [PROGRAMMED]}
    await dataplane.apply_status(resource, {"metadata": metadata, "status": status}, manager="other-plane")
    found = await dataplane.get(resource, house, "web-0-eth0")
    assert status_of(found, networking.PROGRAMMED) == "True"
    found["status"]["conditions"][0]["status"] = "False"
    await dataplane.replace(resource, found, subresource="status")
    found = await dataplane.get(resource, house, "web-0-eth0")
    assert status_of(found, networking.PROGRAMMED) == "False"


Act = Callable[[Client, Resource, str], Awaitable[object]]


async def create(client: Client, resource: Resource, namespace: str) -> object:
    return await client.create(resource, BODIES[resource.kind](namespace, "another"))


async def replace(client: Client, resource: Resource, namespace: str) -> object:
    return await client.replace(resource, await client.get(resource, namespace, "web-0-eth0"))


async def patch(client: Client, resource: Resource, namespace: str) -> object:
    ops = [{"op": "add", "path": "/metadata/labels", "value": {"mine": "yes"}}]
    return await client.json_patch(resource, namespace, "web-0-eth0", ops)


async def delete(client: Client, resource: Resource, namespace: str) -> object:
    return await client.delete(resource, namespace, "web-0-eth0")


async def delete_all(client: Client, resource: Resource, namespace: str) -> object:
    return await client.request("DELETE", resource.path(namespace))


@pytest.mark.parametrize("act", [create, replace, patch, delete, delete_all], ids=lambda act: act.__name__)
@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.plural)
async def test_it_neither_makes_changes_nor_deletes_interfaces_and_claims(
    dataplane: Client, house: str, resource: Resource, act: Act
) -> None:
    """R23: nothing but the status; who holds an address is not the data plane's to decide."""
    with pytest.raises(Forbidden):
        await act(dataplane, resource, house)


async def test_it_is_granted_exactly_that(dataplane: Client, house: str) -> None:
    """R23: nothing else, whatever kind and verb: the API server's own list of what the account may do."""
    group = networking_group()
    read = {(verb, group, resource.plural) for verb in ("get", "list", "watch") for resource in KINDS}
    write = {(verb, group, f"{resource.plural}/status") for verb in ("update", "patch") for resource in KINDS}
    assert await granted(dataplane, house) == read | write
