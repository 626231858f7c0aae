"""What an operator relies on: the sweep, metrics, IPAM being away, many claims at once."""

import asyncio
import time

from netclaim.api import conditions, networking, resources
from netclaim.api import ipam as ipam_api
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from tests.api.claims.programs import Program
from tests.api.claims.shop import LOCATION, Shop, all_addresses
from tests.waiting import until


async def control_plane_id(cell: Client) -> str:
    raw = await cell.get(resources.NAMESPACES, None, "kube-system")
    return str(raw["metadata"]["uid"])


def orphan(shop: Shop, control_plane: str, name: str) -> Raw:
    """An IPClaim of this cell whose owner does not exist."""
    return {
        "metadata": {
            "name": name,
            "namespace": shop.project,
            "labels": {ipam_api.LOCATION_LABEL: LOCATION},
            "finalizers": [ipam_api.CLAIM_FINALIZER],
        },
        "spec": {
            "className": "public-unicast-ipv4",
            "ownerRef": {
                "controlPlane": control_plane,
                "kind": "NetworkInterfaceClaim",
                "namespace": shop.namespace,
                "name": name,
                "uid": f"no-such-uid-{name}",
            },
        },
    }


async def test_an_ip_claim_whose_owner_is_gone_is_swept_and_another_cells_is_not(
    shop: Shop, cell: Client, ipam: Client
) -> None:
    """R15, claims.md: the sweep; a cell touches only its own."""
    own = await control_plane_id(cell)
    await ipam.create(resources.IP_CLAIMS, orphan(shop, own, "lost"))
    await ipam.create(resources.IP_CLAIMS, orphan(shop, "another-cell", "foreign"))
    await shop.network()
    await shop.claim()
    claim = await shop.allocated()

    async def swept() -> bool:
        try:
            await ipam.get(resources.IP_CLAIMS, shop.project, "lost")
        except NotFound:
            return True
        return False

    await until(swept, timeout=60, what="the orphan given back", interval=0.5)
    assert await ipam.get(resources.IP_CLAIMS, shop.project, "foreign")
    await shop.held_by_ipam(claim)
    await ipam.delete(resources.IP_CLAIMS, shop.project, "foreign")


async def test_the_metrics_tell_phases_and_reasons(shop: Shop, nso: Program) -> None:
    """Claims.md, Told to the operator."""
    await shop.network()
    await shop.claim()
    await shop.allocated()
    await shop.claim("bad", addresses=[{"class": "nowhere"}])
    await shop.refused("AddressClassNotFound", "bad")

    def told() -> bool:
        text = nso.metrics()
        assert 'netclaim_claims{phase="Bound",reason="NotProgrammed"} 1.0' in text
        assert 'netclaim_claims{phase="Pending",reason="AddressClassNotFound"} 1.0' in text
        assert "netclaim_missing_allocations 0.0" in text
        assert "netclaim_claim_allocation_seconds_count" in text
        assert "web-0-eth0" not in text
        return True

    await until(told, timeout=30, what="the metrics")


async def test_while_ipam_does_not_work_held_addresses_stay_and_new_claims_wait_and_bind_later(
    shop: Shop, ipam_program: Program
) -> None:
    """Architecture.md, Scale: only new addresses wait."""
    await shop.network()
    await shop.claim("held")
    before = await shop.allocated("held")
    ipam_program.kill()
    try:
        await shop.claim("new")
        await shop.refused("NotBound", "new")
        assert all_addresses(await shop.allocated("held")) == all_addresses(before)
        assert await shop.interface("new") is None
    finally:
        await ipam_program.again()
    await shop.held_by_ipam(await shop.allocated("new", timeout=90))


async def test_a_hundred_claims_at_once_are_all_served_without_a_double(shop: Shop) -> None:
    """T01: each address once, and the network and subnets are made once."""
    await shop.network()
    names = [f"web-{number}-eth0" for number in range(100)]
    began = time.monotonic()
    gate = asyncio.Semaphore(16)

    async def create(name: str) -> None:
        async with gate:
            await shop.claim(name)

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(create(name))

    async def all_allocated() -> list[Raw]:
        listed = await shop.cell.list(resources.CLAIMS, shop.namespace)
        done = [raw for raw in listed if conditions.is_true(raw, networking.ALLOCATED)]
        assert len(done) == len(names), f"{len(done)} of {len(names)}"
        return done

    claims = await until(all_allocated, timeout=120, what="all claims allocated", interval=0.3)
    print(f"100 dual-stack claims allocated in {time.monotonic() - began:.1f} s")
    given = [address for claim in claims for address in all_addresses(claim)]
    assert len(given) == len(set(given)) == 200
    held = set(await shop.allocations())
    assert set(given) == held
    assert len(await shop.cell.list(resources.SUBNETS, shop.namespace)) == 2
