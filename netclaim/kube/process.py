"""A program's life: serve health, reach the API servers, fill the stores, be elected, work, stop in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from importlib import metadata
from typing import Any, Final, TypeVar

from netclaim.kube import logs
from netclaim.kube.client import Client
from netclaim.kube.cluster import Cluster
from netclaim.kube.controller import Controller
from netclaim.kube.errors import ConfigError
from netclaim.kube.events import EventRecorder
from netclaim.kube.leader import STANDARD, Elector, Timings
from netclaim.kube.observing import measure_cluster
from netclaim.kube.reaching import reach
from netclaim.kube.reflector import SILENT_AFTER, Reflector
from netclaim.kube.serving import LoopLag, Serving
from netclaim.kube.settings import CommonSettings, parse

__all__ = ["CommonSettings", "Process", "parse", "run"]

log = logging.getLogger(__name__)

DRAIN: Final = 20.0
STOP: Final = 3.0
LAST: Final = 27.0
"""Seconds from SIGTERM after which the process ends whatever still runs: kubelet kills at 30."""

UNHEALTHY_LAG: Final = 10.0

S = TypeVar("S", bound=CommonSettings)


class Process:
    """One program. Connect, reflect, add controllers and tasks, then `await run()`."""

    def __init__(self, name: str, settings: CommonSettings, *, timings: Timings = STANDARD) -> None:
        self.name = name
        self.settings = settings
        self.stopping = asyncio.Event()
        """Set when SIGTERM came: finish what you do, begin nothing new."""
        self.lag = LoopLag()
        self._timings = timings
        self._clusters: dict[str | None, Cluster] = {}
        self._unreached: dict[Cluster, str] = {}
        self._apart: list[Cluster] = []
        self._reaching: list[asyncio.Task[bool]] = []
        self._recorders: dict[Cluster, EventRecorder] = {}
        self._controllers: list[Controller] = []
        self._tasks: list[tuple[str, Callable[[], Awaitable[None]], bool]] = []
        self._checks: dict[str, Callable[[], bool]] = {}
        self._awaited: list[Reflector] = []
        self._elector: Elector | None = None
        self._group: asyncio.TaskGroup | None = None
        self._sources: dict[Reflector, asyncio.Task[None]] = {}
        self._background: set[asyncio.Task[None]] = set()
        self._serving: Serving | None = None
        self._started = time.monotonic()
        self._begun = False
        self._drained = False
        self._settled = asyncio.Event()
        self._last_resort: asyncio.TimerHandle | None = None

    # -- putting it together ---------------------------------------------------------------------------------------

    async def connect(
        self, kubeconfig: str | None, *, wait: bool = True, identify: bool = True, apart: bool = False
    ) -> Cluster:
        """The API server of `kubeconfig`; the same one again is the same Cluster.

        Waits until it answers, and says what is wrong meanwhile. With `wait=False` the cluster is returned at once,
        its calls raise Lost while the server is away, and `identify` (which needs `get` on the namespace kube-system)
        is left to the caller. With `apart` it is returned at once too, and asked in the background until it answers:
        controllers that watch something there wait for all that is followed there, the others begin without it.

        Raises:
            ConfigError: the configuration cannot be used.
            SystemExit: SIGTERM came while waiting.
        """
        await self._begin()
        if kubeconfig in self._clusters:
            return self._clusters[kubeconfig]
        client = await Client.connect(kubeconfig, user_agent=f"{self.name}/{_version()} netclaim")
        cluster = Cluster(client, leads=self.is_leader)
        cluster.on_reflector = self._start_reflector
        cluster.on_forget = self._stop_reflector
        self._clusters[kubeconfig] = cluster
        if apart:
            self._apart.append(cluster)
            self._unreached[cluster] = "not asked yet"
            self._reaching.append(
                asyncio.create_task(reach(cluster, self._unreached, self.stopping, identify=identify))
            )
        elif wait:
            self._unreached[cluster] = "not asked yet"
            if not await reach(cluster, self._unreached, self.stopping, identify=identify):
                await self._end()
                raise SystemExit(0)
        return cluster

    def add(self, controller: Controller) -> None:
        """Run this controller while leading (always, without election), once its stores have synced."""
        self._controllers.append(controller)

    def add_task(
        self, name: str, coroutine_function: Callable[[], Awaitable[None]], *, leader_only: bool = False
    ) -> None:
        """Run this beside the controllers. An error of it ends the process. It is cancelled after the drain."""
        self._tasks.append((name, coroutine_function, leader_only))

    def add_ready_check(self, what: str, check: Callable[[], bool]) -> None:
        """/readyz says `what` while `check()` is false."""
        self._checks[what] = check

    def is_leader(self) -> bool:
        """Whether this process may do a leader's work right now (always, without election)."""
        if not self.settings.leader_elect:
            return True
        return self._elector is not None and self._elector.is_leader()

    def recorder(self, cluster: Cluster) -> EventRecorder:
        """Events at this API server."""
        if cluster not in self._recorders:
            self._recorders[cluster] = EventRecorder(cluster.client, controller=self.name)
            if self._group is not None:
                self._spawn("events", self._recorders[cluster].run())
        return self._recorders[cluster]

    @property
    def metrics_address(self) -> str:
        """host:port where /metrics, /healthz and /readyz are served, once it is."""
        return self._serving.bound if self._serving is not None else ""

    # -- health ----------------------------------------------------------------------------------------------------

    def unhealthy(self) -> list[str]:
        """Why the process should be restarted: a stuck loop, or a stream that died in silence."""
        reasons = []
        if self.lag.worst >= UNHEALTHY_LAG:
            reasons.append(f"the event loop was {self.lag.worst:.1f} s late")
        reasons += [
            f"{reflector.selection}: nothing heard for {reflector.age:.0f} s (limit {SILENT_AFTER:.0f} s)"
            for reflector in self._sources
            if not reflector.healthy
        ]
        return reasons

    def unready(self) -> list[str]:
        """Why the process does not do its work yet (a standby with full stores is ready)."""
        reasons = [f"not connected to {cluster.client.server}: {why}" for cluster, why in self._unreached.items()]
        if self._group is None:
            reasons.append("starting")
        if self.stopping.is_set():
            reasons.append("stopping")
        reasons += [
            f"{reflector.selection}: not synced{f' ({reflector.failure})' if reflector.failure else ''}"
            for reflector in self._awaited
            if not reflector.forgotten and not reflector.synced.is_set()
        ]
        reasons += [what for what, check in self._checks.items() if not check()]
        return reasons

    def _measure(self) -> None:
        for controller in self._controllers:
            controller.measure()
        for cluster in self._clusters.values():
            measure_cluster(cluster)

    # -- running ---------------------------------------------------------------------------------------------------

    async def run(self) -> int:
        """Work until SIGTERM or SIGINT; returns the exit code: 0, or 1 when a part of the program died."""
        await self._begin()
        code = 0
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._start_all(group)
        except BaseExceptionGroup as errors:
            code = 1
            for error in _leaves(errors):
                log.critical("a part of the program died: %s: %s", type(error).__name__, error, exc_info=error)
        finally:
            self._group = None
            await self._end()
        return code

    def _start_all(self, group: asyncio.TaskGroup) -> None:
        self._awaited = [each for cluster in self._clusters.values() for each in cluster.reflectors]
        for reflector in self._awaited:
            self._start_reflector(reflector)
        for recorder in self._recorders.values():
            self._spawn("events", recorder.run())
        for name, function, leader_only in self._tasks:
            if not leader_only:
                self._spawn(name, function())
        first = next(iter(self._clusters.values()), None)
        if self.settings.leader_elect and first is not None and self._has_leader_work():
            self._elector = Elector(
                first.client,
                self.settings.system_namespace,
                self.settings.lease_name or self.name,
                timings=self._timings,
            )
        group.create_task(self._conduct(group), name="conduct")

    def _has_leader_work(self) -> bool:
        return bool(self._controllers) or any(leader_only for _, _, leader_only in self._tasks)

    async def _conduct(self, group: asyncio.TaskGroup) -> None:
        """Stores, then election, then work; on SIGTERM all of it in reverse."""
        stop = group.create_task(self._wait_for_stop(), name="stop")
        work = group.create_task(self._work_when_settled(), name="work")
        election: asyncio.Task[None] | None = None
        if self._elector is not None:
            election = group.create_task(self._elect(self._elector), name="election")
        await stop
        began = time.monotonic()
        log.info("stopping: draining")
        self._last_resort = asyncio.get_running_loop().call_later(LAST, self._give_up)
        for source in list(self._sources.values()):
            source.cancel()
        self._drained = True
        for controller in self._controllers:
            controller.drain()
        if not self._settled.is_set() or (self._elector is not None and not self._elector.is_leader()):
            work.cancel()
        await asyncio.wait({work}, timeout=DRAIN)
        for task in (work, *self._background):
            task.cancel()
        await asyncio.wait({work, *self._background}, timeout=STOP)
        if election is not None and self._elector is not None:
            election.cancel()
            await asyncio.wait({election})
            await self._elector.release()
        log.info("stopped after %.1f s", time.monotonic() - began)

    async def _wait_for_stop(self) -> None:
        await self.stopping.wait()

    async def _elect(self, elector: Elector) -> None:
        await self._settled.wait()
        await elector.run()

    async def _work_when_settled(self) -> None:
        """Start leading when every store is full, or is known to stay empty because its kind is not served."""
        apart = {reflector for cluster in self._apart for reflector in cluster.reflectors}
        for reflector in [each for each in self._awaited if each not in apart]:
            while not (reflector.synced.is_set() or reflector.refused or reflector.forgotten):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await reflector.synced.wait()
        self._settled.set()
        if not self._has_leader_work():
            return
        if self._elector is None:
            await self._lead()
        else:
            await self._elector.lead(self._lead)

    async def _lead(self) -> None:
        began = time.monotonic()
        log.info("working: %s", ", ".join(controller.name for controller in self._controllers) or "tasks only")
        async with asyncio.TaskGroup() as group:
            extra = [
                group.create_task(_as_coroutine(function()), name=name)
                for name, function, leader_only in self._tasks
                if leader_only
            ]
            controllers = [
                group.create_task(self._run_controller(controller), name=controller.name)
                for controller in self._controllers
            ]
            await self.stopping.wait()
            if controllers:
                await asyncio.wait(controllers)
            for task in extra:
                task.cancel()
        log.info("work ended after %.1f s", time.monotonic() - began)

    async def _run_controller(self, controller: Controller) -> None:
        """Run one controller; one whose kind is not served waits, and the others do not wait for it."""
        stop = asyncio.ensure_future(self.stopping.wait())
        try:
            for reflector in self._needed_by(controller):
                synced = asyncio.ensure_future(reflector.synced.wait())
                await asyncio.wait({synced, stop}, return_when=asyncio.FIRST_COMPLETED)
                synced.cancel()
        finally:
            stop.cancel()
        if not self.stopping.is_set():
            await controller.run(self.is_leader)

    def _needed_by(self, controller: Controller) -> list[Reflector]:
        """What must be equal to the server before it runs: what it watches, and all of a server that is apart."""
        needed = controller.unsynced
        watched = {source.reflector for source in controller.sources}
        for cluster in self._apart:
            if watched & set(cluster.reflectors):
                needed += [each for each in cluster.reflectors if not each.synced.is_set() and each not in needed]
        return needed

    # -- reflectors ------------------------------------------------------------------------------------------------

    def _start_reflector(self, reflector: Reflector) -> None:
        if self._group is None or self._drained:
            return
        task = self._group.create_task(reflector.run(), name=f"reflector {reflector.selection}")
        self._sources[reflector] = task
        task.add_done_callback(lambda _: self._sources.pop(reflector, None))

    async def _stop_reflector(self, reflector: Reflector) -> None:
        task = self._sources.pop(reflector, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    # -- beginning and end -----------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Signals and the HTTP server: before anything that can take long."""
        if self._begun:
            return
        self._begun = True
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        if self.settings.metrics_address:
            self._serving = Serving(
                self.settings.metrics_address,
                unhealthy=self.unhealthy,
                unready=self.unready,
                measure=self._measure,
            )
            await self._serving.start()
            log.info("serving /metrics, /healthz and /readyz on http://%s", self._serving.bound)
        self._lag_task = asyncio.create_task(self.lag.run(), name="loop-lag")

    def stop(self) -> None:
        """End in order, as on SIGTERM."""
        self.stopping.set()

    def _on_signal(self, number: signal.Signals) -> None:
        if self.stopping.is_set():
            log.warning("%s again: ending at once", number.name)
            os._exit(1)
        log.info("%s received", number.name)
        self.stop()

    def _give_up(self) -> None:
        log.critical("not stopped within %.0f s: ending at once", LAST)
        os._exit(1)

    async def _end(self) -> None:
        if self._last_resort is not None:
            self._last_resort.cancel()
        for task in (self._lag_task, *self._reaching):
            task.cancel()
        if self._serving is not None:
            await self._serving.close()
        for cluster in self._clusters.values():
            await cluster.client.close()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)

    def _spawn(self, name: str, work: Awaitable[None]) -> None:
        assert self._group is not None  # noqa: S101 - only called while running
        task = self._group.create_task(_as_coroutine(work), name=name)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


async def _as_coroutine(work: Awaitable[None]) -> None:
    await work


def _leaves(errors: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    found: list[BaseException] = []
    for error in errors.exceptions:
        found += _leaves(error) if isinstance(error, BaseExceptionGroup) else [error]
    return found


def _version() -> str:
    try:
        return metadata.version("netclaim")
    except metadata.PackageNotFoundError:
        return "dev"


def run(
    main: Callable[[S], Coroutine[Any, Any, int]],
    settings_class: type[S],
    program: str,
    argv: Sequence[str] | None = None,
) -> int:
    """Parse the command line, set logging up, and run `main(settings)` to its exit code."""
    settings = parse(settings_class, sys.argv[1:] if argv is None else argv, program=program)
    logs.configure(program, settings.log_level)
    try:
        return asyncio.run(main(settings))
    except ConfigError as error:
        sys.stderr.write(f"{program}: error: {error}\n")
        return 2
