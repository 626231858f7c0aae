"""The whole chain of one claim, from its project and class to the kernel of a node, link by link. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from netclaim.api import networking, resources
from netclaim.api.conditions import is_true, message_of, reason_of, status_of
from netclaim.api.meta import Raw
from netclaim.kube.objects import is_going, uid_of
from netclaimctl import addressing, realization
from netclaimctl.chain import Facts, Link, State, absent, broken, interface_name, judged, sound, waiting
from netclaimctl.objects import minted_for, published, status


def explain(facts: Facts) -> list[Link]:
    """The links, in the order in which one makes the next possible."""
    parts: tuple[Callable[[Facts], Iterator[Link]], ...] = (
        _project,
        _claim,
        _network,
        _context,
        addressing.links,
        _interface,
        realization.links,
        _outcome,
    )
    return [link for part in parts for link in part(facts)]


def _project(facts: Facts) -> Iterator[Link]:
    namespace = facts.one(resources.NAMESPACES, facts.namespace)
    labelled = ((namespace or {}).get("metadata") or {}).get("labels", {}).get(facts.project_label, "")
    if namespace is None:
        yield absent(facts, resources.NAMESPACES, facts.namespace, "it cannot be seen")
    elif not facts.project:
        says = f"it has no label {facts.project_label}: set it to the project that its claims belong to"
        yield broken(resources.NAMESPACES, facts.namespace, says)
    elif labelled != facts.project:
        says = f"its label says project {labelled or 'none'}; the claim has recorded {facts.project}, which counts"
        yield sound(resources.NAMESPACES, facts.namespace, says)
    else:
        yield sound(resources.NAMESPACES, facts.namespace, f"belongs to project {facts.project}")
    if not facts.project:
        return
    if facts.is_project_there is None:
        yield Link("Project", facts.project, State.UNREAD, facts.unread.get("Project", "it cannot be read"))
    elif facts.is_project_there:
        yield Link("Project", facts.project, State.SOUND, "has a namespace in IPAM")
    else:
        says = "IPAM has no namespace of that name: create the project, or correct the label"
        yield Link("Project", facts.project, State.BROKEN, says)


def _claim(facts: Facts) -> Iterator[Link]:
    """What is asked for; how the claim itself is comes last, as the outcome of all the rest."""
    spec = facts.claim["spec"]
    families = ", ".join(spec.get("ipFamilies") or ()) or "the network's families"
    external = "".join(f" and an address of class {entry['class']}" for entry in spec.get("addresses") or ())
    policy = spec.get("reclaimPolicy", "Delete")
    says = f"wants {families}{external} on network {spec['network']['name']}, reclaim policy {policy}"
    if is_going(facts.claim):
        held = ", ".join(facts.claim["metadata"].get("finalizers") or ()) or "no finalizer"
        yield broken(resources.CLAIMS, facts.name, f"its deletion was asked for; held by {held}")
    else:
        yield sound(resources.CLAIMS, facts.name, says)


def _network(facts: Facts) -> Iterator[Link]:
    name = facts.claim["spec"]["network"]["name"]
    network = facts.one(resources.NETWORKS, name)
    if network is None:
        link = absent(facts, resources.NETWORKS, name, "")
        says = "there is no such network: create it, and the claim binds"
        yield link if link.state is State.UNREAD else broken(resources.NETWORKS, name, says)
        return
    carried = network["spec"].get("ipFamilies") or ["IPv6"]
    lacking = [family for family in facts.claim["spec"].get("ipFamilies") or () if family not in carried]
    if lacking:
        says = f"carries {', '.join(carried)}, and the claim wants {', '.join(lacking)}"
        yield broken(resources.NETWORKS, name, says)
        return
    prefixes = ", ".join(entry["cidr"] for entry in status(network).get("prefixes") or ())
    yield judged(resources.NETWORKS, network, networking.READY, f"carries {', '.join(carried)} {prefixes}".rstrip())


def context_of(facts: Facts) -> Raw | None:
    """The context that the interface lives in; before there is one, the network's."""
    interface = facts.one(resources.INTERFACES, interface_name(facts.claim))
    named = (status(interface).get("networkContextRef") or {}).get("name") if interface else None
    network = facts.claim["spec"]["network"]["name"]
    of_network = [raw for raw in facts.all(resources.NETWORK_CONTEXTS) if raw["spec"]["network"]["name"] == network]
    return facts.one(resources.NETWORK_CONTEXTS, named) or next(iter(of_network), None)


