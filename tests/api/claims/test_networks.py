"""Networks, contexts, subnets, and the older bindings and subnet claims, with the real IPAM."""

import asyncio
from ipaddress import ip_network

from netclaim.api import conditions, networking, resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from tests.api.claims.shop import LOCATION, Shop
from tests.waiting import until


async def ready(shop: Shop, resource: resources.Resource, name: str, reason: str = "Ready") -> Raw:
    async def look() -> Raw:
        raw = await shop.get(resource, name)
        assert raw is not None, f"{name} is not there"
        assert conditions.reason_of(raw, networking.READY) == reason, raw.get("status")
        return raw

    return await until(look, timeout=60, what=f"{resource.kind} {name} {reason}")


async def test_a_network_gets_a_range_a_context_and_a_subnet_for_each_family(shop: Shop) -> None:
    """Claims.md, Networks: /48 for the cascaded family, IPv6 /64 and IPv4 /20, gateway = first usable address."""
    await shop.network()
    network = await shop.network_ready()
    (prefix,) = network["status"]["prefixes"]
    assert prefix["family"] == "IPv6"
    assert ip_network(prefix["cidr"]).prefixlen == 48
    context = await shop.get(resources.NETWORK_CONTEXTS, f"default-{LOCATION}")
    assert context is not None
    assert {entry["family"] for entry in context["status"]["subnets"]} == {"IPv6", "IPv4"}
    lengths = {"IPv6": 64, "IPv4": 20}
    for entry in context["status"]["subnets"]:
        subnet = await ready(shop, resources.SUBNETS, entry["name"])
        block = ip_network(subnet["status"]["cidr"])
        assert block.prefixlen == lengths[entry["family"]] == subnet["status"]["prefixLength"]
        assert subnet["status"]["startAddress"] == str(block.network_address)
        assert subnet["status"]["gateway"] == str(block.network_address + 1)
        if entry["family"] == "IPv6":
            assert block.subnet_of(ip_network(prefix["cidr"]))  # type: ignore[arg-type]
    ranges = {raw["metadata"]["name"]: raw for kind in ("Network", "Subnet") for raw in await shop.ip_claims(kind)}
    assert sorted(name.rsplit("-", 1)[0] for name in ranges) == ["ctx-ipv4", "ctx-ipv6", "net-ipv6"]
    assert all(raw["spec"]["target"] == "Range" for raw in ranges.values())


async def test_a_network_goes_with_its_context_its_subnets_and_their_ranges(shop: Shop) -> None:
    """Claims.md, Networks: teardown."""
    await shop.network()
    await shop.network_ready()
    await shop.cell.delete(resources.NETWORKS, shop.namespace, "default")
    await shop.gone(resources.NETWORKS, "default")
    assert await shop.get(resources.NETWORK_CONTEXTS, f"default-{LOCATION}") is None
    assert not await shop.cell.list(resources.SUBNETS, shop.namespace)
    assert not await shop.ipam.list(resources.IP_CLAIMS, shop.project)


async def test_a_network_in_use_is_not_torn_down_and_says_what_is_in_it(shop: Shop) -> None:
    """Claims.md: RangeOccupied, naming what; retried on the event that frees it, never forced."""
    await shop.network()
    await shop.claim()
    await shop.allocated()
    await shop.cell.delete(resources.NETWORKS, shop.namespace, "default")
    network = await ready(shop, resources.NETWORKS, "default", "RangeOccupied")
    assert "web-0-eth0" in conditions.message_of(network, networking.READY)
    await shop.claim("late")
    await shop.refused("NetworkNotAvailableInLocation", "late")
    assert (await shop.allocated())["status"]["addresses"]
    await shop.delete_claim()
    await shop.gone(resources.NETWORKS, "default")
    await shop.refused("NetworkNotFound", "late")


async def test_a_subnet_or_context_deleted_in_use_waits_and_comes_back(shop: Shop) -> None:
    """T07: objects in the middle of the chain are deleted by hand."""
    await shop.network()
    await shop.claim()
    await shop.allocated()
    await shop.cell.delete(resources.SUBNETS, shop.namespace, f"default-{LOCATION}-ipv6")
    await ready(shop, resources.SUBNETS, f"default-{LOCATION}-ipv6", "RangeOccupied")
    await shop.delete_claim()
    await shop.gone(resources.CLAIMS, "web-0-eth0")
    await ready(shop, resources.SUBNETS, f"default-{LOCATION}-ipv6")
    await shop.cell.delete(resources.NETWORK_CONTEXTS, shop.namespace, f"default-{LOCATION}")
    await shop.claim()
    await shop.held_by_ipam(await shop.allocated(timeout=30))


async def test_a_namespace_without_a_project_is_told_on_the_network_and_labelling_it_helps(shop: Shop) -> None:
    """R12."""
    label = "/metadata/labels/" + networking.PROJECT_LABEL.replace("/", "~1")
    await shop.cell.json_patch(resources.NAMESPACES, None, shop.namespace, [{"op": "remove", "path": label}])
    await shop.network()
    network = await ready(shop, resources.NETWORKS, "default", "ProjectUnresolved")
    assert shop.namespace in conditions.message_of(network, networking.READY)
    await shop.cell.json_patch(
        resources.NAMESPACES, None, shop.namespace, [{"op": "add", "path": label, "value": shop.project}]
    )
    await shop.network_ready()


