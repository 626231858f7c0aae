"""The charts installed by helm on a real API server, and what their accounts may do there."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from dev.accounts import token_kubeconfig
from dev.certificates import Authority
from netclaim.api.resources import (
    ATTACHMENTS,
    BGP_ADVERTISEMENTS,
    BGP_ROUTERS,
    CLUSTER_ROLES,
    CRDS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    VPCS,
)
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError, Forbidden, NotFound
from node_agent import taint
from tests.control_plane import ControlPlane
from tests.helm.helm import CHARTS, NAMES, NAMESPACE, REQUIRED, Helm, Raw
from tests.waiting import until

NODE_NAMES = ("node-a", "node-b")


@pytest.fixture(scope="module")
def installed(
    helm_binary: Path, control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Helm]:
    """Every chart as a release of its name; the types were applied before helm came, which takes them over."""
    helm = Helm(helm_binary, control_plane.cell_kubeconfig, tmp_path_factory.mktemp("helm"))
    for chart in NAMES:
        install(helm, chart)
    yield helm
    for chart in reversed(NAMES):
        helm.run("uninstall", chart, "-n", NAMESPACE, "--ignore-not-found")


def install(helm: Helm, chart: str) -> None:
    owned = ("--take-ownership",) if chart == "crds" else ()
    words = ("upgrade", "--install", chart, str(CHARTS / chart), "-n", NAMESPACE, "--create-namespace", *owned)
    helm.run(*words, values=REQUIRED[chart])


@pytest.fixture
async def nodes(cell: Client, installed: Helm) -> AsyncIterator[None]:
    """Two Nodes, as their kubelets would register them with the start-up taint."""
    for name in NODE_NAMES:
        spec = {"taints": [{"key": taint.TAINT_KEY, "effect": "NoSchedule"}, {"key": "other", "effect": "NoSchedule"}]}
        await cell.create(NODES, {"metadata": {"name": name, "labels": {"kept": "yes"}}, "spec": spec})
    yield
    for name in NODE_NAMES:
        await cell.delete(NODES, None, name)


@asynccontextmanager
async def agent_of(control_plane: ControlPlane, node: str, folder: Path) -> AsyncIterator[Client]:
    """A client with the token that the agent's Pod on a node has."""
    bound = ("--bound-object-kind", "Node", "--bound-object-name", node) if node else ()
    words = ("create", "token", "node-agent", "-n", NAMESPACE, *bound)
    token = await asyncio.to_thread(control_plane.kubectl, *words)
    run, state = control_plane.cluster.run, control_plane.cluster.state
    document = token_kubeconfig(
        Authority.load(run.pki("cell")), f"https://127.0.0.1:{state.api_ports['cell']}", token.strip()
    )
    path = folder / f"agent-{node}.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    client = await Client.connect(str(path), user_agent="netclaim-tests")
    try:
        yield client
    finally:
        await client.close()


async def test_helm_installs_every_chart_and_upgrades_it_to_itself(installed: Helm, cell: Client) -> None:
    """R36."""
    for chart in NAMES:
        install(installed, chart)
    listed = yaml.safe_load(installed.run("list", "-n", NAMESPACE, "-o", "yaml").stdout)
    assert {one["name"]: one["status"] for one in listed} == dict.fromkeys(NAMES, "deployed")
    deployments = {one["metadata"]["name"] for one in await cell.list(DEPLOYMENTS, NAMESPACE)}
    assert deployments == {"nso", "vpc-controller", "netclaim-webhook"}
    assert [one["metadata"]["name"] for one in await cell.list(DAEMON_SETS, NAMESPACE)] == ["node-agent"]


