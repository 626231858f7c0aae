"""The nodes of a cluster: the network between them, and what each is started with.

The nodes' links live in namespaces of the run: a hub with a bridge, and one namespace per node whose `up0` is a port of
that bridge. There is no link, route, rule or sysctl of the machine's own network, and no way from a node to its uplink.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from dev.certificates import write_private
from dev.controlplane import API_ADDRESS, SERVICE_RANGE, Plane
from dev.errors import ClusterError
from dev.isolation import add_netns, netns_path
from dev.node import UNDERLAY_DEVICE, Node
from dev.packages import CNI_PLUGINS
from dev.processes import Child

UNDERLAY_MTU = 9000
"""Room for the network MTU of 1500 and the outer header of a packet between nodes."""
PODS_MTU = 1500
KUBELET_PORT = 10250
BRIDGE = "br0"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
MULTUS_GROUP = "netclaim-dev:multus"
SYSCTLS = {"net.ipv4.ip_forward": 1, "net.ipv6.conf.all.forwarding": 1}
PLUGINS = (
    "bridge",
    "host-device",
    "host-local",
    "ipvlan",
    "loopback",
    "macvlan",
    "portmap",
    "ptp",
    "static",
    "tuning",
    "vlan",
)


def make_hub(hub: str) -> None:
    """Make the namespace with the bridge between the nodes."""
    add_netns(hub)
    _ip(hub, ["link set lo up", f"link add {BRIDGE} mtu {UNDERLAY_MTU} type bridge", f"link set {BRIDGE} up"])


def make_network(node: Node, others: Sequence[Node]) -> None:
    """Make a node's namespace, its underlay, and the cluster network's routes to the other nodes."""
    hub, netns = node.state.hub, node.netns.name
    add_netns(netns)
    for name, value in SYSCTLS.items():
        subprocess.run(["ip", "netns", "exec", netns, "sysctl", "-qw", f"{name}={value}"], check=True)
    peer = f"{UNDERLAY_DEVICE} mtu {UNDERLAY_MTU} address {node.underlay_mac} netns {netns}"
    veth = f"link add {node.name} mtu {UNDERLAY_MTU} type veth peer name {peer}"
    _ip(hub, [veth, f"link set {node.name} master {BRIDGE} up"])
    setup = [
        "link set lo up",
        f"link set {UNDERLAY_DEVICE} up",
        f"addr add {node.underlay_address}/64 dev {UNDERLAY_DEVICE} nodad",
        f"addr add {node.ipv4}/24 dev {UNDERLAY_DEVICE}",
        f"addr add {API_ADDRESS}/32 dev lo",
    ]
    _ip(netns, [*setup, *(f"route add {other.pod_range} via {other.ipv4}" for other in others)])


def cut_network(node: Node) -> None:
    """Take away a node's link at once: left to the end of its namespace, it goes when the kernel finds the time."""
    subprocess.run(["ip", "-n", node.state.hub, "link", "del", node.name], check=False, capture_output=True)


def _ip(netns: str, commands: Sequence[str]) -> None:
    batch = "".join(f"{command}\n" for command in commands)
    done = subprocess.run(["ip", "-n", netns, "-batch", "-"], input=batch, text=True, check=False, capture_output=True)
    if done.returncode:
        raise ClusterError(f"the network of {netns} cannot be made: {done.stderr.strip()}")


def prepare(node: Node, plane: Plane, binaries: Mapping[str, Path]) -> None:
    """Write everything a node is started with: credentials, configuration, and its CNI plugins."""
    authority = plane.authority
    conf = node.folder / "conf"
    for folder in (conf, node.state_dir, node.cni_bin_dir, node.cni_conf_dir / "multus.d"):
        folder.mkdir(parents=True, exist_ok=True)
    kubelet = authority.issue(f"system:node:{node.name}", ["system:nodes"], dns=[node.name], ips=[node.ipv4])
    kubelet.write(conf, "kubelet")
    (conf / "ca.crt").write_bytes(authority.bundle.read_bytes())
    accounts = {
        conf / "kubelet.kubeconfig": kubelet,
        node.cni_conf_dir / "multus.d" / "multus.kubeconfig": authority.issue(f"multus-{node.name}", [MULTUS_GROUP]),
    }
    for path, identity in accounts.items():
        write_private(path, authority.kubeconfig(plane.server, identity).encode())
    (conf / "kubelet.yaml").write_text(yaml.safe_dump(kubelet_configuration(node), sort_keys=False))
    (conf / "containerd.toml").write_text(containerd_configuration(_snapshotter(node.folder)))
    conflist = json.dumps(cni_configuration(node), indent=2) + "\n"
    (node.cni_conf_dir / "00-multus.conflist").write_text(conflist)
    for plugin in PLUGINS:
        _link(node.cni_bin_dir / plugin, CNI_PLUGINS / plugin)
    _link(node.cni_bin_dir / "multus", binaries["multus"])


