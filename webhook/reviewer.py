"""Looks up what a Pod's instance has, and decides; one live read before a refusal for something missing."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from netclaim.api import resources
from netclaim.api.cloud import VPCAttachment
from netclaim.api.cni import NetworkAttachmentDefinition
from netclaim.api.compute import Instance
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import NetworkInterface
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import ApiError
from webhook import metrics, refusals
from webhook.inject import Admission, Observed, decide, owner_of, pod_name
from webhook.refusals import Lookup, Refusal, refuse
from webhook.review import Request

BY_CLAIM: Final = "claim"
LOOKUP_SECONDS: Final = 2.0
"""How long the live read may take: the API server gives the whole review 5 seconds."""


def by_claim(raw: Raw) -> Iterable[Hashable]:
    """Index of NetworkInterfaces: the key of the claim that holds them."""
    claim = (raw["spec"].get("claimRef") or {}).get("name")
    return [(raw["metadata"]["namespace"], claim)] if claim else []


class Reviewer:
    """Decides about Pods from what the stores hold."""

    def __init__(self, cluster: Cluster, node_labels: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._node_labels = node_labels
        self._instances = cluster.reflect(resources.INSTANCES).store
        self._interfaces = cluster.reflect(resources.INTERFACES).store
        self._attachments = cluster.reflect(resources.ATTACHMENTS).store
        self._definitions = cluster.reflect(resources.NADS).store
        self._interfaces.add_index(BY_CLAIM, by_claim)

    async def review(self, request: Request) -> Admission | Refusal:
        """Admit or refuse. What the stores miss is read live, once, before the Pod is refused for it."""
        observed = self._observe(request)
        verdict = decide(request.pod, request.namespace, observed, self._node_labels)
        if not isinstance(verdict, Refusal) or verdict.recheck is None:
            return verdict
        try:
            found = await self._look(verdict.recheck)
        except (ApiError, TimeoutError) as error:
            name = pod_name(request.pod, request.namespace)
            why = str(error) or f"no answer within {LOOKUP_SECONDS:g} s"
            return refuse(refusals.LOOKUP_FAILED, name, subject=str(verdict.recheck), why=why)
        if found is None:
            return verdict
        return decide(request.pod, request.namespace, self._with(observed, verdict.recheck, found), self._node_labels)

    async def _look(self, lookup: Lookup) -> Raw | None:
        metrics.LOOKUPS.labels(lookup.resource.kind).inc()
        async with asyncio.timeout(LOOKUP_SECONDS):
            return await self._cluster.client.find(lookup.resource, lookup.namespace, lookup.name)

    def _observe(self, request: Request) -> Observed:
        owner = owner_of(request.pod)
        raw = self._instances.get((request.namespace, owner.name)) if owner else None
        if raw is None:
            return Observed(None)
        return self._of_instance(Instance.model_validate(raw))

    def _of_instance(self, instance: Instance) -> Observed:
        """What the stores hold of the instance's interfaces."""
        interfaces: dict[str, NetworkInterface] = {}
        for declared in instance.spec.network_interfaces:
            claim = declared.claim_ref.name
            for raw in self._interfaces.by(BY_CLAIM, (instance.namespace, claim)):
                # One that an earlier claim of that name held may still be there.
                if claim not in interfaces or raw["spec"]["claimRef"].get("uid") == declared.claim_ref.uid:
                    interfaces[claim] = NetworkInterface.model_validate(raw)
        return self._with_attachments(Observed(instance, interfaces))

    def _with_attachments(self, observed: Observed) -> Observed:
        attachments: dict[Key, VPCAttachment] = {}
        definitions: dict[Key, NetworkAttachmentDefinition] = {}
        for interface in observed.interfaces.values():
            ref = interface.status.attachment_ref
            key = (interface.namespace, ref.name if ref else interface.name)
            if (attachment := self._attachments.get(key)) is not None:
                attachments[key] = VPCAttachment.model_validate(attachment)
            if (definition := self._definitions.get(key)) is not None:
                definitions[key] = NetworkAttachmentDefinition.model_validate(definition)
        return replace(observed, attachments=attachments, definitions=definitions)

    def _with(self, observed: Observed, lookup: Lookup, found: Raw) -> Observed:
        """What is known with the object that was read live."""
        key = (lookup.namespace, lookup.name)
        match lookup.resource:
            case resources.INSTANCES:
                return self._of_instance(Instance.model_validate(found))
            case resources.INTERFACES:
                interface = NetworkInterface.model_validate(found)
                holder = interface.spec.claim_ref
                if holder is None:
                    return observed
                interfaces = {**observed.interfaces, holder.name: interface}
                return self._with_attachments(replace(observed, interfaces=interfaces))
            case resources.ATTACHMENTS:
                attachment = VPCAttachment.model_validate(found)
                return replace(observed, attachments={**observed.attachments, key: attachment})
            case _:
                definition = NetworkAttachmentDefinition.model_validate(found)
                return replace(observed, definitions={**observed.definitions, key: definition})
