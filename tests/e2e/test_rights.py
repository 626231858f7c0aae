"""What the programs' accounts are granted, against what the API servers' audit logs saw them do."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from dev import accounts
from dev.programs import SYSTEM_NAMESPACE
from netclaim.api.resources import (
    CLAIMS,
    INSTANCES,
    INTERFACES,
    NADS,
    NETWORK_BINDINGS,
    SECRETS,
    SUBNET_CLAIMS,
)
from tests.e2e.conftest import Tenant
from tests.e2e.stack import Stack, network, workload
from tests.waiting import until

Raw = dict[str, Any]
Right = tuple[str, str, str]
"""API group, resource or resource/subresource, verb."""

ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:"
READING = frozenset({"get", "list", "watch"})
ON_TROUBLE = ("events.k8s.io", "events")
"""Told about what goes wrong, and patched when it goes wrong again: not provoked here for every program."""


IN_A_RACE = frozenset({("k8s.cni.cncf.io", "network-attachment-definitions", "delete")})
"""What a deleted attachment left goes by whoever is faster, the VPC controller or the garbage collector."""


def audited(stack: Stack) -> Iterator[Raw]:
    """Every completed call of the programs' accounts since the cluster began."""
    for plane in ("cell", "ipam"):
        with Path(stack.cluster.run.audit_log(plane)).open() as log:
            for line in log:
                event = json.loads(line)
                if event["stage"] == "ResponseComplete" and event["user"]["username"].startswith(ACCOUNT):
                    yield event


def denied(stack: Stack) -> list[str]:
    """The calls among them that RBAC refused."""
    return [
        f"{event['user']['username'].removeprefix(ACCOUNT)}: {event['verb']} {event['requestURI']}"
        for event in audited(stack)
        if event.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    ]


def used(stack: Stack) -> dict[str, set[Right]]:
    """Account -> the rights that let its calls through (a Lease that is not there yet was asked for, too)."""
    found: dict[str, set[Right]] = {}
    for event in audited(stack):
        code, target = event["responseStatus"]["code"], event.get("objectRef", {})
        if event.get("annotations", {}).get("authorization.k8s.io/decision") != "allow" or "resource" not in target:
            continue
        resource = "/".join(filter(None, (target["resource"], target.get("subresource"))))
        rights = found.setdefault(event["user"]["username"].removeprefix(ACCOUNT), set())
        rights.add((target.get("apiGroup", ""), resource, event["verb"]))
        if event["verb"] == "patch" and code == 201:  # an apply that made the object needs both
            rights.add((target.get("apiGroup", ""), resource, "create"))
    return found


def granted(account: accounts.Account) -> set[Right]:
    """All that the rules of an account give."""
    rules = [rule for part in account.rules() for rule in part]
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def unused(rights: Iterable[Right], seen: set[Right]) -> set[Right]:
    """The granted rights that no call needed. Who follows a kind may also read one object of it: it shows no more."""
    return {
        (group, resource, verb)
        for group, resource, verb in rights
        if (group, resource, verb) not in seen
        and (group, resource) != ON_TROUBLE
        and (group, resource, verb) not in IN_A_RACE
        and not (verb in READING and (group, resource, "list") in seen)
    }


async def test_every_right_of_every_account_is_used_and_none_is_missing(stack: Stack, tenant: Tenant) -> None:
    """R36: least privilege, by comparing the charts' rules with the audit logs of both API servers."""
    await live_through_everything(stack, tenant)

    async def all_used() -> bool:
        seen = used(stack)
        left = {one.name: unused(granted(one), seen.get(one.name, set())) for one in accounts.ACCOUNTS}
        assert not any(left.values()), {name: sorted(rights) for name, rights in left.items() if rights}
        return True

    assert denied(stack) == []
    await until(all_used, timeout=60, what="every granted right used", interval=1)
    for name, seen in used(stack).items():
        rules = next((granted(one) for one in accounts.ACCOUNTS if one.name == name), set[Right]())
        assert seen <= rules, f"{name} does what its rules do not say: {sorted(seen - rules)}"


