"""A program of ours, but each life of it ends with its first write, and is followed by another one.

``python -m tests.api.dying PACKAGE FLAGS...``, with the flags of the program. Nothing is cleaned up, as
with kill -9. Events do not count: nothing follows from them.
"""

import ctypes
import importlib
import os
import signal
import sys
from typing import Any

from netclaim.kube.transport import Transport

PR_SET_PDEATHSIG = 1
BORN = "a life begins"


def mortal(transport: type[Transport]) -> None:
    """Let a process die as soon as the API server has taken a write of it in."""
    send = transport.call

    async def call(self: Transport, method: str, path: str, **named: Any) -> Any:
        reply = await send(self, method, path, **named)
        if method != "GET" and "/events" not in path:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    transport.call = call  # type: ignore[method-assign,assignment]


def live(program: Any) -> None:
    """One life, which does not outlast whoever gave it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    print(BORN, flush=True)
    program.cli()


if __name__ == "__main__":
    mortal(Transport)
    # Imported once for all lives: what is left of a life is what it does.
    package = importlib.import_module(f"{sys.argv.pop(1)}.__main__")
    while (child := os.fork()) and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL:
        continue
    if not child:
        live(package)
