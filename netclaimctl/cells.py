"""What must hold inside a cell, and between a cell and IPAM, recomputed from the objects alone. Pure.

A claim and its interface name each other and publish the same addresses; each address is an IPClaim's that is for the
interface; each IPClaim of the cell has its owner there; each NetworkAttachmentDefinition of ours has its attachment,
and each attachment its interface and the identifiers that it publishes. Lists are read one after the other: what is
still there a few seconds later is a violation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from netclaim import addresses, identity
from netclaim.api import cloud, ipam, networking, resources
from netclaim.api.conditions import is_true
from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource
from netclaim.kube.objects import is_going, key_of, owner_uids, uid_of
from netclaimctl.objects import CellObjects, by_key, minted_for, owner_ref, published, status, uids
from nso.ipam.invariants import Violation

NO_OWNER: Final = "NoOwner"
NOT_HELD: Final = "NotHeld"
NO_INTERFACE: Final = "NoInterface"
NO_CLAIM: Final = "NoClaim"
HELD_TWICE: Final = "HeldTwice"
NOT_MUTUAL: Final = "NotMutual"
OTHER_ADDRESS: Final = "OtherAddress"
PHASE: Final = "Phase"
NO_ATTACHMENT: Final = "NoAttachment"
NO_DEFINITION: Final = "NoDefinition"
OTHER_IDENTITY: Final = "OtherIdentity"
IDENTITY_TWICE: Final = "IdentityTwice"
NO_IDENTIFIER: Final = "NoIdentifier"


def check(cell: CellObjects, ip_claims: tuple[Raw, ...], project: str | None = None) -> list[Violation]:
    """Every violation. `ip_claims` are those of `project`, or of every project when it is None."""
    seen = _Seen(cell, ip_claims, project)
    parts: tuple[Callable[[_Seen], Iterator[Violation]], ...] = (
        _owners,
        _claims,
        _interfaces,
        _addresses,
        _attachments,
        _definitions,
        _identities,
    )
    return [violation for part in parts for violation in part(seen)]


class _Seen:
    """The cell's objects under the keys by which they name each other."""

    def __init__(self, cell: CellObjects, ip_claims: tuple[Raw, ...], project: str | None) -> None:
        self.project = project
        self.claims, self.interfaces = by_key(cell.claims), by_key(cell.interfaces)
        self.attachments, self.definitions = by_key(cell.attachments), by_key(cell.definitions)
        self.identifiers = {raw["metadata"]["name"]: raw["spec"]["holder"] for raw in cell.identifiers}
        self.ip_claims = [raw for raw in ip_claims if owner_ref(raw).get("controlPlane") == cell.control_plane]
        self.owners = {
            resources.CLAIMS.kind: uids(cell.claims) | {minted_for(raw) for raw in cell.interfaces},
            resources.NETWORKS.kind: uids(cell.networks),
            resources.SUBNETS.kind: uids(cell.subnets),
        }


def _broken(invariant: str, resource: Resource, key: Key, message: str) -> Violation:
    return Violation(invariant, resource.kind, key, message)


def _owners(seen: _Seen) -> Iterator[Violation]:
    """Each IPClaim of this cell has its owner, by uid, or an interface that its block was minted for."""
    for raw in seen.ip_claims:
        ref = owner_ref(raw)
        living = seen.owners.get(ref.get("kind") or "")
        if living is not None and ref["uid"] not in living and not is_going(raw):
            who = f"{ref['kind']} {ref.get('namespace')}/{ref['name']} (uid {ref['uid']})"
            yield _broken(NO_OWNER, resources.IP_CLAIMS, key_of(raw), f"its owner {who} is not in its cell")


def _claims(seen: _Seen) -> Iterator[Violation]:
    """A bound claim names an interface that names it back, and publishes what the interface has."""
    for key, claim in seen.claims.items():
        if is_going(claim) or not is_true(claim, networking.BOUND):
            continue
        name = (status(claim).get("networkInterfaceRef") or {}).get("name", "")
        interface = seen.interfaces.get((key[0], name))
        if interface is None:
            message = f"it is Bound to interface {name or 'without a name'}, which is not there"
            yield _broken(NO_INTERFACE, resources.CLAIMS, key, message)
        elif is_going(interface):
            continue
        elif (interface["spec"].get("claimRef") or {}).get("uid") != uid_of(claim):
            holder = (interface["spec"].get("claimRef") or {}).get("name") or "nobody"
            message = f"it is Bound to interface {name}, which {holder} holds"
            yield _broken(NOT_MUTUAL, resources.CLAIMS, key, message)
        elif sorted(published(status(claim))) != sorted(published(interface["spec"])):
            told, has = published(status(claim)), published(interface["spec"])
            message = f"it publishes {', '.join(told) or 'nothing'}, interface {name} has {', '.join(has)}"
            yield _broken(OTHER_ADDRESS, resources.CLAIMS, key, message)


