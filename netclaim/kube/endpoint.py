"""Where an API server is and what a program shows to be let in: kubeconfig files and in-cluster configuration.

Plain kubeconfigs (certificates, tokens) are read here. One that needs more (exec plugins, identity providers, a merged
list of files) goes through kubernetes_asyncio, which is imported for that alone: it costs 37 MB.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from netclaim.kube.errors import ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that are given inline or live in a file that may be replaced while the program runs."""

    path: Path | None = None
    inline: bytes | None = None

    def read(self) -> bytes:
        """The bytes as they are now.

        Raises:
            ConfigError: the file cannot be read.
        """
        if self.inline is not None:
            return self.inline
        if self.path is None:
            return b""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise ConfigError(f"cannot read {self.path}: {error.strerror or error}") from error

    def __bool__(self) -> bool:
        return self.path is not None or self.inline is not None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API server and one identity.

    `server` is the base URL without a trailing slash; `refresh` fetches a bearer token from a plugin.
    """

    server: str
    source: str
    ca: Blob = field(default_factory=Blob)
    client_certificate: Blob = field(default_factory=Blob)
    client_key: Blob = field(default_factory=Blob)
    token: Blob = field(default_factory=Blob)
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    refresh: Callable[[], Awaitable[str]] | None = None


async def find(kubeconfig: str | None) -> Endpoint:
    """The endpoint of `kubeconfig`; None means the cluster we run in, or `$KUBECONFIG` outside of one.

    Raises:
        ConfigError: there is none, or it cannot be used.
    """
    if kubeconfig:
        return await _of_kubeconfig(kubeconfig)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return in_cluster(SERVICE_ACCOUNT)
    if os.environ.get("KUBECONFIG"):
        return await _of_kubeconfig(os.environ["KUBECONFIG"])
    raise ConfigError(
        "no API server is configured: pass --kubeconfig, set KUBECONFIG, or run inside a cluster "
        "(KUBERNETES_SERVICE_HOST is not set)"
    )


def in_cluster(folder: Path) -> Endpoint:
    """The API server of the cluster that this Pod runs in, as its service account (files in `folder`)."""
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    host = f"[{host}]" if ":" in host else host
    for name in ("token", "ca.crt"):
        if not (folder / name).exists():
            raise ConfigError(f"{folder / name} is missing: does the Pod set automountServiceAccountToken: false?")
    return Endpoint(
        server=f"https://{host}:{port}",
        source="in-cluster",
        ca=Blob(path=folder / "ca.crt"),
        token=Blob(path=folder / "token"),
    )


async def _of_kubeconfig(location: str) -> Endpoint:
    if os.pathsep in location:
        return await _through_library(location)
    path = Path(location).expanduser()  # noqa: ASYNC240 - once, before anything runs
    try:
        document = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except OSError as error:
        raise ConfigError(f"cannot read kubeconfig {path}: {error.strerror or error}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"kubeconfig {path} is not YAML: {str(error).splitlines()[0]}") from error
    cluster, user = _current(document, path)
    if "exec" in user or "auth-provider" in user:
        return await _through_library(location)
    return _plain(cluster, user, path)


def _current(document: Any, path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The `cluster` and `user` entries that the current context names."""
    if not isinstance(document, dict):
        raise ConfigError(f"kubeconfig {path} holds no configuration")
    contexts = _named(document.get("contexts"), "context")
    current = document.get("current-context") or (next(iter(contexts)) if len(contexts) == 1 else "")
    if current not in contexts:
        raise ConfigError(f"kubeconfig {path}: current-context {current!r} names no context of the file")
    context = contexts[current]
    clusters, users = _named(document.get("clusters"), "cluster"), _named(document.get("users"), "user")
    if context.get("cluster") not in clusters:
        raise ConfigError(f"kubeconfig {path}: context {current!r} names no cluster of the file")
    return clusters[context["cluster"]], users.get(context.get("user") or "", {})


def _named(entries: Any, what: str) -> dict[str, dict[str, Any]]:
    return {str(entry.get("name")): entry.get(what) or {} for entry in entries or () if isinstance(entry, dict)}


def _plain(cluster: dict[str, Any], user: dict[str, Any], path: Path) -> Endpoint:
    server = str(cluster.get("server") or "").rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise ConfigError(f"kubeconfig {path}: the cluster's server {server!r} is not a URL")

    def blob(where: dict[str, Any], name: str) -> Blob:
        if where.get(f"{name}-data"):
            try:
                return Blob(inline=base64.b64decode(where[f"{name}-data"], validate=True))
            except (binascii.Error, ValueError, TypeError) as error:
                raise ConfigError(f"kubeconfig {path}: {name}-data is not base64") from error
        return Blob(path=(path.parent / where[name])) if where.get(name) else Blob()

    token = Blob(inline=str(user["token"]).encode()) if user.get("token") else Blob()
    if user.get("tokenFile"):
        token = Blob(path=path.parent / user["tokenFile"])
    headers = []
    if user.get("username"):
        basic = base64.b64encode(f"{user['username']}:{user.get('password', '')}".encode()).decode()
        headers.append(("Authorization", f"Basic {basic}"))
    if user.get("as"):
        headers.append(("Impersonate-User", str(user["as"])))
        headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    return Endpoint(
        server=server,
        source=f"kubeconfig {path}",
        ca=blob(cluster, "certificate-authority"),
        client_certificate=blob(user, "client-certificate"),
        client_key=blob(user, "client-key"),
        token=token,
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
        server_name=cluster.get("tls-server-name"),
        proxy=cluster.get("proxy-url"),
        headers=tuple(headers),
    )


async def _through_library(location: str) -> Endpoint:
    """What kubernetes_asyncio makes of a kubeconfig; its exec plugin or provider is asked again for each new token."""
    from kubernetes_asyncio import config
    from kubernetes_asyncio.client import Configuration

    configuration = Configuration()

    async def load() -> str:
        try:
            await config.load_kube_config(
                config_file=location, client_configuration=configuration, persist_config=False
            )
        except Exception as error:  # the library raises whatever its providers raise
            raise ConfigError(f"kubeconfig {location}: {error}") from error
        return str(configuration.api_key.get("BearerToken") or "").removeprefix("Bearer ").strip()

    token = await load()

    def file(path: str | None) -> Blob:
        return Blob(path=Path(path)) if path else Blob()

    return Endpoint(
        server=str(configuration.host).rstrip("/"),
        source=f"kubeconfig {location}",
        ca=file(configuration.ssl_ca_cert),
        client_certificate=file(configuration.cert_file),
        client_key=file(configuration.key_file),
        insecure=not configuration.verify_ssl,
        server_name=configuration.tls_server_name or None,
        proxy=configuration.proxy or None,
        token=Blob(inline=token.encode()) if token else Blob(),
        refresh=load if token else None,
    )
