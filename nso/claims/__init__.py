"""Claims: from a NetworkInterfaceClaim to its interface and back, with IPAM as the keeper of addresses."""

from __future__ import annotations

from collections.abc import Iterable

from netclaim.api import conditions
from netclaim.api.meta import Key, Raw
from netclaim.api.networking import PREPARED, PROGRAMMED
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.objects import is_going, key_of
from netclaim.kube.predicates import changed_any, changed_meta_or_spec, status_changed
from netclaim.kube.process import Process
from nso.claims import metrics, sweep
from nso.claims.reconcile import Claims, Interfaces
from nso.claims.view import View, by_interface, by_network
from nso.conditions import summary
from nso.execute import Executor
from nso.settings import Settings

WORKERS = 8


def _data_plane(raw: Raw) -> object:
    """What other writers say about a claim: all of its status that decides on Ready."""
    return [conditions.condition(raw, kind) for kind in (PREPARED, PROGRAMMED)]


def register(process: Process, cell: Cluster, ipam: Cluster, settings: Settings) -> None:
    """Add the reconcilers of claims and of interfaces, and the sweep, to a process."""
    view = View(cell, ipam, settings)
    executor = Executor(cell, ipam, process.recorder(cell))
    process.add(_claims(view, executor))
    process.add(_interfaces(view, executor))
    sweeper = sweep.Sweeper(cell, ipam, view.ip_claims, view.cell, settings.orphan_grace)
    process.add_task("claims-sweep", sweeper.run, leader_only=True)
    metrics.observe(view.claims.store)


def _claims(view: View, executor: Executor) -> Controller:
    store = view.claims.store

    def of_network(key: Key) -> Iterable[Key]:
        return view.unbound(store.by("by_network", key))

    def of_namespace(raw: Raw) -> Iterable[Key]:
        inside = store.by("by_namespace", raw["metadata"]["name"])
        return [key_of(one) for one in inside] if is_going(raw) else view.unbound(inside)

    def of_interface(raw: Raw) -> Iterable[Key]:
        return [key_of(claim) for claim in store.by("by_interface", key_of(raw))]

    def of_context(raw: Raw) -> Iterable[Key]:
        return [key for network in by_network(raw) for key in of_network(network)]

    def of_subnet(raw: Raw) -> Iterable[Key]:
        context = view.contexts.store.get((raw["metadata"]["namespace"], raw["spec"]["networkContext"]["name"]))
        return of_context(context) if context is not None else ()

    def of_project(raw: Raw) -> Iterable[Key]:
        return view.claims_of_project(raw["metadata"]["name"])

    def of_quota(raw: Raw) -> Iterable[Key]:
        return view.claims_of_project(raw["metadata"]["namespace"])

    controller = Controller("claims", Claims(view, executor).reconcile, workers=WORKERS)
    controller.watch(view.claims, own_key, when=changed_meta_or_spec | status_changed(_data_plane))
    controller.watch(view.interfaces, of_interface, when=changed_meta_or_spec)
    controller.watch(view.ip_claims, view.claims_of_ip_claim)
    controller.watch(view.networks, lambda raw: of_network(key_of(raw)), when=changed_meta_or_spec)
    controller.watch(view.contexts, of_context, when=changed_meta_or_spec | status_changed(summary))
    controller.watch(view.subnets, of_subnet, when=changed_meta_or_spec | status_changed(summary))
    controller.watch(view.namespaces, of_namespace, when=changed_meta_or_spec)
    controller.watch(view.projects, of_project, when=changed_meta_or_spec)
    controller.watch(view.quotas, of_quota, when=changed_any)
    return controller


def _interfaces(view: View, executor: Executor) -> Controller:
    def of_namespace(raw: Raw) -> Iterable[Key]:
        if not is_going(raw):
            return ()
        return [key_of(one) for one in view.interfaces.store.by("by_namespace", raw["metadata"]["name"])]

    def of_claim(raw: Raw) -> Iterable[Key]:
        return [key for key in by_interface(raw) if view.interfaces.store.get(key) is not None]

    controller = Controller("interfaces", Interfaces(view, executor).reconcile, workers=WORKERS)
    controller.watch(view.interfaces, own_key, when=changed_meta_or_spec)
    controller.watch(view.claims, of_claim, when=changed_meta_or_spec)
    controller.watch(view.ip_claims, view.interfaces_of_ip_claim)
    controller.watch(view.namespaces, of_namespace, when=changed_meta_or_spec)
    return controller
