"""`netclaimctl explain`: the chain of one claim as the controllers have made it, and what is wrong with it."""

import secrets
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api import cni, networking, resources
from netclaim.kube.client import Client
from tests.api.claims.operator import ROOT, Operator
from tests.api.claims.programs import Program as NsoProgram
from tests.api.claims.shop import Shop, Writer, said
from tests.api.vpc.programs import Program, controller
from tests.api.vpc.world import World
from tests.control_plane import ControlPlane

CLAIM = "web-0-eth0"
NAMED = ("Namespace", "Project", "NetworkInterfaceClaim", "Network", "NetworkContext", "Subnet", "IPClass", "IPClaim")
HELD = ("IPPool", "IPAllocation", "NetworkInterface")
REALIZED = ("VPC", "VPCAttachment", "Identifier", "NetworkAttachmentDefinition", "Pod", "Node", "BGPRouter")


@pytest.fixture
def operator(control_plane: ControlPlane) -> Operator:
    return Operator(control_plane)


@pytest.fixture(scope="module")
async def vpc_controller(
    control_plane: ControlPlane, system_namespaces: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Program]:
    """A data plane's controller beside NSO."""
    log = tmp_path_factory.mktemp("vpc-controller") / "log"
    async with controller(control_plane, log) as program:
        await program.says("working:", timeout=60.0)
        yield program
        assert await program.stop() == 0


async def running_pod(cell: Client, namespace: str, node: str) -> str:
    """A Pod that the interface was injected into, as far as an API server without nodes can have one; its uid."""
    annotations = {
        networking.INJECTED_ANNOTATION: "[]",
        cni.DEFAULT_NETWORK_ANNOTATION: f"{namespace}/{CLAIM}",
    }
    container = {"name": "main", "image": "none"}
    made = await cell.create(
        resources.PODS,
        {
            "metadata": {"name": "web-0", "namespace": namespace, "annotations": annotations},
            "spec": {"containers": [container], "nodeName": node, "terminationGracePeriodSeconds": 0},
        },
    )
    await cell.apply_status(
        resources.PODS,
        {"metadata": {"name": "web-0", "namespace": namespace}, "status": {"phase": "Running"}},
        manager="kubelet",
    )
    return str(made["metadata"]["uid"])


async def ready_node(cell: Client, name: str) -> None:
    """The node's kubelet says that it is Ready."""
    status = {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}
    await cell.apply_status(resources.NODES, {"metadata": {"name": name}, "status": status}, manager="kubelet")


async def test_a_claim_that_carries_traffic_is_told_from_project_to_node_without_a_fault(
    shop: Shop, cell: Client, operator: Operator, vpc_controller: Program
) -> None:
    """Every link of the chain once, each as it should be; exit code 0. Then the router goes, and is named."""
    world = World(cell, shop.namespace)
    node = f"node-{secrets.token_hex(3)}"
    await shop.network()
    await shop.claim()
    await shop.allocated()
    attachment = await world.prepared(CLAIM)
    await world.node(node)
    await ready_node(cell, node)
    uid = await running_pod(cell, shop.namespace, node)
    facts = {"node": node, "podName": "web-0", "podUID": uid, "containerID": "c-1", "hostInterface": "G1H"}
    advertisement = ""
    try:
        await world._over_latest(CLAIM, facts)
        advertisement = await world.advertise(attachment, node)
        await world.says(resources.CLAIMS, CLAIM, "Ready", "True")
        told = await operator.explain(CLAIM, shop.namespace)
        assert told.first == "", told
        assert told.code == 0, told
        for kind in (*NAMED, *HELD, *REALIZED, "BGPAdvertisement"):
            assert told.link(kind).startswith("ok"), told
        assert {line.split()[0] for line in told.found[1:]} == {"ok"}
        check = await operator.ipam("check")
        assert check.code == 0, check

        await cell.delete(resources.BGP_ROUTERS, "netclaim-system", node)
        told = await operator.explain(CLAIM, shop.namespace)
        assert told.code == 1
        assert told.first.startswith(f"first: BGPRouter {node}"), told
    finally:
        if advertisement and await world.find(resources.BGP_ADVERTISEMENTS, advertisement, "netclaim-system"):
            await world.withdraw(advertisement)
        await world.detach(CLAIM)
        await cell.delete(resources.PODS, shop.namespace, "web-0")
        await cell.delete(resources.NODES, None, node)


async def test_a_prepared_claim_without_a_pod_waits_for_one(
    shop: Shop, operator: Operator, vpc_controller: Program, cell: Client
) -> None:
    """Nothing is wrong, something is still to come: the Pod."""
    await shop.network(families=("IPv4",))
    await shop.claim()
    await shop.allocated()
    await World(cell, shop.namespace).prepared(CLAIM)
    told = await operator.explain(CLAIM, shop.namespace)
    assert told.code == 1
    assert told.first.startswith("first: Pod"), told
    assert told.link("VPCAttachment").startswith("ok")


