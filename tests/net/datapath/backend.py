"""Which routing backend the data path's tests run in: rules here, VRF in a virtual machine whose kernel has it."""

import os
from typing import Literal

from node_agent.datapath.model import Routing

ROUTING = Routing(os.environ.get("NETCLAIM_TEST_ROUTING", "rules"))
VRF = ROUTING is Routing.VRF
SOON = 60.0 if VRF else 10.0
"""Seconds within which something happens that takes milliseconds: an emulated machine is slow, a loaded one too."""


def scene_scope(fixture_name: str, config: object) -> Literal["session", "module"]:
    """An emulated machine takes a minute for a scene: there, all modules share one."""
    return "session" if VRF else "module"
