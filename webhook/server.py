"""The TLS endpoint that the API server calls."""

from __future__ import annotations

import logging
import socket
import ssl
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aiohttp import web

from netclaim.kube.errors import ConfigError
from webhook import metrics, refusals, review
from webhook.certificates import Pair
from webhook.inject import Admission, pod_name
from webhook.manifests import PATH
from webhook.refusals import Refusal, refuse
from webhook.review import MalformedReviewError
from webhook.reviewer import Reviewer

log = logging.getLogger(__name__)

LARGEST_BODY: Final = 8 * 1024 * 1024
"""Bytes. A stored object is at most 1.5 MiB; a review holds it once, with some words around it."""

_JSON: Final = "application/json"


class Endpoint:
    """Serves reviews over TLS. The certificate is changed under the open port, for handshakes from then on.

    The address is taken at once, and listened on when there is a certificate.
    """

    def __init__(self, reviewer: Reviewer, host: str, port: int, unready: Callable[[], list[str]]) -> None:
        """Take the address.

        Raises:
            ConfigError: it cannot be had.
        """
        self._reviewer = reviewer
        self._socket = _bound(host, port)
        self._unready = unready
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post(PATH, self._review)
        app.router.add_get("/readyz", self._ready)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=5.0)
        self._is_open = False

    @property
    def port(self) -> int:
        """The port that was taken."""
        return int(self._socket.getsockname()[1])

    async def serve(self, pair: Pair) -> None:
        """Serve with this certificate: opens the port the first time, later only changes the certificate."""
        _load(self._context, pair)
        if self._is_open:
            return
        self._is_open = True
        await self._runner.setup()
        await web.SockSite(self._runner, self._socket, ssl_context=self._context, backlog=1024).start()
        log.info("serving %s on https://%s:%d", PATH, *self._socket.getsockname()[:2])

    async def close(self) -> None:
        """Take no more connections, and let running reviews end."""
        await self._runner.cleanup()
        self._socket.close()

    async def _review(self, request: web.Request) -> web.Response:
        try:
            asked = review.read(await request.read())
        except MalformedReviewError as error:
            metrics.REVIEWS.labels("malformed", "").inc()
            log.warning("malformed review: %s", error)
            return web.json_response({"kind": "Status", "code": 400, "message": str(error)}, status=400)
        began = time.perf_counter()
        verdict = await self._decide(asked)
        metrics.REVIEW_TIME.observe(time.perf_counter() - began)
        if isinstance(verdict, Admission):
            metrics.REVIEWS.labels("admitted", "").inc()
        else:
            metrics.REVIEWS.labels("refused", verdict.reason).inc()
            log.info("refused (%s): %s", verdict.reason, verdict.message)
        return web.Response(body=review.answer(asked.uid, verdict), content_type=_JSON)

    async def _decide(self, asked: review.Request) -> Admission | Refusal:
        try:
            return await self._reviewer.review(asked)
        except Exception as error:
            # Whatever it is: the Pod is refused, and whoever reads the log can find out why.
            log.exception("a review could not be decided")
            return refuse(refusals.REVIEW_FAILED, pod_name(asked.pod, asked.namespace), why=type(error).__name__)

    async def _ready(self, _: web.Request) -> web.Response:
        reasons = self._unready()
        return web.Response(text="\n".join(reasons) or "ok", status=503 if reasons else 200)


def _bound(host: str, port: int) -> socket.socket:
    """A socket with that address, not listening yet: connections are refused until there is a certificate."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
    except OSError as error:
        raise ConfigError(f"--listen {host}:{port} cannot be used: {error.strerror or error}") from error
    return made


def _load(context: ssl.SSLContext, pair: Pair) -> None:
    """Give the context another certificate. The ssl module reads files only; they are gone before this returns."""
    with tempfile.TemporaryDirectory(prefix="netclaim-webhook-") as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(pair.key + pair.certificate)
        context.load_cert_chain(path)
