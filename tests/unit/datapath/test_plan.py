"""The planner keeps a guest closed at every moment, and takes away all that it made (node-agent.md)."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network

import pytest
from hypothesis import given

from node_agent.datapath import plan
from node_agent.datapath.model import GATEWAY_MAC, Attachment, Mode, NodeConfig, RemoteNode, RemotePrefix, Routing, Vpc
from node_agent.datapath.objects import (
    AddElements,
    Create,
    DeviceAddress,
    Ensure,
    EnsureHidden,
    FlushTable,
    LoadFirewall,
    Neighbour,
    Object,
    ProxyNeighbour,
    Remove,
    RemoveElements,
    RemoveLink,
    Route,
    RouteKind,
    Rule,
    SetLink,
    SetSysctl,
    Step,
    Tap,
    Veth,
)
from tests.unit.datapath.strategies import BLOCK, attachments, config, configs, remotes, unhurried, vpcs


def _first(steps: tuple[Step, ...], wanted: type, **attributes: object) -> int:
    for position, step in enumerate(steps):
        if isinstance(step, wanted) and all(getattr(step, name) == value for name, value in attributes.items()):
            return position
    raise AssertionError(f"no {wanted.__name__} with {attributes}")


def _positions(steps: tuple[Step, ...], *kinds: type) -> list[int]:
    return [position for position, step in enumerate(steps) if isinstance(step, kinds)]


def _ensured(steps: Iterable[Step]) -> list[Object]:
    return [step.object for step in steps if isinstance(step, Ensure)]


def _all_of(settings: NodeConfig, attachment: Attachment) -> tuple[Step, ...]:
    netns = "/run/netns/guest" if attachment.mode is Mode.NETNS else None
    return (*plan.before_up(settings, attachment, netns), *plan.bring_up(settings, attachment).host)


@unhurried
@given(configs, attachments())
def test_rules_and_firewall_are_there_before_a_host_end_is_up(settings: NodeConfig, attachment: Attachment) -> None:
    """Data path design: otherwise the guest falls into the tables local and main."""
    steps = _all_of(settings, attachment)
    up = _first(steps, SetLink, device=attachment.device, up=True)
    assert _first(steps, Create) == 0
    guards = [position for position in _positions(steps, Ensure) if isinstance(steps[position].object, Rule)]
    assert max([*guards, *_positions(steps, AddElements)]) < up
    assert sum(isinstance(step, SetLink) and step.up is True for step in steps) == 1


@unhurried
@given(configs, attachments())
def test_a_device_is_made_closed_whatever_its_families(settings: NodeConfig, attachment: Attachment) -> None:
    """Without VRF a blackhole of both families ends the rules of every device, also of one without addresses."""
    rules = plan.attachment_rules(settings, attachment)
    if settings.routing is Routing.VRF:
        assert rules == ()
        return
    closing = {rule.family for rule in rules if rule.table is None and rule.iif == attachment.device}
    assert closing == {4, 6}
    opening = [rule for rule in rules if rule.table == plan.tenant_table(settings, attachment.vpc) and rule.iif]
    assert all(rule.source is not None for rule in opening)
    assert {rule.source for rule in opening} == {each.block for each in attachment.addresses}


@unhurried
@given(configs, attachments())
def test_detach_closes_first_and_takes_the_rules_away_last(settings: NodeConfig, attachment: Attachment) -> None:
    """Data path design: the device goes before its rules (a stale rule revives)."""
    steps = plan.detach(settings, attachment)
    assert steps[0] == RemoveLink(attachment.device)
    assert all(isinstance(step, RemoveElements | Remove) for step in steps[1:])
    firewall = _first(steps, RemoveElements)
    assert all(position > firewall for position in _positions(steps, Remove))


@unhurried
@given(configs, attachments())
def test_detach_names_everything_that_attach_made(settings: NodeConfig, attachment: Attachment) -> None:
    """R15: what does not hang on the device (and go with it) is named in the detach."""
    made, removed = _all_of(settings, attachment), plan.detach(settings, attachment)
    gone = {step.object for step in removed if isinstance(step, Remove)}
    elements = {each for step in removed if isinstance(step, RemoveElements) for each in step.elements}
    for thing in _ensured(made):
        if isinstance(thing, Rule):
            assert thing in gone
            assert attachment.device in (thing.iif, thing.oif)
        else:
            assert thing.dev == attachment.device
    for step in made:
        if isinstance(step, AddElements):
            assert set(step.elements) == elements


@unhurried
@given(configs, vpcs)
def test_releasing_a_vpc_names_everything_that_it_was_made_of(settings: NodeConfig, vpc: Vpc) -> None:
    """R15: devices, both tables, all rules, all SIDs and next hops."""
    made, removed = plan.vpc_up(settings, vpc), plan.vpc_down(settings, vpc)
    gone = {step.object for step in removed if isinstance(step, Remove)}
    flushed = {step.table for step in removed if isinstance(step, FlushTable)}
    devices = {step.device for step in removed if isinstance(step, RemoveLink)}
    for step in made:
        if isinstance(step, Create):
            assert step.link.name in devices
    for thing in _ensured(made):
        if isinstance(thing, Route):
            assert thing.table in flushed or thing in gone
        elif isinstance(thing, Rule):
            assert thing in gone
        else:
            assert thing.dev in {vpc.inner, vpc.outer}
    assert max(_positions(removed, RemoveLink)) < min(_positions(removed, FlushTable))


@unhurried
@given(configs, vpcs)
def test_a_vpc_is_closed_before_its_pair_is_up(settings: NodeConfig, vpc: Vpc) -> None:
    """Both tables end in unreachable and the rules are there, before a packet can enter the pair."""
    steps = plan.vpc_up(settings, vpc)
    up = _first(steps, SetLink, device=vpc.inner, up=True)
    before = _ensured(steps[:up])
    tables = {plan.tenant_table(settings, vpc), plan.underlay_table(settings, vpc)}
    for table in tables:
        for family in (4, 6):
            assert plan.unreachable(table, plan.DEFAULT[family]) in before
    assert set(plan.vpc_rules(settings, vpc)) <= set(before)


@unhurried
@given(configs, vpcs)
def test_the_locator_block_is_unreachable_for_tenants_whatever_they_route(settings: NodeConfig, vpc: Vpc) -> None:
    """Data path design: a VPC's default route reopens the way to the segments without it."""
    guards = [route for route in plan.vpc_tables(settings, vpc) if route.destination == BLOCK]
    assert [(guard.table, guard.kind) for guard in guards] == [
        (plan.tenant_table(settings, vpc), RouteKind.UNREACHABLE)
    ]


