"""What the journal holds: a row for each attachment of a container, and what is still owed to the API. Values only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from netclaim import identity
from node_agent.datapath.model import Record

RowKey = tuple[str, str]
"""(container id, interface name): what the runtime names an attachment by."""


class State(StrEnum):
    """How far the work on a row has come."""

    ADDING = "adding"
    ADDED = "added"
    DELETING = "deleting"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One attachment of one container on this node.

    ``request``: what the runtime asked (pod, namespace path, network). ``attachment``: (namespace, name) of the
    VPCAttachment and ``uid`` its uid. ``netns_inode``: 0 when the call named no namespace. ``result``: the CNI result,
    once there is one. ``at``: nanoseconds since 1970 at the ADD.
    """

    container: str
    ifname: str
    state: State
    request: dict[str, Any]
    attachment: tuple[str, str]
    uid: str
    netns_inode: int
    record: Record
    result: dict[str, Any] | None = None
    at: int = 0

    @property
    def key(self) -> RowKey:
        """(container id, interface name)."""
        return (self.container, self.ifname)

    @property
    def device(self) -> str:
        """The host end's name."""
        return self.record.attachment.device

    @property
    def advertisement(self) -> str:
        """Name of the BGPAdvertisement."""
        return identity.advertisement_name(self.vpc, self.record.attachment.identifier)

    @property
    def withdrawal(self) -> Withdrawal:
        """What is to be told once the row is gone."""
        return Withdrawal(self.container, self.attachment, self.uid, self.vpc, self.record.attachment.identifier)

    @property
    def vpc(self) -> int:
        """The VPC's 48-bit identifier."""
        return self.record.attachment.vpc.identifier


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A report that is still owed: this container has left the attachment (``uid``), take its facts and routes back.

    ``vpc`` and ``own`` are the attachment's identifiers (48 and 16 bits).
    """

    container: str
    attachment: tuple[str, str]
    uid: str
    vpc: int
    own: int

    @property
    def device(self) -> str:
        """The device that the container had."""
        return identity.host_interface(self.vpc, self.own)

    @property
    def advertisement(self) -> str:
        """Name of the BGPAdvertisement."""
        return identity.advertisement_name(self.vpc, self.own)
