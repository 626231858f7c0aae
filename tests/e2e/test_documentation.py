"""The documentation's commands that need nodes, in the order of its pages, as a reader types them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from netclaim.api.resources import NAMESPACES, PODS
from netclaim.kube.errors import NotFound
from tests.documentation import DOCS, PAGES, Reader, console_blocks
from tests.e2e.conftest import Tenant, empty
from tests.e2e.stack import Stack
from tests.waiting import until

FIRST = DOCS / "first-workload.md"
"""Its commands make what the others look at."""

PROJECTS = ("project-alpha", "project-beta")


@pytest.fixture
async def reader(stack: Stack, tmp_path: Path) -> AsyncIterator[Reader]:
    """What the pages make is deleted again: the workload, its retained interfaces, the network, the projects."""
    made = Reader(stack.cluster, tmp_path)
    made.prepare()

    async def no_bare_pod() -> bool:
        """A Pod that no controller would make again, left by another test, keeps a drain from its work."""
        bare = [
            pod["metadata"]["name"] for pod in await stack.cell.list(PODS) if "ownerReferences" not in pod["metadata"]
        ]
        assert not bare, bare
        return True

    await until(no_bare_pod, timeout=120, what="Pods of other tests gone", interval=0.5)
    yield made
    for node in stack.cluster.node_names:
        stack.kubectl("uncordon", node)
    await empty(stack, Tenant("project-alpha", "shop"))
    for client, name in ((stack.cell, "shop"), *((stack.ipam, project) for project in PROJECTS)):
        with contextlib.suppress(NotFound):
            await client.delete(NAMESPACES, None, name)


async def test_every_command_that_needs_nodes_succeeds_in_the_order_of_the_pages(reader: Reader, stack: Stack) -> None:
    """R4, R7, R8 as the first workload shows them: from a manifest to a ping, a replacement, a drained node."""
    pages = [FIRST, *(page for page in PAGES if page != FIRST)]
    chosen = [block for page in pages for block in console_blocks(page, "nodes")]
    assert chosen[0].page == FIRST
    log = await asyncio.to_thread(reader.follow, chosen, timeout=480)
    print(log)
    assert "2 packets transmitted, 2 packets received" in log
    instances = await stack.ready("shop", "web", 3)
    assert all(i["status"]["networkInterfaces"][0]["assignments"]["networkIP"] for i in instances.values())
    await stack.assert_published_is_held("shop", "project-alpha")
