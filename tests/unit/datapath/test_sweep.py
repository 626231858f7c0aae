"""The sweep removes what nobody owns, all of it, and nothing else (node-agent.md, journal)."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from node_agent.datapath import plan, sweep
from node_agent.datapath.decode import Device
from node_agent.datapath.model import Attachment, NodeConfig, Record
from node_agent.datapath.names import LINK_GROUP
from node_agent.datapath.objects import FlushTable, Remove, RemoveElements, RemoveLink, Route, Rule
from tests.unit.datapath.strategies import attachments, configs, unhurried


def _device(name: str) -> Device:
    return Device(
        name=name,
        index=1,
        kind="veth",
        mac="",
        mtu=0,
        up=True,
        running=True,
        alias="",
        group=LINK_GROUP,
        master=0,
        peer=0,
    )


def _inventory(settings: NodeConfig, held: list[Attachment]) -> sweep.Inventory:
    """What the kernel holds when exactly these are attached."""
    vpcs = {each.vpc for each in held}
    names = {each.device for each in held} | {name for vpc in vpcs for name in plan.vpc_devices(settings, vpc)}
    rules = {each for each in plan.node_objects(settings) if isinstance(each, Rule)}
    routes = {each for each in plan.node_objects(settings) if isinstance(each, Route)}
    for vpc in vpcs:
        rules |= set(plan.vpc_rules(settings, vpc))
        routes |= set(plan.vpc_tables(settings, vpc))
        routes |= {each for each in plan.vpc_segments(settings, vpc) if isinstance(each, Route)}
    for each in held:
        rules |= set(plan.attachment_rules(settings, each))
        routes |= {found for found in plan.host_objects(settings, each) if isinstance(found, Route)}
    elements = {found for each in held for found in plan.attachment_elements(settings, each)}
    return sweep.Inventory(
        tuple(_device(name) for name in sorted(names)), frozenset(rules), frozenset(routes), frozenset(elements)
    )


def _records(held: list[Attachment]) -> list[Record]:
    return [Record(attachment=each, netns=None) for each in held]


def _on_one_node(held: list[Attachment]) -> list[Attachment]:
    """No two VPCs with one index, nor one VPC with two: what the journal guarantees."""
    numbers = {identifier: number for number, identifier in enumerate({each.vpc.identifier for each in held}, start=1)}
    return [replace(each, vpc=replace(each.vpc, index=numbers[each.vpc.identifier])) for each in held]


_held = st.lists(attachments(), max_size=4, unique_by=lambda each: (each.vpc.identifier, each.identifier)).map(
    _on_one_node
)


@unhurried
@given(configs, _held)
def test_what_somebody_owns_is_no_stray(settings: NodeConfig, held: list[Attachment]) -> None:
    """A sweep at rest does nothing."""
    assert sweep.explained(settings, _records(held), _inventory(settings, held)) == frozenset()


@unhurried
@given(configs, _held, st.data())
def test_what_lost_its_owner_is_removed_whole_and_the_rest_is_kept(
    settings: NodeConfig, held: list[Attachment], data: st.DataObject
) -> None:
    """T09: after the removal the kernel holds exactly what the records explain."""
    kept = [each for each in held if data.draw(st.booleans())]
    found, wanted = _inventory(settings, held), _inventory(settings, kept)
    steps = sweep.removal(set(sweep.explained(settings, _records(kept), found)), found)
    devices = {step.device for step in steps if isinstance(step, RemoveLink)}
    flushed = {step.table for step in steps if isinstance(step, FlushTable)}
    removed = {step.object for step in steps if isinstance(step, Remove)}
    elements = {each for step in steps if isinstance(step, RemoveElements) for each in step.elements}
    assert {each.name for each in found.devices} - devices == {each.name for each in wanted.devices}
    assert found.rules - removed == wanted.rules
    assert found.elements - elements == wanted.elements
    left = {each for each in found.routes - removed if each.table not in flushed and each.dev not in devices}
    assert left == {each for each in wanted.routes if each.dev not in devices}
    positions = [number for number, step in enumerate(steps) if isinstance(step, RemoveLink)]
    rules = [n for n, step in enumerate(steps) if isinstance(step, Remove) and isinstance(step.object, Rule)]
    assert not positions or not rules or max(positions) < min(rules)


@unhurried
@given(configs, attachments())
def test_routes_outside_our_tables_are_never_strays(settings: NodeConfig, attachment: Attachment) -> None:
    """The routes to other nodes' locators stand in main and are nobody's stray."""
    foreign = Route(table=plan.MAIN_TABLE, destination=plan.DEFAULT[6], dev="up0")
    found = _inventory(settings, [attachment])
    found = replace(found, routes=found.routes | {foreign})
    assert sweep.explained(settings, _records([attachment]), found) == frozenset()
