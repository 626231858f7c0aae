"""Claims of mixed policies through rounds of random deletes, kills of the controllers and API faults.

The full form is ``NETCLAIM_CHAOS=200x20 python -m tests.run chaos -- -s`` (claims x rounds), and says how long each
round took to come to rest. The short form always tries the same deletes, the full one others each time;
``NETCLAIM_CHAOS_SEED`` repeats one.
"""

import os
import random

from tests.api.trials.house import House
from tests.chaos.storm import NETWORKS, TERMINATING, Storm

SHORT = "16x2"
CHOSEN = os.environ.get("NETCLAIM_CHAOS", SHORT)
CLAIMS, ROUNDS = (int(number) for number in CHOSEN.split("x"))
SEED = int(os.environ.get("NETCLAIM_CHAOS_SEED", "0")) or (1 if CHOSEN == SHORT else random.randrange(1, 10**6))


async def test_nothing_is_leaked_given_twice_or_wedged_by_deletes_kills_and_faults(house: House) -> None:
    """R15, T02, T03, T04, T07: after each round the checker finds nothing, and nothing is Terminating after 30 s."""
    storm = Storm(house, CLAIMS, random.Random(SEED))
    # IPAM by two programs that both believe that they lead, one of them with the cell's controllers in it.
    for life in (house.life(), house.life("ipam")):
        await life.begin()
    for network in NETWORKS:
        await house.shop.network(network)
    await storm.make_all()
    await storm.calm(timeout=10 * TERMINATING)
    for number in range(ROUNDS):
        await storm.blow()
        await storm.calm(timeout=8 * TERMINATING)
        done = f"round {number + 1}/{ROUNDS}: {storm.deletes} deletes, {storm.kills} kills"
        print(f"{done}, nothing Terminating after {storm.settled[-1]:.1f} s, seed {SEED}", flush=True)
    assert storm.kills >= ROUNDS, storm.kills
