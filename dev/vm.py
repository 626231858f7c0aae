"""Virtual machines for the tests: Debian's cloud kernel and a root of this machine's own programs, under QEMU.

The machines are emulated (TCG) and never accelerated, so that they do the same wherever the tests run. The kernel's
package is only unpacked, in the cache; roots are archives in the cache, keyed by what they are made of.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dev import initramfs
from dev.errors import ClusterError
from dev.initramfs import Initramfs
from dev.packages import BUSYBOX, SEARCHED, install
from dev.paths import CHECKOUT, cache_dir
from dev.progress import Display

QEMU: Final = "qemu-system-x86_64"
KERNEL_PACKAGE: Final = "linux-image-cloud-amd64"
ARCHITECTURE: Final = "x86_64"
SITE_PACKAGES: Final = (
    "_pytest",
    "iniconfig",
    "packaging",
    "pluggy",
    "pygments",
    "pyroute2",
    "pytest",
    "pytest_asyncio",
)
SITE_MODULES: Final = ("nftables.py", "py.py", "typing_extensions.py")
NOT_OF_PYTHON: Final = frozenset(
    {"test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "pydoc_data", "site-packages", "distutils"}
)


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel package: its ``release``, the bootable ``image``, and the folder of its ``modules``."""

    release: str
    image: Path
    modules: Path

    def module_files(self, names: Iterable[str]) -> list[Path]:
        """The files of modules and of all that they need. Raises ClusterError for one that the kernel does not have."""
        needs = {}
        for line in (self.modules / "modules.dep").read_text().splitlines():
            file, _, others = line.partition(":")
            needs[Path(file).name.removesuffix(".ko").replace("-", "_")] = [file, *others.split()]
        found: dict[str, None] = {}
        for name in names:
            if name not in needs:
                raise ClusterError(f"the kernel {self.release} has no module {name}")
            found |= dict.fromkeys(needs[name])
        return [self.modules / file for file in found]


def obstacle() -> str:
    """Why no virtual machine can run here, "" when one can."""
    if platform.machine() != ARCHITECTURE:
        return f"its kernel and emulator are for {ARCHITECTURE}, this machine is {platform.machine()}"
    if os.geteuid() != 0:
        return "needs root (network namespaces, taps)"
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return f"needs apt-get and dpkg-deb, for Debian's {KERNEL_PACKAGE}"
    return ""


def ensure(display: Display) -> Kernel:
    """Install QEMU where it is missing and return the kernel. Raises ClusterError when Debian cannot be reached."""
    if shutil.which(QEMU, path=SEARCHED) is None:
        install(["qemu-system-x86"], display)
    with _lock():
        return _unpacked() or _download(display)


def _unpacked() -> Kernel | None:
    for image in sorted((cache_dir() / "vm").glob("kernel-*/boot/vmlinuz-*"), reverse=True):
        release = image.name.removeprefix("vmlinuz-")
        return Kernel(release, image, image.parent.parent / "lib" / "modules" / release)
    return None


def _download(display: Display) -> Kernel:
    step = f"Debian package {KERNEL_PACKAGE}, unpacked"
    display.begin(step)
    partial = cache_dir() / "vm" / f".kernel.{os.getpid()}"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        _run(["apt-get", "update"], partial)
        depends = _run(["apt-cache", "depends", KERNEL_PACKAGE], partial)
        package = next(line.split()[1] for line in depends.splitlines() if "Depends: linux-image-" in line)
        _run(["apt-get", "download", package], partial)
        (archive,) = partial.glob("*.deb")
        _run(["dpkg-deb", "-x", archive.name, "."], partial)
        release = next((partial / "lib" / "modules").iterdir()).name
        _run(["depmod", "-b", str(partial), release], partial)
        archive.unlink()
        # The archive's name holds package and version: another kernel is another folder.
        partial.rename(cache_dir() / "vm" / f"kernel-{archive.stem}")
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    display.end(step)
    found = _unpacked()
    if found is None:
        raise ClusterError(f"the package {KERNEL_PACKAGE} holds no kernel")
    return found


