"""Carrying out a plan: what a cell refuses because a namespace goes is no failure, any other refusal is one."""

import secrets

import pytest

from netclaim.api import resources
from netclaim.api.meta import Raw
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import Invalid
from netclaim.kube.events import EventRecorder
from netclaim.kube.writes import Create
from nso.execute import Executor
from nso.steps import InCell, Plan


def _network(namespace: str, *families: str) -> Plan:
    raw: Raw = {"metadata": {"name": "late", "namespace": namespace}, "spec": {"ipFamilies": list(families)}}
    return (InCell(Create(resources.NETWORKS, raw, manager="test")),)


async def test_a_write_into_a_namespace_that_goes_is_left_out_quietly(cell: Client, ipam: Client) -> None:
    """R14: deleting a namespace under live reconcilers is everyday, and no error in their logs."""
    executor = Executor(Cluster(cell), Cluster(ipam), EventRecorder(cell, controller="test"))
    name = f"going-{secrets.token_hex(3)}"
    await cell.create(resources.NAMESPACES, {"metadata": {"name": name}})
    held: Raw = {"metadata": {"name": "holds", "namespace": name, "finalizers": ["example.com/test"]}}
    await cell.create(resources.NETWORKS, {**held, "spec": {"ipFamilies": ["IPv4"]}})
    with pytest.raises(Invalid):
        await executor.run(_network(name, "IPv4", "IPv4"))
    await cell.delete(resources.NAMESPACES, None, name)

    await executor.run(_network(name, "IPv4"))

    listed = await cell.list(resources.NETWORKS, name)
    assert [raw["metadata"]["name"] for raw in listed] == ["holds"]
    await cell.json_patch(resources.NETWORKS, name, "holds", [{"op": "remove", "path": "/metadata/finalizers"}])
