"""What this kernel and this process can do, found out by trying in a throw-away network namespace."""

from __future__ import annotations

from dataclasses import dataclass

from node_agent.datapath.model import Routing


@dataclass(frozen=True, slots=True)
class Features:
    """``missing``: what the data path cannot do without, one plain sentence each. ``vrf``: whether VRF devices work."""

    missing: tuple[str, ...]
    vrf: bool


def choose_routing(asked: str, features: Features) -> Routing:
    """The backend for ``--routing auto|vrf|rules``. ValueError when VRF is asked for and the kernel has none."""
    if asked == "auto":
        return Routing.VRF if features.vrf else Routing.RULES
    routing = Routing(asked)
    if routing is Routing.VRF and not features.vrf:
        raise ValueError("--routing vrf: this kernel has no VRF device (module vrf); use --routing rules or auto")
    return routing


async def kernel_features() -> Features:
    """Try everything that the data path uses in a network namespace of its own; nothing outside of it changes."""
    raise NotImplementedError
