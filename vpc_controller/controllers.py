"""Which changes wake which reconciler."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from netclaim import identity
from netclaim.api import resources
from netclaim.api.meta import Key, Raw
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller
from netclaim.kube.objects import key_of
from netclaim.kube.predicates import Predicate, changed_meta_or_spec, status_changed
from netclaim.kube.process import Process
from netclaim.kube.reflector import Reflector
from vpc_controller import adverts, attachments, identifiers, vpcs
from vpc_controller.adverts import Adverts
from vpc_controller.attachments import Attachments
from vpc_controller.drawing import Drawing, Releases
from vpc_controller.identifiers import labelled, said
from vpc_controller.settings import Settings
from vpc_controller.vpcs import Vpcs


@dataclass(frozen=True, slots=True)
class Reflectors:
    """All that the controller follows."""

    contexts: Reflector
    subnets: Reflector
    interfaces: Reflector
    claims: Reflector
    vpcs: Reflector
    attachments: Reflector
    definitions: Reflector
    identifiers: Reflector
    advertisements: Reflector
    routers: Reflector
    nodes: Reflector


def register(process: Process, cell: Cluster, settings: Settings) -> None:
    """Add the reconcilers to the process."""
    system = settings.system_namespace
    follows = _reflect(cell, system)
    recorder = process.recorder(cell)
    drawing = Drawing(cell, system)
    process.add(_vpcs(follows, Vpcs(cell, drawing, recorder)))
    process.add(_attachments(follows, Attachments(cell, drawing, recorder, settings.attachment_mode)))
    process.add(_adverts(follows, Adverts(cell, system, recorder)))
    process.add(_identifiers(follows, Releases(cell, system), system))


def _reflect(cell: Cluster, system: str) -> Reflectors:
    """Follow the kinds, with the indexes that the reconcilers look things up by."""
    follows = Reflectors(
        contexts=cell.reflect(resources.NETWORK_CONTEXTS),
        subnets=cell.reflect(resources.SUBNETS),
        interfaces=cell.reflect(resources.INTERFACES),
        claims=cell.reflect(resources.CLAIMS),
        vpcs=cell.reflect(resources.VPCS),
        attachments=cell.reflect(resources.ATTACHMENTS),
        definitions=cell.reflect(resources.NADS),
        identifiers=cell.reflect(resources.IDENTIFIERS, namespace=system),
        advertisements=cell.reflect(resources.BGP_ADVERTISEMENTS, namespace=system),
        routers=cell.reflect(resources.BGP_ROUTERS, namespace=system),
        nodes=cell.reflect(resources.NODES, slim=_slim_node),
    )
    follows.subnets.store.add_index(vpcs.BY_CONTEXT, vpcs.by_context)
    follows.interfaces.store.add_index(attachments.BY_VPC_NAME, attachments.by_vpc_name)
    follows.interfaces.store.add_index(attachments.BY_CLAIM, attachments.by_claim)
    follows.attachments.store.add_index(identifiers.BY_VPC, identifiers.by_status_vpc)
    follows.attachments.store.add_index(identifiers.BY_IDENTITY, identifiers.by_status_identity)
    follows.attachments.store.add_index(adverts.BY_NODE, adverts.by_facts_node)
    follows.identifiers.store.add_index(identifiers.BY_HOLDER, identifiers.by_holder)
    follows.identifiers.store.add_index(identifiers.BY_VPC, identifiers.by_vpc)
    follows.advertisements.store.add_index(identifiers.BY_VPC, identifiers.by_vpc)
    follows.advertisements.store.add_index(identifiers.BY_IDENTITY, identifiers.by_identity)
    follows.advertisements.store.add_index(adverts.BY_ATTACHMENT, adverts.by_attachment)
    follows.advertisements.store.add_index(adverts.BY_ROUTER, adverts.by_router)
    follows.routers.store.add_index(adverts.BY_NODE, adverts.by_target_node)
    return follows


def _slim_node(raw: Raw) -> Raw:
    """A node's name and taints: its status changes every few seconds and means nothing here."""
    metadata = raw["metadata"]
    kept = {name: metadata[name] for name in ("name", "uid", "resourceVersion") if name in metadata}
    return {"metadata": kept, "spec": {"taints": (raw.get("spec") or {}).get("taints") or []}}


def _status(*fields: str) -> Predicate:
    """A change of these fields of the status."""
    return status_changed(lambda raw: [(raw.get("status") or {}).get(name) for name in fields])


def _conditions(raw: Raw) -> list[tuple[str, str, str]]:
    """The conditions without their times."""
    listed = (raw.get("status") or {}).get("conditions") or ()
    return [(one["type"], one.get("status", ""), one.get("reason", "")) for one in listed]


def _whole_status(raw: Raw) -> Raw:
    return raw.get("status") or {}


def _own_key(raw: Raw) -> Iterable[Key]:
    return (key_of(raw),)


