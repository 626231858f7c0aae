"""A journal made again from what is left without one: the kernel's devices, and what the API has recorded of them.

The kernel says which devices there are, whose they are (their alias) and which table a VPC has; the attachments of
this node say the rest. A row is made only where both agree on the container, so nothing is taken for a guest's that is
not. What nobody explains afterwards is removed as any stray.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from ipaddress import ip_interface
from typing import Any, Final

import structlog

from netclaim import identity
from netclaim.api import resources
from netclaim.api.cloud import HYPERVISOR
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError
from node_agent.cni import namespaces
from node_agent.cni.attachment import Identity, owner_mark, plan_attachment, read_attachment
from node_agent.cni.protocol import Call, Pointer
from node_agent.cni.refusals import Refusal
from node_agent.cni.result import cni_result
from node_agent.datapath import plan
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.decode import Device
from node_agent.datapath.model import Record
from node_agent.datapath.sweep import Inventory
from node_agent.journal import Journal
from node_agent.rows import Row, State

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent.rebuild")

AGAIN: Final = 2.0
"""Seconds until an API server that could not be asked is asked again."""
EARLIEST: Final = 1
"""When a row's ADD was, if nobody knows any more: before every DEL that was kept for it."""
_FACTS: Final = (
    "node", "podName", "podUID", "containerID", "hostInterface", "guestInterface", "vrfInterface", "podSubnet",
    "podSubnets",
)  # fmt: skip


class Rebuild:
    """Fills an empty journal."""

    def __init__(self, *, node: str, client: Client, journal: Journal, datapath: Datapath) -> None:
        self._node = node
        self._client = client
        self._journal = journal
        self._datapath = datapath

    async def run(self) -> None:
        """Make the rows of everything that lives here. Waits for the API server, but only where something does.

        Meanwhile nobody listens on the socket: guests keep their network, an ADD is told to come back, a DEL is kept.
        """
        found = await self._datapath.inventory()
        devices = {device.name: device for device in found.devices if identity.parse_host_interface(device.name)}
        if not devices:
            return
        log.critical("there is no journal: it is made again from the kernel and the API", devices=len(devices))
        for vpc, index in self._indexes(found).items():
            await self._journal.keep_vpc_index(vpc, index)
        made = 0
        for raw in await self._attachments():
            row = await self._row(raw, devices)
            if row is not None and await self._journal.get(row.key) is None:
                await self._journal.begin(row)
                made += 1
        log.critical("the journal is made again", rows=made, devices=len(devices))

    def _indexes(self, found: Inventory) -> dict[int, int]:
        """Index by VPC of every VPC whose pair leads into a table of ours."""
        config = self._datapath.config
        tables = {rule.iif: rule.table for rule in found.rules if rule.table and config.owns_table(rule.table)}
        indexes = {}
        for device in found.devices:
            vpc = plan.vpc_of_alias(device.alias)
            if vpc is not None and (table := tables.get(identity.pair_outer(vpc))) is not None:
                indexes[vpc] = table - config.underlay_tables
        return indexes

    async def _attachments(self) -> list[Raw]:
        """The attachments that record this node, asked for until somebody answers."""
        while True:
            try:
                listed = [raw async for page in self._client.list_pages(resources.ATTACHMENTS) for raw in page.items]
            except ApiError as error:
                log.warning("the API cannot be asked which containers live here: again soon", error=str(error))
                await asyncio.sleep(AGAIN)
            else:
                return [raw for raw in listed if (raw.get("status") or {}).get("node") == self._node]

    async def _row(self, raw: Raw, devices: dict[str, Device]) -> Row | None:
        """The row of an attachment, None when the kernel does not have what it records."""
        status, metadata = raw["status"], raw["metadata"]
        texts = [status.get(name) or "" for name in ("vpc", "vpcAttachment", "containerID", "guestInterface")]
        if not all(texts):
            return None
        who = Identity(identity.from_base62(texts[0]), identity.from_base62(texts[1]))
        container, ifname = texts[2], texts[3]
        device = devices.get(who.device)
        index = (await self._journal.vpcs()).get(who.vpc)
        if device is None or index is None or device.alias != plan.alias(owner_mark(container, ifname)):
            return None
        pointer = Pointer(metadata["namespace"], metadata["name"], texts[0], texts[1])
        try:
            return await self._planned(raw, pointer, who, index, device)
        except Refusal as refusal:
            log.exception("an attachment cannot be read", attachment=str(pointer), error=str(refusal))
            return None

    async def _planned(self, raw: Raw, pointer: Pointer, who: Identity, index: int, device: Device) -> Row | None:
        status = raw["status"]
        model = read_attachment(pointer, raw)
        tap = model.spec.interface.mode == HYPERVISOR
        mac = plan.guest_mac(who.vpc, who.attachment)
        netns = "" if tap else await namespaces.path_of(status["guestInterface"], mac, device.peer)
        if netns is None:
            log.error("the namespace of a container is not found", device=device.name, container=status["containerID"])
            return None
        call = Call("ADD", status["containerID"], status["guestInterface"], netns)
        attachment = plan_attachment(call, pointer, model, who, index)
        # The addresses that it was made with, whatever the attachment says by now.
        held = {str(ip_interface(text).network) for text in status.get("podSubnets") or ()}
        kept = tuple(each for each in attachment.addresses if str(each.block) in held)
        attachment = replace(attachment, addresses=kept or attachment.addresses)
        facts: dict[str, Any] = {name: status[name] for name in _FACTS if name in status}
        return Row(
            container=call.container,
            ifname=call.ifname,
            state=State.ADDED,
            request={
                "netns": netns,
                "network": f"{pointer.namespace}.{pointer.name}",
                "pod": f"{pointer.namespace}/{status.get('podName', 'unknown')}",
                "facts": facts,
            },
            attachment=(pointer.namespace, pointer.name),
            uid=model.uid,
            netns_inode=namespaces.inode_of(netns),
            record=Record(attachment=attachment, netns=netns or None, ifindex=device.index),
            result=cni_result(attachment, netns),
            at=EARLIEST,
        )
