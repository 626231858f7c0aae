"""What the reconcilers of claims and interfaces observe: stores and a few live reads, made into snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from netclaim.api import conditions, resources
from netclaim.api.ipam import LOCATION_LABEL, IPClaim
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import (
    ALLOCATED_FOR_ANNOTATION,
    BOUND,
    INTERFACE_RELEASE_FINALIZER,
    IPFamily,
    Network,
    NetworkContext,
    NetworkInterface,
    NetworkInterfaceClaim,
    Subnet,
)
from netclaim.freshness import is_fresh
from netclaim.identity import context_name, subnet_name
from netclaim.kube.cluster import Cluster
from netclaim.kube.objects import is_going, key_of, uid_of
from netclaim.kube.reflector import Reflector
from netclaim.kube.store import IndexFn
from nso import ipclaims
from nso.claims.needs import possible_names
from nso.claims.observed import ClaimSeen, HeldInterface, InterfaceSeen
from nso.ipclaims import Cell, by_owner_uid
from nso.projects import by_project, project_of
from nso.settings import Settings


def by_namespace(raw: Raw) -> Iterable[str]:
    """Index function: the object's namespace."""
    return (raw["metadata"]["namespace"],)


def by_network(raw: Raw) -> Iterable[Key]:
    """Index function: the key of the network that the object names."""
    return ((raw["metadata"]["namespace"], raw["spec"]["network"]["name"]),)


def by_interface(raw: Raw) -> Iterable[Key]:
    """Index function of claims: the key of the interface that each wants."""
    metadata = raw["metadata"]
    return ((metadata["namespace"], raw["spec"].get("networkInterfaceName") or metadata["name"]),)


def by_claim_uid(raw: Raw) -> Iterable[str]:
    """Index function of interfaces: uids of the claims that hold it, or that its IPClaims are for."""
    minted_for = (raw["metadata"].get("annotations") or {}).get(ALLOCATED_FOR_ANNOTATION, "").rpartition("/")[2]
    holder = (raw["spec"].get("claimRef") or {}).get("uid", "")
    return {uid for uid in (minted_for, holder) if uid}


def by_recorded_project(raw: Raw) -> Iterable[str]:
    """Index function of claims: the project that each has recorded."""
    project = (raw.get("status") or {}).get("project")
    return (project,) if project else ()


