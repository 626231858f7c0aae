"""The node's data path, as the agent uses it: open, set up the node, then attach, detach, route, check.

Order of one attachment: ``ensure_vpc`` -> ``prepare`` (device made DOWN, rules and firewall elements in place) -> the
caller claims the attachment at the API -> ``bring_up``. ``detach`` undoes any part of it, from the record alone.

Everything is idempotent: a repeated call finds its own work. Calls for different devices may run at the same time;
calls for one device are serialised by the caller (one VPC's own set-up is serialised here). A cancelled call may
leave half of its steps done: call ``detach``, or the same call again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

from node_agent.datapath.model import Attachment, Difference, NodeConfig, Record, RemoteNode, RemotePrefix, Sid, Vpc


@dataclass(frozen=True, slots=True)
class RouteChange:
    """What one call of ``set_remotes`` or ``set_nodes`` changed in the kernel."""

    added: int
    removed: int


@dataclass(frozen=True, slots=True)
class Stray:
    """A kernel object in our name space that nobody owns. Compares by value, so two observations can be intersected."""

    kind: str
    name: str


class Datapath:
    """The data path of the network namespace that this process runs in. One instance per process."""

    @classmethod
    async def open(cls, config: NodeConfig) -> Self:
        """Open the kernel handles. Changes nothing. Raises LinkMissingError when the uplink is not there."""
        raise NotImplementedError

    async def setup_node(self) -> None:
        """Sysctls, rules, SID table, tunnel source and the default-drop firewall; again at any time to heal them."""
        raise NotImplementedError

    async def set_nodes(self, nodes: Iterable[RemoteNode]) -> RouteChange:
        """Make the routes to the other nodes' locators exactly these, by difference."""
        raise NotImplementedError

    async def ensure_vpc(self, vpc: Vpc) -> None:
        """Tables, rules and the veth pair of a VPC. Cheap when they are there already."""
        raise NotImplementedError

    def sids(self, vpc: Vpc) -> tuple[Sid, ...]:
        """The SIDs under which this node takes packets for the VPC (pure; the same before and after ``ensure_vpc``)."""
        raise NotImplementedError

    async def prepare(self, attachment: Attachment, netns: str | None) -> Record:
        """Create the device DOWN (its peer in ``netns``), rules and firewall elements; put the record into the journal.

        A device of this name that carries our mark and the same owner is adopted (its state is completed); any other
        is DeviceTakenError. ``netns`` is the path of the guest's namespace, None for a tap. Raises NamespaceGoneError.
        """
        raise NotImplementedError

    async def bring_up(self, record: Record) -> None:
        """Put both ends up: neighbours, routes, SIDs are there before the guest's end is up, so its first packet works.

        Again at any time: whatever is missing is put back (a device that went down and up has lost its routes).
        """
        raise NotImplementedError

    async def adopt(self, record: Record) -> None:
        """Say, after a restart, that this attachment is live. Touches nothing; CHECK and sweep count on it."""
        raise NotImplementedError

    async def detach(self, record: Record) -> bool:
        """Remove what this record's owner has, in reverse order. False: the device is another owner's; nothing is touched.

        Tolerant of anything that is already gone, the namespace included.
        """
        raise NotImplementedError

    async def release_vpc(self, vpc: Vpc) -> bool:
        """Remove everything of the VPC. False (and nothing happens) as long as one attachment of it is live here."""
        raise NotImplementedError

    async def set_remotes(self, vpc: Vpc, remotes: Iterable[RemotePrefix]) -> RouteChange:
        """Make the VPC's routes to other nodes exactly these, by difference with what the kernel holds.

        A prefix inside the locator block, or one that overlaps it, is a ValueError and nothing is changed.
        """
        raise NotImplementedError

    async def check(self, record: Record) -> list[Difference]:
        """Compare kernel and record: link, MAC, MTU, addresses, routes, rules, neighbours, SIDs, firewall; empty: as it should be."""
        raise NotImplementedError

    async def check_node(self) -> list[Difference]:
        """The same for the node's own state (what ``setup_node`` made)."""
        raise NotImplementedError

    async def strays(self, records: Collection[Record]) -> frozenset[Stray]:
        """Everything in our name space that none of these records (nor a VPC of theirs) explains."""
        raise NotImplementedError

    async def remove(self, strays: Iterable[Stray]) -> None:
        """Remove strays that two observations have seen, links first, rules last."""
        raise NotImplementedError

    async def drops(self) -> dict[str, int]:
        """Packets dropped by the firewall so far, by reason."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the handles. Nothing in the kernel changes."""
        raise NotImplementedError