@unhurried
@given(configs, remotes, vpcs)
def test_a_remote_prefix_is_encapsulated_behind_the_pair_only(
    settings: NodeConfig, remote: RemotePrefix, vpc: Vpc
) -> None:
    """The design: no route with a segment in a table that a guest's packet is looked up in."""
    plan.accept_remote(settings, remote)
    outer, inner = plan.remote_objects(settings, vpc, remote)
    assert (outer.table, outer.dev) == (plan.underlay_table(settings, vpc), vpc.outer)
    assert outer.encap is not None
    assert (inner.table, inner.dev) == (plan.tenant_table(settings, vpc), vpc.inner)
    assert inner.encap is None
    assert plan.LOCAL_METRIC < plan.REMOTE_METRIC == outer.metric == inner.metric < plan.LAST_METRIC


@pytest.mark.parametrize("prefix", ["fd5f::/32", "fd5f:0:1::/48", "fd5f::a:0:0:3e:4/128"])
def test_a_prefix_inside_the_locator_block_is_refused(prefix: str) -> None:
    """node-agent.md: it would be reached through the VPC's own routes."""
    with pytest.raises(ValueError, match="inside the locator block"):
        plan.accept_remote(config(Routing.RULES), RemotePrefix(IPv6Network(prefix), IPv6Address("fd5f::2")))


def test_a_segment_outside_the_locator_block_is_refused() -> None:
    """The encapsulated packet would leave towards anywhere."""
    with pytest.raises(ValueError, match="outside the locator block"):
        plan.accept_remote(config(Routing.RULES), RemotePrefix(IPv4Network("10.0.0.0/24"), IPv6Address("2001:db8::1")))


@unhurried
@given(configs, vpcs, vpcs)
def test_two_vpcs_share_no_table_mark_device_segment_or_next_hop(settings: NodeConfig, one: Vpc, two: Vpc) -> None:
    """R35: isolation 2."""
    if one.index == two.index or one.identifier == two.identifier:
        return

    def belongings(vpc: Vpc) -> set[object]:
        segments = [each for each in plan.vpc_segments(settings, vpc) if isinstance(each, Route)]
        return {
            plan.tenant_table(settings, vpc),
            plan.underlay_table(settings, vpc),
            *plan.vpc_devices(settings, vpc),
            *(each.destination for each in segments),
        }

    assert not belongings(one) & belongings(two)
    assert one.mark != two.mark


@unhurried
@given(vpcs)
def test_a_mark_keeps_clear_of_kube_proxys_bits_and_of_small_numbers(vpc: Vpc) -> None:
    """0x4000 would masquerade a guest's packets, 0x8000 drop them; small marks are everybody's."""
    assert not vpc.mark & 0xC000
    assert vpc.mark >> 24 == 0x6E


