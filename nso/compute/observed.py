"""What is there of a Workload, read from the stores: index lookups only, no write, no wait."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Final

from netclaim import identity
from netclaim.api import compute, resources
from netclaim.api.compute import NETWORK_GATE, ORDINAL_LABEL, TEMPLATE_LABEL, WORKLOAD_LABEL, Workload
from netclaim.api.conditions import is_true
from netclaim.api.meta import Key, Raw
from netclaim.kube.objects import is_going, key_of, uid_of
from netclaim.kube.store import Store
from nso.compute.slots import HeldClaim, HeldInstance, Ownership, PodState, Slot, View

BY_WORKLOAD: Final = "compute_by_workload"
BY_CLAIM: Final = "compute_by_claim"
BY_LABEL: Final = "compute_by_label"
BY_UID: Final = "compute_by_uid"


def controller_of(raw: Raw) -> Raw | None:
    """The owner reference of the managing controller."""
    listed: list[Raw] = raw["metadata"].get("ownerReferences") or []
    return next((owner for owner in listed if owner.get("controller")), None)


def is_instance(owner: Raw) -> bool:
    """Whether an owner reference names an Instance of ours."""
    return owner["kind"] == "Instance" and str(owner["apiVersion"]).startswith(f"{resources.COMPUTE}/")


def label(raw: Raw, name: str) -> str | None:
    """A label's value."""
    found = (raw["metadata"].get("labels") or {}).get(name)
    return None if found is None else str(found)


def instance_workload(raw: Raw) -> Iterable[Hashable]:
    """Index of Instances: (namespace, name of the Workload)."""
    return ((raw["metadata"]["namespace"], raw["spec"]["workloadRef"]["name"]),)


def instance_claims(raw: Raw) -> Iterable[Hashable]:
    """Index of Instances: the key of each claim."""
    namespace = raw["metadata"]["namespace"]
    return [(namespace, one["claimRef"]["name"]) for one in raw["spec"].get("networkInterfaces") or ()]


def claim_workload(raw: Raw) -> Iterable[Hashable]:
    """Index of claims: (namespace, label of the Workload)."""
    value = label(raw, WORKLOAD_LABEL)
    return () if value is None else ((raw["metadata"]["namespace"], value),)


def workload_label(raw: Raw) -> Iterable[Hashable]:
    """Index of Workloads: (namespace, what their objects carry as a label)."""
    namespace, name = key_of(raw)
    return ((namespace, identity.label_value(name)),)


def own_uid(raw: Raw) -> Iterable[Hashable]:
    """Index by uid."""
    return (uid_of(raw),)


