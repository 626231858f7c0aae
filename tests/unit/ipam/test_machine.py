"""Two leaders over one set of objects, each with an old view and liable to crash: nothing is ever given twice.

The long run takes 10^6 steps:
``NETCLAIM_MACHINE_EXAMPLES=2000 NETCLAIM_MACHINE_STEPS=500 python -m pytest tests/unit/ipam/test_machine.py``.
"""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from netclaim.api import ipam
from netclaim.api.meta import Raw
from netclaim.api.resources import IP_ALLOCATIONS, IP_CLAIMS, IP_CLASSES, IP_POOLS
from nso.ipam import invariants, reasons
from nso.ipam.cascade import shape_of
from nso.ipam.claims import occupants
from nso.ipam.orphans import HOLDER_KINDS, holds
from nso.ipam.reasons import Refusal
from nso.ipam.snapshot import Snapshot
from nso.ipam.views import AllocationView, PoolView
from tests.unit.ipam.leader import Leader
from tests.unit.ipam.objects import PROJECT, ip_class, root_pool
from tests.unit.ipam.world import KINDS, World

ALWAYS = {
    invariants.BLOCK_TWICE,
    invariants.NOT_ALLOCATED,
    invariants.OTHER_BLOCK,
    invariants.OUTSIDE_PARENT,
    invariants.OUTSIDE_POOL,
    invariants.RESERVED,
    invariants.NO_POOL,
    invariants.WRONG_NAME,
    invariants.WRONG_SPACE,
    invariants.MALFORMED,
}
"""What must hold after every single step, crash or not."""

BLOCKS = [f"block-{number}" for number in range(5)]
RANGES = ["range-a", "range-b", "upper-a"]
NETWORKS = ["a", "b"]
CRASHES = st.one_of(st.none(), st.none(), st.integers(1, 4))
LEADERS = st.integers(0, 1)
ROLES = st.sampled_from([[], ["network"]])
WHICH = st.integers(0, 9)
EVENTS = st.sampled_from(["nothing", "pool", "claims", "clearance"])
"""What users do while a leader is paused."""


def small_project() -> World:
    """A /28 that is cut into a /29 per network, that into a /30 per network and location, that into addresses."""
    world = World()
    roles = ["network", "location"]
    for raw in (
        ip_class("upper", 29, poolPer=["network"]),
        ip_class("subnet", 30, parentClassName="upper", poolPer=roles, reservations={"leading": 1}),
        ip_class("leaf", 32, parentClassName="subnet", default=True),
        ip_class("loose", 32, cooldown="20s"),
    ):
        world.put(IP_CLASSES, raw)
    world.put(IP_POOLS, root_pool("root", "10.0.0.0/28", "upper", ready=False))
    world.put(IP_POOLS, root_pool("loose", "10.1.0.0/31", "loose", ready=False))
    return world


def scope(network: str) -> Raw:
    return {
        "network": {"kind": "Network", "namespace": "shop", "name": network},
        "location": {"kind": "Location", "name": "here"},
    }


def is_of_another_kind(pool: PoolView, seen: Snapshot) -> bool:
    shape = shape_of(pool, seen)
    return isinstance(shape, Refusal) and shape.reason == ipam.REASON_MIXED_BLOCKS and not pool.is_root


