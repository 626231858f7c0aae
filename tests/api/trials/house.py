"""A namespace and its project before `nso` lives that go through gateways: what is tried there, and what must hold."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from netclaim.api import networking, resources
from netclaim.kube.client import Client
from netclaim.kube.errors import NotFound
from tests.api.claims.conftest import everything_goes
from tests.api.claims.shop import LOCATION, Shop
from tests.conftest import create_project
from tests.control_plane import ControlPlane
from tests.faults.lives import Life
from tests.faults.stage import Stage
from tests.waiting import until

GRACE = "5"


@dataclass
class House:
    """Both API servers behind gateways of their own, and whoever lives on them."""

    control_plane: ControlPlane
    shop: Shop
    cell_gate: Stage
    ipam_gate: Stage
    folder: Path
    lives: list[Life] = field(default_factory=list)

    def life(
        self,
        controllers: str = "networks,claims,ipam",
        *flags: str,
        location: str = LOCATION,
        gates: bool = True,
        cell: Path | None = None,
    ) -> Life:
        """An `nso` that reaches both API servers through the gateways; it does not ask whether another one leads.

        `cell`: kubeconfig of another cell.
        """
        cell = cell or (self.folder / "cell" if gates else self.control_plane.cell_kubeconfig)
        ipam = self.folder / "ipam" if gates else self.control_plane.ipam_kubeconfig
        made = Life(
            self.folder / f"nso-{len(self.lives)}.log",
            f"--controllers={controllers}",
            f"--kubeconfig={ipam if controllers == 'ipam' else cell}",
            *(() if controllers == "ipam" else (f"--ipam-kubeconfig={ipam}", f"--location={location}")),
            f"--orphan-grace={GRACE}",
            "--pool-linger=1",
            *(() if any(flag.startswith("--leader-elect") for flag in flags) else ("--leader-elect=false",)),
            *flags,
        )
        self.lives.append(made)
        return made

    def gates_open(self) -> None:
        """Nothing goes wrong any more."""
        for gate in (self.cell_gate, self.ipam_gate):
            gate.rate, gate.each_first, gate.on_first, gate.away = 0.0, None, None, False


@asynccontextmanager
async def built(control_plane: ControlPlane, cell: Client, ipam: Client, folder: Path) -> AsyncIterator[House]:
    """Afterwards all is deleted while one `nso` works in peace, and nothing may be left."""
    suffix = secrets.token_hex(3)
    shop = Shop(cell, ipam, f"trial-{suffix}", f"trial-{suffix}")
    await create_project(ipam, shop.project)
    labels = {networking.PROJECT_LABEL: shop.project}
    await cell.create(resources.NAMESPACES, {"metadata": {"name": shop.namespace, "labels": labels}})
    async with (
        Stage(control_plane.cell_kubeconfig) as cell_gate,
        Stage(control_plane.ipam_kubeconfig) as ipam_gate,
    ):
        cell_gate.write_kubeconfig(folder / "cell")
        ipam_gate.write_kubeconfig(folder / "ipam")
        house = House(control_plane, shop, cell_gate, ipam_gate, folder)
        try:
            yield house
            house.gates_open()
            for life in house.lives:
                life.kill()
            last = house.life(gates=False)
            await last.begin()
            await shop.sound()
            await everything_goes(shop)
            await _project_goes(shop)
            for life in house.lives:
                life.no_traceback()
        finally:
            for life in house.lives:
                life.kill()


async def _project_goes(shop: Shop) -> None:
    for raw in await shop.ipam.list(resources.IP_POOLS, shop.project):
        try:
            await shop.ipam.delete(resources.IP_POOLS, shop.project, raw["metadata"]["name"])
        except NotFound:
            continue

    async def empty() -> bool:
        for kind in (resources.IP_POOLS, resources.IP_ALLOCATIONS, resources.IP_CLAIMS):
            left = [raw["metadata"]["name"] for raw in await shop.ipam.list(kind, shop.project)]
            assert not left, (kind.kind, left)
        return True

    await until(empty, timeout=90, what=f"nothing left in project {shop.project}", interval=0.3)
    await shop.ipam.delete(resources.NAMESPACES, None, shop.project)
