"""What one interface costs the API servers: writes from Workload to Instance Ready, and none at rest."""

import asyncio
from collections import Counter
from pathlib import Path

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


def _logs(stack: Stack) -> tuple[AuditLog, AuditLog]:
    return tuple(AuditLog(Path(stack.cluster.env[name])) for name in ("CELL_AUDIT_LOG", "IPAM_AUDIT_LOG"))  # type: ignore[return-value]


async def _quiet(stack: Stack) -> None:
    """Wait until our programs wrote nothing for a while."""

    async def nothing_written() -> bool:
        logs = _logs(stack)
        await asyncio.sleep(QUIET)
        return not any(writes_by_kind(log.calls()) for log in logs)

    await until(nothing_written, timeout=90, what=f"{QUIET} s without a write")


async def test_a_dual_stack_instance_with_an_external_class_stays_within_its_write_budget(
    stack: Stack, tenant: Tenant
) -> None:
    """B3, T32: counted at both API servers, on a network that is already there."""
    stack.apply(network("default", tenant.namespace), workload("first", tenant.namespace))
    await stack.ready(tenant.namespace, "first", 1)
    await _quiet(stack)
    logs = _logs(stack)

    stack.apply(workload("web", tenant.namespace, classes=("public-unicast-ipv4",)))
    await stack.ready(tenant.namespace, "web", 1)
    await _quiet(stack)

    written: Counter[tuple[str, str, str]] = Counter()
    for log in logs:
        written += writes_by_kind(log.calls())
    table = "\n".join(f"{n:3} {program:16} {verb:7} {kind}" for (program, verb, kind), n in sorted(written.items()))
    print(f"\nwrites for one dual-stack instance with one external class: {written.total()}\n{table}")
    assert written.total() <= DUAL_STACK_WRITES + PER_EXTERNAL_CLASS + SHOWN_EARLY_AND_SLOW_START, table


async def test_programs_at_rest_write_nothing(stack: Stack, tenant: Tenant) -> None:
    """T32: with ready instances and nothing changing, no program writes anything but its lease."""
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, replicas=2))
    await stack.ready(tenant.namespace, "web", 2)
    await _quiet(stack)
    logs = _logs(stack)
    await asyncio.sleep(10)
    written = [call for log in logs for call in log.calls() if _disturbs(call)]
    assert not written


def _disturbs(call: Call) -> bool:
    return call.is_ours and call.is_write and call.resource != "leases"
