"""What the kernel holds, read with its own filters: by table, by device, never everything of a kind for one call."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address

from node_agent.datapath import decode, messages
from node_agent.datapath.decode import Device
from node_agent.datapath.errors import KernelRefusedError
from node_agent.datapath.messages import Received
from node_agent.datapath.names import ALIAS
from node_agent.datapath.netlink import Netlink, Refusal
from node_agent.datapath.objects import FAMILIES, Object, Route, Rule


class Observer:
    """Reads the namespace of its netlink handle."""

    def __init__(self, netlink: Netlink) -> None:
        self._netlink = netlink

    async def rules(self) -> frozenset[Rule]:
        """Every rule of both families (the kernel cannot filter them)."""
        found: set[Rule] = set()
        for family in FAMILIES:
            found.update(await self._dump(messages.dump_rules(family), decode.rule))
        return frozenset(found)

    async def routes(self, table: int | None, names: Mapping[int, str], *, oif: int | None = None) -> frozenset[Route]:
        """Our routes in a table (None: in every table), by both families; ``names``: ifindex to device name."""

        def wanted(message: Received) -> Route | None:
            return decode.route(message, names)

        found: set[Route] = set()
        for family in FAMILIES:
            found.update(await self._dump(messages.dump_routes(family, table=table, oif=oif), wanted))
        return frozenset(found)

    async def on_device(self, device: Device) -> frozenset[Object]:
        """The addresses, permanent neighbours and proxied neighbours of one device."""
        name, index = device.name, device.index
        found: set[Object] = set()
        for family in FAMILIES:
            found.update(
                await self._dump(messages.dump_addresses(family, index), lambda got: decode.address(got, name))
            )
            for proxies in (False, True):
                query = messages.dump_neighbours(family, index, proxies=proxies)
                found.update(await self._dump(query, lambda got: decode.neighbour(got, name)))
        return frozenset(found)

    async def local_routes(self, device: Device) -> frozenset[Route]:
        """What the table ``local`` holds for a device, whoever put it there."""
        names = {device.index: device.name}
        found: set[Route] = set()
        for family in FAMILIES:
            query = messages.dump_routes(family, table=messages.LOCAL_TABLE, oif=device.index, ours=False)
            found.update(await self._dump(query, lambda message: decode.route(message, names)))
        return frozenset(found)

    async def gateway_to(self, address: IPv6Address) -> IPv6Address | None:
        """The next hop of the kernel's own route to an address; None when it is on link (or has no route yet)."""
        (answer,) = await self._netlink.exchange([messages.get_route(address)])
        if isinstance(answer, Refusal) or not answer:
            return None
        via = answer[0].get("RTA_GATEWAY")
        return IPv6Address(via) if via else None

    async def devices(self) -> tuple[Device, ...]:
        """Every device with both of our marks (another may use the link group too). A full dump: for the sweep."""

        def wanted(message: Received) -> Device | None:
            found = decode.device(message)
            return found if found.ours and found.alias.startswith(f"{ALIAS} ") else None

        return tuple(await self._dump(messages.dump_links(), wanted))

    async def _dump(
        self, query: messages.Message, decode: messages.Decoder[messages.Decoded]
    ) -> list[messages.Decoded]:
        try:
            return await self._netlink.dump(query, decode)
        except Refusal as refusal:
            if refusal.code in messages.GONE:
                return []
            raise KernelRefusedError(query, refusal.code, refusal.said) from refusal
