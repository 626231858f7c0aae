"""netclaimctl uninstall where no program runs any more: nothing stays behind a finalizer, nothing in use is freed."""

import subprocess
import sys
from pathlib import Path

from netclaim.api import cloud, ipam, networking
from netclaim.api.kinds import KINDS
from netclaim.api.resources import (
    ATTACHMENTS,
    CLAIMS,
    INTERFACES,
    IP_ALLOCATIONS,
    IP_CLAIMS,
    IP_POOLS,
    NADS,
    NAMESPACES,
    NETWORKS,
    Resource,
)
from netclaim.kube.client import Client
from netclaim.kube.objects import uid_of
from tests.control_plane import ControlPlane
from tests.helm.helm import Raw

ROOT = Path(__file__).resolve().parent.parent.parent


def uninstall(control_plane: ControlPlane, *words: str) -> subprocess.CompletedProcess[str]:
    planes = (
        "--kubeconfig",
        str(control_plane.cell_kubeconfig),
        "--ipam-kubeconfig",
        str(control_plane.ipam_kubeconfig),
    )
    command = [sys.executable, "-m", "netclaimctl", "uninstall", "--yes", "--grace", "0.5", *planes, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=300)


async def make(client: Client, resource: Resource, key: tuple[str, str], finalizers: list[str], spec: Raw) -> Raw:
    metadata = {"namespace": key[0], "name": key[1], "finalizers": finalizers}
    return await client.create(resource, {"metadata": metadata, "spec": spec})


async def left(cell: Client, ipam_plane: Client, *, but: tuple[Resource, ...] = ()) -> list[str]:
    """Every object of netclaim that there is, in both control planes."""
    return [
        f"{kind.__name__} {one['metadata']['name']}"
        for kind in KINDS
        if kind.RESOURCE not in (*but, NADS)
        for client in (cell, ipam_plane)
        for one in await client.list(kind.RESOURCE)
    ]


async def test_no_finalizer_strands_an_object_and_an_attachment_in_use_is_freed_by_force_only(
    control_plane: ControlPlane, cell: Client, ipam: Client, namespace: str, project: str
) -> None:
    """T07, T29: the charts went first; finalizers of other products stay theirs; a running guest keeps its address."""
    await orphaned_objects(cell, ipam, namespace, project)
    told = uninstall(control_plane, "--dry-run")
    assert "would delete 1 networkinterfaceclaims" in told.stdout, told
    assert await left(cell, ipam)

    refused = uninstall(control_plane, "--ipam")
    assert refused.returncode == 1, refused
    assert f"in use: {namespace}/web-0-eth0 on node-a" in refused.stdout
    assert (await cell.get(CLAIMS, namespace, "web-0-eth0"))["metadata"]["finalizers"]
    assert await ipam.list(IP_ALLOCATIONS, project)

    forced = uninstall(control_plane, "--ipam", "--force")
    assert forced.returncode == 0, forced
    assert await left(cell, ipam) == ["Network foreign"]
    stranger = await cell.get(NETWORKS, namespace, "foreign")
    assert stranger["metadata"]["finalizers"] == ["example.com/backup"]
    await cell.json_patch(NETWORKS, namespace, "foreign", [{"op": "remove", "path": "/metadata/finalizers"}])
    assert uninstall(control_plane, "--ipam").returncode == 0


async def orphaned_objects(cell: Client, ipam_plane: Client, namespace: str, project: str) -> None:
    """What an interface leaves behind when every program ended before it was deleted."""
    await make(cell, NETWORKS, (namespace, "default"), [networking.TEARDOWN_FINALIZER], {})
    await make(cell, NETWORKS, (namespace, "foreign"), [networking.TEARDOWN_FINALIZER, "example.com/backup"], {})
    claim = await make(
        cell,
        CLAIMS,
        (namespace, "web-0-eth0"),
        [networking.CLAIM_RELEASE_FINALIZER],
        {"network": {"name": "default"}},
    )
    addresses = [{"family": "IPv4", "address": "10.128.0.2/32", "gateway": "10.128.0.1", "primary": True}]
    spec = {"network": {"name": "default"}, "interfaceName": "eth0", "mtu": 1460, "addresses": addresses}
    finalizers = [networking.INTERFACE_RELEASE_FINALIZER, cloud.ATTACHED_FINALIZER]
    await make(cell, INTERFACES, (namespace, "web-0-eth0"), finalizers, spec)
    attachment = {
        "vpc": {"name": "v"},
        "interfaceRef": {"name": "web-0-eth0"},
        "interface": {"name": "eth0", "mode": "Netns", "mtu": 1460},
    }
    await make(cell, ATTACHMENTS, (namespace, "web-0-eth0"), [cloud.IN_USE_FINALIZER], attachment)
    facts = {"metadata": {"name": "web-0-eth0", "namespace": namespace}, "status": {"node": "node-a"}}
    await cell.apply_status(ATTACHMENTS, facts, manager="node-agent")

    control_plane = uid_of(await cell.get(NAMESPACES, None, "kube-system"))
    owner = {
        "kind": "NetworkInterfaceClaim",
        "namespace": namespace,
        "name": "web-0-eth0",
        "uid": uid_of(claim),
        "controlPlane": control_plane,
    }
    wanted = {"ipFamily": "IPv4", "ownerRef": owner}
    ip_claim = await make(ipam_plane, IP_CLAIMS, (project, "web-0"), [ipam.CLAIM_FINALIZER], wanted)
    pool = (await ipam_plane.list(IP_POOLS, project))[0]
    hold = [{"op": "add", "path": "/metadata/finalizers", "value": [ipam.POOL_FINALIZER]}]
    await ipam_plane.json_patch(IP_POOLS, project, pool["metadata"]["name"], hold)
    held = {
        "poolRef": {"name": pool["metadata"]["name"]},
        "cidr": "10.128.0.2/32",
        "space": "s",
        "purpose": "Claim",
        "claimRef": {"namespace": project, "name": "web-0", "uid": uid_of(ip_claim)},
    }
    await make(ipam_plane, IP_ALLOCATIONS, (project, "held"), [], held)
