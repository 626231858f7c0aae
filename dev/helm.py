"""The product installed on a local cluster with helm: images, charts, and the accounts between the control planes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dev import builds, imagebuild
from dev.accounts import CHARTS, VALID_FOR, token_kubeconfig
from dev.certificates import Authority
from dev.cluster import Cluster
from dev.controlplane import API_ADDRESS
from dev.errors import ClusterError
from dev.node import LOCATOR_BLOCK, UNDERLAY_DEVICE
from dev.paths import CHECKOUT
from dev.programs import LOCATION, SYSTEM_NAMESPACE
from dev.progress import Display

Say = Callable[[str], None]
TAG = "0.1.0"
ROLLOUT = "180s"
COMPONENTS = ("deployment/ipam", "deployment/nso", "deployment/vpc-controller", "deployment/netclaim-webhook")
AGENT_CHART = "node-agent"
AGENT = f"daemonset/{AGENT_CHART}"
IN_NAMESPACE = ("--namespace", SYSTEM_NAMESPACE)
REMOVAL = ("--set", "removal.enabled=true")


@dataclass(frozen=True, slots=True)
class Helm:
    """helm on one control plane of a cluster."""

    binary: Path
    kubeconfig: Path
    home: Path

    def run(self, *words: str, values: Mapping[str, Any] | None = None, timeout: float = 300.0) -> str:
        """Run helm with these words and return what it says; raises ClusterError with its complaint."""
        home = {f"HELM_{name}_HOME": str(self.home) for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(self.binary), *words, *(("--values", "-") if values is not None else ())],
            input=yaml.safe_dump(dict(values)) if values is not None else None,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=os.environ | home | {"KUBECONFIG": str(self.kubeconfig)},
        )
        if done.returncode != 0:
            raise ClusterError(f"helm {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def apply(self, release: str, chart: str | Path, values: Mapping[str, Any]) -> str:
        """Install a chart of the checkout (or a folder), or upgrade the release that there is."""
        path = chart if isinstance(chart, Path) else CHARTS / chart
        where = ("--namespace", SYSTEM_NAMESPACE, "--create-namespace")
        return self.run("upgrade", "--install", release, str(path), *where, values=values)

    def uninstall(self, release: str) -> str:
        """Take a release away and wait until its objects are gone."""
        return self.run("uninstall", release, "--namespace", SYSTEM_NAMESPACE, "--wait", "--timeout", ROLLOUT)


def helm(cluster: Cluster, display: Display, plane: str = "cell") -> Helm:
    """helm for one control plane of the cluster, built when it is missing."""
    binary = builds.ensure([builds.helm()], display)["helm"]
    return Helm(binary, cluster.run.kubeconfig(plane), cluster.run.root / "helm")


def install(
    cluster: Cluster, display: Display, say: Say, *, tag: str = TAG, overrides: Mapping[str, Any] | None = None
) -> None:
    """Build the images, give them to the nodes, install every chart, and return when all of it is ready.

    ``overrides``: values by release, laid over those of the local cluster. Raises ClusterError.
    """
    archive = imagebuild.build(display, tag=tag)
    say(f"importing the images into containerd on {', '.join(cluster.node_names)}")
    import_images(cluster, archive)
    apply_charts(cluster, display, say, tag=tag, overrides=overrides)


def apply_charts(
    cluster: Cluster, display: Display, say: Say, *, tag: str, overrides: Mapping[str, Any] | None = None
) -> None:
    """Install every chart, or upgrade what is installed, to images of a tag; returns when all of it is ready.

    The order is that of the documentation: types, IPAM, the cell's controllers, webhook, agents. Raises ClusterError.
    """
    cell, ipam = helm(cluster, display), helm(cluster, display, "ipam")
    for plane in (cell, ipam):
        say(f"helm install crds ({plane.kubeconfig.stem})")
        plane.apply("crds", "crds", {})
    say("helm install nso: accounts in the IPAM control plane")
    ipam.apply("nso", "nso", {"controllers": ["ipam"], "deployment": {"enabled": False}, "cells": [LOCATION]})
    _give_kubeconfig(cluster, "nso", "ipam-controllers")
    _give_kubeconfig(cluster, f"nso-cell-{LOCATION}", "ipam-client")
    for release, (chart, given) in releases(cluster, tag).items():
        say(f"helm install {release}")
        cell.apply(release, chart, merged(given, (overrides or {}).get(release, {})))
    say("waiting for the programs")
    wait(cluster)


def uninstall(cluster: Cluster, display: Display, say: Say) -> None:
    """Take the product off the cluster again, as the documentation tells an operator to. Raises ClusterError."""
    cell, ipam = helm(cluster, display), helm(cluster, display, "ipam")
    say("netclaimctl uninstall --ipam")
    _delete_objects(cluster)
    say("helm upgrade node-agent --set removal.enabled=true")
    cell.run("upgrade", "node-agent", str(CHARTS / AGENT_CHART), *IN_NAMESPACE, "--reset-then-reuse-values", *REMOVAL)
    wait(cluster, (AGENT,))
    for release in (AGENT_CHART, "vpc-controller", "nso", "ipam", "crds"):
        say(f"helm uninstall {release}")
        cell.uninstall(release)
    for release in ("nso", "crds"):
        ipam.uninstall(release)
    # The agents told their routers until they ended.
    _delete_objects(cluster)


def _delete_objects(cluster: Cluster) -> None:
    planes = ("--kubeconfig", str(cluster.cell_kubeconfig), "--ipam-kubeconfig", str(cluster.ipam_kubeconfig))
    words = [sys.executable, "-m", "netclaimctl", "uninstall", "--yes", "--ipam", *planes]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    if done.returncode != 0:
        raise ClusterError(f"netclaimctl uninstall: {done.stdout}{done.stderr}")


def releases(cluster: Cluster, tag: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Release -> its chart and what the local cluster tells it."""
    service = {"host": API_ADDRESS, "port": cluster.state.api_ports["cell"]}
    image = {"tag": tag, "pullPolicy": "Never"}
    common = {"kubernetesService": service, "image": image}
    return {
        "ipam": (
            "nso",
            common
            | {
                "fullnameOverride": "ipam",
                "controllers": ["ipam"],
                "kubeconfigSecret": {"name": "ipam-controllers"},
                "replicas": 1,
                "extraArgs": ["--pool-linger=1", "--orphan-grace=15"],
            },
        ),
        "nso": (
            "nso",
            common
            | {
                "controllers": ["networks", "claims", "compute"],
                "location": LOCATION,
                "ipamKubeconfigSecret": {"name": "ipam-client"},
                "replicas": 1,
            },
        ),
        "vpc-controller": (
            "vpc-controller",
            common | {"attachmentMode": "Netns", "replicas": 1, "webhook": {"image": image}},
        ),
        "node-agent": (
            "node-agent",
            common | {"underlayInterface": UNDERLAY_DEVICE, "srv6LocatorBlock": LOCATOR_BLOCK},
        ),
    }


