"""Reading plans in tests."""

from netclaim.api.meta import Raw
from netclaim.kube.writes import ApplyStatus, Write
from nso.steps import Plan, writes_of


def writes(plan: Plan, kind: type[Write]) -> list[Write]:
    """The writes of one kind, in order."""
    return [write for write in writes_of(plan) if isinstance(write, kind)]


def told(plan: Plan, condition: str, manager: str = "nso") -> tuple[str, str]:
    """(status, reason) of a condition as the plan writes it."""
    entry = whole(plan, condition, manager)
    return entry["status"], entry["reason"]


def whole(plan: Plan, condition: str, manager: str = "nso") -> Raw:
    """A condition as the plan writes it last."""
    found = [
        entry
        for write in writes(plan, ApplyStatus)
        if write.manager == manager
        for entry in write.status["conditions"]
        if entry["type"] == condition
    ]
    assert found, f"the plan does not tell {condition}: {[str(write) for write in writes_of(plan)]}"
    return found[-1]


def order(plan: Plan) -> list[str]:
    """What the plan writes, as `Verb Kind`, in order."""
    return [f"{type(write).__name__} {write.resource.kind}" for write in writes_of(plan) if hasattr(write, "resource")]
