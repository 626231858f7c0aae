"""One `nso` process under the local cluster's supervision."""

import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.cluster import Cluster
from dev.processes import free_ports
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[3]


class Program:
    """Started, waited for, killed, started again, ended."""

    def __init__(self, cluster: Cluster, name: str, flags: tuple[str, ...]) -> None:
        self._cluster = cluster
        self.name = name
        (port,) = free_ports(1)
        self._health = f"127.0.0.1:{port}"
        self._argv = (sys.executable, "-m", "nso", *flags, f"--metrics-address={self._health}")

    async def start(self) -> None:
        self._cluster.start(self.name, self._argv, cwd=ROOT)
        await self.ready()

    async def ready(self) -> None:
        def look() -> bool:
            self._cluster.check(self.name)
            try:
                with urllib.request.urlopen(f"http://{self._health}/readyz", timeout=2) as reply:
                    return bool(reply.status == 200)
            except (urllib.error.URLError, OSError) as error:
                raise AssertionError(f"{error}\n{self.log()[-2000:]}") from error

        await until(look, timeout=60, what=f"{self.name} ready", interval=0.2)

    def kill(self) -> None:
        """SIGKILL; it stays down until `again`."""
        self._cluster.kill(self.name)

    def pause(self) -> None:
        """It stands still until `resume`; what happens meanwhile it learns all at once."""
        self._cluster.signal(self.name, signal.SIGSTOP)

    def resume(self) -> None:
        self._cluster.signal(self.name, signal.SIGCONT)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still for the body of a `with`: what is damaged by hand stays damaged while one looks."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    async def again(self) -> None:
        self._cluster.restart(self.name)
        await self.ready()

    def end(self) -> None:
        self._cluster.stop(self.name)

    def metrics(self) -> str:
        with urllib.request.urlopen(f"http://{self._health}/metrics", timeout=5) as reply:
            text: str = reply.read().decode()
            return text

    def log(self) -> str:
        return self._cluster.log_tail(self.name, 100_000)
