"""What becomes of an opted-in Pod: a JSON patch, or a refusal. Pure: data in, data out.

`decide` sees the Pod of an admission request and what the caches hold about its instance. It never guesses: whatever
cannot be attached is refused, since a Pod that boots without its interface looks healthy and is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from netclaim.api import cloud, cni, networking, resources
from netclaim.api.cloud import VPCAttachment
from netclaim.api.cni import NetworkAttachmentDefinition
from netclaim.api.compute import Instance, InstanceInterface
from netclaim.api.meta import Condition, Key, OwnerReference, Raw
from netclaim.api.networking import NetworkInterface
from webhook import networks, refusals
from webhook.networks import Selection, UnreadableError
from webhook.refusals import Lookup, Refusal, refuse

POD_INTERFACE: Final = "eth0"
"""The one interface that a Pod always has, given by its default network."""

OPT_IN: Final = f'{networking.INJECT_LABEL}="true"'

_NETWORKS_FIELD: Final = f"metadata.annotations[{cni.NETWORKS_ANNOTATION}]"
_DEFAULT_NETWORK_FIELD: Final = f"metadata.annotations[{cni.DEFAULT_NETWORK_ANNOTATION}]"


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known about the Pod's instance.

    `interfaces` by the name of the claim that holds them; `attachments` and `definitions` by key.
    """

    instance: Instance | None
    interfaces: Mapping[str, NetworkInterface] = field(default_factory=dict)
    attachments: Mapping[Key, VPCAttachment] = field(default_factory=dict)
    definitions: Mapping[Key, NetworkAttachmentDefinition] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """An admitted Pod: JSON patch operations, empty when the Pod already carries all of it."""

    patch: tuple[Raw, ...]


@dataclass(frozen=True, slots=True)
class Attaching:
    """One interface on its way into the Pod: by which name the workload knows it, and which definition attaches it."""

    declared: str
    interface: str
    selection: Selection
    mode: str

    @property
    def is_default_network(self) -> bool:
        """Whether it takes the place of the cluster network.

        Multus gives eth0 to the default network, and a second eth0 fails in the kernel; a virtual machine has its own.
        """
        return self.mode == cloud.NETNS and self.selection.interface == POD_INTERFACE

    def record(self) -> Raw:
        """The entry of the annotation that tells what was injected."""
        return {
            "name": self.declared,
            "interface": self.interface,
            "interfaceName": self.selection.interface,
            "network": f"{self.selection.namespace}/{self.selection.name}",
            "mode": self.mode,
            "defaultNetwork": self.is_default_network,
        }


def owner_of(pod: Raw) -> OwnerReference | None:
    """The Instance that controls the Pod, if one does."""
    for raw in pod.get("metadata", {}).get("ownerReferences") or ():
        owner = OwnerReference.model_validate(raw)
        if owner.controller and owner.kind == "Instance" and owner.api_version.partition("/")[0] == resources.COMPUTE:
            return owner
    return None


def pod_name(pod: Raw, namespace: str) -> str:
    """`namespace/name`, or `namespace/<prefix>*` while the API server has not made the name yet."""
    metadata = pod.get("metadata", {})
    return f"{namespace}/{metadata.get('name') or (metadata.get('generateName') or '') + '*'}"


def decide(pod: Raw, namespace: str, observed: Observed, node_labels: Mapping[str, str]) -> Admission | Refusal:
    """Admit the Pod with its interfaces, or refuse it.

    `pod` is the object of the admission request, `namespace` the request's; `node_labels` are the labels of nodes that
    can attach interfaces. Only the first thing that is wrong is told.
    """
    name = pod_name(pod, namespace)
    if pod.get("spec", {}).get("hostNetwork"):
        return refuse(refusals.HOST_NETWORK, name, field="spec.hostNetwork", label=OPT_IN)
    instance = _instance(pod, namespace, observed, name)
    if isinstance(instance, Refusal):
        return instance
    attaching: list[Attaching] = []
    for declared in instance.spec.network_interfaces:
        found = _attaching(declared, instance, observed, name)
        if isinstance(found, Refusal):
            return found
        attaching.append(found)
    annotations = pod.get("metadata", {}).get("annotations") or {}
    wanted = _annotations(annotations, namespace, attaching, instance.name, name)
    if isinstance(wanted, Refusal):
        return wanted
    return Admission((*_annotation_patch(annotations, wanted), *_affinity_patch(pod, node_labels)))


