"""A small world in memory that plans are carried out in: objects with uids, finalizers and versions, and an IPAM that
answers. It knows nothing of how the planners decide; it only does what a write says, as the API server would.

What a reconcile observes is a copy made when its stores were last synced, so that it can be behind in everything but
its own key's writes (the runtime holds a key until its writes are seen).
"""

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_network
from typing import Any

from netclaim.api import networking, resources
from netclaim.api.ipam import IPClaim
from netclaim.api.meta import Raw
from netclaim.api.networking import NetworkInterface, NetworkInterfaceClaim
from netclaim.kube.writes import (
    AddFinalizer,
    ApplyStatus,
    Create,
    Delete,
    DropFinalizer,
    Emit,
    JsonPatch,
    Write,
)
from nso.claims import interfaces
from nso.claims.needs import possible_names
from nso.claims.observed import ClaimSeen, HeldInterface, InterfaceSeen
from nso.claims.plan import plan as plan_claim
from nso.steps import Plan, writes_of
from tests.unit.claims.builders import CELL, NAMESPACE, PROJECT, context, network, subnets

BLOCKS = {"IPv6": "fd20:1000::/64", "IPv4": "10.128.0.0/20", "public": "198.51.100.0/24"}
LENGTHS = {"IPv6": 96, "IPv4": 32, "public": 32}
FIRST = {"IPv6": 1, "IPv4": 2, "public": 0}
"""Index of the first block that is handed out."""

Store = dict[str, Raw]


class Refused(Exception):  # noqa: N818 - the API server's answer
    """A write that the API server refuses: what follows it in the plan is not done."""


class Going(Exception):  # noqa: N818 - the API server's answer
    """A hold on an object that is going: the rest of the plan is left out."""


@dataclass
class Objects:
    """Claims, interfaces and IPClaims by name."""

    claims: Store = field(default_factory=dict)
    interfaces: Store = field(default_factory=dict)
    ip_claims: Store = field(default_factory=dict)

    def of(self, resource: resources.Resource) -> Store:
        return {"NetworkInterfaceClaim": self.claims, "NetworkInterface": self.interfaces, "IPClaim": self.ip_claims}[
            resource.kind
        ]


