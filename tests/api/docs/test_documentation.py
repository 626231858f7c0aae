"""Every sample manifest is accepted by a real API server, and every command that needs no node is run.

Commands that need nodes are run by tests/e2e/test_documentation.py; that each block says where it is run is the
business of tests/unit/docs. ("Fast ranges do not work out of the box", reported elsewhere, was a sample that nobody had
applied.)
"""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dev import builds
from dev.progress import PlainDisplay
from netclaim.api.resources import IPAM
from tests.control_plane import ControlPlane
from tests.documentation import PAGES, ROOT, Block, Reader, blocks, console_blocks

SAMPLES = [block for page in PAGES for block in blocks(page) if block.kind == "yaml"]
EXAMPLES = {path.name: path.read_text() for path in sorted((ROOT / "examples").glob("*.yaml"))}
FOLLOWED = [page for page in PAGES if console_blocks(page, "")]
HOME = {"cell": "shop", "ipam": "project-alpha"}
"""Where a sample without a namespace goes."""


def refused(control_plane: ControlPlane, plane: str, text: str) -> str:
    """Why the API server does not take the documents, with every field checked; empty when it does."""
    documents = [document for document in yaml.safe_load_all(text) if document]
    for document in documents:
        if document["kind"] != "Namespace":
            document["metadata"].setdefault("namespace", HOME[plane])
    kubectl = control_plane.kubectl if plane == "cell" else control_plane.ipam_kubectl
    try:
        kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", stdin=yaml.safe_dump_all(documents))
    except AssertionError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("sample", SAMPLES, ids=str)
async def test_every_sample_is_accepted_by_the_api_server_with_every_field(
    control_plane: ControlPlane, quickstart: None, sample: Block
) -> None:
    why = await asyncio.to_thread(refused, control_plane, sample.place, sample.text)
    assert not why, f"{sample}: {why}"


@pytest.mark.parametrize("example", EXAMPLES)
async def test_every_example_is_accepted_by_the_api_server_with_every_field(
    control_plane: ControlPlane, quickstart: None, example: str
) -> None:
    text = EXAMPLES[example]
    why = await asyncio.to_thread(refused, control_plane, "ipam" if IPAM in text else "cell", text)
    assert not why, f"{example}: {why}"


async def test_a_sample_with_an_unknown_field_is_refused(control_plane: ControlPlane, quickstart: None) -> None:
    """The check itself: a misspelt field is not silently dropped."""
    network = "apiVersion: networking.datumapis.com/v1alpha\nkind: Network\nmetadata: {name: x}\nspec: {mtuu: 1400}\n"
    assert 'unknown field "spec.mtuu"' in await asyncio.to_thread(refused, control_plane, "cell", network)


@pytest.mark.parametrize("page", FOLLOWED, ids=lambda page: page.name)
async def test_every_command_of_a_page_succeeds_in_the_order_of_the_page(
    reader: Reader, quickstart: None, page: Path
) -> None:
    log = await asyncio.to_thread(reader.follow, console_blocks(page, ""), timeout=300)
    print(log)


@pytest.mark.parametrize("page", [page for page in PAGES if console_blocks(page, "local")], ids=lambda page: page.name)
async def test_commands_of_a_checkout_work_on_its_local_cluster(reader: Reader, quickstart: None, page: Path) -> None:
    """All but `make`, which starts and ends clusters: that each of those is a target is shown by tests/unit/docs."""
    chosen = [without_make(block) for block in console_blocks(page, "local")]
    print(await asyncio.to_thread(reader.follow, chosen, timeout=60))


def without_make(block: Block) -> Block:
    """The block without its `make` commands."""
    kept = [command for command in block.commands if not command.startswith("make ")]
    return replace(block, text="".join(f"$ {command}\n" for command in kept))


async def test_every_command_about_charts_succeeds_on_the_api_servers(reader: Reader, quickstart: None) -> None:
    """R36: from the first install to the uninstallation. No node runs the Pods here; tests/helm shows them running."""
    binary = await asyncio.to_thread(lambda: builds.ensure([builds.helm()], PlainDisplay())["helm"])
    reader.install_helm(binary)
    chosen = [block for page in PAGES for block in console_blocks(page, "helm")]
    try:
        log = await asyncio.to_thread(reader.follow, chosen, timeout=400)
    finally:
        await asyncio.to_thread(reader.tidy_charts)
    print(log)
    assert 'release "node-agent" uninstalled' in log
