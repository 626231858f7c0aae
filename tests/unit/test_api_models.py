"""The models read what the API stores and write what it accepts."""

import pytest
from pydantic import ValidationError

from netclaim.api import meta, networking
from netclaim.api.cloud import VPCAttachment, VPCAttachmentStatus
from netclaim.api.compute import Instance
from netclaim.api.ipam import IPClass, duration_seconds
from netclaim.api.kinds import KINDS
from netclaim.api.networking import NetworkInterfaceClaim, NetworkInterfaceClaimSpec

CLAIM = {
    "apiVersion": "networking.datumapis.com/v1alpha",
    "kind": "NetworkInterfaceClaim",
    "metadata": {
        "name": "web-0-eth0",
        "namespace": "shop",
        "uid": "u-1",
        "generation": 1,
        "finalizers": [networking.CLAIM_RELEASE_FINALIZER],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "X", "name": "a", "uid": "1"},
            {"apiVersion": "v1", "kind": "Y", "name": "b", "uid": "2", "controller": True},
        ],
    },
    "spec": {
        "network": {"name": "default"},
        "interfaceName": "eth0",
        "ipFamilies": ["IPv6", "IPv4"],
        "addresses": [{"class": "public-unicast-ipv4"}],
        "reclaimPolicy": "Retain",
    },
    "status": {"conditions": [{"type": "Bound", "status": "True", "reason": "Bound"}]},
}


def test_what_was_read_is_written_back_as_it_was() -> None:
    assert NetworkInterfaceClaim.model_validate(CLAIM).to_dict() == CLAIM


def test_a_field_of_a_newer_version_is_ignored() -> None:
    newer = {**CLAIM, "spec": {**CLAIM["spec"], "speed": "fast"}}  # type: ignore[dict-item]
    assert NetworkInterfaceClaim.model_validate(newer).to_dict() == CLAIM


def test_metadata_is_at_hand() -> None:
    claim = NetworkInterfaceClaim.model_validate(CLAIM)
    assert claim.key == ("shop", "web-0-eth0")
    assert claim.uid == "u-1"
    assert not claim.is_going
    assert claim.has_finalizer(networking.CLAIM_RELEASE_FINALIZER)
    assert claim.controller_ref is not None
    assert claim.controller_ref.uid == "2"


def test_an_owner_reference_names_the_very_object() -> None:
    assert NetworkInterfaceClaim.model_validate(CLAIM).owner_reference().to_dict() == {
        "apiVersion": "networking.datumapis.com/v1alpha",
        "kind": "NetworkInterfaceClaim",
        "name": "web-0-eth0",
        "uid": "u-1",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_only_what_was_set_is_written() -> None:
    """Defaults are the API server's to fill in: an apply would otherwise take ownership of them."""
    spec = NetworkInterfaceClaimSpec(network=meta.NameRef(name="default"))
    assert spec.to_dict() == {"network": {"name": "default"}}
    assert (spec.interface_name, spec.reclaim_policy, spec.ip_families) == ("eth0", "Delete", None)


def test_a_status_with_conditions_alone_is_valid() -> None:
    """R17: an identifier, or a state, can each be reported alone."""
    assert VPCAttachmentStatus.model_validate({"conditions": []}).vpc is None
    assert VPCAttachmentStatus.model_validate({"conditions": [], "vpcAttachment": "1a"}).vpc_attachment == "1a"


@pytest.mark.parametrize(
    ("python_name", "api_name"),
    [
        ("claim_uid", "claimUID"),
        ("container_id", "containerID"),
        ("network_ip", "networkIP"),
        ("ip_family", "ipFamily"),
        ("uid", "uid"),
        ("class_", "class"),
        ("srv6_locator", "srv6Locator"),
        ("vrf_interface", "vrfInterface"),
    ],
)
def test_fields_are_named_as_the_api_names_them(python_name: str, api_name: str) -> None:
    assert meta.api_name(python_name) == api_name


def test_observed_objects_cannot_be_changed_in_place() -> None:
    claim = NetworkInterfaceClaim.model_validate(CLAIM)
    with pytest.raises(ValidationError, match="frozen"):
        claim.spec = NetworkInterfaceClaimSpec(network=meta.NameRef(name="other"))  # type: ignore[misc]


def test_every_kind_of_a_group_version_is_served_by_one_model() -> None:
    assert len({(kind.RESOURCE.group, kind.RESOURCE.kind) for kind in KINDS}) == len(KINDS)
    assert all(kind.__name__ == kind.RESOURCE.kind for kind in KINDS)


def test_a_pod_template_keeps_what_it_does_not_know() -> None:
    raw = {
        "spec": {
            "workloadRef": {"name": "web", "uid": "w"},
            "ordinal": 0,
            "templateHash": "abc",
            "template": {"spec": {"containers": [{"name": "c", "novel": {"a": [1]}}]}},
        }
    }
    assert Instance.model_validate(raw).to_dict()["spec"] == raw["spec"]


def test_an_attachment_without_addresses_is_one_of_a_guest_that_addresses_itself() -> None:
    """R18: interface.addresses may be empty."""
    raw = {"spec": {"vpc": {"name": "v"}, "interface": {"name": "eth0", "mode": "Hypervisor", "addresses": []}}}
    assert VPCAttachment.model_validate(raw).spec.interface.addresses == []


@pytest.mark.parametrize(("text", "seconds"), [("0s", 0), ("90s", 90), ("1h30m", 5400), ("1.5m", 90), ("250ms", 0.25)])
def test_durations_are_read_in_seconds(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds
    raw = {"spec": {"ipFamily": "IPv4", "prefixLength": 32, "cooldown": text}}
    assert IPClass.model_validate(raw).spec.cooldown_seconds == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "1h ", "-1s", "1d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration"):
        duration_seconds(text)
