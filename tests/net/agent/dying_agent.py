"""The agent, but it kills itself at one step: `dying_agent.py Datapath.bring_up:after <flags of the agent>`.

Nothing is cleaned up, as with kill -9: what is on disk, in the kernel and at the API stays.
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
from node_agent.journal import Journal
from node_agent.presence import Presence

HOLDERS: dict[str, Any] = {"Datapath": Datapath, "Journal": Journal, "Presence": Presence, "claiming": claiming}


def arm(step: str) -> None:
    """Replace `<holder>.<function>` by one that dies before or after its work."""
    place, moment = step.split(":")
    holder, name = place.split(".")
    work: Callable[..., Awaitable[Any]] = getattr(HOLDERS[holder], name)

    async def dying(*arguments: Any, **named: Any) -> Any:
        if moment == "after":
            await work(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(HOLDERS[holder], name, dying)


if __name__ == "__main__":
    arm(sys.argv.pop(1))
    program.cli()
