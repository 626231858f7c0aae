"""A program's life: flags, an API server that is away, readiness, health, and an orderly end under load."""

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from netclaim.api.meta import Key
from netclaim.api.resources import CONFIG_MAPS, SECRETS
from netclaim.kube import process as processes
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller, own_key
from netclaim.kube.process import CommonSettings, Process, parse
from tests.faults.server import MANY, Fault, FaultServer
from tests.unit.kube.conftest import config_map
from tests.unit.kube.program import FAST, Settings
from tests.waiting import until

MAPS = "/api/v1/configmaps"
PAIRS = "/api/v1/secrets"
LEASES = "/apis/coordination.k8s.io/v1/leases"


class Program:
    """A running child process with what it logged so far."""

    def __init__(self, child: asyncio.subprocess.Process) -> None:
        self.child = child
        self.log = ""
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.child.stderr is not None
        while line := await self.child.stderr.readline():
            self.log += line.decode()

    async def end(self, *, within: float = 28.0) -> int:
        """Wait for its end; by default as long after SIGTERM as a program may take."""
        async with asyncio.timeout(within):
            code = await self.child.wait()
            await self._reader
        return code

    async def serving(self) -> None:
        """Wait until it has started: on a busy machine the interpreter alone takes its time."""
        await until(lambda: self.address, timeout=60, what="the program has started")

    @property
    def address(self) -> str:
        """Where it serves its health."""
        for line in self.log.splitlines():
            if "on http://" in line:
                return str(json.loads(line)["event"].split("on ")[1])
        return ""


@contextlib.asynccontextmanager
async def program(*flags: str) -> AsyncIterator[Program]:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.unit.kube.program", *flags, stderr=asyncio.subprocess.PIPE
    )
    running = Program(child)
    try:
        yield running
    finally:
        if child.returncode is None:
            child.kill()
        await running.end()


@pytest.fixture
def kubeconfig(server: FaultServer, tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    return str(path)


async def _get(address: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(address) as reply:
        return reply.status, await reply.text()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), "program: error: --mode is required: How interfaces are attached: Netns or Hypervisor."),
        (("--mode=Bridge",), "program: error: --mode 'Bridge': Input should be 'Netns' or 'Hypervisor'"),
        (("--mode=Netns", "--pause=-1"), "program: error: --pause '-1': Input should be greater than or equal to 0"),
        (("--mode=Netns", "--speed=1"), "program: error: unrecognized arguments: --speed=1"),
        (("--mode=Hypervisor",), "program: error: --location is required in mode Hypervisor: name the location"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], said: str
) -> None:
    """R30: the line names the flag and what to do."""
    with pytest.raises(SystemExit) as ended:
        parse(Settings, flags, program="program")
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--kubeconfig=/nowhere", "program: error: cannot read kubeconfig /nowhere: No such file"),
        ("--metrics-address=here", "program: error: --metrics-address 'here' is not host:port"),
    ],
)
async def test_a_flag_that_cannot_be_used_is_one_line_and_exit_code_2(flag: str, said: str) -> None:
    """R30: also when it shows only after the start."""
    async with program("--mode=Netns", flag) as running:
        assert await running.end(within=60) == 2
    said_lines = [line for line in running.log.splitlines() if not line.startswith("{")]
    assert len(said_lines) == 1
    assert said_lines[0].startswith(said)
    assert "Traceback" not in running.log


async def test_an_api_server_that_is_away_is_named_again_and_again_and_ends_no_program(tmp_path: Path) -> None:
    """T27: what, where, why, what to check; the program is alive but not ready, and leaves when told to."""
    away = FaultServer()
    await away.start()
    path = tmp_path / "kubeconfig"
    path.write_text(away.kubeconfig())
    await away.stop()
    async with program("--mode=Netns", f"--kubeconfig={path}") as running:
        await running.serving()
        message = f"cannot use the API server {away.url} (kubeconfig {path})"
        await until(lambda: running.log.count(message) >= 3, timeout=60, what="three messages")
        for word in ("Connection refused", "Check that it runs", "Trying again in"):
            assert word in running.log
        status, text = await _get(f"{running.address}/readyz")
        assert status == 503
        assert away.url in text
        assert (await _get(f"{running.address}/healthz"))[0] == 200
        running.child.send_signal(signal.SIGTERM)
        assert await running.end() == 0
    assert "Traceback" not in running.log