def wait(cluster: Cluster, what: tuple[str, ...] = (*COMPONENTS, AGENT)) -> None:
    """Return when these are rolled out; raises ClusterError with what their Pods say."""
    for name in what:
        try:
            cluster.kubectl(
                "-n",
                SYSTEM_NAMESPACE,
                "rollout",
                "status",
                name,
                "--timeout",
                ROLLOUT,
                timeout=float(ROLLOUT[:-1]) + 30,
            )
        except ClusterError as error:
            pods = cluster.kubectl("-n", SYSTEM_NAMESPACE, "get", "pods", "-o", "wide")
            events = cluster.kubectl("-n", SYSTEM_NAMESPACE, "get", "events", "--sort-by=.lastTimestamp")
            raise ClusterError(f"{error}\n{pods}\n{events[-4000:]}") from error


def import_images(cluster: Cluster, archive: Path) -> None:
    """Give an archive of images to every node's containerd. Raises ClusterError."""

    def on(name: str) -> None:
        words = cluster.node(name).command(["ctr", "--namespace", "k8s.io", "images", "import", str(archive)])
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"{name} does not take {archive}: {done.stderr.strip()[-500:]}")

    with ThreadPoolExecutor() as threads:
        list(threads.map(on, cluster.node_names))


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Values with others laid over them, maps joined."""
    joined = dict(base)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(joined.get(key), Mapping)
        joined[key] = merged(joined[key], value) if both else value
    return joined


def _give_kubeconfig(cluster: Cluster, account: str, secret: str) -> None:
    """Put a kubeconfig of an account of the IPAM control plane into a Secret of the cell, as an operator would."""
    token = cluster.kubectl(
        "create", "token", account, "-n", SYSTEM_NAMESPACE, "--duration", VALID_FOR, plane="ipam"
    ).strip()
    server = f"https://{API_ADDRESS}:{cluster.state.api_ports['ipam']}"
    document = json.dumps(token_kubeconfig(Authority.load(cluster.run.pki("ipam")), server, token))
    made = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret, "namespace": SYSTEM_NAMESPACE},
        "stringData": {"kubeconfig": document},
    }
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(made))
