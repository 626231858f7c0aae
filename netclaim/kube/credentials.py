"""Credentials that change while the program runs: tokens, CA bundles and client certificates are read again.

Files are read in a named thread, at most every 60 s, and at once when the server says that it does not know us.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from netclaim.kube.endpoint import Endpoint
from netclaim.kube.errors import ConfigError

REREAD_AFTER = 60.0
FORCED_REREAD_AFTER = 1.0


class Credentials:
    """The identity and trust of one endpoint as they are now."""

    def __init__(self, endpoint: Endpoint, executor: ThreadPoolExecutor) -> None:
        self._endpoint = endpoint
        self._executor = executor
        self._lock = asyncio.Lock()
        self._read_at = float("-inf")
        self._trust: tuple[bytes, bytes, bytes] | None = None
        self.token = ""
        self.context: ssl.SSLContext | bool = True

    def headers(self) -> list[tuple[str, str]]:
        """The headers that identify us."""
        fixed = list(self._endpoint.headers)
        return [*fixed, ("Authorization", f"Bearer {self.token}")] if self.token else fixed

    async def refresh(self, *, force: bool = False) -> None:
        """Read again what is older than 60 s (with `force`: older than a second).

        Raises:
            ConfigError: nothing was ever read, and cannot be. Later failures keep what was read before.
        """
        limit = FORCED_REREAD_AFTER if force else REREAD_AFTER
        if time.monotonic() - self._read_at < limit:
            return
        async with self._lock:
            if time.monotonic() - self._read_at < limit:
                return
            first = self._trust is None
            loop = asyncio.get_running_loop()
            try:
                token, trust = await loop.run_in_executor(self._executor, self._read)
                if self._endpoint.refresh is not None:
                    # A plugin is run again only when the server refuses its token.
                    token = self.token if self.token and not force else await self._endpoint.refresh()
                if trust != self._trust:
                    self.context = await loop.run_in_executor(self._executor, self._build_context, trust)
                    self._trust = trust
                self.token = token
            except ConfigError:
                if first:
                    raise
            self._read_at = time.monotonic()

    def _read(self) -> tuple[str, tuple[bytes, bytes, bytes]]:
        endpoint = self._endpoint
        token = endpoint.token.read().decode("ascii", "replace").strip()
        return token, (endpoint.ca.read(), endpoint.client_certificate.read(), endpoint.client_key.read())

    def _build_context(self, trust: tuple[bytes, bytes, bytes]) -> ssl.SSLContext | bool:
        ca, certificate, key = trust
        if not self._endpoint.server.startswith("https://"):
            return True
        try:
            context = ssl.create_default_context(cadata=ca.decode("ascii", "replace") if ca else None)
            if self._endpoint.insecure:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if certificate:
                _load_chain(context, certificate, key)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{self._endpoint.source}: unusable certificate or key: {error}") from error
        return context


def _load_chain(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a client certificate from memory; the ssl module reads files only, so one exists for that moment."""
    with tempfile.TemporaryDirectory(prefix="netclaim-tls-") as folder:
        path = Path(folder, "client.pem")
        path.touch(mode=0o600)
        path.write_bytes(certificate + b"\n" + key)
        context.load_cert_chain(path)