async def test_the_first_link_that_is_wrong_is_the_cause_and_not_what_follows_from_it(
    shop: Shop, operator: Operator, ipam: Client, cell: Client
) -> None:
    """Project, network, class, pool: each fault is named where it lies."""
    await shop.claim(ipFamilies=["IPv4"])
    await shop.refused("NetworkNotFound")
    assert (await operator.explain(CLAIM, shop.namespace)).first.startswith("first: Network default")

    await shop.network(families=("IPv4",))
    await shop.allocated()
    default = "/metadata/annotations/ipam.datumapis.com~1is-default-class"
    name = "endpoint-ipv4"
    await ipam.json_patch(
        resources.IP_CLASSES, shop.project, name, [{"op": "replace", "path": default, "value": "false"}]
    )
    await shop.claim("web-1-eth0")
    await shop.refused("NoDefaultAddressClass", "web-1-eth0")
    told = await operator.explain("web-1-eth0", shop.namespace)
    assert told.code == 1
    assert "no default class for IPv4" in told.first

    await ipam.json_patch(
        resources.IP_CLASSES, shop.project, name, [{"op": "replace", "path": default, "value": "true"}]
    )
    await shop.allocated("web-1-eth0")
    removed = [{"op": "remove", "path": "/metadata/labels/" + networking.PROJECT_LABEL.replace("/", "~1")}]
    await cell.json_patch(resources.NAMESPACES, None, shop.namespace, removed)
    await shop.claim("web-2-eth0")
    await shop.refused("ProjectUnresolved", "web-2-eth0")
    told = await operator.explain("web-2-eth0", shop.namespace)
    assert told.first.startswith(f"first: Namespace {shop.namespace}: it has no label"), told
    # The record of the first claim counts, not the label.
    assert (await operator.explain(CLAIM, shop.namespace)).link("Namespace").startswith("ok")
    await cell.json_patch(
        resources.NAMESPACES,
        None,
        shop.namespace,
        [{"op": "add", "path": "/metadata/labels/networking.datumapis.com~1project", "value": shop.project}],
    )
    await shop.allocated("web-2-eth0")


async def test_a_full_pool_is_named_with_what_is_used(shop: Shop, operator: Operator, ipam: Client) -> None:
    """R12, T24: IPAM's own words, at the IPClaim that waits."""
    pool = {
        "metadata": {"name": "narrow", "namespace": shop.project},
        "spec": {"cidr": "203.0.113.0/32", "classNames": ["narrow"]},
    }
    cls = {
        "metadata": {"name": "narrow", "namespace": shop.project},
        "spec": {"ipFamily": "IPv4", "prefixLength": 32},
    }
    await ipam.create(resources.IP_CLASSES, cls)
    await ipam.create(resources.IP_POOLS, pool)
    await shop.network(families=("IPv4",))
    await shop.claim(addresses=[{"class": "narrow"}])
    await shop.allocated()
    await shop.claim("web-1-eth0", addresses=[{"class": "narrow"}])
    await shop.refused("AddressPoolExhausted", "web-1-eth0")
    told = await operator.explain("web-1-eth0", shop.namespace)
    assert told.code == 1
    assert "IPClaim" in told.first
    assert "PoolExhausted" in told.first
    assert "narrow" in told.first


async def test_an_allocation_that_is_gone_is_named(
    shop: Shop, operator: Operator, ipam: Client, ipam_program: NsoProgram
) -> None:
    """The claim still says that it is fine: what makes its address unique is not there.

    IPAM stands still meanwhile: at work, it takes such an allocation again before anybody can look.
    """
    await shop.network(families=("IPv4",))
    await shop.claim()
    await shop.allocated()
    (lost,) = [raw for raw in (await shop.allocations()).values() if raw["spec"]["cidr"].endswith("/32")]
    with ipam_program.paused():
        await ipam.delete(resources.IP_ALLOCATIONS, shop.project, lost["metadata"]["name"])
        told = await operator.explain(CLAIM, shop.namespace)
        assert told.first.startswith(f"first: IPAllocation {lost['metadata']['name']}"), told
        assert told.code == 1
        repaired = await operator.ipam("repair", f"--project={shop.project}", "--grace=0.5")
        assert [line for line in repaired.found if line.startswith("done: ")], repaired


async def test_while_ipam_is_away_the_cell_is_told_and_ipam_is_not_accused(
    shop: Shop, operator: Operator, cell: Client, tmp_path: Path
) -> None:
    """What holds in the cell is answered; the exit code says that the answer is not whole."""
    await shop.network(families=("IPv4",))
    await shop.claim()
    await shop.allocated()
    for resource in (resources.INTERFACES, resources.CLAIMS):
        programmed = [said("Prepared", "True", "Attached"), said("Programmed", "True", "Programmed")]
        await Writer(cell, shop, "other-plane").tell(resource, CLAIM, conditions=programmed)
    away = tmp_path / "away"
    text = operator.control_plane.ipam_kubeconfig.read_text()
    port = text.split("https://127.0.0.1:", 1)[1].split()[0].strip('"')
    away.write_text(text.replace(f":{port}", ":9"))
    told = await operator.explain(CLAIM, shop.namespace, f"--ipam-kubeconfig={away}")
    assert told.link("Project").startswith("unread")
    assert told.link("IPClaim").startswith("unread")
    assert told.link("Network").startswith("ok")
    assert told.link("NetworkInterface").startswith("ok")


async def test_kubectl_finds_it_as_a_plugin(shop: Shop, operator: Operator, tmp_path: Path) -> None:
    """`kubectl netclaim explain`, with kubectl's own KUBECONFIG; a claim that does not exist is exit code 2."""
    plugin = tmp_path / "kubectl-netclaim"
    plugin.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m netclaimctl "$@"\n')
    plugin.chmod(0o755)
    cluster = operator.control_plane.cluster
    env = {
        "PATH": f"{tmp_path}:/usr/bin:/bin",
        "KUBECONFIG": str(operator.control_plane.cell_kubeconfig),
        "PYTHONPATH": str(ROOT),
    }
    kubectl = str(cluster.kubectl_path)
    told = await operator.execute(kubectl, "netclaim", "explain", "nothing", "-n", shop.namespace, env=env)
    assert told.code == 2, told
    assert f"no NetworkInterfaceClaim nothing in namespace {shop.namespace}" in told.remarks
    env["KUBECONFIG"] = str(operator.control_plane.ipam_kubeconfig)
    checked = await operator.execute(kubectl, "netclaim", "ipam", "check", f"--project={shop.project}", env=env)
    assert checked.code == 0, checked
