"""The client against a server that fails: one kind of error each, and no write is done twice or believed lost."""

import asyncio
import time
from pathlib import Path

import pytest

from dev.certificates import Authority
from netclaim.api.resources import CONFIG_MAPS
from netclaim.kube.client import Client
from netclaim.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Gone,
    Lost,
    NotFound,
    ServerError,
    Throttled,
    Unauthorized,
)
from tests.faults.server import MANY, Fault, FaultServer
from tests.unit.kube.conftest import Connect, config_map, serving_context
from tests.waiting import until


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (Fault.SILENT, Lost),
        (Fault.RESET, Lost),
        (Fault.GONE, Gone),
        (Fault.THROTTLED_TEXT, Throttled),
        (Fault.HTML_503, ServerError),
        (Fault.HTML_200, ServerError),
        (Fault.EMPTY, ServerError),
        (Fault.UNAUTHORIZED, Unauthorized),
    ],
)
async def test_each_failure_has_its_own_kind(
    server: FaultServer, client: Client, fault: Fault, kind: type[ApiError]
) -> None:
    """T02: status and content type are looked at before the body; nothing waits for ever."""
    server.inject(fault, times=MANY)
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        await client.get(CONFIG_MAPS, "shop", "a")
    assert type(caught.value) is kind
    assert time.monotonic() - started < 15.0


async def test_retry_after_is_read_from_a_429_that_is_not_json(server: FaultServer, client: Client) -> None:
    """T02."""
    server.inject(Fault.THROTTLED_TEXT)
    with pytest.raises(Throttled) as caught:
        await client.get(CONFIG_MAPS, "shop", "a")
    assert caught.value.retry_after == 1.0


async def test_a_server_that_refuses_connections_is_lost_and_named(server: FaultServer, client: Client) -> None:
    """The message says what, where and why."""
    await server.stop()
    with pytest.raises(Lost, match=rf"GET {server.url}/api/v1/namespaces/shop/configmaps/a: Connection refused"):
        await client.get(CONFIG_MAPS, "shop", "a")


@pytest.mark.parametrize("fault", [Fault.EMPTY_OBJECT, Fault.HTML_200, Fault.EMPTY])
async def test_a_reply_that_is_no_list_is_never_an_empty_list(
    server: FaultServer, client: Client, fault: Fault
) -> None:
    """T26: an empty reply must not read as "everything was deleted"."""
    server.inject(fault)
    with pytest.raises(ServerError):
        await client.list(CONFIG_MAPS)


@pytest.mark.parametrize("fault", [Fault.RESET_AFTER, Fault.SILENT_AFTER])
async def test_a_create_whose_reply_is_lost_is_read_back_and_not_sent_twice(
    server: FaultServer, client: Client, fault: Fault
) -> None:
    """T02: lost after commit."""
    server.inject(fault, when=lambda request: request.verb == "create")
    created = await client.create(CONFIG_MAPS, config_map("a", colour="red"))
    assert created["metadata"]["uid"]
    assert server.count("create") == 1


async def test_a_create_that_was_lost_before_it_took_effect_is_sent_again(server: FaultServer, client: Client) -> None:
    """T02: lost before commit."""
    server.inject(Fault.RESET, when=lambda request: request.verb == "create")
    created = await client.create(CONFIG_MAPS, config_map("a", colour="red"))
    assert created["data"] == {"colour": "red"}
    assert server.count("create") == 2


async def test_a_create_that_a_webhook_denied_is_not_sent_again(server: FaultServer, client: Client) -> None:
    """T32: a refusal that waiting may cure comes as a 5xx too, and is an answer all the same: one review, no read."""
    server.inject(Fault.DENIED, when=lambda request: request.verb == "create")
    with pytest.raises(ServerError, match="denied the request"):
        await client.create(CONFIG_MAPS, config_map("a"))
    assert [request.verb for request in server.seen] == ["create"]


async def test_a_lost_create_never_takes_another_ones_object_for_its_own(server: FaultServer, client: Client) -> None:
    """T02, whereabouts#141: success is only what can be read back."""
    server.storage.create("/api/v1/configmaps", config_map("a", holder="somebody else"))
    server.inject(Fault.RESET, when=lambda request: request.verb == "create")
    with pytest.raises(AlreadyExists):
        await client.create(CONFIG_MAPS, config_map("a", holder="me"))


