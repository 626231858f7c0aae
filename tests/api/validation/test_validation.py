"""Every rule of every kind on a real API server: one accepted, one refused, the message read (R2, R17-R19, T30)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from netclaim.api import crdgen, managers
from netclaim.api import resources as r
from netclaim.api.conditions import is_true
from netclaim.api.kinds import KINDS
from netclaim.api.meta import KubeObject
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import Invalid
from tests.api.validation import attachments, compute, ipam, networking
from tests.api.validation.table import BASE, POD_TEMPLATE, Case, laid_over, templates
from tests.control_plane import ControlPlane

CASES = [*networking.CASES, *attachments.CASES, *ipam.CASES, *compute.CASES]
OURS = [kind for kind in KINDS if kind.DEFINITION.categories]


@pytest.fixture(scope="module")
async def place(cell: Client) -> AsyncIterator[str]:
    """A namespace that holds objects which no controller looks at."""
    name = f"validation-{secrets.token_hex(3)}"
    await cell.create(r.NAMESPACES, {"metadata": {"name": name}})
    yield name
    await cell.delete(r.NAMESPACES, None, name)


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_rule_accepts_what_is_right_and_refuses_what_is_wrong(cell: Client, place: str, case: Case) -> None:
    """T30. The refusal says what to do."""
    await _write(cell, place, case, case.accepted)
    with pytest.raises(Invalid) as refusal:
        await _write(cell, place, case, case.refused)
    assert case.message in refusal.value.message


def test_every_rule_with_a_message_of_ours_is_in_the_table() -> None:
    """A rule that nobody has seen refuse anything is not known to work."""
    messages = {
        rule["message"]
        for kind in OURS
        for rule in _rules(crdgen.schema(kind))
        if not rule["message"].startswith("name an identifier")
    }
    unseen = {message for message in messages if not any(case.message in message for case in CASES)}
    assert unseen == set()


@pytest.mark.parametrize("kind", OURS, ids=lambda kind: kind.__name__)
async def test_the_least_object_of_each_kind_is_accepted(cell: Client, place: str, kind: type[KubeObject]) -> None:
    created = await _create(cell, place, kind.RESOURCE, BASE[kind.RESOURCE])
    assert created["metadata"]["uid"]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
async def test_every_definition_is_installed_and_stored_as_it_was_generated(
    cell: Client, kind: type[KubeObject]
) -> None:
    """R19: established, its names accepted, and no keyword of it dropped by the server."""
    stored = await cell.get(r.CRDS, None, kind.RESOURCE.qualified_name)
    assert is_true(stored, "Established")
    assert is_true(stored, "NamesAccepted")
    assert not is_true(stored, "NonStructuralSchema")
    assert stored["spec"]["versions"][0]["schema"] == crdgen.definition(kind)["spec"]["versions"][0]["schema"]


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        ("vpc-3e", None),
        ("att-3e-41", None),
        ("vpc-G", "RFC 1123"),
        ("att-3e", "name an identifier vpc-<hex>"),
        ("vpc-1234567890abc", "name an identifier vpc-<hex>"),
        ("att-3e-12345", "name an identifier vpc-<hex>"),
    ],
)
async def test_an_identifier_is_named_after_its_value(cell: Client, place: str, name: str, refusal: str | None) -> None:
    """R32: object names never hold base62."""
    obj = {"metadata": {"name": name, "namespace": place}, "spec": BASE[r.IDENTIFIERS]}
    if refusal is None:
        await cell.create(r.IDENTIFIERS, obj)
    else:
        with pytest.raises(Invalid) as refused:
            await cell.create(r.IDENTIFIERS, obj)
        assert refusal in refused.value.message


async def test_defaults_are_those_of_the_specification(cell: Client, place: str) -> None:
    network = await _create(cell, place, r.NETWORKS, {})
    assert network["spec"] == {"ipFamilies": ["IPv6"], "mtu": 1460}
    claim = await _create(cell, place, r.CLAIMS, BASE[r.CLAIMS])
    assert claim["spec"] == {"network": {"name": "default"}, "interfaceName": "eth0", "reclaimPolicy": "Delete"}
    workload = await _create(cell, place, r.WORKLOADS, BASE[r.WORKLOADS])
    assert {
        name: workload["spec"][name] for name in ("replicas", "podManagementPolicy", "maxUnavailable", "paused")
    } == {
        "replicas": 1,
        "podManagementPolicy": "Parallel",
        "maxUnavailable": 1,
        "paused": False,
    }
    class_ = await _create(cell, place, r.IP_CLASSES, BASE[r.IP_CLASSES])
    assert class_["spec"] == {**BASE[r.IP_CLASSES], "strategy": "NextFit", "cooldown": "0s"}


async def test_a_network_may_be_written_without_a_spec(cell: Client, place: str) -> None:
    created = await cell.create(r.NETWORKS, {"metadata": {"name": "plain", "namespace": place}})
    assert created["spec"]["mtu"] == 1460


async def test_a_pod_template_is_stored_as_it_is(cell: Client, place: str) -> None:
    spec = laid_over(BASE[r.WORKLOADS], {"template": {"metadata": {"labels": {"app": "web"}}, **POD_TEMPLATE}})
    created = await _create(cell, place, r.WORKLOADS, spec)
    assert created["spec"]["template"] == spec["template"]


async def test_a_claim_template_gets_the_defaults_of_a_claim(cell: Client, place: str) -> None:
    """So that a template compares equal to the claims made from it."""
    created = await _create(cell, place, r.WORKLOADS, laid_over(BASE[r.WORKLOADS], templates(("eth0", {}))))
    spec = created["spec"]["networkInterfaceClaimTemplates"][0]["spec"]
    assert spec == {"network": {"name": "default"}, "interfaceName": "eth0", "reclaimPolicy": "Delete"}


async def test_what_an_owner_stops_applying_while_a_seed_holds_the_key_reads_unknown(cell: Client, place: str) -> None:
    """spec/api.md: without the defaults of status and reason every later apply would be refused."""
    created = await _create(cell, place, r.CLAIMS, BASE[r.CLAIMS])
    metadata = {"namespace": place, "name": created["metadata"]["name"]}

    async def apply(manager: str, *conditions: dict[str, Any], force: bool) -> dict[str, Any]:
        body = {"metadata": metadata, "status": {"conditions": list(conditions)}}
        return await cell.apply_status(r.CLAIMS, body, manager=manager, force=force)

    seeded = {"type": "Programmed", "status": "Unknown", "reason": "Pending"}
    await apply(managers.NSO_SEED, seeded, force=False)
    owned = {"type": "Programmed", "status": "True", "reason": "Programmed"}
    await apply(managers.VPC_CONTROLLER_PROGRAMMED, owned, force=True)
    left = await apply(managers.VPC_CONTROLLER_PROGRAMMED, force=True)
    assert left["status"]["conditions"] == [{"type": "Programmed", "status": "Unknown", "reason": "Pending"}]


async def test_a_misspelt_field_is_an_error_not_a_loss(cell: Client, place: str) -> None:
    """T30: what the server does not know must never be dropped in silence."""
    with pytest.raises(Exception, match="unknown field"):
        await _create(cell, place, r.CLAIMS, {**BASE[r.CLAIMS], "reclaimPolcy": "Retain"})


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_kubectl_explains_every_kind(control_plane: ControlPlane, kind: type[KubeObject]) -> None:
    resource = kind.RESOURCE
    shown = control_plane.kubectl("explain", f"{resource.plural}.{resource.group}.spec")
    assert "DESCRIPTION" in shown
    assert "<no description>" not in shown


async def test_kubectl_prints_the_columns_and_knows_the_short_names(
    control_plane: ControlPlane, cell: Client, place: str
) -> None:
    """R4: the columns of a claim and of an instance."""
    claim = await _create(cell, place, r.CLAIMS, BASE[r.CLAIMS])
    metadata = {"namespace": place, "name": claim["metadata"]["name"]}
    status = {
        "addresses": [{"family": "IPv6", "address": "fd20:1000:0:1:0:1::/96", "primary": True}],
        "externalAddresses": [{"family": "IPv4", "address": "198.51.100.11", "class": "public"}],
        "networkInterfaceRef": {"name": "web-0-eth0"},
        "conditions": [{"type": "Ready", "status": "False", "reason": "NotProgrammed"}],
    }
    await cell.apply_status(r.CLAIMS, {"metadata": metadata, "status": status}, manager=managers.NSO)
    header, row = control_plane.kubectl("get", "nicc", metadata["name"], "-n", place).splitlines()
    assert header.split() == ["NAME", "NETWORK", "INTERFACE", "ADDRESS", "EXTERNAL", "READY", "REASON", "AGE"]
    assert row.split()[1:-1] == [
        "default",
        "web-0-eth0",
        "fd20:1000:0:1:0:1::/96",
        "198.51.100.11",
        "False",
        "NotProgrammed",
    ]
    assert metadata["name"] in control_plane.kubectl("get", "netclaim", "-n", place, "-o", "name")


async def _create(cell: Client, place: str, resource: Resource, spec: dict[str, Any]) -> dict[str, Any]:
    name = f"att-{secrets.token_hex(4)}-{secrets.token_hex(2)}"
    return await cell.create(resource, {"metadata": {"name": name, "namespace": place}, "spec": spec})


async def _write(cell: Client, place: str, case: Case, changes: dict[str, Any]) -> None:
    base = BASE[case.resource]
    if case.part == "status":
        obj = await _create(cell, place, case.resource, base)
        for status in [changes] if case.before is None else [case.before, changes]:
            obj = await cell.replace(case.resource, {**obj, "status": status}, subresource="status")
        return
    if case.before is None:
        await _create(cell, place, case.resource, laid_over(base, changes))
        return
    obj = await _create(cell, place, case.resource, laid_over(base, case.before))
    await cell.replace(case.resource, {**obj, "spec": laid_over(laid_over(base, case.before), changes)})


def _rules(node: dict[str, Any]) -> list[dict[str, str]]:
    found = list(node.get("x-kubernetes-validations", []))
    for child in node.get("properties", {}).values():
        found += _rules(child)
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            found += _rules(node[keyword])
    return found
