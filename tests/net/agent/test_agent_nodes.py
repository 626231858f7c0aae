"""Two nodes: guests reach each other, other tenants do not, and what goes away takes its routes along."""

from netclaim.api import resources
from tests.net.agent.node import Node
from tests.net.agent.world import World
from tests.waiting import until


async def routed(node: Node, prefix: str) -> bool:
    """Whether the node has a route to a prefix on another node."""
    family = "-6" if ":" in prefix else "-4"
    lines = (await node.ip(family, "route", "show", "table", "all")).splitlines()
    return any(line.startswith(prefix) and "encap seg6" in line for line in lines)


async def wait_routed(node: Node, *prefixes: str) -> None:
    for prefix in prefixes:
        await until(lambda prefix=prefix: routed(node, prefix), what=f"{node.name} routes to {prefix}")


async def wait_unrouted(node: Node, *prefixes: str) -> None:
    for prefix in prefixes:

        async def gone(prefix: str = prefix) -> bool:
            return not await routed(node, prefix)

        await until(gone, what=f"{node.name} no longer routes to {prefix}")


async def test_guests_on_two_nodes_reach_each_other_and_another_vpc_with_the_same_addresses_does_not(
    world: World,
) -> None:
    """node-agent.md, Isolation 1 and 2: same and other node, both families, full size; equal addresses stay apart."""
    a, b = await world.add_nodes("a", "b")
    for name, vpc, own, number in (("one", 36, 1, 2), ("two", 36, 2, 3), ("other", 62, 1, 3), ("far", 62, 2, 2)):
        await world.attach(name, vpc, own, number)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", one)
    await b.cni("ADD", two)
    await wait_routed(a, "10.128.0.3", "fd20:0:1:3::/96")
    await wait_routed(b, "10.128.0.2", "fd20:0:1:2::/96")
    assert await one.pings("10.128.0.3")
    assert await two.pings("fd20:0:1:2::1")
    assert await one.pings("10.128.0.3", size=1460 - 28)
    assert await one.pings("fd20:0:1:3::1", size=1460 - 48)
    other = await world.guest("other")
    await a.cni("ADD", other)
    await b.cni("DEL", two)
    await wait_unrouted(a, "10.128.0.3", "fd20:0:1:3::/96")
    # 10.128.0.3 is now only in the other VPC, on the same node.
    assert not await one.pings("10.128.0.3")
    assert not await one.pings("fd20:0:1:3::1")
    assert not await one.pings("fd00:aa::b")


async def test_a_slot_that_moves_to_another_node_is_reached_there(world: World) -> None:
    """R7, R28: same attachment, same addresses, same device name, another node."""
    a, b = await world.add_nodes("a", "b")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    peer, old, new = await world.guest("one"), await world.guest("two"), await world.guest("two")
    await a.cni("ADD", peer)
    await a.cni("ADD", old)
    refused = await b.cni("ADD", new, check=False)
    assert (refused.json["code"], a.name in refused.json["msg"]) == (11, True)
    await a.cni("DEL", old)
    await world.withdrawn("two")
    await b.cni("ADD", new)
    await wait_routed(a, "10.128.0.3")
    await wait_routed(b, "10.128.0.2")
    assert await peer.pings("10.128.0.3")
    assert (await world.facts("two"))["node"] == b.name
    # The first node hears of its old container once more, as after a late DEL: nothing happens.
    await a.cni("DEL", old)
    assert await peer.pings("10.128.0.3")
    assert (await world.advertised("two"))["spec"]["containerID"] == new.container


async def test_a_deleted_node_takes_its_routes_along(world: World) -> None:
    """T08: Node deleted, no DEL: its router, its advertisements and all routes to it go."""
    a, b = await world.add_nodes("a", "b")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    one, two = await world.guest("one"), await world.guest("two")
    await a.cni("ADD", one)
    await b.cni("ADD", two)
    await wait_routed(a, "10.128.0.3")
    await b.stop(9)
    await world.cell.delete(resources.NODES, None, b.name)
    await wait_unrouted(a, "10.128.0.3", "fd20:0:1:3::/96")

    async def collected() -> bool:
        return await world.advertisement("two") is None

    await until(collected, timeout=30, what="the advertisement is collected with its router")
    assert await world.advertisement("one") is not None