async def test_an_apply_is_sent_again_once_when_the_connection_drops(server: FaultServer, client: Client) -> None:
    """T02: server-side apply says the same twice."""
    server.inject(Fault.RESET_AFTER, when=lambda request: request.verb == "patch")
    applied = await client.apply(CONFIG_MAPS, config_map("a", colour="red"), manager="test")
    assert applied["data"] == {"colour": "red"}
    server.inject(Fault.RESET, times=2, when=lambda request: request.verb == "patch")
    with pytest.raises(Lost):
        await client.apply(CONFIG_MAPS, config_map("a", colour="blue"), manager="test")


async def test_a_failed_test_of_a_json_patch_is_a_conflict(client: Client) -> None:
    """T20: whoever planned from an older version plans again."""
    await client.create(CONFIG_MAPS, config_map("a"))
    ops = [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}]
    with pytest.raises(Conflict):
        await client.json_patch(CONFIG_MAPS, "shop", "a", ops)


async def test_a_deletion_with_another_uid_is_a_conflict_and_deletes_nothing(client: Client) -> None:
    """T06."""
    await client.create(CONFIG_MAPS, config_map("a"))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAPS, "shop", "a", uid="another")
    assert await client.get(CONFIG_MAPS, "shop", "a")
    with pytest.raises(NotFound):
        await client.delete(CONFIG_MAPS, "shop", "b")


async def test_a_list_that_expires_between_two_pages_is_read_again_in_one_piece(
    server: FaultServer, client: Client
) -> None:
    """T22."""
    for number in range(1100):
        server.storage.create("/api/v1/configmaps", config_map(f"c{number:04}"))
    server.inject(Fault.GONE, when=lambda _: server.count("list") == 2)
    assert len(await client.list(CONFIG_MAPS)) == 1100


async def test_a_token_is_stripped_and_read_again_when_the_server_refuses_it(
    server: FaultServer, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T28: a rotated token needs no restart, and a newline at its end no luck."""
    monkeypatch.setattr("netclaim.kube.credentials.FORCED_REREAD_AFTER", 0.0)
    token = tmp_path / "token"
    token.write_text("first\n")
    server.tokens = {"first"}
    client = await connect(server, token_file=str(token))
    await client.list(CONFIG_MAPS)

    token.write_text("second\n")
    server.tokens = {"second"}
    await client.list(CONFIG_MAPS)
    assert server.count("list") == 3

    server.tokens = {"third"}
    with pytest.raises(Unauthorized):
        await client.list(CONFIG_MAPS)
    assert server.count("list") == 4, "the same token is not tried again"


async def test_a_swapped_ca_is_trusted_without_a_restart(
    connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T17, T28: the API server comes back with a certificate of a new authority, whose bundle was put in place."""
    monkeypatch.setattr("netclaim.kube.credentials.FORCED_REREAD_AFTER", 0.0)
    bundle = tmp_path / "bundle.crt"
    old = Authority.create(tmp_path / "old", "old")
    bundle.write_bytes(old.bundle.read_bytes())
    server = await FaultServer().start(serving_context(old, tmp_path))
    client = await connect(server, ca=str(bundle))
    await client.list(CONFIG_MAPS)

    await server.stop()
    new = Authority.create(tmp_path / "new", "new")
    await server.start(serving_context(new, tmp_path))
    with pytest.raises(Lost, match="certificate verify failed"):
        await client.list(CONFIG_MAPS)
    bundle.write_bytes(new.bundle.read_bytes())
    assert await client.list(CONFIG_MAPS) == []
    await server.stop()


async def test_a_burst_of_slow_writes_does_not_delay_a_lease(server: FaultServer, client: Client) -> None:
    """T02: leases have connections of their own."""
    server.inject(Fault.SILENT, times=40, when=lambda request: request.verb == "get" and request.key[1] == "slow")
    slow = [asyncio.create_task(client.get(CONFIG_MAPS, "shop", "slow")) for _ in range(40)]
    await until(lambda: server.count("get") >= 32, what="32 requests on their way")
    lease = client.for_leases(0.5)
    with pytest.raises(NotFound):
        await lease.get(CONFIG_MAPS, "shop", "lease")
    for task in slow:
        task.cancel()
    await asyncio.wait(slow)
