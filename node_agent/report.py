"""What the node tells the others through the API: its router, and one advertisement per attachment; and takes back.

The journal says what is to be told: a row that is ``added`` is advertised; a withdrawal takes facts and advertisement
of a container back, if that container still is the recorded one. While the API server is away nothing is lost and
nothing piles up: a key is looked at again, and only its newest state is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from ipaddress import IPv6Address, IPv6Network
from typing import Any, Final

import structlog

from netclaim import identity
from netclaim.api import managers, resources
from netclaim.api.cloud import VPC_ATTACHMENT_LABEL, VPC_LABEL
from netclaim.api.meta import Key, Raw
from netclaim.api.network import ADVERTISED
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller
from netclaim.kube.errors import NotFound
from netclaim.kube.objects import covers, is_going, uid_of
from node_agent import metrics
from node_agent.datapath.model import Attachment, Sid
from node_agent.journal import Journal
from node_agent.locks import KeyedLocks
from node_agent.rows import Row, State, Withdrawal

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent.report")

ROUTER_AGAIN: Final = 0.1
"""Seconds until the store is asked again for the router that was just written."""

NODE_AGAIN: Final = 10.0
"""Seconds until a Node that is not registered is looked for again."""

GIVE_WAY: Final = 3.0
"""Seconds for which reports give way to calls that wait for their turn: no ADD waits longer."""

GIVE_WAY_AGAIN: Final = 0.1
"""Seconds until it is looked again whether calls still wait."""

BACKOFF_MAX: Final = 10.0
"""Longest pause before a report is tried again: it goes out soon after the API server is back."""

_FAMILY = {4: "IPv4", 6: "IPv6"}
ADVERTISED_REASON: Final = "Programmed"
ADVERTISED_MESSAGE: Final = "The attachment is up on node {node}; its prefixes are reached through the router's SIDs."


@dataclass(frozen=True, slots=True)
class Router:
    """This node as a router. ``uid`` is that of the BGPRouter, empty before it was written."""

    node: str
    locator: IPv6Network
    next_hop: IPv6Address
    uid: str = ""

    @property
    def name(self) -> str:
        """Name of the BGPRouter: the node's."""
        return self.node


def router_object(router: Router, namespace: str, node_uid: str) -> Raw:
    """The BGPRouter, owned by its Node: a deleted Node takes it, and with it every route, along."""
    return {
        "metadata": {
            "name": router.name,
            "namespace": namespace,
            "ownerReferences": [
                {"apiVersion": resources.NODES.api_version, "kind": "Node", "name": router.node, "uid": node_uid}
            ],
        },
        "spec": {
            "targetRef": {"kind": "Node", "name": router.node},
            "srv6Locator": str(router.locator),
            "nextHop": str(router.next_hop),
        },
    }


def locator_holder(routers: Iterable[Raw], router: Router) -> str | None:
    """The node of another router with this router's locator; None when there is none."""
    for raw in routers:
        if raw["metadata"]["name"] != router.name and IPv6Network(raw["spec"]["srv6Locator"]) == router.locator:
            return str(raw["spec"]["targetRef"]["name"])
    return None


def advertisement_object(row: Row, router: Router, namespace: str, sids: tuple[Sid, ...]) -> Raw:
    """The BGPAdvertisement of a row, owned by the router."""
    attachment = row.record.attachment
    vpc, own = attachment.vpc.identifier, attachment.identifier
    return {
        "metadata": {
            "name": row.advertisement,
            "namespace": namespace,
            "labels": {VPC_LABEL: identity.to_base62(vpc), VPC_ATTACHMENT_LABEL: identity.to_base62(own)},
            "ownerReferences": [
                {
                    "apiVersion": resources.BGP_ROUTERS.api_version,
                    "kind": resources.BGP_ROUTERS.kind,
                    "name": router.name,
                    "uid": router.uid,
                }
            ],
        },
        "spec": {
            "routerRef": {"name": router.name},
            "attachmentRef": {"namespace": row.attachment[0], "name": row.attachment[1], "uid": row.uid},
            "containerID": row.container,
            "addressFamily": {"afi": "l2vpn", "safi": "evpn"},
            "prefixes": blocks(attachment),
            "sids": [_sid_object(sid) for sid in sids],
        },
    }


