"""Networks: ranges in IPAM, contexts in this location, subnets; and the older bindings and subnet claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from netclaim.api.meta import Key, Raw
from netclaim.kube.backoff import jittered
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller, Reconcile, own_key
from netclaim.kube.errors import Lost
from netclaim.kube.objects import is_going, key_of
from netclaim.kube.predicates import changed_meta_or_spec, status_changed
from netclaim.kube.process import Process
from netclaim.kube.store import Store
from nso import ipclaims
from nso.conditions import summary
from nso.execute import Executor, IpamRefused, NameTaken
from nso.networks import bindings, contexts, networks, subnet_claims, subnets
from nso.networks.view import View, by_context, by_network
from nso.settings import Settings
from nso.steps import Plan

AWAY: Final = 2.0
"""Seconds, spread, until a network looks again whether IPAM answers."""

_spec_or_condition = changed_meta_or_spec | status_changed(summary)


def register(process: Process, cell: Cluster, ipam: Cluster, settings: Settings) -> None:
    """Add the five reconcilers of networks to a process."""
    view = View(cell, ipam, settings)
    executor = Executor(cell, ipam, process.recorder(cell))
    for controller in (
        _networks(view, executor),
        _contexts(view, executor),
        _subnets(view, executor),
        _bindings(view, executor),
        _subnet_claims(view, executor),
    ):
        process.add(controller)


def _reconciler(executor: Executor, plan_for: Callable[[Key, Raw | None], Plan]) -> Reconcile:
    """Observe and plan, apply; once more with the IPClaim that was found where one was to be created."""

    async def reconcile(key: Key) -> float | None:
        try:
            try:
                await executor.run(plan_for(key, None))
            except NameTaken as found:
                await executor.run(plan_for(key, found.ip_claim))
        except IpamRefused as refused:
            if isinstance(refused.cause, Lost):
                return jittered(AWAY)
            raise refused.cause from refused
        return None

    return reconcile


def _networks(view: View, executor: Executor) -> Controller:
    def plan_for(key: Key, taken: Raw | None) -> Plan:
        seen = view.network(key, taken)
        return networks.plan(seen) if seen is not None else ()

    def of_namespace(raw: Raw) -> Iterable[Key]:
        return [key_of(one) for one in view.networks.store.by("by_namespace", raw["metadata"]["name"])]

    def of_project(raw: Raw) -> Iterable[Key]:
        return view.networks_of_project(raw["metadata"]["name"])

    def of_class(raw: Raw) -> Iterable[Key]:
        if raw["metadata"]["name"] != view.settings.network_class:
            return ()
        return view.networks_of_project(raw["metadata"]["namespace"])

    controller = Controller("networks", _reconciler(executor, plan_for))
    controller.watch(view.networks, own_key, when=changed_meta_or_spec)
    controller.watch(view.contexts, by_network, when=_spec_or_condition)
    controller.watch(view.interfaces, lambda raw: _that_go(view.networks.store, by_network(raw)))
    controller.watch(view.namespaces, of_namespace, when=changed_meta_or_spec)
    controller.watch(view.projects, of_project, when=changed_meta_or_spec)
    controller.watch(view.classes, of_class, when=changed_meta_or_spec)
    controller.watch(view.ip_claims, lambda raw: ipclaims.owner_key(raw, "Network", view.cell.control_plane))
    return controller


def _contexts(view: View, executor: Executor) -> Controller:
    def plan_for(key: Key, _: Raw | None) -> Plan:
        seen = view.context(key)
        return contexts.plan(seen) if seen is not None else ()

    def of_network(key: Key) -> Iterable[Key]:
        return [key_of(one) for one in view.contexts.store.by("by_network", key)]

    def of_interface(raw: Raw) -> Iterable[Key]:
        return _that_go(view.contexts.store, [key for on in by_network(raw) for key in of_network(on)])

    controller = Controller("contexts", _reconciler(executor, plan_for))
    controller.watch(view.contexts, own_key, when=changed_meta_or_spec)
    controller.watch(view.networks, lambda raw: of_network(key_of(raw)), when=changed_meta_or_spec)
    controller.watch(view.subnets, by_context, when=_spec_or_condition)
    controller.watch(view.interfaces, of_interface)
    return controller


def _subnets(view: View, executor: Executor) -> Controller:
    def plan_for(key: Key, taken: Raw | None) -> Plan:
        seen = view.subnet(key, taken)
        return subnets.plan(seen) if seen is not None else ()

    def of_context(raw: Raw) -> Iterable[Key]:
        return [key_of(one) for one in view.subnets.store.by("by_context", key_of(raw))]

    def of_network(raw: Raw) -> Iterable[Key]:
        return [key for one in view.contexts.store.by("by_network", key_of(raw)) for key in of_context(one)]

    def of_interface(raw: Raw) -> Iterable[Key]:
        on = [one for network in by_network(raw) for one in view.contexts.store.by("by_network", network)]
        return _that_go(view.subnets.store, [key for context in on for key in of_context(context)])

    controller = Controller("subnets", _reconciler(executor, plan_for))
    controller.watch(view.subnets, own_key, when=changed_meta_or_spec)
    controller.watch(view.contexts, of_context, when=changed_meta_or_spec)
    controller.watch(view.networks, of_network, when=changed_meta_or_spec)
    controller.watch(view.interfaces, of_interface)
    controller.watch(view.ip_claims, lambda raw: ipclaims.owner_key(raw, "Subnet", view.cell.control_plane))
    return controller


def _bindings(view: View, executor: Executor) -> Controller:
    def plan_for(key: Key, _: Raw | None) -> Plan:
        seen = view.binding(key)
        return bindings.plan(seen) if seen is not None else ()

    def of_network(key: Key) -> Iterable[Key]:
        return [key_of(one) for one in view.bindings.store.by("by_network", key)]

    def of_context(raw: Raw) -> Iterable[Key]:
        return [key for network in by_network(raw) for key in of_network(network)]

    controller = Controller("bindings", _reconciler(executor, plan_for))
    controller.watch(view.bindings, own_key, when=changed_meta_or_spec)
    controller.watch(view.networks, lambda raw: of_network(key_of(raw)), when=_spec_or_condition)
    controller.watch(view.contexts, of_context, when=_spec_or_condition)
    return controller


def _subnet_claims(view: View, executor: Executor) -> Controller:
    def plan_for(key: Key, _: Raw | None) -> Plan:
        seen = view.subnet_claim(key)
        return subnet_claims.plan(seen) if seen is not None else ()

    def of_context(key: Key) -> Iterable[Key]:
        return [key_of(one) for one in view.subnet_claims.store.by("by_context", key)]

    def of_subnet(raw: Raw) -> Iterable[Key]:
        return [key for context in by_context(raw) for key in of_context(context)]

    controller = Controller("subnetclaims", _reconciler(executor, plan_for))
    controller.watch(view.subnet_claims, own_key, when=changed_meta_or_spec)
    controller.watch(view.contexts, lambda raw: of_context(key_of(raw)), when=changed_meta_or_spec)
    controller.watch(view.subnets, of_subnet, when=_spec_or_condition)
    return controller


def _that_go(store: Store, keys: Iterable[Key]) -> Iterable[Key]:
    """Those keys whose object is being deleted: only that waits for interfaces to be gone."""
    return [key for key in keys if (raw := store.get(key)) is not None and is_going(raw)]
