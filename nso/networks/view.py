"""What the reconcilers of networks observe: stores of the cell and of IPAM, read into the snapshots of their plans."""

from __future__ import annotations

from collections.abc import Iterable

from netclaim import addresses
from netclaim.api import resources
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import (
    PROJECT_ANNOTATION,
    IPFamily,
    Network,
    NetworkBinding,
    NetworkContext,
    Subnet,
    SubnetClaim,
)
from netclaim.identity import context_name, network_range_name
from netclaim.kube.cluster import Cluster
from netclaim.kube.reflector import Reflector
from netclaim.kube.store import IndexFn
from nso import ipclaims
from nso.ipclaims import Cell, by_owner_uid
from nso.networks import bindings, contexts, networks, record, subnet_claims, subnets
from nso.projects import by_project, project_of
from nso.settings import Settings


def by_namespace(raw: Raw) -> Iterable[str]:
    """Index function: the object's namespace."""
    return (raw["metadata"]["namespace"],)


def by_recorded_project(raw: Raw) -> Iterable[str]:
    """Index function: the project that the object has recorded."""
    project = (raw["metadata"].get("annotations") or {}).get(PROJECT_ANNOTATION)
    return (project,) if project else ()


def by_network(raw: Raw) -> Iterable[Key]:
    """Index function: the key of the network that the object names."""
    return ((raw["metadata"]["namespace"], raw["spec"]["network"]["name"]),)


def by_context(raw: Raw) -> Iterable[Key]:
    """Index function: the key of the network context that the object names."""
    return ((raw["metadata"]["namespace"], raw["spec"]["networkContext"]["name"]),)