def _instance(pod: Raw, namespace: str, observed: Observed, name: str) -> Instance | Refusal:
    owner = owner_of(pod)
    if owner is None:
        return refuse(refusals.NOT_OWNED_BY_INSTANCE, name, field="metadata.ownerReferences", label=OPT_IN)
    instance = observed.instance
    lookup = Lookup(resources.INSTANCES, namespace, owner.name)
    where = "metadata.ownerReferences"
    if instance is None:
        return refuse(refusals.INSTANCE_NOT_FOUND, name, field=where, recheck=lookup, instance=owner.name)
    if instance.uid != owner.uid:
        # The cache may still show the predecessor of the instance that the Pod names.
        return refuse(
            refusals.INSTANCE_REPLACED,
            name,
            field=where,
            recheck=lookup,
            instance=owner.name,
            found=instance.uid,
            wanted=owner.uid,
        )
    if instance.is_going:
        return refuse(refusals.INSTANCE_TERMINATING, name, field=where, instance=owner.name)
    if not instance.spec.network_interfaces:
        return refuse(refusals.NO_INTERFACE_DECLARED, name, instance=owner.name, label=OPT_IN)
    return instance


def _attaching(declared: InstanceInterface, instance: Instance, observed: Observed, name: str) -> Attaching | Refusal:
    claim = declared.claim_ref.name
    context = {"declared": declared.name, "instance": instance.name, "claim": claim}
    interface = observed.interfaces.get(claim)
    lookup = Lookup(resources.INTERFACES, instance.namespace, interface.name if interface else claim)
    unbound = _why_not_bound(declared, interface)
    if interface is None or unbound:
        return refuse(refusals.INTERFACE_NOT_BOUND, name, recheck=lookup, why=unbound, **context)
    context["interface"] = interface.name
    why = _why_not_prepared(interface)
    if why is not None:
        return refuse(refusals.INTERFACE_NOT_PREPARED, name, recheck=lookup, why=why, **context)
    ref = interface.status.attachment_ref
    return _definition(interface, ref.name if ref else interface.name, observed, name, context)


def _why_not_bound(declared: InstanceInterface, interface: NetworkInterface | None) -> str:
    """Why the interface cannot be used for the claim, in brackets; empty when it can (or when there is none)."""
    if interface is None:
        return ""
    held_by = interface.spec.claim_ref
    if interface.status.phase != networking.PHASE_BOUND or held_by is None:
        return f" (networkinterface {interface.name} is {interface.status.phase or 'not bound yet'})"
    wanted = declared.claim_ref
    if held_by.name != wanted.name or (wanted.uid and held_by.uid != wanted.uid):
        return f" (networkinterface {interface.name} is held by claim {held_by.name} with uid {held_by.uid})"
    return ""


def _why_not_prepared(interface: NetworkInterface) -> str | None:
    """Why the interface cannot be attached yet, in brackets or empty; None when it can."""
    prepared = condition(interface.status.conditions, networking.PREPARED)
    if interface.is_going:
        return " (it is being deleted)"
    if prepared is None or prepared.status != "True":
        return _because(prepared)
    if prepared.observed_generation not in (None, interface.metadata.generation):
        # Bound to its next claim, for example, while the Pod of the previous one may still have it.
        return " (it was changed after it had been prepared)"
    return None


def _definition(
    interface: NetworkInterface, attached_by: str, observed: Observed, name: str, context: dict[str, str]
) -> Attaching | Refusal:
    key = (interface.namespace, attached_by)
    context = {**context, "attachment": attached_by}
    attachment = observed.attachments.get(key)
    if attachment is None or attachment.is_going:
        return refuse(
            refusals.ATTACHMENT_NOT_FOUND,
            name,
            recheck=Lookup(resources.ATTACHMENTS, *key),
            why=" (it is being deleted)" if attachment else "",
            **context,
        )
    definition = observed.definitions.get(key)
    lookup = Lookup(resources.NADS, *key)
    if definition is None or definition.is_going:
        return refuse(refusals.NETWORK_ATTACHMENT_NOT_FOUND, name, recheck=lookup, **context)
    owner = definition.controller_ref
    if owner is None or owner.uid != attachment.uid:
        return refuse(refusals.NETWORK_ATTACHMENT_FOREIGN, name, recheck=lookup, **context)
    return Attaching(
        declared=context["declared"],
        interface=interface.name,
        selection=Selection(*key, interface.spec.interface_name),
        mode=attachment.spec.interface.mode,
    )


def _annotations(
    present: Mapping[str, str], namespace: str, attaching: list[Attaching], instance: str, name: str
) -> dict[str, str] | Refusal:
    """The annotations that the Pod needs, by name."""
    wanted: dict[str, str] = {}
    listed = _listed(present, cni.NETWORKS_ANNOTATION, _NETWORKS_FIELD, namespace, name)
    if isinstance(listed, Refusal):
        return listed
    default = next((one for one in attaching if one.is_default_network), None)
    if default is not None:
        text = _default_network(present, namespace, default, instance, name)
        if isinstance(text, Refusal):
            return text
        wanted[cni.DEFAULT_NETWORK_ANNOTATION] = text
    merged = _merge(listed, attaching, instance, name)
    if isinstance(merged, Refusal):
        return merged
    if merged != listed:
        as_json = networks.is_json(present.get(cni.NETWORKS_ANNOTATION, ""))
        wanted[cni.NETWORKS_ANNOTATION] = networks.write(merged, as_json=as_json)
    records = [one.record() for one in attaching]
    wanted[networking.INJECTED_ANNOTATION] = json.dumps(records, separators=(",", ":"))
    return wanted


