"""Networks and what is below them as stored objects, and what a plan writes."""

from typing import Any

from netclaim.api import networking
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.kube.writes import ApplyStatus
from nso.ipclaims import Cell, Owner
from nso.networks.record import Project
from nso.steps import Plan, writes_of

CELL = Cell("us-central-1", "cell-id")
PROJECT = Project("project-alpha")
TEARDOWN = [networking.TEARDOWN_FINALIZER]
RECORDED = {networking.PROJECT_ANNOTATION: "project-alpha"}
GONE = "2026-01-01T00:00:00Z"
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def metadata(name: str, uid: str, **more: Any) -> Raw:
    whole: Raw = {"name": name, "namespace": "shop", "uid": uid, "generation": 1, "resourceVersion": "7"}
    return {**whole, "finalizers": TEARDOWN, "annotations": RECORDED, **more}


def controlled_by(kind: str, name: str, uid: str) -> list[Raw]:
    owner = {"apiVersion": "networking.datumapis.com/v1alpha", "kind": kind, "name": name, "uid": uid}
    return [{**owner, "controller": True}]


def network_raw(status: Raw | None = None, spec: Raw | None = None, **more: Any) -> Raw:
    return {
        "metadata": metadata("default", "net-1", **more),
        "spec": {"ipFamilies": ["IPv6", "IPv4"], **(spec or {})},
        "status": status or {},
    }


def context_raw(status: Raw | None = None, **more: Any) -> Raw:
    owners = controlled_by("Network", "default", "net-1")
    return {
        "metadata": metadata("default-us-central-1", "ctx-1", **{"ownerReferences": owners, **more}),
        "spec": {"network": {"name": "default"}, "location": "us-central-1"},
        "status": status or {},
    }


def subnet_raw(family: str = "IPv6", status: Raw | None = None, **more: Any) -> Raw:
    owners = controlled_by("NetworkContext", "default-us-central-1", "ctx-1")
    name = more.pop("name", f"default-us-central-1-{family.lower()}")
    return {
        "metadata": metadata(name, f"sub-{family}", **{"ownerReferences": owners, **more}),
        "spec": {"networkContext": {"name": "default-us-central-1"}, "ipFamily": family},
        "status": status or {},
    }


def ip_claim(name: str, owner: Owner, *, cidr: str | None = None, going: bool = False, **status: Any) -> IPClaim:
    whole: Raw = {"name": name, "namespace": "project-alpha", "uid": f"uid-of-{name}"}
    if going:
        whole["deletionTimestamp"] = GONE
    bound = {"phase": "Bound", "cidr": cidr} if cidr else {}
    spec = {"className": "c", "target": "Range", "ownerRef": CELL.owner_ref(owner)}
    return IPClaim.model_validate({"metadata": whole, "spec": spec, "status": {**bound, **status}})


def writes(plan: Plan, kind: Any) -> list[Any]:
    return [write for write in writes_of(plan) if isinstance(write, kind)]


def told(plan: Plan, condition: str) -> Raw:
    found = [e for w in writes(plan, ApplyStatus) for e in w.status["conditions"] if e["type"] == condition]
    return found[-1]