async def test_pods_of_all_programs_but_the_agent_are_admitted_where_the_restricted_profile_is_enforced(
    installed: Helm, cell: Client, control_plane: ControlPlane
) -> None:
    name = f"restricted-{secrets.token_hex(3)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await cell.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    outcomes = {}
    for found in [*await cell.list(DEPLOYMENTS, NAMESPACE), *await cell.list(DAEMON_SETS, NAMESPACE)]:
        spec = {**found["spec"]["template"]["spec"], "serviceAccountName": "default", "priorityClassName": ""}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": name}, "spec": spec}
        await until(
            lambda: control_plane.kubectl("get", "sa", "default", "-n", name, check=False).startswith("NAME"),
            timeout=60,
            what=f"the default account of {name}",
        )
        outcomes[found["metadata"]["name"]] = control_plane.kubectl(
            "create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod), check=False
        )
    await cell.delete(NAMESPACES, None, name)
    refused = {key: said for key, said in outcomes.items() if "created" not in said}
    assert refused.keys() == {"node-agent"}, refused
    assert "violates PodSecurity" in refused["node-agent"]


async def test_an_agent_writes_facts_of_attachments_on_its_own_node_only(
    nodes: None, cell: Client, control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    """R35: the node in the agent's token decides; the old node is empty or its own, and identity is not its own."""
    await attachment(cell, namespace, "web-0-eth0")
    async with (
        agent_of(control_plane, "node-a", tmp_path) as agent,
        agent_of(control_plane, "node-b", tmp_path) as other,
        agent_of(control_plane, "", tmp_path) as unbound,
    ):
        await in_force(lambda: facts(other, namespace, "node-a"), "writes facts of attachments on its own node only")
        await refused(facts(unbound, namespace, "node-a"), "has to name its node")
        await facts(agent, namespace, "node-a")
        await refused(facts(other, namespace, "node-b"), "not on node node-a")
        await refused(facts(other, namespace, ""), "not on node node-a")
        await refused(facts(agent, namespace, "node-a", vpc="ZZ"), "not a node agent's to write")
        stolen = {"type": "Programmed", "status": "True", "reason": "Mine"}
        await refused(facts(agent, namespace, "node-a", conditions=[stolen]), "not a node agent's to write")
        await facts(agent, namespace, "")
        await facts(other, namespace, "node-b")


async def test_an_agent_tells_its_own_router_and_advertisements_only(
    nodes: None, cell: Client, control_plane: ControlPlane, tmp_path: Path
) -> None:
    async with agent_of(control_plane, "node-a", tmp_path) as agent:
        await in_force(lambda: router(agent, "node-b", "node-b"), "router of its own node only")
        await refused(router(agent, "node-a", "node-b"), "router of its own node only")
        await router(agent, "node-a", "node-a")
        await in_force(lambda: advertisement(agent, "1-9", "node-b"), "advertisements of its own router only")
        await advertisement(agent, "1-1", "node-a")
        await advertisement(cell, "1-2", "node-b")
        await refused(agent.delete(BGP_ADVERTISEMENTS, NAMESPACE, "1-2"), "advertisements of its own router only")
        await agent.delete(BGP_ADVERTISEMENTS, NAMESPACE, "1-1")
    for resource in (BGP_ADVERTISEMENTS, BGP_ROUTERS):
        for found in await cell.list(resource, NAMESPACE):
            await cell.delete(resource, NAMESPACE, found["metadata"]["name"])


async def test_an_agent_takes_the_startup_taint_off_its_own_node_and_changes_nothing_else_of_any(
    nodes: None, installed: Helm, cell: Client, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """T27: no Pod is placed before CNI calls are answered; the right to patch Nodes is worth no more than that."""
    over = {**REQUIRED["node-agent"], "startupTaint": {"enabled": True}}
    installed.run("upgrade", "node-agent", str(CHARTS / "node-agent"), "-n", NAMESPACE, values=over)
    async with agent_of(control_plane, "node-a", tmp_path) as agent:
        label = [{"op": "replace", "path": "/metadata/labels/kept", "value": "no"}]
        await in_force(lambda: agent.json_patch(NODES, None, "node-a", label), "changes nothing else")
        all_taints = [{"op": "remove", "path": "/spec/taints"}]
        await refused(agent.json_patch(NODES, None, "node-a", all_taints), "changes nothing else")
        patch = taint.removal(await cell.get(NODES, None, "node-b"))
        await refused(agent.json_patch(NODES, None, "node-b", patch), "off its own Node")
        obstacles = iter([["starting"], []])
        await taint.remove_when_ready(agent, "node-a", lambda: next(obstacles))
        await taint.remove_when_ready(agent, "node-a", list)
    left = [one["key"] for one in (await cell.get(NODES, None, "node-a"))["spec"]["taints"]]
    assert "other" in left
    assert taint.TAINT_KEY not in left
    assert taint.removal(await cell.get(NODES, None, "node-b")) != []


async def test_types_and_objects_outlive_the_charts_and_a_new_installation_takes_them_up(
    installed: Helm, cell: Client, namespace: str
) -> None:
    """T29: uninstalled by mistake, nothing is lost."""
    await attachment(cell, namespace, "kept")
    for chart in reversed(NAMES):
        installed.run("uninstall", chart, "-n", NAMESPACE)
    assert {one["metadata"]["name"] for one in await cell.list(CRDS)} >= {ATTACHMENTS.qualified_name}
    assert (await cell.get(ATTACHMENTS, namespace, "kept"))["status"]["vpc"] == "10"
    with pytest.raises(NotFound):
        await cell.get(CLUSTER_ROLES, None, "netclaim-nso")
    for chart in NAMES:
        install(installed, chart)
    assert await cell.get(CLUSTER_ROLES, None, "netclaim-nso")


async def attachment(cell: Client, namespace: str, name: str) -> None:
    """An attachment with the identity that the VPC controller would have written."""
    spec = {
        "vpc": {"name": "v"},
        "interfaceRef": {"name": name},
        "interface": {"name": "eth0", "mode": "Netns", "mtu": 1460},
    }
    await cell.create(
        VPCS, {"metadata": {"name": f"v-{name}", "namespace": namespace}, "spec": {"networkContextRef": {"name": "v"}}}
    )
    await cell.create(ATTACHMENTS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})
    status = {"vpc": "10", "vpcAttachment": "13", "conditions": []}
    found = {"metadata": {"name": name, "namespace": namespace}, "status": status}
    await cell.apply_status(ATTACHMENTS, found, manager="vpc-controller")


async def facts(agent: Client, namespace: str, node: str, **more: object) -> Raw:
    """What an agent applies to an attachment's status when it claims it, or with no node gives it back."""
    status = {"node": node, "podName": "web-0"} if node else {}
    found = {"metadata": {"name": "web-0-eth0", "namespace": namespace}, "status": {**status, **more}}
    return await agent.apply_status(ATTACHMENTS, found, manager="node-agent")


async def router(agent: Client, name: str, node: str) -> Raw:
    spec = {"targetRef": {"kind": "Node", "name": node}, "srv6Locator": "fd5f:0:0:9::/64", "nextHop": "fd00:aa::9"}
    return await agent.apply(
        BGP_ROUTERS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}, manager="node-agent"
    )


async def advertisement(agent: Client, name: str, router_name: str) -> Raw:
    spec = {
        "routerRef": {"name": router_name},
        "attachmentRef": {"namespace": "shop", "name": "web-0-eth0", "uid": "u"},
        "containerID": "c",
        "addressFamily": {"afi": "l2vpn", "safi": "evpn"},
        "prefixes": [],
        "sids": [],
    }
    return await agent.apply(
        BGP_ADVERTISEMENTS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}, manager="node-agent"
    )


async def in_force(write: Callable[[], Awaitable[object]], message: str) -> None:
    """The write is answered with this refusal, as soon as the API server has heard of the policy."""

    async def is_refused() -> bool:
        await refused(write(), message)
        return True

    await until(is_refused, timeout=60, what=f"refused: {message}", interval=0.3)


async def refused(write: Awaitable[object], message: str) -> None:
    """The write is answered with this refusal."""
    try:
        await write
    except ApiError as error:
        caught = error
    else:
        raise AssertionError(f"not refused: {message}")
    assert message in str(caught)
    assert isinstance(caught, Forbidden), caught
