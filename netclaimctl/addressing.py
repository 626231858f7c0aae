"""The part of a claim's chain that lies in IPAM: class, pool, IPClaim and allocation of each address. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from netclaim import addresses
from netclaim.api import ipam, resources
from netclaim.api.conditions import message_of, reason_of
from netclaim.api.meta import Raw
from netclaim.kube.objects import is_going, uid_of
from netclaimctl.chain import Facts, Link, absent, broken, interface_name, judged, sound, waiting
from netclaimctl.objects import minted_for, owner_ref, status


@dataclass(frozen=True, slots=True)
class Need:
    """One address: of a `family` on the network, or of an external class."""

    family: str | None = None
    class_name: str | None = None

    def __str__(self) -> str:
        return f"class {self.class_name}" if self.class_name else str(self.family)


def families(facts: Facts) -> list[str]:
    """The families that the claim gets: its own, else the network's."""
    network = facts.one(resources.NETWORKS, facts.claim["spec"]["network"]["name"])
    carried = network["spec"].get("ipFamilies") or ["IPv6"] if network else []
    return list(facts.claim["spec"].get("ipFamilies") or carried)


def links(facts: Facts) -> Iterator[Link]:
    """Class, pool, IPClaim and allocation of each address that the claim needs."""
    if not facts.project:
        return
    needs = [Need(family=family) for family in families(facts)]
    needs += [Need(class_name=entry["class"]) for entry in facts.claim["spec"].get("addresses") or ()]
    for need in needs:
        yield from _of_need(facts, need)


def is_held(facts: Facts, uid: str, address: str) -> bool:
    """Whether an IPClaim that is for `uid` has this address; what cannot be read is believed."""
    if resources.IP_CLAIMS.kind in facts.unread:
        return True
    blocks = [
        status(raw)["cidr"]
        for raw in facts.all(resources.IP_CLAIMS)
        if owner_ref(raw).get("uid") == uid and status(raw).get("cidr") and not is_going(raw)
    ]
    return any(addresses.same(block, address) for block in blocks)


def _of_need(facts: Facts, need: Need) -> Iterator[Link]:
    yield _class(facts, need)
    claim = _ip_claim(facts, need)
    if claim is None:
        says = facts.refusal or f"IPAM was not asked for {need} yet"
        yield absent(facts, resources.IP_CLAIMS, f"for {need}", says)
        return
    name, told = claim["metadata"]["name"], status(claim)
    if told.get("phase") != ipam.PHASE_BOUND or is_going(claim):
        if told.get("phase") is None and not is_going(claim):
            yield waiting(resources.IP_CLAIMS, name, "IPAM has not answered yet: do its controllers run and lead?")
        elif reason_of(claim, ipam.BOUND):
            says = f"{reason_of(claim, ipam.BOUND)}: {message_of(claim, ipam.BOUND)}"
            yield broken(resources.IP_CLAIMS, name, says)
        else:
            yield judged(resources.IP_CLAIMS, claim, ipam.BOUND, f"holds {told.get('cidr')}")
        return
    yield judged(resources.IP_CLAIMS, claim, ipam.BOUND, f"holds {told.get('cidr')}")
    yield _pool(facts, claim)
    yield _allocation(facts, claim)


def _class(facts: Facts, need: Need) -> Link:
    if need.class_name:
        found = facts.one(resources.IP_CLASSES, need.class_name)
        if found is None:
            return _no_class(facts, need.class_name, f"project {facts.project} has no such class")
        return judged(resources.IP_CLASSES, found, ipam.ACCEPTED, f"gives blocks of /{found['spec']['prefixLength']}")
    defaults = [
        raw
        for raw in facts.all(resources.IP_CLASSES)
        if raw["spec"]["ipFamily"] == need.family
        and (raw["metadata"].get("annotations") or {}).get(ipam.DEFAULT_CLASS_ANNOTATION) == "true"
    ]
    if not defaults:
        says = f"project {facts.project} has no default class for {need.family}"
        return _no_class(facts, f"default of {need.family}", says)
    if len(defaults) > 1:
        names = ", ".join(raw["metadata"]["name"] for raw in defaults)
        return broken(resources.IP_CLASSES, names, f"several say that they are the default of {need.family}: none is")
    says = f"is the default of {need.family}, gives blocks of /{defaults[0]['spec']['prefixLength']}"
    return judged(resources.IP_CLASSES, defaults[0], ipam.ACCEPTED, says)


