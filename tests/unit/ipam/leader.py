"""A leader that plans from what it saw last, which may be old, and may crash or be overtaken after any answer."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from netclaim.api.meta import Key, Raw
from netclaim.api.resources import IP_ALLOCATIONS, IP_CLAIMS, IP_CLASSES, IP_POOLS, Resource
from netclaim.kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from netclaim.kube.writes import ApplyStatus, Delete
from nso.ipam import claims, classes, pools
from nso.ipam.cascade import Offer, shape_of
from nso.ipam.index import Purpose, Shape
from nso.ipam.orphans import HOLDER_KINDS, Suspects, holds
from nso.ipam.snapshot import Snapshot
from nso.ipam.steps import Allocate, HoldPool, Plan
from nso.ipam.views import AllocationView, ClaimView, ClassView, PoolView, epoch
from tests.unit.ipam.world import KINDS, World, snapshot_of

GRACE = 5.0
REMOVAL_GRACE = 2.0


class Crashed(Exception):  # noqa: N818 - an end, not an error
    """The process ended here."""


class Leader:
    """Carries out plans as the controllers do, step by step."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.lists: dict[Resource, list[Raw]] = {}
        self.suspects = Suspects(GRACE)
        self.steps_left: int | None = None
        self.meanwhile: Callable[[], None] | None = None
        for kind in KINDS:
            self.sync(kind)

    def sync(self, kind: Resource) -> None:
        """See one kind as it is now; the others stay as they were seen."""
        self.lists[kind] = self.world.listed(kind)

    def sync_all(self) -> None:
        """See everything as it is now."""
        for kind in KINDS:
            self.sync(kind)

    @property
    def seen(self) -> Snapshot:
        return snapshot_of(*(self.lists[kind] for kind in KINDS))

    @property
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.world.seconds)

    def answered(self) -> None:
        """Called after every write that took effect and every live read that counts."""
        if self.steps_left is None:
            return
        self.steps_left -= 1
        if self.steps_left > 0:
            return
        if self.meanwhile is None:
            raise Crashed
        self.steps_left = None
        self.meanwhile()

    def reconcile(
        self, kind: Resource, key: Key, stop_after: int | None = None, meanwhile: Callable[[], None] | None = None
    ) -> None:
        """One reconcile of one object as far as it gets.

        After `stop_after` answers it crashes, or, with `meanwhile`, is paused while that happens.
        """
        raw = next(
            (raw for raw in self.lists[kind] if (raw["metadata"]["namespace"], raw["metadata"]["name"]) == key), None
        )
        if raw is None:
            return
        self.steps_left, self.meanwhile = stop_after, meanwhile
        try:
            if kind is IP_CLASSES:
                self._carry_out(Plan(tuple(classes.plan(ClassView.of(raw), raw, self.seen, self.now))))
            elif kind is IP_CLAIMS:
                self._claim(ClaimView.of(raw))
            elif kind is IP_POOLS:
                self._pool(PoolView.of(raw))
            else:
                self._allocation(AllocationView.of(raw))
        except (Crashed, ApiError):
            pass
        finally:
            self.steps_left = self.meanwhile = None

    # -- claims ----------------------------------------------------------------------------------------------------

    def _claim(self, claim: ClaimView) -> None:
        plan = claims.plan(claim, self.seen, self.now, self._read(claim))
        for step in plan.steps:
            if isinstance(step, Allocate):
                allocation = self._allocate(step)
                if allocation is not None:
                    self._bind(claim, allocation)
            elif isinstance(step, HoldPool):
                if not self._hold(step):
                    return
            else:
                self._carry_out(Plan((step,)))

    def _read(self, claim: ClaimView) -> Sequence[AllocationView]:
        if not claim.id.going or claim.is_range or claim.allocation is None:
            return ()
        raw = self.world.get(IP_ALLOCATIONS, claim.allocation)
        found = AllocationView.of(raw) if raw else None
        return (found,) if found and found.holder and found.holder.uid == claim.id.uid else ()

    def _bind(self, claim: ClaimView, allocation: AllocationView) -> None:
        write = claims.bound(claim, allocation.block, allocation.pool, allocation.key, self.now)
        try:
            self.world.execute(write)
        except (Conflict, Invalid, NotFound):
            raw = self.world.get(IP_CLAIMS, claim.key)
            live = ClaimView.of(raw) if raw else None
            same = live is not None and live.id.uid == claim.id.uid and not live.id.going
            if not (same and live and live.cidr in {None, allocation.block}):
                self._give_back(allocation)
            return
        self.answered()

    def _hold(self, step: HoldPool) -> bool:
        raw = self.world.get(IP_POOLS, step.pool.key)
        if raw is None or raw["metadata"]["resourceVersion"] != step.pool.id.version:
            return False
        write = pools.annotate(step.pool, step.pool.with_hold(step.claim_uid))
        self.world.execute(write)
        answer = self.world.get(IP_POOLS, step.pool.key)
        self.answered()
        return answer is not None and not PoolView.of(answer).going

    # -- allocations -----------------------------------------------------------------------------------------------

    def _allocate(self, step: Allocate) -> AllocationView | None:
        for offer in step.offers:
            if step.again and step.exact is not None:
                try:
                    made = self.world.create(IP_ALLOCATIONS, step.to_raw(offer, step.exact))
                except AlreadyExists:
                    return None
                self.answered()
                return self._confirm_holder(step, AllocationView.of(made))
            space = self.seen.index(offer.pool.key, offer.shape).space(offer.space)
            while True:
                if step.exact is None:
                    number = space.pick(step.strategy, 0.0)
                else:
                    number = step.exact.number if space.pick_exact(step.exact.number, 0.0) else None
                if number is None:
                    break
                try:
                    raw = self.world.create(IP_ALLOCATIONS, step.to_raw(offer, offer.shape.block(number)))
                except AlreadyExists:
                    continue
                self.answered()
                return self._confirm(offer, AllocationView.of(raw))
        return None

    def _confirm(self, offer: Offer, allocation: AllocationView) -> AllocationView | None:
        raw = self.world.get(IP_POOLS, offer.pool.key)
        self.answered()
        if raw is not None and offer.is_open(PoolView.of(raw)):
            return allocation
        self._give_back(allocation)
        return None

    def _confirm_holder(self, step: Allocate, allocation: AllocationView) -> AllocationView | None:
        holder = self.world.get(HOLDER_KINDS[step.purpose], step.holder.key)
        self.answered()
        if holds(allocation, holder):
            return allocation
        self._give_back(allocation)
        return None

    def _give_back(self, allocation: AllocationView) -> None:
        self.world.execute(Delete(IP_ALLOCATIONS, allocation.key, allocation.id.uid))
        self.answered()

    def _allocation(self, allocation: AllocationView) -> None:
        if allocation.purpose is Purpose.COOLING:
            if allocation.release_at <= self.now.timestamp():
                self.world.execute(
                    Delete(IP_ALLOCATIONS, allocation.key, allocation.id.uid, resource_version=allocation.id.version)
                )
            return
        kind = HOLDER_KINDS[allocation.purpose]
        assert allocation.holder is not None
        stored = next(
            (raw for raw in self.lists[kind] if raw["metadata"]["uid"] == allocation.holder.uid),
            None,
        )
        if holds(allocation, stored) or holds(allocation, self.world.get(kind, allocation.holder.key)):
            self.suspects.clear(allocation)
        elif self.suspects.wait(allocation, float(self.world.seconds)) == 0:
            self.world.execute(
                Delete(IP_ALLOCATIONS, allocation.key, allocation.id.uid, resource_version=allocation.id.version)
            )

    # -- pools -----------------------------------------------------------------------------------------------------

    def _pool(self, pool: PoolView) -> None:
        fill = self._fill(pool)
        if pool.going:
            self._remove(pool, fill)
        elif pool.is_root:
            others = [PoolView.of(raw) for raw in self.world.listed(IP_POOLS) if not raw["spec"].get("parentRef")]
            self._carry_out(pools.plan_root(pool, others, fill, self.seen, self.now))
        else:
            self._child(pool, pools.plan_child(pool, fill, self.seen, self.now))

    def _fill(self, pool: PoolView) -> pools.Fill | None:
        shape = shape_of(pool, self.seen)
        if not isinstance(shape, Shape):
            return None
        index = self.seen.index(pool.key, shape)
        return pools.Fill(index.fullest, index.used_spaces, shape.kind)

    def _child(self, pool: PoolView, plan: Plan) -> None:
        for step in plan.steps:
            if isinstance(step, Allocate):
                carve = self._allocate(step)
                if carve is not None and not step.again:
                    self._carved(pool, carve)
                return
            self._carry_out(Plan((step,)))
        if not pool.going and pools.is_idle(pool, self.seen) and pools.is_bare(pool, self.seen):
            self._carry_out(Plan((pools.mark(pool, self.now),)))

    def _carved(self, pool: PoolView, carve: AllocationView) -> None:
        try:
            fill = self._fill(replace(pool, cidr=carve.block))
            self.world.execute(pools.carved(pool, carve.block, fill, self.now))
        except (Conflict, Invalid, NotFound):
            raw = self.world.get(IP_POOLS, pool.key)
            live = PoolView.of(raw) if raw else None
            same = live is not None and live.id.uid == pool.id.uid and not live.going
            if not (same and live and live.cidr in {None, carve.block}):
                self._give_back(carve)
            return
        self.answered()

    def _remove(self, pool: PoolView, fill: pools.Fill | None) -> None:
        since = pool.removing or pool.raw["metadata"]["deletionTimestamp"]
        if epoch(since) + REMOVAL_GRACE > self.now.timestamp():
            return
        live = self.world.snapshot()
        wanted = tuple(live.claim_views.values())
        rest = pools.rest_of(pool, live.allocations_in(pool.key), wanted, self.seen)
        if pool.id.going:
            self._child(pool, pools.plan_removal(pool, rest, fill, self.seen, self.now))
        else:
            self._carry_out(pools.plan_marked(pool, rest))

    def _carry_out(self, plan: Plan) -> None:
        for step in plan.steps:
            if isinstance(step, Allocate | HoldPool):
                raise AssertionError(f"not here: {step}")  # noqa: TRY004
            before = self.world.get(step.resource, step.key) if isinstance(step, ApplyStatus) else None
            if before is not None and (before.get("status") or {}) == step.status:
                continue
            self.world.execute(step)
            self.answered()
