"""Who acts on what it saw a while ago is told so by the API server, and overtakes nobody (R32, T02)."""

from collections.abc import AsyncIterator

import pytest

from netclaim import identity
from netclaim.api import cloud, resources
from netclaim.api.meta import Raw
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import Conflict
from netclaim.kube.events import EventRecorder
from netclaim.kube.objects import slimmed
from tests.api.vpc.world import CONTEXT, SYSTEM, World
from vpc_controller import controllers
from vpc_controller.attachments import Attachments
from vpc_controller.drawing import Drawing
from vpc_controller.vpcs import Vpcs

NAME = "web-0-eth0"
VPC = identity.to_base62(2**47 + 4711)


class Late:
    """The reconcilers of a process that knows the world as it was when this was made."""

    def __init__(self, cluster: Cluster, world: World) -> None:
        recorder = EventRecorder(world.cell, controller="late")
        drawing = Drawing(cluster, SYSTEM)
        self.attachments = Attachments(cluster, drawing, recorder, "Netns")
        self.vpcs = Vpcs(cluster, drawing, recorder)

    @classmethod
    async def look(cls, world: World) -> "Late":
        cluster = Cluster(world.cell)
        controllers._reflect(cluster, SYSTEM)
        for reflector in cluster.reflectors:
            namespace = reflector.selection.namespace or (world.namespace if reflector.resource.namespaced else None)
            for raw in await world.cell.list(reflector.resource, namespace):
                reflector.store.put(slimmed(raw, reflector.resource))
        return cls(cluster, world)


@pytest.fixture
async def quiet(cell: Client, namespace: str) -> AsyncIterator[World]:
    """A namespace without a running controller: a context, its VPC, and an interface that waits for its attachment."""
    world = World(cell, namespace)
    await world.context()
    await world.interface(NAME)
    yield world
    for kind in (resources.ATTACHMENTS, resources.INTERFACES):
        for found in await cell.list(kind, namespace):
            ops = [{"op": "add", "path": "/metadata/finalizers", "value": []}]
            await cell.json_patch(kind, namespace, found["metadata"]["name"], ops)
            await world._delete(kind, found["metadata"]["name"])
    for identifier in await cell.list(resources.IDENTIFIERS, SYSTEM):
        if identifier["spec"]["holder"]["namespace"] == namespace:
            await cell.delete(resources.IDENTIFIERS, SYSTEM, identifier["metadata"]["name"])


async def without_identity(world: World, kind: Resource, name: str) -> None:
    """As if its maker had died between the object and its status."""
    said = (await world.get(kind, name))["status"]
    ops = [{"op": "remove", "path": f"/status/{field}"} for field in ("vpc", "vpcAttachment") if field in said]
    await world.cell.json_patch(kind, world.namespace, name, ops, subresource="status")


async def successor_says(world: World, kind: Resource, name: str, status: Raw) -> None:
    obj = {"metadata": {"name": name, "namespace": world.namespace}, "status": status}
    await world.cell.apply_status(kind, obj, manager="vpc-controller")


async def test_a_leader_that_wakes_up_does_not_say_another_identity_than_its_successor(quiet: World) -> None:
    """Both saw VPC and attachment without one; the clock of the first stood still, so it believes that it leads."""
    key = (quiet.namespace, CONTEXT)
    await (await Late.look(quiet)).vpcs.reconcile(key)
    await without_identity(quiet, resources.VPCS, CONTEXT)
    late = await Late.look(quiet)
    await successor_says(quiet, resources.VPCS, CONTEXT, {"vpc": VPC})
    with pytest.raises(Conflict):
        await late.vpcs.reconcile(key)
    assert (await quiet.get(resources.VPCS, CONTEXT))["status"]["vpc"] == VPC

    key = (quiet.namespace, NAME)
    await (await Late.look(quiet)).attachments.reconcile(key)
    await without_identity(quiet, resources.ATTACHMENTS, NAME)
    late = await Late.look(quiet)
    await successor_says(quiet, resources.ATTACHMENTS, NAME, {"vpc": VPC, "vpcAttachment": "a"})
    with pytest.raises(Conflict):
        await late.attachments.reconcile(key)
    assert (await quiet.get(resources.ATTACHMENTS, NAME))["status"]["vpcAttachment"] == "a"


async def test_an_attachment_that_a_node_claims_first_stays_that_of_its_holder(quiet: World) -> None:
    """The new claim is not told that it is prepared while the Pod of the previous one has just been attached."""
    key = (quiet.namespace, NAME)
    await (await Late.look(quiet)).vpcs.reconcile((quiet.namespace, CONTEXT))
    await (await Late.look(quiet)).attachments.reconcile(key)
    before = await quiet.get(resources.ATTACHMENTS, NAME)
    assert cloud.ATTACHED_FINALIZER in (await quiet.get(resources.INTERFACES, NAME))["metadata"]["finalizers"]
    await quiet.hold(NAME, await quiet.claim("next"))
    late = await Late.look(quiet)
    await quiet.attach(NAME, "n1")
    with pytest.raises(Conflict):
        await late.attachments.reconcile(key)
    assert (await quiet.get(resources.ATTACHMENTS, NAME))["spec"] == before["spec"]
    await (await Late.look(quiet)).attachments.reconcile(key)
    await quiet.says(resources.INTERFACES, NAME, "Prepared", "False", "PreviousHolderAttached")
