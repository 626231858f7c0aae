"""An API server that is away: what is held stays, what is new waits with a reason, and nothing storms on its return.

`NETCLAIM_AWAY_SECONDS=60` is the long form.
"""

import asyncio
import os
import time
from collections import Counter

from netclaim.api import conditions, networking, resources
from netclaim.api.meta import Raw
from tests.api.claims.shop import all_addresses
from tests.api.trials.house import House
from tests.faults.stage import Stage
from tests.waiting import until

AWAY = float(os.environ.get("NETCLAIM_AWAY_SECONDS", "6"))
HELD = [f"held-{number}-eth0" for number in range(6)]
NEW = [f"new-{number}-eth0" for number in range(3)]
PER_CLAIM = 30
"""Writes that one claim may take from nothing to Allocated, IPAM's own among them: three times what it takes."""


async def furnished(house: House) -> dict[str, list[str]]:
    """A network with some claims; their addresses, and nothing is still moving."""
    await house.life().begin()
    await house.shop.network()
    for name in HELD:
        await house.shop.claim(name)
    held = {name: all_addresses(await house.shop.allocated(name, timeout=90)) for name in HELD}
    for name in HELD:
        await house.shop.seeded(name, timeout=90)
    await house.shop.sound()
    await at_rest(house.cell_gate, house.ipam_gate)
    return held


async def at_rest(*gates: Stage, quiet: float = 3.0, timeout: float = 90.0) -> None:
    """Wait until nothing was written for some seconds."""
    seen, since = -1, time.monotonic()

    def look() -> bool:
        nonlocal seen, since
        now = sum(gate.writes.total() for gate in gates)
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since >= quiet

    await until(look, timeout=timeout, what="nothing is written any more", interval=0.1)


def written(house: House, gate: Stage, before: Counter[str]) -> Counter[str]:
    """What was written in this shop and its project since then: those of an earlier test may still be going."""
    own = tuple(f"/namespaces/{name}/" for name in (house.shop.namespace, house.shop.project))
    since = gate.writes - before
    return Counter({what: times for what, times in since.items() if any(place in what for place in own)})


async def unchanged(house: House, held: dict[str, list[str]]) -> None:
    """Every held claim is as it was: bound, allocated, and by the same addresses."""
    for name, addresses in held.items():
        raw = await house.shop.cell.get(resources.CLAIMS, house.shop.namespace, name)
        assert all_addresses(raw) == addresses
        assert conditions.is_true(raw, networking.BOUND), raw["status"]
        assert conditions.is_true(raw, networking.ALLOCATED), raw["status"]


async def test_while_ipam_is_away_what_is_held_stays_and_what_is_new_waits_and_binds_without_a_storm(
    house: House,
) -> None:
    """R12, R15, T32: the claims that wait say that IPAM does not answer; on its return only they are written."""
    shop = house.shop
    held = await furnished(house)
    house.ipam_gate.leave()
    left = time.monotonic()
    for name in NEW:
        await shop.claim(name)
    for name in NEW:
        told = await shop.refused("AllocationFailed", name, timeout=90)
        assert "IPAM does not answer" in conditions.message_of(told, networking.READY)
        assert conditions.status_of(told, networking.BOUND) == "False"
    # One that is given back meanwhile waits too: its address stays its own until IPAM has freed it.
    await shop.delete_claim(HELD[-1])
    gone = {HELD[-1]: held.pop(HELD[-1])}
    before = house.cell_gate.writes.copy()
    asked = house.ipam_gate.requests.total()
    await asyncio.sleep(max(0.0, AWAY - (time.monotonic() - left)))
    await unchanged(house, held)
    away = time.monotonic() - left
    # Nobody hammers what does not answer, and nobody writes for the sake of it.
    assert written(house, house.cell_gate, before).total() <= 4 * (len(NEW) + 1), written(
        house, house.cell_gate, before
    )
    assert house.ipam_gate.requests.total() - asked <= 20 * away, house.ipam_gate.requests.most_common(5)

    cell_before, ipam_before = house.cell_gate.writes.copy(), house.ipam_gate.writes.copy()
    house.ipam_gate.come_back()
    for name in NEW:
        await shop.held_by_ipam(await shop.allocated(name, timeout=120))
    for name in gone:
        await shop.gone(resources.CLAIMS, name, timeout=120)
    await house.shop.sound()
    await at_rest(house.cell_gate, house.ipam_gate)
    await unchanged(house, held)
    on_return = written(house, house.cell_gate, cell_before) + written(house, house.ipam_gate, ipam_before)
    assert on_return.total() <= PER_CLAIM * (len(NEW) + len(gone)), on_return
    for name in held:
        # What was held is not touched at all: not its claim, its interface or its IPClaims.
        assert not [what for what in on_return if f"/{name}" in what], on_return


