"""One control plane: its certificates and the command lines of etcd, API server, controller manager and scheduler.

Each plane has an etcd of its own rather than a prefix in a shared one: an API server compacts its whole etcd and takes
its resource versions from that etcd's one counter, so in a shared one each plane would be visible in the other's
versions, and a program that compares versions of different planes would pass its tests by luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from dev.certificates import Authority, Identity, write_private, write_signing_key
from dev.paths import RunDir
from dev.processes import Child

API_ADDRESS = "172.31.0.1"
"""The API servers' address on every node (see dev.nodes); also the endpoint of the Service `kubernetes`."""
SERVICE_RANGE = "10.96.0.0/16"
SERVICE_ADDRESS = "10.96.0.1"
ETCD_QUOTA = 4 << 30
IPAM_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "validatingadmissionpolicy-status-controller",
)
"""The IPAM control plane runs no Pods; what it needs is quota, garbage collection, namespaces and accounts."""

AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver", "system:kube-controller-manager", "system:kube-scheduler"]
- level: None
  userGroups: ["system:nodes", "system:serviceaccounts:kube-system"]
  verbs: [get, list, watch]
- level: None
  nonResourceURLs: ["/healthz*", "/livez*", "/readyz*", "/version", "/openapi/*"]
- level: Metadata
"""

EGRESS = """\
apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport:
      uds:
        udsName: {socket}
"""


class ChildMaker(Protocol):
    """Makes the processes of a plane."""

    def __call__(self, name: str, argv: Sequence[str], log: Path, *, port: int = 0) -> Child:
        """Return a process that has not been started."""


@dataclass(frozen=True)
class Ports:
    """The TCP ports of one plane on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    api: int


@dataclass(frozen=True)
class Plane:
    """One control plane of a run: `cell` or `ipam`."""

    name: str
    run: RunDir
    ports: Ports
    binaries: Mapping[str, Path]
    make: ChildMaker = Child
    """What the plane's processes are made by: as processes of the host, or in containers."""
    egress_socket: Path | None = None
    """Where the API server reaches nodes and Pods through; None when it has none."""

    @property
    def server(self) -> str:
        """The URL of the API server, the same on the host and on every node."""
        return f"https://127.0.0.1:{self.ports.api}"

    @property
    def authority(self) -> Authority:
        """The plane's certificate authority, which `prepare` made."""
        return Authority.load(self.run.pki(self.name))

    def prepare(self) -> Identity:
        """Write certificates, keys, kubeconfigs and policies; returns the administrator's identity."""
        folder = self.run.pki(self.name)
        authority = Authority.create(folder, f"netclaim {self.name}")
        names = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
        addresses = ("127.0.0.1", API_ADDRESS, SERVICE_ADDRESS)
        authority.issue("kube-apiserver", dns=names, ips=addresses).write(folder, "apiserver")
        authority.issue("kube-apiserver-kubelet-client", ["system:masters"]).write(folder, "apiserver-kubelet-client")
        write_signing_key(folder)
        admin = authority.issue("admin", ["system:masters"])
        accounts = {
            self.run.kubeconfig(self.name): admin,
            folder / "kcm.kubeconfig": authority.issue("system:kube-controller-manager"),
            folder / "scheduler.kubeconfig": authority.issue("system:kube-scheduler"),
        }
        for path, identity in accounts.items():
            write_private(path, authority.kubeconfig(self.server, identity).encode())
        (folder / "audit-policy.yaml").write_text(AUDIT_POLICY)
        if self.egress_socket is not None:
            (folder / "egress.yaml").write_text(EGRESS.format(socket=self.egress_socket))
        return admin

    def etcd(self) -> Child:
        """Return the plane's etcd."""
        client, peer = f"http://127.0.0.1:{self.ports.etcd}", f"http://127.0.0.1:{self.ports.etcd_peer}"
        flags = {
            "name": self.name,
            "data-dir": self.run.root / "etcd" / self.name,
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"{self.name}={peer}",
            "quota-backend-bytes": ETCD_QUOTA,
            "log-level": "warn",
            "unsafe-no-fsync": "true",
        }
        return self._child("etcd", flags, self.ports.etcd)

    def api_server(self) -> Child:
        """Return the plane's API server."""
        folder = self.run.pki(self.name)
        flags = {
            "etcd-servers": f"http://127.0.0.1:{self.ports.etcd}",
            "bind-address": "127.0.0.1",
            "secure-port": self.ports.api,
            "advertise-address": API_ADDRESS,
            "endpoint-reconciler-type": "none" if self.egress_socket is None else "lease",
            "tls-cert-file": folder / "apiserver.crt",
            "tls-private-key-file": folder / "apiserver.key",
            "client-ca-file": folder / "ca.crt",
            "kubelet-client-certificate": folder / "apiserver-kubelet-client.crt",
            "kubelet-client-key": folder / "apiserver-kubelet-client.key",
            "kubelet-certificate-authority": folder / "ca.crt",
            "kubelet-preferred-address-types": "InternalIP",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": folder / "sa.pub",
            "service-account-signing-key-file": folder / "sa.key",
            "service-cluster-ip-range": SERVICE_RANGE,
            "allow-privileged": "true",
            "profiling": "false",
            "audit-policy-file": folder / "audit-policy.yaml",
            "audit-log-path": self.run.audit_log(self.name),
            "audit-log-maxsize": 0,
        }
        if self.egress_socket is not None:
            flags["egress-selector-config-file"] = folder / "egress.yaml"
            # A webhook's Service is called at its Pods' addresses: no node runs a kube-proxy.
            flags["enable-aggregator-routing"] = "true"
        return self._child("kube-apiserver", flags, self.ports.api)

    def controller_manager(self) -> Child:
        """Return the plane's controller manager."""
        folder = self.run.pki(self.name)
        flags = {
            "kubeconfig": folder / "kcm.kubeconfig",
            "secure-port": 0,
            "leader-elect": "false",
            "use-service-account-credentials": "true",
            "service-account-private-key-file": folder / "sa.key",
            "root-ca-file": folder / "ca.crt",
            "kube-api-qps": 200,
            "kube-api-burst": 400,
            "controllers": "*" if self.name == "cell" else ",".join(IPAM_CONTROLLERS),
        }
        return self._child("kube-controller-manager", flags)

    def scheduler(self) -> Child:
        """Return the plane's scheduler."""
        kubeconfig = self.run.pki(self.name) / "scheduler.kubeconfig"
        return self._child("kube-scheduler", {"kubeconfig": kubeconfig, "secure-port": 0, "leader-elect": "false"})

    def _child(self, program: str, flags: Mapping[str, object], port: int = 0) -> Child:
        name = f"{program}-{self.name}"
        argv = [str(self.binaries[program]), *(f"--{flag}={value}" for flag, value in flags.items())]
        return self.make(name, argv, self.run.log / f"{name}.log", port=port)
