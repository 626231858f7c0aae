"""After everything was deleted nothing is left: not in the API, not in IPAM, not in a kernel."""

import asyncio
import re

from netclaim.api import resources
from netclaim.kube.errors import NotFound
from tests.e2e.conftest import Tenant
from tests.e2e.stack import Stack, network, workload
from tests.waiting import until

OURS = (
    resources.NETWORKS,
    resources.NETWORK_CONTEXTS,
    resources.SUBNETS,
    resources.CLAIMS,
    resources.INTERFACES,
    resources.VPCS,
    resources.ATTACHMENTS,
    resources.NADS,
    resources.WORKLOADS,
    resources.INSTANCES,
    resources.PODS,
)


async def kernel_state(stack: Stack, node: str) -> dict[str, list[str]]:
    """What the agent may have left on a node: links, rules, routes of every table, neighbours, nft elements."""
    commands = {
        "links": ["ip", "-o", "link"],
        "rules": ["sh", "-c", "ip -4 rule; ip -6 rule"],
        "routes": ["sh", "-c", "ip -4 route show table all; ip -6 route show table all"],
        "proxies": ["ip", "-6", "neigh", "show", "proxy"],
        "nft": ["nft", "list", "table", "inet", "netclaim"],
    }
    out = {}
    for name, argv in commands.items():
        process = await asyncio.create_subprocess_exec(
            *stack.cluster.node(node).command(argv), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        text = (await process.communicate())[0].decode()
        lines = [
            re.sub(r"packets \d+ bytes \d+|expires \d+\w*|\bveth\w+@?\w*|: <.*", "", line) for line in text.splitlines()
        ]
        out[name] = sorted(line.strip() for line in lines if "veth" not in line and "cni0" not in line)
    return out


async def test_deleting_the_namespace_leaves_nothing_in_the_api_in_ipam_and_in_the_kernels(
    stack: Stack, tenant: Tenant
) -> None:
    """R15, T07: the namespace goes first, with running Pods and retained interfaces in it."""
    before = {node: await kernel_state(stack, node) for node in ("node1", "node2")}
    stack.apply(
        network("default", tenant.namespace),
        workload("web", tenant.namespace, replicas=3, classes=("public-unicast-ipv4",), policy="Retain"),
        workload("api", tenant.namespace, replicas=2),
    )
    await stack.ready(tenant.namespace, "web", 3)
    await stack.ready(tenant.namespace, "api", 2)

    stack.kubectl("delete", "namespace", tenant.namespace, "--timeout=90s")

    for resource in OURS:
        assert not await stack.cell.list(resource, tenant.namespace), resource.kind
    await until(lambda: _nothing_held(stack, tenant), timeout=30, what="nothing held in IPAM")
    await until(lambda: _no_identity(stack, tenant), timeout=60, what="identifiers and advertisements gone")
    for node, state in before.items():

        async def as_before(node: str = node, state: dict[str, list[str]] = state) -> bool:
            now = await kernel_state(stack, node)
            left = {kind: sorted(set(now[kind]) - set(state[kind])) for kind in now}
            assert not any(left.values()), left
            return True

        await until(as_before, timeout=20, what=f"the kernel of {node} as it was before")


async def _nothing_held(stack: Stack, tenant: Tenant) -> bool:
    left = [
        o["metadata"]["name"]
        for r in (resources.IP_CLAIMS, resources.IP_ALLOCATIONS)
        for o in await stack.ipam.list(r, tenant.project)
    ]
    assert not left, left
    return True


async def _no_identity(stack: Stack, tenant: Tenant) -> bool:
    held = [
        i["metadata"]["name"]
        for i in await stack.cell.list(resources.IDENTIFIERS)
        if i["spec"]["holder"].get("namespace") == tenant.namespace
    ]
    advertised = [
        a["metadata"]["name"]
        for a in await stack.cell.list(resources.BGP_ADVERTISEMENTS)
        if a["spec"]["attachmentRef"]["namespace"] == tenant.namespace
    ]
    assert not held + advertised, (held, advertised)
    return True


async def test_deleting_the_network_waits_for_its_interfaces_and_then_frees_its_range(
    stack: Stack, tenant: Tenant
) -> None:
    """Teardown order: interfaces, subnets, context, range; the network stays Terminating while an interface is held."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace))
    await stack.ready(tenant.namespace, "web", 1)

    stack.kubectl("delete", "network", "default", "-n", tenant.namespace, "--wait=false")
    net = await stack.cell.get(resources.NETWORKS, tenant.namespace, "default")
    assert net["metadata"]["deletionTimestamp"]
    assert await stack.instances(tenant.namespace, "web")
    stack.kubectl("delete", "workload", "web", "-n", tenant.namespace, "--timeout=60s")

    async def network_gone() -> bool:
        try:
            await stack.cell.get(resources.NETWORKS, tenant.namespace, "default")
        except NotFound:
            return True
        return False

    await until(network_gone, timeout=60, what="network gone")
    await until(lambda: _nothing_held(stack, tenant), timeout=30, what="nothing held in IPAM")
