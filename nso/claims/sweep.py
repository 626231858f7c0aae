"""The sweep: IPClaims of this cell whose owner is gone are given back, late and in small numbers.

An owner is gone when neither it (by uid) nor an interface minted for it is there. Such an IPClaim must be seen so
twice, a grace period apart and by live reads; and a sweep that would give back many stops and says so instead, since a
restored backup of the cell looks just like that and must not free live addresses.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from netclaim.api import resources
from netclaim.api.meta import Key, Raw
from netclaim.api.resources import Resource
from netclaim.kube.backoff import jittered
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import ApiError
from netclaim.kube.objects import key_of, uid_of
from netclaim.kube.reflector import Reflector
from nso.claims import metrics
from nso.claims.needs import KIND
from nso.claims.view import by_claim_uid
from nso.ipclaims import Cell

log = logging.getLogger(__name__)

SHARE: Final = 0.05
FEW: Final = 10
"""A sweep gives back at most this share of the cell's IPClaims, or this many where that is more."""

OWNERS: Final[Mapping[str, Resource]] = {
    KIND: resources.CLAIMS,
    "Network": resources.NETWORKS,
    "Subnet": resources.SUBNETS,
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a sweep does: uids to give back now, when each remaining orphan was first seen, and whether it stopped."""

    give_back: frozenset[str]
    first_seen: Mapping[str, float]
    stopped: bool


def judge(first_seen: Mapping[str, float], orphans: Collection[str], total: int, now: float, grace: float) -> Verdict:
    """Which of the orphans (uids, of `total` IPClaims) were seen before, `grace` seconds ago or more.

    One that is no orphan any more is forgotten: it must be seen twice anew.
    """
    seen = {uid: first_seen.get(uid, now) for uid in orphans}
    due = frozenset(uid for uid, since in seen.items() if uid in first_seen and now - since >= grace)
    if len(due) > max(FEW, int(total * SHARE)):
        return Verdict(frozenset(), seen, stopped=True)
    return Verdict(due, {uid: since for uid, since in seen.items() if uid not in due}, stopped=False)


class Sweeper:
    """Runs while this process leads."""

    def __init__(
        self,
        cluster: Cluster,
        ipam: Cluster,
        ip_claims: Reflector,
        cell: Cell,
        grace: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._ipam = ipam
        self._ip_claims = ip_claims
        self._cell = cell
        self._grace = grace
        self._clock = clock
        self._first_seen: Mapping[str, float] = {}

    async def run(self) -> None:
        """Sweep for ever, somewhat more often than the grace period is long."""
        self._first_seen = {}
        while True:
            await asyncio.sleep(max(1.0, jittered(self._grace) / 2))
            try:
                await self.sweep()
            except ApiError as error:
                log.warning("sweep was not finished, tried again later: %s", error)

    async def sweep(self) -> Verdict:
        """One sweep.

        Raises:
            ApiError: something could not be read; nothing was given back on its account.
        """
        own = [raw for raw in self._ip_claims.store.all() if self._is_ours(raw)]
        orphans = await self._orphans(own)
        verdict = judge(self._first_seen, orphans.keys(), len(own), self._clock(), self._grace)
        self._first_seen = verdict.first_seen
        metrics.ORPHANS.set(len(orphans))
        metrics.SWEEP_STOPPED.set(1 if verdict.stopped else 0)
        if verdict.stopped:
            log.error(
                "%d of %d IPClaims of this cell have lost their owner, more than a sweep gives back: nothing was done. "
                "Was the cell restored from a backup? Restore what is missing, or let netclaimctl ipam repair --limit "
                "give them back",
                len(orphans),
                len(own),
            )
        for uid in sorted(verdict.give_back):
            raw = orphans[uid]
            log.warning("giving back IPClaim %s: its owner is gone", "/".join(key_of(raw)))
            await self._ipam.delete_if_present(resources.IP_CLAIMS, raw, guarded=True)
        return verdict

    def _is_ours(self, raw: Raw) -> bool:
        ref = (raw.get("spec") or {}).get("ownerRef") or {}
        return (
            ref.get("controlPlane") == self._cell.control_plane
            and ref.get("kind") in OWNERS
            and not raw["metadata"].get("deletionTimestamp")
        )

    async def _orphans(self, own: list[Raw]) -> dict[str, Raw]:
        """IPClaims whose owner is neither in the stores nor, read live, at the API server; by uid."""
        suspects = [raw for raw in own if not self._has_owner_in_store(raw["spec"]["ownerRef"])]
        by_namespace: dict[str, list[Raw]] = defaultdict(list)
        for raw in suspects:
            by_namespace[raw["spec"]["ownerRef"].get("namespace") or ""].append(raw)
        found: dict[str, Raw] = {}
        for namespace, listed in by_namespace.items():
            interfaces = await self._cluster.client.list(resources.INTERFACES, namespace or None)
            minted_for = {uid for interface in interfaces for uid in by_claim_uid(interface)}
            for raw in listed:
                ref = raw["spec"]["ownerRef"]
                if ref["uid"] not in minted_for and not await self._is_there(ref):
                    found[uid_of(raw)] = raw
        return found

    def _has_owner_in_store(self, ref: Raw) -> bool:
        raw = self._cluster.store(OWNERS[ref["kind"]]).get(_key(ref))
        if raw is not None and uid_of(raw) == ref["uid"]:
            return True
        return bool(self._cluster.store(resources.INTERFACES).by("by_claim_uid", ref["uid"]))

    async def _is_there(self, ref: Raw) -> bool:
        namespace, name = _key(ref)
        raw = await self._cluster.client.find(OWNERS[ref["kind"]], namespace, name)
        return raw is not None and uid_of(raw) == str(ref["uid"])


def _key(ref: Raw) -> Key:
    return (str(ref.get("namespace") or ""), str(ref["name"]))
