"""Compares what the kernel holds with what the planner wants, and says each difference in words."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from node_agent.datapath import plan
from node_agent.datapath.decode import Device
from node_agent.datapath.execute import Executor
from node_agent.datapath.model import GATEWAY_MAC, Attachment, Difference, NodeConfig, Record, Routing, Vpc
from node_agent.datapath.netlink import Refusal, tunnel_source
from node_agent.datapath.nft import Firewall
from node_agent.datapath.objects import Neighbour, Object, Route, Rule, SetSysctl
from node_agent.datapath.observe import Observer


async def host_side(
    config: NodeConfig, record: Record, executor: Executor, observer: Observer, firewall: Firewall
) -> list[Difference]:
    """Everything of an attachment outside of its guest, its VPC's part included."""
    attachment = record.attachment
    vpc = attachment.vpc
    found = await executor.device(attachment.device)
    differences = _device(found, attachment.device, GATEWAY_MAC, attachment.mtu)
    if found is None:
        return differences
    if record.ifindex and found.index != record.ifindex:
        differences.append(Difference(f"device {found.name}", f"index {record.ifindex}", f"index {found.index}"))
    if found.alias != plan.alias(attachment.owner):
        differences.append(
            Difference(f"device {found.name}", f"of {attachment.owner}", f"of {found.alias or 'nobody'}")
        )
    names = {found.index: found.name, 1: "lo"}
    pair = await _devices(executor, plan.vpc_devices(config, vpc), differences)
    names |= {device.index: device.name for device in pair}
    differences += _enslaved(config, vpc, (found, *pair))
    wanted: list[Object] = [
        *plan.vpc_tables(config, vpc),
        *plan.vpc_rules(config, vpc),
        *plan.vpc_segments(config, vpc),
        *(each for gateway in plan.gateways(attachment) for each in plan.gateway_objects(config, vpc, gateway)),
        *plan.attachment_rules(config, attachment),
        *plan.host_objects(config, attachment),
    ]
    held: set[Object] = set(await observer.rules())
    tables = {each.table for each in wanted if isinstance(each, Route)}
    for table in tables:
        held |= await observer.routes(table, names)
    for device in (found, *pair):
        held |= await observer.on_device(device)
    differences += _missing(wanted, held)
    for device in pair:
        exposed = {each.destination for each in await observer.local_routes(device)}
        for gateway in plan.gateways(attachment):
            if plan.hidden_local(vpc, gateway).destination in exposed:
                differences.append(Difference(f"gateway {gateway}", "local in its VPC alone", "local on the node"))
    differences += _settings(plan.attachment_sysctls(config, attachment))
    differences += await _elements(config, attachment, firewall)
    return differences


async def guest_side(record: Record, guest: Executor, observer: Observer) -> list[Difference]:
    """Everything of an attachment inside its guest's namespace."""
    attachment = record.attachment
    found = await guest.device(attachment.guest_ifname)
    differences = _device(found, attachment.guest_ifname, attachment.guest_mac, attachment.mtu, peer=True)
    if found is None:
        return differences
    wanted = plan.guest_objects(attachment)
    held: set[Object] = set(await observer.on_device(found))
    for table in {each.table for each in wanted if isinstance(each, Route)}:
        held |= await observer.routes(table, {found.index: found.name}, oif=found.index)
    if any(isinstance(each, Rule) for each in wanted):
        held |= await observer.rules()
    return differences + _missing(wanted, held)


async def node_side(config: NodeConfig, observer: Observer, firewall: Firewall) -> list[Difference]:
    """What ``setup_node`` made."""
    differences: list[Difference] = []
    differences += _settings(plan.node_sysctls(config))
    wanted = plan.node_objects(config)
    held: set[Object] = set(await observer.rules())
    for table in {each.table for each in wanted if isinstance(each, Route)}:
        held |= await observer.routes(table, {1: "lo"})
    differences += _missing(wanted, held)
    for family in (4, 6):
        if any(isinstance(each, Rule) and each.family == family and each.priority == 0 for each in held):
            differences.append(Difference(f"rule -{family} 0", "none (local comes behind ours)", "lookup local"))
    try:
        source = await tunnel_source()
    except Refusal as refusal:
        differences.append(Difference("tunnel source", str(config.tunnel_source), refusal.said))
    else:
        if source != config.tunnel_source:
            differences.append(Difference("tunnel source", str(config.tunnel_source), str(source)))
    if not await firewall.present():
        differences.append(Difference("firewall tables", "loaded", None))
    return differences


def _enslaved(config: NodeConfig, vpc: Vpc, devices: Iterable[Device]) -> list[Difference]:
    """With VRF: host end and inner end belong to the VPC's device. One that does not is routed as the node is."""
    if config.routing is not Routing.VRF:
        return []
    by_name = {device.name: device for device in devices}
    vrf = by_name.pop(vpc.vrf, None)
    by_name.pop(vpc.outer, None)
    return [
        Difference(f"device {device.name}", f"master {vpc.vrf}", f"master {device.master or 'none'}")
        for device in by_name.values()
        if vrf is not None and device.master != vrf.index
    ]


def _settings(wanted: Iterable[SetSysctl]) -> list[Difference]:
    differences = []
    for setting in wanted:
        file = Path("/proc/sys") / setting.path
        value = file.read_text().strip() if file.exists() else None
        if value != setting.value and not (value is None and setting.optional):
            differences.append(Difference(f"sysctl {setting.path}", setting.value, value))
    return differences


async def _devices(executor: Executor, names: Iterable[str], differences: list[Difference]) -> list[Device]:
    found = []
    for name in names:
        device = await executor.device(name)
        if device is None:
            differences.append(Difference(f"device {name}", "there and up", None))
        else:
            found.append(device)
            if not device.up:
                differences.append(Difference(f"device {name}", "up", "down"))
    return found


async def _elements(config: NodeConfig, attachment: Attachment, firewall: Firewall) -> list[Difference]:
    wanted = plan.attachment_elements(config, attachment)
    if not await firewall.present():
        return [Difference("firewall tables", "loaded", None)]
    held = await firewall.elements({(each.family, each.set) for each in wanted})
    return [Difference(str(each), "there", None) for each in wanted if each not in held]


def _device(found: Device | None, name: str, mac: str, mtu: int, *, peer: bool = False) -> list[Difference]:
    if found is None:
        return [Difference(f"device {name}", "there and up", None)]
    differences = []
    if not found.ours and not peer:
        differences.append(Difference(f"device {name}", "of our making", f"another's, of the kind {found.kind or '?'}"))
    if not found.up:
        differences.append(Difference(f"device {name}", "up", "down"))
    if found.mac != mac:
        differences.append(Difference(f"device {name}", f"MAC {mac}", f"MAC {found.mac}"))
    if found.mtu != mtu:
        differences.append(Difference(f"device {name}", f"MTU {mtu}", f"MTU {found.mtu}"))
    return differences


def _missing(wanted: Iterable[Object], held: set[Object]) -> list[Difference]:
    """Each wanted object that is not held; where one of the same place is, that one is named as found."""
    places = {_place(each): each for each in held}
    differences = []
    for each in wanted:
        if each not in held:
            other = places.get(_place(each))
            differences.append(Difference(_subject(each), str(each), None if other is None else str(other)))
    return differences


def _place(thing: Object) -> tuple[object, ...]:
    match thing:
        case Route():
            return "route", thing.table, thing.destination, thing.metric
        case Neighbour():
            return "neighbour", thing.dev, thing.address
        case _:
            return (thing,)


def _subject(thing: Object) -> str:
    return str(thing).split(" ", 1)[0]
