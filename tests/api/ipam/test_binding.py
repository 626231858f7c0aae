"""Blocks that IPAM gives: the cascade, many at once, networks and projects apart, exact fit, static addresses."""

import secrets
from ipaddress import ip_network

from netclaim.api import ipam as api
from netclaim.api import resources
from netclaim.kube.client import Client
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
    network_scope,
    refused,
    release,
    running,
)
from tests.conftest import create_project


async def test_a_dual_stack_claim_cascades_to_the_addresses_of_the_example(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R2, R14: /48 -> /64 -> /96 with the first /96 reserved; /20 -> /32 with gateway .1 and the first endpoint .2."""
    async with running(kubeconfig):
        await make(
            ipam,
            claim(home, "six", family="IPv6"),
            claim(home, "four", family="IPv4"),
            claim(home, "outside", class_name="public-unicast-ipv4"),
        )
        assert (await bound(ipam, home, "six"))["cidr"] == "fd20:1000::1:0:0/96"
        assert (await bound(ipam, home, "four"))["cidr"] == "10.128.0.2/32"
        assert ip_network((await bound(ipam, home, "outside"))["cidr"]).subnet_of(ip_network("198.51.100.0/24"))
        # Range claims adopt the pools that the blocks made.
        for name, kind in (("net6", "network-ipv6"), ("sub6", "subnet-ipv6"), ("sub4", "subnet-ipv4")):
            await make(ipam, claim(home, name, class_name=kind, target="Range"))
        net6, sub6, sub4 = [await bound(ipam, home, name) for name in ("net6", "sub6", "sub4")]
        assert (net6["cidr"], sub6["cidr"], sub4["cidr"]) == ("fd20:1000::/48", "fd20:1000::/64", "10.128.0.0/20")
        assert (sub6["gateway"], sub4["gateway"]) == ("fd20:1000::1", "10.128.0.1")
        four = await bound(ipam, home, "four")
        assert four["poolRef"] == sub4["poolRef"]
        held = await ipam.get(resources.IP_ALLOCATIONS, home, four["allocationRef"]["name"])
        assert held["spec"]["cidr"] == four["cidr"]
        assert held["spec"]["claimRef"]["uid"] == (await get(ipam, home, "four"))["metadata"]["uid"]
        await consistent(ipam, home)
        pool = await ipam.get(resources.IP_POOLS, home, sub4["poolRef"]["name"])
        assert pool["status"]["capacity"] == {
            "total": "4096",
            "allocated": "1",
            "reserved": "4",
            "cooling": "0",
            "available": "4091",
        }


async def test_a_herd_of_first_claims_makes_one_pool_of_each_level(ipam: Client, home: str, kubeconfig: str) -> None:
    """Pools appear on first use; create-if-absent under names that are functions of class and scope."""
    async with running(kubeconfig):
        await make(ipam, *(claim(home, f"c{number}", family="IPv6") for number in range(24)))
        found = await all_bound(ipam, home, 24)
        assert len(set(found.values())) == 24
        made = [raw for raw in await ipam.list(resources.IP_POOLS, home) if raw["spec"].get("madeFor")]
        assert sorted(raw["spec"]["madeFor"]["className"] for raw in made) == ["network-ipv6", "subnet-ipv6"]


async def test_two_networks_hold_the_same_ipv4_addresses_and_ipv6_is_one_space(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """`uniqueWithin: [network]` lets two networks hold the same address; the same network in two cells is one scope."""
    async with running(kubeconfig):
        await make(
            ipam,
            claim(home, "one", family="IPv4", scope=network_scope("one")),
            claim(home, "two", family="IPv4", scope=network_scope("two")),
        )
        # Of two locations of one network the first to be served gets the first range.
        await all_bound(ipam, home, 2)
        await make(
            ipam,
            claim(home, "one-elsewhere", family="IPv4", scope=network_scope("one", location="elsewhere")),
            claim(home, "one-6", family="IPv6", scope=network_scope("one")),
            claim(home, "two-6", family="IPv6", scope=network_scope("two")),
        )
        found = await all_bound(ipam, home, 5)
        assert found["one"] == found["two"] == "10.128.0.2/32"
        assert found["one-elsewhere"] == "10.128.16.2/32"
        assert found["one-6"] != found["two-6"]


async def test_two_projects_with_the_same_class_names_get_separate_space(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """R14: identical class names, other pools, and no allocation of one is in the other's namespace."""
    other = f"ipam-{secrets.token_hex(3)}"
    await create_project(ipam, other, like="project-beta")
    async with running(kubeconfig, Settings(pool_linger=0.5)):
        wishes = [(family, f"of-{family.lower()}") for family in ("IPv4", "IPv6")]
        for project in (home, other):
            await make(ipam, *(claim(project, name, family=family) for family, name in wishes))
        ours, theirs = await all_bound(ipam, home, 2), await all_bound(ipam, other, 2)
        assert theirs["of-ipv4"] == "10.129.0.2/32"
        assert theirs["of-ipv6"].startswith("fd20:2000:")
        assert not set(ours.values()) & set(theirs.values())
        for raw in await allocations(ipam, other, "Claim"):
            assert raw["spec"]["claimRef"]["namespace"] == other
        await release(ipam, other)
        await ipam.delete(resources.NAMESPACES, None, other)


async def test_exact_fit_every_claim_gets_a_block_and_none_is_given_twice(
    ipam: Client, home: str, kubeconfig: str
) -> None:
    """T01: N addresses, N claims, 32 writers; delete all, recreate all. With three programs: tests/api/trials."""
    await make_pool(ipam, home, "192.0.2.0/27")
    async with running(kubeconfig):
        for _ in range(2):
            await make(ipam, *(claim(home, f"fit-{number}", class_name="few") for number in range(32)))
            found = await all_bound(ipam, home, 32)
            assert {str(address) for address in ip_network("192.0.2.0/27")} == {
                cidr.removesuffix("/32") for cidr in found.values()
            }
            await consistent(ipam, home)
            await release(ipam, home)


async def test_a_static_address_is_given_or_refused_with_its_reason(ipam: Client, home: str, kubeconfig: str) -> None:
    """`address`: one block; a waiter for it is woken by that block."""
    await make_pool(ipam, home, "192.0.2.0/29", reservations={"leading": 1})
    async with running(kubeconfig):
        await make(ipam, claim(home, "static", class_name="few", address="192.0.2.5"))
        assert (await bound(ipam, home, "static"))["cidr"] == "192.0.2.5/32"
        for name, address, reason in (
            ("taken", "192.0.2.5/32", api.REASON_ADDRESS_UNAVAILABLE),
            ("reserved", "192.0.2.0", api.REASON_ADDRESS_UNAVAILABLE),
            ("outside", "203.0.113.1", api.REASON_ADDRESS_UNAVAILABLE),
            ("length", "192.0.2.4/31", api.REASON_PREFIX_LENGTH_REJECTED),
        ):
            await make(ipam, claim(home, name, class_name="few", address=address))
            assert address.split("/")[0] in await refused(ipam, home, name, reason)
        await release(ipam, home, ["static"])
        assert (await bound(ipam, home, "taken", timeout=15))["cidr"] == "192.0.2.5/32"
