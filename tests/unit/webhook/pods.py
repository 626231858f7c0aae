"""A Pod and the objects around it, as an admission review and the stores show them."""

import json
from typing import Any

from netclaim.api.cloud import VPCAttachment
from netclaim.api.cni import NetworkAttachmentDefinition
from netclaim.api.compute import Instance
from netclaim.api.networking import INJECT_LABEL, NetworkInterface
from webhook.inject import Admission, Observed, decide
from webhook.refusals import Refusal

NODE_LABELS = {"kubernetes.io/os": "linux"}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
            ]
        }
    }
}


def pod(annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "web-0",
            "labels": {INJECT_LABEL: "true"},
            **({"annotations": annotations} if annotations is not None else {}),
            "ownerReferences": [
                {
                    "apiVersion": "compute.datumapis.com/v1alpha",
                    "kind": "Instance",
                    "name": "web-0",
                    "uid": "u-instance",
                    "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "web", "image": "web:1"}], **spec},
    }


def interface(name: str, inside: str, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"u-{name}"},
        "spec": {
            "network": {"name": "default"},
            "claimRef": {"name": name, "uid": f"c-{name}"},
            "interfaceName": inside,
            "mtu": 1460,
            "addresses": [{"family": "IPv4", "address": "10.0.0.7/32", "primary": True}],
        },
        "status": {
            "phase": "Bound",
            "attachmentRef": {"name": name},
            "conditions": [{"type": "Prepared", "status": "True", "reason": "Prepared"}],
            **status,
        },
    }


def observed(*names: tuple[str, str], mode: str = "Netns") -> dict[str, Any]:
    """Raw objects of an instance whose interfaces are (object name, name inside the Pod)."""
    return {
        "instance": {
            "metadata": {"name": "web-0", "namespace": "shop", "uid": "u-instance"},
            "spec": {
                "workloadRef": {"name": "web", "uid": "u-workload"},
                "ordinal": 0,
                "templateHash": "x",
                "template": {"spec": {}},
                "networkInterfaces": [
                    {"name": name.rpartition("-")[2], "claimRef": {"name": name, "uid": f"c-{name}"}}
                    for name, _ in names
                ],
            },
        },
        "interfaces": {name: interface(name, inside) for name, inside in names},
        "attachments": {
            name: {
                "metadata": {"name": name, "namespace": "shop", "uid": f"a-{name}"},
                "spec": {"vpc": {"name": "default-home"}, "interface": {"name": inside, "mode": mode}},
            }
            for name, inside in names
        },
        "definitions": {
            name: {
                "metadata": {
                    "name": name,
                    "namespace": "shop",
                    "ownerReferences": [
                        {
                            "apiVersion": "cloud.datumapis.com/v1alpha1",
                            "kind": "VPCAttachment",
                            "name": name,
                            "uid": f"a-{name}",
                            "controller": True,
                        }
                    ],
                },
                "spec": {"config": "{}"},
            }
            for name, _ in names
        },
    }


def decided(request: dict[str, Any], world: dict[str, Any]) -> Admission | Refusal:
    return decide(
        request,
        "shop",
        Observed(
            Instance.model_validate(world["instance"]) if world["instance"] else None,
            {name: NetworkInterface.model_validate(raw) for name, raw in world["interfaces"].items()},
            {("shop", name): VPCAttachment.model_validate(raw) for name, raw in world["attachments"].items()},
            {
                ("shop", name): NetworkAttachmentDefinition.model_validate(raw)
                for name, raw in world["definitions"].items()
            },
        ),
        NODE_LABELS,
    )


def patched(request: dict[str, Any], world: dict[str, Any]) -> dict[str, Any]:
    """The Pod as it would be stored; fails on a refusal. Understands the operations that the webhook sends."""
    verdict = decided(request, world)
    assert isinstance(verdict, Admission), verdict
    stored = json.loads(json.dumps(request))
    for operation in verdict.patch:
        assert operation["op"] == "add"
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].lstrip("/").split("/")
        ]
        target = stored
        for part in parents:
            target = target[part]
        target[last] = operation["value"]
    return stored


def refusal(request: dict[str, Any], world: dict[str, Any]) -> Refusal:
    verdict = decided(request, world)
    assert isinstance(verdict, Refusal), verdict
    return verdict
