"""The slot planner: every rule of spec/compute.md, and what holds whatever happens in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nso.compute import reasons, slots
from nso.compute.slots import HeldClaim, MakeClaim, MakeInstance, Ownership, PodState, RemoveClaim, RemoveInstance
from tests.unit.compute.model import Model, claim_name, instance_name


def running(replicas: int, **changes: object) -> Model:
    """A workload at rest with all instances ready."""
    model = Model(replicas=replicas, **changes)  # type: ignore[arg-type]
    model.settle()
    return model


def planned(model: Model) -> list[str]:
    return [str(step) for step in slots.plan(model.view()).steps]


def test_an_empty_slot_gets_its_claims_first_and_then_its_instance() -> None:
    """R1."""
    assert planned(Model(replicas=2, templates=("eth0", "net1"))) == [
        "slot 0: claim web-0-eth0",
        "slot 0: claim web-0-net1",
        "slot 0: instance web-0",
        "slot 1: claim web-1-eth0",
        "slot 1: claim web-1-net1",
        "slot 1: instance web-1",
    ]


def test_at_rest_nothing_is_planned() -> None:
    """T32."""
    assert planned(running(3)) == []


def test_a_replacement_waits_for_the_pod_and_keeps_the_claims() -> None:
    """R7."""
    model = running(1)
    model.delete_instance("web-0", background=True)
    plan = slots.plan(model.view())
    assert plan.steps == []
    assert plan.waiting[0].reason == reasons.BEING_REPLACED
    model.collect("web-0")
    assert planned(model) == ["slot 0: instance web-0"]


def test_scaling_down_takes_the_highest_first_and_claims_when_nothing_runs_on_them() -> None:
    model = running(3)
    model.replicas = 1
    assert planned(model) == [
        "slot 2: remove instance web-2 (ScaledDown)",
        "slot 1: remove instance web-1 (ScaledDown)",
    ]
    for step in slots.plan(model.view()).steps:
        model.apply(step)
    assert planned(model) == []
    model.collect("web-2")
    assert planned(model) == ["slot 2: remove claim web-2-eth0"]


def test_ordered_scaling_down_takes_one_at_a_time() -> None:
    model = running(3, ordered=True)
    model.replicas = 0
    assert planned(model) == ["slot 2: remove instance web-2 (ScaledDown)"]


def test_ordered_filling_waits_for_all_lower_slots() -> None:
    model = Model(replicas=3, ordered=True)
    assert planned(model) == ["slot 0: claim web-0-eth0", "slot 0: instance web-0"]
    plan = slots.plan(model.view())
    assert {slot: why.reason for slot, why in plan.waiting.items()} == {
        1: "AwaitingLowerOrdinal",
        2: "AwaitingLowerOrdinal",
    }


@pytest.mark.parametrize("loss", ["gone", "going", "another", "foreign"])
def test_a_running_instance_whose_claim_is_lost_is_removed(loss: str) -> None:
    """A claim that is going, or has another uid than the one it started with, is not a claim."""
    model = running(1)
    held = model.claims["web-0-eth0"]
    if loss == "gone":
        del model.claims["web-0-eth0"]
    elif loss == "going":
        model.delete_claim("web-0-eth0")
    elif loss == "another":
        model.claims["web-0-eth0"] = replace(held, uid="u-other")
    else:
        model.claims["web-0-eth0"] = replace(held, ownership=Ownership.FOREIGN)
    plan = slots.plan(model.view())
    assert [type(step) for step in plan.steps] == [RemoveInstance]
    assert plan.waiting[0].reason == reasons.CLAIM_GONE


def test_a_lost_claim_is_made_anew_only_after_the_instance_is_gone() -> None:
    model = running(1)
    model.delete_claim("web-0-eth0")
    model.apply(slots.plan(model.view()).steps[0])
    model.collect("web-0")
    plan = slots.plan(model.view())
    assert (plan.steps, plan.waiting[0].reason) == ([], reasons.CLAIM_GOING)
    model.release("web-0-eth0")
    assert planned(model) == ["slot 0: claim web-0-eth0", "slot 0: instance web-0"]


def test_an_instance_that_has_not_started_keeps_its_place_when_a_claim_is_made_anew() -> None:
    model = Model()
    for step in slots.plan(model.view()).steps:
        model.apply(step)
    del model.claims["web-0-eth0"]
    assert planned(model) == ["slot 0: claim web-0-eth0"]


@pytest.mark.parametrize(
    ("ownership", "going", "reason"),
    [
        (Ownership.FOREIGN, False, reasons.NAME_CONFLICT),
        (Ownership.FOREIGN, True, reasons.NAME_CONFLICT),
        (Ownership.LEFTOVER, False, reasons.CLAIM_GOING),
        (Ownership.ORPHAN, True, reasons.CLAIM_GOING),
        (Ownership.OURS, True, reasons.CLAIM_GOING),
    ],
)
def test_a_claim_that_cannot_be_used_keeps_the_slot_empty_with_a_reason(
    ownership: Ownership, going: bool, reason: str
) -> None:
    model = Model(claims={"web-0-eth0": HeldClaim("web-0-eth0", "u", going=going, ownership=ownership, owner="Pod x")})
    plan = slots.plan(model.view())
    assert plan.steps == []
    assert plan.waiting[0].reason == reason


@pytest.mark.parametrize(
    ("ownership", "reason"),
    [(Ownership.FOREIGN, reasons.NAME_CONFLICT), (Ownership.LEFTOVER, reasons.AWAITING_COLLECTION)],
)
def test_an_instance_of_another_owner_is_never_touched(ownership: Ownership, reason: str) -> None:
    model = running(1)
    model.instances["web-0"] = replace(model.instances["web-0"], ownership=ownership, template_hash="other")
    plan = slots.plan(model.view())
    assert plan.steps == []
    assert plan.waiting[0].reason == reason
    model.replicas = 0
    assert planned(model) == []


def test_orphans_are_adopted_and_nothing_is_replaced() -> None:
    model = running(2)
    model.orphan()
    before = {name: one.uid for name, one in model.instances.items()}
    assert planned(model) == ["slot 0: adopt instance web-0", "slot 1: adopt instance web-1"]
    model.settle()
    assert {name: one.uid for name, one in model.instances.items()} == before
    assert all(one.live for one in model.claims.values())


def test_orphans_beyond_the_replicas_are_adopted_and_removed() -> None:
    model = running(2)
    model.orphan()
    model.replicas = 1
    model.settle()
    assert set(model.instances) == {"web-0"}
    assert set(model.claims) == {"web-0-eth0"}


def test_a_pod_without_an_owner_keeps_the_slot_and_is_named() -> None:
    view = Model().view()
    plan = slots.plan(replace(view, slots=(replace(view.slots[0], pod=PodState.STRAY),)))
    assert plan.steps == []
    assert "Pod web-0 has lost its owner" in plan.waiting[0].message


def test_a_new_template_rolls_from_the_highest_slot_within_the_budget() -> None:
    model = running(4, max_unavailable=2)
    model.template_hash = "h2"
    assert planned(model) == [
        "slot 3: remove instance web-3 (TemplateChanged)",
        "slot 2: remove instance web-2 (TemplateChanged)",
    ]


def test_what_is_not_ready_uses_the_budget_first() -> None:
    """Replacing what serves nobody costs nothing more."""
    model = running(3)
    model.set_ready("web-0", ready=False)
    model.template_hash = "h2"
    assert planned(model) == ["slot 0: remove instance web-0 (TemplateChanged)"]


def test_what_never_was_ready_is_replaced_at_once_and_does_not_hold_up_the_cure() -> None:
    model = running(3)
    for name in ("web-1", "web-2"):
        model.instances[name] = replace(model.instances[name], ready=False, was_ready=False)
    model.template_hash = "h2"
    assert planned(model) == [
        "slot 2: remove instance web-2 (TemplateChanged)",
        "slot 1: remove instance web-1 (TemplateChanged)",
    ]


def test_a_roll_waits_for_the_new_instance_to_be_ready() -> None:
    model = running(3)
    model.template_hash = "h2"
    model.apply(slots.plan(model.view()).steps[0])
    assert planned(model) == []
    model.collect("web-2")
    model.apply(slots.plan(model.view()).steps[0])
    model.start("web-2")
    assert planned(model) == []
    model.set_ready("web-2", ready=True)
    assert planned(model) == ["slot 1: remove instance web-1 (TemplateChanged)"]


def test_a_paused_workload_does_not_roll() -> None:
    model = running(2, paused=True)
    model.template_hash = "h2"
    assert planned(model) == []


def test_claims_of_a_removed_template_go_after_the_roll() -> None:
    model = running(2, templates=("eth0", "net1"))
    model.templates, model.template_hash = ("net1",), "h2"
    assert not any(isinstance(step, RemoveClaim) for step in slots.plan(model.view()).steps)
    model.settle()
    assert set(model.claims) == {"web-0-net1", "web-1-net1"}


def test_a_claim_whose_labels_say_no_slot_is_left_alone() -> None:
    """Nobody parses a name to learn what an object is for."""
    model = running(1)
    model.claims["web-9-eth0"] = HeldClaim("web-9-eth0", "u", ordinal=None, template=None)
    assert planned(model) == []


@settings(max_examples=60, stateful_step_count=30, deadline=None)
class SlotsMachine(RuleBasedStateMachine):
    """Anything in any order: no step is ever wrong (the model asserts), and at rest all is as it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.model = Model(replicas=2)
        self.replaced_while_ready: set[str] = set()

    @rule()
    def reconcile(self) -> None:
        model = self.model
        ready = {name for name, one in model.instances.items() if one.ready and not one.going}
        desired = {instance_name(ordinal) for ordinal in range(model.replicas)}
        up_before = len(ready & desired)
        plan = slots.plan(model.view())
        rolled = {
            step.name
            for step in plan.steps
            if isinstance(step, RemoveInstance) and step.why.reason == reasons.TEMPLATE_CHANGED and step.name in ready
        }
        if rolled:
            assert not model.paused
            assert model.replicas - (up_before - len(rolled)) <= model.max_unavailable
        for step in plan.steps:
            model.apply(step)

    @rule(replicas=st.integers(0, 4))
    def scale(self, replicas: int) -> None:
        self.model.replicas = replicas

    @rule(number=st.integers(1, 3))
    def change_template(self, number: int) -> None:
        self.model.template_hash = f"h{number}/{','.join(self.model.templates)}"

    @rule(templates=st.sampled_from([("eth0",), ("eth0", "net1"), ("net1",)]))
    def change_interfaces(self, templates: tuple[str, ...]) -> None:
        self.model.templates = templates
        self.model.template_hash = f"{self.model.template_hash.split('/')[0]}/{','.join(templates)}"

    @rule(ordered=st.booleans(), budget=st.integers(1, 3), paused=st.booleans())
    def change_policy(self, ordered: bool, budget: int, paused: bool) -> None:
        self.model.ordered, self.model.max_unavailable, self.model.paused = ordered, budget, paused

    @precondition(lambda self: self.model.instances)
    @rule(data=st.data(), ready=st.booleans())
    def instance_starts_or_changes(self, data: st.DataObject, ready: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.model.instances)))
        self.model.start(name)
        self.model.set_ready(name, ready=ready)

    @precondition(lambda self: self.model.instances)
    @rule(data=st.data(), background=st.booleans())
    def somebody_deletes_an_instance(self, data: st.DataObject, background: bool) -> None:
        self.model.delete_instance(data.draw(st.sampled_from(sorted(self.model.instances))), background=background)

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data())
    def somebody_deletes_a_claim(self, data: st.DataObject) -> None:
        self.model.delete_claim(data.draw(st.sampled_from(sorted(self.model.claims))))

    @precondition(lambda self: self.model.pods)
    @rule(data=st.data())
    def a_pod_goes(self, data: st.DataObject) -> None:
        self.model.collect(data.draw(st.sampled_from(sorted(self.model.pods))))

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data())
    def a_claim_is_released(self, data: st.DataObject) -> None:
        self.model.release(data.draw(st.sampled_from(sorted(self.model.claims))))

    @rule()
    def the_workload_is_orphaned_and_made_again(self) -> None:
        self.model.orphan()

    @invariant()
    def no_pod_runs_on_a_claim_of_another_slot(self) -> None:
        for name, one in self.model.instances.items():
            assert name == instance_name(one.ordinal)
            assert all(claim.startswith(f"{name}-") for claim in one.claims)

    def teardown(self) -> None:
        """Left alone, it comes to rest with what was asked for and nothing else."""
        model = self.model
        model.paused = False
        model.settle()
        desired = {instance_name(ordinal) for ordinal in range(model.replicas)}
        claims = {claim_name(ordinal, template) for ordinal in range(model.replicas) for template in model.templates}
        assert set(model.instances) == desired
        assert set(model.pods) == desired
        assert set(model.claims) == claims
        assert all(one.ready and one.template_hash == model.template_hash for one in model.instances.values())
        for one in model.instances.values():
            assert one.claims == {name: model.claims[name].uid for name in one.claims}


TestSlotsMachine = SlotsMachine.TestCase


def test_steps_print_well() -> None:
    assert str(MakeClaim(0, "eth0", "web-0-eth0")) == "slot 0: claim web-0-eth0"
    assert str(MakeInstance(0, "web-0")) == "slot 0: instance web-0"


def test_steps_of_one_slot_stay_together_and_in_order() -> None:
    by_slot = list(slots.plan(Model(replicas=2).view()).by_slot())
    assert [[type(step) for step in steps] for steps in by_slot] == [[MakeClaim, MakeInstance]] * 2
