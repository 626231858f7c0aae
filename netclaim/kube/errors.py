"""What an API server answers when it refuses, and what happens when it does not answer: one type per kind.

The kinds follow what a caller does about them, not the HTTP number alone: a 409 is `AlreadyExists` for a create and
`Conflict` for everything else, and a connection that broke is `Lost`: whether the request took effect is unknown.
"""

# ruff: noqa: N818 - the names say what the server said, and read as such where they are caught

from __future__ import annotations

from typing import Any, ClassVar


class ApiError(Exception):
    """An API call that failed.

    `status` is the HTTP status (0 when there was none), `reason` the API's CamelCase word, `message` text for people,
    `details` the Status object's `details`, `retry_after` seconds to wait when the server asked for it.
    """

    default_status: ClassVar[int] = 0

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        reason: str = "",
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status = self.default_status if status is None else status
        self.reason = reason or type(self).__name__
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.reason} ({self.status}): {self.message}" if self.status else f"{self.reason}: {self.message}"


class Unauthorized(ApiError):
    """401: the credentials are not known, or no longer."""

    default_status = 401


class Forbidden(ApiError):
    """403: the account may not do this, a quota is used up, or the namespace is going."""

    default_status = 403


class NotFound(ApiError):
    """404: no such object, or no such kind."""

    default_status = 404


class AlreadyExists(ApiError):
    """409 on a create: the name is taken."""

    default_status = 409


class Conflict(ApiError):
    """409 otherwise: another version, another uid, or a field that another manager owns."""

    default_status = 409


class Gone(ApiError):
    """410: the resource version or the continue token is too old, or lies in the future: list again."""

    default_status = 410


class Invalid(ApiError):
    """422: the object breaks a rule; the message says which."""

    default_status = 422


class Throttled(ApiError):
    """429: come back after `retry_after` seconds."""

    default_status = 429


class ServerError(ApiError):
    """5xx, or a reply that no API server gives: whether a write took effect is unknown."""

    default_status = 500


class Lost(ApiError):
    """No complete reply: refused, reset, cut off or timed out. Whether a write took effect is unknown.

    `dropped` tells that the connection broke (rather than that time ran out).
    """

    def __init__(self, message: str, *, dropped: bool = False) -> None:
        super().__init__(message, status=0)
        self.dropped = dropped


class LeadershipLost(Exception):
    """A write was not sent because this process does not lead right now."""


class ConfigError(Exception):
    """The connection configuration cannot be used; the text says which file and why."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: Throttled,
}
_TOO_LARGE = "ResourceVersionTooLarge"


def from_status(
    status: int, body: dict[str, Any] | None, text: str, *, where: str = "", retry_after: float | None = None
) -> ApiError:
    """The error of a reply: `body` is its Status object when it had one, `text` an excerpt of it otherwise."""
    body = body or {}
    reason = str(body.get("reason") or "")
    details = body.get("details")
    details = details if isinstance(details, dict) else {}
    message = str(body.get("message") or text or "no explanation")
    if where and not body.get("message"):
        message = f"{where}: {message}"
    kind = _BY_STATUS.get(status, ServerError if status >= 500 else ApiError)
    if status == 409 and reason == "AlreadyExists":
        kind = AlreadyExists
    causes = details.get("causes")
    if reason == "Expired" or any(
        isinstance(cause, dict) and cause.get("reason") == _TOO_LARGE for cause in (causes or [])
    ):
        kind = Gone
    if retry_after is None and isinstance(details.get("retryAfterSeconds"), int | float):
        retry_after = float(details["retryAfterSeconds"]) or None
    return kind(message, status=status, reason=reason, details=details, retry_after=retry_after)