def advertised_status(advertisement: Raw, node: str, now: datetime) -> Raw:
    """Status of an advertisement whose attachment is up. ``lastTransitionTime`` is kept unless the condition flips."""
    held: Raw = next((c for c in _status(advertisement).get("conditions") or () if c.get("type") == ADVERTISED), {})
    flipped = held.get("status") != "True" or not held.get("lastTransitionTime")
    condition = {
        "type": ADVERTISED,
        "status": "True",
        "reason": ADVERTISED_REASON,
        "message": ADVERTISED_MESSAGE.format(node=node),
        "observedGeneration": advertisement["metadata"].get("generation", 1),
        "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ") if flipped else held["lastTransitionTime"],
    }
    return {"advertisedPrefixes": advertisement["spec"].get("prefixes") or [], "conditions": [condition]}


def blocks(attachment: Attachment) -> list[str]:
    """The prefixes of an attachment, primary first."""
    return [str(address.block) for address in attachment.addresses]


class Reports:
    """Reconciles this node's objects at the API with its journal. A key is ("", device name)."""

    def __init__(
        self,
        *,
        cluster: Cluster,
        journal: Journal,
        router: Router,
        namespace: str,
        sids: Callable[[Attachment], tuple[Sid, ...]],
        known: Callable[[int, str], Awaitable[Raw | None]],
        close: Callable[[Row], Awaitable[None]],
        crowded: Callable[[], float],
    ) -> None:
        """``known``: an advertisement (VPC, name) at the API; ``close``: detach a row that lost its attachment.

        ``crowded``: for how many seconds calls have been waiting for their turn.
        """
        self._cluster = cluster
        self._journal = journal
        self._namespace = namespace
        self._sids = sids
        self._known = known
        self._close = close
        self._crowded = crowded
        self._confirmed: set[tuple[str, str, str]] = set()
        self.withdrawing = KeyedLocks()
        """Held by device while something is taken back: an ADD begins before or after it, never in between."""
        self.router = router
        self.routers = cluster.reflect(resources.BGP_ROUTERS, namespace=namespace)
        self.router_controller = Controller("router", self._tell_router, workers=1, backoff_max=BACKOFF_MAX)
        self.router_controller.watch(self.routers, self._own_router)
        self.controller = Controller("reports", self._report, workers=8, backoff_max=BACKOFF_MAX)

    @property
    def _client(self) -> Client:
        return self._cluster.client

    def changed(self, device: str) -> None:
        """Something about this attachment changed here: look at it now."""
        self.controller.enqueue(("", device))

    def claimed(self, row: Row) -> None:
        """The API has confirmed just now that this row's container has the attachment."""
        self._confirmed.add(_confirmation(row))

    def own(self, advertisement: Raw) -> list[Key]:
        """The key of an advertisement of this node's router, for a watch that heals it."""
        if advertisement["spec"]["routerRef"]["name"] != self.router.name:
            return []
        return [("", identity.host_interface(*labelled_identity(advertisement)))]

    async def start(self) -> None:
        """Look at everything once: this router, all rows, everything owed. Asks nobody."""
        self.router_controller.enqueue(("", self.router.name))
        await self._enqueue_rows()
        for owed in await self._journal.withdrawals():
            self.changed(owed.device)

    # -- the router ------------------------------------------------------------------------------------------------

    def _own_router(self, raw: Raw) -> list[Key]:
        return [("", self.router.name)] if raw["metadata"]["name"] == self.router.name else []

    async def _tell_router(self, _: Key) -> float | None:
        """Keep the BGPRouter as it should be; a new one means that every advertisement must be owned anew."""
        node = await self._client.find(resources.NODES, None, self.router.node)
        if node is None:
            log.warning("this node is not registered: its routes are told once it is", node=self.router.node)
            self.router = replace(self.router, uid="")
            return NODE_AGAIN
        wanted = router_object(self.router, self._namespace, uid_of(node))
        found = self.routers.store.get((self._namespace, self.router.name))
        if found is None or not covers(found, wanted):
            twin = locator_holder(self.routers.store.all(), self.router)
            if twin is not None:
                log.error(
                    "another node has this locator: name one with --srv6-locator",
                    node=twin,
                    locator=str(self.router.locator),
                )
                return NODE_AGAIN
            found = await self._cluster.apply(resources.BGP_ROUTERS, wanted, manager=managers.NODE_AGENT)
            log.info("router told", locator=str(self.router.locator), next_hop=str(self.router.next_hop))
        if uid_of(found) != self.router.uid:
            self.router = replace(self.router, uid=uid_of(found))
            await self._enqueue_rows()
        return None

    async def _enqueue_rows(self) -> None:
        for row in await self._journal.rows():
            self.changed(row.device)

    def _has_router(self) -> bool:
        """Whether the router that owns advertisements is there: the API would collect them at once otherwise."""
        found = self.routers.store.get((self._namespace, self.router.name))
        return found is not None and bool(self.router.uid) and uid_of(found) == self.router.uid

    async def find_leftovers(self) -> None:
        """Take back what this node has told of containers that the journal does not know (its file was lost).

        Advertisements always; facts without an advertisement (a call that was just claimed) only when the journal is
        new, since that means to list every attachment.
        """
        rows = {(row.container, row.attachment) for row in await self._journal.rows()}
        if self._journal.fresh:
            async for page in self._client.list_pages(resources.ATTACHMENTS):
                for raw in page.items:
                    left = _claimed_by(raw, self.router.node)
                    if left is not None and (left.container, left.attachment) not in rows:
                        await self._take_back(left)
        for raw in await self._client.list(resources.BGP_ADVERTISEMENTS, self._namespace):
            spec = raw["spec"]
            reference, container = spec["attachmentRef"], spec.get("containerID") or ""
            attachment = (reference["namespace"], reference["name"])
            if spec["routerRef"]["name"] == self.router.name and (container, attachment) not in rows:
                await self._take_back(Withdrawal(container, attachment, reference["uid"], *labelled_identity(raw)))

    async def _take_back(self, left: Withdrawal) -> None:
        log.warning("what was told of an unknown container is taken back", device=left.device, container=left.container)
        await self._journal.owe(left)
        self.changed(left.device)

    # -- attachments -----------------------------------------------------------------------------------------------

    async def _report(self, key: Key) -> float | None:
        if 0 < self._crowded() < GIVE_WAY:
            return GIVE_WAY_AGAIN
        device = key[1]
        rows = await self._live_rows(device)
        waits = bool(rows) and not self._has_router()
        if rows and not waits and not await self._advertise(rows[-1]):
            await self._close(rows[-1])
            return None
        async with self.withdrawing.hold(device):
            everything = await self._journal.withdrawals()
            left = [owed for owed in everything if owed.device == device]
            # Asked for again: the row may have gone while it was advertised, and what it owes would be forgotten.
            rows = await self._live_rows(device) if left else []
            for owed in left:
                if not rows:
                    await self._withdraw(owed)
                # With a live row the facts and the advertisement are the successor's already.
                await self._journal.settle(owed)
                self._confirmed = {one for one in self._confirmed if one[0] != owed.container}
        metrics.WITHDRAWALS.set(len(everything) - len(left))
        # A router that was just written shows in the store soon; without a Node it brings all rows back here later.
        return ROUTER_AGAIN if waits and self.router.uid else None

    async def _live_rows(self, device: str) -> list[Row]:
        return [row for row in await self._journal.of_device(device) if row.state is State.ADDED]

    async def _advertise(self, row: Row) -> bool:
        """Write the advertisement where it differs. False: the attachment is another container's now."""
        found = await self._known(row.vpc, row.advertisement)
        foreign = found is not None and found["spec"].get("containerID") != row.container
        if (foreign or _confirmation(row) not in self._confirmed) and not await self._confirm(row):
            return False
        wanted = advertisement_object(row, self.router, self._namespace, self._sids(row.record.attachment))
        if found is None or is_going(found) or not covers(found, wanted):
            if found is not None:
                wanted["metadata"]["uid"] = uid_of(found)
            found = await self._cluster.apply(resources.BGP_ADVERTISEMENTS, wanted, manager=managers.NODE_AGENT)
        status = advertised_status(found, self.router.node, datetime.now(UTC))
        if not covers(_status(found), status):
            metadata = {"namespace": self._namespace, "name": row.advertisement}
            await self._cluster.apply_status(
                resources.BGP_ADVERTISEMENTS, {"metadata": metadata, "status": status}, manager=managers.NODE_AGENT
            )
        return True

    async def _confirm(self, row: Row) -> bool:
        """Ask the API whether the attachment is this container's; take it again when its facts were cleared."""
        raw = await self._attachment(row.attachment)
        if raw is None or (uid_of(raw) != row.uid and _status(raw).get("containerID") != row.container):
            log.warning("the attachment is gone: its device is closed", attachment=row.attachment, device=row.device)
            return False
        recorded = _status(raw).get("containerID") or ""
        if recorded not in ("", row.container):
            log.warning(
                "the attachment is another container's: its device is closed", device=row.device, recorded=recorded
            )
            return False
        if not recorded:
            if is_going(raw):
                return False
            await self._write_facts(raw, row.request["facts"])
        self._confirmed.add(_confirmation(row))
        return True

    async def _withdraw(self, owed: Withdrawal) -> None:
        """Take back what this container had, unless it is another's by now. Facts go last: they hold the identity."""
        advertisement = await self._known(owed.vpc, owed.advertisement)
        if advertisement is not None and (advertisement["spec"].get("containerID") or "") == owed.container:
            version = advertisement["metadata"]["resourceVersion"]
            await self._cluster.delete_if_present(resources.BGP_ADVERTISEMENTS, advertisement, resource_version=version)
        raw = await self._attachment(owed.attachment)
        if raw is not None and uid_of(raw) == owed.uid and _status(raw).get("containerID") == owed.container:
            await self._write_facts(raw, {})

    async def _attachment(self, key: tuple[str, str]) -> Raw | None:
        return await self._client.find(resources.ATTACHMENTS, *key)

    async def _write_facts(self, raw: Raw, facts: dict[str, Any]) -> None:
        """Apply the complete set over exactly the version that was read. Raises Conflict: then all is read again."""
        read = raw["metadata"]
        metadata = {name: read[name] for name in ("namespace", "name", "resourceVersion")}
        try:
            await self._client.apply_status(
                resources.ATTACHMENTS, {"metadata": metadata, "status": facts}, manager=managers.NODE_AGENT
            )
        except NotFound:
            log.debug("the attachment is gone meanwhile", attachment=read["name"])


