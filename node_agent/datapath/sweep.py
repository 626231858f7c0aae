"""Finds what is in our name space and belongs to nobody, and removes it.

Our name space: devices of our link group, rules and routes of our protocol number, elements of our firewall tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from node_agent.datapath import plan
from node_agent.datapath.decode import Device
from node_agent.datapath.execute import Executor
from node_agent.datapath.model import NodeConfig, Record, Stray
from node_agent.datapath.nft import Firewall
from node_agent.datapath.objects import (
    Element,
    FlushTable,
    Remove,
    RemoveElements,
    RemoveLink,
    Route,
    Rule,
    SetLink,
    Step,
)
from node_agent.datapath.observe import Observer


@dataclass(frozen=True, slots=True)
class Inventory:
    """Everything in our name space, as one observation found it."""

    devices: tuple[Device, ...]
    rules: frozenset[Rule]
    routes: frozenset[Route]
    elements: frozenset[Element]


async def inventory(observer: Observer, firewall: Firewall) -> Inventory:
    """Observe everything in our name space."""
    devices = await observer.devices()
    names = {device.index: device.name for device in devices} | {1: "lo"}
    return Inventory(
        devices=devices,
        rules=frozenset(rule for rule in await observer.rules() if rule.ours),
        routes=await observer.routes(None, names),
        elements=await firewall.elements() if await firewall.present() else frozenset(),
    )


async def strays(
    config: NodeConfig, records: Collection[Record], observer: Observer, firewall: Firewall
) -> frozenset[Stray]:
    """What none of these records explains."""
    return explained(config, records, await inventory(observer, firewall))


def explained(config: NodeConfig, records: Collection[Record], found: Inventory) -> frozenset[Stray]:
    """Compare an inventory with the records. Pure."""
    vpcs = {record.attachment.vpc for record in records}
    names = {record.attachment.device for record in records}
    names |= {name for vpc in vpcs for name in plan.vpc_devices(config, vpc)}
    wanted_rules = {rule for vpc in vpcs for rule in plan.vpc_rules(config, vpc)}
    wanted_rules |= {rule for record in records for rule in plan.attachment_rules(config, record.attachment)}
    wanted_rules |= {each for each in plan.node_objects(config) if isinstance(each, Rule)}
    wanted_elements = {each for record in records for each in plan.attachment_elements(config, record.attachment)}
    tables = {table for vpc in vpcs for table in (plan.tenant_table(config, vpc), plan.underlay_table(config, vpc))}
    shared = {config.sid_table, config.nexthop_table}
    wanted_shared = {each for each in plan.node_objects(config) if isinstance(each, Route)}
    wanted_shared |= {each for vpc in vpcs for each in plan.vpc_segments(config, vpc) if isinstance(each, Route)}
    result = {Stray("device", device.name) for device in found.devices if device.name not in names}
    result |= {Stray("rule", str(rule)) for rule in found.rules - wanted_rules}
    result |= {Stray("element", str(element)) for element in found.elements - wanted_elements}
    for route in found.routes:
        if route.table in shared and route not in wanted_shared:
            result.add(Stray("segment", str(route)))
        elif config.owns_table(route.table) and route.table not in tables | shared:
            result.add(Stray("table", str(route.table)))
    return frozenset(result)


async def remove(unwanted: Iterable[Stray], executor: Executor, observer: Observer, firewall: Firewall) -> None:
    """Remove strays that are still there: devices first, rules last."""
    chosen = set(unwanted)
    if chosen:
        await executor.run(removal(chosen, await inventory(observer, firewall)))


def removal(chosen: set[Stray], found: Inventory) -> tuple[Step, ...]:
    """The steps that remove strays. Pure."""
    steps: list[Step] = []
    for device in found.devices:
        if Stray("device", device.name) in chosen:
            steps += [SetLink(device.name, up=False), RemoveLink(device.name)]
    steps += [FlushTable(int(stray.name)) for stray in sorted(chosen) if stray.kind == "table"]
    steps += [Remove(route) for route in found.routes if Stray("segment", str(route)) in chosen]
    elements = tuple(each for each in found.elements if Stray("element", str(each)) in chosen)
    steps += [RemoveElements(elements)] if elements else []
    steps += [Remove(rule) for rule in found.rules if Stray("rule", str(rule)) in chosen]
    return tuple(steps)
