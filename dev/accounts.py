"""The programs' accounts on a local cluster: the service accounts, roles and policies that the charts give them.

The rules are the charts' own files (`charts/*/files`), so a program on the local cluster may do what it may do where it
was installed with helm, and no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dev.certificates import Authority, write_private
from dev.cluster import Cluster
from dev.paths import CHECKOUT

Raw = dict[str, Any]
CHARTS = CHECKOUT / "charts"
VALID_FOR = "168h"
RBAC = "rbac.authorization.k8s.io"
POLICIES = "admissionregistration.k8s.io/v1"
LEASES: Raw = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "update"]}
AGENT = "node-agent"


@dataclass(frozen=True, slots=True)
class Account:
    """A service account of one control plane, the files of rules that it gets, as `<chart>/<file>`, and its Lease."""

    name: str
    plane: str
    files: tuple[str, ...]
    lease: str = ""

    def rules(self) -> tuple[list[Raw], list[Raw]]:
        """What it may do in the whole cluster, and in the system namespace."""
        in_cluster: list[Raw] = []
        in_system: list[Raw] = [{**LEASES, "resourceNames": [self.lease]}] if self.lease else []
        for file in self.files:
            for held, more in zip((in_cluster, in_system), rules(file), strict=True):
                held.extend(more)
        return in_cluster, in_system


ACCOUNTS = (
    Account("nso-ipam", "ipam", ("nso/ipam", "nso/process"), "nso-ipam"),
    Account("nso", "cell", ("nso/networks", "nso/claims", "nso/compute", "nso/process"), "nso-networks-claims-compute"),
    Account("nso-cell", "ipam", ("nso/ipam-client",)),
    Account("vpc-controller", "cell", ("vpc-controller/controller", "vpc-controller/process"), "vpc-controller"),
    Account("netclaim-webhook", "cell", ("vpc-controller/webhook",)),
    Account(AGENT, "cell", ("node-agent/agent",)),
)


def kubeconfig(cluster: Cluster, account: str, node: str = "") -> Path:
    """Where the kubeconfig of an account is; of an agent's account there is one for each node."""
    plane = next(one.plane for one in ACCOUNTS if one.name == account)
    return cluster.run.pki(plane) / f"account-{account}{'-' if node else ''}{node}.kubeconfig"


def install(cluster: Cluster, namespace: str) -> None:
    """Give every account its rules, put the agents' policies into force, and write a kubeconfig for each account.

    Raises ClusterError when a control plane refuses.
    """
    for plane in ("cell", "ipam"):
        documents = [one for account in ACCOUNTS if account.plane == plane for one in manifests(account, namespace)]
        if plane == "cell":
            documents += policies(namespace)
        cluster.kubectl("apply", "-f", "-", plane=plane, stdin=yaml.safe_dump_all(documents))
    wanted = [(account, "") for account in ACCOUNTS if account.name != AGENT]
    wanted += [(account, node) for account in ACCOUNTS if account.name == AGENT for node in cluster.node_names]
    with ThreadPoolExecutor(max_workers=4) as threads:
        list(threads.map(lambda pair: _write_kubeconfig(cluster, namespace, *pair), wanted))


def rules(file: str) -> tuple[list[Raw], list[Raw]]:
    """The rules of a chart's file, `<chart>/<file>`: for the whole cluster, and for the system namespace."""
    chart, _, name = file.partition("/")
    read: Mapping[str, list[Raw]] = yaml.safe_load((CHARTS / chart / "files" / f"{name}.yaml").read_text())
    return read.get("cluster", []), read.get("system", [])


def manifests(account: Account, namespace: str) -> Iterator[Raw]:
    """The account, its roles, and what binds them."""
    cluster_rules, system_rules = account.rules()
    name, subject = account.name, {"kind": "ServiceAccount", "name": account.name, "namespace": namespace}
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": namespace}}
    for prefix, held, where in (("Cluster", cluster_rules, {}), ("", system_rules, {"namespace": namespace})):
        metadata = {"name": name, **where}
        version = f"{RBAC}/v1"
        reference = {"apiGroup": RBAC, "kind": f"{prefix}Role", "name": name}
        yield {"apiVersion": version, "kind": f"{prefix}Role", "metadata": metadata, "rules": held}
        yield {
            "apiVersion": version,
            "kind": f"{prefix}RoleBinding",
            "metadata": metadata,
            "roleRef": reference,
            "subjects": [subject],
        }


def policies(namespace: str) -> Iterator[Raw]:
    """The admission policies of the agents' account, and what puts them into force."""
    is_agent = f"request.userInfo.username == 'system:serviceaccount:{namespace}:{AGENT}'"
    for what, spec in yaml.safe_load((CHARTS / AGENT / "files" / "policies.yaml").read_text()).items():
        name = f"netclaim-agent-{what}"
        condition = {"matchConditions": [{"name": "is-agent", "expression": is_agent}]}
        yield {
            "apiVersion": POLICIES,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {**spec, **condition},
        }
        yield {
            "apiVersion": POLICIES,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        }


def _write_kubeconfig(cluster: Cluster, namespace: str, account: Account, node: str) -> None:
    """A token of the account; an agent's is bound to its Node, as that of its Pod would be."""
    bound = ("--bound-object-kind", "Node", "--bound-object-name", node) if node else ()
    words = ("create", "token", account.name, "-n", namespace, "--duration", VALID_FOR, *bound)
    token = cluster.kubectl(*words, plane=account.plane).strip()
    authority = Authority.load(cluster.run.pki(account.plane))
    server = f"https://127.0.0.1:{cluster.state.api_ports[account.plane]}"
    write_private(
        kubeconfig(cluster, account.name, node), json.dumps(token_kubeconfig(authority, server, token)).encode()
    )


def token_kubeconfig(authority: Authority, server: str, token: str) -> Raw:
    """A kubeconfig that holds all it needs, so that it works from any mount namespace."""
    from base64 import b64encode

    trust = b64encode(authority.bundle.read_bytes()).decode()
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "account",
        "contexts": [{"name": "account", "context": {"cluster": "cluster", "user": "account"}}],
        "clusters": [{"name": "cluster", "cluster": {"server": server, "certificate-authority-data": trust}}],
        "users": [{"name": "account", "user": {"token": token}}],
    }
