"""A namespace of the cell with its project in IPAM, as a consumer and an operator see them."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from netclaim import addresses
from netclaim.api import conditions, ipam, networking, resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from netclaimctl.cells import NO_ATTACHMENT
from netclaimctl.ipam import Planes
from tests.waiting import until

LOCATION = "us-central-1"
WITHIN = 40.0


@dataclass
class Shop:
    """`namespace` of the cell, whose label names `project`. Every wait has a deadline and tells what it last saw."""

    cell: Client
    ipam: Client
    namespace: str
    project: str
    made: list[str] = field(default_factory=list)

    # -- what a consumer writes ----------------------------------------------------------------------------------------

    async def network(self, name: str = "default", families: tuple[str, ...] = ("IPv6", "IPv4"), **spec: Any) -> Raw:
        return await self.cell.create(
            resources.NETWORKS,
            {"metadata": {"name": name, "namespace": self.namespace}, "spec": {"ipFamilies": list(families), **spec}},
        )

    async def claim(self, name: str = "web-0-eth0", *, network: str = "default", **spec: Any) -> Raw:
        return await self.cell.create(
            resources.CLAIMS,
            {
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"network": {"name": network}, **spec},
            },
        )

    async def delete_claim(self, name: str = "web-0-eth0") -> None:
        await self.cell.delete(resources.CLAIMS, self.namespace, name)

    async def delete_interface(self, name: str = "web-0-eth0") -> None:
        await self.cell.delete(resources.INTERFACES, self.namespace, name)

    # -- what is there -------------------------------------------------------------------------------------------------

    async def get(self, resource: resources.Resource, name: str) -> Raw | None:
        try:
            return await self.cell.get(resource, self.namespace, name)
        except NotFound:
            return None

    async def interface(self, name: str = "web-0-eth0") -> Raw | None:
        return await self.get(resources.INTERFACES, name)

    async def ip_claims(self, kind: str = "NetworkInterfaceClaim") -> list[Raw]:
        listed = await self.ipam.list(resources.IP_CLAIMS, self.project)
        return [raw for raw in listed if raw["spec"]["ownerRef"]["kind"] == kind]

    async def allocations(self) -> dict[str, Raw]:
        """Allocations for IPClaims, by block."""
        listed = await self.ipam.list(resources.IP_ALLOCATIONS, self.project)
        return {raw["spec"]["cidr"]: raw for raw in listed if raw["spec"]["purpose"] == ipam.PURPOSE_CLAIM}

    # -- waiting -------------------------------------------------------------------------------------------------------

    async def allocated(self, name: str = "web-0-eth0", *, timeout: float = WITHIN) -> Raw:
        """The claim once all its addresses are there and its interface is told as Bound."""

        async def look() -> Raw:
            raw = await self.cell.get(resources.CLAIMS, self.namespace, name)
            assert conditions.is_true(raw, networking.ALLOCATED), raw.get("status")
            bound = await self.cell.get(resources.INTERFACES, self.namespace, interface_name(raw))
            assert (bound.get("status") or {}).get("phase") == "Bound", bound.get("status")
            assert bound["spec"]["claimRef"]["uid"] == raw["metadata"]["uid"], bound["spec"]
            return raw

        return await until(look, timeout=timeout, what=f"claim {name} allocated")

    async def seeded(self, name: str = "web-0-eth0", *, timeout: float = WITHIN) -> Raw:
        """The claim once Programmed=Unknown was seeded: some seconds after it was made, when nobody else spoke."""

        async def look() -> Raw:
            raw = await self.cell.get(resources.CLAIMS, self.namespace, name)
            assert conditions.status_of(raw, networking.PROGRAMMED) == "Unknown", raw.get("status")
            return raw

        return await until(look, timeout=timeout, what=f"Programmed seeded on claim {name}")

    async def refused(self, reason: str, name: str = "web-0-eth0", *, timeout: float = WITHIN) -> Raw:
        """The claim once Ready is False for `reason`."""

        async def look() -> Raw:
            raw = await self.cell.get(resources.CLAIMS, self.namespace, name)
            assert conditions.reason_of(raw, networking.READY) == reason, raw.get("status")
            return raw

        return await until(look, timeout=timeout, what=f"claim {name} refused with {reason}")

    async def gone(self, resource: resources.Resource, name: str, *, timeout: float = WITHIN) -> None:
        async def look() -> bool:
            raw = await self.get(resource, name)
            assert raw is None, raw
            return True

        await until(look, timeout=timeout, what=f"{resource.kind} {name} gone")

    async def nothing_allocated(self, *, timeout: float = WITHIN) -> None:
        """No IPClaim of a claim, and no allocation for one."""

        async def look() -> bool:
            assert not await self.ip_claims()
            assert not await self.allocations()
            return True

        await until(look, timeout=timeout, what="nothing allocated")

    async def network_ready(self, name: str = "default", *, timeout: float = WITHIN) -> Raw:
        async def look() -> Raw:
            raw = await self.cell.get(resources.NETWORKS, self.namespace, name)
            assert conditions.is_true(raw, networking.READY), raw.get("status")
            return raw

        return await until(look, timeout=timeout, what=f"network {name} ready")

    async def sound(self, *, timeout: float = 90.0) -> None:
        """T04: wait until `netclaimctl ipam check` finds nothing, in the project or between it and the namespace.

        A data plane that a test plays makes no attachments: that one is missing is nothing to find here.
        """
        planes = Planes(self.ipam, (self.cell,), self.project)

        async def look() -> bool:
            found = (await planes.look()).violations
            found = [each for each in found if each.invariant != NO_ATTACHMENT]
            own = [str(each) for each in found if each.key[0] in {self.project, self.namespace}]
            assert not own, own[:20]
            return True

        await until(look, timeout=timeout, what=f"the checker finds nothing in {self.project}", interval=0.3)

    async def held_by_ipam(self, claim: Raw) -> None:
        """R13: each published address is the block of an IPClaim of this claim, and of the allocation behind it."""
        status = claim["status"]
        published = [entry["address"] for entry in status["addresses"]]
        published += [entry["address"] for entry in status.get("externalAddresses", [])]
        by_uid = {raw["metadata"]["uid"]: raw for raw in await self.ip_claims()}
        allocations = await self.allocations()
        own = {uid: raw for uid, raw in by_uid.items() if raw["spec"]["ownerRef"]["uid"] == claim["metadata"]["uid"]}
        assert len(own) == len(published), (published, list(own.values()))
        for address in published:
            found = [raw for cidr, raw in allocations.items() if addresses.same(cidr, address)]
            assert len(found) == 1, f"{address}: {found}"
            holder = own[found[0]["spec"]["claimRef"]["uid"]]
            assert addresses.same(holder["status"]["cidr"], address)


def interface_name(claim: Raw) -> str:
    return str(claim["spec"].get("networkInterfaceName") or claim["metadata"]["name"])


def all_addresses(raw: Raw) -> list[str]:
    """Published addresses of a claim, network's first."""
    status = raw["status"]
    listed: list[Mapping[str, str]] = [*status["addresses"], *status.get("externalAddresses", [])]
    return [entry["address"] for entry in listed]


def external_writer(client: Client, shop: Shop, manager: str) -> "Writer":
    return Writer(client, shop, manager)


@dataclass
class Writer:
    """A data plane: somebody else who writes statuses under a manager of its own."""

    client: Client
    shop: Shop
    manager: str

    async def tell(self, resource: resources.Resource, name: str, **status: Any) -> Raw:
        """Apply `status` (conditions as keyword `conditions`)."""
        obj = {"metadata": {"name": name, "namespace": self.shop.namespace}, "status": status}
        return await self.client.apply_status(resource, obj, manager=self.manager)


def said(kind: str, status: str, reason: str) -> Raw:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": f"said by the data plane: {reason}",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def in_parallel(*work: Any) -> None:
    async with asyncio.TaskGroup() as group:
        for each in work:
            group.create_task(each)
