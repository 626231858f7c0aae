"""Why a Pod is refused (R33): a Pod is never admitted unattached."""

from typing import Any

import pytest

from netclaim.api.networking import INJECT_LABEL
from tests.unit.webhook.pods import observed, pod, refusal
from webhook import refusals


def _without_owner(request: dict[str, Any], world: dict[str, Any]) -> None:
    request["metadata"]["ownerReferences"] = []


def _owned_by_replica_set(request: dict[str, Any], world: dict[str, Any]) -> None:
    request["metadata"]["ownerReferences"][0] |= {"apiVersion": "apps/v1", "kind": "ReplicaSet"}


def _instance_of_another_group(request: dict[str, Any], world: dict[str, Any]) -> None:
    request["metadata"]["ownerReferences"][0]["apiVersion"] = "compute.example.com/v1alpha"


def _owner_does_not_control(request: dict[str, Any], world: dict[str, Any]) -> None:
    del request["metadata"]["ownerReferences"][0]["controller"]


def _instance_gone(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["instance"] = None


def _other_uid(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["instance"]["metadata"]["uid"] = "u-new"


def _instance_going(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["instance"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _nothing_declared(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["instance"]["spec"]["networkInterfaces"] = []


def _no_interface(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"] = {}


def _available(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["status"]["phase"] = "Available"


def _other_claim(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["spec"]["claimRef"]["uid"] = "c-older"


def _not_prepared(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["status"]["conditions"] = [
        {"type": "Prepared", "status": "False", "reason": "AwaitingVPC", "message": "VPC default-home is not there"}
    ]


def _never_prepared(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["status"]["conditions"] = []


def _changed_since(request: dict[str, Any], world: dict[str, Any]) -> None:
    interface = world["interfaces"]["web-0-eth0"]
    interface["metadata"]["generation"] = 2
    interface["status"]["conditions"][0]["observedGeneration"] = 1


def _interface_going(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["interfaces"]["web-0-eth0"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _no_attachment(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["attachments"] = {}


def _attachment_going(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["attachments"]["web-0-eth0"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def _no_definition(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["definitions"] = {}


def _foreign_definition(request: dict[str, Any], world: dict[str, Any]) -> None:
    world["definitions"]["web-0-eth0"]["metadata"]["ownerReferences"][0]["uid"] = "a-tenant"


def _host_network(request: dict[str, Any], world: dict[str, Any]) -> None:
    request["spec"]["hostNetwork"] = True


@pytest.mark.parametrize(
    ("spoil", "reason", "code", "named", "rechecked"),
    [
        (_without_owner, refusals.NOT_OWNED_BY_INSTANCE, 403, "Workload", None),
        (_owned_by_replica_set, refusals.NOT_OWNED_BY_INSTANCE, 403, INJECT_LABEL, None),
        (_instance_of_another_group, refusals.NOT_OWNED_BY_INSTANCE, 403, INJECT_LABEL, None),
        (_owner_does_not_control, refusals.NOT_OWNED_BY_INSTANCE, 403, INJECT_LABEL, None),
        (_instance_gone, refusals.INSTANCE_NOT_FOUND, 403, "instance web-0", "Instance shop/web-0"),
        (_other_uid, refusals.INSTANCE_REPLACED, 403, "u-new", "Instance shop/web-0"),
        (_instance_going, refusals.INSTANCE_TERMINATING, 403, "instance web-0", None),
        (_nothing_declared, refusals.NO_INTERFACE_DECLARED, 403, "networkInterfaceClaimTemplate", None),
        (_no_interface, refusals.INTERFACE_NOT_BOUND, 503, "claim web-0-eth0", "NetworkInterface shop/web-0-eth0"),
        (_available, refusals.INTERFACE_NOT_BOUND, 503, "Available", "NetworkInterface shop/web-0-eth0"),
        (_other_claim, refusals.INTERFACE_NOT_BOUND, 503, "c-older", "NetworkInterface shop/web-0-eth0"),
        (_not_prepared, refusals.INTERFACE_NOT_PREPARED, 503, "AwaitingVPC", "NetworkInterface shop/web-0-eth0"),
        (_never_prepared, refusals.INTERFACE_NOT_PREPARED, 503, "web-0-eth0", "NetworkInterface shop/web-0-eth0"),
        (_changed_since, refusals.INTERFACE_NOT_PREPARED, 503, "was changed", "NetworkInterface shop/web-0-eth0"),
        (_interface_going, refusals.INTERFACE_NOT_PREPARED, 503, "deleted", "NetworkInterface shop/web-0-eth0"),
        (_no_attachment, refusals.ATTACHMENT_NOT_FOUND, 503, "VPCAttachment", "VPCAttachment shop/web-0-eth0"),
        (_attachment_going, refusals.ATTACHMENT_NOT_FOUND, 503, "deleted", "VPCAttachment shop/web-0-eth0"),
        (
            _no_definition,
            refusals.NETWORK_ATTACHMENT_NOT_FOUND,
            503,
            "web-0-eth0",
            "NetworkAttachmentDefinition shop/web-0-eth0",
        ),
        (
            _foreign_definition,
            refusals.NETWORK_ATTACHMENT_FOREIGN,
            403,
            "delete it",
            "NetworkAttachmentDefinition shop/web-0-eth0",
        ),
        (_host_network, refusals.HOST_NETWORK, 403, "host's network", None),
    ],
)
def test_a_pod_that_cannot_be_attached_is_refused_with_what_to_do(
    spoil: Any, reason: str, code: int, named: str, rechecked: str | None
) -> None:
    """R33: a Pod is never admitted unattached; what is missing is looked up live once before it is refused."""
    request, world = pod(), observed(("web-0-eth0", "eth0"))
    spoil(request, world)
    verdict = refusal(request, world)
    assert (verdict.reason, verdict.code) == (reason, code)
    assert verdict.message.startswith("Pod shop/web-0: ")
    assert named in verdict.message
    assert (str(verdict.recheck) if verdict.recheck else None) == rechecked


def test_every_reason_has_its_message() -> None:
    reasons = {
        value
        for name, value in vars(refusals).items()
        if name.isupper() and isinstance(value, str) and not name.startswith("_")
    }
    assert reasons == set(refusals.MESSAGES)
    assert reasons >= refusals.WAITING_HELPS
