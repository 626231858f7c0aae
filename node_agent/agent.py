"""The parts of the agent, wired: socket, journal, data path, reports and routes."""

from __future__ import annotations

import asyncio
import json
from typing import Final

import structlog

from netclaim.api.meta import Raw
from netclaim.kube.cluster import Cluster
from netclaim.kube.errors import ApiError
from netclaim.kube.process import Process
from node_agent import taint
from node_agent.cni.attach import Attacher
from node_agent.cni.refusals import Refusal
from node_agent.cni.server import CniServer
from node_agent.cni.upkeep import Upkeep
from node_agent.cni.verbs import Verbs
from node_agent.datapath.datapath import Datapath
from node_agent.datapath.model import Attachment, NodeConfig, Routing, Sid
from node_agent.journal import CONFIG, Journal
from node_agent.presence import Presence
from node_agent.rebuild import Rebuild
from node_agent.report import Reports, Router
from node_agent.routes import Routes
from node_agent.rows import Row, State
from node_agent.settings import Settings
from node_agent.startup import underlay_address

log: structlog.stdlib.BoundLogger = structlog.get_logger("node_agent")

LEFTOVERS_AGAIN: Final = 10.0
CROWDED: Final = 100
"""Attachments on a node beyond which routing rules, a linear list, cost noticeable throughput."""


class Agent:
    """One node's agent: built, started, and stopped once."""

    def __init__(
        self,
        process: Process,
        cell: Cluster,
        settings: Settings,
        *,
        config: NodeConfig,
        journal: Journal,
        datapath: Datapath,
    ) -> None:
        self._process = process
        self._client = cell.client
        self._settings = settings
        self._config = config
        self._journal = journal
        self._datapath = datapath
        self._recorder = process.recorder(cell)
        self._listening = False
        self._presence = Presence(journal, datapath)
        self._reports = Reports(
            cluster=cell,
            journal=journal,
            router=Router(config.node_name, config.locator, config.underlay),
            namespace=settings.system_namespace,
            sids=self._sids,
            known=self._known,
            close=self._close,
            crowded=lambda: self._server.crowded,
        )
        self._routes = Routes(
            cluster=cell,
            datapath=datapath,
            presence=self._presence,
            routers=self._reports.routers,
            own=config.node_name,
            namespace=settings.system_namespace,
            block=config.locator_block,
            own_advertisements=(self._reports.controller, self._reports.own),
        )
        self._attacher = Attacher(
            node=config.node_name,
            client=cell.client,
            journal=journal,
            datapath=datapath,
            presence=self._presence,
            withdrawing=self._reports.withdrawing,
            changed=self._changed,
            refused=self._refused,
        )
        self._upkeep = Upkeep(
            journal=journal,
            datapath=datapath,
            attacher=self._attacher,
            presence=self._presence,
            spool=settings.spool,
            sweep_interval=settings.sweep_interval,
            rebuild=Rebuild(node=config.node_name, client=cell.client, journal=journal, datapath=datapath),
        )
        verbs = Verbs(self._attacher, journal, datapath, self._obstacle)
        self._server = CniServer(verbs.run, settings.socket)

    async def start(self) -> None:
        """Set the node up, recover, then listen: whoever calls earlier finds no socket and tries again."""
        if self._config.routing is Routing.RULES:
            log.info("routing by rules: keep attachments on this node below the limit", limit=CROWDED)
        await self._datapath.setup_node()
        await self._upkeep.recover()
        told = {**self._config.as_json(), "systemNamespace": self._settings.system_namespace}
        await self._journal.remember(CONFIG, json.dumps(told))
        await self._server.start()
        self._listening = True
        log.info("listening", socket=str(self._settings.socket), routing=self._config.routing.value)
        process = self._process
        process.add_ready_check("the CNI socket is not served", lambda: self._listening)
        for controller in (self._reports.router_controller, self._reports.controller, self._routes.controller):
            process.add(controller)
        await self._reports.start()
        process.add_task("leftovers", self._find_leftovers)
        process.add_task("spool", self._upkeep.watch_spool)
        process.add_task("sweep", self._upkeep.sweep_regularly)
        process.add_task("heal-routes", self._routes.heal_regularly)
        process.add_task("heal-links", self._datapath.follow_links)
        process.add_task("stop-listening", self._stop_listening)
        if self._settings.remove_startup_taint:
            process.add_task("startup-taint", self._remove_startup_taint)

    async def stop(self) -> None:
        """Finish what was taken on and close files and handles. The kernel keeps forwarding."""
        await self._server.stop()
        await self._attacher.settled()
        await self._datapath.close()
        await self._journal.close()

    async def _stop_listening(self) -> None:
        await self._process.stopping.wait()
        self._listening = False
        await self._server.stop()

    async def _remove_startup_taint(self) -> None:
        await taint.remove_when_ready(self._client, self._config.node_name, self._process.unready)

    async def _find_leftovers(self) -> None:
        """Compare all that this node has ever told with what it has, as soon as the API server can be asked."""
        await self._reports.routers.synced.wait()
        while True:
            try:
                await self._reports.find_leftovers()
            except ApiError as error:
                log.warning("what an earlier life of this node has told cannot be looked at yet", error=str(error))
                await asyncio.sleep(LEFTOVERS_AGAIN)
            else:
                return

    def _obstacle(self) -> str | None:
        uplink = self._settings.underlay_interface
        if self._settings.next_hop is None and underlay_address(uplink, self._config.locator_block) is None:
            return f"the underlay device {uplink} has no address"
        return None

    def _sids(self, attachment: Attachment) -> tuple[Sid, ...]:
        return self._datapath.sids(attachment.vpc)

    async def _known(self, vpc: int, advertisement: str) -> Raw | None:
        return await self._routes.known(vpc, advertisement)

    async def _close(self, row: Row) -> None:
        await self._attacher.remove(row)

    def _changed(self, row: Row) -> None:
        if row.state is State.ADDED:
            self._reports.claimed(row)
        self._reports.changed(row.device)
        self._routes.changed(row.vpc)

    def _refused(self, attachment: Raw, refusal: Refusal) -> None:
        self._recorder.event(attachment, "Warning", refusal.reason.word, refusal.message, action="Attach")