def _interfaces(seen: _Seen) -> Iterator[Violation]:
    """An interface is held by the one claim that it names, by uid, and its phase says so."""
    held_by: dict[str, list[Key]] = defaultdict(list)
    for key, interface in seen.interfaces.items():
        ref = interface["spec"].get("claimRef")
        phase = status(interface).get("phase")
        if is_going(interface):
            continue
        if ref is not None:
            held_by[ref["uid"]].append(key)
            claim = seen.claims.get((key[0], ref["name"]))
            if claim is None or uid_of(claim) != ref["uid"]:
                message = f"its claim {ref['name']} (uid {ref['uid']}) is gone"
                yield _broken(NO_CLAIM, resources.INTERFACES, key, message)
        if phase and (phase == networking.PHASE_BOUND) != (ref is not None):
            holds = f"claim {ref['name']} holds it" if ref else "no claim holds it"
            yield _broken(PHASE, resources.INTERFACES, key, f"it is {phase}, and {holds}")
    for keys in held_by.values():
        for key in sorted(keys)[1:]:
            message = f"its claim holds {'/'.join(min(keys))} too"
            yield _broken(HELD_TWICE, resources.INTERFACES, key, message)


def _addresses(seen: _Seen) -> Iterator[Violation]:
    """Each address of an interface is the block of a bound IPClaim that is for this interface."""
    held: dict[tuple[str, str], list[str]] = defaultdict(list)
    for raw in seen.ip_claims:
        cidr = status(raw).get("cidr")
        if cidr and not is_going(raw) and status(raw).get("phase") == ipam.PHASE_BOUND:
            held[raw["metadata"]["namespace"], owner_ref(raw)["uid"]].append(cidr)
    for key, interface in seen.interfaces.items():
        project = (interface["metadata"].get("annotations") or {}).get(networking.PROJECT_ANNOTATION, "")
        if is_going(interface) or not project or seen.project not in {None, project}:
            continue
        blocks = held[project, minted_for(interface)]
        for address in published(interface["spec"]):
            if not any(addresses.same(block, address) for block in blocks):
                message = f"no IPClaim for it in project {project} holds {address}"
                yield _broken(NOT_HELD, resources.INTERFACES, key, message)


def _attachments(seen: _Seen) -> Iterator[Violation]:
    """An attachment has its interface; one with an identity has its definition, which carries that identity."""
    for key, attachment in seen.attachments.items():
        if is_going(attachment):
            continue
        name = (attachment["spec"].get("interfaceRef") or {}).get("name")
        if name and (key[0], name) not in seen.interfaces:
            yield _broken(NO_INTERFACE, resources.ATTACHMENTS, key, f"its interface {name} is gone")
        if _identity(attachment) is None or not is_true(attachment, networking.READY):
            continue
        definition = seen.definitions.get(key)
        if definition is None or uid_of(attachment) not in owner_uids(definition):
            message = "it is Ready and has no NetworkAttachmentDefinition of its own"
            yield _broken(NO_DEFINITION, resources.ATTACHMENTS, key, message)
    for key, interface in seen.interfaces.items():
        ref = (status(interface).get("attachmentRef") or {}).get("name")
        prepared = is_true(interface, networking.PREPARED) and not is_going(interface)
        if ref and prepared and (key[0], ref) not in seen.attachments:
            yield _broken(NO_ATTACHMENT, resources.INTERFACES, key, f"its attachment {ref} is gone")


def _definitions(seen: _Seen) -> Iterator[Violation]:
    """A definition of ours belongs to the attachment of its name and carries its identity."""
    for key, definition in seen.definitions.items():
        labels = definition["metadata"].get("labels") or {}
        carried = (labels.get(cloud.VPC_LABEL), labels.get(cloud.VPC_ATTACHMENT_LABEL))
        if carried == (None, None) or is_going(definition):
            continue
        attachment = seen.attachments.get(key)
        if attachment is None or uid_of(attachment) not in owner_uids(definition):
            yield _broken(NO_ATTACHMENT, resources.NADS, key, "the attachment that it is for is gone")
        elif carried != (_identity(attachment) or carried):
            message = f"it carries identity {carried}, its attachment has {_identity(attachment)}"
            yield _broken(OTHER_IDENTITY, resources.NADS, key, message)


def _identities(seen: _Seen) -> Iterator[Violation]:
    """An identity is one attachment's, and the Identifier that makes it so is held by the attachment's interface."""
    holders: dict[tuple[str, str], Key] = {}
    for key, attachment in sorted(seen.attachments.items()):
        found = _identity(attachment)
        if found is None:
            continue
        first = holders.setdefault(found, key)
        if first != key:
            message = f"its identity {'/'.join(found)} is that of {'/'.join(first)} too"
            yield _broken(IDENTITY_TWICE, resources.ATTACHMENTS, key, message)
        interface = seen.interfaces.get((key[0], (attachment["spec"].get("interfaceRef") or {}).get("name", "")))
        if interface is None or is_going(attachment):
            continue
        name = identity.attachment_identifier_name(*(identity.from_base62(text) for text in found))
        holder = seen.identifiers.get(name)
        if holder is None or holder["uid"] != uid_of(interface):
            message = f"Identifier {name}, which makes its identity unique, is {_held_by(holder)}"
            yield _broken(NO_IDENTIFIER, resources.ATTACHMENTS, key, message)


def _identity(attachment: Raw) -> tuple[str, str] | None:
    """(VPC, attachment) in base62; None until both are drawn."""
    found = status(attachment)
    vpc, mine = found.get("vpc"), found.get("vpcAttachment")
    return (vpc, mine) if vpc and mine else None


def _held_by(holder: Raw | None) -> str:
    return f"held by {holder['kind']} {holder['namespace']}/{holder['name']}" if holder else "gone"
