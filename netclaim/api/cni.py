"""k8s.cni.cncf.io/v1: the NetworkAttachmentDefinition of the Network Plumbing Working Group, in its published shape."""

from __future__ import annotations

from typing import ClassVar, Final

from pydantic import Field

from netclaim.api import resources
from netclaim.api.meta import ApiModel, KubeObject
from netclaim.api.resources import Resource
from netclaim.api.schema import Definition

NETWORKS_ANNOTATION: Final = "k8s.v1.cni.cncf.io/networks"
"""On a Pod: further interfaces, as a comma list or a JSON list."""

DEFAULT_NETWORK_ANNOTATION: Final = "v1.multus-cni.io/default-network"
"""On a Pod: what takes the place of the cluster network as its eth0."""

NETWORK_STATUS_ANNOTATION: Final = "k8s.v1.cni.cncf.io/network-status"
"""On a Pod: what Multus attached."""


class NetworkAttachmentDefinitionSpec(ApiModel):
    """How to attach."""

    config: str = Field(default="", description="A CNI configuration list as JSON text.")


class NetworkAttachmentDefinition(KubeObject):
    """A network that a Pod can be attached to by name."""

    RESOURCE: ClassVar[Resource] = resources.NADS
    DEFINITION: ClassVar[Definition] = Definition(columns=(), has_status=False, categories=())

    spec: NetworkAttachmentDefinitionSpec = Field(
        default_factory=NetworkAttachmentDefinitionSpec, description="How to attach."
    )
