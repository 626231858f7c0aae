"""The project that a network allocates in: resolved from the namespace once, then recorded on the object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from netclaim.api.managers import NSO
from netclaim.api.meta import KubeObject, Raw
from netclaim.api.networking import PROJECT_ANNOTATION, TEARDOWN_FINALIZER, Network
from netclaim.api.resources import Resource
from netclaim.kube.objects import key_of
from netclaim.kube.writes import Apply
from nso.networks import reasons
from nso.steps import InCell, Plan


@dataclass(frozen=True, slots=True)
class Project:
    """A project by name, or why there is none: (reason, message)."""

    name: str = ""
    refusal: tuple[str, str] | None = None


def resolve(obj: KubeObject, named: str, label: str, *, exists: Callable[[str], bool]) -> Project:
    """The recorded project, else the one that the namespace names (`named`, empty for none).

    `exists` tells whether IPAM has a project.
    """
    name = recorded(obj) or named
    if not name:
        message = reasons.PROJECT_UNRESOLVED.message(namespace=obj.namespace, label=label)
        return Project(refusal=(reasons.PROJECT_UNRESOLVED.name, message))
    if not exists(name):
        message = reasons.PROJECT_NOT_FOUND.message(project=name, namespace=obj.namespace)
        return Project(name, refusal=(reasons.PROJECT_NOT_FOUND.name, message))
    return Project(name)


def inherited(obj: KubeObject, network: Network | None) -> Project:
    """The project that a context or subnet has recorded when it was made, else its network's."""
    name = recorded(obj) or (recorded(network) if network is not None else "")
    if name:
        return Project(name)
    if network is None:
        return Project(refusal=(reasons.PROJECT_PENDING.name, reasons.PROJECT_PENDING.message(network="its network")))
    message = reasons.PROJECT_PENDING.message(network=f"network {network.name}")
    return Project(refusal=(reasons.PROJECT_PENDING.name, message))


def recorded(obj: KubeObject) -> str:
    """The project that the object allocates in, empty when it has not been recorded yet."""
    return obj.metadata.annotations.get(PROJECT_ANNOTATION, "")


def steps(resource: Resource, raw: Raw, project: str) -> Plan:
    """One write that records the project and takes hold of the object, before anything is asked for."""
    metadata = raw["metadata"]
    recorded_already = (metadata.get("annotations") or {}).get(PROJECT_ANNOTATION) == project
    if recorded_already and TEARDOWN_FINALIZER in (metadata.get("finalizers") or ()):
        return ()
    namespace, name = key_of(raw)
    wanted: Raw = {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": metadata["uid"],
            "annotations": {PROJECT_ANNOTATION: project},
            "finalizers": [TEARDOWN_FINALIZER],
        }
    }
    return (InCell(Apply(resource, wanted, manager=NSO)),)