class View:
    """The reflectors that the reconcilers of networks read, and a snapshot for each kind of plan."""

    def __init__(self, cluster: Cluster, ipam: Cluster, settings: Settings) -> None:
        self.cell = Cell(settings.location, cluster.control_plane_id)
        self.settings = settings
        self.networks = _indexed(cluster.reflect(resources.NETWORKS), by_namespace, by_recorded_project)
        self.contexts = _indexed(cluster.reflect(resources.NETWORK_CONTEXTS), by_network)
        self.subnets = _indexed(cluster.reflect(resources.SUBNETS), by_context)
        self.bindings = _indexed(cluster.reflect(resources.NETWORK_BINDINGS), by_network)
        self.subnet_claims = _indexed(cluster.reflect(resources.SUBNET_CLAIMS), by_context)
        self.interfaces = _indexed(cluster.reflect(resources.INTERFACES), by_network)
        self.namespaces = cluster.reflect(resources.NAMESPACES)
        self.namespaces.store.add_index("project", by_project(settings.project_label))
        self.projects = ipam.reflect(resources.NAMESPACES)
        self.classes = ipam.reflect(resources.IP_CLASSES)
        self.ip_claims = _indexed(
            ipam.reflect(resources.IP_CLAIMS, label_selector=ipclaims.selector(settings.location)), by_owner_uid
        )

    def network(self, key: Key, taken: Raw | None = None) -> networks.Observed | None:
        """The snapshot of a network's plan; None when there is no such network."""
        raw = self.networks.store.get(key)
        if raw is None:
            return None
        network = Network.model_validate(raw)
        namespace = self.namespaces.store.get(("", network.namespace))
        label = self.settings.project_label
        project = record.resolve(network, project_of(namespace, label), label, exists=self._has_project)
        context = self.contexts.store.get((network.namespace, context_name(network.name, self.cell.location)))
        names = [
            network_range_name(self.cell.location, network.namespace, network.name, family)
            for family in network.spec.ip_families
        ]
        return networks.Observed(
            cell=self.cell,
            raw=raw,
            network=network,
            project=project,
            range_classes=self._range_classes(project.name),
            ip_claims=self._ip_claims(project.name, names, network.uid, taken),
            context=NetworkContext.model_validate(context) if context else None,
            interfaces=tuple(one["metadata"]["name"] for one in self.interfaces.store.by("by_network", key)),
        )

    def context(self, key: Key) -> contexts.Observed | None:
        """The snapshot of a context's plan; None when there is no such context in this location."""
        raw = self.contexts.store.get(key)
        if raw is None:
            return None
        context = NetworkContext.model_validate(raw)
        if context.spec.location != self.cell.location:
            return None
        network_key = (context.namespace, context.spec.network.name)
        network = self._network(network_key)
        return contexts.Observed(
            raw=raw,
            context=context,
            project=record.inherited(context, network),
            network=network,
            subnets=tuple(Subnet.model_validate(one) for one in self.subnets.store.by("by_context", key)),
            interfaces=tuple(one["metadata"]["name"] for one in self.interfaces.store.by("by_network", network_key)),
        )

    def subnet(self, key: Key, taken: Raw | None = None) -> subnets.Observed | None:
        """The snapshot of a subnet's plan; None when there is no such subnet."""
        raw = self.subnets.store.get(key)
        if raw is None:
            return None
        subnet = Subnet.model_validate(raw)
        context_raw = self.contexts.store.get((subnet.namespace, subnet.spec.network_context.name))
        context = NetworkContext.model_validate(context_raw) if context_raw else None
        network = self._network((context.namespace, context.spec.network.name)) if context else None
        project = record.inherited(subnet, network)
        private = subnet.spec.subnet_class == subnets.PRIVATE
        class_name = self.settings.subnet_class(subnet.spec.ip_family) if private else subnet.spec.subnet_class
        return subnets.Observed(
            cell=self.cell,
            raw=raw,
            subnet=subnet,
            context=context,
            project=project,
            class_name=class_name,
            ip_claims=self._ip_claims(project.name, [subnets.range_name(self.cell, subnet)], subnet.uid, taken),
            interfaces=self._inside(subnet, context),
        )

    def binding(self, key: Key) -> bindings.Observed | None:
        """The snapshot of a binding's plan; None when there is no such binding."""
        raw = self.bindings.store.get(key)
        if raw is None:
            return None
        binding = NetworkBinding.model_validate(raw)
        name = binding.spec.network.name
        location = binding.spec.location or self.cell.location
        context = self.contexts.store.get((binding.namespace, context_name(name, location)))
        return bindings.Observed(
            location=self.cell.location,
            raw=raw,
            binding=binding,
            network=self._network((binding.namespace, name)),
            context=NetworkContext.model_validate(context) if context else None,
        )

    def subnet_claim(self, key: Key) -> subnet_claims.Observed | None:
        """The snapshot of a subnet claim's plan; None when there is no such claim."""
        raw = self.subnet_claims.store.get(key)
        if raw is None:
            return None
        claim = SubnetClaim.model_validate(raw)
        context_key = (claim.namespace, claim.spec.network_context.name)
        context = self.contexts.store.get(context_key)
        return subnet_claims.Observed(
            location=self.cell.location,
            raw=raw,
            claim=claim,
            context=NetworkContext.model_validate(context) if context else None,
            subnets=tuple(Subnet.model_validate(one) for one in self.subnets.store.by("by_context", context_key)),
        )

    def networks_of_project(self, project: str) -> Iterable[Key]:
        """Keys of the networks that allocate in a project, or would if it were there."""
        for network in self.networks.store.by("by_recorded_project", project):
            yield (network["metadata"]["namespace"], network["metadata"]["name"])
        for namespace in self.namespaces.store.by("project", project):
            for network in self.networks.store.by("by_namespace", namespace["metadata"]["name"]):
                yield (network["metadata"]["namespace"], network["metadata"]["name"])

    def _network(self, key: Key) -> Network | None:
        raw = self.networks.store.get(key)
        return Network.model_validate(raw) if raw else None

    def _has_project(self, name: str) -> bool:
        return ipclaims.is_project(self.projects.store.get(("", name)))

    def _range_classes(self, project: str) -> dict[IPFamily, str]:
        """The family that the class of network ranges is of, where the project has that class."""
        raw = self.classes.store.get((project, self.settings.network_class))
        return {raw["spec"]["ipFamily"]: self.settings.network_class} if raw else {}

    def _ip_claims(self, project: str, names: list[str], uid: str, taken: Raw | None) -> tuple[IPClaim, ...]:
        found = [*self.ip_claims.store.by("by_owner_uid", uid)]
        found += [raw for name in names if (raw := self.ip_claims.store.get((project, name))) is not None]
        if taken is not None:
            found.append(taken)
        return tuple({one.key: one for one in map(IPClaim.model_validate, found)}.values())

    def _inside(self, subnet: Subnet, context: NetworkContext | None) -> tuple[str, ...]:
        """Interfaces with an address in the subnet. A subnet claim's own one is a second hold: it keeps nobody."""
        ref = subnet.controller_ref
        if context is None or subnet.status.cidr is None or (ref is not None and ref.kind == "SubnetClaim"):
            return ()
        on_network = self.interfaces.store.by("by_network", (context.namespace, context.spec.network.name))
        return tuple(
            one["metadata"]["name"]
            for one in on_network
            if any(addresses.contains(subnet.status.cidr, entry["address"]) for entry in one["spec"]["addresses"])
        )


def _indexed(reflector: Reflector, *functions: IndexFn) -> Reflector:
    for function in functions:
        reflector.store.add_index(function.__name__, function)
    return reflector
