"""Rounds of random deletes, kills and API faults over claims of mixed policies, and what must hold after each."""

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass, field

from netclaim.api import networking, resources
from netclaim.api.meta import Raw
from netclaim.kube.errors import AlreadyExists, ApiError, Lost, NotFound
from tests.api.claims.shop import all_addresses
from tests.api.trials.house import House
from tests.waiting import until

PUBLIC = [{"class": "public-unicast-ipv4"}]
ATTACHED = "cloud.datumapis.com/attached"
NETWORKS = ("default", "other")
TERMINATING = 30.0
"""Seconds within which nothing may be Terminating any more, once nothing goes wrong. A loaded machine gets more."""


@dataclass
class Storm:
    """`claims` names of a house, each there or not as chance will have it."""

    house: House
    claims: int
    chance: random.Random
    kills: int = 0
    deletes: int = 0
    settled: list[float] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return [f"web-{number}-eth0" for number in range(self.claims)]

    def spec(self, number: int) -> Raw:
        """Fixed for each name, so that a kept interface fits its next claim."""
        families = (["IPv4"], ["IPv6"], ["IPv6", "IPv4"])[number % 3]
        return {
            "network": {"name": NETWORKS[number % 2]},
            "ipFamilies": families,
            "reclaimPolicy": "Retain" if number % 5 in (0, 3) else "Delete",
            "addresses": PUBLIC if number % 7 == 0 else [],
        }

    async def make_all(self) -> None:
        """Create every claim that is not there."""
        shop = self.house.shop
        there = {raw["metadata"]["name"] for raw in await shop.cell.list(resources.CLAIMS, shop.namespace)}
        gate = asyncio.Semaphore(16)

        async def make(number: int, name: str) -> None:
            raw = {"metadata": {"name": name, "namespace": shop.namespace}, "spec": self.spec(number)}
            async with gate:
                with contextlib.suppress(AlreadyExists, Lost):
                    await shop.cell.create(resources.CLAIMS, raw)

        async with asyncio.TaskGroup() as group:
            for number, name in enumerate(self.names):
                if name not in there:
                    group.create_task(make(number, name))

    async def blow(self) -> None:
        """One round: deletes of all kinds while requests fail, watches break and programs die."""
        gates = (self.house.cell_gate, self.house.ipam_gate)
        for gate in gates:
            gate.rate = self.chance.choice([0.0, 0.1, 0.25])
        deaths = asyncio.create_task(self._deaths())
        try:
            for _ in range(max(6, self.claims // 4)):
                await self._delete_something()
                if self.chance.random() < 0.2:
                    self.chance.choice(gates).cut()
            await self.make_all()
            await deaths
        finally:
            deaths.cancel()
            await asyncio.wait({deaths})
            for gate in gates:
                gate.rate = 0.0

    async def _deaths(self) -> None:
        for _ in range(2):
            await asyncio.sleep(self.chance.uniform(0.1, 1.5))
            victim = self.chance.choice(self.house.lives)
            victim.kill()
            self.kills += 1
            await asyncio.sleep(self.chance.uniform(0.0, 0.3))
            await victim.begin(working=False)

    async def _delete_something(self) -> None:
        """A claim or an interface; by any propagation; some held by a data plane."""
        shop, name = self.house.shop, self.chance.choice(self.names)
        propagation = self.chance.choice(["Background", "Foreground", "Orphan"])
        # A Subnet is not among them: one that is deleted under its interfaces waits for them, as it should.
        what = self.chance.choices(("claim", "interface", "held"), (10, 4, 2))[0]
        self.deletes += 1
        with contextlib.suppress(NotFound):
            if what == "claim":
                await shop.cell.delete(resources.CLAIMS, shop.namespace, name, propagation=propagation)
            elif what == "interface":
                await shop.cell.delete(resources.INTERFACES, shop.namespace, name, propagation=propagation)
            else:
                await self._delete_while_held(name)

    async def _delete_while_held(self, name: str) -> None:
        """A data plane holds the interface for a moment after its claim was deleted."""
        shop = self.house.shop
        hold = [{"op": "add", "path": "/metadata/finalizers/-", "value": ATTACHED}]
        try:
            await shop.cell.json_patch(resources.INTERFACES, shop.namespace, name, hold)
        except ApiError:
            return
        await shop.cell.delete(resources.CLAIMS, shop.namespace, name)
        await asyncio.sleep(self.chance.uniform(0.0, 0.2))
        await release_hold(self.house, name)

    async def calm(self, *, timeout: float) -> None:
        """Nothing is Terminating, every claim is bound to what IPAM holds for it, and the checker finds nothing."""
        began = time.monotonic()
        shop = self.house.shop

        async def nothing_terminating() -> bool:
            kinds = (resources.CLAIMS, resources.INTERFACES, resources.SUBNETS, resources.NETWORK_CONTEXTS)
            going = [
                (kind.kind, raw["metadata"]["name"], raw.get("status"))
                for kind in kinds
                for raw in await shop.cell.list(kind, shop.namespace)
                if raw["metadata"].get("deletionTimestamp")
            ]
            going += [
                ("IPClaim", raw["metadata"]["name"], raw.get("status"))
                for raw in await shop.ipam.list(resources.IP_CLAIMS, shop.project)
                if raw["metadata"].get("deletionTimestamp")
            ]
            assert not going, going[:5]
            return True

        await until(nothing_terminating, timeout=timeout, what="nothing is Terminating", interval=0.3)
        self.settled.append(time.monotonic() - began)

        async def all_allocated() -> list[Raw]:
            await self.make_all()
            claims = await shop.cell.list(resources.CLAIMS, shop.namespace)
            waiting = [
                (raw["metadata"]["name"], raw.get("status"))
                for raw in claims
                if not _is_true(raw, networking.ALLOCATED) or raw["metadata"].get("deletionTimestamp")
            ]
            assert len(claims) == self.claims, len(claims)
            assert not waiting, (len(waiting), waiting[:3])
            return claims

        claims = await until(all_allocated, timeout=4 * timeout, what="every claim allocated", interval=0.5)
        by_network: dict[str, list[str]] = {}
        for raw in claims:
            by_network.setdefault(raw["spec"]["network"]["name"], []).extend(
                entry["address"] for entry in raw["status"]["addresses"]
            )
        for addresses in by_network.values():
            assert len(addresses) == len(set(addresses)), sorted(addresses)
        outside = [entry["address"] for raw in claims for entry in raw["status"].get("externalAddresses", [])]
        assert len(outside) == len(set(outside)), sorted(outside)
        assert all(all_addresses(raw) for raw in claims)
        await self.house.shop.sound(timeout=4 * timeout)


async def release_hold(house: House, name: str) -> None:
    """The data plane lets go."""
    shop = house.shop
    for _ in range(20):
        try:
            raw = await shop.cell.get(resources.INTERFACES, shop.namespace, name)
            finalizers = raw["metadata"].get("finalizers") or []
            if ATTACHED not in finalizers:
                return
            at = f"/metadata/finalizers/{finalizers.index(ATTACHED)}"
            ops = [{"op": "test", "path": at, "value": ATTACHED}, {"op": "remove", "path": at}]
            await shop.cell.json_patch(resources.INTERFACES, shop.namespace, name, ops)
        except NotFound:
            return
        except ApiError:
            continue
        return
    raise AssertionError(f"{name} cannot be let go")


def _is_true(raw: Raw, kind: str) -> bool:
    conditions = (raw.get("status") or {}).get("conditions") or []
    return any(entry["type"] == kind and entry["status"] == "True" for entry in conditions)