async def test_a_node_that_is_deleted_under_a_living_agent_comes_back_with_its_routes(world: World) -> None:
    """T08, T32: no storm of writes while there is no Node; all is told again once it is registered again."""
    a, b = await world.add_nodes("a", "b")
    await world.attach("one", 36, 1, 2)
    await world.attach("two", 36, 2, 3)
    await a.cni("ADD", await world.guest("one"))
    await b.cni("ADD", await world.guest("two"))
    await wait_routed(a, "10.128.0.3")
    old = (await world.advertised("two"))["metadata"]["uid"]
    await world.cell.delete(resources.NODES, None, b.name)
    await until(lambda: "is not registered" in b.log, timeout=30, what="the agent misses its Node")
    await wait_unrouted(a, "10.128.0.3")
    assert "is not registered" not in a.log
    await world.cell.create(resources.NODES, {"metadata": {"name": b.name}})

    async def told_again() -> bool:
        return (await world.advertised("two"))["metadata"]["uid"] != old

    await until(told_again, timeout=30, what="the advertisement under the new router")
    await wait_routed(a, "10.128.0.3")


async def test_the_api_server_away_stops_neither_del_nor_traffic_and_is_told_when_it_is_back(world: World) -> None:
    """node-agent.md, Reports: DEL works, ADD waits with code 11, reports are sent later, newest state only."""
    a, b = await world.add_nodes("a", "b")
    for name, own, number in (("one", 1, 2), ("two", 2, 3), ("three", 3, 4)):
        await world.attach(name, 36, own, number)
    one, two, three = [await world.guest(name) for name in ("one", "two", "three")]
    await a.cni("ADD", one)
    await b.cni("ADD", two)
    await wait_routed(a, "10.128.0.3")
    await wait_routed(b, "10.128.0.2")
    await a.door.shut()
    refused = await a.cni("ADD", three, check=False)
    assert (refused.json["code"], "cannot be asked" in refused.json["msg"]) == (11, True)
    assert await one.pings("10.128.0.3")
    await a.cni("DEL", one)
    assert "G000000" not in await a.ip("-o", "link")
    assert (await world.facts("one"))["containerID"] == one.container
    # A restart in between loses nothing of what is owed.
    await a.stop()
    await a.start()
    await a.door.open()
    await world.withdrawn("one")
    await wait_unrouted(b, "10.128.0.2")
    await a.cni("ADD", three)
    await wait_routed(a, "10.128.0.3")
    await wait_routed(b, "10.128.0.4")
    assert await three.pings("10.128.0.3")


async def test_at_rest_and_after_a_restart_nothing_is_written(world: World) -> None:
    """architecture.md, Scale: at rest and at restart the programs write nothing."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    await a.cni("ADD", await world.guest("one"))
    await world.advertised("one")

    async def versions() -> list[str]:
        objects = [
            await world.cell.get(resources.ATTACHMENTS, world.shop, "one"),
            await world.cell.get(resources.BGP_ROUTERS, world.system, a.name),
            await world.cell.get(resources.BGP_ADVERTISEMENTS, world.system, "24-1"),
        ]
        return [raw["metadata"]["resourceVersion"] for raw in objects]

    before = await versions()
    await a.stop()
    await a.start()
    await until(lambda: "reports: first pass done" in a.log.rsplit("listening", 1)[-1], what="the second first pass")
    assert await versions() == before


async def test_field_owners_after_a_whole_life_are_those_of_the_table(world: World) -> None:
    """T20, api.md: every field that the agent writes is owned by manager node-agent, and none after the DEL."""
    (a,) = await world.add_nodes("a")
    await world.attach("one", 36, 1, 2)
    guest = await world.guest("one")
    await a.cni("ADD", guest)
    await world.advertised("one")

    async def owned(resource: resources.Resource, namespace: str, name: str) -> dict[str, set[str]]:
        raw = await world.cell.get(resource, namespace, name)
        owners: dict[str, set[str]] = {}
        for entry in raw["metadata"]["managedFields"]:
            fields = entry["fieldsV1"].get("f:status" if entry.get("subresource") else "f:spec") or {}
            owners.setdefault(entry["manager"], set()).update(fields)
        return owners

    facts = {"node", "podName", "podUID", "containerID", "hostInterface", "guestInterface", "vrfInterface"}
    mine = (await owned(resources.ATTACHMENTS, world.shop, "one"))["node-agent"]
    assert mine == {f"f:{name}" for name in facts | {"podSubnet", "podSubnets"}}
    for resource, name in ((resources.BGP_ADVERTISEMENTS, "24-1"), (resources.BGP_ROUTERS, a.name)):
        assert set(await owned(resource, world.system, name)) == {"node-agent"}
    await a.cni("DEL", guest)
    await world.withdrawn("one")
    assert not (await owned(resources.ATTACHMENTS, world.shop, "one")).get("node-agent")
