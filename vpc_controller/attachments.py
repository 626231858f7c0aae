"""NetworkInterface -> VPCAttachment, its identity, its NetworkAttachmentDefinition, and Prepared."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Final

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.cloud import VPC, AttachmentMode, VPCAttachment
from netclaim.api.cni import NetworkAttachmentDefinition
from netclaim.api.managers import VPC_CONTROLLER
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import NetworkInterface, NetworkInterfaceClaim
from netclaim.freshness import FRESH, is_fresh
from netclaim.kube import apply
from netclaim.kube.cluster import Cluster
from netclaim.kube.events import EventRecorder
from netclaim.kube.objects import uid_of
from vpc_controller import facts
from vpc_controller.attachment_plan import Attach, LetGo, Observed, Plan, Protect, Step, exhausted, plan
from vpc_controller.drawing import Drawing, ExhaustedError
from vpc_controller.identifiers import Draw, chosen, held_attachment, labelled, value_of

BY_VPC_NAME: Final = "vpc-name"
BY_CLAIM: Final = "claim"


def by_vpc_name(raw: Raw) -> Iterable[Hashable]:
    """Index of NetworkInterfaces: the key of their VPC, which carries the name of their context."""
    context = ((raw.get("status") or {}).get("networkContextRef") or {}).get("name")
    return [(raw["metadata"]["namespace"], context)] if context else []


def by_claim(raw: Raw) -> Iterable[Hashable]:
    """Index of NetworkInterfaces: the key of the claim that holds them."""
    claim = (raw["spec"].get("claimRef") or {}).get("name")
    return [(raw["metadata"]["namespace"], claim)] if claim else []


class Attachments:
    """Keeps the attachment of each NetworkInterface."""

    def __init__(self, cluster: Cluster, drawing: Drawing, recorder: EventRecorder, mode: AttachmentMode) -> None:
        self._cluster = cluster
        self._drawing = drawing
        self._recorder = recorder
        self._mode = mode
        self._wait_for_identifier: dict[Key, int | None] = {}
        """Interfaces for which their VPC had no identifier left when they were looked at last, with that VPC."""

    async def reconcile(self, key: Key) -> float | None:
        """Observe, plan, apply; again after each step whose outcome the rest depends on."""
        self._wait_for_identifier.pop(key, None)
        seen: Observed | None = self._observe(key)
        while seen is not None:
            planned = plan(seen, self._mode)
            await self._execute(planned)
            if planned.waits:
                return FRESH.total_seconds()
            seen = await self._advance(planned.then, seen)
        return None

    async def _execute(self, planned: Plan) -> None:
        await apply.execute(self._cluster, planned.writes, self._recorder)

    async def _advance(self, step: Step | None, seen: Observed) -> Observed | None:
        """Take the step and return what is known then; None when there is nothing more to plan."""
        match step:
            case Protect(interface):
                held = await self._cluster.add_finalizer(
                    resources.INTERFACES, interface.to_dict(), cloud.ATTACHED_FINALIZER
                )
                return None if held is None else replace(seen, interface=NetworkInterface.model_validate(held))
            case Draw():
                try:
                    return replace(seen, identifier=await self._drawing.draw(step))
                except ExhaustedError:
                    self._wait_for_identifier[step.holder.namespace, step.holder.name] = step.vpc
                    await self._execute(exhausted(seen))
                    return None
            case Attach(attachment):
                made = await self._cluster.create(resources.ATTACHMENTS, attachment, field_manager=VPC_CONTROLLER)
                return replace(seen, attachment=VPCAttachment.model_validate(made))
            case LetGo(interface):
                await self._let_go(interface)
        return None

    def keys_that_wait(self, identifier: Raw) -> Iterable[Key]:
        """Keys of the interfaces for which the identifier's VPC was full: a value that comes free is one of theirs."""
        vpc = value_of(labelled(identifier)[0], identity.VPC_BITS)
        return [key for key, full in self._wait_for_identifier.items() if full == vpc]

    async def _let_go(self, interface: NetworkInterface) -> None:
        """Drop `attached` when there is no attachment: asked live, since addresses are given away after this."""
        found = await self._cluster.client.find(resources.ATTACHMENTS, interface.namespace, interface.name)
        if found is not None and facts.is_of_interface(VPCAttachment.model_validate(found)):
            return
        await self._cluster.drop_finalizer(resources.INTERFACES, interface.to_dict(), cloud.ATTACHED_FINALIZER)

    def _observe(self, key: Key) -> Observed:
        raw = self._cluster.store(resources.INTERFACES).get(key)
        attachment = self._cluster.store(resources.ATTACHMENTS).get(key)
        definition = self._cluster.store(resources.NADS).get(key)
        seen = Observed(
            NetworkInterface.model_validate(raw) if raw else None,
            attachment=VPCAttachment.model_validate(attachment) if attachment else None,
            definition=NetworkAttachmentDefinition.model_validate(definition) if definition else None,
        )
        if seen.interface is None:
            return seen
        vpc = self._vpc(seen.interface)
        return replace(
            seen,
            claim=holding_claim(self._cluster, seen.interface),
            vpc=vpc,
            identifier=self._identifier(seen.interface, vpc, seen.attachment),
            is_fresh=is_fresh(seen.interface),
        )

    def _vpc(self, interface: NetworkInterface) -> VPC | None:
        """The VPC of the interface's context; not the one that an earlier context of that name left behind."""
        ref = interface.status.network_context_ref
        key = (interface.namespace, ref.name) if ref else None
        raw = self._cluster.store(resources.VPCS).get(key) if key else None
        if raw is None or key is None:
            return None
        vpc = VPC.model_validate(raw)
        owner, context = vpc.controller_ref, self._cluster.store(resources.NETWORK_CONTEXTS).get(key)
        is_left = owner is not None and (owner.kind, owner.name) == (resources.NETWORK_CONTEXTS.kind, vpc.name)
        if is_left and context is not None and owner is not None and uid_of(context) != owner.uid:
            return None
        return vpc

    def _identifier(self, interface: NetworkInterface, vpc: VPC | None, attachment: VPCAttachment | None) -> int | None:
        number = value_of(vpc.status.vpc or "", identity.VPC_BITS) if vpc else None
        if number is None:
            return None
        recorded = attachment.status.vpc_attachment if attachment else None
        held = held_attachment(self._cluster.store(resources.IDENTIFIERS), interface.uid, number)
        return chosen(held, value_of(recorded or "", identity.ATTACHMENT_BITS))


def holding_claim(cluster: Cluster, interface: NetworkInterface) -> NetworkInterfaceClaim | None:
    """The claim that holds the interface: of that name and uid."""
    ref = interface.spec.claim_ref
    raw = cluster.store(resources.CLAIMS).get((interface.namespace, ref.name)) if ref else None
    if raw is None or ref is None or raw["metadata"].get("uid") != ref.uid:
        return None
    return NetworkInterfaceClaim.model_validate(raw)
