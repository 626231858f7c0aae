"""Every flag of `vpc-controller`, each also the environment variable `NETCLAIM_<NAME>`; `--help` is the reference."""

from __future__ import annotations

from pydantic import Field

from netclaim.api.cloud import AttachmentMode
from netclaim.kube.process import CommonSettings


class Settings(CommonSettings):
    """What a `vpc-controller` process is told."""

    lease_name: str = Field(default="vpc-controller", description="Name of the Lease in the system namespace.")
    attachment_mode: AttachmentMode = Field(
        description="How guests consume their interfaces: Netns for containers, Hypervisor for virtual machines. "
        "There is no default: a virtual machine could not use the device that a container gets.",
    )