def _vpcs(follows: Reflectors, reconciler: Vpcs) -> Controller:
    controller = Controller("vpcs", reconciler.reconcile)
    controller.watch(follows.contexts, _own_key, when=changed_meta_or_spec)
    controller.watch(
        follows.subnets,
        lambda raw: [(raw["metadata"]["namespace"], raw["spec"]["networkContext"]["name"])],
        when=_status("startAddress", "prefixLength"),
    )
    controller.watch(follows.vpcs, _own_key)
    controller.watch(follows.identifiers, _holder_of("NetworkContext"), when=changed_meta_or_spec)
    return controller


def _attachments(follows: Reflectors, reconciler: Attachments) -> Controller:
    controller = Controller("attachments", reconciler.reconcile, workers=8)
    controller.watch(follows.interfaces, _own_key, when=changed_meta_or_spec | status_changed(_whole_status))
    controller.watch(
        follows.vpcs,
        lambda raw: [key_of(found) for found in follows.interfaces.store.by(attachments.BY_VPC_NAME, key_of(raw))],
        when=changed_meta_or_spec | status_changed(_whole_status),
    )
    controller.watch(follows.attachments, _own_key)
    controller.watch(follows.definitions, _own_key)
    controller.watch(
        follows.claims,
        lambda raw: [key_of(found) for found in follows.interfaces.store.by(attachments.BY_CLAIM, key_of(raw))],
        when=changed_meta_or_spec | status_changed(_conditions),
    )
    controller.watch(follows.identifiers, _holder_of("NetworkInterface"), when=changed_meta_or_spec)
    controller.watch(follows.identifiers, reconciler.keys_that_wait, when=_appeared_or_went)
    return controller


def _adverts(follows: Reflectors, reconciler: Adverts) -> Controller:
    controller = Controller("adverts", reconciler.reconcile, workers=8)
    controller.watch(follows.attachments, _own_key)
    controller.watch(follows.advertisements, adverts.attachment_keys)
    controller.watch(follows.routers, reconciler.keys_of_router, when=changed_meta_or_spec)
    controller.watch(follows.nodes, reconciler.keys_of_node, when=changed_meta_or_spec)
    controller.watch(follows.interfaces, _own_key, when=changed_meta_or_spec | status_changed(_conditions))
    controller.watch(
        follows.claims,
        lambda raw: [key_of(found) for found in follows.interfaces.store.by(attachments.BY_CLAIM, key_of(raw))],
        when=changed_meta_or_spec | status_changed(_conditions),
    )
    return controller


def _identifiers(follows: Reflectors, reconciler: Releases, system: str) -> Controller:
    """Look at an identifier when its holder or an advertisement goes, and when what it stands for changes."""
    controller = Controller("identifiers", reconciler.reconcile)
    held = follows.identifiers.store

    def of_holder(raw: Raw) -> Iterable[Key]:
        return [key_of(found) for found in held.by(identifiers.BY_HOLDER, raw["metadata"]["uid"])]

    def of_identity(vpc: str, attachment: str) -> Iterable[Key]:
        return [(system, name) for name in _names(vpc, attachment)]

    def of_status(raw: Raw) -> Iterable[Key]:
        """What it says, and whatever else its owner holds: a draw whose reply was lost leaves a second one behind."""
        owners = raw["metadata"].get("ownerReferences") or ()
        spare = [key_of(found) for owner in owners for found in held.by(identifiers.BY_HOLDER, owner["uid"])]
        return [*of_identity(*said(raw)), *spare]

    controller.watch(follows.identifiers, lambda raw: [key_of(raw), *of_identity(labelled(raw)[0], "")])
    for reflector in (follows.contexts, follows.interfaces):
        controller.watch(reflector, of_holder, when=_appeared_or_went)
    controller.watch(follows.advertisements, lambda raw: of_identity(*labelled(raw)), when=changed_meta_or_spec)
    for reflector in (follows.vpcs, follows.attachments):
        controller.watch(reflector, of_status, when=_status("vpc", "vpcAttachment"))
    return controller


def _names(vpc: str, attachment: str) -> Iterable[str]:
    """Names of the Identifiers that an identity (base62) concerns: of the VPC, and of the attachment."""
    number = identifiers.value_of(vpc, identity.VPC_BITS)
    mine = identifiers.value_of(attachment, identity.ATTACHMENT_BITS)
    if number is not None:
        yield identity.vpc_identifier_name(number)
        if mine is not None:
            yield identity.attachment_identifier_name(number, mine)


_appeared_or_went = Predicate(lambda _old, _new: False)
"""No modification counts."""


def _holder_of(kind: str) -> Callable[[Raw], Iterable[Key]]:
    """Keys of the holders of that kind, from their Identifiers: one that was deleted by hand is made again."""

    def keys(raw: Raw) -> Iterable[Key]:
        holder = raw["spec"]["holder"]
        return [(holder["namespace"], holder["name"])] if holder["kind"] == kind else []

    return keys
