"""helm as the tests drive it, and what it renders."""

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dev.helm import merged

Raw = dict[str, Any]
ROOT = Path(__file__).resolve().parent.parent.parent
CHARTS = ROOT / "charts"
NAMES = ("crds", "nso", "vpc-controller", "node-agent")
NAMESPACE = "netclaim-system"
REQUIRED = {
    "crds": {},
    "nso": {"location": "us-central-1"},
    "vpc-controller": {"attachmentMode": "Netns"},
    "node-agent": {"underlayInterface": "up0", "srv6LocatorBlock": "fd5f::/32"},
}
"""What each chart has to be told."""

WATCHED: Raw = {
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "rules": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboard": {"enabled": True},
}


@dataclass(frozen=True)
class Helm:
    """The helm binary; with a kubeconfig it works on that cluster."""

    binary: Path
    kubeconfig: Path | None = None
    home: Path = field(default=Path("/nonexistent"))
    """Where helm keeps what it caches: nothing of the user's is read or written."""
    rendered: dict[str, str] = field(default_factory=dict)
    """What was rendered so far, by chart and values."""

    def run(self, *words: str, values: Raw | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run helm with these words; ``values`` are given as a file on stdin."""
        command = [str(self.binary), *words, *(("--values", "-") if values is not None else ())]
        environment = {"PATH": "/usr/bin:/bin", "HELM_CACHE_HOME": str(self.home), "HELM_CONFIG_HOME": str(self.home)}
        environment |= {"HELM_DATA_HOME": str(self.home), "HOME": str(self.home)}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        done = subprocess.run(
            command,
            input=yaml.safe_dump(values) if values is not None else None,
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=300,
        )
        if check and done.returncode:
            raise AssertionError(f"helm {' '.join(words)}: {done.stderr or done.stdout}")
        return done

    def template(self, chart: str, values: Raw | None = None) -> list[Raw]:
        """The objects that a chart makes of its required values and ``values``."""
        given = merged(REQUIRED[chart], values or {})
        key = json.dumps([chart, given])
        if key not in self.rendered:
            self.rendered[key] = self.run("template", chart, str(CHARTS / chart), "-n", NAMESPACE, values=given).stdout
        return [document for document in yaml.load_all(self.rendered[key], Loader=yaml.CSafeLoader) if document]

    def refusal(self, chart: str, values: Raw, *, required: bool = True) -> str:
        """Why a chart does not take values."""
        given = merged(REQUIRED[chart] if required else {}, values)
        done = self.run("template", chart, str(CHARTS / chart), values=given, check=False)
        assert done.returncode != 0, f"{chart} took {given}"
        return done.stderr


def of_kind(objects: list[Raw], kind: str) -> dict[str, Raw]:
    """The objects of a kind by name."""
    return {one["metadata"]["name"]: one for one in objects if one["kind"] == kind}


def pod_templates(objects: list[Raw]) -> dict[str, Raw]:
    """Name of a Deployment or DaemonSet -> the spec of its Pods."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in objects
        if one["kind"] in {"Deployment", "DaemonSet"}
    }


def containers(pod: Raw) -> list[Raw]:
    """Every container of a Pod, those that run first included."""
    return [*pod.get("initContainers", ()), *pod["containers"]]
