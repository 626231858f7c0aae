"""A namespace in which the real `nso --controllers=compute` works, and a test acts as everybody else.

Everybody else is: nso's claims controllers and the VPC controller, who write the claims' status under their own field
managers, and the kubelet, who writes the Pods'.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from netclaim.api import managers
from netclaim.api import resources as r
from netclaim.api.conditions import is_true, message_of, reason_of, status_of
from netclaim.api.resources import Resource
from netclaim.kube.client import Client
from netclaim.kube.errors import Conflict, NotFound
from tests.control_plane import ControlPlane
from tests.waiting import until

Raw = dict[str, Any]
ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0
"""Seconds that any wait may take on a machine that is busy with other things."""

HOLD = "tests.netclaim.dev/hold"
"""A finalizer that stands for whoever keeps an object from going: NSO a claim, a kubelet a Pod."""


class Program:
    """`nso` as its users start it."""

    def __init__(self, kubeconfig: Path, log: Path, *flags: str) -> None:
        self.log = log
        self._argv = [
            *(sys.executable, "-m", "nso", "--controllers=compute", "--location=us-central-1"),
            *(f"--kubeconfig={kubeconfig}", "--leader-elect=false", *flags),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """Run it, and wait until it works."""
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(self._argv, cwd=ROOT, stdout=out, stderr=out)  # noqa: ASYNC220
        try:
            await until(
                lambda: "working: workloads, instances" in self.log.read_text()[begin:],
                timeout=PATIENCE,
                what=f"nso works (see {self.log})",
            )
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it as an operator would."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=30)
            self._process = None

    def traceback(self) -> str:
        """What the log says from its first traceback on; empty when there is none."""
        _, found, rest = self.log.read_text().partition("Traceback")
        return found + rest[:2000]


@dataclass
class World:
    """One namespace of the cell."""

    cell: Client
    plane: ControlPlane
    namespace: str

    # -- what the user does ----------------------------------------------------------------------------------------

    async def workload(
        self, name: str = "web", *, replicas: int = 1, templates: tuple[str, ...] = ("eth0",), **spec: Any
    ) -> Raw:
        return await self.cell.create(
            r.WORKLOADS,
            {
                "metadata": {"name": name, "namespace": self.namespace},
                "spec": {
                    "replicas": replicas,
                    "template": pod_template(),
                    "networkInterfaceClaimTemplates": [claim_template(one) for one in templates],
                    **spec,
                },
            },
        )

    async def change(self, name: str = "web", **spec: Any) -> Raw:
        """Change fields of a Workload's spec; None removes one."""

        async def once() -> Raw | None:
            raw = await self.cell.get(r.WORKLOADS, self.namespace, name)
            merged = {**raw["spec"], **spec}
            raw["spec"] = {field: value for field, value in merged.items() if value is not None}
            with contextlib.suppress(Conflict):
                return await self.cell.replace(r.WORKLOADS, raw)
            return None

        return await until(once, timeout=PATIENCE, what=f"workload {name} changed")

    async def delete(self, resource: Resource, name: str, *, propagation: str | None = None) -> None:
        await self.cell.delete(resource, self.namespace, name, propagation=propagation)

    # -- what is there ---------------------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str) -> Raw | None:
        return await self.cell.find(resource, self.namespace, name)

    async def get_cluster_scoped(self, resource: Resource, name: str) -> Raw | None:
        return await self.cell.find(resource, None, name)

    async def all(self, resource: Resource) -> dict[str, Raw]:
        listed = await self.cell.list(resource, self.namespace)
        return {raw["metadata"]["name"]: raw for raw in listed}

    async def versions(self, *resources: Resource) -> dict[str, str]:
        """Every object's resourceVersion, once nothing has changed for a second."""
        state: tuple[dict[str, str], float] = ({}, time.monotonic())

        async def settled() -> dict[str, str] | None:
            nonlocal state
            found = {
                f"{resource.kind} {name}": raw["metadata"]["resourceVersion"]
                for resource in resources
                for name, raw in (await self.all(resource)).items()
            }
            if found != state[0]:
                state = (found, time.monotonic())
            return found if time.monotonic() - state[1] > 1.0 else None

        return await until(settled, timeout=PATIENCE, what="nothing changes any more")

    async def uids(self, resource: Resource) -> dict[str, str]:
        return {name: raw["metadata"]["uid"] for name, raw in (await self.all(resource)).items()}

    async def there(self, resource: Resource, *names: str, timeout: float = PATIENCE) -> dict[str, Raw]:
        """Wait until exactly these objects are there."""

        async def seen() -> dict[str, Raw]:
            found = await self.all(resource)
            assert set(found) == set(names), sorted(found)
            return found or {"": {}}

        return await until(seen, timeout=timeout, what=f"{resource.plural} are {sorted(names)}")

    async def anew(self, resource: Resource, name: str, old_uid: str, *, timeout: float = PATIENCE) -> Raw:
        """Wait until another object has the name."""

        async def seen() -> Raw | None:
            found = await self.get(resource, name)
            return found if found is not None and found["metadata"]["uid"] != old_uid else None

        return await until(seen, timeout=timeout, what=f"{resource.kind} {name} is another one than {old_uid}")

    async def says(
        self, resource: Resource, name: str, condition: str, status: str, reason: str = "", *, timeout: float = PATIENCE
    ) -> Raw:
        """Wait until a condition has this status, and this reason when one is given."""

        async def seen() -> Raw:
            raw = await self.get(resource, name)
            said = (status_of(raw, condition), reason_of(raw, condition))
            assert said == (status, reason or said[1]), f"{said}: {message_of(raw, condition)}"
            assert raw is not None
            return raw

        return await until(seen, timeout=timeout, what=f"{resource.kind} {name} says {condition}={status} {reason}")

    async def ready(self, *names: str, timeout: float = PATIENCE) -> dict[str, Raw]:
        return {name: await self.says(r.INSTANCES, name, "Ready", "True", timeout=timeout) for name in names}

    # -- what others do --------------------------------------------------------------------------------------------

    async def bind(self, name: str, number: int = 2, *, ready: tuple[str, str, str] | None = None) -> None:
        """As nso's claims controllers: addresses, Bound, Allocated, and Ready as far as the claim has come."""
        claim = await self.cell.get(r.CLAIMS, self.namespace, name)
        status, reason, message = ready or self._claim_ready(claim)
        await self._say(
            managers.NSO,
            name,
            {
                "project": "project-alpha",
                "networkInterfaceRef": {"name": name},
                "addresses": [
                    {"family": "IPv6", "address": f"fd20:1000:0:1:0:{number:x}::/96", "primary": True},
                    {"family": "IPv4", "address": f"10.128.0.{number}/32", "primary": False},
                ],
                "externalAddresses": [
                    {"family": "IPv4", "address": f"198.51.100.{number}", "class": "public-unicast-ipv4"}
                ],
                "conditions": [
                    {"type": "Bound", "status": "True", "reason": "Bound"},
                    {"type": "Allocated", "status": "True", "reason": "Allocated"},
                    {"type": "Ready", "status": status, "reason": reason, "message": message},
                ],
            },
        )

    async def refuse(self, name: str, reason: str, message: str) -> None:
        """As nso's claims controllers: the claim cannot bind."""
        conditions = [
            {"type": kind, "status": "False", "reason": reason, "message": message}
            for kind in ("Bound", "Allocated", "Ready")
        ]
        await self._say(managers.NSO, name, {"project": "project-alpha", "conditions": conditions})

    async def prepare(self, name: str, *, status: str = "True") -> None:
        """As the VPC controller."""
        said = {"type": "Prepared", "status": status, "reason": "Prepared", "lastTransitionTime": _now()}
        await self._say(managers.VPC_CONTROLLER, name, {"conditions": [said]})

    async def program(self, name: str, *, status: str = "True") -> None:
        """As the VPC controller, on the data plane's word."""
        said = {"type": "Programmed", "status": status, "reason": "Programmed" if status == "True" else "Detached"}
        await self._say(managers.VPC_CONTROLLER_PROGRAMMED, name, {"conditions": [said]})

    async def run_pod(self, name: str, *, ready: bool = True, phase: str = "Running", **status: Any) -> None:
        """As the kubelet."""
        pod = await self.cell.get(r.PODS, self.namespace, name)
        pod["status"] = {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            **status,
        }
        await self.cell.replace(r.PODS, pod, subresource="status")

    async def hold(self, resource: Resource, name: str) -> None:
        await self._finalizers(resource, name, [HOLD])

    async def let_go(self, resource: Resource, name: str) -> None:
        await self._finalizers(resource, name, [])

    @contextlib.asynccontextmanager
    async def others(self) -> AsyncIterator[None]:
        """Everybody else at work: claims get bound and prepared, Pods run, what runs is programmed."""
        task = asyncio.create_task(self._work())
        try:
            yield
            assert not task.done(), task.exception()
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # -- inside ----------------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            with contextlib.suppress(NotFound, Conflict):
                await self._pass()
            await asyncio.sleep(0.05)

    async def _pass(self) -> None:
        pods = await self.all(r.PODS)
        for number, (name, claim) in enumerate(sorted((await self.all(r.CLAIMS)).items()), start=2):
            if claim["metadata"].get("deletionTimestamp"):
                continue
            if not is_true(claim, "Bound"):
                await self.bind(name, number)
            if status_of(claim, "Prepared") is None:
                await self.prepare(name)
                await self.bind(name, number)
            pod = pods.get(claim["metadata"]["labels"].get("compute.datumapis.com/instance", ""))
            runs = pod is not None and not pod["metadata"].get("deletionTimestamp")
            if runs and not is_true(claim, "Ready"):
                await self.program(name)
                await self.bind(name, number, ready=("True", "Ready", ""))
        for name, pod in pods.items():
            if not pod["metadata"].get("deletionTimestamp") and pod["status"].get("phase") == "Pending":
                await self.run_pod(name)

    @staticmethod
    def _claim_ready(claim: Raw) -> tuple[str, str, str]:
        for kind in ("Prepared", "Programmed"):
            if not is_true(claim, kind):
                return ("False", f"Not{kind}", f"{kind} is not True yet")
        return ("True", "Ready", "")

    async def _say(self, manager: str, name: str, status: Raw) -> None:
        obj = {"metadata": {"namespace": self.namespace, "name": name}, "status": status}
        await self.cell.apply_status(r.CLAIMS, obj, manager=manager)

    async def _finalizers(self, resource: Resource, name: str, finalizers: list[str]) -> None:
        async def once() -> bool:
            raw = await self.cell.get(resource, self.namespace, name)
            raw["metadata"]["finalizers"] = finalizers
            with contextlib.suppress(Conflict):
                await self.cell.replace(resource, raw)
                return True
            return False

        await until(once, timeout=PATIENCE, what=f"finalizers of {resource.kind} {name} are {finalizers}")


def pod_template(image: str = "node.local/busybox:1", **spec: Any) -> Raw:
    return {
        "metadata": {"labels": {"app": "web"}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            # No scheduler looks at these Pods: the test is the node.
            "schedulerName": "tests",
            "containers": [{"name": "web", "image": image}],
            **spec,
        },
    }


def claim_template(name: str = "eth0", **spec: Any) -> Raw:
    return {
        "metadata": {"name": name},
        "spec": {"network": {"name": "default"}, "interfaceName": name, "ipFamilies": ["IPv6", "IPv4"], **spec},
    }


def _now() -> str:
    from datetime import UTC, datetime

    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