async def test_the_class_of_network_ranges_may_come_after_the_network(shop: Shop, ipam: Client) -> None:
    """R12: a family is cascaded as soon as its class is there."""
    await ipam.delete(resources.IP_CLASSES, shop.project, "network-ipv6")
    await shop.network(families=("IPv6",))

    async def waits() -> bool:
        raw = await shop.cell.get(resources.NETWORKS, shop.namespace, "default")
        assert conditions.is_false(raw, networking.READY), raw.get("status")
        return True

    await until(waits, timeout=60, what="the network not ready")
    await ipam.create(
        resources.IP_CLASSES,
        {
            "metadata": {"name": "network-ipv6", "namespace": shop.project},
            "spec": {"ipFamily": "IPv6", "prefixLength": 48, "poolPer": ["network"]},
        },
    )
    network = await shop.network_ready(timeout=30)
    await until(lambda: network["status"]["prefixes"], what="the range")


async def test_a_binding_mirrors_the_readiness_of_the_context_and_leaves_it_behind(shop: Shop) -> None:
    """R16."""
    binding = {"metadata": {"name": "b", "namespace": shop.namespace}, "spec": {"network": {"name": "default"}}}
    await shop.cell.create(resources.NETWORK_BINDINGS, binding)
    await ready(shop, resources.NETWORK_BINDINGS, "b", "NetworkNotFound")
    await shop.network()
    bound = await ready(shop, resources.NETWORK_BINDINGS, "b")
    assert bound["status"]["networkContextRef"] == {"name": f"default-{LOCATION}"}
    await shop.cell.delete(resources.NETWORK_BINDINGS, shop.namespace, "b")
    await shop.gone(resources.NETWORK_BINDINGS, "b")
    assert await shop.get(resources.NETWORK_CONTEXTS, f"default-{LOCATION}") is not None


async def test_a_subnet_claim_gets_the_contexts_subnet(shop: Shop) -> None:
    """R16."""
    await shop.network()
    claim = {
        "metadata": {"name": "s", "namespace": shop.namespace},
        "spec": {"networkContext": {"name": f"default-{LOCATION}"}, "ipFamily": "IPv4"},
    }
    await shop.cell.create(resources.SUBNET_CLAIMS, claim)
    served = await ready(shop, resources.SUBNET_CLAIMS, "s")
    subnet = await shop.get(resources.SUBNETS, f"default-{LOCATION}-ipv4")
    assert subnet is not None
    assert served["status"]["subnetRef"] == {"name": subnet["metadata"]["name"]}
    assert served["status"]["startAddress"] == subnet["status"]["startAddress"]
    assert served["status"]["prefixLength"] == subnet["status"]["prefixLength"]


async def test_a_subnet_claim_of_another_class_gets_a_subnet_that_goes_with_it(shop: Shop, ipam: Client) -> None:
    """R16."""
    await ipam.create(
        resources.IP_CLASSES,
        {
            "metadata": {"name": "dmz-ipv4", "namespace": shop.project},
            "spec": {"ipFamily": "IPv4", "prefixLength": 24, "poolPer": ["network", "location"]},
        },
    )
    pool = {"cidr": "192.0.2.0/24", "classNames": ["dmz-ipv4"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "dmz", "namespace": shop.project}, "spec": pool})
    await shop.network(families=("IPv6",))
    claim = {
        "metadata": {"name": "s", "namespace": shop.namespace},
        "spec": {"networkContext": {"name": f"default-{LOCATION}"}, "ipFamily": "IPv4", "subnetClass": "dmz-ipv4"},
    }
    await shop.cell.create(resources.SUBNET_CLAIMS, claim)
    served = await ready(shop, resources.SUBNET_CLAIMS, "s")
    assert (served["status"]["startAddress"], served["status"]["prefixLength"]) == ("192.0.2.0", 24)
    await shop.cell.delete(resources.SUBNET_CLAIMS, shop.namespace, "s")
    await shop.gone(resources.SUBNETS, served["status"]["subnetRef"]["name"], timeout=30)


async def test_a_network_or_subnet_claim_that_is_deleted_while_it_is_being_made_leaves_nothing(
    shop: Shop, ipam: Client
) -> None:
    """R15, T07: neither is made with a finalizer; what a deletion overtakes is given back all the same."""
    spec = {"ipFamily": "IPv4", "prefixLength": 24, "poolPer": ["network", "location"], "uniqueWithin": ["network"]}
    await ipam.create(resources.IP_CLASSES, {"metadata": {"name": "lan", "namespace": shop.project}, "spec": spec})
    pool = {"cidr": "10.200.0.0/16", "classNames": ["lan"]}
    await ipam.create(resources.IP_POOLS, {"metadata": {"name": "lan", "namespace": shop.project}, "spec": pool})
    await shop.network("stays")
    await shop.network_ready("stays")
    for number in range(8):
        wanted = {"networkContext": {"name": "stays-us-central-1"}, "ipFamily": "IPv4", "subnetClass": "lan"}
        name = f"brief-{number}"
        await shop.network(name)
        metadata = {"name": name, "namespace": shop.namespace}
        await shop.cell.create(resources.SUBNET_CLAIMS, {"metadata": metadata, "spec": wanted})
        await asyncio.sleep(number * 0.03)  # not a wait: each deletion falls into another step
        await shop.cell.delete(resources.NETWORKS, shop.namespace, name)
        await shop.cell.delete(resources.SUBNET_CLAIMS, shop.namespace, name)

    async def only_what_stays() -> bool:
        left = [raw["spec"]["ownerRef"]["name"] for raw in await ipam.list(resources.IP_CLAIMS, shop.project)]
        assert not [name for name in left if name.startswith("brief-")], left
        for resource in (resources.NETWORKS, resources.NETWORK_CONTEXTS, resources.SUBNETS, resources.SUBNET_CLAIMS):
            names = [raw["metadata"]["name"] for raw in await shop.cell.list(resource, shop.namespace)]
            assert not [name for name in names if name.startswith("brief-")], names
        return True

    await until(only_what_stays, timeout=90, what="nothing left of what was deleted", interval=0.3)
