"""What instances and workloads say about themselves (R4, R5, R12)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from netclaim.api.compute import InstanceInterface, Workload
from netclaim.api.conditions import condition, message_of, reason_of, status_of
from netclaim.api.meta import ObjectRef
from netclaim.kube.writes import ApplyStatus
from nso.compute import claims, pods, reasons, status
from nso.compute.claims import Interface
from nso.compute.reasons import Refusal
from nso.compute.slots import HeldInstance, Slot, View
from tests.unit.compute import objects
from tests.unit.compute.objects import Raw

NOW = datetime(2026, 1, 1, 0, 10, tzinfo=UTC)
POD_WHY = Refusal("PodPending", "Pod web-0 is pending.")


def interface(raw: Raw | None, uid: str | None = "c-1") -> Interface:
    wanted = {"name": "eth0", "claimRef": {"name": "web-0-eth0"} | ({"uid": uid} if uid else {})}
    return Interface(InstanceInterface.model_validate(wanted), raw)


def said(write: ApplyStatus, kind: str) -> tuple[str | None, str, str]:
    raw = {"status": write.status}
    return status_of(raw, kind), reason_of(raw, kind), message_of(raw, kind)


def of_instance(raw_claim: Raw | None, pod: Raw | None, why: Refusal | None, raw: Raw | None = None) -> ApplyStatus:
    return status.of_instance(raw or objects.instance(), (interface(raw_claim),), pod, why, NOW)


def test_ready_needs_the_pod_and_the_claims() -> None:
    ready = of_instance(objects.ready_claim(), objects.pod(), None)
    assert said(ready, "Ready") == ("True", "Ready", "")
    assert said(ready, "Available") == ("True", "PodReady", "")
    assert said(ready, "Programmed") == ("True", "Programmed", "")
    assert ready.status["podRef"] == {"name": "web-0", "uid": "p-0"}
    assert ready.status["node"] == "node-1"
    assert ready.status["firstReadyTime"] == "2026-01-01T00:10:00Z"


def test_the_first_ready_time_never_changes_and_survives_what_comes() -> None:
    raw = objects.instance(0, firstReadyTime="2025-01-01T00:00:00Z")
    for pod, why in ((objects.pod(), None), (None, POD_WHY)):
        assert of_instance(objects.ready_claim(), pod, why, raw).status["firstReadyTime"] == "2025-01-01T00:00:00Z"


def test_before_it_was_ready_there_is_no_first_ready_time() -> None:
    assert "firstReadyTime" not in of_instance(objects.ready_claim(), objects.pod(), POD_WHY).status


def test_a_network_that_is_why_speaks_in_the_claims_own_words() -> None:
    """R12."""
    refused = objects.claim(0, objects.condition("Ready", "False", "AddressPoolExhausted", "pool p is full (4/4)"))
    write = of_instance(refused, None, Refusal("Gated", "x"))
    assert said(write, "Ready") == ("False", "AddressPoolExhausted", "pool p is full (4/4)")


def test_a_pod_that_is_why_speaks_when_the_network_is_prepared() -> None:
    waiting = objects.claim(
        0,
        *(objects.condition(kind) for kind in ("Bound", "Allocated", "Prepared")),
        objects.condition("Ready", "False", "NotProgrammed", "no data plane yet"),
    )
    assert said(of_instance(waiting, None, POD_WHY), "Ready")[1] == "PodPending"
    assert said(of_instance(waiting, objects.pod(), None), "Ready")[1] == "NotProgrammed"


def test_a_network_fault_under_a_pod_that_is_not_ready_is_the_reason() -> None:
    lost = objects.claim(0, objects.condition("Ready", "False", "AddressAllocationMissing", "10.0.0.2 is nobody's"))
    assert said(of_instance(lost, objects.pod(), POD_WHY), "Ready")[1] == "AddressAllocationMissing"


@pytest.mark.parametrize(
    ("raw", "uid", "reason"),
    [
        (None, "c-1", reasons.AWAITING_CLAIM),
        (objects.claim(), "c-1", reasons.AWAITING_NETWORK),
        (objects.ready_claim(), "c-2", reasons.CLAIM_GONE),
        (
            {**objects.ready_claim(), "metadata": {**objects.claim()["metadata"], "deletionTimestamp": "t"}},
            "c-1",
            reasons.CLAIM_GOING,
        ),
    ],
)
def test_a_claim_that_is_no_claim_is_the_reason(raw: Raw | None, uid: str, reason: str) -> None:
    why = claims.refusal([interface(raw, uid)])
    assert why is not None
    assert why.reason == reason


def test_a_namesake_of_somebody_else_is_no_claim_and_an_orphan_still_is_one() -> None:
    ours, other = ObjectRef(name="web", uid=objects.WORKLOAD_UID), ObjectRef(name="other", uid="w-2")
    assert claims.usable(objects.claim(), ours) is not None
    assert claims.usable(objects.claim(), other) is None
    assert claims.usable(None, ours) is None
    orphan = objects.claim()
    orphan["metadata"]["ownerReferences"] = []
    assert claims.usable(orphan, ours) is not None
    assert claims.usable(orphan, other) is None


@pytest.mark.parametrize("missing", claims.GATING)
def test_a_pod_needs_bound_allocated_and_prepared_but_not_programmed(missing: str) -> None:
    """R31."""
    kinds = [kind for kind in claims.GATING if kind != missing]
    assert not interface(objects.claim(0, *(objects.condition(kind) for kind in kinds))).is_prepared
    assert interface(objects.claim(0, *(objects.condition(kind) for kind in claims.GATING))).is_prepared


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], "Unknown"),
        ([objects.condition("Programmed", "Unknown")], "Unknown"),
        ([objects.condition("Programmed", "False", "Detached")], "False"),
        ([objects.condition("Programmed")], "True"),
    ],
)
def test_programmed_is_what_the_claims_say(conditions: list[Raw], expected: str) -> None:
    assert claims.programmed([interface(objects.claim(0, *conditions))])[0] == expected


def test_the_interfaces_status_is_the_claims_with_the_addresses_that_answer() -> None:
    """R3, R4: networkIP is bare and of the primary family, wherever it stands in the list."""
    listed = [
        {"family": "IPv4", "address": "10.128.0.2/32", "primary": False},
        {"family": "IPv6", "address": "fd20:1000:0:1:0:1::/96", "primary": True},
    ]
    external = [{"family": "IPv4", "address": "198.51.100.11", "class": "public"}]
    raw = objects.ready_claim(0, addresses=listed, externalAddresses=external, networkInterfaceRef={"name": "n"})
    made = claims.mirrored(interface(raw))
    assert made["addresses"] == listed
    assert made["externalAddresses"] == external
    assert made["networkInterfaceRef"] == {"name": "n"}
    assert made["assignments"] == {"networkIP": "fd20:1000:0:1:0:1:0:1", "externalIP": "198.51.100.11"}
    assert [one["type"] for one in made["conditions"]] == sorted(one["type"] for one in made["conditions"])


def test_a_claim_without_addresses_has_no_assignments() -> None:
    assert claims.mirrored(interface(objects.claim())) == {"name": "eth0", "conditions": []}


def test_without_a_pod_provider_the_network_alone_decides() -> None:
    write = of_instance(objects.ready_claim(), None, reasons.no_pod_provider())
    assert said(write, "Ready")[0] == "True"
    assert said(write, "Available")[:2] == ("Unknown", "NoPodProvider")
    write = of_instance(objects.claim(), None, reasons.no_pod_provider())
    assert said(write, "Ready")[:2] == ("False", "AwaitingNetwork")


def held(ordinal: int, *, ready: bool, going: bool = False, template_hash: str = "h") -> HeldInstance:
    return HeldInstance(f"web-{ordinal}", f"i-{ordinal}", ordinal, template_hash, {}, going=going, ready=ready)


def of_workload(*instances: HeldInstance, replicas: int = 2, waiting: dict[int, Refusal] | None = None) -> ApplyStatus:
    raw = objects.workload(replicas=replicas)
    by_ordinal = {one.ordinal: one for one in instances}
    ordinals = sorted({*range(replicas), *by_ordinal})
    slots = tuple(Slot(ordinal, f"web-{ordinal}", {}, by_ordinal.get(ordinal)) for ordinal in ordinals)
    listed = {("shop", f"web-{one.ordinal}"): objects.instance(one.ordinal) for one in instances}
    view = View(replicas, "h", slots, {})
    return status.of_workload(raw, Workload.model_validate(raw), view, listed, waiting or {})


def test_a_workload_counts_its_instances() -> None:
    write = of_workload(held(0, ready=True), held(1, ready=False, template_hash="old"), held(2, ready=True), replicas=2)
    counted = {name: write.status[name] for name in ("replicas", "readyReplicas", "updatedReplicas")}
    assert counted == {"replicas": 3, "readyReplicas": 1, "updatedReplicas": 1}
    assert write.status["observedGeneration"] == 3
    assert write.status["selector"] == "compute.datumapis.com/workload=web"


def test_a_workload_is_available_when_every_slot_is_ready() -> None:
    assert said(of_workload(held(0, ready=True), held(1, ready=True)), "Available") == (
        "True",
        "AllReady",
        "2 of 2 instances are ready.",
    )
    assert said(of_workload(replicas=0), "Available")[:2] == ("True", "ScaledToZero")


def test_a_workload_names_the_first_slot_that_is_not_ready_and_why() -> None:
    waiting = {1: reasons.name_conflict("NetworkInterfaceClaim", "web-1-eth0", "Pod x")}
    kind, reason, message = said(of_workload(held(0, ready=True), waiting=waiting), "Available")
    assert (kind, reason) == ("False", "NameConflict")
    assert message.startswith("1 of 2 instances are ready. web-1: NameConflict: NetworkInterfaceClaim web-1-eth0")


def test_every_condition_speaks_of_the_generation_that_was_seen() -> None:
    write = of_instance(objects.ready_claim(), objects.pod(), None)
    raw = {"status": write.status}
    assert all((condition(raw, kind) or {})["observedGeneration"] == 2 for kind in ("Ready", "Available", "Programmed"))
    assert set(write.status) <= status.INSTANCE_OWNS.fields | {"conditions"}


# -- Pods ----------------------------------------------------------------------------------------------------------


def test_no_pod_is_made_and_a_ready_one_is_kept() -> None:
    assert pods.decide("web-0", "i-0", None, NOW) == pods.Make()
    assert pods.decide("web-0", "i-0", objects.pod(), NOW) == pods.Keep(None)


@pytest.mark.parametrize(
    ("pod", "reason", "text"),
    [
        (objects.pod(phase="Pending", ready=False), "PodPending", "Pod web-0 is pending."),
        (
            objects.pod(
                phase="Pending",
                conditions=[objects.condition("PodScheduled", "False", "Unschedulable", "0/2 nodes are available")],
            ),
            "PodPending",
            "0/2 nodes are available",
        ),
        (
            objects.pod(
                ready=False,
                containerStatuses=[
                    {"name": "ok", "state": {"running": {}}},
                    {"name": "web", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}},
                ],
            ),
            "PodNotReady",
            "container web: ImagePullBackOff: no such image",
        ),
    ],
)
def test_a_pod_that_is_not_ready_says_what_it_lacks(pod: Raw, reason: str, text: str) -> None:
    step = pods.decide("web-0", "i-0", pod, NOW)
    assert isinstance(step, pods.Keep)
    assert step.why is not None
    assert step.why.reason == reason
    assert text in step.why.message


def test_a_pod_that_ended_is_replaced_and_one_that_ended_at_once_a_little_later() -> None:
    """T32: a Pod that fails at once is not made in a tight loop."""
    ended = objects.pod(phase="Failed", reason="Evicted")
    step = pods.decide("web-0", "i-0", ended, NOW)
    assert isinstance(step, pods.Replace)
    assert (step.uid, step.after) == ("p-0", 0.0)
    assert "has failed (Evicted)" in step.why.message
    born = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC)
    young = pods.decide("web-0", "i-0", ended, born)
    assert isinstance(young, pods.Replace)
    assert young.after == pods.RESTART_PAUSE - 1


def test_a_pod_of_the_last_instance_is_waited_for_and_a_strangers_is_a_conflict() -> None:
    old = objects.pod()
    old["metadata"]["ownerReferences"] = [objects.owner("Instance", "web-0", "i-old")]
    step = pods.decide("web-0", "i-0", old, NOW)
    assert isinstance(step, pods.Wait)
    assert step.why.reason == reasons.POD_GOING
    stranger = objects.pod()
    stranger["metadata"]["ownerReferences"] = [objects.owner("ReplicaSet", "r", "r-1", "apps")]
    step = pods.decide("web-0", "i-0", stranger, NOW)
    assert isinstance(step, pods.Wait)
    assert step.why.reason == reasons.NAME_CONFLICT
    assert "ReplicaSet r" in step.why.message
    going = objects.pod()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    step = pods.decide("web-0", "i-0", going, NOW)
    assert isinstance(step, pods.Wait)
    assert step.why.reason == reasons.POD_GOING
