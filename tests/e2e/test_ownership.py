"""Who wrote what, read from managedFields after a full life of an interface (the table of the API page)."""

from typing import Any

import pytest

from netclaim.api.resources import ATTACHMENTS, CLAIMS, INTERFACES, Resource
from tests.e2e.conftest import Tenant
from tests.e2e.stack import Stack, network, workload
from tests.waiting import until

# Field or condition of .status -> the one manager that may own it. A seeder shares the key of the condition it seeded.
CLAIM = {
    "project": "nso",
    "networkInterfaceRef": "nso",
    "addresses": "nso",
    "externalAddresses": "nso",
    "Bound": "nso",
    "Allocated": "nso",
    "Ready": "nso",
    "Prepared": "vpc-controller",
    "Programmed": "vpc-controller-programmed",
}
INTERFACE = {
    "phase": "nso",
    "networkContextRef": "nso",
    "Allocated": "nso",
    "ExternalProgrammed": "nso-seed",
    "vpc": "vpc-controller",
    "attachmentRef": "vpc-controller",
    "Prepared": "vpc-controller",
    "Programmed": "vpc-controller-programmed",
}
ATTACHMENT = {
    "vpc": "vpc-controller",
    "vpcAttachment": "vpc-controller",
    "Ready": "vpc-controller",
    "Programmed": "vpc-controller-programmed",
    **dict.fromkeys(
        (
            "node",
            "podName",
            "podUID",
            "containerID",
            "hostInterface",
            "guestInterface",
            "vrfInterface",
            "podSubnet",
            "podSubnets",
        ),
        "node-agent",
    ),
}


def owners(obj: dict[str, Any]) -> dict[str, set[str]]:
    """Field or condition type of .status -> the managers that own any value below it (bare keys and types aside)."""
    out: dict[str, set[str]] = {}
    for entry in obj["metadata"]["managedFields"]:
        status = entry["fieldsV1"].get("f:status", {})
        for field, below in status.items():
            if field == "f:conditions":
                for key, values in below.items():
                    if key.startswith("k:") and any(v in values for v in ("f:status", "f:reason", "f:message")):
                        kind = key.split('"type":"')[1].split('"')[0]
                        out.setdefault(kind, set()).add(entry["manager"])
            elif field.startswith("f:"):
                out.setdefault(field[2:], set()).add(entry["manager"])
    return out


@pytest.mark.parametrize(
    ("resource", "table"),
    [(CLAIMS, CLAIM), (INTERFACES, INTERFACE), (ATTACHMENTS, ATTACHMENT)],
    ids=["claim", "interface", "attachment"],
)
async def test_each_status_field_has_the_one_owner_that_the_table_names(
    stack: Stack, tenant: Tenant, resource: Resource, table: dict[str, str]
) -> None:
    """R21, T20: after binding, a replacement and a rebinding under Retain, no field has an owner outside the table."""
    stack.apply(
        network("default", tenant.namespace),
        workload("web", tenant.namespace, policy="Retain", classes=("public-unicast-ipv4",)),
    )
    await stack.ready(tenant.namespace, "web", 1)
    stack.kubectl("delete", "workload", "web", "-n", tenant.namespace, "--timeout=60s")
    await until(lambda: _no_claim(stack, tenant), timeout=60, what="claim gone")
    stack.apply(workload("web", tenant.namespace, policy="Retain", classes=("public-unicast-ipv4",)))
    await stack.ready(tenant.namespace, "web", 1)

    found = owners(await stack.cell.get(resource, tenant.namespace, "web-0-eth0"))

    assert found == {field: {manager} for field, manager in table.items()}


async def _no_claim(stack: Stack, tenant: Tenant) -> bool:
    return await stack.claim(tenant.namespace, "web-0-eth0") is None
