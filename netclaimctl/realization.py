"""The part of a claim's chain that a data plane makes: VPC, attachment, Pod, node and advertisement. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from netclaim import identity
from netclaim.api import cloud, cni, network, networking, resources
from netclaim.api.conditions import message_of, status_of
from netclaim.api.meta import Raw
from netclaim.kube.objects import owner_uids, uid_of
from netclaimctl.chain import (
    Facts,
    Link,
    State,
    absent,
    attachment_name,
    broken,
    instance_of,
    interface_name,
    judged,
    pod_name,
    sound,
    waiting,
)
from netclaimctl.objects import status

FOREIGN_DATA_PLANE = "this cell does not serve the kind: another data plane realizes its interfaces"


def links(facts: Facts) -> Iterator[Link]:
    """From the VPC to the advertisement."""
    interface = facts.one(resources.INTERFACES, interface_name(facts.claim))
    if interface is None:
        return
    yield from _vpc(facts, interface)
    attachment = facts.one(resources.ATTACHMENTS, attachment_name(interface, interface_name(facts.claim)))
    if attachment is None:
        name = attachment_name(interface, interface_name(facts.claim))
        yield absent(facts, resources.ATTACHMENTS, name, "it is made once the VPC is ready: does the controller run?")
    else:
        yield from _attachment(facts, interface, attachment)
    yield from _pod(facts, attachment)
    if attachment is not None and status(attachment).get("node"):
        yield from _node(facts, attachment)
        yield _advertisement(facts, attachment)
    yield judged(resources.INTERFACES, interface, networking.PROGRAMMED, "is programmed")


def _vpc(facts: Facts, interface: Raw) -> Iterator[Link]:
    context = (status(interface).get("networkContextRef") or {}).get("name")
    for vpc in facts.all(resources.VPCS):
        if vpc["spec"]["networkContextRef"]["name"] == context:
            yield judged(resources.VPCS, vpc, networking.READY, f"has identifier {status(vpc).get('vpc')}")
            return
    yield absent(facts, resources.VPCS, context or "?", "the VPC controller has not made it yet: does it run and lead?")


def _attachment(facts: Facts, interface: Raw, attachment: Raw) -> Iterator[Link]:
    told, name = status(attachment), attachment["metadata"]["name"]
    mine = (told.get("vpc") or "", told.get("vpcAttachment") or "")
    says = f"has identifier {'/'.join(mine)}, mode {attachment['spec']['interface']['mode']}"
    yield judged(resources.ATTACHMENTS, attachment, networking.READY, says)
    if not all(mine):
        return
    yield _identifier(facts, interface, mine)
    definition = facts.one(resources.NADS, name)
    if definition is None:
        yield absent(facts, resources.NADS, name, "it is gone: no Pod can be attached until it is there again")
    elif _labels(definition) != mine or uid_of(attachment) not in owner_uids(definition):
        says = f"it carries {'/'.join(_labels(definition))} and not the identity of the attachment"
        yield broken(resources.NADS, name, says)
    else:
        yield sound(resources.NADS, name, "points the CNI at the attachment")
    yield judged(resources.INTERFACES, interface, networking.PREPARED, "is prepared: a Pod may use it")


def _identifier(facts: Facts, interface: Raw, mine: tuple[str, str]) -> Link:
    name = identity.attachment_identifier_name(*(identity.from_base62(text) for text in mine))
    found = facts.one(resources.IDENTIFIERS, name)
    if found is None:
        return absent(facts, resources.IDENTIFIERS, name, "it is gone: the identity may be drawn again")
    holder = found["spec"]["holder"]
    if holder["uid"] != uid_of(interface):
        says = f"{holder['kind']} {holder['namespace']}/{holder['name']} holds it, not this interface"
        return broken(resources.IDENTIFIERS, name, says)
    return sound(resources.IDENTIFIERS, name, f"makes {'/'.join(mine)} this interface's alone")


def _labels(raw: Raw) -> tuple[str, str]:
    labels = raw["metadata"].get("labels") or {}
    return labels.get(cloud.VPC_LABEL, ""), labels.get(cloud.VPC_ATTACHMENT_LABEL, "")


def _pod(facts: Facts, attachment: Raw | None) -> Iterator[Link]:
    instance = instance_of(facts.claim, facts.all(resources.INSTANCES))
    if instance is not None:
        gates = ", ".join(entry["name"] for entry in instance["spec"].get("schedulingGates") or ())
        name = instance["metadata"]["name"]
        link = waiting(resources.INSTANCES, name, f"is held back by {gates}")
        yield link if gates else sound(resources.INSTANCES, name, "uses the interface")
    name = pod_name(attachment, instance)
    pod = facts.one(resources.PODS, name)
    if pod is None:
        says = "there is no such Pod yet" if name else "no Pod uses the interface yet"
        yield absent(facts, resources.PODS, name or "-", says)
        return
    phase, node = status(pod).get("phase"), pod["spec"].get("nodeName") or "no node yet"
    annotations = pod["metadata"].get("annotations") or {}
    injected = networking.INJECTED_ANNOTATION in annotations
    attached = {cni.NETWORKS_ANNOTATION, cni.DEFAULT_NETWORK_ANNOTATION} & annotations.keys()
    if not injected and not attached:
        says = (
            f"it was admitted without the interface: it needs the label {networking.INJECT_LABEL}=true when it is made"
        )
        yield broken(resources.PODS, name, says)
    elif phase == "Running":
        yield sound(resources.PODS, name, f"is Running on {node}")
    elif phase in {"Failed", "Succeeded"}:
        yield broken(resources.PODS, name, f"has ended ({phase}) on {node}")
    else:
        yield waiting(resources.PODS, name, f"is {phase or 'Pending'} on {node}: see its events")


def _node(facts: Facts, attachment: Raw) -> Iterator[Link]:
    told = status(attachment)
    name = told["node"]
    node = facts.one(resources.NODES, name)
    pod = facts.one(resources.PODS, told.get("podName"))
    if node is None:
        link = absent(facts, resources.NODES, name, "")
        gone = broken(resources.NODES, name, "it is gone, and the attachment still says that it is there")
        yield link if link.state is State.UNREAD else gone
    elif status_of(node, networking.READY) != "True":
        says = f"it is not Ready: {message_of(node, networking.READY) or 'its kubelet has not said why'}"
        yield broken(resources.NODES, name, says)
    elif pod is not None and told.get("podUID") and told["podUID"] != uid_of(pod):
        yield broken(resources.NODES, name, f"has the attachment for an earlier Pod (uid {told['podUID']})")
    else:
        devices = " -> ".join(filter(None, (told.get("guestInterface"), told.get("hostInterface"))))
        yield sound(resources.NODES, name, f"has the interface as {devices or '?'}, routed by {_routed_by(told)}")
    routers = [raw for raw in facts.all(resources.BGP_ROUTERS) if raw["spec"]["targetRef"]["name"] == name]
    if not routers:
        yield absent(facts, resources.BGP_ROUTERS, name, "the node has none: does its agent run?")
    for router in routers:
        spec = router["spec"]
        says = f"reaches it at {spec['nextHop']}, SIDs in {spec['srv6Locator']}"
        yield sound(resources.BGP_ROUTERS, router["metadata"]["name"], says)


def _routed_by(told: Raw) -> str:
    return str(told.get("vrfInterface") or "rules")


def _advertisement(facts: Facts, attachment: Raw) -> Link:
    told = status(attachment)
    for raw in facts.all(resources.BGP_ADVERTISEMENTS):
        if raw["spec"]["attachmentRef"]["uid"] != uid_of(attachment):
            continue
        container = raw["spec"].get("containerID")
        if container and told.get("containerID") and container != told["containerID"]:
            says = f"it is for sandbox {container}, the attachment is in {told['containerID']}"
            return broken(resources.BGP_ADVERTISEMENTS, raw["metadata"]["name"], says)
        prefixes = ", ".join(raw["spec"].get("prefixes") or ())
        return judged(resources.BGP_ADVERTISEMENTS, raw, network.ADVERTISED, f"announces {prefixes}")
    return absent(facts, resources.BGP_ADVERTISEMENTS, "-", f"node {told['node']} has not announced the addresses yet")
