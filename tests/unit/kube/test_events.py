"""Kubernetes Events: joined when they repeat, limited in rate, and never in the way."""

import asyncio

import pytest

from netclaim.kube import events
from netclaim.kube.client import Client
from netclaim.kube.events import EventRecorder
from tests.faults.server import MANY, Fault, FaultServer
from tests.unit.kube.conftest import config_map
from tests.waiting import until

EVENTS = "/apis/events.k8s.io/v1/events"


def _claim(name: str = "web-0-eth0") -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", **config_map(name)}


async def test_an_event_names_its_object_reason_and_reporter(server: FaultServer, client: Client) -> None:
    """kubectl describe shows it."""
    recorder = EventRecorder(client, controller="nso")
    task = asyncio.create_task(recorder.run())
    recorder.event(_claim(), "Warning", "PoolExhausted", "no address is left")
    await until(lambda: server.storage.collection(EVENTS))
    (sent,) = server.storage.collection(EVENTS).values()
    assert sent["regarding"]["name"] == "web-0-eth0"
    assert (sent["type"], sent["reason"], sent["note"]) == ("Warning", "PoolExhausted", "no address is left")
    assert sent["reportingController"] == "netclaim.datumapis.com/nso"
    task.cancel()


async def test_the_same_event_again_raises_a_count(
    server: FaultServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T32: a claim that waits for hours is one Event."""
    recorder = EventRecorder(client, controller="nso")
    task = asyncio.create_task(recorder.run())
    monkeypatch.setattr(events, "_EARLIEST_UPDATE", 0.0)
    for _ in range(5):
        recorder.event(_claim(), "Warning", "PoolExhausted", "no address is left")
    await until(
        lambda: any(event.get("series", {}).get("count") == 5 for event in server.storage.collection(EVENTS).values())
    )
    assert len(server.storage.collection(EVENTS)) == 1
    task.cancel()


async def test_events_of_a_failing_server_or_a_flood_disturb_nobody(server: FaultServer, client: Client) -> None:
    """T32: they are dropped, not waited for."""
    recorder = EventRecorder(client, controller="nso")
    server.inject(Fault.HTML_503, times=MANY)
    task = asyncio.create_task(recorder.run())
    for number in range(5000):
        recorder.event(_claim(f"c{number}"), "Normal", "Bound", "bound")
    await until(lambda: len(server.seen) >= 10)
    assert len(server.seen) <= 2 * events._BURST + 20
    assert not task.done()
    task.cancel()