class TwoLeaders(RuleBasedStateMachine):
    """Random orders of creating, deleting, seeing, acting, crashing, being overtaken and waiting."""

    @initialize()
    def begin(self) -> None:
        self.world = small_project()
        self.rounds = 0
        self.deleted_by_users: set[str] = set()
        self.checked: Snapshot | None = None
        self.leaders = [Leader(self.world), Leader(self.world)]
        for leader in self.leaders:
            self.everything(leader)

    def create(self, name: str, spec: dict[str, Any]) -> None:
        if self.world.get(IP_CLAIMS, (PROJECT, name)) is None:
            metadata = {"name": name, "namespace": PROJECT, "finalizers": [ipam.CLAIM_FINALIZER]}
            self.world.create(IP_CLAIMS, {"metadata": metadata, "spec": spec, "status": {"conditions": []}})

    @rule(name=st.sampled_from(BLOCKS), network=st.sampled_from(NETWORKS), loose=st.booleans())
    def claim_block(self, name: str, network: str, *, loose: bool) -> None:
        wish = {"className": "loose"} if loose else {"ipFamily": "IPv4"}
        self.create(name, {**wish, "scope": scope(network), "target": "Block"})

    @rule(name=st.sampled_from(RANGES))
    def claim_range(self, name: str) -> None:
        kind, network = name.split("-")
        self.create(
            name,
            {"className": "upper" if kind == "upper" else "subnet", "scope": scope(network), "target": "Range"},
        )

    @rule(name=st.sampled_from(BLOCKS + RANGES))
    def release(self, name: str) -> None:
        if self.world.get(IP_CLAIMS, (PROJECT, name)):
            self.world.delete(IP_CLAIMS, (PROJECT, name))

    @rule(number=LEADERS, kind=st.sampled_from(KINDS))
    def see(self, number: int, kind: Any) -> None:
        self.leaders[number].sync(kind)

    @rule(number=LEADERS)
    def see_all(self, number: int) -> None:
        self.leaders[number].sync_all()

    @rule(number=LEADERS, name=st.sampled_from(BLOCKS + RANGES), crash=CRASHES)
    def act_on_claim(self, number: int, name: str, crash: int | None) -> None:
        self.leaders[number].reconcile(IP_CLAIMS, (PROJECT, name), crash)

    @rule(number=LEADERS, which=WHICH, crash=CRASHES)
    def act_on_pool(self, number: int, which: int, crash: int | None) -> None:
        self.act_on(IP_POOLS, number, which, crash)

    @rule(number=LEADERS, which=st.integers(0, 19))
    def act_on_allocation(self, number: int, which: int) -> None:
        self.act_on(IP_ALLOCATIONS, number, which, None)

    def act_on(self, kind: Any, number: int, which: int, crash: int | None) -> None:
        known = self.leaders[number].lists[kind]
        if known:
            metadata = known[which % len(known)]["metadata"]
            self.leaders[number].reconcile(kind, (metadata["namespace"], metadata["name"]), crash)

    @rule(number=LEADERS)
    def act_on_all_pools(self, number: int) -> None:
        """Pools alone, from whatever was seen: idle ones are announced, announced ones deleted, deleted ones freed."""
        leader = self.leaders[number]
        for raw in list(leader.lists[IP_POOLS]):
            leader.reconcile(IP_POOLS, (raw["metadata"]["namespace"], raw["metadata"]["name"]))
        leader.sync(IP_POOLS)

    @rule(number=LEADERS, name=st.sampled_from(BLOCKS + RANGES), after=st.integers(1, 4), which=WHICH, event=EVENTS)
    def is_overtaken_at_a_claim(self, number: int, name: str, after: int, which: int, event: str) -> None:
        """Paused in the middle of a claim, for longer than its lease: the other has done everything by then."""
        self.leaders[number].reconcile(IP_CLAIMS, (PROJECT, name), after, self.events(number, which, event))

    @rule(number=LEADERS, at=WHICH, after=st.integers(1, 4), which=WHICH, event=EVENTS)
    def is_overtaken_at_a_pool(self, number: int, at: int, after: int, which: int, event: str) -> None:
        """The same in the middle of a pool."""
        known = self.leaders[number].lists[IP_POOLS]
        metadata = known[at % len(known)]["metadata"]
        key = (metadata["namespace"], metadata["name"])
        self.leaders[number].reconcile(IP_POOLS, key, after, self.events(number, which, event))

    def events(self, number: int, which: int, event: str) -> Callable[[], None]:
        """What happens while the leader of that number is paused."""

        def meanwhile() -> None:
            if event == "pool":
                self.user_deletes_a_pool(which)
            elif event == "claims":
                for raw in self.world.listed(IP_CLAIMS)[which:]:
                    self.release(raw["metadata"]["name"])
            elif event == "clearance":
                self.clearance(1 - number)
                return
            self.world.seconds += 3
            self.everything(self.leaders[1 - number])

        return meanwhile

    @rule(number=LEADERS)
    def clearance(self, number: int) -> None:
        """A user wants the cascade gone: its blocks are released, its pools deleted, and both seen by one leader."""
        leader = self.leaders[number]
        for name in BLOCKS:
            self.release(name)
            leader.sync_all()
            leader.reconcile(IP_CLAIMS, (PROJECT, name))
        for which, _ in enumerate(self.world.listed(IP_POOLS)):
            self.user_deletes_a_pool(which)
        for _ in RANGES:
            self.world.seconds += 3
            leader.sync_all()
            self.act_on_all_pools(number)

    @rule(number=LEADERS, name=st.sampled_from(BLOCKS), loose=st.booleans())
    def a_claim_comes_back_under_its_name(self, number: int, name: str, *, loose: bool) -> None:
        """T06: one leader has seen all of it, the other acts for the old one, and dies behind its first write."""
        self.release(name)
        self.everything(self.leaders[number])
        self.claim_block(name, NETWORKS[0], loose=loose)
        self.leaders[1 - number].reconcile(IP_CLAIMS, (PROJECT, name), 1)

    @rule(name=st.sampled_from(["loose", "leaf"]), length=st.integers(31, 32), roles=ROLES)
    def operator_makes_a_class_anew(self, name: str, length: int, roles: list[str]) -> None:
        """Deleted and created with blocks of another kind, under whatever was given out by it."""
        raw = self.world.objects[IP_CLASSES].pop((PROJECT, name))
        changed = {"prefixLength": length, "uniqueWithin": roles}
        self.world.create(IP_CLASSES, {**raw, "spec": {**raw["spec"], **changed}, "status": {}})

    @rule(which=WHICH)
    def user_deletes_a_pool(self, which: int) -> None:
        """A pool of the cascade, under whatever is in it."""
        made = [raw for raw in self.world.listed(IP_POOLS) if raw["spec"].get("madeFor")]
        if made:
            metadata = made[which % len(made)]["metadata"]
            self.deleted_by_users.add(metadata["uid"])
            self.world.delete(IP_POOLS, (metadata["namespace"], metadata["name"]))

    @rule(number=LEADERS, which=WHICH)
    def operator_deletes_an_allocation(self, number: int, which: int) -> None:
        """Of a claim or of a pool, by hand; one leader sees it at once, and its holder first."""
        listed = self.world.listed(IP_ALLOCATIONS)
        held = [raw for raw in listed if raw["spec"].get("claimRef") and self.has_a_holder(raw)]
        if not held:
            return
        spec, metadata = held[which % len(held)]["spec"], held[which % len(held)]["metadata"]
        self.world.delete(IP_ALLOCATIONS, (metadata["namespace"], metadata["name"]))
        leader = self.leaders[number]
        leader.sync_all()
        kind = IP_POOLS if spec["purpose"] == "Carve" else IP_CLAIMS
        leader.reconcile(kind, (spec["claimRef"]["namespace"], spec["claimRef"]["name"]))

    def has_a_holder(self, allocation: Raw) -> bool:
        """Whether somebody publishes its block, and is not about to give it back."""
        view = AllocationView.of(allocation)
        holder = self.world.get(HOLDER_KINDS[view.purpose], view.holder.key) if view.holder else None
        return holder is not None and holds(view, holder) and not holder["metadata"].get("deletionTimestamp")

    @rule(number=LEADERS)
    def act_on_everything(self, number: int) -> None:
        self.everything(self.leaders[number])

    def everything(self, leader: Leader) -> None:
        for kind in (IP_CLASSES, IP_POOLS, IP_CLAIMS, IP_ALLOCATIONS):
            leader.sync_all()
            for raw in leader.lists[kind]:
                leader.reconcile(kind, (raw["metadata"]["namespace"], raw["metadata"]["name"]))
                leader.sync_all()

    @rule(seconds=st.integers(1, 30))
    def time_passes(self, seconds: int) -> None:
        self.world.seconds += seconds

    def is_of_nobody(self, violation: invariants.Violation) -> bool:
        """Whether it is about an allocation that a crash has left behind, whose holder and pool are both gone.

        Another pool may have that pool's name by now, and another range.
        """
        of_its_pool = violation.invariant in {invariants.NO_POOL, invariants.OUTSIDE_POOL}
        left = self.world.get(IP_ALLOCATIONS, violation.key) if of_its_pool else None
        return left is not None and not self.has_a_holder(left)

    def violations(self) -> list[invariants.Violation]:
        kinds = {"classes": IP_CLASSES, "pools": IP_POOLS, "claims": IP_CLAIMS, "allocations": IP_ALLOCATIONS}
        return invariants.check(**{name: self.world.listed(kind) for name, kind in kinds.items()})

    @invariant()
    def nothing_is_given_twice(self) -> None:
        """T01, T05, T06: whatever was seen late, and wherever a leader crashed."""
        if self.world.snapshot() is self.checked:
            return
        self.checked = self.world.snapshot()
        published = [cidr for _, cidr in self.world.published()]
        assert len(published) == len(set(published)), published
        found = [str(each) for each in self.violations() if each.invariant in ALWAYS and not self.is_of_nobody(each)]
        assert not found, found

    def teardown(self) -> None:
        """Without crashes everything converges; and when all is released nothing is left (R15, T07)."""
        if not hasattr(self, "world"):
            return
        for name in ("loose", "leaf"):
            self.operator_makes_a_class_anew(name, 32, [])
        self.settle()
        assert not self.violations()
        served = {ipam.REASON_BOUND, ipam.REASON_POOL_EXHAUSTED}
        seen = self.world.snapshot()
        going = [pool for pool in seen.pool_views.values() if pool.going]
        for pool in going:
            # One that a user deletes goes when those inside have left, and whoever wants it anew waits so long.
            assert occupants(pool, seen) or seen.range_claims(pool.key), pool.raw
            assert pool.id.uid in self.deleted_by_users, pool.raw
            served.add(reasons.WAITING_FOR_POOL)
        if any(is_of_another_kind(pool, seen) for pool in seen.pool_views.values()):
            # Made while its class was another; who is inside stays, and nobody else comes in.
            served.add(ipam.REASON_MIXED_BLOCKS)
        for raw in self.world.listed(IP_CLAIMS):
            told = self.world.conditions(IP_CLAIMS, (PROJECT, raw["metadata"]["name"]))
            assert told[ipam.BOUND]["reason"] in served, told
        for name in [raw["metadata"]["name"] for raw in self.world.listed(IP_CLAIMS)]:
            self.world.delete(IP_CLAIMS, (PROJECT, name))
        self.settle()
        assert not self.world.listed(IP_CLAIMS)
        assert not self.world.listed(IP_ALLOCATIONS)
        assert sorted(raw["metadata"]["name"] for raw in self.world.listed(IP_POOLS)) == ["loose", "root"]

    def settle(self) -> None:
        at_rest = 0
        while at_rest < 4:
            self.world.seconds += 10
            before = self.world.snapshot()
            self.everything(self.leaders[0])
            at_rest = at_rest + 1 if self.world.snapshot() is before else 0
            self.rounds += 1
            assert self.rounds < 60, "the objects do not come to rest"
        self.everything(self.leaders[1])


