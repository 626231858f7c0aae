"""Flags of the node agent. Each is an environment variable too: NETCLAIM_NODE_NAME for --node-name."""

from __future__ import annotations

import hashlib
from ipaddress import IPv6Address, IPv6Network
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from netclaim.kube.process import CommonSettings

BLOCK_LENGTH = 32
"""Length of the block that all locators are taken to lie in when none is given."""


class Settings(CommonSettings):
    """Takes the container runtime's CNI calls and programs the kernel of the node that it runs on."""

    leader_elect: bool = Field(default=False, description="Every node runs its own agent: nothing is elected.")
    node_name: str = Field(min_length=1, description="Name of this Node, as Kubernetes knows it.")
    srv6_locator: IPv6Network | None = Field(
        default=None,
        description="SRv6 locator of this node: an IPv6 /64 that no other node has; default: the one in"
        " --srv6-locator-block that follows from the node's name.",
    )
    srv6_locator_block: IPv6Network | None = Field(
        default=None,
        description="Prefix that the locators of all nodes lie in, never routed for a tenant; default: the /32 around"
        " the locator.",
    )
    underlay_interface: str = Field(min_length=1, description="Device that reaches the other nodes.")
    next_hop: IPv6Address | None = Field(
        default=None, description="This node's address on the underlay; default: the first IPv6 address of the device."
    )
    routing: Literal["auto", "vrf", "rules"] = Field(
        default="auto",
        description="How tenants are kept apart: one VRF device for each VPC, or routing rules (a linear list: about a"
        " hundred attachments on a node); auto takes VRF where the kernel has it.",
    )
    state_dir: Path = Field(default=Path("/var/lib/netclaim"), description="Folder of journal and spool.")
    socket: Path = Field(
        default=Path("/run/netclaim/agent.sock"), description="Unix socket that netclaim-cni speaks to."
    )

    sweep_interval: float = Field(
        default=60.0, gt=0, description="Seconds between two comparisons of journal and kernel."
    )

    remove_startup_taint: bool = Field(
        default=False,
        description="Take the taint networking.datumapis.com/agent-not-ready off this Node once the agent is ready.",
    )

    @model_validator(mode="after")
    def _check_locator(self) -> Self:
        if self.srv6_locator is None:
            if self.srv6_locator_block is None:
                raise ValueError(
                    "--srv6-locator is required: an IPv6 /64 that no other node has, such as fd00:ff:0:1::/64; or"
                    " --srv6-locator-block, for one that follows from the node's name"
                )
            if self.srv6_locator_block.prefixlen > BLOCK_LENGTH:
                raise ValueError(
                    f"--srv6-locator-block {self.srv6_locator_block} is too small to take a locator from by the node's"
                    f" name: give a /{BLOCK_LENGTH}, or name the locator with --srv6-locator"
                )
            return self
        if self.srv6_locator.prefixlen != 64:
            raise ValueError(f"--srv6-locator must be a /64 such as fd00:ff:0:1::/64, not {self.srv6_locator}")
        if not self.srv6_locator.subnet_of(self.locator_block):
            block = self.locator_block
            raise ValueError(f"--srv6-locator {self.srv6_locator} lies outside --srv6-locator-block {block}")
        return self

    @property
    def locator(self) -> IPv6Network:
        """This node's locator: the one given, else the block's that follows from the node's name."""
        return self.srv6_locator or locator_of(self.node_name, self.locator_block)

    @property
    def locator_block(self) -> IPv6Network:
        """The block of all locators."""
        if self.srv6_locator_block is not None:
            return self.srv6_locator_block
        if self.srv6_locator is None:
            raise AssertionError("the validator wants one of the two")
        return self.srv6_locator.supernet(new_prefix=BLOCK_LENGTH)

    @property
    def journal(self) -> Path:
        """The journal's file."""
        return self.state_dir / "journal.db"

    @property
    def spool(self) -> Path:
        """Where netclaim-cni keeps DEL calls while the agent is away."""
        return self.state_dir / "pending"


def locator_of(node_name: str, block: IPv6Network) -> IPv6Network:
    """The /64 of ``block`` that a node of this name takes, known without asking anybody.

    Of a /32 there are 2^32: among 500 nodes two meet with a probability of 3 in 100,000. The agent that finds its
    locator taken says so and tells no route (report.py); naming one of the two with --srv6-locator settles it.
    """
    bits = 64 - block.prefixlen
    number = int.from_bytes(hashlib.sha256(node_name.encode()).digest()[:8]) >> (64 - bits)
    return IPv6Network((int(block.network_address) + (number << 64), 64))
