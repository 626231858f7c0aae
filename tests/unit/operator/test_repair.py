"""What a repair does about each violation, and what it leaves to a person (T05)."""

from dataclasses import replace
from datetime import UTC, datetime

from netclaim.kube.writes import Create, Delete, Replace
from netclaimctl import cells
from netclaimctl.objects import IpamObjects
from netclaimctl.repair import ADVICE, Bound, Repair, plan
from nso.ipam import invariants
from nso.ipam.invariants import Violation
from tests.unit.operator.site import ADDRESS, PROJECT, Site, hold, ip_claim

BOUND = Bound(few=2, share=0.05)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def violations(seen: IpamObjects) -> list[Violation]:
    return invariants.check(classes=seen.classes, pools=seen.pools, claims=seen.claims, allocations=seen.allocations)


def repaired(seen: IpamObjects, *more: Violation) -> Repair:
    return plan(seen, [*violations(seen), *more], BOUND, NOW)


def test_a_sound_project_needs_nothing() -> None:
    """No violation, no step."""
    assert repaired(Site().ipam()) == Repair((), ())


def test_an_allocation_whose_holder_is_gone_is_given_back_over_the_version_that_was_seen() -> None:
    """Somebody who has written it since then knows more."""
    site = Site(left_out={"ip_claim"})
    (step,) = repaired(site.ipam()).steps
    assert isinstance(step.write, Delete)
    metadata = site.allocation["metadata"]
    assert (step.write.key, step.write.uid) == ((PROJECT, metadata["name"]), metadata["uid"])
    assert step.write.resource_version == metadata["resourceVersion"]
    assert "is gone" in step.why


def test_a_block_whose_class_has_a_cooldown_rests_before_it_is_free() -> None:
    """What was in use a moment ago may still be routed somewhere: Cooling, not deleted."""
    site = Site(left_out={"ip_claim"})
    seen = site.ipam()
    slow = [{**raw, "spec": {**raw["spec"], "cooldown": "90s"}} for raw in seen.classes]
    (step,) = repaired(replace(seen, classes=tuple(slow))).steps
    assert isinstance(step.write, Replace)
    spec = step.write.obj["spec"]
    assert (spec["purpose"], spec["releaseAt"]) == ("Cooling", "2026-01-01T00:01:30Z")
    assert "claimRef" not in spec
    assert step.write.obj["metadata"]["resourceVersion"] == site.allocation["metadata"]["resourceVersion"]


def test_a_lost_allocation_is_made_again_under_the_one_name_that_its_block_can_have() -> None:
    """The same object, but for what the API server sets: then the check finds nothing any more."""
    site = Site(left_out={"allocation"})
    (step,) = repaired(site.ipam()).steps
    assert isinstance(step.write, Create)
    assert step.write.obj["metadata"]["name"] == site.allocation["metadata"]["name"]
    assert step.write.obj["spec"] == site.allocation["spec"]


def test_a_lost_allocation_whose_block_has_another_holder_is_left() -> None:
    """Two claims publish one address: a person has to choose."""
    site = Site(left_out={"allocation"})
    other = ip_claim("other", "uid-other")
    seen = replace(site.ipam(), claims=(site.ip_claim, other), allocations=(hold(other, ADDRESS),))
    found = repaired(seen)
    assert found.steps == ()
    assert [left.violation.invariant for left in found.left] == [invariants.NOT_ALLOCATED]


def test_a_lost_allocation_whose_class_or_pool_is_gone_is_left() -> None:
    """Its address space cannot be told any more."""
    for missing in ("ip_class", "pool"):
        found = repaired(Site(left_out={"allocation", missing}).ipam())
        assert found.steps == (), missing
        assert invariants.NOT_ALLOCATED in {left.violation.invariant for left in found.left}


def test_of_two_allocations_of_one_claim_the_one_goes_that_it_does_not_publish() -> None:
    """Whichever of the two was made first."""
    site = Site()
    spare = hold(site.ip_claim, "192.0.2.2/32")
    hold(site.ip_claim, ADDRESS)
    found = repaired(replace(site.ipam(), allocations=(spare, site.allocation)))
    (step,) = found.steps
    assert isinstance(step.write, Delete)
    assert step.write.key == (PROJECT, spare["metadata"]["name"])


def test_an_ip_claim_without_an_owner_is_given_back_once() -> None:
    """IPAM's finalizer then frees its block."""
    site = Site(left_out={"claim", "interface", "attachment", "definition"})
    seen = site.ipam()
    found = repaired(seen, *cells.check(site.cell(), seen.claims))
    (step,) = found.steps
    assert isinstance(step.write, Delete)
    assert step.write.key == (PROJECT, site.ip_claim["metadata"]["name"])


def test_many_at_once_are_not_given_back() -> None:
    """claims.md: a restored backup must not free live addresses; few at once, or a small share, are given back."""
    orphans = []
    for number in (2, 3, 4):
        holder = ip_claim(f"gone-{number}", "uid-gone")
        orphans.append(hold(holder, f"192.0.2.{number}/32"))
    seen = replace(Site(left_out={"ip_claim", "allocation"}).ipam(), allocations=tuple(orphans))
    found = repaired(seen)
    assert found.steps == ()
    stopped = [left for left in found.left if left.violation.invariant == invariants.NO_HOLDER]
    assert len(stopped) == 3
    assert "2 others of 3" in stopped[0].advice
    assert "restored backup" in stopped[0].advice
    assert Bound(few=2, share=0.05).allows(5, 100)
    assert not Bound(few=2, share=0.05).allows(6, 100)


def test_every_invariant_has_its_advice_or_is_mended() -> None:
    """A person is told what to do next."""
    named = {value for name, value in vars(invariants).items() if name.isupper() and isinstance(value, str)}
    mended = {invariants.NO_HOLDER, invariants.TWO_ALLOCATIONS}
    assert named - mended == ADVICE.keys() & named