async def test_while_the_cell_is_away_ipam_goes_on_and_nothing_is_released(house: House) -> None:
    """R15, T05: a cell that cannot be read is no cell without owners; its sweep gives nothing back."""
    shop = house.shop
    held = await furnished(house)
    uids = {raw["metadata"]["uid"] for raw in await shop.ip_claims()}
    before = house.ipam_gate.writes.copy()
    house.cell_gate.leave()
    left = time.monotonic()
    await shop.claim("late-0-eth0")
    # Longer than the grace period of the sweep: it has looked twice.
    await asyncio.sleep(max(AWAY, 11.0 - (time.monotonic() - left)))
    assert {raw["metadata"]["uid"] for raw in await shop.ip_claims()} == uids
    assert not written(house, house.ipam_gate, before), written(house, house.ipam_gate, before)
    cell_before = house.cell_gate.writes.copy()
    house.cell_gate.come_back()
    await shop.held_by_ipam(await shop.allocated("late-0-eth0", timeout=120))
    await house.shop.sound()
    await at_rest(house.cell_gate, house.ipam_gate)
    await unchanged(house, held)
    on_return = written(house, house.cell_gate, cell_before) + written(house, house.ipam_gate, before)
    assert on_return.total() <= PER_CLAIM, on_return


async def test_an_nso_that_starts_while_ipam_is_away_says_so_and_serves_what_does_not_need_it(house: House) -> None:
    """T27: Workloads get their claims and instances; addresses follow when IPAM answers."""
    shop = house.shop
    await shop.network()
    house.ipam_gate.leave()
    life = house.life("networks,claims,compute", "--pod-provider=false")
    await life.begin(working=False)
    await life.says("cannot use the API server")
    template = {"metadata": {"name": "eth0"}, "spec": {"network": {"name": "default"}}}
    spec: Raw = {
        "replicas": 2,
        "networkInterfaceClaimTemplates": [template],
        "template": {"spec": {"containers": [{"name": "main", "image": "none"}]}},
    }
    workload = {"metadata": {"name": "web", "namespace": shop.namespace}, "spec": spec}
    await shop.cell.create(resources.WORKLOADS, workload)

    async def made() -> bool:
        claims = {raw["metadata"]["name"] for raw in await shop.cell.list(resources.CLAIMS, shop.namespace)}
        instances = {raw["metadata"]["name"] for raw in await shop.cell.list(resources.INSTANCES, shop.namespace)}
        assert claims == {"web-0-eth0", "web-1-eth0"}, claims
        assert instances == {"web-0", "web-1"}, instances
        return True

    await until(made, timeout=90, what="claims and instances without IPAM")
    assert not await shop.ip_claims()
    house.ipam_gate.come_back()
    await house.life("ipam").begin()
    for name in ("web-0-eth0", "web-1-eth0"):
        await shop.held_by_ipam(await shop.allocated(name, timeout=120))
    await shop.cell.delete(resources.WORKLOADS, shop.namespace, "web")
    for name in ("web-0-eth0", "web-1-eth0"):
        await shop.gone(resources.CLAIMS, name, timeout=90)
