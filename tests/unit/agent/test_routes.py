"""Which advertised prefixes become routes, and which are not believed."""

from ipaddress import IPv6Address, IPv6Network, ip_network
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from node_agent import routes
from node_agent.datapath.model import RemoteNode, RemotePrefix
from node_agent.routes import plan_nodes, plan_remotes, slim_advertisement

BLOCK = IPv6Network("fd5f::/32")
SID4, SID6 = "fd5f:0:0:b:0:0:24:4", "fd5f:0:0:b:0:0:24:6"
NODES = {"node-b": RemoteNode(IPv6Network("fd5f:0:0:b::/64"), IPv6Address("fd00:aa::2"))}


def router(name: str, locator: str, next_hop: str = "fd00:aa::2") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"srv6Locator": locator, "nextHop": next_hop}}


def advert(*prefixes: str, name: str = "24-41", by: str = "node-b", sids: Any = None) -> dict[str, Any]:
    default = [{"family": "IPv4", "sid": SID4}, {"family": "IPv6", "sid": SID6}]
    spec = {"routerRef": {"name": by}, "prefixes": list(prefixes), "sids": default if sids is None else sids}
    return {"metadata": {"name": name}, "spec": spec}


def remotes(*adverts: dict[str, Any], local: tuple[str, ...] = ()) -> routes.RoutePlan:
    return plan_remotes(adverts, NODES, own="node-a", block=BLOCK, local={ip_network(text) for text in local})


def reasons(plan: routes.RoutePlan) -> list[str]:
    return [one.reason for one in plan.ignored]


def test_each_prefix_goes_to_the_sid_of_its_family() -> None:
    plan = remotes(advert("10.128.0.4/32", "fd20:0:1:4::/96"))
    assert plan.remotes == (
        RemotePrefix(ip_network("10.128.0.4/32"), IPv6Address(SID4)),
        RemotePrefix(ip_network("fd20:0:1:4::/96"), IPv6Address(SID6)),
    )
    assert plan.ignored == ()


def test_a_sid_without_a_family_takes_both() -> None:
    """api.md: one End.DT46 with VRF."""
    plan = remotes(advert("10.128.0.4/32", "fd20:0:1:4::/96", sids=[{"sid": "fd5f:0:0:b:0:0:24:46"}]))
    assert {remote.sid for remote in plan.remotes} == {IPv6Address("fd5f:0:0:b:0:0:24:46")}


def test_this_nodes_own_advertisements_are_no_remote_prefixes() -> None:
    assert remotes(advert("10.128.0.4/32", by="node-a")) == routes.RoutePlan((), ())


def test_a_prefix_that_touches_the_locator_block_is_never_accepted() -> None:
    """node-agent.md, Across nodes; pitfall 8 of the data path: it would reopen the SIDs to a guest."""
    plan = remotes(advert("fd5f:0:0:c::/64", "fd5f::/16", "fd5f::/32", "fd00::/8"))
    assert plan.remotes == ()
    assert reasons(plan) == [routes.INSIDE_BLOCK] * 4


def test_a_default_route_through_a_remote_guest_is_accepted() -> None:
    assert len(remotes(advert("::/0", "0.0.0.0/0")).remotes) == 2


def test_a_sid_outside_its_routers_locator_is_not_believed() -> None:
    """A node that advertises another node's SID would draw or misdirect traffic."""
    plan = remotes(advert("10.128.0.4/32", sids=[{"family": "IPv4", "sid": "fd5f:0:0:c:0:0:24:4"}]))
    assert (plan.remotes, reasons(plan)) == ((), [routes.OUTSIDE_LOCATOR])


def test_a_vanished_router_takes_its_routes_along() -> None:
    """T08: a deleted Node takes its BGPRouter, and no route to it stays."""
    assert reasons(remotes(advert("10.128.0.4/32", by="node-gone"))) == [routes.UNKNOWN_ROUTER]


def test_a_local_guest_wins_over_what_another_node_still_advertises() -> None:
    """R28: a slot that moved here; the old node's advertisement lags behind."""
    plan = remotes(advert("10.128.0.4/32"), local=("10.128.0.4/32",))
    assert (plan.remotes, reasons(plan)) == ((), [routes.LOCAL])


def test_one_prefix_in_two_advertisements_is_routed_once_and_the_same_way_every_time() -> None:
    first, second = advert("10.128.0.4/32", name="24-41"), advert("10.128.0.4/32", name="24-42")
    assert remotes(first, second) == remotes(second, first)
    assert reasons(remotes(first, second)) == [routes.DUPLICATE]


def test_a_malformed_advertisement_is_ignored_and_the_others_are_not() -> None:
    """T24: one bad object never blocks the others."""
    plan = remotes(advert("10.128.0.999/32", name="1-1"), advert("10.128.0.4/32", sids=[]), advert("10.128.0.5/32"))
    assert [str(remote.prefix) for remote in plan.remotes] == ["10.128.0.5/32"]
    assert sorted(reasons(plan)) == [routes.MALFORMED, routes.NO_SID]


def test_other_nodes_are_taken_from_their_routers() -> None:
    listed = [
        router("node-a", "fd5f:0:0:a::/64"),
        router("node-b", "fd5f:0:0:b::/64"),
        router("outside", "fd60::/64"),
        router("odd", "none"),
        router("nowhere", "fd5f:0:0:d::/64", "::"),
        router("everybody", "fd5f:0:0:e::/64", "ff02::1"),
    ]
    assert plan_nodes(listed, "node-a", BLOCK) == NODES


def test_a_locator_that_two_routers_claim_is_nobodys() -> None:
    """api.md: no two nodes share a locator."""
    twice = [router("node-b", "fd5f:0:0:b::/64"), router("node-c", "fd5f:0:0:b::/64", "fd00:aa::3")]
    assert plan_nodes(twice, "node-a", BLOCK) == {}


@given(st.lists(st.ip_addresses(v=6), max_size=8), st.integers(min_value=1, max_value=128))
def test_no_planned_prefix_ever_overlaps_the_locator_block(addresses: list[IPv6Address], length: int) -> None:
    inside = [IPv6Address(int(BLOCK[0]) | int(address) >> 32) for address in addresses]
    prefixes = [str(ip_network((address, length), strict=False)) for address in (*addresses, *inside)]
    plan = remotes(advert(*prefixes))
    assert not any(remote.prefix.overlaps(BLOCK) for remote in plan.remotes)
    assert len(plan.remotes) + len(plan.ignored) == len(prefixes)


def test_only_what_routes_need_is_kept_of_another_nodes_advertisement() -> None:
    """node-agent.md, Across nodes: agents keep little of each advertisement."""
    full = advert("10.128.0.4/32")
    full["metadata"] |= {"namespace": "s", "uid": "u", "resourceVersion": "3", "labels": {"a": "b"}}
    full["status"] = {"conditions": []}
    kept = slim_advertisement(full, "node-a")
    assert set(kept) == {"metadata", "spec"}
    assert remotes(kept) == remotes(full)
    assert slim_advertisement(full, "node-b") is full