def _link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def _snapshotter(folder: Path) -> str:
    """An overlay cannot lie on another one, as the root of a container does; copying works everywhere."""
    kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()
    return "native" if kind == "overlayfs" else "overlayfs"


def kubelet_configuration(node: Node) -> dict[str, object]:
    """Return the KubeletConfiguration of a node; all paths are inside the node."""
    conf = node.folder / "conf"
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.state.cgroup(node.name)}",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "address": "0.0.0.0",
        "port": KUBELET_PORT,
        "tlsCertFile": str(conf / "kubelet.crt"),
        "tlsPrivateKeyFile": str(conf / "kubelet.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(conf / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "resolvConf": "",
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
        "kubeAPIQPS": 100,
        "kubeAPIBurst": 200,
        "maxPods": 250,
        "serializeImagePulls": False,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
    }


def containerd_configuration(snapshotter: str) -> str:
    """Return containerd's configuration file (version 2, which 1.6 and 2.x read); paths are inside the node.

    Without restrict_oom_score_adj and without CAP_SYS_RESOURCE, runc dies on every sandbox's negative oom_score_adj.
    """
    return f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true
  sandbox_image = "node.local/pause:1"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
    max_conf_num = 1
"""


def cni_configuration(node: Node) -> dict[str, object]:
    """Return the conflist that containerd runs: Multus, with a routed cluster network as every Pod's default."""
    ranges = [[{"subnet": node.pod_range}]]
    ipam = {"type": "host-local", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]}
    cluster = {
        "cniVersion": "1.0.0",
        "name": "cluster",
        "plugins": [{"type": "ptp", "ipMasq": False, "mtu": PODS_MTU, "ipam": ipam}],
    }
    multus = {
        "type": "multus",
        "kubeconfig": "/etc/cni/net.d/multus.d/multus.kubeconfig",
        "confDir": "/etc/cni/net.d",
        "binDir": "/opt/cni/bin",
        "cniDir": "/var/lib/cni/multus",
        "logFile": str(node.run.log / f"multus-{node.name}.log"),
        "logLevel": "debug",
        "logToStderr": False,
        "delegates": [cluster],
    }
    return {"cniVersion": "1.0.0", "name": "multus-cni-network", "plugins": [multus]}


def relay(node: Node, ports: Sequence[int]) -> Child:
    """Return the process that brings the API servers to a node."""
    name = f"relay-{node.name}"
    argv = [sys.executable, "-m", "dev.relay", "api", str(node.netns), *map(str, ports)]
    return Child(name, argv, node.run.log / f"{name}.log")


def egress(socket: Path, nodes: Sequence[Node], log: Path) -> Child:
    """Return the process through which the cell's API server reaches the nodes; the first one serves Services."""
    routes = {f"{node.ipv4}/32": str(node.netns) for node in nodes}
    routes |= {node.pod_range: str(node.netns) for node in nodes}
    routes[SERVICE_RANGE] = str(netns_path(nodes[0].state.netns(nodes[0].name)))
    argv = [sys.executable, "-m", "dev.relay", "egress", str(socket), json.dumps(routes)]
    return Child("egress", argv, log / "egress.log")


def first_process(node: Node, binaries: Mapping[str, Path], images: Sequence[Path]) -> Child:
    """Return the process that becomes the node: everything in it is a descendant, in process and mount namespaces."""
    request = {
        "name": node.name,
        "folder": str(node.folder),
        "log": str(node.run.log),
        "cgroup": node.state.cgroup(node.name),
        "ip": node.ipv4,
        "kubelet": str(binaries["kubelet"]),
        "images": [str(image) for image in images],
    }
    enter = ["nsenter", f"--net={node.netns}", "unshare", "--pid", "--fork", "--kill-child=KILL", "--mount", "--uts"]
    argv = [*enter, "--propagation", "private", sys.executable, "-m", "dev.nodeinit", json.dumps(request)]
    return Child(node.name, argv, node.run.log / f"{node.name}.log")