class World:
    """The truth, and what a program has seen of it."""

    def __init__(self) -> None:
        self.truth = Objects()
        self.seen = Objects()
        self.namespace_is_going = False
        self.allocated: dict[str, str] = {}
        """Block -> uid of the IPClaim that holds it."""
        self._serial = 0

    # -- what users and others do --------------------------------------------------------------------------------------

    def create_claim(self, name: str, **spec: Any) -> None:
        if name not in self.truth.claims and not self.namespace_is_going:
            obj: Raw = {"metadata": {"name": name}, "spec": {"network": {"name": "default"}, **spec}}
            self._create(self.truth.claims, obj)

    def delete(self, store: Store, name: str) -> None:
        obj = store.get(name)
        if obj is not None:
            self._delete(store, obj)

    def attach(self, name: str) -> None:
        """The data plane begins to use an interface; one that is going is refused, as by the API server."""
        obj = self.truth.interfaces.get(name)
        if obj is not None and not _going(obj) and "attached" not in obj["metadata"]["finalizers"]:
            obj["metadata"]["finalizers"].append("attached")
            self._touch(obj)

    def detach(self, name: str) -> None:
        obj = self.truth.interfaces.get(name)
        if obj is not None and "attached" in obj["metadata"]["finalizers"]:
            obj["metadata"]["finalizers"].remove("attached")
            self._touch(obj)
            self._collect(self.truth.interfaces, obj)

    def serve(self) -> None:
        """IPAM: binds what is asked for, frees what is given back."""
        for name, obj in list(self.truth.ip_claims.items()):
            if _going(obj):
                self.allocated = {b: uid for b, uid in self.allocated.items() if uid != obj["metadata"]["uid"]}
                del self.truth.ip_claims[name]
            elif not obj.get("status"):
                obj["status"] = {"phase": "Bound", "cidr": self._allocate(obj)}
                self._touch(obj)

    def _allocate(self, obj: Raw) -> str:
        kind = obj["spec"].get("className") or obj["spec"]["ipFamily"]
        asked = obj["spec"].get("address")
        blocks = ip_network(BLOCKS[kind]).subnets(new_prefix=LENGTHS[kind])
        for index, block in enumerate(blocks):
            if asked and ip_network(asked) != block:
                continue
            if index >= FIRST[kind] and str(block) not in self.allocated:
                self.allocated[str(block)] = obj["metadata"]["uid"]
                return str(block)
            assert index < 5000, "the world is full"
        raise AssertionError(f"no block for {obj}")

    # -- the programs --------------------------------------------------------------------------------------------------

    def sync(self, resource: resources.Resource | None = None) -> None:
        """The program's stores (or one of them) catch up with the truth."""
        for each in (resources.CLAIMS, resources.INTERFACES, resources.IP_CLAIMS):
            if resource is None or resource == each:
                store = self.seen.of(each)
                store.clear()
                store.update(copy.deepcopy(self.truth.of(each)))

    def reconcile_claim(self, name: str, *, stop_after: int | None = None) -> bool:
        """One pass over a claim, cut off after so many writes (a crash); returns whether it wrote anything."""
        seen = self.observe_claim(name)
        return self._carry_out(plan_claim(seen), stop_after) if seen is not None else False

    def reconcile_interface(self, name: str, *, stop_after: int | None = None) -> bool:
        seen = self.observe_interface(name)
        return self._carry_out(interfaces.plan(seen), stop_after) if seen is not None else False

    def observe_claim(self, name: str) -> ClaimSeen | None:
        raw = self.seen.claims.get(name)
        if raw is None:
            return None
        claim = NetworkInterfaceClaim.model_validate(raw)
        held = self._held(claim.spec.network_interface_name or name)
        found: Store = {}
        if claim.is_going and held is None:
            live = (self.truth.ip_claims.get(each) for each in possible_names(CELL.location, raw))
            found.update((one["metadata"]["name"], one) for one in live if one is not None)
        uids = {claim.uid, held.minted_for if held else ""}
        wanted = set(possible_names(CELL.location, raw))
        for other in self.seen.ip_claims.values():
            if other["spec"]["ownerRef"]["uid"] in uids or other["metadata"]["name"] in wanted:
                found[other["metadata"]["name"]] = other
        return ClaimSeen(
            cell=CELL,
            raw=raw,
            claim=claim,
            project_label=networking.PROJECT_LABEL,
            project=claim.status.project or PROJECT,
            project_exists=True,
            namespace_is_going=self.namespace_is_going,
            network=network(),
            context=context(),
            subnets=subnets(),
            interface=held,
            ip_claims=_read(found.values()),
        )

    def observe_interface(self, name: str) -> InterfaceSeen | None:
        held = self._held(name)
        if held is None:
            return None
        claim = None
        ref = held.interface.spec.claim_ref
        if ref is not None:
            for store in (self.seen.claims, self.truth.claims):
                raw = store.get(ref.name)
                if raw is not None and raw["metadata"]["uid"] == ref.uid:
                    claim = NetworkInterfaceClaim.model_validate(raw)
                    break
        uids = {held.minted_for, held.holder} - {""}
        found = [one for one in self.seen.ip_claims.values() if one["spec"]["ownerRef"]["uid"] in uids]
        return InterfaceSeen(
            cell=CELL, held=held, claim=claim, namespace_is_going=self.namespace_is_going, ip_claims=_read(found)
        )

    def _held(self, name: str) -> HeldInterface | None:
        raw = self.seen.interfaces.get(name)
        return HeldInterface(raw, NetworkInterface.model_validate(raw)) if raw is not None else None

    def _carry_out(self, plan: Plan, stop_after: int | None) -> bool:
        changed = False
        touched: set[resources.Resource] = set()
        for number, write in enumerate(writes_of(plan)):
            if stop_after is not None and number >= stop_after:
                break
            try:
                changed = self._write(write) or changed
            except Refused:
                changed = True
                break
            except Going:
                break
            if not isinstance(write, Emit):
                touched.add(write.resource)
        for resource in touched:
            self.sync(resource)
        return changed

    # -- writes --------------------------------------------------------------------------------------------------------

    def _write(self, write: Write) -> bool:  # noqa: C901 - one case for each kind of write
        match write:
            case Emit():
                return False
            case Create():
                store = self.truth.of(write.resource)
                if write.obj["metadata"]["name"] in store or self.namespace_is_going:
                    raise Refused
                self._create(store, copy.deepcopy(write.obj))
                return True
            case Delete():
                store = self.truth.of(write.resource)
                obj = store.get(write.key[1])
                if obj is None or obj["metadata"]["uid"] != write.uid or _going(obj):
                    return False
                self._delete(store, obj)
                return True
            case ApplyStatus():
                return self._apply_status(write)
            case JsonPatch():
                return self._patch(write)
            case AddFinalizer():
                obj = self._same(write.resource, write.obj)
                if obj is None or _going(obj):
                    raise Going
                if write.finalizer in obj["metadata"]["finalizers"]:
                    return False
                obj["metadata"]["finalizers"].append(write.finalizer)
                self._touch(obj)
                return True
            case DropFinalizer():
                obj = self._same(write.resource, write.obj)
                if obj is None or write.finalizer not in obj["metadata"]["finalizers"]:
                    return False
                obj["metadata"]["finalizers"].remove(write.finalizer)
                self._touch(obj)
                self._collect(self.truth.of(write.resource), obj)
                return True
        raise AssertionError(f"unexpected write {write}")

    def _apply_status(self, write: ApplyStatus) -> bool:
        obj = self.truth.of(write.resource).get(write.key[1])
        if obj is None:
            return False
        status = obj.setdefault("status", {})
        before = copy.deepcopy(status)
        by_type = {entry["type"]: entry for entry in status.get("conditions", ())}
        if not write.force and any(entry["type"] in by_type for entry in write.status["conditions"]):
            return False
        for name in write.owns.fields:
            status.pop(name, None)
        status.update({name: value for name, value in write.status.items() if name != "conditions"})
        for kind in write.owns.conditions:
            by_type.pop(kind, None)
        by_type.update({entry["type"]: entry for entry in write.status["conditions"]})
        status["conditions"] = sorted(by_type.values(), key=lambda entry: str(entry["type"]))
        if status == before:
            return False
        self._touch(obj)
        return True

    def _patch(self, write: JsonPatch) -> bool:
        obj = self.truth.of(write.resource).get(write.key[1])
        if obj is None:
            raise Refused
        for operation in write.ops:
            *path, last = [part.replace("~1", "/") for part in operation["path"].split("/")[1:]]
            parent: Any = obj
            for part in path:
                parent = parent.get(part) or {}
            if operation["op"] == "test":
                if parent.get(last) != operation["value"]:
                    raise Refused
            elif operation["op"] == "remove":
                del parent[last]
            else:
                parent[last] = copy.deepcopy(operation["value"])
        self._touch(obj)
        return True

    def _create(self, store: Store, obj: Raw) -> None:
        self._serial += 1
        metadata = obj["metadata"]
        metadata.update(namespace=metadata.get("namespace", NAMESPACE), uid=f"uid-{self._serial}", generation=1)
        metadata.setdefault("finalizers", [])
        store[metadata["name"]] = obj
        self._touch(obj)

    def _delete(self, store: Store, obj: Raw) -> None:
        if not _going(obj):
            obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self._touch(obj)
        self._collect(store, obj)

    def _collect(self, store: Store, obj: Raw) -> None:
        if _going(obj) and not obj["metadata"]["finalizers"]:
            del store[obj["metadata"]["name"]]

    def _same(self, resource: resources.Resource, obj: Raw) -> Raw | None:
        found = self.truth.of(resource).get(obj["metadata"]["name"])
        return found if found is not None and found["metadata"]["uid"] == obj["metadata"]["uid"] else None

    def _touch(self, obj: Raw) -> None:
        self._serial += 1
        obj["metadata"]["resourceVersion"] = str(self._serial)

    # -- coming to rest ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Let everybody work until nothing changes any more."""
        for _ in range(200):
            self.serve()
            self.sync()
            changed = False
            for name in list(self.truth.claims):
                changed = self.reconcile_claim(name) or changed
                self.sync()
            for name in list(self.truth.interfaces):
                changed = self.reconcile_interface(name) or changed
                self.sync()
            if not changed and not any(_going(o) or not o.get("status") for o in self.truth.ip_claims.values()):
                return
        raise AssertionError(f"does not come to rest: {self.truth}")


def _going(obj: Raw) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def _read(raws: Iterable[Raw]) -> tuple[IPClaim, ...]:
    return tuple(IPClaim.model_validate(raw) for raw in raws)
