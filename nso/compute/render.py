"""The objects that compute writes, from a Workload or an Instance. Pure."""

from __future__ import annotations

from typing import Any

from netclaim import identity
from netclaim.api import resources
from netclaim.api.compute import (
    INSTANCE_LABEL,
    NETWORK_GATE,
    ORDINAL_LABEL,
    TEMPLATE_HASH_LABEL,
    TEMPLATE_LABEL,
    WORKLOAD_LABEL,
    Instance,
    NetworkInterfaceClaimTemplate,
    Workload,
)
from netclaim.api.managers import COMPUTE
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import INJECT_LABEL
from netclaim.kube.writes import Apply, Create, Delete, JsonPatch, Write
from nso.compute.slots import (
    AdoptClaim,
    AdoptInstance,
    MakeClaim,
    MakeInstance,
    RemoveClaim,
    RemoveInstance,
    Step,
)


def selector(workload: str) -> str:
    """What selects a Workload's Pods."""
    return f"{WORKLOAD_LABEL}={identity.label_value(workload)}"


def write(workload: Workload, template_hash: str, step: Step) -> Write:
    """The write that carries out a step."""
    namespace = workload.namespace
    match step:
        case MakeClaim():
            return Create(resources.CLAIMS, claim(workload, step), ok_if_exists=True, manager=COMPUTE)
        case MakeInstance():
            made = instance(workload, step, template_hash)
            return Create(resources.INSTANCES, made, ok_if_exists=True, manager=COMPUTE)
        case RemoveInstance():
            # Foreground: the Instance stays until its Pod is gone, so nothing is made in its place before that.
            key = (namespace, step.name)
            return Delete(resources.INSTANCES, key, step.uid, propagation="Foreground", guarded=True)
        case RemoveClaim():
            return Delete(resources.CLAIMS, (namespace, step.name), step.uid, guarded=True)
        case AdoptInstance():
            reference = {"name": workload.name, "uid": workload.uid}
            adopted = {**_adopted(workload, step), "spec": {"workloadRef": reference}}
            return Apply(resources.INSTANCES, adopted, COMPUTE, guarded=True)
        case AdoptClaim():
            return Apply(resources.CLAIMS, _adopted(workload, step), COMPUTE, guarded=True)


def claim(workload: Workload, step: MakeClaim) -> Raw:
    """The claim of a slot, owned by the Workload: it outlives every instance of the slot (R1)."""
    template = _template(workload, step.template)
    return {
        "metadata": {
            "name": step.name,
            "namespace": workload.namespace,
            "labels": {
                **template.metadata.labels,
                WORKLOAD_LABEL: identity.label_value(workload.name),
                INSTANCE_LABEL: identity.label_value(identity.instance_name(workload.name, step.ordinal)),
                ORDINAL_LABEL: str(step.ordinal),
                TEMPLATE_LABEL: step.template,
            },
            "annotations": dict(template.metadata.annotations),
            "ownerReferences": [workload.owner_reference().to_dict()],
        },
        "spec": template.spec.to_dict(),
    }


def instance(workload: Workload, step: MakeInstance, template_hash: str) -> Raw:
    """The instance of a slot, gated until its interfaces are prepared."""
    templates = [one.metadata.name for one in workload.spec.network_interface_claim_templates]
    return {
        "metadata": {
            "name": step.name,
            "namespace": workload.namespace,
            "labels": {
                WORKLOAD_LABEL: identity.label_value(workload.name),
                ORDINAL_LABEL: str(step.ordinal),
                TEMPLATE_HASH_LABEL: template_hash,
            },
            "ownerReferences": [workload.owner_reference().to_dict()],
        },
        "spec": {
            "workloadRef": {"name": workload.name, "uid": workload.uid},
            "ordinal": step.ordinal,
            "networkInterfaces": [
                {"name": name, "claimRef": {"name": identity.claim_name(workload.name, step.ordinal, name)}}
                for name in templates
            ],
            "template": workload.spec.template.to_dict(),
            "templateHash": template_hash,
            "schedulingGates": [{"name": NETWORK_GATE}],
        },
    }


def lift_gate(raw: Raw, uids: dict[str, str]) -> JsonPatch:
    """Take the network gate off an instance and record which claims (name to uid) it starts with."""
    spec = raw["spec"]
    interfaces = [
        {**one, "claimRef": {**one["claimRef"], "uid": uids[one["claimRef"]["name"]]}}
        for one in spec.get("networkInterfaces") or ()
    ]
    gates = [gate for gate in spec.get("schedulingGates") or () if gate["name"] != NETWORK_GATE]
    ops: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": raw["metadata"]["resourceVersion"]},
        {"op": "replace", "path": "/spec/networkInterfaces", "value": interfaces},
        {"op": "replace", "path": "/spec/schedulingGates", "value": gates},
    ]
    return JsonPatch(resources.INSTANCES, key(raw), tuple(ops))


def pod(instance: Instance) -> Raw:
    """The Pod of an instance: the template's spec, and the label that asks for its interfaces. It names no NAD."""
    template = instance.spec.template
    return {
        "metadata": {
            "name": instance.name,
            "namespace": instance.namespace,
            "labels": {
                **template.metadata.labels,
                WORKLOAD_LABEL: identity.label_value(instance.spec.workload_ref.name),
                INSTANCE_LABEL: identity.label_value(instance.name),
                ORDINAL_LABEL: str(instance.spec.ordinal),
                INJECT_LABEL: "true",
            },
            "annotations": dict(template.metadata.annotations),
            "ownerReferences": [instance.owner_reference().to_dict()],
        },
        "spec": template.spec,
    }


def key(raw: Raw) -> Key:
    """(namespace, name)."""
    return (raw["metadata"]["namespace"], raw["metadata"]["name"])


def _template(workload: Workload, name: str) -> NetworkInterfaceClaimTemplate:
    return next(one for one in workload.spec.network_interface_claim_templates if one.metadata.name == name)


def _adopted(workload: Workload, step: AdoptClaim | AdoptInstance) -> Raw:
    """The owner of an object that has none. Merged by the server; refused when another controller was faster."""
    return {
        "metadata": {
            "name": step.name,
            "namespace": workload.namespace,
            "uid": step.uid,
            "ownerReferences": [workload.owner_reference().to_dict()],
        }
    }
