"""Families, labels, annotations, finalizers, condition types and phases of networking.datumapis.com."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from netclaim.api.schema import ATOMIC, Rule

IPV4: Final = "IPv4"
IPV6: Final = "IPv6"
IPFamily = Literal["IPv4", "IPv6"]
ReclaimPolicy = Literal["Delete", "Retain"]

PROJECT_LABEL: Final = "networking.datumapis.com/project"
"""On a Namespace: the project that its claims belong to. The default of `--project-label`."""

PROJECT_ANNOTATION: Final = "networking.datumapis.com/project"
"""On a NetworkInterface: the project that its addresses were allocated in."""

ALLOCATED_FOR_ANNOTATION: Final = "networking.datumapis.com/allocated-for"
"""On a NetworkInterface: `<name>/<uid>` of the claim that minted its IPClaims (not always the holder)."""

INJECT_LABEL: Final = "networking.datumapis.com/inject-interfaces"
"""On a Pod, with the value "true": the webhook attaches the interfaces of the owning Instance."""

INJECTED_ANNOTATION: Final = "networking.datumapis.com/injected-interfaces"
"""On a Pod: what the webhook injected."""

TEARDOWN_FINALIZER: Final = "networking.datumapis.com/teardown"
"""On a Network, a NetworkContext and a Subnet: something still uses it, or IPAM still holds its range."""

CLAIM_RELEASE_FINALIZER: Final = "networking.datumapis.com/claim-release"
"""On a NetworkInterfaceClaim: what it asked IPAM for is not given back, or left to its interface, yet."""

INTERFACE_RELEASE_FINALIZER: Final = "networking.datumapis.com/release"
"""On a NetworkInterface: its IPClaims are not given back yet."""

READY: Final = "Ready"
ALLOCATED: Final = "Allocated"
BOUND: Final = "Bound"
PREPARED: Final = "Prepared"
PROGRAMMED: Final = "Programmed"
EXTERNAL_PROGRAMMED: Final = "ExternalProgrammed"

PHASE_AVAILABLE: Final = "Available"
PHASE_BOUND: Final = "Bound"

IPFamilies = Annotated[
    list[IPFamily],
    ATOMIC,
    Rule("self.all(f, self.exists_one(g, g == f))", "name each IP family once"),
    Field(min_length=1, max_length=2),
]
