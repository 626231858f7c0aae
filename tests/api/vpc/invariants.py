"""What must hold between the objects of the VPC controller whenever nothing is under way (T04), as one function."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.conditions import status_of
from netclaim.kube.client import Client
from tests.api.vpc.world import SYSTEM
from tests.waiting import until

Raw = dict[str, Any]
Identity = tuple[str, str]


@dataclass
class Cell:
    """All objects of some namespaces, and every identifier and advertisement there is, by what they are called."""

    contexts: dict[Identity, Raw]
    vpcs: dict[Identity, Raw]
    interfaces: dict[Identity, Raw]
    claims: dict[Identity, Raw]
    attachments: dict[Identity, Raw]
    definitions: dict[Identity, Raw]
    identifiers: list[Raw]
    advertisements: list[Raw]

    @classmethod
    async def read(cls, cell: Client, *namespaces: str) -> Self:
        kinds = (
            resources.NETWORK_CONTEXTS,
            resources.VPCS,
            resources.INTERFACES,
            resources.CLAIMS,
            resources.ATTACHMENTS,
            resources.NADS,
        )
        named = []
        for kind in kinds:
            found = [one for namespace in namespaces for one in await cell.list(kind, namespace)]
            named.append({_key(one): one for one in found})
        identifiers = await cell.list(resources.IDENTIFIERS, SYSTEM)
        ours = [one for one in identifiers if one["spec"]["holder"]["namespace"] in namespaces]
        advertisements = await cell.list(resources.BGP_ADVERTISEMENTS, SYSTEM)
        return cls(*named, ours, advertisements)


async def violations(cell: Client, *namespaces: str) -> list[str]:
    """What is wrong in these namespaces, one sentence each; empty when all is well."""
    found = await Cell.read(cell, *namespaces)
    unheard = _claims_that_were_not_told(found)
    return [*_identities(found), *_holders(found), *_attachments(found), *_promises(found), *unheard]


async def sound(cell: Client, *namespaces: str, within: float = 60.0) -> None:
    """Wait until nothing is wrong in these namespaces, which are at rest but for what the controller has to do."""

    async def nothing_is_wrong() -> bool:
        found = await violations(cell, *namespaces)
        assert found == []
        return True

    await until(nothing_is_wrong, timeout=within, what="an order without a violation", interval=0.2)


async def broken_promises(cell: Client, *namespaces: str) -> list[str]:
    """What must not be at any moment, also half-way: an identity twice, or Prepared with nothing to attach."""
    found = await Cell.read(cell, *namespaces)
    return [*_shared(found), *_promises(found)]


def _shared(cell: Cell) -> Iterator[str]:
    """Nobody shares an identity."""
    yield from _twice("VPC identifier", [one["status"]["vpc"] for one in cell.vpcs.values() if _says(one, "vpc")])
    published = [_identity(one) for one in cell.attachments.values() if _says(one, "vpcAttachment")]
    yield from _twice("attachment identity", published)
    yield from _twice("device", [identity.host_interface(*_numbers(each)) for each in published])


def _identities(cell: Cell) -> Iterator[str]:
    """Nobody shares an identity, and each that is published is locked by an Identifier of its holder."""
    yield from _shared(cell)
    locks = {_labels(one): one for one in cell.identifiers}
    for key, vpc in cell.vpcs.items():
        yield from _locked(f"VPC {key}", (vpc.get("status", {}).get("vpc"), ""), locks, _owner(vpc))
    for key, attachment in cell.attachments.items():
        yield from _locked(f"attachment {key}", _identity(attachment), locks, _owner(attachment))


def _locked(what: str, published: Identity, locks: dict[Identity, Raw], owner: str) -> Iterator[str]:
    if not published[0]:
        yield f"{what} has no identity"
    elif published not in locks:
        yield f"{what} says {published}, which no Identifier holds"
    elif locks[published]["spec"]["holder"]["uid"] != owner:
        yield f"{what} says {published}, which is held by {locks[published]['spec']['holder']}, not by {owner}"


def _holders(cell: Cell) -> Iterator[str]:
    """An Identifier has a living holder, and no holder has two in one space."""
    living = {one["metadata"]["uid"] for kind in (cell.contexts, cell.interfaces) for one in kind.values()}
    told = {_labels(one) for one in cell.advertisements}
    for one in cell.identifiers:
        if one["spec"]["holder"]["uid"] not in living and _labels(one) not in told:
            yield f"Identifier {one['metadata']['name']} has outlived its holder {one['spec']['holder']}"
    spaces = [(one["spec"]["holder"]["uid"], _labels(one)[0] if _labels(one)[1] else "") for one in cell.identifiers]
    yield from _twice("holder and space of an Identifier", spaces)


def _attachments(cell: Cell) -> Iterator[str]:
    """Attachment, definition and interface of one name belong together, and no half is without the other."""
    for key, attachment in cell.attachments.items():
        interface, definition = cell.interfaces.get(key), cell.definitions.get(key)
        if interface is None or interface["metadata"]["uid"] != _owner(attachment):
            yield f"attachment {key} has no interface"
        if cloud.IN_USE_FINALIZER not in attachment["metadata"].get("finalizers", ()):
            yield f"attachment {key} is not held by its finalizer"
        if definition is None:
            yield f"attachment {key} has no definition"
            continue
        plugin = json.loads(definition["spec"]["config"])["plugins"][0]
        if _owner(definition) != attachment["metadata"]["uid"]:
            yield f"the definition of {key} belongs to another attachment"
        if {(plugin["vpc"], plugin["vpcAttachment"]), _labels(definition)} != {_identity(attachment)}:
            yield f"the definition of {key} points to another identity"
        if (plugin["attachment"]["namespace"], plugin["attachment"]["name"]) != key:
            yield f"the definition of {key} points to {plugin['attachment']}"
    for key in cell.definitions.keys() - cell.attachments.keys():
        yield f"definition {key} has no attachment"
    for key, interface in cell.interfaces.items():
        if cloud.ATTACHED_FINALIZER not in interface["metadata"].get("finalizers", ()) and key in cell.attachments:
            yield f"interface {key} has an attachment and is not held by its finalizer"


def _promises(cell: Cell) -> Iterator[str]:
    """Prepared is said only where all of it is there."""
    for key, interface in cell.interfaces.items():
        status, attachment = interface.get("status", {}), cell.attachments.get(key)
        if status_of(interface, "Prepared") != "True" or "deletionTimestamp" in interface["metadata"]:
            continue
        if attachment is None or key not in cell.definitions:
            yield f"interface {key} says Prepared, and there is nothing to attach"
        elif (status.get("vpc"), status.get("attachmentRef")) != (_identity(attachment)[0], {"name": key[1]}):
            yield f"interface {key} names another VPC or attachment than its own: {status}"


def _claims_that_were_not_told(cell: Cell) -> Iterator[str]:
    """A claim says of Prepared what its interface says."""
    for key, interface in cell.interfaces.items():
        holder = interface["spec"].get("claimRef")
        claim = cell.claims.get((key[0], holder["name"])) if holder else None
        if claim is not None and status_of(interface, "Prepared") != status_of(claim, "Prepared"):
            yield f"interface {key} and its claim do not say the same of Prepared"


def _twice(what: str, values: list[Any]) -> Iterator[str]:
    yield from (f"{what} {value} is there {count} times" for value, count in Counter(values).items() if count > 1)


def _key(found: Raw) -> Identity:
    return found["metadata"].get("namespace", ""), found["metadata"]["name"]


def _says(found: Raw, name: str) -> bool:
    return bool(found.get("status", {}).get(name))


def _identity(attachment: Raw) -> Identity:
    status = attachment.get("status", {})
    return status.get("vpc", ""), status.get("vpcAttachment", "")


def _labels(found: Raw) -> Identity:
    labels = found["metadata"].get("labels") or {}
    return labels.get(cloud.VPC_LABEL, ""), labels.get(cloud.VPC_ATTACHMENT_LABEL, "")


def _numbers(texts: Identity) -> tuple[int, int]:
    return identity.from_base62(texts[0]), identity.from_base62(texts[1])


def _owner(found: Raw) -> str:
    owners = found["metadata"].get("ownerReferences") or [{"uid": ""}]
    return str(owners[0]["uid"])