def labelled_identity(advertisement: Raw) -> tuple[int, int]:
    """(VPC, attachment) that an advertisement speaks of, from its labels. Raises KeyError or ValueError."""
    labels = advertisement["metadata"]["labels"]
    return identity.from_base62(labels[VPC_LABEL]), identity.from_base62(labels[VPC_ATTACHMENT_LABEL])


def _claimed_by(raw: Raw, node: str) -> Withdrawal | None:
    """What would have to be taken back of an attachment that this node has claimed; None when it has not."""
    status, metadata = _status(raw), raw["metadata"]
    if status.get("node") != node or not status.get("containerID"):
        return None
    try:
        vpc, own = identity.from_base62(status["vpc"]), identity.from_base62(status["vpcAttachment"])
    except (KeyError, ValueError):
        return None
    return Withdrawal(status["containerID"], (metadata["namespace"], metadata["name"]), metadata["uid"], vpc, own)


def _confirmation(row: Row) -> tuple[str, str, str]:
    return (row.container, row.ifname, row.uid)


def _sid_object(sid: Sid) -> Raw:
    plain = {"sid": str(sid.address), "function": sid.function}
    return plain if sid.family == 0 else {"family": _FAMILY[sid.family], **plain}


def _status(raw: Raw) -> Raw:
    status = raw.get("status")
    return status if isinstance(status, dict) else {}