async def test_sigterm_under_load_ends_what_runs_begins_nothing_and_releases_the_lease_last(
    server: FaultServer, kubeconfig: str
) -> None:
    """T03: a rolling update leaves nothing half done and no wait for the next leader."""
    for number in range(500):
        server.storage.create(MAPS, config_map(f"c{number}"))
    async with program("--mode=Netns", f"--kubeconfig={kubeconfig}") as running:
        await running.serving()
        await until(lambda: len(server.storage.collection(PAIRS)) > 30, timeout=20, what="work under way")
        running.child.send_signal(signal.SIGTERM)
        sent = time.monotonic()
        assert await running.end() == 0
        assert time.monotonic() - sent < 20
    begun = {key[1].removesuffix("-begun") for key in server.storage.collection(PAIRS) if key[1].endswith("-begun")}
    ended = {key[1].removesuffix("-ended") for key in server.storage.collection(PAIRS) if key[1].endswith("-ended")}
    assert begun == ended
    assert len(ended) < 500
    writes = [request for request in server.seen if request.verb in ("create", "update", "patch", "delete")]
    assert (writes[-1].verb, writes[-1].collection) == ("update", LEASES)
    lease = server.storage.collection(LEASES)["netclaim-system", "program"]
    assert lease["spec"]["holderIdentity"] == ""
    assert "Traceback" not in running.log


async def test_log_lines_are_json_with_controller_key_and_reconcile_id(server: FaultServer, kubeconfig: str) -> None:
    """Operators find all lines of one reconcile."""
    server.storage.create(MAPS, config_map("a"))
    server.storage.create(PAIRS, {"metadata": {"namespace": "shop", "name": "a-begun"}, "data": {"of": "another"}})
    server.inject(Fault.UNAUTHORIZED, times=MANY, when=lambda request: request.verb == "create")
    async with program("--mode=Netns", f"--kubeconfig={kubeconfig}", "--leader-elect=false") as running:
        await running.serving()
        await until(lambda: "growing delays" in running.log, timeout=60, what="the failure logged")
        lines = [json.loads(line) for line in running.log.splitlines()]
    failed = next(line for line in lines if "growing delays" in line["event"])
    assert (failed["controller"], failed["key"], failed["program"]) == ("pairs", "shop/a", "program")
    assert failed["reconcile_id"]
    assert failed["level"] == "error"


class _Idle:
    """An in-process program with one controller that does nothing."""

    def __init__(self, kubeconfig: str, **flags: object) -> None:
        settings = CommonSettings.model_validate({"kubeconfig": kubeconfig, "lease_name": "idle", **flags})
        self.process = Process("idle", settings, timings=FAST)
        self.hang = asyncio.Event()
        self.runs = 0

    async def wire(self) -> Cluster:
        cell = await self.process.connect(self.process.settings.kubeconfig, identify=False)
        controller = Controller("idle", self.reconcile)
        controller.watch(cell.reflect(CONFIG_MAPS), own_key)
        self.process.add(controller)
        return cell

    async def reconcile(self, _: Key) -> float | None:
        self.runs += 1
        if self.hang.is_set():
            await asyncio.Event().wait()
        return None

    async def question(self, path: str) -> tuple[int, str]:
        return await _get(f"http://{self.process.metrics_address}/{path}")


@pytest.fixture
async def idle(kubeconfig: str) -> _Idle:
    made = _Idle(kubeconfig)
    await made.wire()
    return made


async def test_a_standby_is_ready_and_works_only_when_it_leads(
    server: FaultServer, idle: _Idle, kubeconfig: str
) -> None:
    """Both replicas of a Deployment become ready; one works."""
    server.storage.create(MAPS, config_map("a"))
    standby = _Idle(kubeconfig)
    await standby.wire()
    first = asyncio.create_task(idle.process.run())
    await until(lambda: idle.runs == 1, what="the leader worked")
    second = asyncio.create_task(standby.process.run())
    await until(lambda: not standby.process.unready(), what="the standby ready")
    assert standby.runs == 0
    assert not standby.process.is_leader()
    assert (await standby.question("readyz"))[0] == 200
    idle.process.stop()
    assert await first == 0
    await until(lambda: standby.runs == 1, what="the standby took over")
    standby.process.stop()
    assert await second == 0


