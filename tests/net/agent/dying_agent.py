"""The agent, but it kills itself where a file says: `dying_agent.py <file> <flags of the agent>`.

The file holds a step, such as `Datapath.bring_up:after`, or `Netlink.exchange:after:7` for its seventh time from when
the file was there; without a file the agent is as ever. Nothing is cleaned
up, as with kill -9: what is on disk, in the kernel and at the API stays.
"""

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from node_agent import __main__ as program
from node_agent.cni import claiming
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.netlink import Netlink
from node_agent.journal import Journal
from tests.net.agent.test_agent_death import ADD_STEPS, DEL_STEPS, ROUND_TRIP

HOLDERS: dict[str, Any] = {"Datapath": Datapath, "Journal": Journal, "Netlink": Netlink, "claiming": claiming}


def arm(place: str, orders: Path) -> None:
    """Replace `<holder>.<function>` by one that dies before or after its work when that is ordered."""
    holder, name = place.split(".")
    work: Callable[..., Awaitable[Any]] = getattr(HOLDERS[holder], name)

    times = 0

    def die_if(moment: str) -> None:
        nonlocal times
        if not orders.exists():
            return
        wanted, _, count = orders.read_text().partition(f"{place}:{moment}")
        if wanted or f"{place}:{moment}{count}" != orders.read_text():
            return
        times += 1
        if times >= int(count.removeprefix(":") or 1):
            os.kill(os.getpid(), signal.SIGKILL)

    async def dying(*arguments: Any, **named: Any) -> Any:
        die_if("before")
        outcome = await work(*arguments, **named)
        die_if("after")
        return outcome

    setattr(HOLDERS[holder], name, dying)


if __name__ == "__main__":
    path = Path(sys.argv.pop(1))
    for each in sorted({step.partition(":")[0] for step in (*ADD_STEPS, *DEL_STEPS, ROUND_TRIP)}):
        arm(each, path)
    program.cli()
