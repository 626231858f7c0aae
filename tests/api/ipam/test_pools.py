"""Pools: deleted under live claims, overlapping, of mixed classes, carved from another project."""

import asyncio
import secrets
from ipaddress import ip_network

import pytest

from netclaim.api import ipam as api
from netclaim.api import resources
from netclaim.kube.client import Client
from netclaim.kube.errors import Invalid
from tests.api.ipam.stack import (
    Settings,
    all_bound,
    allocations,
    bound,
    claim,
    consistent,
    get,
    make,
    make_pool,
    pool_ready,
    refused,
    release,
    running,
)
from tests.conftest import create_project
from tests.waiting import until


async def test_a_pool_that_a_user_deletes_under_a_live_claim_waits_for_it(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T07: nothing new comes in, what is held stays, and the pool goes when the last one leaves."""
    await make_pool(ipam, home, "192.0.2.0/29")
    async with running(kubeconfig):
        await make(ipam, claim(home, "old", class_name="few"))
        held = (await bound(ipam, home, "old"))["cidr"]
        await ipam.delete(resources.IP_POOLS, home, "few")
        await make(ipam, claim(home, "new", class_name="few"))
        await refused(ipam, home, "new", api.REASON_NO_OFFERING_POOL)
        assert (await get(ipam, home, "old"))["status"]["cidr"] == held
        await release(ipam, home, ["old"])

        async def gone() -> bool:
            return "few" not in [raw["metadata"]["name"] for raw in await ipam.list(resources.IP_POOLS, home)]

        await until(gone, timeout=60, what="the pool is gone")


async def test_a_pool_that_is_deleted_while_many_claims_come_lets_nobody_in_unseen(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T07, T30: who is in holds its block until it leaves, everybody else is served elsewhere, nobody by both."""
    await make_pool(ipam, home, "192.0.2.0/26")
    other = {"cidr": "198.18.0.0/26", "classNames": ["few"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "other", "namespace": home}, "spec": other})
    async with running(kubeconfig):
        await pool_ready(ipam, home, "few", "True")
        await pool_ready(ipam, home, "other", "True")
        wanted = [claim(home, f"c{number}", class_name="few") for number in range(48)]
        async with asyncio.TaskGroup() as group:
            group.create_task(make(ipam, *wanted))
            group.create_task(_delete_once_used(ipam, home, "few"))
        found = await all_bound(ipam, home, 48)
        assert len(set(found.values())) == 48
        await consistent(ipam, home)
        inside = {name for name, cidr in found.items() if cidr.startswith("192.0.2.")}
        assert inside
        await release(ipam, home, inside)

        async def gone() -> bool:
            return "few" not in [raw["metadata"]["name"] for raw in await ipam.list(resources.IP_POOLS, home)]

        await until(gone, timeout=60, what="the pool is gone")


async def _delete_once_used(client: Client, project: str, pool: str) -> None:
    async def used() -> bool:
        return any(raw["spec"]["poolRef"]["name"] == pool for raw in await allocations(client, project))

    await until(used, timeout=60, what=f"somebody in {pool}")
    await client.delete(resources.IP_POOLS, project, pool)


async def test_a_root_that_overlaps_another_is_refused_and_taken_up_when_the_other_goes(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """OverlapsPool names the other; a pool that is Ready wins."""
    await make_pool(ipam, home, "192.0.2.0/29")
    async with running(kubeconfig):
        await pool_ready(ipam, home, "few", "True")
        await make_pool(ipam, home, "192.0.2.0/24", name="wide")
        assert f"{home}/few" in await pool_ready(ipam, home, "wide", "False", api.REASON_OVERLAPS_POOL)
        await ipam.delete(resources.IP_POOLS, home, "few")
        await pool_ready(ipam, home, "wide", "True")


async def test_classes_of_one_pool_must_agree(ipam: Client, home: str, kubeconfig: str) -> None:
    """MixedBlocks: every pool hands out blocks of one length, which is what makes names unique."""
    async with running(kubeconfig):
        await make_pool(ipam, home, "192.0.2.0/24")
        spec = {"ipFamily": "IPv4", "prefixLength": 28}
        await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "wide", "namespace": home}, "spec": spec})
        both = [{"op": "replace", "path": "/spec/classNames", "value": ["few", "wide"]}]
        await ipam.json_patch(resources.IP_POOLS, home, "few", both)
        assert "wide (IPv4 /28" in await pool_ready(ipam, home, "few", "False", api.REASON_MIXED_BLOCKS)


