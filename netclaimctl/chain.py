"""The chain of one claim: what was read of it, and the links that it is told in. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from netclaim.api import conditions
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.objects import is_going, uid_of
from netclaimctl.objects import status


class State(Enum):
    """How a link is: as it should be, not yet, not as it should be, or not to be seen from here."""

    SOUND = "ok"
    WAITING = "waiting"
    BROKEN = "wrong"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class Link:
    """One object of the chain, and what about it."""

    kind: str
    name: str
    state: State
    says: str

    @property
    def is_sound(self) -> bool:
        """Whether there is nothing to see to: what cannot be seen accuses nobody."""
        return self.state in {State.SOUND, State.UNREAD}


@dataclass(frozen=True)
class Facts:
    """What was read: the claim, and by kind whatever may be in its chain.

    `unread` tells by kind why it could not be read. `project` is that of the claim, `project_label` the label that
    names it; `is_project_there` tells whether IPAM has it, None when that could not be read.
    """

    claim: Raw
    project_label: str
    project: str = ""
    is_project_there: bool | None = None
    found: Mapping[str, tuple[Raw, ...]] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def namespace(self) -> str:
        """The claim's namespace."""
        return str(self.claim["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """The claim's name."""
        return str(self.claim["metadata"]["name"])

    def all(self, resource: Resource) -> tuple[Raw, ...]:
        """All that were read of this kind."""
        return self.found.get(resource.kind, ())

    def one(self, resource: Resource, name: str | None) -> Raw | None:
        """The one of this name."""
        return next((raw for raw in self.all(resource) if raw["metadata"]["name"] == name), None)

    @property
    def refusal(self) -> str:
        """Why the claim does not bind, in its own words; empty when it has not said so."""
        if conditions.is_true(self.claim, "Bound") or not conditions.is_false(self.claim, "Ready"):
            return ""
        return f"{conditions.reason_of(self.claim, 'Ready')}: {conditions.message_of(self.claim, 'Ready')}"


def interface_name(claim: Raw) -> str:
    """The interface that the claim has, or wants."""
    bound = (status(claim).get("networkInterfaceRef") or {}).get("name")
    return str(bound or claim["spec"].get("networkInterfaceName") or claim["metadata"]["name"])


def attachment_name(interface: Raw | None, otherwise: str) -> str:
    """The interface's attachment: the one that its status names, else its namesake."""
    reference = status(interface).get("attachmentRef") if interface else None
    return str((reference or {}).get("name") or otherwise)


def instance_of(claim: Raw, instances: Iterable[Raw]) -> Raw | None:
    """The instance whose slot the claim belongs to; by uid where the instance says one."""
    for instance in instances:
        for entry in instance["spec"].get("networkInterfaces") or ():
            reference = entry["claimRef"]
            if reference["name"] == claim["metadata"]["name"] and reference.get("uid") in {None, uid_of(claim)}:
                return instance
    return None


def pod_name(attachment: Raw | None, instance: Raw | None) -> str:
    """The Pod that uses the interface, or that will: by the node's facts, else by the instance; empty for none."""
    fact = status(attachment).get("podName") if attachment else None
    if fact or instance is None:
        return str(fact or "")
    return str((status(instance).get("podRef") or {}).get("name") or instance["metadata"]["name"])


# -- links ----------------------------------------------------------------------------------------------------------


def sound(resource: Resource, name: str, says: str) -> Link:
    """As it should be."""
    return Link(resource.kind, name, State.SOUND, says)


def waiting(resource: Resource, name: str, says: str) -> Link:
    """Not yet."""
    return Link(resource.kind, name, State.WAITING, says)


def broken(resource: Resource, name: str, says: str) -> Link:
    """Not as it should be."""
    return Link(resource.kind, name, State.BROKEN, says)


def absent(facts: Facts, resource: Resource, name: str, says: str) -> Link:
    """Not there: not yet, or not to be seen."""
    if resource.kind in facts.unread:
        return Link(resource.kind, name, State.UNREAD, facts.unread[resource.kind])
    return waiting(resource, name, says)


def judged(resource: Resource, raw: Raw, condition: str, says: str) -> Link:
    """An object by one of its conditions; `says` what it is when the condition is True."""
    name = raw["metadata"]["name"]
    if is_going(raw):
        held = ", ".join(raw["metadata"].get("finalizers") or ()) or "no finalizer"
        return broken(resource, name, f"its deletion was asked for; held by {held}")
    if conditions.is_true(raw, condition):
        return sound(resource, name, says)
    told = f"{conditions.reason_of(raw, condition)}: {conditions.message_of(raw, condition)}".strip(": ")
    if conditions.is_false(raw, condition):
        return broken(resource, name, f"{condition} is False: {told}")
    return waiting(resource, name, f"{condition} is not said yet" + (f" ({told})" if told else ""))


def first_unsound(links: Iterable[Link]) -> Link | None:
    """The first thing that is not as it should be."""
    return next((link for link in links if not link.is_sound), None)
