"""helm installs the product on two real nodes: images, DaemonSet, Deployments; upgrades under traffic; uninstalls."""

import asyncio
import os
import secrets
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from dev import builds
from dev.cluster import Cluster
from netclaim.api import networking
from netclaim.api.kinds import KINDS
from netclaim.api.meta import Raw
from netclaim.api.resources import CLAIMS, CRDS, INTERFACES, NADS, NAMESPACES, NODES, WORKLOADS, Resource
from tests.conftest import create_project
from tests.e2e.stack import Stack, addresses_of, connected, network, two_nodes, workload
from tests.helm.nodes import Installed
from tests.waiting import until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="nodes need root (network namespaces, containerd)")
long_run = pytest.mark.skipif(
    "NETCLAIM_LONG" not in os.environ, reason="takes two minutes; set NETCLAIM_LONG=1 to run it"
)
pytestmark = needs_root
REPLICAS = int(os.environ.get("NETCLAIM_HELM_REPLICAS", "6"))
EARLIER = os.environ.get("NETCLAIM_UPGRADE_FROM", "")
PATIENCE = 180 + 8 * REPLICAS
"""Seconds for as many Pods to come up, or to go, on a machine with two cores."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes without any program. ``NETCLAIM_HELM_RUN_DIR`` names a running pair to use instead."""
    with two_nodes("NETCLAIM_HELM_RUN_DIR") as cluster:
        yield cluster


@pytest.fixture(scope="module")
async def product(cluster: Cluster) -> AsyncIterator[Installed]:
    async with connected(cluster) as stack:
        yield Installed(stack)


@pytest.fixture
def installed(product: Installed) -> Installed:
    """The charts, installed by the first test that needs them and by the first after one that took them away."""
    product.install()
    return product


@pytest.fixture
def earlier(product: Installed, tmp_path: Path) -> Installed:
    """The product as an earlier commit of the checkout has it, installed by that commit's own command."""
    if product.is_installed:
        product.uninstall()
    product.install_from(EARLIER, tmp_path)
    return product


@pytest.fixture
async def namespace(installed: Installed) -> AsyncIterator[str]:
    """A namespace with a network and the addresses of a project of its own."""
    stack, name = installed.stack, f"shop-{secrets.token_hex(3)}"
    project = name.replace("shop", "project")
    await create_project(stack.ipam, project)
    labels = {networking.PROJECT_LABEL: project}
    await stack.cell.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    stack.apply(network("default", name))
    yield name
    for resource in (WORKLOADS, CLAIMS, INTERFACES) if installed.is_installed else ():
        await emptied(stack, resource, name)
    await stack.cell.delete(NAMESPACES, None, name)
    await stack.ipam.delete(NAMESPACES, None, project)


async def emptied(stack: Stack, resource: Resource, namespace: str) -> None:
    """Delete all of a kind and wait until it is gone."""
    for found in await stack.cell.list(resource, namespace):
        await stack.cell.delete(resource, namespace, found["metadata"]["name"])

    async def gone() -> bool:
        left = [one["metadata"]["name"] for one in await stack.cell.list(resource, namespace)]
        assert not left, left
        return True

    await until(gone, timeout=PATIENCE, what=f"{resource.plural} of {namespace} gone", interval=0.3)


def first_on(instances: dict[str, Raw], node: str) -> str:
    """The first instance on a node."""
    return min(name for name, one in instances.items() if one["status"]["node"] == node)


async def test_a_workload_comes_up_on_nodes_that_the_product_was_installed_on_with_helm(
    installed: Installed, namespace: str
) -> None:
    """R36, R37: DaemonSet and Deployments under the charts' accounts; the kubelet's sandbox calls our plugin."""
    stack = installed.stack
    stack.apply(workload("web", namespace, replicas=2, classes=("public-unicast-ipv4",)))
    instances = await stack.ready(namespace, "web", 2, timeout=180)
    await stack.assert_published_is_held(namespace, namespace.replace("shop", "project"))
    for source, target in (("web-0", "web-1"), ("web-1", "web-0")):
        assert stack.unanswered(namespace, source, addresses_of(instances[target]).values()) == []
    for name, instance in instances.items():
        log = (installed.cluster.run.log / f"multus-{instance['status']['node']}.log").read_text(errors="replace")
        assert f"[verbose] Add: {namespace}:{name}:" in log
    for component in ("ipam", "nso", "vpc-controller", "netclaim-webhook", "node-agent"):
        for pod in (await installed.pods(component)).values():
            assert [one["restartCount"] for one in pod["status"]["containerStatuses"]] == [0], pod["metadata"]["name"]
    for name in installed.cluster.node_names:
        plugin = installed.cluster.node(name).cni_bin_dir / "netclaim-cni"
        assert plugin.read_bytes() == builds.build_cni_binary().read_bytes()
    assert installed.denied() == []


async def test_an_upgrade_of_everything_is_not_felt_by_running_interfaces(installed: Installed, namespace: str) -> None:
    """T29: every Pod of the product is replaced while Pods ping each other, on one node and across the two."""
    installed.tag_images(f"next-{secrets.token_hex(2)}")
    await upgraded_under_pings(installed, namespace)
    assert installed.denied() == []


@pytest.mark.skipif(not EARLIER, reason="builds the images of another commit; NETCLAIM_UPGRADE_FROM=HEAD~1 names it")
async def test_an_upgrade_from_an_earlier_commit_is_not_felt_by_running_interfaces(
    earlier: Installed, namespace: str
) -> None:
    """T29: that commit's charts and images, then this checkout's; NETCLAIM_HELM_REPLICAS says under how many."""
    earlier.import_images("upgraded")
    await upgraded_under_pings(earlier, namespace)


