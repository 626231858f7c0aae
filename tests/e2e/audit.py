"""What the API servers saw: writes by program, verb and kind, read from their audit logs."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WRITES = frozenset({"create", "update", "patch", "delete"})
PROGRAMS = ("nso", "vpc-controller", "netclaim-webhook", "node-agent")


@dataclass(frozen=True, slots=True)
class Call:
    """One completed call: who (first word of the user agent), what, on which kind, and the answer's code."""

    program: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int

    @property
    def is_ours(self) -> bool:
        return self.program in PROGRAMS

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES


class AuditLog:
    """An audit log from a point in time on; `calls` returns what was appended since then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._from = path.stat().st_size if path.exists() else 0

    def calls(self) -> Iterator[Call]:
        with self._path.open("rb") as log:
            log.seek(self._from)
            for line in log:
                event = json.loads(line)
                if event.get("stage") != "ResponseComplete":
                    continue
                target = event.get("objectRef", {})
                subresource = f"/{target['subresource']}" if target.get("subresource") else ""
                yield Call(
                    program=event.get("userAgent", "").split("/")[0].split(" ")[0],
                    verb=event["verb"],
                    resource=target.get("resource", "") + subresource,
                    namespace=target.get("namespace", ""),
                    name=target.get("name", ""),
                    code=event.get("responseStatus", {}).get("code", 0),
                )


def writes_by_kind(calls: Iterator[Call]) -> Counter[tuple[str, str, str]]:
    """(program, verb, resource) -> number of accepted writes of our programs; events and leases do not count."""
    return Counter(
        (c.program, c.verb, c.resource)
        for c in calls
        if c.is_ours and c.is_write and c.code < 400 and c.resource not in {"events", "leases"}
    )
