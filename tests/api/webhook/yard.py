"""Instances with prepared interfaces, as the controllers leave them, and the Pods that are made for them."""

import contextlib
from dataclasses import dataclass
from typing import Any, ClassVar

from netclaim.api import networking, resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from tests.waiting import until
from vpc_controller import nad
from webhook.manifests import CONFIGURATION_NAME, POLICY_NAME, manifests

KINDS = {
    kind.kind: kind
    for kind in (resources.MUTATING_WEBHOOKS, resources.ADMISSION_POLICIES, resources.ADMISSION_POLICY_BINDINGS)
}


DRY_RUN = {"dryRun": "All"}
LET_GO = ({"op": "remove", "path": "/metadata/finalizers"},)


async def install(cell: Client, url: str) -> None:
    """The admission objects, as a chart or `dev` brings them."""
    for document in manifests(url=url):
        await cell.apply(KINDS[document["kind"]], document, manager="installer")


async def uninstall(cell: Client) -> None:
    """Take the admission objects away again."""
    for kind, name in (
        (resources.MUTATING_WEBHOOKS, CONFIGURATION_NAME),
        (resources.ADMISSION_POLICY_BINDINGS, POLICY_NAME),
        (resources.ADMISSION_POLICIES, POLICY_NAME),
    ):
        with contextlib.suppress(NotFound):
            await cell.delete(kind, None, name)


@dataclass
class Yard:
    """One namespace."""

    KINDS: ClassVar = (resources.INTERFACES, resources.ATTACHMENTS, resources.NADS)

    cell: Client
    namespace: str

    async def service_account(self) -> None:
        """Pods cannot be made before their account is there."""

        async def there() -> bool:
            try:
                await self.cell.get(resources.SERVICE_ACCOUNTS, self.namespace, "default")
            except NotFound:
                return False
            return True

        await until(there, timeout=30.0, what="the default service account")

    async def instance(self, name: str, *interfaces: str, claim_uid: str = "") -> Raw:
        """An instance that declares interfaces: `eth0` stands for claim `<name>-eth0`."""
        uid = {"uid": claim_uid} if claim_uid else {}
        declared = [{"name": one, "claimRef": {"name": f"{name}-{one}"} | uid} for one in interfaces]
        return await self.cell.create(
            resources.INSTANCES,
            {
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {
                    "workloadRef": {"name": "web", "uid": "u-web"},
                    "ordinal": 0,
                    "template": {"spec": {"containers": []}},
                    "templateHash": "h",
                    "networkInterfaces": declared,
                },
            },
        )

    async def interface(self, name: str, inside: str, *, prepared: bool = True, mode: str = "Netns") -> None:
        """An interface held by the claim of its name, with attachment and definition."""
        spec: Raw = {
            "network": {"name": "default"},
            "claimRef": {"name": name, "uid": f"c-{name}"},
            "interfaceName": inside,
            "mtu": 1400,
            "addresses": [{"family": "IPv4", "address": "10.1.0.7/32", "gateway": "10.1.0.1", "primary": True}],
        }
        made = await self._create(resources.INTERFACES, name, spec)
        owner = {
            "apiVersion": resources.INTERFACES.api_version,
            "kind": "NetworkInterface",
            "name": name,
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        attached = {
            "vpc": {"name": "default-home"},
            "interfaceRef": {"name": name},
            "interface": {"name": inside, "mode": mode, "addresses": []},
        }
        attachment = await self._create(resources.ATTACHMENTS, name, attached, owner)
        parsed = resources.ATTACHMENTS
        await self._create(
            resources.NADS,
            name,
            {"config": nad.config(self.namespace, name, "10", "13")},
            {**owner, "apiVersion": parsed.api_version, "kind": parsed.kind, "uid": attachment["metadata"]["uid"]},
        )
        await self.prepare(name, "True" if prepared else "False", "Prepared" if prepared else "AwaitingVPC")

    async def prepare(self, name: str, status: str, reason: str, phase: str = "Bound") -> None:
        """The interface's status, about the interface as it is."""
        generation = (await self.cell.get(resources.INTERFACES, self.namespace, name))["metadata"]["generation"]
        told = {"type": "Prepared", "status": status, "reason": reason, "message": "so it is"}
        told |= {"observedGeneration": generation}
        obj = {
            "metadata": {"name": name, "namespace": self.namespace},
            "status": {"phase": phase, "attachmentRef": {"name": name}, "conditions": [told]},
        }
        await self.cell.apply_status(resources.INTERFACES, obj, manager="vpc-controller")

    async def _create(self, resource: Resource, name: str, spec: Raw, owner: Raw | None = None) -> Raw:
        metadata: Raw = {"name": name, "namespace": self.namespace, "ownerReferences": [owner] if owner else []}
        return await self.cell.create(resource, {"metadata": metadata, "spec": spec})

    def pod(self, instance: Raw | None, annotations: dict[str, str] | None = None, **spec: Any) -> Raw:
        """The Pod that a provider makes for an instance: the opt-in label and nothing else."""
        name = instance["metadata"]["name"] if instance else "alone"
        metadata: Raw = {
            "name": name,
            "namespace": self.namespace,
            "labels": {networking.INJECT_LABEL: "true"},
            "annotations": annotations or {},
        }
        if instance:
            kind = resources.INSTANCES
            metadata["ownerReferences"] = [
                {
                    "apiVersion": kind.api_version,
                    "kind": kind.kind,
                    "name": name,
                    "uid": instance["metadata"]["uid"],
                    "controller": True,
                }
            ]
        return {"metadata": metadata, "spec": {"containers": [{"name": "web", "image": "web:1"}], **spec}}

    async def try_out(self, pod: Raw) -> Raw:
        """Have the Pod admitted as a dry run: the Pod as the API server would store it."""
        body = {"apiVersion": "v1", "kind": "Pod", **pod}
        made: Raw = await self.cell.request("POST", resources.PODS.path(self.namespace), query=DRY_RUN, body=body)
        return made

    async def let_go(self, resource: Resource, name: str) -> None:
        """Take away whatever holds an object that is going."""
        with contextlib.suppress(NotFound):
            found = await self.cell.get(resource, self.namespace, name)
            if found["metadata"].get("finalizers"):
                await self.cell.json_patch(resource, self.namespace, name, LET_GO)

    async def create(self, pod: Raw) -> Raw:
        """Create the Pod; what the API server stored."""
        return await self.cell.create(resources.PODS, pod)
