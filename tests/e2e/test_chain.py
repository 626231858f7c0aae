"""From a Workload to a ping, through two API servers, two kubelets, Multus, the CNI binary and the kernel."""

import json

from netclaim.api.resources import PODS
from tests.e2e.conftest import Tenant
from tests.e2e.stack import Stack, addresses_of, network, workload


async def _nodes(stack: Stack, namespace: str) -> dict[str, str]:
    return {p["metadata"]["name"]: p["spec"]["nodeName"] for p in await stack.cell.list(PODS, namespace)}


async def test_replicas_on_two_nodes_get_addresses_and_answer_each_others_pings_in_both_families(
    stack: Stack, tenant: Tenant
) -> None:
    """R1, R4, R7, R11, R31, R37: dual stack plus an external class, on one node and across nodes."""
    stack.apply(
        network("default", tenant.namespace),
        workload("web", tenant.namespace, replicas=4, classes=("public-unicast-ipv4",), policy="Retain"),
    )
    instances = await stack.ready(tenant.namespace, "web", 4)

    nodes = await _nodes(stack, tenant.namespace)
    assert set(nodes.values()) == {"node1", "node2"}, nodes
    everything = {address: name for name, i in instances.items() for address in addresses_of(i).values()}
    for source in instances:
        lost = stack.unanswered(tenant.namespace, source, everything)
        assert not lost, f"{source} on {nodes[source]} -> {[(a, everything[a], nodes[everything[a]]) for a in lost]}"
    for instance in instances.values():
        assignments = instance["status"]["networkInterfaces"][0]["assignments"]
        assert assignments["networkIP"] == addresses_of(instance)["IPv6"]
        assert assignments["externalIP"].startswith("198.51.100.")
    await stack.assert_published_is_held(tenant.namespace, tenant.project)


async def test_kubectl_get_instances_prints_the_address_of_every_instance(stack: Stack, tenant: Tenant) -> None:
    """R4: Network IP and External IP are columns, and never blank once the instance is Ready."""
    stack.apply(
        network("default", tenant.namespace),
        workload("web", tenant.namespace, replicas=2, classes=("public-unicast-ipv4",)),
    )
    instances = await stack.ready(tenant.namespace, "web", 2)

    table = stack.kubectl("get", "instances", "-n", tenant.namespace).splitlines()
    assert table[0].split("  ")[0].strip() == "NAME"
    for name in ("AGE", "READY", "REASON", "NETWORK IP", "EXTERNAL IP"):
        assert name in table[0]
    for line in table[1:]:
        name = line.split()[0]
        assert addresses_of(instances[name])["IPv6"] in line
        assert "198.51.100." in line


async def test_two_networks_with_the_same_addresses_never_hear_each_other(stack: Stack, tenant: Tenant) -> None:
    """Isolation 2: the twin with the same IPv4 address hears nothing; one that only the other network has is away."""
    stack.apply(
        network("default", tenant.namespace),
        network("isolated", tenant.namespace),
        workload("web", tenant.namespace, replicas=2, families=("IPv4",)),
        workload("twin", tenant.namespace, replicas=3, network="isolated", families=("IPv4",)),
    )
    web = await stack.ready(tenant.namespace, "web", 2)
    twin = await stack.ready(tenant.namespace, "twin", 3)
    web_at = {addresses_of(i)["IPv4"]: name for name, i in web.items()}
    twin_at = {addresses_of(i)["IPv4"]: name for name, i in twin.items()}
    shared = addresses_of(web["web-1"])["IPv4"]
    assert shared in twin_at, f"{web_at} {twin_at}"
    only_twin = next(address for address in twin_at if address not in web_at)

    before_web, before_twin = (
        stack.received(tenant.namespace, web_at[shared]),
        stack.received(tenant.namespace, twin_at[shared]),
    )
    assert stack.pings(tenant.namespace, "web-0", shared, count=5)
    assert stack.received(tenant.namespace, web_at[shared]) - before_web >= 5
    assert stack.received(tenant.namespace, twin_at[shared]) == before_twin
    assert not stack.pings(tenant.namespace, "web-0", only_twin, count=2)
    neighbour = next(name for address, name in twin_at.items() if address != only_twin)
    assert stack.pings(tenant.namespace, neighbour, only_twin)


async def test_two_projects_with_the_same_class_names_get_separate_address_space(
    stack: Stack, tenant: Tenant, other_tenant: Tenant
) -> None:
    """R13, R14: identical manifests in two projects; each publishes what IPAM holds for it, in pools of its own."""
    for each in (tenant, other_tenant):
        stack.apply(
            network("default", each.namespace),
            workload("web", each.namespace, replicas=2, classes=("public-unicast-ipv4",)),
        )
    for each in (tenant, other_tenant):
        await stack.ready(each.namespace, "web", 2)
        await stack.assert_published_is_held(each.namespace, each.project)

    mine, theirs = [
        {a for entry in (await stack.published(each.namespace)).values() for a in entry.values()}
        for each in (tenant, other_tenant)
    ]
    assert not mine & theirs
    assert all(a.startswith(("fd20:1000:", "10.128.", "198.51.100.")) for a in mine), mine
    assert all(a.startswith(("fd20:2000:", "10.129.", "203.0.113.")) for a in theirs), theirs


async def test_full_size_packets_cross_the_nodes_and_the_pod_has_the_networks_mtu(stack: Stack, tenant: Tenant) -> None:
    """Isolation 1: MTU 1460 end to end, without fragmentation, in both families."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, replicas=4))
    instances = await stack.ready(tenant.namespace, "web", 4)
    nodes = await _nodes(stack, tenant.namespace)
    target = next(name for name in instances if nodes[name] != nodes["web-0"])

    assert stack.execute(tenant.namespace, "web-0", "/bin/cat", "/sys/class/net/eth0/mtu").strip() == "1460"
    for family, headers in (("IPv4", 28), ("IPv6", 48)):
        report = stack.execute(
            tenant.namespace,
            "web-0",
            "/bin/busybox",
            "ping",
            "-c",
            "2",
            "-W",
            "2",
            "-s",
            str(1460 - headers),
            addresses_of(instances[target])[family],
            check=False,
        )
        assert "2 packets received" in report, report


async def test_the_pod_is_attached_by_annotation_and_has_no_foot_in_the_cluster_network(
    stack: Stack, tenant: Tenant
) -> None:
    """R29: eth0 is the tenant's; the injection is recorded on the Pod; Multus reports the interface it made."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace))
    instances = await stack.ready(tenant.namespace, "web", 1)

    pod = await stack.cell.get(PODS, tenant.namespace, "web-0")
    annotations = pod["metadata"]["annotations"]
    assert annotations["v1.multus-cni.io/default-network"] == f"{tenant.namespace}/web-0-eth0"
    assert "web-0-eth0" in annotations["networking.datumapis.com/injected-interfaces"]
    reported = json.loads(annotations["k8s.v1.cni.cncf.io/network-status"])
    assert [entry["interface"] for entry in reported if entry.get("default")] == ["eth0"]
    links = stack.execute(tenant.namespace, "web-0", "/bin/ls", "/sys/class/net").split()
    assert sorted(links) == ["eth0", "lo"]
    assert {ip["ip"] for ip in pod["status"]["podIPs"]} == set(addresses_of(instances["web-0"]).values())