def bare_root(kernel: Kernel, init: str, modules: Sequence[str]) -> Initramfs:
    """A root with busybox, some modules and a script as its first process."""
    root = Initramfs()
    for place in ("dev", "proc", "sys", "run", "tmp", "etc"):
        root.folder(place)
    root.copy(BUSYBOX, "/bin/busybox")
    for applet in _run([str(BUSYBOX), "--list"], CHECKOUT).split():
        if applet != BUSYBOX.name:
            root.link(f"/bin/{applet}", BUSYBOX.name)
    root.link("/sbin", "bin")
    base = f"/lib/modules/{kernel.release}"
    for file in kernel.module_files(modules):
        root.copy(file, f"{base}/{file.relative_to(kernel.modules)}")
    for table in ("modules.dep", "modules.alias", "modules.symbols", "modules.builtin"):
        if (kernel.modules / table).exists():
            root.copy(kernel.modules / table, f"{base}/{table}")
    root.file("/init", f"#!/bin/busybox sh\nexport PATH=/bin\n{init}", mode=0o755)
    return root


def python_root(kernel: Kernel, init: str, modules: Sequence[str], programs: Sequence[str]) -> Path:
    """A root that has this Python too, what tests import, and some programs; an archive in the cache."""
    digest = hashlib.sha256(f"{kernel.image}\n{init}\n{sys.version}\n{modules}\n".encode())
    chosen = {name: shutil.which(name, path=SEARCHED) for name in programs}
    for name, path in chosen.items():
        if path is None:
            raise ClusterError(f"the program {name} is not on this machine")
        digest.update(Path(path).read_bytes())
    for source in (CHECKOUT / "requirements.lock", Path(__file__), Path(initramfs.__file__)):
        digest.update(source.read_bytes())
    archive = cache_dir() / "vm" / f"root-{digest.hexdigest()[:16]}.cpio"
    if archive.exists():
        return archive
    root = bare_root(kernel, init, modules)
    for path in chosen.values():
        root.program(Path(path or ""), f"/bin/{Path(path or '').name}")
    _add_python(root)
    with _lock():
        root.write(archive)
    return archive


def _add_python(root: Initramfs) -> None:
    executable = Path(sys.executable).resolve()
    root.program(executable)
    root.link("/bin/python", str(executable))
    for library in Path("/usr/lib").glob("*/libnftables.so.1"):
        root.program(library)
    standard = Path(sysconfig.get_path("stdlib"))
    for file in sorted(standard.rglob("*")):
        parts = file.relative_to(standard).parts
        if file.is_file() and parts[0] not in NOT_OF_PYTHON and not parts[0].startswith("config-"):
            _add_module(root, file)
    site = Path(sysconfig.get_path("purelib"))
    target = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix})) / "site-packages"
    for name in SITE_PACKAGES:
        for file in sorted((site / name).rglob("*")):
            if file.is_file():
                _add_module(root, file, str(target / file.relative_to(site)))
    for metadata in site.glob("*.dist-info/METADATA"):  # some ask for their own version
        root.copy(metadata, str(target / metadata.relative_to(site)))
    for name in SITE_MODULES:
        if (site / name).exists():
            _add_module(root, site / name, str(target / name))


def _add_module(root: Initramfs, file: Path, place: str = "") -> None:
    if file.suffix == ".so":
        root.program(file, place)
    elif file.suffix in (".py", ".ini", ".typed") or file.name.endswith(f"{sys.implementation.cache_tag}.pyc"):
        root.copy(file, place)


def command(kernel: Kernel, root: Path, *, memory: int, arguments: Sequence[str] = (), append: str = "") -> list[str]:
    """The command line of a machine without any device but those in ``arguments``; ``memory`` in MiB."""
    return [
        QEMU, "-accel", "tcg,thread=multi", "-smp", "2", "-m", str(memory), "-display", "none", "-monitor", "none",
        "-no-reboot", "-nodefaults", "-kernel", str(kernel.image), "-initrd", str(root),
        "-append", f"console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off tsc=unstable {append}".strip(),
        *(arguments or ("-nic", "none")),
    ]  # fmt: skip


@contextmanager
def _lock() -> Iterator[None]:
    folder = cache_dir() / "vm"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(argv: list[str], folder: Path) -> str:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    if done.returncode:
        raise ClusterError(f"{' '.join(argv)} failed:\n{(done.stderr or done.stdout).strip()[-1000:]}")
    return done.stdout