async def live_through_everything(stack: Stack, tenant: Tenant) -> None:
    """Whatever makes a program write: a life of every kind, and objects that somebody spoils."""
    place = ("-n", tenant.namespace)
    stack.apply(network("default", tenant.namespace), workload("web", tenant.namespace, replicas=2, policy="Retain"))
    await stack.ready(tenant.namespace, "web", 2)
    binding = {"network": {"name": "default"}}
    claim = {"networkContext": {"name": "default-us-central-1"}, "ipFamily": "IPv4"}
    for resource, spec in ((NETWORK_BINDINGS, binding), (SUBNET_CLAIMS, claim)):
        await stack.cell.create(resource, {"metadata": {"name": "old", "namespace": tenant.namespace}, "spec": spec})

    # A definition that somebody spoils is put right, and a Secret that lost its certificates is filled again.
    stack.kubectl("label", NADS.qualified_name, "web-0-eth0", *place, "cloud.datumapis.com/vpc=spoiled", "--overwrite")
    emptied = json.dumps([{"op": "replace", "path": "/data", "value": {}}])
    stack.kubectl(
        "patch", "secret", "netclaim-webhook-certificates", "-n", SYSTEM_NAMESPACE, "--type=json", "-p", emptied
    )
    await until(lambda: _is_whole(stack), timeout=60, what="the webhook's certificates written again")

    # A Pod that ends is replaced; a slot that goes takes its claim along; what was kept is taken up again.
    brief = workload("brief", tenant.namespace)
    brief["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    brief["spec"]["template"]["spec"]["containers"][0]["command"] = ["/bin/busybox", "sleep", "1"]
    stack.apply(brief)
    await until(lambda: _was_replaced(stack, tenant, "brief-0"), timeout=120, what="a Pod that ended was replaced")
    stack.kubectl("delete", "workload", "brief", *place, "--timeout=60s")
    stack.kubectl("scale", "workload", "web", *place, "--replicas=1")
    await until(lambda: _is_gone(stack, tenant, "web-1-eth0"), timeout=60, what="claim of the slot gone")
    stack.kubectl("scale", "workload", "web", *place, "--replicas=2")
    await stack.ready(tenant.namespace, "web", 2)

    stack.kubectl("delete", "workload", "web", *place, "--timeout=60s")
    for resource in (INSTANCES, CLAIMS):
        await until(lambda kind=resource: _none(stack, tenant, kind), timeout=90, what=f"no {resource.plural} left")
    for resource in (INTERFACES, SUBNET_CLAIMS, NETWORK_BINDINGS):
        for found in await stack.cell.list(resource, tenant.namespace):
            await stack.cell.delete(resource, tenant.namespace, found["metadata"]["name"])
        await until(lambda kind=resource: _none(stack, tenant, kind), timeout=90, what=f"no {resource.plural} left")
    stack.kubectl("delete", "network", "default", *place, "--timeout=60s")


async def _is_whole(stack: Stack) -> bool:
    return bool((await stack.cell.get(SECRETS, SYSTEM_NAMESPACE, "netclaim-webhook-certificates")).get("data"))


async def _was_replaced(stack: Stack, tenant: Tenant, name: str) -> bool:
    return any(
        event["verb"] == "delete"
        and event["objectRef"].get("name") == name
        and event["objectRef"]["resource"] == "pods"
        for event in audited(stack)
        if event["objectRef"].get("namespace") == tenant.namespace
    )


async def _is_gone(stack: Stack, tenant: Tenant, name: str) -> bool:
    return await stack.claim(tenant.namespace, name) is None


async def _none(stack: Stack, tenant: Tenant, resource: Any) -> bool:
    return not await stack.cell.list(resource, tenant.namespace)
