"""Putting the IPAM controllers together for one API server."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.events import EventRecorder
from netclaim.kube.predicates import changed_any, changed_meta_or_spec
from netclaim.kube.process import Process
from nso.ipam.allocator import Allocator
from nso.ipam.controllers import REMOVAL_GRACE, Allocations, Claims, Classes, Pools
from nso.ipam.project import Project
from nso.ipam.waiting import Waiting
from nso.ipam.wakes import Wakes, claim_changed, pool_usable_changed

CLAIM_WORKERS = 16
"""Claims that are served at once: enough to keep the API server busy, few enough to leave it room."""


class IpamSettings(Protocol):
    """What IPAM is told by the program's settings, both in seconds."""

    @property
    def pool_linger(self) -> float:
        """How long an empty pool of a cascade stays."""

    @property
    def orphan_grace(self) -> float:
        """How far apart the two sightings of an allocation without a holder are."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """The four controllers of one IPAM control plane, and the stores that they read."""

    project: Project
    classes: Controller
    pools: Controller
    claims: Controller
    allocations: Controller

    @property
    def all(self) -> tuple[Controller, ...]:
        """All four."""
        return (self.classes, self.pools, self.claims, self.allocations)


def register(process: Process, cluster: Cluster, settings: IpamSettings) -> None:
    """Run IPAM in `process` against the control plane `cluster`."""
    for controller in build(cluster, settings, process.recorder(cluster)).all:
        process.add(controller)


def build(
    cluster: Cluster,
    settings: IpamSettings,
    recorder: EventRecorder | None = None,
    *,
    removal_grace: float = REMOVAL_GRACE,
    claim_workers: int = CLAIM_WORKERS,
) -> Controllers:
    """The controllers over `cluster`, wired to its reflectors; whoever calls this runs them."""
    waiting, pool_waiting = Waiting(), Waiting()
    project = Project(cluster, waiting)
    allocator = Allocator(cluster, project.ledger)
    classes = Controller("ipam-classes", Classes(cluster, project).reconcile, workers=2)
    pools = Controller(
        "ipam-pools",
        Pools(cluster, project, allocator, pool_waiting, linger=settings.pool_linger, grace=removal_grace).reconcile,
        workers=4,
    )
    claims = Controller("ipam-claims", Claims(cluster, project, allocator, recorder).reconcile, workers=claim_workers)
    allocations = Controller(
        "ipam-allocations", Allocations(cluster, project, grace=settings.orphan_grace).reconcile, workers=2
    )
    classes.watch(project.class_reflector, own_key, when=changed_meta_or_spec)
    pools.watch(project.pool_reflector, own_key, when=pool_usable_changed)
    claims.watch(project.claim_reflector, own_key, when=claim_changed)
    allocations.watch(project.allocation_reflector, project.unheld, when=changed_any)
    allocations.watch(project.claim_reflector, project.unheld_of, when=claim_changed)
    allocations.watch(project.pool_reflector, project.unheld_of, when=pool_usable_changed)
    Wakes(project, pool_waiting, classes=classes, pools=pools, claims=claims)
    return Controllers(project, classes, pools, claims, allocations)
