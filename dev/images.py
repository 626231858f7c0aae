"""Container images made here: OCI layout archives for `ctr images import`, since no registry is asked for anything."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dev.paths import cache_dir

PAUSE = "node.local/pause:1"
BUSYBOX = "node.local/busybox:1"
MEDIA = "application/vnd.oci.image"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
FOLDERS = {"bin": 0o755, "etc": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755, "tmp": 0o1777, "root": 0o700}


@dataclass(frozen=True)
class Image:
    """A one-layer image: its reference (`name:tag`), entry point, files by path in the image, and links."""

    reference: str
    entrypoint: Sequence[str]
    files: Mapping[str, Path]
    links: Mapping[str, str] = field(default_factory=dict)

    def archive(self) -> Path:
        """Return the image as an OCI layout archive in the cache, named by its content."""
        layer = self._layer()
        platform_ = {"architecture": ARCHITECTURES[platform.machine()], "os": "linux"}
        config = _json(
            platform_
            | {
                "config": {"Entrypoint": list(self.entrypoint), "Env": ["PATH=/bin"]},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
            }
        )
        packed = gzip.compress(layer, compresslevel=1, mtime=0)
        manifest = _json(
            {
                "schemaVersion": 2,
                "mediaType": f"{MEDIA}.manifest.v1+json",
                "config": _descriptor(config, f"{MEDIA}.config.v1+json"),
                "layers": [_descriptor(packed, f"{MEDIA}.layer.v1.tar+gzip")],
            }
        )
        path = cache_dir() / "images" / f"{hashlib.sha256(manifest + self.reference.encode()).hexdigest()[:16]}.tar"
        if not path.exists():
            self._write(path, manifest, [config, packed], platform_)
        return path

    def _layer(self) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as layer:
            for name, mode in FOLDERS.items():
                entry = tarfile.TarInfo(name)
                entry.type, entry.mode = tarfile.DIRTYPE, mode
                layer.addfile(entry)
            for name, source in self.files.items():
                _add(layer, name.lstrip("/"), source.read_bytes(), 0o755)
            for name, target in self.links.items():
                entry = tarfile.TarInfo(name.lstrip("/"))
                entry.type, entry.linkname = tarfile.SYMTYPE, target
                layer.addfile(entry)
        return buffer.getvalue()

    def _write(self, path: Path, manifest: bytes, blobs: Sequence[bytes], platform_: Mapping[str, str]) -> None:
        names = {
            "io.containerd.image.name": self.reference,
            "org.opencontainers.image.ref.name": self.reference.rpartition(":")[2],
        }
        entry = _descriptor(manifest, f"{MEDIA}.manifest.v1+json") | {"platform": platform_, "annotations": names}
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}")
        with tarfile.open(partial, "w") as archive:
            _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}', 0o644)
            _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}), 0o644)
            for blob in (*blobs, manifest):
                _add(archive, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob, 0o644)
        partial.rename(path)


def pause(binary: Path) -> Image:
    """Return the image of a Pod's sandbox."""
    return Image(PAUSE, ["/pause"], {"/pause": binary})


def busybox(binary: Path) -> Image:
    """Return the image for Pods under test: a static busybox with a link for each of its applets."""
    listed = subprocess.run([binary, "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"/bin/{applet}": "/bin/busybox" for applet in listed if applet != "busybox"}
    return Image(BUSYBOX, ["/bin/sh"], {"/bin/busybox": binary}, links)


def _json(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _digest(blob: bytes) -> str:
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _descriptor(blob: bytes, media_type: str) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
