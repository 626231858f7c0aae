"""The product's container images, built by a container engine from images/Containerfile, kept in the cache by content.

No registry of images is asked: the base is made of Debian's packages by mmdebstrap (or named with --base), the
dependencies are those of requirements.lock, and the engine is the one that answers, else Debian's dockerd for this run.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from dev import builds, packages
from dev.containers import client, engine_answers
from dev.enginerun import running_engine
from dev.errors import ClusterError
from dev.paths import CHECKOUT, cache_dir
from dev.progress import Display

TARGETS = ("nso", "vpc-controller", "netclaim-webhook", "netclaimctl", "node-agent")
REPOSITORY = "netclaim"
BUILD_TIMEOUT = 600
"""Seconds without a word from the engine: a step of a build is silent until it is done."""
BASE_REFERENCE = "netclaim-base:local"
SUITE = "bookworm"
BASE_PACKAGES = ("base-files", "python3", "libnftables1")
BASE_PYTHON = "3.11"
SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
CODE = ("netclaim", "nso", "vpc_controller", "webhook", "node_agent", "netclaimctl")
CONTAINERFILE = CHECKOUT / "images" / "Containerfile"
LIBRARIES = CHECKOUT / "images" / "libraries.py"
LOCK = CHECKOUT / "requirements.lock"


def build(display: Display, *, tag: str, base: str = "", python: str = BASE_PYTHON) -> Path:
    """Return an archive of all images, `netclaim/<target>:<tag>`, building them when something in them has changed.

    ``base``: reference of a base that the engine has or can pull, whose Python is ``python``; "": one made here.
    Raises ClusterError.
    """
    plugin = builds.build_cni_binary(display)
    key = _key(tag, base, python, plugin.name)
    archive = cache_dir() / "images" / f"netclaim-{key}.tar"
    if archive.exists():
        return archive
    made = None if base else debian_base(display)
    step = "container images"
    display.begin(step)
    with tempfile.TemporaryDirectory(prefix="netclaim-images-") as folder, _engine(display, Path(folder)):
        context = Path(folder) / "context"
        lay_out(context, plugin)
        lay_out_dependencies(context / "dependencies", python, display)
        _build_all(context, made, base or BASE_REFERENCE, tag, archive)
    display.end(step, f"{archive.stat().st_size >> 20} MiB")
    return archive


def lay_out(context: Path, plugin: Path) -> None:
    """Make the folder that the Containerfile copies from, all but the dependencies."""
    (context / "dependencies").mkdir(parents=True)
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc", "shim")
    for name in CODE:
        shutil.copytree(CHECKOUT / name, context / "code" / name, ignore=ignored)
    shutil.copy2(plugin, context / "netclaim-cni")
    shutil.copy2(LIBRARIES, context / LIBRARIES.name)
    shutil.copy2(CONTAINERFILE, context / "Dockerfile")


def _build_all(context: Path, made: Path | None, base: str, tag: str, archive: Path) -> None:
    from docker.errors import APIError, BuildError

    engine = client(timeout=BUILD_TIMEOUT)
    try:
        if made is not None:
            repository, _, name = BASE_REFERENCE.partition(":")
            engine.api.import_image_from_file(str(made), repository=repository, tag=name)
        references = [f"{REPOSITORY}/{target}:{tag}" for target in TARGETS]
        packed = context.with_suffix(".tar")
        _run(["tar", "-C", str(context), "--numeric-owner", "--owner=0", "--group=0", "-cf", str(packed), "."])
        for target, reference in zip(TARGETS, references, strict=True):
            with packed.open("rb") as file:
                engine.images.build(
                    fileobj=file,
                    custom_context=True,
                    target=target,
                    tag=reference,
                    buildargs={"BASE": base},
                    network_mode="host",
                    rm=True,
                )
        partial = archive.with_name(f".{archive.name}.{os.getpid()}")
        partial.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            address = f"{engine.api.base_url}/v{engine.api.api_version}/images/get"
            with engine.api.get(address, params={"names": references}, stream=True, timeout=300) as images:
                images.raise_for_status()
                for chunk in images.iter_content(1 << 20):
                    file.write(chunk)
        partial.rename(archive)
    except BuildError as error:
        said = "".join(str(line.get("stream") or line.get("error") or "") for line in error.build_log)
        raise ClusterError(f"the images cannot be built: {error}\n{said[-2000:]}") from error
    except APIError as error:
        raise ClusterError(f"the container engine refused: {error}") from error
    finally:
        engine.close()


@contextlib.contextmanager
def _engine(display: Display, folder: Path) -> Iterator[None]:
    """An engine that answers for as long as this lasts."""
    if engine_answers():
        yield
        return
    with running_engine(packages.dockerd(display), folder / "engine"):
        yield


def needed_distributions() -> list[str]:
    """What the distribution requires, and so on, without extras; normalized names, sorted.

    What is installed in this environment, which was made of requirements.lock, tells who requires whom.
    """
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    waiting, needed = [Requirement(one) for one in project["dependencies"]], set[str]()
    while waiting:
        requirement = waiting.pop()
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in needed or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        needed.add(name)
        waiting += [Requirement(one) for one in metadata.distribution(name).requires or ()]
    return sorted(needed)


def lay_out_dependencies(folder: Path, python: str, display: Display) -> None:
    """Put the locked dependencies into a folder: those of this environment, or downloaded for another Python."""
    needed = needed_distributions()
    if python == f"{sys.version_info.major}.{sys.version_info.minor}":
        for name in needed:
            _copy_distribution(metadata.distribution(name), folder)
        return
    step = f"locked dependencies for Python {python}"
    display.begin(step)
    entries = re.split(r"^(?=[a-z0-9])", LOCK.read_text(), flags=re.MULTILINE)
    chosen = [
        one for one in entries if re.sub(r"[-_.]+", "-", re.split(r"[=\[ ]", one, maxsplit=1)[0]).lower() in needed
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(chosen))
        file.flush()
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--no-compile", "--require-hashes", "--only-binary=:all:", "--python-version", python]
        _run([*command, "--target", str(folder), "-r", file.name])
    shutil.rmtree(folder / "bin", ignore_errors=True)
    display.end(step)


def _copy_distribution(distribution: metadata.Distribution, folder: Path) -> None:
    """Copy what a distribution installed, with what was compiled of it; commands stay behind."""
    for file in distribution.files or ():
        source, target = Path(str(file.locate())), folder / file
        if ".." in file.parts or not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


def debian_base(display: Display) -> Path:
    """Return an archive of a file system with Debian's Python and nothing that runs besides, in the cache.

    Only unpacked, not configured: no package manager, no shell. Python's own library is compiled here.
    """
    key = hashlib.sha256(f"{SUITE} {BASE_PACKAGES} 1".encode()).hexdigest()[:16]
    archive = cache_dir() / "images" / f"base-{key}.tar"
    if archive.exists():
        return archive
    if shutil.which("mmdebstrap") is None:
        packages.install(["mmdebstrap"], display)
    sources = next((str(file) for file in SOURCES if file.exists()), None)
    if sources is None:
        raise ClusterError("the images' base is made of Debian's packages, and this machine names no source of them")
    step = f"base of the images from Debian {SUITE}"
    display.begin(step)
    partial = archive.with_name(f".{archive.name}.{os.getpid()}")
    partial.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="netclaim-base-") as folder:
        root = Path(folder) / "root"
        include = f"--include={','.join(BASE_PACKAGES)}"
        _run(["mmdebstrap", "--quiet", "--variant=extract", include, SUITE, str(root), sources])
        _slim(root)
        _run(["chroot", str(root), "/usr/bin/python3", "-m", "compileall", "-q", f"/usr/lib/python{BASE_PYTHON}"])
        _run(["tar", "-C", str(root), "--numeric-owner", "-cf", str(partial), "."])
    partial.rename(archive)
    display.end(step, f"{archive.stat().st_size >> 20} MiB")
    return archive


def _slim(root: Path) -> None:
    """Leave out what nobody reads in a container, and make the folders that its runtime mounts something on."""
    for left in ("usr/share/doc", "usr/share/man", "usr/share/locale", "var/lib/apt", "var/cache", "var/lib/dpkg"):
        shutil.rmtree(root / left, ignore_errors=True)
    for folder in ("proc", "sys", "dev", "run", "tmp", "etc"):
        (root / folder).mkdir(exist_ok=True)
    (root / "tmp").chmod(0o1777)
    run = root / "var" / "run"
    if run.is_dir() and not run.is_symlink():
        shutil.rmtree(run)
    run.symlink_to("../run")


def _key(tag: str, base: str, python: str, plugin: str) -> str:
    """16 hex digits over everything that is in the images."""
    digest = hashlib.sha256("\n".join((tag, base, python, plugin, str(BASE_PACKAGES))).encode())
    files = [CONTAINERFILE, LIBRARIES, LOCK]
    files += [file for name in CODE for file in sorted((CHECKOUT / name).rglob("*.py"))]
    for file in files:
        digest.update(f"{file.relative_to(CHECKOUT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]


def _run(command: list[str]) -> None:
    began = time.monotonic()
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-1500:]
        raise ClusterError(f"{' '.join(command[:6])} ... failed after {time.monotonic() - began:.0f} s:\n{said}")
