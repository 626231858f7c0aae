"""T01: as many claims as addresses, and three programs that each believe that they lead."""

import asyncio

from netclaim.api import ipam as ipam_api
from netclaim.api import resources
from tests.api.ipam.stack import all_bound, claim, consistent, make, make_pool, release
from tests.api.trials.house import House

SIZE = 64
WRITERS = 64


async def test_as_many_claims_as_addresses_are_all_bound_once_by_three_programs_that_all_lead(house: House) -> None:
    """T01: 64 addresses, 64 claims, 64 writers; delete all, recreate all while one sleeps and wakes, and one dies."""
    ipam, project = house.shop.ipam, house.shop.project
    await make_pool(ipam, project, "192.0.2.0/26")
    lives = [house.life("ipam", gates=False) for _ in range(3)]
    async with asyncio.TaskGroup() as group:
        for life in lives:
            group.create_task(life.begin())
    names = [f"fit-{number}" for number in range(SIZE)]
    for round_ in range(2):
        wanted = [claim(project, name, class_name="few") for name in names]
        if round_ == 0:
            await make(ipam, *wanted, writers=WRITERS)
        else:
            with lives[1].paused():
                await make(ipam, *wanted[: SIZE // 2], writers=WRITERS)
                await all_bound(ipam, project, SIZE // 2)
            # It wakes with an old view of every block, while another one dies.
            await make(ipam, *wanted[SIZE // 2 :], writers=WRITERS)
            lives[2].kill()
        found = await all_bound(ipam, project, SIZE)
        assert len(set(found.values())) == SIZE
        await consistent(ipam, project)
        held = await ipam.list(resources.IP_ALLOCATIONS, project)
        assert len([raw for raw in held if raw["spec"]["purpose"] == ipam_api.PURPOSE_CLAIM]) == SIZE
        await release(ipam, project, names)
