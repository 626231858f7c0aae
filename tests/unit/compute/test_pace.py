"""Progress is told when it stands still; everything else at once (T32, B3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from netclaim.api import resources
from netclaim.api.compute import READY
from netclaim.kube.writes import ApplyStatus
from nso.compute.pace import LONGEST, QUIET, Pace
from nso.compute.status import INSTANCE_OWNS

Raw = dict[str, Any]
NETWORK = ("False", "NotPrepared")
POD = ("False", "PodPending")


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def status(said: tuple[str, str] | None, message: str = "") -> Raw:
    if said is None:
        return {}
    return {"conditions": [{"type": READY, "status": said[0], "reason": said[1], "message": message}]}


def instance(said: tuple[str, str] | None) -> Raw:
    return {"metadata": {"namespace": "shop", "name": "web-0"}, "status": status(said)}


def write(said: tuple[str, str], message: str = "", **fields: Any) -> ApplyStatus:
    told = {**status(said, message), **fields}
    return ApplyStatus(resources.INSTANCES, ("shop", "web-0"), told, "compute", INSTANCE_OWNS)


@pytest.mark.parametrize("before", [None, NETWORK])
def test_progress_is_written_once_it_has_stood_still(before: tuple[str, str] | None) -> None:
    clock = Clock()
    pace = Pace(READY, clock)
    assert pace.pause(instance(before), write(POD)) == QUIET
    clock.now += 1
    assert pace.pause(instance(before), write(POD)) == QUIET - 1
    clock.now += 1
    assert pace.pause(instance(before), write(POD, "on its node")) == QUIET
    clock.now += QUIET
    assert pace.pause(instance(before), write(POD, "on its node")) == 0


def test_progress_that_never_stands_still_is_written_in_the_end() -> None:
    clock = Clock()
    pace = Pace(READY, clock)
    start = clock.now
    while pace.pause(instance(NETWORK), write(POD, str(clock.now))) > 0:
        clock.now += 1
    assert clock.now - start == LONGEST


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (NETWORK, ("True", "Ready")),
        (("True", "Ready"), POD),
        (("True", "Ready"), ("True", "Ready")),
        (NETWORK, ("False", "AddressPoolExhausted")),
        (("False", "AddressPoolExhausted"), NETWORK),
        (None, ("False", "PodRefused")),
    ],
)
def test_flips_and_refusals_and_what_follows_them_are_written_at_once(
    before: tuple[str, str] | None, after: tuple[str, str]
) -> None:
    assert Pace(READY, Clock()).pause(instance(before), write(after, "news")) == 0


def test_the_answer_to_a_new_generation_is_written_at_once() -> None:
    seen = instance(NETWORK)
    seen["status"]["observedGeneration"] = 1
    assert Pace(READY, Clock()).pause(seen, write(POD, observedGeneration=2)) == 0
    assert Pace(READY, Clock()).pause(seen, write(POD, observedGeneration=1)) == QUIET


def test_what_turned_back_before_it_was_told_is_forgotten() -> None:
    """The next change waits its own time, and nothing is written for the detour."""
    clock = Clock()
    pace = Pace(READY, clock)
    pace.pause(instance(NETWORK), write(POD))
    clock.now += 3
    assert pace.pause(instance(NETWORK), write(NETWORK)) == 0
    assert pace.pause(instance(NETWORK), write(POD)) == QUIET


def test_addresses_are_shown_as_soon_as_they_are_allocated() -> None:
    """R4: the column is never blank once the claim is Allocated, however far the instance is."""
    shown = [{"name": "eth0", "addresses": [{"family": "IPv4", "address": "10.128.0.2/32", "primary": True}]}]
    pace = Pace(READY, Clock())
    assert pace.pause(instance(None), write(NETWORK, networkInterfaces=[{"name": "eth0"}])) == QUIET
    assert pace.pause(instance(None), write(NETWORK, networkInterfaces=shown)) == 0
    told = instance(NETWORK)
    told["status"]["networkInterfaces"] = shown
    assert pace.pause(told, write(POD, networkInterfaces=shown)) == QUIET