async def test_a_class_that_is_made_anew_with_other_roles_gets_nothing_until_it_is_as_it_was(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T04: in a space of the new roles the blocks that are held would be free, and be given twice."""

    async def make_anew(**spec: object) -> None:
        await ipam.delete(resources.IP_CLASSES, home, "few")
        await ipam.create(
            resources.IP_CLASSES,
            {
                "metadata": {"name": "few", "namespace": home},
                "spec": {"ipFamily": "IPv4", "prefixLength": 32, **spec},
            },
        )

    await make_pool(ipam, home, "192.0.2.0/31")
    async with running(kubeconfig):
        await make(ipam, claim(home, "old", class_name="few"))
        held = (await bound(ipam, home, "old"))["cidr"]
        await make_anew(uniqueWithin=["network"])
        told = await pool_ready(ipam, home, "few", "False", api.REASON_MIXED_BLOCKS)
        assert "/32 once in the project, and its classes now say /32 once in each network" in told
        await make(ipam, claim(home, "new", class_name="few"))
        await refused(ipam, home, "new", api.REASON_NO_OFFERING_POOL)
        await make_anew()
        assert (await bound(ipam, home, "new"))["cidr"] != held
        await consistent(ipam, home)
    grown = [{"op": "add", "path": "/status/blocks/uniqueWithin/-", "value": "network"}]
    with pytest.raises(Invalid, match="a pool gives out blocks of one kind"):
        await ipam.json_patch(resources.IP_POOLS, home, "few", grown, subresource="status")


async def test_a_project_carves_from_another_only_with_its_consent(ipam: Client, home: str, kubeconfig: str) -> None:
    """`sharedWith`: the carve lies in the parent pool's namespace; without consent it says NotShared."""
    owner = f"ipam-{secrets.token_hex(3)}"
    await ipam.create(resources.NAMESPACES, {"metadata": {"name": owner}})
    spec = {"ipFamily": "IPv4", "prefixLength": 26}
    await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "slices", "namespace": owner}, "spec": spec})
    shared = {"cidr": "203.0.113.0/24", "classNames": ["slices"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "shared", "namespace": owner}, "spec": shared})
    leaf = {"ipFamily": "IPv4", "prefixLength": 32}
    await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "leaf", "namespace": home}, "spec": leaf})
    carved = {"parentRef": {"namespace": owner, "name": "shared"}, "prefixLength": 26, "classNames": ["leaf"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "slice", "namespace": home}, "spec": carved})
    async with running(kubeconfig):
        assert owner in await pool_ready(ipam, home, "slice", "False", "NotShared")
        consent = {"matchLabels": {"kubernetes.io/metadata.name": home}}
        await ipam.json_patch(
            resources.IP_POOLS, owner, "shared", [{"op": "add", "path": "/spec/sharedWith", "value": consent}]
        )
        await pool_ready(ipam, home, "slice", "True")
        await make(ipam, claim(home, "guest", class_name="leaf"))
        assert ip_network((await bound(ipam, home, "guest"))["cidr"]).subnet_of(ip_network("203.0.113.0/26"))
        (carve,) = await allocations(ipam, owner)
        assert carve["spec"]["purpose"] == "Carve"
        assert carve["spec"]["claimRef"]["namespace"] == home
        await release(ipam, home)
        await ipam.delete(resources.IP_POOLS, home, "slice")

        async def given_back() -> bool:
            return not await allocations(ipam, owner)

        await until(given_back, timeout=60, what="the carve is given back to the owner")
        await ipam.delete(resources.NAMESPACES, None, owner)


async def test_a_cascade_carves_from_a_pool_that_another_project_shares(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """`sharedWith`: a class of the project's own is served from there once the owner consents, by that event."""
    owner = f"ipam-{secrets.token_hex(3)}"
    await ipam.create(resources.NAMESPACES, {"metadata": {"name": owner}})
    networks = {"ipFamily": "IPv4", "prefixLength": 26, "poolPer": ["network"]}
    for project in (owner, home):
        await ipam.create(
            resources.IP_CLASSES, {"metadata": {"name": "networks", "namespace": project}, "spec": networks}
        )
    leaf = {"ipFamily": "IPv4", "prefixLength": 32, "parentClassName": "networks"}
    await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "leaf", "namespace": home}, "spec": leaf})
    shared = {"cidr": "203.0.113.0/24", "classNames": ["networks"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "shared", "namespace": owner}, "spec": shared})
    async with running(kubeconfig, Settings(pool_linger=0.5)):
        await pool_ready(ipam, owner, "shared", "True")
        await make(ipam, claim(home, "guest", class_name="leaf"))
        await refused(ipam, home, "guest", api.REASON_NO_OFFERING_POOL)
        consent = {"matchLabels": {"kubernetes.io/metadata.name": home}}
        await ipam.json_patch(
            resources.IP_POOLS, owner, "shared", [{"op": "add", "path": "/spec/sharedWith", "value": consent}]
        )
        assert ip_network((await bound(ipam, home, "guest"))["cidr"]).subnet_of(ip_network("203.0.113.0/26"))
        (carve,) = await allocations(ipam, owner)
        assert carve["spec"]["claimRef"]["namespace"] == home
        await release(ipam, home)

        async def given_back() -> bool:
            return not await allocations(ipam, owner)

        await until(given_back, timeout=60, what="the carve is given back to the owner")
        await ipam.delete(resources.NAMESPACES, None, owner)


async def test_a_project_that_goes_takes_its_pools_along(ipam: Client, kubeconfig: str) -> None:
    """T07: deleted as a namespace, with a claim in it; nothing stays Terminating."""
    project = f"ipam-{secrets.token_hex(3)}"
    await create_project(ipam, project)
    async with running(kubeconfig, Settings(pool_linger=0.5)):
        await make(ipam, claim(project, "inside", family="IPv6"))
        await bound(ipam, project, "inside")
        await ipam.delete(resources.NAMESPACES, None, project)

        async def gone() -> bool:
            kinds = (resources.IP_CLAIMS, resources.IP_ALLOCATIONS, resources.IP_POOLS)
            left = {each.plural: await ipam.list(each, project) for each in kinds}
            found = [raw for raw in await ipam.list(resources.NAMESPACES) if raw["metadata"]["name"] == project]
            assert not found, (left, [raw["status"] for raw in found])
            return True

        # The namespace controller looks again after 5 s, 10 s, 20 s ... as long as it finds anything left.
        await until(gone, timeout=240, what="the project gone", interval=0.3)
