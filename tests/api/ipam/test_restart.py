"""A crash or a restart of IPAM between any two writes."""

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from nso.ipam.blocks import Block
from nso.ipam.names import allocation_name
from tests.api.ipam.stack import all_bound, allocations, bound, claim, consistent, get, make, make_pool, running
from tests.waiting import until


async def test_a_crash_between_allocation_and_status_is_finished_by_the_next_pass(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T03: the allocation is found by its claimRef uid; no second one is made."""
    await make_pool(ipam, home, "192.0.2.0/29")
    await make(ipam, claim(home, "cut", class_name="few"))
    uid = (await get(ipam, home, "cut"))["metadata"]["uid"]
    block = Block.parse("192.0.2.6/32")
    await ipam.create(resources.IP_ALLOCATIONS, _allocation(home, "few", block, "cut", uid))
    async with running(kubeconfig):
        assert (await bound(ipam, home, "cut"))["cidr"] == "192.0.2.6/32"
        assert len(await allocations(ipam, home)) == 1


async def test_a_restart_writes_nothing_and_goes_on(ipam: Client, home: str, kubeconfig: str) -> None:
    """T21: zero writes at restart; a claim made while nobody was there is served."""
    async with running(kubeconfig):
        await make(
            ipam, claim(home, "four", family="IPv4"), claim(home, "sub4", class_name="subnet-ipv4", target="Range")
        )
        await all_bound(ipam, home, 2)
        await consistent(ipam, home)
    before = await _versions(ipam, home)
    async with running(kubeconfig) as controllers:

        async def first_pass() -> bool:
            # The allocations' controller has no key at all: each allocation has its holder.
            busy = (controllers.classes, controllers.pools, controllers.claims)
            return all(controller.first_pass is not None for controller in busy)

        await until(first_pass, what="a full first pass")
        assert await _versions(ipam, home) == before
    await make(ipam, claim(home, "between", family="IPv4"))
    async with running(kubeconfig):
        assert (await bound(ipam, home, "between"))["cidr"] == "10.128.0.3/32"


def _allocation(project: str, pool: str, block: Block, claim_name: str, uid: str) -> Raw:
    return {
        "metadata": {"name": allocation_name(pool, "", block), "namespace": project},
        "spec": {
            "poolRef": {"name": pool},
            "cidr": str(block),
            "space": "",
            "purpose": "Claim",
            "claimRef": {"namespace": project, "name": claim_name, "uid": uid},
        },
    }


async def _versions(client: Client, project: str) -> dict[tuple[str, str], str]:
    kinds = (resources.IP_CLASSES, resources.IP_POOLS, resources.IP_CLAIMS, resources.IP_ALLOCATIONS)
    return {
        (kind.kind, raw["metadata"]["name"]): raw["metadata"]["resourceVersion"]
        for kind in kinds
        for raw in await client.list(kind, project)
    }
