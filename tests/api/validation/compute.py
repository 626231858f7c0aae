"""Workloads and instances: what their rules accept and refuse."""

from netclaim.api import resources as r
from tests.api.validation.table import BARE, NAME, Case, templates

TEMPLATES_CHANGE = "a claim template never changes: remove it and add one of another name"
CASES = [
    Case("replicas are not negative", r.WORKLOADS, {"replicas": 0}, {"replicas": -1}, "greater than or equal to 0"),
    Case(
        "replicas are at most 1000", r.WORKLOADS, {"replicas": 1000}, {"replicas": 1001}, "less than or equal to 1000"
    ),
    Case("at least one interface", r.WORKLOADS, {}, templates(), "at least 1 items"),
    Case(
        "at most eight interfaces",
        r.WORKLOADS,
        templates(*((f"eth{n}", {}) for n in range(8))),
        templates(*((f"eth{n}", {}) for n in range(9))),
        "at most 8 items",
    ),
    Case(
        "templates have names of their own",
        r.WORKLOADS,
        templates(("eth0", {}), ("eth1", {})),
        templates(("eth0", {}), ("eth0", {"interfaceName": "eth1"})),
        "give every claim template a name of its own",
    ),
    *(
        Case(
            f"template name {name!r} is refused",
            r.WORKLOADS,
            templates(("e" * 15, {})),
            templates((name, {})),
            "name the template with a lower-case letter",
        )
        for name in ("0eth", "eth-0", "Eth", "eth.0")
    ),
    Case(
        "a template name has at most 15 characters",
        r.WORKLOADS,
        templates(("e" * 15, {})),
        templates(("e" * 16, {})),
        "may not be more than 15",
    ),
    Case(
        "a template never changes",
        r.WORKLOADS,
        templates(("eth0", {}), ("eth1", {})),
        templates(("eth0", {"reclaimPolicy": "Retain"})),
        TEMPLATES_CHANGE,
        before=templates(("eth0", {})),
    ),
    Case(
        "a template may go",
        r.WORKLOADS,
        templates(("eth1", {})),
        templates(("eth1", {"network": {"name": "other"}})),
        TEMPLATES_CHANGE,
        before=templates(("eth0", {}), ("eth1", {})),
    ),
    Case(
        "a template asks for a valid interface",
        r.WORKLOADS,
        templates(("eth0", {"interfaceName": "net1"})),
        templates(("eth0", {"interfaceName": "lo"})),
        NAME,
    ),
    Case("at least one may be away", r.WORKLOADS, {"maxUnavailable": 3}, {"maxUnavailable": 0}, "equal to 1"),
    Case(
        "the order is one of two",
        r.WORKLOADS,
        {"podManagementPolicy": "OrderedReady"},
        {"podManagementPolicy": "Any"},
        "OrderedReady",
    ),
    Case("an instance keeps its slot", r.INSTANCES, {}, {"ordinal": 1}, "an instance keeps its slot", before={}),
    Case(
        "gates are unique",
        r.INSTANCES,
        {"schedulingGates": [{"name": "Network"}]},
        {"schedulingGates": [{"name": "Network"}, {"name": "Network"}]},
        "Duplicate value",
    ),
    Case(
        "an assigned address is bare",
        r.INSTANCES,
        {"networkInterfaces": [{"name": "eth0", "assignments": {"networkIP": "fd20:1000:0:1::1:0:1"}}]},
        {"networkInterfaces": [{"name": "eth0", "assignments": {"networkIP": "fd20:1000:0:1::/96"}}]},
        BARE,
        part="status",
    ),
]
