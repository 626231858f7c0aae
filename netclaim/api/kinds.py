"""Every kind that this API defines, in the order in which their definitions are written."""

from __future__ import annotations

from typing import Final

from netclaim.api.cloud import VPC, Identifier, VPCAttachment
from netclaim.api.cni import NetworkAttachmentDefinition
from netclaim.api.compute import Instance, Workload
from netclaim.api.ipam import IPAllocation, IPClaim, IPClass, IPPool
from netclaim.api.meta import KubeObject
from netclaim.api.network import BGPAdvertisement, BGPRouter
from netclaim.api.networking import (
    Network,
    NetworkBinding,
    NetworkContext,
    NetworkInterface,
    NetworkInterfaceClaim,
    Subnet,
    SubnetClaim,
)

KINDS: Final[tuple[type[KubeObject], ...]] = (
    Network,
    NetworkContext,
    NetworkBinding,
    SubnetClaim,
    Subnet,
    NetworkInterfaceClaim,
    NetworkInterface,
    VPC,
    VPCAttachment,
    Identifier,
    BGPRouter,
    BGPAdvertisement,
    IPClass,
    IPPool,
    IPClaim,
    IPAllocation,
    Workload,
    Instance,
    NetworkAttachmentDefinition,
)
