"""Reading what may be in the chain of one claim, from its cell and from IPAM."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from netclaim.api import cloud, ipam, resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import Forbidden, NotFound
from netclaim.kube.objects import uid_of
from netclaimctl import reading
from netclaimctl.chain import Facts, attachment_name, instance_of, interface_name, pod_name
from netclaimctl.objects import minted_for, owner_ref, status
from netclaimctl.realization import FOREIGN_DATA_PLANE

IPAM_KINDS = (resources.IP_CLASSES, resources.IP_POOLS, resources.IP_CLAIMS, resources.IP_ALLOCATIONS)


class Gathering:
    """Collects objects by kind; what this account may not read is noted and not asked for again."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.found: dict[str, tuple[Raw, ...]] = {}
        self.unread: dict[str, str] = {}

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Raw | None:
        """One object; None when it is not there, or not to be read."""
        if not name:
            return None

        async def one() -> list[Raw]:
            return [await self.client.get(resource, namespace, name)]

        found = await self._read(resource, one, missing="")
        return found[0] if found else None

    async def several(self, resource: Resource, namespace: str | None, labels: str | None = None) -> tuple[Raw, ...]:
        """All objects; none when they are not to be read."""

        async def all_of_it() -> list[Raw]:
            return await self.client.list(resource, namespace, label_selector=labels)

        return await self._read(resource, all_of_it, missing=FOREIGN_DATA_PLANE)

    async def _read(
        self, resource: Resource, read: Callable[[], Awaitable[list[Raw]]], missing: str
    ) -> tuple[Raw, ...]:
        try:
            found = tuple(await read())
        except NotFound:
            if missing:
                self.unread[resource.kind] = missing
            found = ()
        except Forbidden:
            self.unread[resource.kind] = "this account may not read it"
            found = ()
        self.found[resource.kind] = (*self.found.get(resource.kind, ()), *found)
        return found


async def gather(cell: Client, kubeconfig: str | None, namespace: str, name: str, project_label: str) -> Facts:
    """The facts about one claim. `kubeconfig` is IPAM's; while IPAM is away, what it knows is noted as unread.

    Raises:
        UnreadableError: there is no such claim.
        ApiError: the cell cannot be read.
    """
    try:
        claim = await cell.get(resources.CLAIMS, namespace, name)
    except NotFound:
        says = f"there is no NetworkInterfaceClaim {name} in namespace {namespace}: name one with -n NAMESPACE"
        raise reading.UnreadableError(says) from None
    here = Gathering(cell)
    labelled = await here.get(resources.NAMESPACES, None, namespace)
    labels = labelled["metadata"].get("labels") or {} if labelled else {}
    project = str(status(claim).get("project") or labels.get(project_label) or "")
    await _read_cell(here, claim)
    is_there, unread = None, dict(here.unread)
    found = dict(here.found)
    if project:
        try:
            async with reading.connected(kubeconfig, "IPAM") as client:
                there = Gathering(client)
                owners = owner_uids(claim, here.found)
                is_there = await _read_ipam(there, project, await reading.control_plane_id(cell), owners)
        except reading.UnreadableError as error:
            unread |= {kind: str(error) for kind in ("Project", *(resource.kind for resource in IPAM_KINDS))}
        else:
            found |= {resource.kind: there.found.get(resource.kind, ()) for resource in IPAM_KINDS}
            unread |= {kind: why for kind, why in there.unread.items() if kind != resources.NAMESPACES.kind}
            if resources.NAMESPACES.kind in there.unread:
                unread["Project"], is_there = there.unread[resources.NAMESPACES.kind], None
    return Facts(claim, project_label, project, is_there, found, unread)


async def _read_cell(here: Gathering, claim: Raw) -> None:
    namespace = claim["metadata"]["namespace"]
    await here.get(resources.NETWORKS, namespace, claim["spec"]["network"]["name"])
    interface = await here.get(resources.INTERFACES, namespace, interface_name(claim))
    for resource in (resources.NETWORK_CONTEXTS, resources.SUBNETS, resources.VPCS):
        await here.several(resource, namespace)
    instances = await here.several(resources.INSTANCES, namespace)
    attached = attachment_name(interface, interface_name(claim))
    attachment = await here.get(resources.ATTACHMENTS, namespace, attached)
    await here.get(resources.NADS, namespace, attached)
    await here.get(resources.PODS, namespace, pod_name(attachment, instance_of(claim, instances)))
    told = status(attachment) if attachment else {}
    if told.get("vpc") and told.get("vpcAttachment"):
        # By their labels: the system namespace is the installation's choice.
        mine = f"{cloud.VPC_LABEL}={told['vpc']},{cloud.VPC_ATTACHMENT_LABEL}={told['vpcAttachment']}"
        await here.several(resources.IDENTIFIERS, None, mine)
        await here.several(resources.BGP_ADVERTISEMENTS, None, mine)
    if told.get("node"):
        await here.get(resources.NODES, None, told["node"])
        await here.several(resources.BGP_ROUTERS, None)


def owner_uids(claim: Raw, found: Mapping[str, tuple[Raw, ...]]) -> set[str]:
    """Whom the claim's addresses may be for: itself, and the claim that its interface was minted for."""
    return {uid_of(claim), *(minted_for(raw) for raw in found.get(resources.INTERFACES.kind, ()))}


async def _read_ipam(there: Gathering, project: str, control_plane: str, owners: set[str]) -> bool:
    """Whether the project is there; reads its classes and what this cell has in it."""
    is_there = await there.get(resources.NAMESPACES, None, project) is not None
    if not is_there and resources.NAMESPACES.kind not in there.unread:
        return False
    await there.several(resources.IP_CLASSES, project)
    await there.several(resources.IP_POOLS, project)
    claims = await there.several(resources.IP_CLAIMS, project, f"{ipam.CONTROL_PLANE_LABEL}={control_plane}")
    for raw in claims:
        reference = status(raw).get("allocationRef")
        if reference and owner_ref(raw).get("uid") in owners:
            await there.get(resources.IP_ALLOCATIONS, reference.get("namespace") or project, reference["name"])
    return is_there
