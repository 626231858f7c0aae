"""Keeps the Secret, the caBundle and the certificate that is served in line with each other.

Every replica does all of it: the Secret is written over the version that was read, and the caBundle only ever gains
what is needed, so replicas do not fight.
"""

from __future__ import annotations

import base64
import binascii
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from netclaim.api import resources
from netclaim.api.meta import Key, Raw
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import AlreadyExists, Conflict
from webhook import certificates, metrics
from webhook.certificates import Pair, Stored, Wanted
from webhook.server import Endpoint

log = logging.getLogger(__name__)

SETTLE: Final = 1.0
"""Seconds that a caBundle must have been published before a certificate of a new authority is served: API servers
learn of it through a watch of their own."""


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Places:
    """Where the Secret and the configuration are."""

    namespace: str
    secret: str
    configuration: str


class Publishing:
    """Reconciles one key: there is one Secret, one configuration, one endpoint."""

    def __init__(
        self,
        cluster: Cluster,
        endpoint: Endpoint,
        places: Places,
        wanted: Wanted,
        *,
        clock: Callable[[], datetime] = now,
        settle: float = SETTLE,
    ) -> None:
        self._cluster = cluster
        self._endpoint = endpoint
        self._places = places
        self._wanted = wanted
        self._clock = clock
        self._settle = settle
        self._served: Pair | None = None
        self._served_by = b""
        self._trusted_since: dict[bytes, float] = {}
        self._has_looked = False

    def is_trusted(self) -> bool:
        """Whether an API server can call this replica: it serves, and the configuration trusts what it serves."""
        configuration = self._configuration()
        if self._served is None or configuration is None:
            return False
        return certificates.trusts(published(configuration), self._served_by)

    async def reconcile(self, _: Key) -> float:
        """One pass; returns the seconds until the next is due in any case."""
        moment = self._clock()
        configuration = self._configuration()
        trusted = published(configuration) if configuration else b""
        secret = self._secret()
        stored = Stored.from_secret(_decoded(secret))
        planned = certificates.plan(stored, self._wanted, moment, trusted)
        if planned is not stored:
            await self._store(secret, planned)
            # What others wrote in the same moment is seen by the watch; a conflict ends this pass.
        wait = await self._publish(planned, configuration, trusted)
        self._has_looked = True
        return min(wait, certificates.next_look(planned, self._wanted, moment))

    async def _store(self, secret: Raw | None, planned: Stored) -> None:
        encoded = {name: base64.b64encode(value).decode() for name, value in planned.to_secret().items()}
        if secret is None:
            metadata = {"namespace": self._places.namespace, "name": self._places.secret}
            try:
                await self._cluster.create(resources.SECRETS, {"metadata": metadata, "type": "Opaque", "data": encoded})
            except AlreadyExists as error:
                raise Conflict("another replica made the Secret") from error
        else:
            await self._cluster.replace(resources.SECRETS, {**secret, "data": encoded})
        log.info("wrote certificates to Secret %s/%s", self._places.namespace, self._places.secret)

    async def _publish(self, stored: Stored, configuration: Raw | None, trusted: bytes) -> float:
        """Publish what must be trusted, then serve what is trusted; returns the seconds to wait for the latter."""
        if stored.serving is None:
            raise AssertionError("a planned Secret holds a serving certificate")
        issuer = certificates.issuer_of(stored)
        wanted = certificates.bundle(stored, self._served_by, trusted, self._clock())
        if configuration is not None and not is_published(configuration, wanted):
            await self._write_bundle(configuration, wanted)
        if stored.serving == self._served:
            return float("inf")
        # Without a configuration nobody calls, and there is nothing that a wait could protect.
        wait = self._settle - self._trusted_for(issuer, trusted) if configuration is not None else 0.0
        if wait > 0:
            return wait
        await self._serve(stored.serving, issuer)
        return float("inf")

    def _trusted_for(self, issuer: bytes, trusted: bytes) -> float:
        """Seconds since the authority was first seen in the caBundle, without a break."""
        if not certificates.trusts(trusted, issuer):
            self._trusted_since.pop(issuer, None)
            return 0.0
        # What was trusted before this replica began has been known for long enough.
        since = time.monotonic() if self._has_looked else float("-inf")
        return time.monotonic() - self._trusted_since.setdefault(issuer, since)

    async def _serve(self, pair: Pair, issuer: bytes) -> None:
        await self._endpoint.serve(pair)
        self._served, self._served_by = pair, issuer
        expires = certificates.expiry(pair)
        metrics.EXPIRES.set(expires.timestamp())
        log.info("serving a certificate that ends at %s", expires.isoformat())

    async def _write_bundle(self, configuration: Raw, wanted: bytes) -> None:
        """Set caBundle on every webhook of the configuration, over the version that was read."""
        metadata = configuration["metadata"]
        value = base64.b64encode(wanted).decode()
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
        ops = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": value}
            for index, _ in enumerate(configuration.get("webhooks") or ())
        ]
        await self._cluster.json_patch(resources.MUTATING_WEBHOOKS, None, metadata["name"], [test, *ops])
        metrics.REPAIRS.inc()
        log.info("wrote the caBundle of MutatingWebhookConfiguration %s", metadata["name"])

    def _secret(self) -> Raw | None:
        return self._cluster.store(resources.SECRETS).get((self._places.namespace, self._places.secret))

    def _configuration(self) -> Raw | None:
        return self._cluster.store(resources.MUTATING_WEBHOOKS).get(("", self._places.configuration))


def published(configuration: Raw) -> bytes:
    """The caBundle of the configuration's first webhook, decoded; empty when there is none."""
    webhooks = configuration.get("webhooks") or [{}]
    return _decode(webhooks[0].get("clientConfig", {}).get("caBundle") or "")


def is_published(configuration: Raw, wanted: bytes) -> bool:
    """Whether every webhook of the configuration has that caBundle."""
    webhooks = configuration.get("webhooks") or ()
    return all(_decode(one["clientConfig"].get("caBundle") or "") == wanted for one in webhooks)


def _decoded(secret: Raw | None) -> dict[str, bytes]:
    return {name: _decode(value) for name, value in ((secret or {}).get("data") or {}).items()}


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""