TestTwoLeaders = TwoLeaders.TestCase
TestTwoLeaders.settings = settings(
    max_examples=int(os.environ.get("NETCLAIM_MACHINE_EXAMPLES", "15")),
    stateful_step_count=int(os.environ.get("NETCLAIM_MACHINE_STEPS", "50")),
    deadline=None,
)


def test_a_pool_whose_range_was_just_taken_stays_until_that_is_told() -> None:
    """T07: the rarest order of all, so it is played: a user clears everything between a hold and its claim's status."""
    machine = TwoLeaders()
    machine.begin()
    machine.claim_block("block-0", "a", loose=False)
    machine.act_on_everything(0)
    machine.act_on_everything(0)
    machine.claim_range("range-a")
    machine.see_all(0)
    machine.is_overtaken_at_a_claim(0, "range-a", after=1, which=0, event="clearance")
    told = machine.world.get(IP_CLAIMS, (PROJECT, "range-a"))
    assert told
    assert told["status"]["cidr"]
    machine.nothing_is_given_twice()
    machine.teardown()


def test_no_block_is_taken_again_for_a_pool_that_went_before_its_allocation() -> None:
    """T06: a leader whose watch of allocations is ahead of that of pools sees a carve lost that was given back."""
    machine = TwoLeaders()
    machine.begin()
    machine.claim_block("block-0", "a", loose=False)
    machine.act_on_everything(0)
    machine.act_on_everything(0)
    machine.see_all(1)
    machine.clearance(0)
    machine.see(1, IP_ALLOCATIONS)
    machine.act_on_all_pools(1)
    assert not machine.world.listed(IP_ALLOCATIONS)
    machine.nothing_is_given_twice()
    machine.teardown()
