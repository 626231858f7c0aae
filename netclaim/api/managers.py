"""Field managers: one fixed name per reconciler that writes, as the table "Who writes what" lists them.

A manager belongs to a reconciler, not to a program: an apply removes what its manager applied before and now omits.
"""

from __future__ import annotations

from typing import Final

NSO: Final = "nso"
"""NSO's networks, contexts, subnets, interfaces and claim status."""

NSO_SEED: Final = "nso-seed"
"""Programmed=Unknown, written once and without force: a 409 means that the owner was faster."""

VPC_CONTROLLER: Final = "vpc-controller"
"""VPC, VPCAttachment, Prepared, `status.vpc` and `status.attachmentRef`."""

VPC_CONTROLLER_PROGRAMMED: Final = "vpc-controller-programmed"
"""The Programmed condition of attachment, interface and claim."""

NODE_AGENT: Final = "node-agent"
"""A VPCAttachment's node facts, BGPRouter and BGPAdvertisement."""

COMPUTE: Final = "compute"
"""Workload status, Instance and its status, the claims and Pods of instances."""

IPAM: Final = "ipam"
"""IPAllocation, and the status of IPClass, IPPool and IPClaim."""

WEBHOOK: Final = "netclaim-webhook"
"""The webhook's Secret and the caBundle of its configuration."""
