"""What a Workload's slots need next. Pure: from what is there to a list of steps.

A slot is an ordinal. It has one Instance and one claim per template, all owned by the Workload: replacing the instance
never touches the claims. The rules are those of spec/compute.md, "Slots".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from nso.compute import reasons
from nso.compute.reasons import Refusal


class Ownership(Enum):
    """Whose an object is that has a name of ours."""

    OURS = "ours"
    ORPHAN = "orphan"
    """Nobody's, and made for a workload of this name: it is adopted."""
    LEFTOVER = "leftover"
    """Of an owner that is gone: it is about to be collected."""
    FOREIGN = "foreign"
    """Somebody else's, who is still there: it is never touched."""


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A claim that is there. `ordinal` and `template` are those it was made for, None when it does not say."""

    name: str
    uid: str
    going: bool = False
    ownership: Ownership = Ownership.OURS
    owner: str = ""
    ordinal: int | None = None
    template: str | None = None

    @property
    def live(self) -> bool:
        """Whether an instance can use it."""
        return self.ownership is Ownership.OURS and not self.going


@dataclass(frozen=True, slots=True)
class HeldInstance:
    """An instance that is there.

    `claims` maps the names of its claims to the uid that it started with (None before it started).
    """

    name: str
    uid: str
    ordinal: int
    template_hash: str
    claims: Mapping[str, str | None]
    going: bool = False
    ownership: Ownership = Ownership.OURS
    owner: str = ""
    started: bool = False
    ready: bool = False
    was_ready: bool = False


class PodState(Enum):
    """What has the Pod name of a slot."""

    NONE = "none"
    OF_INSTANCE = "of an instance"
    """Of the slot's instance, or of one that is gone and takes its Pod along."""
    STRAY = "stray"
    """A Pod of ours that lost its owner; nobody will collect it."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One slot as it is. `wanted` maps template names to claim names, for the templates of now."""

    ordinal: int
    instance_name: str
    wanted: Mapping[str, str]
    instance: HeldInstance | None = None
    pod: PodState = PodState.NONE


@dataclass(frozen=True, slots=True)
class View:
    """A Workload as it is: `slots` holds every desired slot and every other that has anything, ascending."""

    replicas: int
    template_hash: str
    slots: tuple[Slot, ...]
    claims: Mapping[str, HeldClaim]
    ordered: bool = False
    max_unavailable: int = 1
    paused: bool = False


@dataclass(frozen=True, slots=True)
class MakeClaim:
    """Create the claim of a slot for a template."""

    ordinal: int
    template: str
    name: str

    def __str__(self) -> str:
        return f"slot {self.ordinal}: claim {self.name}"


@dataclass(frozen=True, slots=True)
class MakeInstance:
    """Create the instance of a slot, of the template of now."""

    ordinal: int
    name: str

    def __str__(self) -> str:
        return f"slot {self.ordinal}: instance {self.name}"


@dataclass(frozen=True, slots=True)
class RemoveInstance:
    """Delete an instance; its Pod goes first."""

    ordinal: int
    name: str
    uid: str
    why: Refusal

    def __str__(self) -> str:
        return f"slot {self.ordinal}: remove instance {self.name} ({self.why.reason})"


@dataclass(frozen=True, slots=True)
class RemoveClaim:
    """Delete a claim that no slot wants any more."""

    ordinal: int
    name: str
    uid: str

    def __str__(self) -> str:
        return f"slot {self.ordinal}: remove claim {self.name}"


@dataclass(frozen=True, slots=True)
class AdoptInstance:
    """Take over an instance that lost its owner."""

    ordinal: int
    name: str
    uid: str

    def __str__(self) -> str:
        return f"slot {self.ordinal}: adopt instance {self.name}"


@dataclass(frozen=True, slots=True)
class AdoptClaim:
    """Take over a claim that lost its owner."""

    ordinal: int
    name: str
    uid: str

    def __str__(self) -> str:
        return f"slot {self.ordinal}: adopt claim {self.name}"


Step: TypeAlias = MakeClaim | MakeInstance | RemoveInstance | RemoveClaim | AdoptInstance | AdoptClaim