def _listed(
    present: Mapping[str, str], annotation: str, where: str, namespace: str, name: str
) -> list[Selection] | Refusal:
    try:
        return networks.read(present.get(annotation, ""), namespace)
    except UnreadableError as error:
        return refuse(refusals.ANNOTATION_UNREADABLE, name, field=where, annotation=annotation, why=str(error))


def _default_network(
    present: Mapping[str, str], namespace: str, default: Attaching, instance: str, name: str
) -> str | Refusal:
    listed = _listed(present, cni.DEFAULT_NETWORK_ANNOTATION, _DEFAULT_NETWORK_FIELD, namespace, name)
    if isinstance(listed, Refusal):
        return listed
    if any(found.network != default.selection.network for found in listed):
        return refuse(
            refusals.DEFAULT_NETWORK_CONFLICT,
            name,
            field=_DEFAULT_NETWORK_FIELD,
            declared=default.declared,
            instance=instance,
            annotation=cni.DEFAULT_NETWORK_ANNOTATION,
            found=present[cni.DEFAULT_NETWORK_ANNOTATION],
        )
    if listed:
        return present[cni.DEFAULT_NETWORK_ANNOTATION]
    return networks.write([Selection(*default.selection.network)], as_json=False)


def _merge(listed: list[Selection], attaching: list[Attaching], instance: str, name: str) -> list[Selection] | Refusal:
    """The Pod's networks with ours among them, each once and under its own name."""
    merged = list(listed)
    named: dict[str, Attaching] = {}
    for one in attaching:
        namesake = named.setdefault(one.selection.interface, one)
        clash = f"interface {namesake.declared}" if namesake is not one else _clash(merged, one)
        if clash:
            return refuse(
                refusals.INTERFACE_NAME_TAKEN,
                name,
                field=_NETWORKS_FIELD,
                declared=one.declared,
                instance=instance,
                interface_name=one.selection.interface,
                taken_by=clash,
            )
        if one.is_default_network:
            continue
        place = next((index for index, found in enumerate(merged) if found.network == one.selection.network), None)
        if place is None:
            merged.append(one.selection)
        else:
            merged[place] = replace(merged[place], interface=one.selection.interface)
    return merged


def _clash(listed: Iterable[Selection], one: Attaching) -> str:
    """The Pod's own entry that stands in the way of ours; empty when there is none.

    An entry for our network is fine once, unnamed or under our name; a default network must not be listed as well.
    """
    ours, seen = one.selection, 0
    for found in listed:
        if found.network != ours.network:
            if found.interface == ours.interface:
                return f"entry {found}"
            continue
        seen += 1
        if one.is_default_network or seen > 1 or found.interface not in ("", ours.interface):
            return f"entry {found}"
    return ""


def _annotation_patch(present: Mapping[str, str], wanted: Mapping[str, str]) -> list[Raw]:
    changed = {name: text for name, text in wanted.items() if present.get(name) != text}
    if not changed:
        return []
    if not present:
        return [{"op": "add", "path": "/metadata/annotations", "value": changed}]
    return [
        {"op": "add", "path": f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}", "value": text}
        for name, text in changed.items()
    ]


def _affinity_patch(pod: Raw, node_labels: Mapping[str, str]) -> list[Raw]:
    """Node affinity to nodes that can attach interfaces, added to what the Pod already requires.

    The terms of a required node affinity are alternatives, so each gets our expressions; a term without any
    expression selects no node, and stays that way.
    """
    affinity: dict[str, Any] = pod.get("spec", {}).get("affinity") or {}
    by_node = affinity.get("nodeAffinity") or {}
    required = by_node.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms = required.get("nodeSelectorTerms") or []
    ours = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(node_labels.items())]
    wanted = [_required(term, ours) for term in terms] if terms else [{"matchExpressions": ours}]
    if not ours or wanted == terms:
        return []
    required = {**required, "nodeSelectorTerms": wanted}
    by_node = {**by_node, "requiredDuringSchedulingIgnoredDuringExecution": required}
    return [{"op": "add", "path": "/spec/affinity", "value": {**affinity, "nodeAffinity": by_node}}]


def _required(term: Raw, ours: list[Raw]) -> Raw:
    expressions = term.get("matchExpressions") or []
    if not expressions and not term.get("matchFields"):
        return term
    return {**term, "matchExpressions": [*expressions, *(one for one in ours if one not in expressions)]}


def condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of that type, None when nobody has written it."""
    return next((one for one in conditions if one.type == kind), None)


def _because(found: Condition | None) -> str:
    if found is None:
        return ""
    return f" ({found.reason}: {found.message})" if found.message else f" ({found.reason})"
