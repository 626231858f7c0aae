"""Where each kind lives at an API server: group, version, plural and scope, and the URL paths that follow.

A `Resource` is data only; it is what the runtime's client, reflectors and controllers are told to work on. Constants
are named after the plural of the kind. The models of our own kinds carry theirs as `Model.RESOURCE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

NETWORKING: Final = "networking.datumapis.com"
CLOUD: Final = "cloud.datumapis.com"
NETWORK: Final = "network.datumapis.com"
IPAM: Final = "ipam.datumapis.com"
COMPUTE: Final = "compute.datumapis.com"
CNI: Final = "k8s.cni.cncf.io"


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource.

    `group` is empty for the core group. `namespaced` tells whether objects live in namespaces. `short_names` are what
    kubectl accepts; `singular` is empty for the lower-case kind.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    singular: str = ""

    @property
    def api_version(self) -> str:
        """The `apiVersion` of this kind's objects: `v1` or `<group>/<version>`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """`<plural>.<group>`: the name of its CustomResourceDefinition, and what a ResourceQuota counts."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of a collection (no `name`), an object, or a subresource of an object.

        A namespaced collection without `namespace` is the one over all namespaces.

        Raises:
            ValueError: a namespace for a cluster-scoped kind, an object of a namespaced kind without a namespace, or a
                subresource without an object.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self.kind} is not namespaced: no path in namespace {namespace}")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name} needs a namespace")
        if subresource and not name:
            raise ValueError(f"subresource {subresource} of {self.kind} needs the name of an object")
        segments = ["", "apis", self.group, self.version] if self.group else ["", "api", self.version]
        if namespace:
            segments += ["namespaces", quote(namespace, safe="")]
        segments.append(self.plural)
        if name:
            segments.append(quote(name, safe=""))
        if subresource:
            segments.append(subresource)
        return "/".join(segments)


NETWORKS: Final = Resource(NETWORKING, "v1alpha", "networks", "Network", short_names=("net",))
NETWORK_CONTEXTS: Final = Resource(NETWORKING, "v1alpha", "networkcontexts", "NetworkContext", short_names=("netctx",))
NETWORK_BINDINGS: Final = Resource(NETWORKING, "v1alpha", "networkbindings", "NetworkBinding", short_names=("netbind",))
SUBNET_CLAIMS: Final = Resource(NETWORKING, "v1alpha", "subnetclaims", "SubnetClaim", short_names=("subclaim",))
SUBNETS: Final = Resource(NETWORKING, "v1alpha", "subnets", "Subnet", short_names=("sub",))
CLAIMS: Final = Resource(
    NETWORKING, "v1alpha", "networkinterfaceclaims", "NetworkInterfaceClaim", short_names=("nic-claim", "nicc")
)
INTERFACES: Final = Resource(NETWORKING, "v1alpha", "networkinterfaces", "NetworkInterface", short_names=("nic",))

VPCS: Final = Resource(CLOUD, "v1alpha1", "vpcs", "VPC")
ATTACHMENTS: Final = Resource(CLOUD, "v1alpha1", "vpcattachments", "VPCAttachment", short_names=("vpcatt",))
IDENTIFIERS: Final = Resource(CLOUD, "v1alpha1", "identifiers", "Identifier", short_names=("vpcid",))

BGP_ROUTERS: Final = Resource(NETWORK, "v1alpha1", "bgprouters", "BGPRouter", short_names=("bgprtr",))
BGP_ADVERTISEMENTS: Final = Resource(
    NETWORK, "v1alpha1", "bgpadvertisements", "BGPAdvertisement", short_names=("bgpadv",)
)

IP_CLASSES: Final = Resource(IPAM, "v1alpha1", "ipclasses", "IPClass", short_names=("ipcls",))
IP_POOLS: Final = Resource(IPAM, "v1alpha1", "ippools", "IPPool", short_names=("ippool",))
IP_CLAIMS: Final = Resource(IPAM, "v1alpha1", "ipclaims", "IPClaim", short_names=("ipc",))
IP_ALLOCATIONS: Final = Resource(IPAM, "v1alpha1", "ipallocations", "IPAllocation", short_names=("ipalloc",))

WORKLOADS: Final = Resource(COMPUTE, "v1alpha", "workloads", "Workload", short_names=("wl",))
INSTANCES: Final = Resource(COMPUTE, "v1alpha", "instances", "Instance", short_names=("inst",))

NADS: Final = Resource(
    CNI,
    "v1",
    "network-attachment-definitions",
    "NetworkAttachmentDefinition",
    short_names=("net-attach-def",),
    singular="network-attachment-definition",
)

PODS: Final = Resource("", "v1", "pods", "Pod")
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
SECRETS: Final = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
SERVICES: Final = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount")
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota")
LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease")
EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event")
DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment")
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet")
CRDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOKS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
ADMISSION_POLICIES: Final = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
ADMISSION_POLICY_BINDINGS: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)
ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS: Final = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS: Final = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
