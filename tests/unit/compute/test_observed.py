"""What compute makes of what is stored: whose objects are whose, and which slots there are."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from netclaim.api import resources
from netclaim.api.compute import Workload
from netclaim.kube.store import Store
from nso.compute import observed
from nso.compute.observed import Stores, template_hash
from nso.compute.slots import HeldClaim, Ownership, PodState, View
from tests.unit.compute import objects
from tests.unit.compute.objects import Raw


def stores(*, workloads: list[Raw], instances: list[Raw] = [], claims: list[Raw] = [], pods: list[Raw] = []) -> Stores:  # noqa: B006
    made = Stores(
        workloads=Store(resources.WORKLOADS),
        instances=Store(resources.INSTANCES),
        claims=Store(resources.CLAIMS),
        pods=Store(resources.PODS),
    )
    made.add_indexes()
    for store, listed in (
        (made.workloads, workloads),
        (made.instances, instances),
        (made.claims, claims),
        (made.pods, pods),
    ):
        for raw in listed:
            store.put(raw)
    return made


def view(workload: Raw, **listed: list[Raw]) -> View:
    return stores(workloads=[workload], **listed).view(Workload.model_validate(workload))


def test_every_desired_slot_is_there_and_every_other_that_has_anything() -> None:
    seen = view(
        objects.workload(replicas=2),
        instances=[objects.instance(5)],
        claims=[objects.claim(3)],
        pods=[objects.pod(0), objects.pod(5)],
    )
    assert [slot.ordinal for slot in seen.slots] == [0, 1, 3, 5]
    assert [slot.pod for slot in seen.slots] == [
        PodState.OF_INSTANCE,
        PodState.NONE,
        PodState.NONE,
        PodState.OF_INSTANCE,
    ]
    assert seen.slots[0].wanted == {"eth0": "web-0-eth0"}
    assert seen.claims["web-3-eth0"] == HeldClaim("web-3-eth0", "c-1", ordinal=3, template="eth0")


def test_an_instance_is_read_with_the_claims_that_it_started_with() -> None:
    raw = objects.instance(0, conditions=[objects.condition("Ready")], firstReadyTime="2026-01-01T00:00:00Z")
    held = view(objects.workload(), instances=[raw]).slots[0].instance
    assert held is not None
    assert held.claims == {"web-0-eth0": "c-1"}
    assert (held.started, held.ready, held.was_ready, held.going) == (True, True, True, False)
    gated = (
        view(objects.workload(), instances=[objects.instance(0, gates=("Network",), claim_uid=None)]).slots[0].instance
    )
    assert gated is not None
    assert gated.claims == {"web-0-eth0": None}
    assert (gated.started, gated.ready, gated.was_ready) == (False, False, False)


def _owned_by(reference: Raw | None, **labels: str) -> Raw:
    raw = objects.claim(0)
    raw["metadata"]["ownerReferences"] = [reference] if reference else []
    if labels.get("labels") == "none":
        raw["metadata"]["labels"] = {}
    return raw


@pytest.mark.parametrize(
    ("raw", "ownership", "owner"),
    [
        (_owned_by(objects.owner()), Ownership.OURS, ""),
        (_owned_by(None), Ownership.ORPHAN, ""),
        (_owned_by(None, labels="none"), Ownership.FOREIGN, ""),
        (_owned_by(objects.owner(uid="w-old")), Ownership.LEFTOVER, ""),
        (_owned_by(objects.owner(name="other", uid="w-2")), Ownership.FOREIGN, "Workload other"),
        (_owned_by(objects.owner("Deployment", "d", "d-1", "apps")), Ownership.FOREIGN, "Deployment d"),
    ],
)
def test_a_claim_of_a_slots_name_is_told_apart_by_its_owner(raw: Raw, ownership: Ownership, owner: str) -> None:
    """NameConflict only while the owner is there; one that is gone is waited for; an orphan is adopted."""
    other = objects.workload()
    other["metadata"].update(name="other", uid="w-2")
    seen = stores(workloads=[objects.workload(), other], claims=[raw])
    held = seen.view(Workload.model_validate(objects.workload())).claims["web-0-eth0"]
    assert (held.ownership, held.owner) == (ownership, owner)


def test_an_orphaned_instance_is_adopted_by_the_workload_that_it_names() -> None:
    raw = objects.instance(0)
    raw["metadata"]["ownerReferences"] = []
    held = view(objects.workload(), instances=[raw]).slots[0].instance
    assert held is not None
    assert held.ownership is Ownership.ORPHAN


def test_a_pod_without_an_owner_is_a_stray_until_it_goes() -> None:
    raw = objects.pod(0)
    raw["metadata"]["ownerReferences"] = []
    assert view(objects.workload(), pods=[raw]).slots[0].pod is PodState.STRAY
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert view(objects.workload(), pods=[raw]).slots[0].pod is PodState.OF_INSTANCE


@pytest.mark.parametrize("ordinal", ["", "x", "-1", "1.5", "99999", "\u0661"])
def test_a_label_that_says_no_slot_makes_none(ordinal: str) -> None:
    """A label is user input."""
    raw = objects.claim(0)
    raw["metadata"]["labels"]["compute.datumapis.com/ordinal"] = ordinal
    raw["metadata"]["name"] = "odd"
    assert [slot.ordinal for slot in view(objects.workload(replicas=1), claims=[raw]).slots] == [0]


def test_objects_lead_to_the_keys_they_concern() -> None:
    seen = stores(workloads=[objects.workload()], instances=[objects.instance(0)])
    assert list(seen.workloads_of_instance(objects.instance(4))) == [("shop", "web")]
    assert list(seen.workloads_of_labelled(objects.claim(4))) == [("shop", "web")]
    assert list(seen.workloads_of_labelled({"metadata": {"name": "x", "namespace": "shop"}})) == []
    assert list(seen.instances_of_claim(objects.claim(0))) == [("shop", "web-0")]
    assert list(seen.instances_of_claim(objects.claim(1))) == []


def test_a_workload_with_a_long_name_finds_its_objects_by_the_cut_label() -> None:
    name = "w" * 100
    raw = objects.workload()
    raw["metadata"]["name"] = name
    seen = stores(workloads=[raw])
    label = next(iter(observed.workload_label(raw)))[1]  # type: ignore[index]
    labelled = {"metadata": {"name": "c", "namespace": "shop", "labels": {"compute.datumapis.com/workload": label}}}
    assert list(seen.workloads_of_labelled(labelled)) == [("shop", name)]


def _hash(**spec: Any) -> str:
    return template_hash(Workload.model_validate(objects.workload(**spec)))


def test_the_hash_follows_the_pod_template_and_the_set_of_interfaces_alone() -> None:
    changed = deepcopy(objects.workload()["spec"]["template"])
    changed["spec"]["containers"][0]["image"] = "x"
    two = [objects.claim_template("eth0"), objects.claim_template("net1")]
    assert _hash() == _hash(replicas=9, paused=True, maxUnavailable=4)
    assert len({_hash(), _hash(template=changed), _hash(networkInterfaceClaimTemplates=two)}) == 3


def test_pods_are_kept_small() -> None:
    raw = objects.pod(0)
    raw["spec"]["containers"] = [{"name": "web", "env": [{"name": "A", "value": "x" * 1000}]}]
    raw["status"]["hostIP"] = "10.0.0.1"
    kept = observed.slim_pod(raw)
    assert kept["spec"] == {"nodeName": "node-1"}
    assert set(kept["status"]) == {"phase", "conditions"}
    assert kept["metadata"] == raw["metadata"]


def test_a_claim_is_live_when_it_is_ours_and_stays() -> None:
    held = HeldClaim("c", "u")
    assert held.live
    assert not replace(held, going=True).live
    assert not replace(held, ownership=Ownership.ORPHAN).live