@unhurried
@given(vpcs)
def test_tables_lie_in_our_ranges_and_never_in_the_kernels(vpc: Vpc) -> None:
    """node-agent.md: T 100000-149999, T' 150000-199999; the first of each is the node's own."""
    settings = config(Routing.RULES)
    assert 100_000 < plan.tenant_table(settings, vpc) < 150_000
    assert 150_000 < plan.underlay_table(settings, vpc) < 200_000
    assert {settings.sid_table, settings.nexthop_table} == {100_000, 150_000}


def test_segments_are_locator_vpc_and_function() -> None:
    """node-agent.md: locator /64 | VPC 48 bits | function 16 bits, per VPC and node; the attachment is not in it."""
    vpc = Vpc(0x1234567890AB, 1)
    rules, vrf = config(Routing.RULES), config(Routing.VRF)
    assert [(sid.family, str(sid.address), sid.function) for sid in plan.sids(rules, vpc)] == [
        (4, "fd5f::a:1234:5678:90ab:4", "End.DX4"),
        (6, "fd5f::a:1234:5678:90ab:6", "End.DX6"),
    ]
    assert [(sid.family, str(sid.address), sid.function) for sid in plan.sids(vrf, vpc)] == [
        (0, "fd5f::a:1234:5678:90ab:46", "End.DT46")
    ]


@unhurried
@given(attachments())
def test_a_vrf_is_joined_before_any_address_and_before_up(attachment: Attachment) -> None:
    """Data path design: enslaving cycles the addresses; their local routes have to land in T, not in local."""
    settings = config(Routing.VRF)
    steps = _all_of(settings, attachment)
    joined = _first(steps, SetLink, device=attachment.device, master=attachment.vpc.vrf)
    addresses = [p for p in _positions(steps, Ensure) if isinstance(steps[p].object, DeviceAddress)]
    assert all(joined < position for position in addresses)
    assert joined < _first(steps, SetLink, device=attachment.device, up=True)
    held = {each.interface.ip for each in _ensured(steps) if isinstance(each, DeviceAddress)}
    assert set(plan.gateways(attachment)) <= held


@unhurried
@given(vpcs)
def test_a_vrfs_rules_come_before_the_kernels_own_and_its_table_is_whole_before_it_is_up(vpc: Vpc) -> None:
    """Data path design: rules 899 to 901 before the l3mdev rule at 1000; T complete before the device is up."""
    settings = config(Routing.VRF)
    steps = plan.vpc_up(settings, vpc)
    assert all(rule.priority < 1000 for rule in plan.vpc_rules(settings, vpc))
    up = _first(steps, SetLink, device=vpc.vrf, up=True)
    assert set(plan.vpc_tables(settings, vpc)) <= set(_ensured(steps[:up]))
    assert _first(steps, SetLink, device=vpc.inner, master=vpc.vrf) < _first(steps, SetLink, device=vpc.inner, up=True)
    assert plan.gateway_up(settings, vpc, IPv6Address("fd20:0:1::1")) == ()


def test_a_gateway_never_stays_in_the_table_local() -> None:
    """Data path design: a tenant picks it, and the node would lose that address."""
    settings, vpc = config(Routing.RULES), Vpc(62, 7)
    hidden, local = plan.gateway_up(settings, vpc, IPv6Address("fd20:0:1::1"))
    assert isinstance(hidden, EnsureHidden)
    assert (hidden.local.table, hidden.local.dev) == (plan.LOCAL_TABLE, vpc.inner)
    assert isinstance(local, Ensure)
    assert isinstance(local.object, Route)
    assert (local.object.table, local.object.kind) == (100_007, RouteKind.LOCAL)
    # The last IPv4 address of a device takes its neighbours and routes along: it stays while the VPC lives.
    assert plan.gateway_down(settings, vpc, IPv6Address("fd20:0:1::1")) == (Remove(local.object),)


@unhurried
@given(attachments(mode=Mode.NETNS))
def test_the_guest_comes_last_and_has_all_it_needs_before_it_is_up(attachment: Attachment) -> None:
    """node-agent.md: the first packet works; NODAD, permanent neighbours, onlink default routes."""
    steps = plan.bring_up(config(Routing.RULES), attachment).guest
    up = _first(steps, SetLink, device="eth0", up=True)
    before, after = _ensured(steps[:up]), _ensured(steps[up:])
    assert {each.interface for each in before if isinstance(each, DeviceAddress)} == {
        each.interface for each in attachment.addresses
    }
    assert {each.address for each in before if isinstance(each, Neighbour)} == set(plan.gateways(attachment))
    assert all(each.mac == GATEWAY_MAC for each in before if isinstance(each, Neighbour))
    assert len(after) == len(plan.families(attachment))
    assert all(isinstance(each, Route) and each.via in plan.gateways(attachment) for each in after)