class View:
    """The reflectors of claims, and a snapshot for each kind of plan."""

    def __init__(self, cluster: Cluster, ipam: Cluster, settings: Settings) -> None:
        self.cell = Cell(settings.location, cluster.control_plane_id)
        self.settings = settings
        self._cluster = cluster
        self._ipam = ipam
        self.claims = _indexed(
            cluster.reflect(resources.CLAIMS), by_namespace, by_network, by_interface, by_recorded_project
        )
        self.claims.store.add_index("by_ip_claim_name", self.possible_names)
        self.interfaces = _indexed(cluster.reflect(resources.INTERFACES), by_namespace, by_claim_uid)
        self.networks = cluster.reflect(resources.NETWORKS)
        self.contexts = cluster.reflect(resources.NETWORK_CONTEXTS)
        self.subnets = cluster.reflect(resources.SUBNETS)
        self.namespaces = cluster.reflect(resources.NAMESPACES)
        self.namespaces.store.add_index("project", by_project(settings.project_label))
        self.projects = ipam.reflect(resources.NAMESPACES)
        self.quotas = ipam.reflect(resources.RESOURCE_QUOTAS)
        selector = ipclaims.selector(settings.location)
        self.ip_claims = _indexed(ipam.reflect(resources.IP_CLAIMS, label_selector=selector), by_owner_uid)

    def possible_names(self, raw: Raw) -> Iterable[str]:
        """Index function of claims: the names of all IPClaims that each may have asked for."""
        return possible_names(self.cell.location, raw)

    # -- snapshots -------------------------------------------------------------------------------------------------

    async def claim(self, key: Key, *, also: tuple[Raw, ...] = ()) -> ClaimSeen | None:
        """The snapshot of a claim's plan; None when there is no such claim, or its namespace is not known yet.

        `also` are IPClaims that were read live.
        """
        raw = self.claims.store.get(key)
        if raw is None:
            return None
        claim = NetworkInterfaceClaim.model_validate(raw)
        namespace = self.namespaces.store.get(("", claim.namespace))
        if namespace is None and not claim.is_going:
            return None  # its watch is behind this claim's, and will wake the claim
        held = self._held((claim.namespace, claim.spec.network_interface_name or claim.name))
        project = claim.status.project or project_of(namespace, self.settings.project_label)
        network, context, subnets = self._network_of(claim)
        if claim.is_going and held is None and project:
            # What this cell asked for moments ago, perhaps in another process, may not have reached the store yet.
            also = (*also, *await self._asked_for(raw, project))
        return ClaimSeen(
            cell=self.cell,
            raw=raw,
            claim=claim,
            project_label=self.settings.project_label,
            project=project,
            project_exists=ipclaims.is_project(self.projects.store.get(("", project))),
            namespace_is_going=namespace is not None and is_going(namespace),
            network=network,
            context=context,
            subnets=subnets,
            interface=held,
            ip_claims=self._ip_claims(claim, project, held, also),
            detaching=await self._detaching(held) if held is not None else "",
            is_fresh=is_fresh(claim),
        )

    async def departed(self, seen: ClaimSeen) -> ClaimSeen:
        """A claim that is gone, with the IPClaims that it has at IPAM right now: none while an interface is on them."""
        serving = self.interfaces.store.by("by_claim_uid", seen.claim.uid)
        found = () if serving else await self._asked_for(seen.raw, seen.project)
        return replace(seen, ip_claims=tuple(IPClaim.model_validate(raw) for raw in found))

    async def interface(self, key: Key) -> InterfaceSeen | None:
        """The snapshot of an interface's plan; None when there is no such interface."""
        held = self._held(key)
        if held is None:
            return None
        namespace = self.namespaces.store.get(("", held.interface.namespace))
        claim = await self._holder(held)
        found = [
            raw for uid in {held.minted_for, held.holder} - {""} for raw in self.ip_claims.store.by("by_owner_uid", uid)
        ]
        return InterfaceSeen(
            cell=self.cell,
            held=held,
            claim=NetworkInterfaceClaim.model_validate(claim) if claim is not None else None,
            namespace_is_going=namespace is not None and is_going(namespace),
            ip_claims=tuple(IPClaim.model_validate(raw) for raw in found),
        )

    # -- who is concerned ------------------------------------------------------------------------------------------

    def unbound(self, claims: Iterable[Raw]) -> Iterable[Key]:
        """Keys of those claims that are not bound: only these wait for a network, a label or a quota."""
        return [key_of(raw) for raw in claims if not conditions.is_true(raw, BOUND)]

    def claims_of_project(self, project: str) -> Iterable[Key]:
        """Keys of the unbound claims that allocate in a project, or would if it were there."""
        yield from self.unbound(self.claims.store.by("by_recorded_project", project))
        for namespace in self.namespaces.store.by("project", project):
            yield from self.unbound(self.claims.store.by("by_namespace", namespace["metadata"]["name"]))

    def claims_of_ip_claim(self, raw: Raw) -> Iterable[Key]:
        """Keys of the claims that an IPClaim is for, or that wait for its name to be free."""
        yield from ipclaims.owner_key(raw, "NetworkInterfaceClaim", self.cell.control_plane)
        for claim in self.claims.store.by("by_ip_claim_name", raw["metadata"]["name"]):
            yield key_of(claim)

    def interfaces_of_ip_claim(self, raw: Raw) -> Iterable[Key]:
        """Keys of the interfaces that an IPClaim stands behind."""
        for uid in by_owner_uid(raw):
            for interface in self.interfaces.store.by("by_claim_uid", uid):
                yield key_of(interface)

    # -- inside ----------------------------------------------------------------------------------------------------

    def _held(self, key: Key) -> HeldInterface | None:
        raw = self.interfaces.store.get(key)
        return HeldInterface(raw, NetworkInterface.model_validate(raw)) if raw is not None else None

    def _network_of(
        self, claim: NetworkInterfaceClaim
    ) -> tuple[Network | None, NetworkContext | None, dict[IPFamily, Subnet]]:
        namespace, name = claim.namespace, claim.spec.network.name
        raw = self.networks.store.get((namespace, name))
        if raw is None:
            return None, None, {}
        network = Network.model_validate(raw)
        context_raw = self.contexts.store.get((namespace, context_name(name, self.cell.location)))
        if context_raw is None:
            return network, None, {}
        context = NetworkContext.model_validate(context_raw)
        found: dict[IPFamily, Subnet] = {}
        for family in network.spec.ip_families:
            subnet = self.subnets.store.get((namespace, subnet_name(context.name, family)))
            if subnet is not None:
                found[family] = Subnet.model_validate(subnet)
        return network, context, found

    def _ip_claims(
        self, claim: NetworkInterfaceClaim, project: str, held: HeldInterface | None, also: tuple[Raw, ...]
    ) -> tuple[IPClaim, ...]:
        uids = {claim.uid, held.minted_for if held is not None else ""} - {""}
        found = {key_of(raw): raw for raw in also}
        for uid in sorted(uids):
            found.update((key_of(raw), raw) for raw in self.ip_claims.store.by("by_owner_uid", uid))
        raw_claim = self.claims.store.get(claim.key)
        for name in self.possible_names(raw_claim) if raw_claim is not None else ():
            raw = self.ip_claims.store.get((project, name))
            if raw is not None:
                found[(project, name)] = raw
        return tuple(IPClaim.model_validate(raw) for raw in found.values())

    async def _asked_for(self, raw: Raw, project: str) -> tuple[Raw, ...]:
        return await self._live((project, name) for name in self.possible_names(raw))

    async def _live(self, keys: Iterable[Key]) -> tuple[Raw, ...]:
        """The IPClaims of these keys that are there now."""
        found = [await self._ipam.client.find(resources.IP_CLAIMS, *key) for key in keys]
        return tuple(raw for raw in found if raw is not None)

    @property
    def ipam_is_away(self) -> str:
        """What IPAM's watch fails with right now; empty while it answers."""
        return self.ip_claims.failure or "no answer" if self.ip_claims.backing_off else ""

    def shows(self, ip_claim: Raw) -> bool:
        """Whether a change of the IPClaim would be seen: it carries this location's label."""
        return (ip_claim["metadata"].get("labels") or {}).get(LOCATION_LABEL) == self.cell.location

    async def reread(self, ip_claims: Iterable[Raw]) -> tuple[Raw, ...]:
        """Those IPClaims that are still there, as they are now."""
        return await self._live(map(key_of, ip_claims))

    async def _holder(self, held: HeldInterface) -> Raw | None:
        """The claim that holds the interface, by uid. One that the store does not show is read live."""
        ref = held.interface.spec.claim_ref
        if ref is None:
            return None
        raw = self.claims.store.get((held.interface.namespace, ref.name))
        if raw is not None and uid_of(raw) == ref.uid:
            return raw
        raw = await self._cluster.client.find(resources.CLAIMS, held.interface.namespace, ref.name)
        return raw if raw is not None and uid_of(raw) == ref.uid else None

    async def _detaching(self, held: HeldInterface) -> str:
        """Which Pod, on which node, the data plane still serves through an interface that goes; empty when unknown."""
        ref = held.interface.status.attachment_ref
        let_go = held.interface.metadata.finalizers == [INTERFACE_RELEASE_FINALIZER]
        if ref is None or let_go or not held.interface.is_going:
            return ""
        raw = await self._cluster.client.find(resources.ATTACHMENTS, held.interface.namespace, ref.name)
        status = (raw or {}).get("status") or {}
        return (
            f"Pod {status['podName']} on node {status.get('node', 'unknown')} to end" if status.get("podName") else ""
        )


def _indexed(reflector: Reflector, *functions: IndexFn) -> Reflector:
    for function in functions:
        reflector.store.add_index(function.__name__, function)
    return reflector
