"""B3 to Prepared: dual-stack claims at once until a Pod could be attached, against the same writes of a bare client."""

from pathlib import Path
from tempfile import TemporaryDirectory

from bench.bare import PREPARED
from bench.claims_burst import measure
from bench.report import Report
from bench.site import site
from netclaim.api import networking
from tests.api.vpc.programs import controller


async def run(*, short: bool) -> Report:
    """1,000 claims (short: 100) through NSO, IPAM and the VPC controller."""

    async def end() -> None:
        here.nso.end()
        here.ipam.end()
        await program.stop()
        if program.tracebacks:
            raise RuntimeError(f"errors in the log: {program.tracebacks[:3]}")

    with TemporaryDirectory() as folder:
        async with site() as here, controller(here.plane, Path(folder, "log"), "--leader-elect", "false") as program:
            await program.says("working:", timeout=60.0)
            return await measure(here, 100 if short else 1000, networking.PREPARED, PREPARED, end)
