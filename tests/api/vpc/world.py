"""The cell around the VPC controller, played by the test: what NSO writes, and what a node's agent writes."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from netclaim import identity
from netclaim.api import cloud, networking, resources
from netclaim.api.conditions import condition
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import ApiError, Conflict, NotFound
from tests.waiting import until
from vpc_controller.identifiers import Draw, Holder

SYSTEM = "netclaim-system"
CONTEXT = "default-home"


@dataclass
class World:
    """One namespace of the cell. Every object that the test makes is taken away by `close`."""

    SYSTEM: ClassVar[str] = SYSTEM

    cell: Client
    namespace: str
    made_nodes: list[str] = field(default_factory=list)

    # -- what NSO writes -------------------------------------------------------------------------------------------

    async def context(self, name: str = CONTEXT, network: str = "default") -> Raw:
        """A network context."""
        return await self.cell.create(
            resources.NETWORK_CONTEXTS,
            {
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"network": {"name": network}, "location": "home"},
            },
        )

    async def subnet(self, family: str, start: str, length: int, context: str = CONTEXT) -> Raw:
        """A subnet of a context, with its range."""
        name = f"{context}-{family.lower()}"
        await self.cell.create(
            resources.SUBNETS,
            {
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"networkContext": {"name": context}, "ipFamily": family},
            },
        )
        status = {"startAddress": start, "prefixLength": length, "conditions": []}
        return await self._status(resources.SUBNETS, name, status, "nso")

    async def claim(self, name: str) -> Raw:
        """A claim."""
        return await self.cell.create(
            resources.CLAIMS,
            {
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {"network": {"name": "default"}, "reclaimPolicy": "Retain"},
            },
        )

    async def interface(
        self, name: str, claim: Raw | None = None, *, bound: bool = True, inside: str = "eth0", number: int = 7
    ) -> Raw:
        """An interface, held by the claim (made here unless given), in the default context."""
        claim = claim or await self.claim(name)
        await self.cell.create(
            resources.INTERFACES,
            {
                "metadata": {
                    "name": name,
                    "namespace": self.namespace,
                    "finalizers": [networking.INTERFACE_RELEASE_FINALIZER],
                },
                "spec": {
                    "network": {"name": "default"},
                    "claimRef": {"name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]},
                    "interfaceName": inside,
                    "mtu": 1400,
                    "addresses": [
                        {"family": "IPv4", "address": f"10.1.0.{number}/32", "gateway": "10.1.0.1"},
                        {
                            "family": "IPv6",
                            "address": f"fd20:0:0:1:{number}::/96",
                            "gateway": "fd20:0:0:1::1",
                            "primary": True,
                        },
                    ],
                },
            },
            field_manager="nso",
        )
        return await self.bind(name) if bound else await self.get(resources.INTERFACES, name)

    async def bind(self, name: str, phase: str = "Bound", allocated: str = "True", context: str = CONTEXT) -> Raw:
        """The interface's status as NSO writes it."""
        status = {
            "phase": phase,
            "networkContextRef": {"name": context},
            "conditions": [{"type": "Allocated", "status": allocated, "reason": "Allocated"}],
        }
        await self._status(resources.INTERFACES, name, status, "nso")
        seed = {"conditions": [{"type": "Programmed", "status": "Unknown", "reason": "Pending"}]}
        for resource in (resources.INTERFACES, resources.CLAIMS):
            try:
                await self._status(resource, name, seed, "nso-seed", force=False)
            except (Conflict, NotFound):
                continue
        return await self.get(resources.INTERFACES, name)

    async def hold(self, name: str, claim: Raw | None) -> Raw:
        """Bind the interface to another claim, or to none (Retain)."""
        ref = {"name": claim["metadata"]["name"], "uid": claim["metadata"]["uid"]} if claim else None
        op = (
            {"op": "replace", "path": "/spec/claimRef", "value": ref}
            if ref
            else {"op": "remove", "path": "/spec/claimRef"}
        )
        await self.cell.json_patch(resources.INTERFACES, self.namespace, name, [op])
        return await self.bind(name, "Bound" if claim else "Available")

    async def draw(self, interface: Raw, vpc: str, value: int) -> str:
        """The Identifier that gives an interface this value in a VPC (base62); returns its name."""
        metadata = interface["metadata"]
        holder = Holder(resources.INTERFACES.kind, metadata["namespace"], metadata["name"], metadata["uid"])
        wish = Draw(holder, vpc=identity.from_base62(vpc))
        made = await self.cell.create(resources.IDENTIFIERS, wish.render(value, SYSTEM), field_manager="vpc-controller")
        return str(made["metadata"]["name"])

    # -- what a node's agent writes --------------------------------------------------------------------------------

    async def node(self, name: str) -> None:
        """A node with its router."""
        await self.cell.create(resources.NODES, {"metadata": {"name": name}})
        self.made_nodes.append(name)
        node = await self.cell.get(resources.NODES, None, name)
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        await self.cell.create(
            resources.BGP_ROUTERS,
            {
                "metadata": {"name": name, "namespace": SYSTEM, "ownerReferences": [owner]},
                "spec": {
                    "targetRef": {"kind": "Node", "name": name},
                    "srv6Locator": "fd00:ff:0:1::/64",
                    "nextHop": "fd00:aa::1",
                },
            },
        )

    async def attach(self, name: str, node: str, container: str = "c-1") -> Raw:
        """The agent claims the attachment for a container, over the version that it has just read."""
        return await self._over_latest(name, self._container_facts(node, container))

    async def claim_attachment(self, found: Raw, node: str, container: str = "c-1") -> Raw:
        """The agent claims this very version of the attachment."""
        return await self._facts(found, self._container_facts(node, container))

    async def detach(self, name: str) -> Raw:
        """The agent clears its facts."""
        return await self._over_latest(name, {})

    @staticmethod
    def _container_facts(node: str, container: str) -> Raw:
        return {"node": node, "podName": "web-0", "podUID": "p-1", "containerID": container}

    async def _over_latest(self, name: str, facts: Raw) -> Raw:
        """Write facts over what was read; read again when somebody else was faster, as an agent does."""
        while True:
            try:
                return await self._facts(await self.get(resources.ATTACHMENTS, name), facts)
            except Conflict:
                continue

    async def _facts(self, found: Raw, facts: Raw) -> Raw:
        metadata = found["metadata"]
        kept = {key: metadata[key] for key in ("name", "namespace", "resourceVersion")}
        return await self.cell.apply_status(
            resources.ATTACHMENTS, {"metadata": kept, "status": facts}, manager="node-agent"
        )

    async def advertise(
        self,
        attachment: Raw,
        router: str,
        *,
        container: str | None = "c-1",
        advertised: str | None = "True",
        labels: dict[str, str] | None = None,
    ) -> str:
        """An advertisement for the attachment, as its node writes it; returns its name."""
        vpc, mine = attachment["status"]["vpc"], attachment["status"]["vpcAttachment"]
        name = identity.advertisement_name(identity.from_base62(vpc), identity.from_base62(mine))
        metadata = attachment["metadata"]
        spec: Raw = {
            "routerRef": {"name": router},
            "attachmentRef": {key: metadata[key] for key in ("namespace", "name", "uid")},
            "prefixes": ["10.1.0.7/32"],
        }
        if container:
            spec["containerID"] = container
        labels = labels or {cloud.VPC_LABEL: vpc, cloud.VPC_ATTACHMENT_LABEL: mine}
        owner = await self._owner(router)
        obj = {
            "metadata": {"name": name, "namespace": SYSTEM, "labels": labels, "ownerReferences": owner},
            "spec": spec,
        }
        await self.cell.apply(resources.BGP_ADVERTISEMENTS, obj, manager="node-agent")
        if advertised is not None:
            await self.say(name, advertised)
        return name

    async def say(self, advertisement: str, advertised: str) -> None:
        """Advertised, as the node says it."""
        status = {"conditions": [{"type": "Advertised", "status": advertised, "reason": "Said", "message": "so"}]}
        await self.cell.apply_status(
            resources.BGP_ADVERTISEMENTS,
            {"metadata": {"name": advertisement, "namespace": SYSTEM}, "status": status},
            manager="node-agent",
        )

    async def withdraw(self, advertisement: str) -> None:
        """The node takes the advertisement away."""
        await self.cell.delete(resources.BGP_ADVERTISEMENTS, SYSTEM, advertisement)

    async def _owner(self, router: str) -> list[Raw]:
        try:
            found = await self.cell.get(resources.BGP_ROUTERS, SYSTEM, router)
        except NotFound:
            return []
        kind = resources.BGP_ROUTERS
        return [{"apiVersion": kind.api_version, "kind": kind.kind, "name": router, "uid": found["metadata"]["uid"]}]

    # -- looking ---------------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str) -> Raw:
        """One object of the namespace, live."""
        return await self.cell.get(resource, self.namespace, name)

    async def find(self, resource: Resource, name: str, namespace: str | None = None) -> Raw | None:
        """One object, None when it is not there."""
        try:
            return await self.cell.get(resource, namespace or self.namespace, name)
        except NotFound:
            return None

    async def gone(self, resource: Resource, name: str, namespace: str | None = None) -> bool:
        """Whether there is no such object."""
        return await self.find(resource, name, namespace) is None

    async def says(
        self, resource: Resource, name: str, kind: str, status: str, reason: str | None = None, *, timeout: float = 30.0
    ) -> Raw:
        """Wait until the object's condition says so; returns the object."""

        async def said() -> Raw | None:
            found = await self.find(resource, name)
            told = condition(found, kind) or {}
            assert (told.get("status"), told.get("reason") if reason else None) == (status, reason), f"{name}: {told}"
            return found

        return await until(said, timeout=timeout, what=f"{kind}={status} {reason or ''} on {resource.kind} {name}")

    async def prepared(self, name: str) -> Raw:
        """Wait until the interface is prepared; returns its attachment."""
        await self.says(resources.INTERFACES, name, "Prepared", "True")
        return await self.get(resources.ATTACHMENTS, name)

    async def eventually(self, fact: Callable[[], Awaitable[Any]], what: str, timeout: float = 30.0) -> Any:
        """Wait until the fact holds."""
        return await until(fact, timeout=timeout, what=what)

    # -- ending ----------------------------------------------------------------------------------------------------

    async def close(self, within: float = 60.0) -> None:
        """Take everything away as NSO and an agent would; fails when something stays longer than so many seconds."""
        for advertisement in await self.cell.list(resources.BGP_ADVERTISEMENTS, SYSTEM):
            if advertisement["spec"]["attachmentRef"]["namespace"] == self.namespace:
                await self.withdraw(advertisement["metadata"]["name"])
        for interface in await self.cell.list(resources.INTERFACES, self.namespace):
            await self._delete(resources.INTERFACES, interface["metadata"]["name"])
        await until(self._released, timeout=within, what=f"no interface or attachment left in {self.namespace}")
        for context in await self.cell.list(resources.NETWORK_CONTEXTS, self.namespace):
            await self._delete(resources.NETWORK_CONTEXTS, context["metadata"]["name"])
        await until(self._freed, timeout=within, what=f"no identifier left that {self.namespace} holds")
        for node in self.made_nodes:
            await self._delete(resources.NODES, node)

    async def _delete(self, resource: Resource, name: str) -> None:
        try:
            await self.cell.delete(resource, self.namespace if resource.namespaced else None, name)
        except NotFound:
            return

    async def _released(self) -> bool:
        """Clear facts as the agents would, and drop NSO's finalizer once it is the last one."""
        for attachment in await self.cell.list(resources.ATTACHMENTS, self.namespace):
            if "node" in attachment.get("status", {}):
                try:
                    await self._facts(attachment, {})
                except ApiError:
                    return False
        interfaces = await self.cell.list(resources.INTERFACES, self.namespace)
        for interface in interfaces:
            metadata = interface["metadata"]
            is_going = "deletionTimestamp" in metadata
            if is_going and metadata.get("finalizers") == [networking.INTERFACE_RELEASE_FINALIZER]:
                ops = [{"op": "remove", "path": "/metadata/finalizers"}]
                await self.cell.json_patch(resources.INTERFACES, self.namespace, metadata["name"], ops)
        return not interfaces and not await self.cell.list(resources.ATTACHMENTS, self.namespace)

    async def _freed(self) -> bool:
        held = await self.cell.list(resources.IDENTIFIERS, SYSTEM)
        return all(one["spec"]["holder"]["namespace"] != self.namespace for one in held)

    async def _status(self, resource: Resource, name: str, status: Raw, manager: str, *, force: bool = True) -> Raw:
        obj = {"metadata": {"name": name, "namespace": self.namespace}, "status": status}
        return await self.cell.apply_status(resource, obj, manager=manager, force=force)
