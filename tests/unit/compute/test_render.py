"""The objects that compute writes (R1, R2, R29)."""

from __future__ import annotations

import pytest

from netclaim import identity
from netclaim.api.compute import Instance, Workload
from netclaim.kube.errors import ApiError, Conflict, Forbidden, Invalid, Lost, ServerError, Throttled
from netclaim.kube.writes import Apply, Create, Delete
from nso.compute import pods, reasons, render
from nso.compute.slots import AdoptClaim, AdoptInstance, MakeClaim, MakeInstance, RemoveClaim, RemoveInstance
from tests.unit.compute import objects

WORKLOAD = Workload.model_validate(
    objects.workload(
        networkInterfaceClaimTemplates=[
            objects.claim_template("eth0", labels={"team": "a"}, annotations={"note": "b"}),
            objects.claim_template("net1"),
        ]
    )
)


def test_a_claim_is_its_template_owned_by_the_workload() -> None:
    """R1, R2: network, families, policy and classes; never a subnet, a prefix length or an address."""
    claim = render.claim(WORKLOAD, MakeClaim(0, "eth0", "web-0-eth0"))
    assert claim["spec"] == {"network": {"name": "default"}, "interfaceName": "eth0"}
    assert claim["metadata"]["name"] == "web-0-eth0"
    assert claim["metadata"]["labels"] == {
        "team": "a",
        "compute.datumapis.com/workload": "web",
        "compute.datumapis.com/instance": "web-0",
        "compute.datumapis.com/ordinal": "0",
        "compute.datumapis.com/template": "eth0",
    }
    assert claim["metadata"]["annotations"] == {"note": "b"}
    assert claim["metadata"]["ownerReferences"][0]["uid"] == objects.WORKLOAD_UID


def test_an_instance_begins_gated_on_one_claim_per_template() -> None:
    made = render.instance(WORKLOAD, MakeInstance(1, "web-1"), "h")
    assert made["spec"]["networkInterfaces"] == [
        {"name": "eth0", "claimRef": {"name": "web-1-eth0"}},
        {"name": "net1", "claimRef": {"name": "web-1-net1"}},
    ]
    assert made["spec"]["schedulingGates"] == [{"name": "Network"}]
    assert made["spec"]["workloadRef"] == {"name": "web", "uid": objects.WORKLOAD_UID}


def test_a_pod_is_the_templates_with_one_opt_in_label_and_names_no_attachment() -> None:
    """R29: a provider stamps one label and nothing else."""
    pod = render.pod(Instance.model_validate(objects.instance(0)))
    assert pod["spec"] == {"containers": [{"name": "web"}]}
    assert pod["metadata"]["labels"]["networking.datumapis.com/inject-interfaces"] == "true"
    assert pod["metadata"]["labels"]["app"] == "web"
    assert pod["metadata"]["annotations"] == {}
    reference = pod["metadata"]["ownerReferences"][0]
    assert (reference["kind"], reference["uid"], reference["controller"]) == ("Instance", "i-0", True)


def test_lifting_the_gate_records_the_claims_and_keeps_gates_of_others() -> None:
    raw = objects.instance(0, gates=("Network", "Quota"), claim_uid=None)
    write = render.lift_gate(raw, {"web-0-eth0": "c-1"})
    test, interfaces, gates = write.ops
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert interfaces["value"] == [{"name": "eth0", "claimRef": {"name": "web-0-eth0", "uid": "c-1"}}]
    assert gates["value"] == [{"name": "Quota"}]


def test_an_instance_is_deleted_in_the_foreground_by_its_uid() -> None:
    """Its Pod goes first; a namesake is never deleted in its place."""
    write = render.write(WORKLOAD, "h", RemoveInstance(0, "web-0", "i-0", reasons.scaled_down(0)))
    assert isinstance(write, Delete)
    assert (write.key, write.uid, write.propagation, write.guarded) == (("shop", "web-0"), "i-0", "Foreground", True)


def test_a_claim_is_deleted_by_its_uid() -> None:
    write = render.write(WORKLOAD, "h", RemoveClaim(0, "web-0-eth0", "c-1"))
    assert isinstance(write, Delete)
    assert (write.key, write.uid) == (("shop", "web-0-eth0"), "c-1")


@pytest.mark.parametrize("step", [MakeClaim(0, "net1", "web-0-net1"), MakeInstance(0, "web-0")])
def test_a_create_of_what_is_there_is_no_error(step: MakeClaim | MakeInstance) -> None:
    write = render.write(WORKLOAD, "h", step)
    assert isinstance(write, Create)
    assert write.ok_if_exists


@pytest.mark.parametrize("step", [AdoptClaim(0, "web-0-eth0", "c-1"), AdoptInstance(0, "web-0", "i-0")])
def test_adoption_names_the_very_object_and_the_owner(step: AdoptClaim | AdoptInstance) -> None:
    write = render.write(WORKLOAD, "h", step)
    assert isinstance(write, Apply)
    assert write.obj["metadata"]["uid"] == step.uid
    assert write.obj["metadata"]["ownerReferences"][0]["uid"] == objects.WORKLOAD_UID


def test_long_names_become_valid_labels_and_objects() -> None:
    raw = objects.workload()
    raw["metadata"]["name"] = "w" * 240
    workload = Workload.model_validate(raw)
    name = identity.claim_name(workload.name, 999, "eth0")
    claim = render.claim(workload, MakeClaim(999, "eth0", name))
    assert identity.is_object_name(claim["metadata"]["name"])
    assert all(len(value) <= 63 for value in claim["metadata"]["labels"].values())


@pytest.mark.parametrize(
    ("error", "is_refusal"),
    [
        (Forbidden("no"), True),
        (Invalid("no"), True),
        (ServerError("failed calling webhook"), True),
        (ApiError("bad", status=400), True),
        (Conflict("x"), False),
        (Lost("x"), False),
        (Throttled("x"), False),
    ],
)
def test_a_refusal_is_told_from_a_fault_that_is_simply_tried_again(error: ApiError, is_refusal: bool) -> None:
    assert pods.is_refusal(error) == is_refusal


def test_the_webhooks_machine_readable_reason_is_the_instances() -> None:
    """spec/vpc.md: details.causes[].reason."""
    error = Forbidden("denied: not prepared", details={"causes": [{"reason": "InterfaceNotPrepared", "message": "m"}]})
    assert pods.refused(error) == reasons.Refusal("InterfaceNotPrepared", "denied: not prepared")
    assert pods.refused(Forbidden("denied")).reason == reasons.POD_REFUSED
    assert pods.refused(Invalid("spec.x", details={"causes": [{"reason": "FieldValueInvalid"}]})).reason == "PodInvalid"


def test_a_used_up_quota_has_its_own_reason() -> None:
    assert reasons.create_refused("claim", "forbidden: exceeded quota: claims").reason == reasons.QUOTA_EXCEEDED
    assert reasons.create_refused("claim", "forbidden: no").reason == reasons.CREATE_REFUSED
