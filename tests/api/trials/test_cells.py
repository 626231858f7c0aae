"""Several cells on one IPAM, and what is kept while nobody holds it and nobody runs."""

from netclaim.api import ipam as ipam_api
from netclaim.api import networking, resources
from netclaim.api.meta import Raw
from netclaim.kube.errors import NotFound
from tests.api.claims.shop import LOCATION, Shop, all_addresses
from tests.api.trials.house import House
from tests.waiting import until

ELSEWHERE = "eu-west-2"


async def test_two_cells_of_one_project_share_a_network_and_touch_nothing_of_each_other(house: House) -> None:
    """Ipam.md: one network in two cells is one scope and one range; each has subnets and addresses of its own.

    The second cell is the API server of IPAM itself: one control plane may well be both.
    """
    shop = house.shop
    label = {"op": "add", "path": "/metadata/labels/" + networking.PROJECT_LABEL.replace("/", "~1")}
    await shop.ipam.json_patch(resources.NAMESPACES, None, shop.project, [{**label, "value": shop.project}])
    other = Shop(shop.ipam, shop.ipam, shop.namespace, shop.project)
    await house.life(gates=False).begin()
    elsewhere = house.life("networks,claims", location=ELSEWHERE, gates=False, cell=house.control_plane.ipam_kubeconfig)
    await elsewhere.begin()
    for each in (shop, other):
        await each.network()
        await each.claim("web-0-eth0", reclaimPolicy="Retain")
    here, there = await shop.allocated(timeout=90), await other.allocated(timeout=90)
    assert not set(all_addresses(here)) & set(all_addresses(there))
    ranges = [(await each.network_ready(timeout=90))["status"]["prefixes"] for each in (shop, other)]
    assert ranges[0] == ranges[1]
    assert await _locations(shop) == {LOCATION, ELSEWHERE}

    await everything_goes_of(shop)
    # Its sweep has looked for owners that are gone, twice, when an orphan of its own is given back.
    await _swept(house)
    assert await _locations(shop) == {ELSEWHERE}
    again = await other.allocated()
    assert all_addresses(again) == all_addresses(there)
    assert (await other.network_ready())["status"]["prefixes"] == ranges[1]
    await everything_goes_of(other)
    await shop.nothing_allocated()


async def test_a_retained_address_outlives_every_restart_while_nobody_holds_it(house: House) -> None:
    """T25: NSO and IPAM are killed and come back, the sweep looks twice, and the next claim gets the same addresses."""
    shop = house.shop
    life = house.life()
    await life.begin()
    await shop.network()
    await shop.claim(reclaimPolicy="Retain")
    before = all_addresses(await shop.allocated(timeout=90))
    uids = {raw["metadata"]["uid"] for raw in (await shop.allocations()).values()}
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0", timeout=90)
    life.kill()
    await life.begin()
    await _swept(house)
    await shop.claim(reclaimPolicy="Retain")
    claim = await shop.allocated(timeout=90)
    assert all_addresses(claim) == before
    await shop.held_by_ipam(claim)
    assert {raw["metadata"]["uid"] for raw in (await shop.allocations()).values()} == uids


async def _locations(shop: Shop) -> set[str]:
    listed = await shop.ipam.list(resources.IP_CLAIMS, shop.project)
    return {raw["metadata"]["labels"][ipam_api.LOCATION_LABEL] for raw in listed}


async def everything_goes_of(shop: Shop) -> None:
    """Claims, interfaces and networks of one cell; the namespace stays, and so does what another cell holds."""
    for resource in (resources.CLAIMS, resources.INTERFACES, resources.NETWORKS):
        for raw in await shop.cell.list(resource, shop.namespace):
            await shop.cell.delete(resource, shop.namespace, raw["metadata"]["name"])
        for raw in await shop.cell.list(resource, shop.namespace):
            await shop.gone(resource, raw["metadata"]["name"], timeout=90)


async def _swept(house: House) -> None:
    """Wait until the sweep of the first cell has given back an IPClaim without an owner, made for this."""
    shop = house.shop
    plane = (await shop.cell.get(resources.NAMESPACES, None, "kube-system"))["metadata"]["uid"]
    owner = {"controlPlane": plane, "kind": "NetworkInterfaceClaim", "namespace": shop.namespace}
    orphan: Raw = {
        "metadata": {
            "name": "orphan",
            "namespace": shop.project,
            "labels": {ipam_api.LOCATION_LABEL: LOCATION, ipam_api.CONTROL_PLANE_LABEL: plane},
            "finalizers": [ipam_api.CLAIM_FINALIZER],
        },
        "spec": {"className": "public-unicast-ipv4", "ownerRef": {**owner, "name": "gone", "uid": "uid-of-nobody"}},
    }
    await shop.ipam.create(resources.IP_CLAIMS, orphan)

    async def gone() -> bool:
        try:
            await shop.ipam.get(resources.IP_CLAIMS, shop.project, "orphan")
        except NotFound:
            return True
        return False

    await until(gone, timeout=90, what="the orphan is swept", interval=0.3)
