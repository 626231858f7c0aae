"""Logs: one JSON object a line on stderr, with controller, key and reconcile id where there are some."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import orjson
import structlog
from structlog.types import EventDict, Processor

_QUIET: Final = ("aiohttp.access", "asyncio")


def configure(program: str, level: str) -> None:
    """Send structlog and the standard library's logging to stderr as JSON from `level` on."""

    def name_program(_logger: Any, _method: str, event: EventDict) -> EventDict:
        event["program"] = program
        return event

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.PositionalArgumentsFormatter(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        name_program,
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(serializer=_dumps),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


def _dumps(event: Any, **_: Any) -> str:
    return orjson.dumps(event, default=str).decode()