@unhurried
@given(configs, attachments())
def test_every_address_has_its_neighbour_and_its_route_with_the_gateway_as_source(
    settings: NodeConfig, attachment: Attachment
) -> None:
    """Data path design: without the source an address of the node leaks to the guest."""
    held = plan.host_objects(settings, attachment)
    assert {each.address for each in held if isinstance(each, Neighbour)} == {
        each.address for each in attachment.addresses
    }
    routes = {each.destination: each for each in held if isinstance(each, Route)}
    for each in attachment.addresses:
        route = routes[each.block]
        assert route.source == (None if settings.routing is Routing.VRF else each.gateway)
        assert route.table == plan.tenant_table(settings, attachment.vpc)
    proxied = {each.address for each in held if isinstance(each, ProxyNeighbour)}
    ipv6 = {gateway for gateway in plan.gateways(attachment) if gateway.version == 6}
    assert proxied == (set() if settings.routing is Routing.VRF else ipv6)


@unhurried
@given(attachments())
def test_a_machine_gets_a_tap_and_nothing_is_done_inside_of_it(attachment: Attachment) -> None:
    """R18: Hypervisor mode names no namespace."""
    link = plan.attachment_link(attachment, "/run/netns/guest")
    inside = plan.bring_up(config(Routing.RULES), attachment).guest
    if attachment.mode is Mode.HYPERVISOR:
        assert isinstance(link, Tap)
        assert inside == ()
    else:
        assert isinstance(link, Veth)
        assert (link.peer, link.peer_mac, link.netns) == ("eth0", attachment.guest_mac, "/run/netns/guest")
    assert (link.mac, link.mtu) == (GATEWAY_MAC, attachment.mtu)


@unhurried
@given(configs)
def test_a_node_is_walled_before_it_forwards_for_anybody_and_local_is_never_without_a_rule(
    settings: NodeConfig,
) -> None:
    """Data path design: the firewall first; local is never without a rule."""
    steps = plan.node_up(settings)
    assert _positions(steps, LoadFirewall)
    for family in (4, 6):
        added = steps.index(Ensure(Rule(family=family, priority=plan.LOCAL_PRIORITY, table=plan.LOCAL_TABLE)))
        removed = steps.index(Remove(Rule(family=family, priority=0, table=plan.LOCAL_TABLE, ours=False)))
        assert added < removed


@unhurried
@given(configs)
def test_segments_are_looked_up_for_packets_from_the_uplink_only(settings: NodeConfig) -> None:
    """Data path design: a guest cannot use its own node's segments, whatever else fails."""
    leading = [
        each
        for each in plan.node_objects(settings)
        if isinstance(each, Rule) and each.table in {settings.sid_table, settings.nexthop_table}
    ]
    assert leading
    assert all(rule.iif == settings.uplink and rule.destination is not None for rule in leading)


def test_a_locator_of_another_node_leads_over_the_uplink_or_its_router() -> None:
    """Data path design: every node's locator is routed to its underlay address."""
    node = RemoteNode(IPv6Network("fd5f:0:0:b::/64"), IPv6Address("fd00:aa::2"))
    settings = config(Routing.RULES)
    assert plan.locator_route(settings, node).via == node.underlay
    assert plan.locator_route(settings, node, IPv6Address("fe80::1")).via == IPv6Address("fe80::1")


@unhurried
@given(attachments(), attachments())
def test_a_guests_mac_is_its_own_and_stays(one: Attachment, two: Attachment) -> None:
    """R28: the same attachment gets the same MAC; locally administered and unicast."""
    assert plan.guest_mac(one.vpc.identifier, one.identifier) == one.guest_mac
    assert int(one.guest_mac[:2], 16) & 0b11 == 0b10
    if (one.vpc.identifier, one.identifier) != (two.vpc.identifier, two.identifier):
        assert one.guest_mac != two.guest_mac


@unhurried
@given(configs, attachments(), vpcs)
def test_every_step_says_in_words_what_it_does(settings: NodeConfig, attachment: Attachment, vpc: Vpc) -> None:
    """style.md: a plan is a list of small values that print well."""
    steps = (
        *plan.node_up(settings),
        *plan.vpc_up(settings, vpc),
        *plan.vpc_down(settings, vpc),
        *_all_of(settings, attachment),
        *plan.bring_up(settings, attachment).guest,
        *plan.detach(settings, attachment),
    )
    for step in steps:
        assert str(step)
        assert "object at" not in str(step)
        assert "(" not in str(step).replace("(module", "")
    assert all(not step.path.startswith("/") for step in steps if isinstance(step, SetSysctl))
