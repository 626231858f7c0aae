"""BGPAdvertisement, BGPRouter and Node -> Programmed on attachment, interface and claim."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from netclaim.api import resources
from netclaim.api.cloud import VPCAttachment
from netclaim.api.meta import Key, Raw
from netclaim.api.network import BGPAdvertisement
from netclaim.api.networking import NetworkInterface
from netclaim.freshness import FRESH, is_fresh
from netclaim.kube import apply
from netclaim.kube.cluster import Cluster
from netclaim.kube.events import EventRecorder
from netclaim.kube.writes import Emit
from vpc_controller import advert_plan
from vpc_controller.advert_plan import Heard, Observed, exists, plan
from vpc_controller.attachments import holding_claim

BY_ATTACHMENT: Final = "attachment"
BY_ROUTER: Final = "router"
BY_NODE: Final = "node"
NODE_LOST_EVENT: Final = "NodeFactsCleared"


def attachment_keys(raw: Raw) -> Iterable[Key]:
    """The key of the attachment that an advertisement speaks of, known or not yet."""
    ref = raw["spec"]["attachmentRef"]
    return [(ref["namespace"], ref["name"])]


def by_attachment(raw: Raw) -> Iterable[Hashable]:
    """Index of BGPAdvertisements: the key of their attachment."""
    return attachment_keys(raw)


def by_router(raw: Raw) -> Iterable[Hashable]:
    """Index of BGPAdvertisements: the name of their router."""
    return [raw["spec"]["routerRef"]["name"]]


def by_target_node(raw: Raw) -> Iterable[Hashable]:
    """Index of BGPRouters: the name of their node."""
    return [raw["spec"]["targetRef"]["name"]]


def by_facts_node(raw: Raw) -> Iterable[Hashable]:
    """Index of VPCAttachments: the node in their facts."""
    node = (raw.get("status") or {}).get("node")
    return [node] if node else []


class Adverts:
    """Reports what the data plane says about each attachment. Keys are those of the attachments."""

    def __init__(self, cluster: Cluster, system_namespace: str, recorder: EventRecorder) -> None:
        self._cluster = cluster
        self._namespace = system_namespace
        self._recorder = recorder

    async def reconcile(self, key: Key) -> float | None:
        """Observe, plan, apply; facts of a lost node are cleared only after the API server confirmed the loss."""
        seen = self._observe(key)
        planned = plan(seen)
        await apply.execute(self._cluster, planned.writes, self._recorder)
        if planned.lost_node is not None and seen.attachment is not None:
            await self._clear(seen.attachment, planned.lost_node)
        return FRESH.total_seconds() if planned.waits else None

    async def _clear(self, attachment: VPCAttachment, node: str) -> None:
        if exists(await self._cluster.client.find(resources.NODES, None, node)):
            return
        note = f"Node {node} is gone: the attachment is free for another node"
        told = Emit(attachment.to_dict(), "Warning", NODE_LOST_EVENT, note)
        await apply.execute(self._cluster, (advert_plan.clear_facts(attachment), told), self._recorder)

    def _observe(self, key: Key) -> Observed:
        raw = self._cluster.store(resources.INTERFACES).get(key)
        interface = NetworkInterface.model_validate(raw) if raw else None
        claim = holding_claim(self._cluster, interface) if interface else None
        attached = self._cluster.store(resources.ATTACHMENTS).get(key)
        if attached is None:
            return Observed(interface, claim, None)
        attachment = VPCAttachment.model_validate(attached)
        found = self._cluster.store(resources.BGP_ADVERTISEMENTS).by(BY_ATTACHMENT, key)
        advertisements = [BGPAdvertisement.model_validate(one) for one in found]
        return Observed(
            interface,
            claim,
            attachment,
            heard=tuple(self._heard(one) for one in advertisements),
            is_fresh=any(is_fresh(one) for one in advertisements),
            facts_node_exists=attachment.status.node is None or self._exists(attachment.status.node),
        )

    def _heard(self, advertisement: BGPAdvertisement) -> Heard:
        router = self._cluster.store(resources.BGP_ROUTERS).get((self._namespace, advertisement.spec.router_ref.name))
        node = router["spec"]["targetRef"]["name"] if router else None
        return Heard(advertisement, node, node is not None and self._exists(node))

    def _exists(self, node: str) -> bool:
        return exists(self._cluster.store(resources.NODES).get(("", node)))

    def keys_of_router(self, router: Raw) -> Iterable[Key]:
        """Keys of the attachments that a router speaks of."""
        advertisements = self._cluster.store(resources.BGP_ADVERTISEMENTS)
        return [key for raw in advertisements.by(BY_ROUTER, router["metadata"]["name"]) for key in attachment_keys(raw)]

    def keys_of_node(self, node: Raw) -> Iterable[Key]:
        """Keys of the attachments on a node: by their facts, and by the advertisements of its router."""
        name = node["metadata"]["name"]
        attachments = self._cluster.store(resources.ATTACHMENTS).by(BY_NODE, name)
        routers = self._cluster.store(resources.BGP_ROUTERS).by(BY_NODE, name)
        keys = {(raw["metadata"]["namespace"], raw["metadata"]["name"]) for raw in attachments}
        return keys | {key for router in routers for key in self.keys_of_router(router)}
