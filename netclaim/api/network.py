"""network.datumapis.com/v1alpha1: how nodes tell each other which prefixes are behind which SIDs.

Both kinds live in the system namespace and are written by the agent of the node that they speak of.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from netclaim.api import managers, resources
from netclaim.api.fields import Cidr
from netclaim.api.meta import ApiModel, ConditionedStatus, KubeObject, NameRef
from netclaim.api.networking import IPFamily
from netclaim.api.resources import Resource
from netclaim.api.schema import AGE, ATOMIC, Column, ConditionType, Definition, Rule, condition_column

ADVERTISED: Final = "Advertised"
READY: Final = "Ready"

SystemIPv6 = Annotated[
    str,
    Rule("isIP(self) && ip(self).family() == 6", "write one bare IPv6 address such as 2001:db8::1"),
    Field(min_length=1, max_length=45),
]


class NodeTarget(ApiModel):
    """The machine that routes."""

    kind: Literal["Node"] = Field(default="Node", description="Kind of the target.")
    name: str = Field(min_length=1, max_length=253, description="Name of the target.")


class BGPRouterSpec(ApiModel):
    """Where a node is reached and which SIDs are its own."""

    target_ref: NodeTarget = Field(description="The node.")
    srv6_locator: Annotated[
        str,
        Rule(
            "isCIDR(self) && cidr(self).ip().family() == 6 && cidr(self).prefixLength() == 64 "
            "&& cidr(self) == cidr(self).masked()",
            "write the locator as an IPv6 /64 without host bits such as fd00:ff:0:1::/64",
        ),
        Field(min_length=1, max_length=49),
    ] = Field(description="IPv6 /64 that all SIDs of the node lie in; no two nodes share one.")
    next_hop: SystemIPv6 = Field(description="The node's address on the underlay.")


class BGPRouter(KubeObject):
    """A node that takes part in routing between guests."""

    RESOURCE: ClassVar[Resource] = resources.BGP_ROUTERS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Node", ".spec.targetRef.name"),
            Column("Locator", ".spec.srv6Locator"),
            Column("Next-Hop", ".spec.nextHop"),
            condition_column(READY),
            AGE,
        )
    )

    spec: BGPRouterSpec = Field(description="Where a node is reached and which SIDs are its own.")
    status: ConditionedStatus = Field(default_factory=ConditionedStatus, description="State of the router.")


class AdvertisedAttachment(ApiModel):
    """The attachment whose prefixes are advertised."""

    namespace: str = Field(min_length=1, max_length=63, description="Namespace of the VPCAttachment.")
    name: str = Field(min_length=1, max_length=253, description="Name of the VPCAttachment.")
    uid: str = Field(min_length=1, max_length=128, description="UID of the VPCAttachment.")


class AddressFamily(ApiModel):
    """Address family of the advertisement."""

    afi: Literal["l2vpn"] = Field(default="l2vpn", description="Address family identifier.")
    safi: Literal["evpn"] = Field(default="evpn", description="Subsequent address family identifier.")


class Sid(ApiModel):
    """A segment that takes packets into the VPC on this node."""

    family: IPFamily | None = Field(
        default=None, description="Family of the packets that it takes; absent when it takes both."
    )
    sid: SystemIPv6 = Field(description="The segment identifier, inside the router's locator.")
    function: Literal["End.DT46", "End.DX4", "End.DX6"] = Field(description="What the node does with a packet for it.")


class BGPAdvertisementSpec(ApiModel):
    """What is behind this node for one attachment."""

    router_ref: NameRef = Field(description="The router that advertises; it owns the advertisement.")
    attachment_ref: AdvertisedAttachment = Field(description="The attachment whose prefixes are advertised.")
    container_id: str | None = Field(
        default=None, max_length=256, description="Sandbox that the attachment was programmed for."
    )
    address_family: AddressFamily = Field(
        default_factory=AddressFamily, description="Address family of the advertisement."
    )
    prefixes: Annotated[list[Cidr], ATOMIC] = Field(
        default_factory=list, max_length=256, description="Blocks that are reached through the router."
    )
    sids: Annotated[list[Sid], ATOMIC] = Field(
        default_factory=list, max_length=4, description="Segments that take packets into the VPC on this node."
    )


class BGPAdvertisementStatus(ConditionedStatus):
    """What the router advertises right now."""

    advertised_prefixes: Annotated[list[Cidr], ATOMIC] = Field(
        default_factory=list, max_length=256, description="Prefixes that are programmed and advertised."
    )


class BGPAdvertisement(KubeObject):
    """The prefixes of one attachment, as its node advertises them to the others."""

    RESOURCE: ClassVar[Resource] = resources.BGP_ADVERTISEMENTS
    DEFINITION: ClassVar[Definition] = Definition(
        columns=(
            Column("Router", ".spec.routerRef.name"),
            Column("Namespace", ".spec.attachmentRef.namespace"),
            Column("Attachment", ".spec.attachmentRef.name"),
            Column("Prefixes", ".spec.prefixes"),
            condition_column(ADVERTISED),
            AGE,
        ),
        conditions=(
            ConditionType(
                ADVERTISED,
                managers.NODE_AGENT,
                "The prefixes are programmed on the node and other nodes may send to them.",
            ),
        ),
    )

    spec: BGPAdvertisementSpec = Field(description="What is behind this node for one attachment.")
    status: BGPAdvertisementStatus = Field(
        default_factory=BGPAdvertisementStatus, description="What the router advertises right now."
    )