def template_hash(workload: Workload) -> str:
    """Tells apart what instances are made of: the Pod template, and which interfaces there are.

    The specs of claim templates never change, so their names stand for them.
    """
    made_of = {
        "template": workload.spec.template.to_dict(),
        "interfaces": [one.metadata.name for one in workload.spec.network_interface_claim_templates],
    }
    text = json.dumps(made_of, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Stores:
    """What compute looks at: Workloads, Instances, claims, and the Pods that it made (others are not followed)."""

    workloads: Store
    instances: Store
    claims: Store
    pods: Store

    def add_indexes(self) -> None:
        """What the lookups below need. Adding them again changes nothing."""
        self.workloads.add_index(BY_LABEL, workload_label)
        self.workloads.add_index(BY_UID, own_uid)
        self.instances.add_index(BY_WORKLOAD, instance_workload)
        self.instances.add_index(BY_CLAIM, instance_claims)
        self.claims.add_index(BY_WORKLOAD, claim_workload)

    # -- which keys an object concerns -----------------------------------------------------------------------------

    def workloads_of_instance(self, raw: Raw) -> Iterable[Key]:
        """The Workload that an Instance names."""
        return ((raw["metadata"]["namespace"], raw["spec"]["workloadRef"]["name"]),)

    def workloads_of_labelled(self, raw: Raw) -> Iterable[Key]:
        """The Workloads whose label a claim or Pod carries, and the one that has a claim on its name."""
        value = label(raw, WORKLOAD_LABEL)
        if value is None:
            return ()
        return [key_of(one) for one in self.workloads.by(BY_LABEL, (raw["metadata"]["namespace"], value))]

    def instances_of_claim(self, raw: Raw) -> Iterable[Key]:
        """The Instances that use a claim."""
        return [key_of(one) for one in self.instances.by(BY_CLAIM, key_of(raw))]

    # -- a workload ------------------------------------------------------------------------------------------------

    def view(self, workload: Workload) -> View:
        """The Workload's slots as they are."""
        templates = [one.metadata.name for one in workload.spec.network_interface_claim_templates]
        replicas = workload.spec.replicas
        instances: dict[str, Raw] = {
            raw["metadata"]["name"]: raw for raw in self.instances.by(BY_WORKLOAD, workload.key)
        }
        claims: dict[str, HeldClaim] = {}
        for raw in self.claims.by(BY_WORKLOAD, (workload.namespace, identity.label_value(workload.name))):
            claims[raw["metadata"]["name"]] = self._claim(workload, raw)
        ordinals = {
            *range(replicas),
            *(int(raw["spec"]["ordinal"]) for raw in instances.values()),
            *(claim.ordinal for claim in claims.values() if claim.ordinal is not None and _is_near(claim)),
        }
        slots = tuple(self._slot(workload, ordinal, templates, claims) for ordinal in sorted(ordinals))
        return View(
            replicas=replicas,
            template_hash=template_hash(workload),
            slots=slots,
            claims=claims,
            ordered=workload.spec.pod_management_policy == "OrderedReady",
            max_unavailable=workload.spec.max_unavailable,
            paused=workload.spec.paused,
        )

    def _slot(self, workload: Workload, ordinal: int, templates: list[str], claims: dict[str, HeldClaim]) -> Slot:
        namespace, name = workload.namespace, identity.instance_name(workload.name, ordinal)
        wanted = {template: identity.claim_name(workload.name, ordinal, template) for template in templates}
        raw = self.instances.get((namespace, name))
        held = self._instance(workload, raw) if raw is not None else None
        # Somebody else's claim of that name carries no label of ours: it is found by its name alone.
        for claim in (*wanted.values(), *(held.claims if held else ())):
            found = self.claims.get((namespace, claim)) if claim not in claims else None
            if found is not None:
                claims[claim] = self._claim(workload, found)
        return Slot(ordinal, name, wanted, held, self._pod(namespace, name))

    def _pod(self, namespace: str, name: str) -> PodState:
        raw = self.pods.get((namespace, name))
        if raw is None:
            return PodState.NONE
        return PodState.STRAY if controller_of(raw) is None and not is_going(raw) else PodState.OF_INSTANCE

    def _instance(self, workload: Workload, raw: Raw) -> HeldInstance:
        spec = raw["spec"]
        named = spec["workloadRef"]["name"] == workload.name
        ownership, owner = self._ownership(workload, raw, ours_when_orphaned=named)
        gates = [gate["name"] for gate in spec.get("schedulingGates") or ()]
        return HeldInstance(
            name=raw["metadata"]["name"],
            uid=uid_of(raw),
            ordinal=int(spec["ordinal"]),
            template_hash=spec["templateHash"],
            claims={one["claimRef"]["name"]: one["claimRef"].get("uid") for one in spec.get("networkInterfaces") or ()},
            going=is_going(raw),
            ownership=ownership,
            owner=owner,
            started=NETWORK_GATE not in gates,
            ready=is_true(raw, compute.READY),
            was_ready=bool((raw.get("status") or {}).get("firstReadyTime")),
        )

    def _claim(self, workload: Workload, raw: Raw) -> HeldClaim:
        labelled = label(raw, WORKLOAD_LABEL) == identity.label_value(workload.name)
        ordinal = label(raw, ORDINAL_LABEL)
        ownership, owner = self._ownership(workload, raw, ours_when_orphaned=labelled)
        return HeldClaim(
            name=raw["metadata"]["name"],
            uid=uid_of(raw),
            going=is_going(raw),
            ownership=ownership,
            owner=owner,
            ordinal=int(ordinal) if ordinal is not None and ordinal.isascii() and ordinal.isdigit() else None,
            template=label(raw, TEMPLATE_LABEL),
        )

    def _ownership(self, workload: Workload, raw: Raw, *, ours_when_orphaned: bool) -> tuple[Ownership, str]:
        """Whose an object is, and the owner's name for messages."""
        owner = controller_of(raw)
        if owner is None:
            return (Ownership.ORPHAN if ours_when_orphaned else Ownership.FOREIGN), ""
        if owner["uid"] == workload.uid:
            return Ownership.OURS, ""
        of_workload = owner["kind"] == "Workload" and str(owner["apiVersion"]).startswith(f"{resources.COMPUTE}/")
        if of_workload and not self.workloads.by(BY_UID, owner["uid"]):
            return Ownership.LEFTOVER, ""
        return Ownership.FOREIGN, f"{owner['kind']} {owner['name']}"


def slim_pod(raw: Raw) -> Raw:
    """A Pod as compute reads it: the store of a cell's Pods stays small."""
    status = raw.get("status") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": raw["metadata"],
        "spec": {"nodeName": (raw.get("spec") or {}).get("nodeName")},
        "status": {
            name: status[name]
            for name in ("phase", "reason", "message", "conditions", "containerStatuses")
            if status.get(name)
        },
    }


def _is_near(claim: HeldClaim) -> bool:
    """Whether the ordinal that a claim's label says can be a slot's: a label is user input."""
    return claim.ordinal is not None and claim.ordinal < 1000
