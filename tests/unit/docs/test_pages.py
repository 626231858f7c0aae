"""The pages are written so that tests can read them: each block says where it is run, each link leads somewhere."""

import re
import subprocess
from pathlib import Path

import pytest

from dev.reference.markdown import HEADER
from tests.documentation import DOCS, PAGES, PLACES, ROOT, Block, blocks, script

NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_every_block_says_what_it_is_and_where_it_is_tried(page: Path) -> None:
    """Every command of the documentation is run by a test, every sample manifest applied: none is left out silently."""
    for block in blocks(page):
        match block.kind:
            case "console":
                assert block.place in PLACES, block
                assert block.commands, f"{block} has no line with '$ '"
            case "yaml":
                assert block.place in {"cell", "ipam"}, block
            case "text" | "mermaid":
                assert block.place == "", block
            case _:
                pytest.fail(f"{block}: what is {block.words}?")


def test_every_block_of_every_page_is_found() -> None:
    """A fence that the parser misses would be a command that no test runs."""
    for page in PAGES:
        fences = [line for line in page.read_text().splitlines() if line.lstrip().startswith("```")]
        assert len(fences) == 2 * len(blocks(page)), page


def anchors(page: Path) -> set[str]:
    """Anchors of the page's headings, as GitHub makes them."""
    text = _FENCED.sub("", page.read_text())
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, *sorted((DOCS / "reference").glob("*.md"))], ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for match in _LINK.finditer(_FENCED.sub("", page.read_text())):
        target, _, anchor = match["target"].partition("#")
        if target.startswith(("http://", "https://")):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name}: {match['target']}"
        assert not anchor or anchor in anchors(file), f"{page.name}: no heading for {match['target']}"


def local_commands() -> list[str]:
    return [
        command
        for page in PAGES
        for block in blocks(page)
        if block.kind == "console" and block.place == "local"
        for command in block.commands
    ]


def test_commands_of_a_checkout_are_targets_of_the_makefile_or_name_what_is_there() -> None:
    """`make demo` and `make down` are run as they stand by tests/e2e/dev and by hand; here each is a real target."""
    written = (ROOT / "dev" / "environment.py").read_text()
    for command in local_commands():
        words = command.split("#")[0].split()
        if words[0] == "make":
            done = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{command}: {done.stderr}"
            continue
        variables = {
            name
            for name in re.findall(r"\$(\w+)", command)
            if name not in {"PATH", "CELL_KUBECONFIG", "IPAM_KUBECONFIG"}
        }
        assert all(f'"{name}"' in written for name in variables), f"{command}: does .run/env have {variables}?"
        assert words[0] in {"source", "export", "$KUBECTL", ".venv/bin/python"}, command


def test_commands_are_joined_by_backslash_and_output_is_left_out() -> None:
    block = Block(ROOT / "README.md", 1, ("console", "nodes", "dry"), "$ one \\\n  two\noutput\n$ three\n")
    assert block.commands == ["one \\\n  two", "three"]
    assert (block.place, block.is_dry) == ("nodes", True)


def test_a_command_that_fails_ends_the_script_and_is_named() -> None:
    """The runner's own check: without it a page that is wrong would pass."""
    block = Block(ROOT / "README.md", 7, ("console",), "$ true\n$ false\n$ echo never\n")
    done = subprocess.run(["/bin/bash", "-c", script([block])], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "failed with 1: false" in done.stderr
    assert "README.md:7: $ false" in done.stdout
    assert "never" not in done.stdout.replace("$ echo never", "")


def test_generated_pages_say_that_they_are() -> None:
    for page in (DOCS / "reference").glob("*.md"):
        assert page.read_text().startswith(HEADER), page