@dataclass(slots=True)
class Plan:
    """Steps by slot, in order, and why a slot that should run cannot be filled now."""

    steps: list[Step] = field(default_factory=list)
    waiting: dict[int, Refusal] = field(default_factory=dict)

    def by_slot(self) -> Iterator[list[Step]]:
        """The steps of each slot in order; nothing orders one slot against another in a plan."""
        slots: dict[int, list[Step]] = {}
        for step in self.steps:
            slots.setdefault(step.ordinal, []).append(step)
        yield from slots.values()


def plan(view: View) -> Plan:
    """What to do now. Steps of different slots may be carried out at once; the result is looked at again."""
    made = Plan()
    _Planner(view, made).run()
    return made


class _Planner:
    def __init__(self, view: View, made: Plan) -> None:
        self._view = view
        self._made = made
        self._desired = [slot for slot in view.slots if slot.ordinal < view.replicas]
        self._excess = [slot for slot in view.slots if slot.ordinal >= view.replicas]
        self._removed: set[int] = set()

    def run(self) -> None:
        lower_ready = True
        for slot in self._desired:
            if slot.instance is not None:
                self._keep(slot, slot.instance)
            elif self._view.ordered and not lower_ready:
                self._wait(slot, reasons.awaiting_lower(slot.instance_name))
            else:
                self._fill(slot)
            lower_ready = lower_ready and slot.instance is not None and _is_up(slot.instance)
        self._scale_down()
        if not self._view.paused:
            self._roll()
        self._drop_claims_of_removed_templates()

    # -- a slot that is to run -------------------------------------------------------------------------------------

    def _keep(self, slot: Slot, instance: HeldInstance) -> None:
        """The slot has an instance: is it ours, and are its claims still the ones it started with?"""
        if not self._is_ours(slot, instance):
            return
        if instance.going:
            self._wait(slot, reasons.being_replaced(instance.name))
            return
        if instance.started:
            self._keep_started(slot, instance)
            return
        templates = {name: template for template, name in slot.wanted.items()}
        for name in instance.claims:
            if name in templates:
                self._have_claim(slot, templates[name], name)

    def _fill(self, slot: Slot) -> None:
        """The slot is empty: claims first, then the instance, once nothing of the last one is left."""
        if slot.pod is PodState.OF_INSTANCE:
            self._wait(slot, reasons.being_replaced(slot.instance_name))
            return
        if slot.pod is PodState.STRAY:
            self._wait(slot, reasons.stray_pod(slot.instance_name))
            return
        have = [self._have_claim(slot, template, name) for template, name in slot.wanted.items()]
        if all(have):
            self._made.steps.append(MakeInstance(slot.ordinal, slot.instance_name))

    def _have_claim(self, slot: Slot, template: str, name: str) -> bool:
        """Whether the claim is there, or made by this plan."""
        held = self._view.claims.get(name)
        if held is None:
            self._made.steps.append(MakeClaim(slot.ordinal, template, name))
            return True
        if held.live:
            return True
        if held.ownership is Ownership.FOREIGN:
            self._wait(slot, reasons.name_conflict("NetworkInterfaceClaim", name, held.owner))
        elif held.ownership is Ownership.ORPHAN and not held.going:
            self._made.steps.append(AdoptClaim(slot.ordinal, name, held.uid))
        else:
            self._wait(slot, reasons.claim_going(name))
        return False

    def _is_ours(self, slot: Slot, instance: HeldInstance) -> bool:
        if instance.ownership is Ownership.OURS:
            return True
        if instance.ownership is Ownership.FOREIGN:
            self._wait(slot, reasons.name_conflict("Instance", instance.name, instance.owner))
        elif instance.ownership is Ownership.ORPHAN and not instance.going:
            self._made.steps.append(AdoptInstance(slot.ordinal, instance.name, instance.uid))
        else:
            self._wait(slot, reasons.awaiting_collection("Instance", instance.name))
        return False

    def _keep_started(self, slot: Slot, instance: HeldInstance) -> None:
        """A claim that is going, or is another one by uid, is not a claim: the instance is replaced, Pod first."""
        for name, uid in instance.claims.items():
            held = self._view.claims.get(name)
            same = held is not None and not held.going and uid in (None, held.uid)
            if held is not None and same and held.ownership is Ownership.ORPHAN:
                self._made.steps.append(AdoptClaim(slot.ordinal, name, held.uid))
            elif held is None or not same or held.ownership is not Ownership.OURS:
                self._remove(slot, instance, reasons.claim_gone(name))
                return

    # -- fewer slots -----------------------------------------------------------------------------------------------

    def _scale_down(self) -> None:
        """Highest first; all at once unless slots are ordered. A slot's claims go when nothing runs on them."""
        for slot in reversed(self._excess):
            instance = slot.instance
            if instance is not None and instance.ownership is Ownership.ORPHAN and not instance.going:
                self._made.steps.append(AdoptInstance(slot.ordinal, instance.name, instance.uid))
            elif instance is not None and instance.ownership is Ownership.OURS and not instance.going:
                self._remove(slot, instance, reasons.scaled_down(self._view.replicas))
            if self._view.ordered and (instance is not None or slot.pod is not PodState.NONE):
                break
        free = {slot.ordinal for slot in self._excess if slot.instance is None and slot.pod is PodState.NONE}
        for claim in self._view.claims.values():
            if claim.ordinal in free:
                self._give_up(claim)

    # -- another template ------------------------------------------------------------------------------------------

    def _roll(self) -> None:
        """From the highest ordinal, at most `max_unavailable` away at a time.

        What never was ready is replaced at once: it serves nobody, and must not hold up the template that cures it.
        """
        outdated = [instance for instance in self._standing() if self._is_outdated(instance)]
        for instance in outdated:
            if not instance.was_ready:
                self._remove_outdated(instance)
        outdated = [instance for instance in outdated if instance.was_ready]
        away = len(self._desired) - sum(
            1 for instance in self._standing() if instance.ready or self._is_outdated(instance)
        )
        for instance in (one for one in outdated if not one.ready):
            if away >= self._view.max_unavailable:
                return
            self._remove_outdated(instance)
            away += 1
        for instance in (one for one in outdated if one.ready):
            if away >= self._view.max_unavailable:
                return
            self._remove_outdated(instance)
            away += 1

    def _standing(self) -> list[HeldInstance]:
        """The instances of desired slots that stay as far as this plan knows, highest ordinal first."""
        return [
            slot.instance
            for slot in reversed(self._desired)
            if slot.instance is not None
            and slot.instance.ownership is Ownership.OURS
            and not slot.instance.going
            and slot.ordinal not in self._removed
        ]

    def _is_outdated(self, instance: HeldInstance) -> bool:
        return instance.template_hash != self._view.template_hash

    def _drop_claims_of_removed_templates(self) -> None:
        """After the roll: while an instance of the old template may still run, its claims stay."""
        standing = self._standing()
        if len(standing) < len(self._desired) or any(self._is_outdated(instance) for instance in standing):
            return
        wanted = {name for slot in self._desired for name in slot.wanted.values()}
        used = {name for instance in standing for name in instance.claims}
        for claim in self._view.claims.values():
            in_range = claim.ordinal is not None and claim.ordinal < self._view.replicas
            if in_range and claim.name not in wanted | used:
                self._give_up(claim)

    def _give_up(self, claim: HeldClaim) -> None:
        """Remove a claim that no slot wants; one that lost its owner is adopted first."""
        if claim.ordinal is None or claim.going:
            return
        if claim.ownership is Ownership.OURS:
            self._made.steps.append(RemoveClaim(claim.ordinal, claim.name, claim.uid))
        elif claim.ownership is Ownership.ORPHAN:
            self._made.steps.append(AdoptClaim(claim.ordinal, claim.name, claim.uid))

    # -- steps -----------------------------------------------------------------------------------------------------

    def _remove_outdated(self, instance: HeldInstance) -> None:
        slot = next(one for one in self._desired if one.ordinal == instance.ordinal)
        self._remove(slot, instance, reasons.template_changed(instance.name))

    def _remove(self, slot: Slot, instance: HeldInstance, why: Refusal) -> None:
        self._removed.add(slot.ordinal)
        self._made.steps.append(RemoveInstance(slot.ordinal, instance.name, instance.uid, why))
        if slot.ordinal < self._view.replicas:
            self._wait(slot, why)

    def _wait(self, slot: Slot, why: Refusal) -> None:
        self._made.waiting.setdefault(slot.ordinal, why)


def _is_up(instance: HeldInstance) -> bool:
    return instance.ready and not instance.going and instance.ownership is Ownership.OURS
