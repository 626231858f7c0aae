"""A small world for the slot planner: objects by name, and what an API server and a node would do to them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nso.compute import slots
from nso.compute.slots import (
    AdoptClaim,
    AdoptInstance,
    HeldClaim,
    HeldInstance,
    MakeClaim,
    MakeInstance,
    Ownership,
    PodState,
    RemoveClaim,
    RemoveInstance,
    Slot,
    View,
)


def instance_name(ordinal: int) -> str:
    return f"web-{ordinal}"


def claim_name(ordinal: int, template: str) -> str:
    return f"web-{ordinal}-{template}"


@dataclass
class Model:
    """Instances, claims and Pods by name. Deleting an instance takes its Pod along first (foreground)."""

    replicas: int = 1
    template_hash: str = "h1"
    templates: tuple[str, ...] = ("eth0",)
    ordered: bool = False
    max_unavailable: int = 1
    paused: bool = False
    instances: dict[str, HeldInstance] = field(default_factory=dict)
    claims: dict[str, HeldClaim] = field(default_factory=dict)
    pods: dict[str, str] = field(default_factory=dict)
    """Pod name -> uid of its instance."""
    runs_on: dict[str, set[str | None]] = field(default_factory=dict)
    """Pod name -> uids of the claims that it was started with."""
    counter: int = 0

    # -- what the planner sees and does ----------------------------------------------------------------------------

    def view(self) -> View:
        ordinals = {
            *range(self.replicas),
            *(one.ordinal for one in self.instances.values()),
            *(one.ordinal for one in self.claims.values() if one.ordinal is not None),
        }
        return View(
            replicas=self.replicas,
            template_hash=self.template_hash,
            slots=tuple(self._slot(ordinal) for ordinal in sorted(ordinals)),
            claims=dict(self.claims),
            ordered=self.ordered,
            max_unavailable=self.max_unavailable,
            paused=self.paused,
        )

    def _slot(self, ordinal: int) -> Slot:
        name = instance_name(ordinal)
        pod = PodState.OF_INSTANCE if name in self.pods else PodState.NONE
        wanted = {template: claim_name(ordinal, template) for template in self.templates}
        return Slot(ordinal, name, wanted, self.instances.get(name), pod)

    def apply(self, step: slots.Step) -> None:
        """What the API server does. Asserts that no step ever asks for what must never be."""
        match step:
            case MakeClaim():
                assert step.name not in self.claims
                self.claims[step.name] = HeldClaim(step.name, self._uid(), ordinal=step.ordinal, template=step.template)
            case MakeInstance():
                self._make_instance(step)
            case RemoveInstance():
                held = self.instances[step.name]
                assert held.uid == step.uid
                assert held.ownership is Ownership.OURS
                self.instances[step.name] = replace(held, going=True)
            case RemoveClaim():
                self._remove_claim(step)
            case AdoptInstance():
                held = self.instances[step.name]
                assert held.ownership is Ownership.ORPHAN
                self.instances[step.name] = replace(held, ownership=Ownership.OURS)
            case AdoptClaim():
                claim = self.claims[step.name]
                assert claim.ownership is Ownership.ORPHAN
                self.claims[step.name] = replace(claim, ownership=Ownership.OURS)

    def _make_instance(self, step: MakeInstance) -> None:
        """Never two instances of a slot, none before the last Pod is gone, none on a claim that is no claim."""
        assert step.name not in self.instances
        assert step.name not in self.pods
        assert step.ordinal < self.replicas
        names = [claim_name(step.ordinal, template) for template in self.templates]
        assert all(self.claims[name].live for name in names)
        self.instances[step.name] = HeldInstance(
            step.name, self._uid(), step.ordinal, self.template_hash, dict.fromkeys(names)
        )

    def _remove_claim(self, step: RemoveClaim) -> None:
        """Replacing an instance never touches its claims: only what no slot wants and nothing runs on may go."""
        held = self.claims[step.name]
        assert held.uid == step.uid
        assert held.ownership is Ownership.OURS
        is_wanted = step.ordinal < self.replicas and held.template in self.templates
        assert not is_wanted, step
        assert all(step.name not in one.claims for one in self.instances.values()), step
        if step.ordinal >= self.replicas:
            assert instance_name(step.ordinal) not in self.pods
        self.claims[step.name] = replace(held, going=True)

    # -- what others do --------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """The gate is lifted and the Pod made, when every claim is there."""
        held = self.instances[name]
        live = all(one in self.claims and self.claims[one].live for one in held.claims)
        if not held.going and not held.started and live and name not in self.pods:
            uids = {one: self.claims[one].uid for one in held.claims}
            self.instances[name] = replace(held, started=True, claims=uids)
            self.pods[name] = held.uid
            self.runs_on[name] = set(uids.values())

    def set_ready(self, name: str, *, ready: bool) -> None:
        held = self.instances[name]
        if held.started and name in self.pods:
            self.instances[name] = replace(held, ready=ready, was_ready=held.was_ready or ready)

    def collect(self, name: str) -> None:
        """The node lets a Pod go; then the instance that was waiting for that."""
        held = self.instances.get(name)
        if name in self.pods and (held is None or held.going or held.uid != self.pods[name]):
            del self.pods[name]
        if held is not None and held.going and name not in self.pods:
            del self.instances[name]

    def release(self, name: str) -> None:
        """A claim that is going is gone when no Pod runs on it any more."""
        claim = self.claims[name]
        if claim.going and not any(claim.uid in self.runs_on[pod] for pod in self.pods):
            del self.claims[name]

    def delete_claim(self, name: str) -> None:
        self.claims[name] = replace(self.claims[name], going=True)

    def delete_instance(self, name: str, *, background: bool) -> None:
        if background:
            del self.instances[name]
        else:
            self.instances[name] = replace(self.instances[name], going=True)

    def orphan(self) -> None:
        """The workload was deleted with --cascade=orphan and made again."""
        self.instances = {n: replace(one, ownership=Ownership.ORPHAN) for n, one in self.instances.items()}
        self.claims = {n: replace(one, ownership=Ownership.ORPHAN) for n, one in self.claims.items()}

    def settle(self) -> None:
        """Everybody does what there is to do, until nothing changes."""
        for _ in range(400):
            before = self.fingerprint()
            for step in slots.plan(self.view()).steps:
                self.apply(step)
            for name in list(self.instances):
                self.start(name)
            for name in list(self.instances):
                self.set_ready(name, ready=True)
            for name in {*self.instances, *self.pods}:
                self.collect(name)
            for name in list(self.claims):
                self.release(name)
            if self.fingerprint() == before:
                return
        raise AssertionError(f"never at rest: {self}")

    def fingerprint(self) -> tuple[object, ...]:
        return (dict(self.instances), dict(self.claims), dict(self.pods))

    def _uid(self) -> str:
        self.counter += 1
        return f"u-{self.counter}"
