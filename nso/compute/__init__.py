"""Workloads and Instances: slots, their claims, and (with the Pod provider) their Pods.

Reads claims and their status, and nothing else of the network: no context, no subnet, no VPC, no IPAM (R10).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from netclaim.api import resources
from netclaim.api.compute import INSTANCE_LABEL
from netclaim.api.meta import Key, Raw
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.predicates import changed_meta_or_spec, status_changed
from netclaim.kube.process import Process
from netclaim.kube.reflector import Reflector
from nso.compute.instances import Instances
from nso.compute.observed import Stores, controller_of, is_instance, slim_pod
from nso.compute.pods import summary
from nso.compute.status import ready_summary
from nso.compute.workloads import Workloads


class ComputeSettings(Protocol):
    """What compute is told."""

    @property
    def pod_provider(self) -> bool:
        """Whether to make the Pods of instances."""


def register(process: Process, cell: Cluster, settings: ComputeSettings) -> None:
    """Add the reconcilers of Workloads and Instances to a process."""
    stores = _stores(cell)
    recorder = process.recorder(cell)
    process.add(_workloads(cell, Workloads(cell, stores, recorder)))
    process.add(_instances(cell, Instances(cell, stores, recorder, provides_pods=settings.pod_provider)))


def _workloads(cell: Cluster, reconciler: Workloads) -> Controller:
    stores = reconciler.stores
    controller = Controller("workloads", reconciler.reconcile)
    controller.watch(cell.reflect(resources.WORKLOADS), own_key, when=changed_meta_or_spec)
    controller.watch(
        cell.reflect(resources.INSTANCES),
        stores.workloads_of_instance,
        when=changed_meta_or_spec | status_changed(ready_summary),
    )
    controller.watch(cell.reflect(resources.CLAIMS), stores.workloads_of_labelled, when=changed_meta_or_spec)
    controller.watch(_pods(cell), stores.workloads_of_labelled, when=changed_meta_or_spec)
    return controller


def _instances(cell: Cluster, reconciler: Instances) -> Controller:
    stores = reconciler.stores
    controller = Controller("instances", reconciler.reconcile, workers=8)
    controller.watch(cell.reflect(resources.INSTANCES), own_key, when=changed_meta_or_spec)
    controller.watch(cell.reflect(resources.CLAIMS), stores.instances_of_claim)
    controller.watch(_pods(cell), _instance_of, when=changed_meta_or_spec | status_changed(summary))
    return controller


def _stores(cell: Cluster) -> Stores:
    stores = Stores(
        workloads=cell.reflect(resources.WORKLOADS).store,
        instances=cell.reflect(resources.INSTANCES).store,
        claims=cell.reflect(resources.CLAIMS).store,
        pods=_pods(cell).store,
    )
    stores.add_indexes()
    return stores


def _pods(cell: Cluster) -> Reflector:
    return cell.reflect(resources.PODS, label_selector=INSTANCE_LABEL, slim=slim_pod)


def _instance_of(pod: Raw) -> Iterable[Key]:
    """The Instance that a Pod is of."""
    owner = controller_of(pod)
    return ((pod["metadata"]["namespace"], owner["name"]),) if owner is not None and is_instance(owner) else ()
