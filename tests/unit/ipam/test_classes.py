"""Which classes can be used, and what a claim of one has to say."""

from datetime import UTC, datetime

import pytest

from netclaim.api import ipam
from netclaim.api.meta import Raw
from netclaim.kube.writes import ApplyStatus
from nso.ipam import classes, reasons
from nso.ipam.reasons import Refusal
from nso.ipam.snapshot import Snapshot
from nso.ipam.views import ClassView, read_scope
from tests.unit.ipam.objects import LOCATION, NETWORK, PROJECT, example_classes, ip_class

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def judged(name: str, *objects: Raw) -> str | None:
    seen = Snapshot(classes=objects)
    cls = seen.class_named(PROJECT, name)
    assert cls is not None
    refusal = classes.judge(cls, seen)
    return refusal.reason if refusal else None


def test_every_class_of_the_example_is_accepted() -> None:
    """R14: the classes that both projects use."""
    for raw in example_classes():
        assert judged(raw["metadata"]["name"], *example_classes()) is None


@pytest.mark.parametrize(
    ("reason", "objects"),
    [
        (ipam.REASON_CLASS_NOT_FOUND, [ip_class("leaf", 32, parentClassName="gone")]),
        (
            reasons.PARENT_CYCLE,
            [
                ip_class("leaf", 32, parentClassName="upper", poolPer=["network"]),
                ip_class("upper", 24, parentClassName="leaf", poolPer=["network"]),
            ],
        ),
        (reasons.PARENT_CYCLE, [ip_class("leaf", 32, parentClassName="leaf", poolPer=["network"])]),
        (
            reasons.PARENT_TOO_DEEP,
            [
                ip_class("leaf", 32, parentClassName="level-0"),
                *(
                    ip_class(f"level-{n}", 20 - n, parentClassName=f"level-{n + 1}", poolPer=["network"])
                    for n in range(8)
                ),
                ip_class("level-8", 8, poolPer=["network"]),
            ],
        ),
        (
            reasons.FAMILY_MISMATCH,
            [ip_class("leaf", 32, parentClassName="up"), ip_class("up", 24, family="IPv6", poolPer=["network"])],
        ),
        (
            ipam.REASON_PREFIX_LENGTH_REJECTED,
            [ip_class("leaf", 24, parentClassName="up"), ip_class("up", 24, poolPer=["network"])],
        ),
        (reasons.PARENT_MAKES_NO_POOLS, [ip_class("leaf", 32, parentClassName="up"), ip_class("up", 24)]),
        (
            reasons.ROLES_NOT_REPEATED,
            [
                ip_class("leaf", 28, parentClassName="up", poolPer=["location"]),
                ip_class("up", 24, poolPer=["network"]),
            ],
        ),
        (
            reasons.ROLES_NOT_REPEATED,
            [
                ip_class("leaf", 32, parentClassName="up"),
                ip_class("up", 24, poolPer=["network"], uniqueWithin=["network"]),
            ],
        ),
    ],
)
def test_a_class_that_cannot_work_is_refused_with_its_reason(reason: str, objects: list[Raw]) -> None:
    """Spec "IPClass": cycles, depth over 8, family or length that does not fit the parent; T30."""
    assert judged("leaf", *objects) == reason


def test_a_chain_of_eight_levels_is_accepted() -> None:
    """Depth 8 is allowed, 9 is not."""
    levels = [ip_class(f"level-{n}", 10 + n, poolPer=["network"]) for n in range(7)]
    for below, above in zip(levels[1:], levels, strict=False):
        below["spec"]["parentClassName"] = above["metadata"]["name"]
    leaf = ip_class("leaf", 32, parentClassName="level-6")
    assert judged("leaf", leaf, *levels) is None


def test_two_defaults_of_one_family_are_not_used_and_both_say_so() -> None:
    """NoDefaultClass names both; a default of the other family is not concerned."""
    objects = [
        ip_class("one", 32, default=True),
        ip_class("two", 32, default=True),
        ip_class("six", 96, family="IPv6", default=True),
    ]
    seen = Snapshot(classes=objects)
    refusal = classes.resolve(None, "IPv4", PROJECT, seen)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == ipam.REASON_NO_DEFAULT_CLASS
    assert "one, two" in refusal.message
    for raw, status in zip(objects, ("False", "False", "True"), strict=True):
        (write,) = classes.plan(ClassView.of(raw), raw, seen, NOW)
        assert isinstance(write, ApplyStatus)
        told = {condition["type"]: condition for condition in write.status["conditions"]}
        assert told[ipam.ACCEPTED]["status"] == "True"
        assert told[ipam.DEFAULT]["status"] == status


def test_a_claim_of_a_family_gets_the_projects_default_class() -> None:
    """The class is left to the project's default for that family."""
    cls = classes.resolve(None, "IPv6", PROJECT, Snapshot(classes=example_classes()))
    assert isinstance(cls, ClassView)
    assert cls.name == "endpoint-ipv6"


def test_all_roles_that_are_missing_in_the_chain_are_named_at_once() -> None:
    """A missing role is refused, never widened."""
    seen = Snapshot(classes=example_classes())
    cls = seen.class_named(PROJECT, "endpoint-ipv4")
    assert cls is not None
    refusal = classes.scope_refusal(cls, {}, seen)
    assert refusal is not None
    assert refusal.reason == ipam.REASON_SCOPE_ROLES_MISSING
    assert "network, location" in refusal.message
    assert classes.scope_refusal(cls, read_scope({"network": NETWORK, "location": LOCATION}), seen) is None
