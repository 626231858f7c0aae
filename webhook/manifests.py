"""The admission objects of the webhook, for a local process (`url`) or a Service. Pure.

The configuration is owned by whoever installs it (a chart, `dev/`); the webhook itself keeps its caBundle right, so the
objects here carry none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netclaim.api import cni, networking, resources
from netclaim.api.meta import Raw

PATH: Final = "/mutate-v1-pod"
CONFIGURATION_NAME: Final = "netclaim-webhook"
WEBHOOK_NAME: Final = "pods.networking.datumapis.com"
POLICY_NAME: Final = "netclaim-injected-pods"
TIMEOUT_SECONDS: Final = 5
PROTECTED_ANNOTATIONS: Final = (
    networking.INJECTED_ANNOTATION,
    cni.NETWORKS_ANNOTATION,
    cni.DEFAULT_NETWORK_ANNOTATION,
)


@dataclass(frozen=True, slots=True)
class Service:
    """The Service in front of the webhook's Pods."""

    namespace: str
    name: str
    port: int = 443


def configuration(target: str | Service, *, name: str = CONFIGURATION_NAME) -> Raw:
    """The MutatingWebhookConfiguration; `target` is the URL of `PATH`, or the Service."""
    client: Raw = {"url": target}
    if isinstance(target, Service):
        service = {"namespace": target.namespace, "name": target.name, "port": target.port, "path": PATH}
        client = {"service": service}
    return {
        "apiVersion": resources.MUTATING_WEBHOOKS.api_version,
        "kind": resources.MUTATING_WEBHOOKS.kind,
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": WEBHOOK_NAME,
                "clientConfig": client,
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "Namespaced",
                    }
                ],
                "objectSelector": {"matchLabels": {networking.INJECT_LABEL: "true"}},
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": TIMEOUT_SECONDS,
                "reinvocationPolicy": "IfNeeded",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }


def _kept(field: str, name: str) -> str:
    """CEL: the entry is the same before and after, present or absent."""
    return f"object.metadata.?{field}[?'{name}'] == oldObject.metadata.?{field}[?'{name}']"


def policy(*, name: str = POLICY_NAME) -> Raw:
    """The ValidatingAdmissionPolicy: what was injected stays, and an opted-in Pod that was never injected is refused.

    The second rule covers a cluster whose MutatingWebhookConfiguration is missing: such a Pod would boot unattached.
    """
    opted_in = f"object.metadata.?labels[?'{networking.INJECT_LABEL}'] == optional.of('true')"
    was_opted_in = (
        f"oldObject != null && oldObject.metadata.?labels[?'{networking.INJECT_LABEL}'] == optional.of('true')"
    )
    injected = f"object.metadata.?annotations[?'{networking.INJECTED_ANNOTATION}'].hasValue()"
    kept = [_kept("labels", networking.INJECT_LABEL), *(_kept("annotations", one) for one in PROTECTED_ANNOTATIONS)]
    return {
        "apiVersion": resources.ADMISSION_POLICIES.api_version,
        "kind": resources.ADMISSION_POLICIES.kind,
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["pods", "pods/status"],
                        "scope": "Namespaced",
                    }
                ]
            },
            "matchConditions": [{"name": "opted-in", "expression": f"{opted_in} || ({was_opted_in})"}],
            "validations": [
                {
                    "expression": f"request.operation != 'CREATE' || {injected}",
                    "message": "this Pod asks for network interfaces, but the webhook that attaches them has not seen "
                    "it: check the MutatingWebhookConfiguration of netclaim",
                    "reason": "Forbidden",
                },
                {
                    "expression": f"request.operation != 'UPDATE' || ({' && '.join(kept)})",
                    "message": "the opt-in label and the network annotations of a Pod with injected interfaces never "
                    "change: replace the Pod instead",
                    "reason": "Forbidden",
                },
            ],
        },
    }


def binding(*, name: str = POLICY_NAME) -> Raw:
    """What puts the policy into force."""
    return {
        "apiVersion": resources.ADMISSION_POLICY_BINDINGS.api_version,
        "kind": resources.ADMISSION_POLICY_BINDINGS.kind,
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }


def manifests(*, url: str | None = None, service: Service | None = None) -> list[Raw]:
    """Everything that has to be installed for the webhook to be called.

    Raises:
        ValueError: not exactly one of `url` and `service`.
    """
    if (url is None) == (service is None):
        raise ValueError("say where the webhook is: a url or a service")
    target: str | Service = url if url is not None else service  # type: ignore[assignment]
    return [configuration(target), policy(), binding()]
