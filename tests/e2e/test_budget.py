"""What one interface costs the API servers: every call of its life as the operators' page lists it, none at rest."""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from netclaim.api.resources import CLAIMS, INTERFACES, WORKLOADS
from tests.e2e.audit import AuditLog, Call, writes_by_kind
from tests.e2e.conftest import Tenant
from tests.e2e.stack import Stack, network, workload
from tests.waiting import until

DUAL_STACK_WRITES = 36
PER_EXTERNAL_CLASS = 3
# The instance shows its addresses as soon as they are allocated (R4), and a start that takes longer than four seconds,
# as on a busy machine, tells its progress on instance and workload.
SHOWN_EARLY_AND_SLOW_START = 1 + 4
QUIET = 3.0
REST = float(os.environ.get("NETCLAIM_REST_SECONDS", "10"))
"""Seconds for which programs at rest are watched; 600 by hand."""

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
SECTION = "What an interface costs the API servers"

ELSEWHERE = frozenset({"bgpadvertisements", "identifiers"})
"""Kinds that an interface has objects of outside the namespaces of its tenant."""

Calls = Counter[tuple[str, str, str]]
"""(program, verb, kind) -> calls."""


def _logs(stack: Stack) -> tuple[AuditLog, AuditLog]:
    return tuple(AuditLog(Path(stack.cluster.env[name])) for name in ("CELL_AUDIT_LOG", "IPAM_AUDIT_LOG"))  # type: ignore[return-value]


async def _quiet(stack: Stack) -> None:
    """Wait until our programs wrote nothing for a while."""

    async def nothing_written() -> bool:
        logs = _logs(stack)
        await asyncio.sleep(QUIET)
        return not any(writes_by_kind(log.calls()) for log in logs)

    await until(nothing_written, timeout=90, what=f"{QUIET} s without a write")


def _calls(logs: Iterable[AuditLog], tenant: Tenant) -> Calls:
    """All calls of our programs for what the tenant has; watches and events are no part of the price."""
    return Counter(
        (call.program, call.verb, call.resource)
        for log in logs
        for call in log.calls()
        if call.is_ours
        and call.verb != "watch"
        and call.resource != "events"
        and (call.namespace in {tenant.namespace, tenant.project} or call.resource in ELSEWHERE)
    )


def _listed() -> dict[tuple[str, str, str], tuple[int, int]]:
    """The page's table: (program, verb, kind) -> calls until Ready and calls at the end, at most."""
    (body,) = re.findall(rf"^## {SECTION}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `([\w-]+)` \| (\w+) \| `([\w/-]+)` \| (\d+) \| (\d+) \|$", body, re.MULTILINE)
    return {(program, verb, kind): (int(ready), int(end)) for program, verb, kind, ready, end in rows}


def _written_as(ready: Calls, end: Calls) -> str:
    """What was measured in the form of the page."""
    rows = sorted({*ready, *end}, key=lambda row: (row[0], row[1] in {"get", "list"}, row))
    return "\n".join(f"| `{row[0]}` | {row[1]} | `{row[2]}` | {ready[row]} | {end[row]} |" for row in rows)


async def test_an_interface_costs_what_the_operators_page_says_and_stays_within_its_write_budget(
    stack: Stack, tenant: Tenant
) -> None:
    """B3, B11, T32: dual stack with an external class, counted at both API servers, on a network that is there."""
    stack.apply(network("default", tenant.namespace), workload("first", tenant.namespace))
    await stack.ready(tenant.namespace, "first", 1)
    await _quiet(stack)

    logs = _logs(stack)
    stack.apply(workload("web", tenant.namespace, classes=("public-unicast-ipv4",)))
    await stack.ready(tenant.namespace, "web", 1)
    await _quiet(stack)
    ready = _calls(logs, tenant)

    logs = _logs(stack)
    await stack.cell.delete(WORKLOADS, tenant.namespace, "web")

    async def gone() -> bool:
        left = [raw["metadata"]["name"] for kind in (CLAIMS, INTERFACES) for raw in await stack.cell.list(kind)]
        assert not [name for name in left if name.startswith("web-")], left
        return True

    await until(gone, timeout=60, what="the interface gone")
    await _quiet(stack)
    end = _calls(logs, tenant)

    table = _written_as(ready, end)
    print(f"\n{table}")
    listed = _listed()
    measured = ready.keys() | end.keys()
    assert measured <= listed.keys(), f"not on the page: {measured - listed.keys()}; measured:\n{table}"
    # Whether something has to be read again depends on the order in which watches tell.
    assert all(verb in {"get", "list"} for _, verb, _ in listed.keys() - measured), f"never measured:\n{table}"
    dearer = [row for row, most in listed.items() if ready[row] > most[0] or end[row] > most[1]]
    assert not dearer, f"more than the page says: {dearer}; measured:\n{table}"
    written = sum(count for (_, verb, _), count in ready.items() if verb not in {"get", "list"})
    assert written <= DUAL_STACK_WRITES + PER_EXTERNAL_CLASS + SHOWN_EARLY_AND_SLOW_START, table


async def test_programs_at_rest_write_nothing(stack: Stack, tenant: Tenant) -> None:
    """B11, T32: with ready instances and nothing changing, no program writes anything but its lease."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, replicas=2))
    await stack.ready(tenant.namespace, "web", 2)
    await _quiet(stack)
    logs = _logs(stack)
    await asyncio.sleep(REST)
    written = [call for log in logs for call in log.calls() if _disturbs(call)]
    assert not written


def _disturbs(call: Call) -> bool:
    return call.is_ours and call.is_write and call.resource != "leases"