async def test_it_is_not_ready_before_its_stores_are_full(server: FaultServer, idle: _Idle) -> None:
    """T21: nothing works, and no traffic is sent, before every cache has synced."""
    server.inject(Fault.HTML_503, times=MANY, when=lambda request: request.verb == "list")
    running = asyncio.create_task(idle.process.run())
    await until(lambda: any("ServerError" in reason for reason in idle.process.unready()), what="the reason")
    status, text = await idle.question("readyz")
    assert status == 503
    assert "configmaps: not synced (ServerError)" in text
    assert not idle.process.is_leader()
    idle.process.stop()
    assert await running == 0


async def test_a_kind_that_is_not_served_stops_its_own_controller_only(server: FaultServer, idle: _Idle) -> None:
    """T27: the rest works, and /readyz says which kind is missing."""
    server.storage.create(MAPS, config_map("a"))
    server.unserved.add(PAIRS)
    cell = await idle.process.connect(idle.process.settings.kubeconfig)
    other = Controller("other", idle.reconcile)
    other.watch(cell.reflect(SECRETS), own_key)
    idle.process.add(other)
    running = asyncio.create_task(idle.process.run())
    await until(lambda: idle.runs == 1, what="the other controller works")
    status, text = await idle.question("readyz")
    assert status == 503
    assert "secrets: not synced (NotFound)" in text
    idle.process.stop()
    assert await running == 0


async def test_a_blocked_event_loop_shows_in_its_gauge(idle: _Idle) -> None:
    """Operators see a stall before its victims do."""
    running = asyncio.create_task(idle.process.run())
    await until(lambda: not idle.process.unready())
    time.sleep(0.6)  # noqa: ASYNC251 - the stall itself
    await until(lambda: idle.process.lag.worst > 0.3, timeout=20, what="the stall measured")
    _, text = await idle.question("metrics")
    gauge = next(line for line in text.splitlines() if line.startswith("event_loop_lag_seconds "))
    assert 0.3 < float(gauge.split()[1]) < 30.0
    idle.process.stop()
    assert await running == 0


async def test_a_stream_that_died_in_silence_makes_it_unhealthy(idle: _Idle, monkeypatch: pytest.MonkeyPatch) -> None:
    """T22: liveness is progress, not a port."""
    running = asyncio.create_task(idle.process.run())
    await until(lambda: not idle.process.unready())
    assert (await idle.question("healthz"))[0] == 200
    monkeypatch.setattr("netclaim.kube.reflector.SILENT_AFTER", -1.0)
    status, text = await idle.question("healthz")
    assert status == 503
    assert "configmaps: nothing heard for" in text
    idle.process.stop()
    assert await running == 0


async def test_the_metrics_have_the_names_that_dashboards_know(idle: _Idle) -> None:
    """Existing dashboards and alerts work."""
    running = asyncio.create_task(idle.process.run())
    await until(lambda: not idle.process.unready() and idle.process.is_leader())
    _, text = await idle.question("metrics")
    for name in (
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds_bucket",
        "workqueue_work_duration_seconds_bucket",
        "workqueue_unfinished_work_seconds",
        "workqueue_retries_total",
        "workqueue_longest_running_processor_seconds",
        "controller_runtime_reconcile_total",
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_reconcile_time_seconds_bucket",
        "controller_runtime_max_concurrent_reconciles",
        "rest_client_requests_total",
        "rest_client_request_duration_seconds_bucket",
        "leader_election_master_status",
        "reflector_last_event_age_seconds",
        "reflector_lists_total",
        "reflector_objects",
        "event_loop_lag_seconds",
    ):
        assert f"\n{name}" in text, name
    idle.process.stop()
    assert await running == 0


async def test_a_part_that_dies_ends_the_process_with_its_reason(idle: _Idle, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing goes on half dead."""

    async def die() -> None:
        raise ValueError("the certificate file is empty")

    idle.process.add_task("certificates", die)
    assert await idle.process.run() == 1
    assert "a part of the program died: ValueError: the certificate file is empty" in caplog.text


async def test_work_that_does_not_end_in_the_drain_is_cancelled(
    server: FaultServer, idle: _Idle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T03: it ends by itself before kubelet kills it, and still releases the lease."""
    monkeypatch.setattr(processes, "DRAIN", 0.3)
    server.storage.create(MAPS, config_map("a"))
    idle.hang.set()
    running = asyncio.create_task(idle.process.run())
    await until(lambda: idle.runs == 1)
    idle.process.stop()
    async with asyncio.timeout(3):
        assert await running == 0
    assert server.storage.collection(LEASES)["netclaim-system", "idle"]["spec"]["holderIdentity"] == ""
