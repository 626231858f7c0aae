"""Every flag of `netclaim-webhook`: each is also the environment variable `NETCLAIM_<NAME>`."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from netclaim.kube.process import CommonSettings
from webhook.certificates import Wanted
from webhook.manifests import CONFIGURATION_NAME

Words = Annotated[tuple[str, ...], NoDecode]


class Settings(CommonSettings):
    """What a `netclaim-webhook` process is told."""

    leader_elect: bool = Field(default=False, description="Has no effect: every replica serves.")
    listen: str = Field(default="0.0.0.0:9443", description="host:port that the API server calls, over TLS.")
    configuration_name: str = Field(
        default=CONFIGURATION_NAME,
        min_length=1,
        description="Name of the MutatingWebhookConfiguration whose caBundle is kept right.",
    )
    secret_name: str = Field(
        default="netclaim-webhook-certificates",
        min_length=1,
        description="Name of the Secret, in the system namespace, that the replicas share their certificates in.",
    )
    service_name: str = Field(
        default="", description="Name of the Service in front of the replicas, in the system namespace."
    )
    dns_names: Words = Field(
        default=(), description="Further names that the certificate is made for, separated by commas."
    )
    ip: Words = Field(
        default=(),
        description="Addresses that the certificate is made for, separated by commas; by default the one of --listen.",
    )
    node_selector: Words = Field(
        default=("kubernetes.io/os=linux",),
        description="Labels of the nodes that can attach interfaces, as key=value, separated by commas: "
        "what the node agent's DaemonSet selects.",
    )
    certificate_lifetime: timedelta = Field(
        default=timedelta(days=90), description="Life of a serving certificate, in seconds or as an ISO 8601 duration."
    )
    authority_lifetime: timedelta = Field(default=timedelta(days=365), description="Life of an authority, likewise.")
    authority_overlap: timedelta = Field(
        default=timedelta(minutes=10), description="How long a new authority is published before it signs, likewise."
    )

    @field_validator("leader_elect")
    @classmethod
    def _never(cls, _: bool) -> bool:  # noqa: FBT001 - the signature is pydantic's
        """A replica that waited for a lease would not serve."""
        return False

    @field_validator("dns_names", "ip", "node_selector", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """Read `a,b` as a list."""
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("certificate_lifetime", "authority_lifetime", "authority_overlap", mode="before")
    @classmethod
    def _seconds(cls, value: object) -> object:
        """Read a plain number as seconds."""
        return float(value) if isinstance(value, str) and value.replace(".", "", 1).isdigit() else value

    @field_validator("certificate_lifetime", "authority_lifetime")
    @classmethod
    def _long_enough(cls, value: timedelta) -> timedelta:
        """Refuse a life in which nothing could be renewed in time."""
        if value < timedelta(seconds=3):
            raise ValueError("a certificate lives for at least 3 seconds")
        return value

    @field_validator("ip")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Read addresses in any form, keep the canonical one."""
        return tuple(str(ipaddress.ip_address(address)) for address in value)

    @field_validator("node_selector")
    @classmethod
    def _labels(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        """Refuse what is not key=value."""
        for label in value:
            if not all(label.partition("=")[::2]):
                raise ValueError(f"{label!r} is not key=value")
        return value

    @field_validator("listen")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        """Refuse what is not host:port."""
        host, _, port = value.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65535:
            raise ValueError("write host:port, such as 0.0.0.0:9443")
        return value

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def node_labels(self) -> dict[str, str]:
        """The node selector as labels."""
        return dict(label.split("=", 1) for label in self.node_selector)

    @property
    def wanted(self) -> Wanted:
        """For whom certificates are made, and for how long."""
        names = list(self.dns_names)
        if self.service_name:
            base = f"{self.service_name}.{self.system_namespace}"
            names += [self.service_name, base, f"{base}.svc", f"{base}.svc.cluster.local"]
        addresses = self.ip
        host = self.address[0]
        if not addresses and not names:
            addresses = (host,) if _is_specific(host) else ("127.0.0.1",)
        return Wanted(
            tuple(names), addresses, self.certificate_lifetime, self.authority_lifetime, self.authority_overlap
        )


def _is_specific(host: str) -> bool:
    """Whether the host is an address that a caller can name."""
    try:
        return not ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False