async def upgraded_under_pings(installed: Installed, namespace: str) -> None:
    """Upgrade every release while each node's first Pod pings every interface, and two Pods one neighbour each."""
    stack = installed.stack
    stack.apply(workload("web", namespace, replicas=REPLICAS))
    before = await stack.ready(namespace, "web", REPLICAS, timeout=PATIENCE)
    near, far = first_on(before, "node1"), first_on(before, "node2")
    beside = max(name for name, one in before.items() if one["status"]["node"] == "node1")
    agents = set(await installed.pods("node-agent"))
    everything = [address for one in before.values() for address in addresses_of(one).values()]
    async with (
        installed.pinging(namespace, near, everything) as from_near,
        installed.pinging(namespace, far, everything) as from_far,
        installed.pinging(namespace, far, [addresses_of(before[near])["IPv4"]]) as across,
        installed.pinging(namespace, beside, [addresses_of(before[near])["IPv6"]]) as same_node,
    ):
        await asyncio.to_thread(installed.upgrade)
    away = await installed.away("node-agent")
    after = await stack.ready(namespace, "web", REPLICAS)
    assert not agents & set(await installed.pods("node-agent"))
    assert {name: addresses_of(one) for name, one in after.items()} == {
        name: addresses_of(one) for name, one in before.items()
    }
    print(
        f"\npings while everything was upgraded under {REPLICAS} interfaces: all of them from each node {from_near}, "
        f"{from_far}; one across nodes {across}; one on a node {same_node}; seconds until an agent was ready {away}"
    )
    for pings in (from_near, from_far, across, same_node):
        assert pings.sent > 20, pings
        assert pings.worst <= 1, pings  # one may be late on a machine with two cores
    stack.apply(workload("web", namespace, replicas=REPLICAS + 1))
    await stack.ready(namespace, "web", REPLICAS + 1, timeout=PATIENCE)


@long_run
async def test_a_node_restarts_another_disappears_and_one_that_joins_late_takes_pods(
    installed: Installed, namespace: str
) -> None:
    """T08, T09, T27: a power cut keeps addresses, a deleted Node's go to the other, a new machine of its name joins."""
    stack, cluster = installed.stack, installed.cluster
    stack.apply(workload("web", namespace, replicas=4))
    before = await stack.ready(namespace, "web", 4, timeout=180)
    await asyncio.to_thread(cluster.power_off, "node2")
    await asyncio.to_thread(cluster.power_on, "node2")
    await answer_each_other(stack, namespace, "web")
    after = await stack.ready(namespace, "web", 4, timeout=240)
    assert {name: addresses_of(one) for name, one in after.items()} == {
        name: addresses_of(one) for name, one in before.items()
    }

    await asyncio.to_thread(cluster.power_off, "node2")
    await stack.cell.delete(NODES, None, "node2")

    async def all_on_the_other() -> bool:
        instances = await stack.ready(namespace, "web", 4, timeout=30)
        assert {one["status"]["node"] for one in instances.values()} == {"node1"}
        return True

    await until(all_on_the_other, timeout=300, what="every instance on the node that is left", interval=1)

    shutil.rmtree(cluster.node("node2").folder / "lib")  # another machine: no image, no journal, no CNI plugin
    (cluster.node("node2").cni_bin_dir / "netclaim-cni").unlink()
    await asyncio.to_thread(cluster.power_on, "node2")
    await asyncio.to_thread(installed.give_images)
    await installed.settled("node-agent", 2)
    stack.apply(workload("web", namespace, replicas=8))
    joined = await stack.ready(namespace, "web", 8, timeout=240)
    assert {one["status"]["node"] for one in joined.values()} == {"node1", "node2"}
    for name, one in before.items():
        assert addresses_of(joined[name]) == addresses_of(one)
    await answer_each_other(stack, namespace, "web")


async def answer_each_other(stack: Stack, namespace: str, name: str) -> None:
    """Wait until an instance on each node reaches all of its siblings."""

    async def reached() -> bool:
        instances = await stack.instances(namespace, name)
        for source in (first_on(instances, "node1"), first_on(instances, "node2")):
            for one in instances.values():
                assert stack.unanswered(namespace, source, addresses_of(one).values()) == [], source
        return True

    await until(reached, timeout=240, what=f"instances of {name} reach each other", interval=1)


async def test_uninstalling_leaves_nothing_on_the_nodes_and_no_object_behind(
    installed: Installed, namespace: str
) -> None:
    """T07, T29: objects first, while the programs still release them; then the nodes; then the charts."""
    stack = installed.stack
    stack.apply(workload("web", namespace, replicas=REPLICAS, policy="Retain"))
    await stack.ready(namespace, "web", REPLICAS, timeout=PATIENCE)
    assert all(installed.left_on(node) for node in installed.cluster.node_names)
    await asyncio.to_thread(installed.uninstall)

    async def nothing_left() -> bool:
        kinds = [(client, kind.RESOURCE) for kind in KINDS for client in (stack.cell, stack.ipam)]
        # The IPAM control plane runs no Pods, and Multus' type is not served there.
        left = [
            f"{len(found)} {kind.plural}"
            for client, kind in kinds
            if (client, kind) != (stack.ipam, NADS) and (found := await client.list(kind))
        ]
        assert not left, left
        return True

    await until(nothing_left, timeout=60, what="no object of netclaim left", interval=0.5)
    for node in installed.cluster.node_names:
        assert installed.left_on(node) == []
    assert len(await stack.cell.list(CRDS)) >= len(KINDS)