def _no_class(facts: Facts, name: str, says: str) -> Link:
    if resources.IP_CLASSES.kind in facts.unread:
        return absent(facts, resources.IP_CLASSES, name, says)
    return broken(resources.IP_CLASSES, name, says)


def _ip_claim(facts: Facts, need: Need) -> Raw | None:
    """The IPClaim for the need: this claim's, or that of the claim that the interface was minted for."""
    interface = facts.one(resources.INTERFACES, interface_name(facts.claim))
    owners = {uid_of(facts.claim)} | ({minted_for(interface)} if interface else set())
    for raw in facts.all(resources.IP_CLAIMS):
        spec = raw["spec"]
        fits = (spec.get("ipFamily"), spec.get("className")) == (need.family, need.class_name)
        if fits and owner_ref(raw).get("uid") in owners and spec.get("target") != ipam.TARGET_RANGE:
            return raw
    return None


def _pool(facts: Facts, claim: Raw) -> Link:
    name = (status(claim).get("poolRef") or {}).get("name", "?")
    pool = facts.one(resources.IP_POOLS, name)
    if pool is None:
        link = absent(facts, resources.IP_POOLS, name, "")
        gone = broken(resources.IP_POOLS, name, "it is gone, and the address that came from it is still held")
        return gone if resources.IP_POOLS.kind not in facts.unread else link
    told = status(pool)
    capacity = told.get("capacity") or {}
    says = f"{told.get('cidr')}, {capacity.get('allocated', '?')} of {capacity.get('total', '?')} blocks held"
    return judged(resources.IP_POOLS, pool, ipam.READY, says + _carved_from(facts, pool))


def _carved_from(facts: Facts, pool: Raw) -> str:
    """The pools above it, up to the root pool or to one that another project shares."""
    told = ""
    # Bounded: nothing keeps a user from naming a pool as its own parent.
    for _ in facts.all(resources.IP_POOLS):
        parent = (pool["spec"].get("parentRef") or {}).get("name")
        if not parent:
            break
        above = facts.one(resources.IP_POOLS, parent)
        told += f", from {parent}"
        if above is None:
            break
        told += f" ({status(above).get('cidr')})"
        pool = above
    return told


def _allocation(facts: Facts, claim: Raw) -> Link:
    told = status(claim)
    name = (told.get("allocationRef") or {}).get("name", "?")
    allocation = facts.one(resources.IP_ALLOCATIONS, name)
    if allocation is None:
        if resources.IP_ALLOCATIONS.kind in facts.unread:
            return absent(facts, resources.IP_ALLOCATIONS, name, "")
        says = f"it is gone: {told.get('cidr')} may be given to somebody else (netclaimctl ipam repair)"
        return broken(resources.IP_ALLOCATIONS, name, says)
    holder = allocation["spec"].get("claimRef") or {}
    if holder.get("uid") != uid_of(claim):
        says = f"it is for {holder.get('name', 'nobody')} (uid {holder.get('uid', '-')}), not for this IPClaim"
        return broken(resources.IP_ALLOCATIONS, name, says)
    if not addresses.same(allocation["spec"]["cidr"], told["cidr"]):
        return broken(resources.IP_ALLOCATIONS, name, f"its block is {allocation['spec']['cidr']}")
    return sound(resources.IP_ALLOCATIONS, name, f"makes {told['cidr']} this claim's alone")