def _context(facts: Facts) -> Iterator[Link]:
    context = context_of(facts)
    network = facts.claim["spec"]["network"]["name"]
    if context is None:
        says = f"network {network} has no context in this cell: see its spec.locations"
        yield absent(facts, resources.NETWORK_CONTEXTS, f"{network}-...", says)
        return
    name, spec = context["metadata"]["name"], context["spec"]
    yield judged(resources.NETWORK_CONTEXTS, context, networking.READY, f"is {network} in {spec['location']}")
    subnets = [raw for raw in facts.all(resources.SUBNETS) if raw["spec"]["networkContext"]["name"] == name]
    for family in addressing.families(facts):
        own = [raw for raw in subnets if raw["spec"]["ipFamily"] == family]
        if not own:
            yield absent(facts, resources.SUBNETS, f"{name}-{family.lower()}", f"there is none for {family} yet")
        for subnet in own:
            told = status(subnet)
            says = f"{told.get('startAddress')}/{told.get('prefixLength')}, gateway {told.get('gateway')}"
            yield judged(resources.SUBNETS, subnet, networking.READY, says)


def _interface(facts: Facts) -> Iterator[Link]:
    name = interface_name(facts.claim)
    interface = facts.one(resources.INTERFACES, name)
    if interface is None:
        yield absent(facts, resources.INTERFACES, name, facts.refusal or "it is made when all addresses are bound")
        return
    holder = interface["spec"].get("claimRef") or {}
    told, has = published(status(facts.claim)), published(interface["spec"])
    if is_going(interface):
        held = ", ".join(interface["metadata"].get("finalizers") or ()) or "no finalizer"
        says = f"its deletion was asked for; held by {held}"
    elif holder.get("uid") != uid_of(facts.claim):
        says = f"{holder['name']} (uid {holder['uid']}) holds it" if holder else "nobody holds it"
        says += f"; {facts.refusal}" if facts.refusal else ""
    elif lost := [address for address in has if not addressing.is_held(facts, minted_for(interface), address)]:
        says = f"no IPClaim holds its address {', '.join(lost)}: another may be given the same; replace the claim"
    elif sorted(told) != sorted(has):
        says = f"it has {', '.join(has)}, and the claim publishes {', '.join(told) or 'nothing'}"
    else:
        yield judged(resources.INTERFACES, interface, networking.ALLOCATED, f"has {', '.join(has)}")
        return
    yield broken(resources.INTERFACES, name, says)


def _outcome(facts: Facts) -> Iterator[Link]:
    """What the claim itself says in the end."""
    kinds = (networking.BOUND, networking.ALLOCATED, networking.PREPARED, networking.PROGRAMMED)
    listed = ", ".join(f"{kind} {status_of(facts.claim, kind) or 'not said'}" for kind in kinds)
    if is_true(facts.claim, networking.READY):
        yield sound(resources.CLAIMS, facts.name, f"is Ready ({listed})")
        return
    reason, message = reason_of(facts.claim, networking.READY), message_of(facts.claim, networking.READY)
    says = f"{reason}: {message} ({listed})" if reason else f"Ready is not said yet ({listed})"
    is_refused = status_of(facts.claim, networking.READY) == "False" and not reason.startswith("Not")
    yield (broken if is_refused else waiting)(resources.CLAIMS, facts.name, says)
