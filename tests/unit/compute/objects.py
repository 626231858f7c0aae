"""Objects as stores hold them."""

from __future__ import annotations

from typing import Any

Raw = dict[str, Any]

WORKLOAD_UID = "w-1"


def condition(kind: str, status: str = "True", reason: str = "", message: str = "") -> Raw:
    return {"type": kind, "status": status, "reason": reason or kind, "message": message, "lastTransitionTime": "t"}


def workload(**spec: Any) -> Raw:
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Workload",
        "metadata": {"name": "web", "namespace": "shop", "uid": WORKLOAD_UID, "generation": 3},
        "spec": {
            "replicas": 2,
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}},
            "networkInterfaceClaimTemplates": [claim_template("eth0")],
            **spec,
        },
    }


def claim_template(name: str, **metadata: Any) -> Raw:
    return {"metadata": {"name": name, **metadata}, "spec": {"network": {"name": "default"}, "interfaceName": name}}


def owner(
    kind: str = "Workload", name: str = "web", uid: str = WORKLOAD_UID, group: str = "compute.datumapis.com"
) -> Raw:
    return {"apiVersion": f"{group}/v1alpha", "kind": kind, "name": name, "uid": uid, "controller": True}


def instance(ordinal: int = 0, *, gates: tuple[str, ...] = (), claim_uid: str | None = "c-1", **status: Any) -> Raw:
    name = f"web-{ordinal}"
    reference = {"name": f"{name}-eth0"} if claim_uid is None else {"name": f"{name}-eth0", "uid": claim_uid}
    return {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Instance",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"i-{ordinal}",
            "generation": 2,
            "resourceVersion": "7",
            "ownerReferences": [owner()],
        },
        "spec": {
            "workloadRef": {"name": "web", "uid": WORKLOAD_UID},
            "ordinal": ordinal,
            "networkInterfaces": [{"name": "eth0", "claimRef": reference}],
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web"}]}},
            "templateHash": "h",
            "schedulingGates": [{"name": gate} for gate in gates],
        },
        "status": status,
    }


def claim(ordinal: int = 0, *conditions: Raw, **status: Any) -> Raw:
    name = f"web-{ordinal}-eth0"
    return {
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": "c-1",
            "ownerReferences": [owner()],
            "labels": {
                "compute.datumapis.com/workload": "web",
                "compute.datumapis.com/ordinal": str(ordinal),
                "compute.datumapis.com/template": "eth0",
            },
        },
        "spec": {"network": {"name": "default"}},
        "status": {"conditions": list(conditions), **status},
    }


def ready_claim(ordinal: int = 0, **status: Any) -> Raw:
    kinds = ("Bound", "Allocated", "Prepared", "Programmed", "Ready")
    return claim(ordinal, *(condition(kind) for kind in kinds), **status)


def pod(ordinal: int = 0, *, phase: str = "Running", ready: bool = True, **status: Any) -> Raw:
    return {
        "metadata": {
            "name": f"web-{ordinal}",
            "namespace": "shop",
            "uid": f"p-{ordinal}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [owner("Instance", f"web-{ordinal}", f"i-{ordinal}")],
        },
        "spec": {"nodeName": "node-1"},
        "status": {"phase": phase, "conditions": [condition("Ready", str(ready))], **status},
    }
