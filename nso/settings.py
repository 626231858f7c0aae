"""Every flag of `nso`: each is also the environment variable `NETCLAIM_<NAME>`, and `--help` is the reference."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import NoDecode

from netclaim.api.networking import IPV4, PROJECT_LABEL, IPFamily
from netclaim.kube.process import CommonSettings

ControllerName = Literal["networks", "claims", "compute", "ipam"]
CONTROLLERS: Final[tuple[ControllerName, ...]] = ("networks", "claims", "compute", "ipam")


class Settings(CommonSettings):
    """What an `nso` process is told."""

    lease_name: str = Field(default="", description="Name of the Lease; by default nso and the controllers it runs.")
    controllers: Annotated[tuple[ControllerName, ...], NoDecode] = Field(
        default=CONTROLLERS,
        description="Controllers that this process runs, separated by commas: networks, claims, compute, ipam. "
        "With ipam alone, --kubeconfig names the IPAM control plane.",
    )
    location: str = Field(
        default="", max_length=63, description="The one location that this cell serves. Required unless only ipam runs."
    )
    ipam_kubeconfig: str | None = Field(
        default=None, description="Kubeconfig of the IPAM control plane; by default the cell's own API server."
    )
    project_label: str = Field(
        default=PROJECT_LABEL, min_length=1, description="Label of a Namespace that names the project of its claims."
    )
    network_class: str = Field(
        default="network-ipv6", description="IPAM class of a network's range, for the family that has such a class."
    )
    subnet_class_ipv6: str = Field(default="subnet-ipv6", description="IPAM class of an IPv6 subnet's range.")
    subnet_class_ipv4: str = Field(default="subnet-ipv4", description="IPAM class of an IPv4 subnet's range.")
    pool_linger: float = Field(
        default=600.0, ge=0, description="Seconds that a pool made by a cascade stays after it became empty."
    )
    orphan_grace: float = Field(
        default=120.0, ge=0, description="Seconds between two sightings of an orphaned address before it is released."
    )
    pod_provider: bool = Field(
        default=True, description="Make the Pods of instances; off where another provider runs instances."
    )
    attachment_mode: Literal["Netns", "Hypervisor"] = Field(
        default="Netns",
        description="Mode of the cell's attachments. With Hypervisor the Pod provider refuses to start: "
        "a tap lies in the host's namespace, and a plain Pod cannot use it.",
    )

    @field_validator("controllers", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Read `networks,claims` as a list, each name once, in the order of the list above."""
        if isinstance(value, str):
            value = [name.strip() for name in value.split(",") if name.strip()]
        if isinstance(value, (list, tuple)):
            unknown = [str(name) for name in value if name not in CONTROLLERS]
            if unknown:
                raise ValueError(f"{', '.join(unknown)}: choose among {', '.join(CONTROLLERS)}")
            return tuple(name for name in CONTROLLERS if name in value)
        return value

    @model_validator(mode="after")
    def _check(self) -> Settings:
        """Refuse what could only fail later."""
        if not self.controllers:
            raise ValueError(f"--controllers is required: choose among {', '.join(CONTROLLERS)}")
        if self.needs_location and not self.location:
            raise ValueError(
                "--location is required: the name of the one location this cell serves, e.g. --location=us-central-1 "
                "(only --controllers=ipam goes without)"
            )
        if "compute" in self.controllers and self.pod_provider and self.attachment_mode == "Hypervisor":
            raise ValueError(
                "--attachment-mode=Hypervisor needs --pod-provider=false: a tap lies in the host's namespace and a "
                "plain Pod cannot use it; let a provider of virtual machines run the instances"
            )
        return self

    @property
    def lease(self) -> str:
        """Name of the Lease: processes that run different controllers do not wait for each other."""
        if self.lease_name:
            return self.lease_name
        return "nso" if self.controllers == CONTROLLERS else "-".join(("nso", *self.controllers))

    @property
    def needs_location(self) -> bool:
        """Whether a controller of the cell is among the chosen ones."""
        return self.controllers != ("ipam",)

    @property
    def needs_ipam(self) -> bool:
        """Whether a controller that asks IPAM is among the chosen ones."""
        return self.controllers != ("compute",)

    def subnet_class(self, family: IPFamily) -> str:
        """The IPAM class of a subnet of `family`."""
        return self.subnet_class_ipv4 if family == IPV4 else self.subnet_class_ipv6
