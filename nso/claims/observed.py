"""What the plans of claims and of interfaces are made from: snapshots, taken at one moment, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.api.networking import (
    ALLOCATED_FOR_ANNOTATION,
    PROJECT_ANNOTATION,
    IPFamily,
    Network,
    NetworkContext,
    NetworkInterface,
    NetworkInterfaceClaim,
    Subnet,
)
from nso.claims.reasons import Refusal
from nso.ipclaims import Cell


@dataclass(frozen=True, slots=True)
class HeldInterface:
    """An interface as it is stored, and as it is read."""

    raw: Raw = field(repr=False)
    interface: NetworkInterface

    @property
    def minted_for(self) -> str:
        """Uid of the claim that its IPClaims are for, empty when nobody has recorded one."""
        return self.interface.metadata.annotations.get(ALLOCATED_FOR_ANNOTATION, "").rpartition("/")[2]

    @property
    def holder(self) -> str:
        """Uid of the claim that holds it, empty while it is available."""
        return self.interface.spec.claim_ref.uid if self.interface.spec.claim_ref else ""

    @property
    def project(self) -> str:
        """The project that its addresses were allocated in."""
        return self.interface.metadata.annotations.get(PROJECT_ANNOTATION, "")

    def is_settled_on(self, uid: str) -> bool:
        """Whether the claim of that uid holds it, and its IPClaims are that claim's."""
        return self.holder == uid and self.minted_for == uid


@dataclass(frozen=True, slots=True)
class ClaimSeen:
    """Around one claim.

    `project` is the recorded one, else the one that the namespace names; empty for none. `interface` is the one of the
    name that the claim wants, whoever holds it. `ip_claims` are those that this claim owns by uid, those of a name that
    it would use, and those that the interface was minted with. `detaching` tells who the data plane still waits for on
    an interface that goes. `failure` is what IPAM answered to an earlier try of this very plan. `is_fresh`: the claim
    was made moments ago, and what the data plane says about it is about to follow.
    """

    cell: Cell
    raw: Raw = field(repr=False)
    claim: NetworkInterfaceClaim
    project_label: str
    project: str
    project_exists: bool
    namespace_is_going: bool
    network: Network | None = None
    context: NetworkContext | None = None
    subnets: Mapping[IPFamily, Subnet] = field(default_factory=dict)
    interface: HeldInterface | None = None
    ip_claims: tuple[IPClaim, ...] = ()
    detaching: str = ""
    failure: Refusal | None = None
    is_fresh: bool = False

    @property
    def interface_name(self) -> str:
        """Name of the interface that the claim wants."""
        return self.claim.spec.network_interface_name or self.claim.name

    @property
    def holds_interface(self) -> bool:
        """Whether the interface is bound to this very claim."""
        return self.interface is not None and self.interface.holder == self.claim.uid

    @property
    def was_bound(self) -> bool:
        """Whether the claim has been bound at any time before."""
        return self.claim.status.network_interface_ref is not None


@dataclass(frozen=True, slots=True)
class InterfaceSeen:
    """Around one interface. `claim` is the one that holds it, by uid; None while unheld, or when that claim is gone."""

    cell: Cell
    held: HeldInterface
    claim: NetworkInterfaceClaim | None
    namespace_is_going: bool
    ip_claims: tuple[IPClaim, ...] = ()

    @property
    def interface(self) -> NetworkInterface:
        """The interface."""
        return self.held.interface
