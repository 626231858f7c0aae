"""docs/reference/ is what the code generates, and the troubleshooting page knows every reason and no other."""

import re
from pathlib import Path

import pytest

from dev.reference import __main__ as reference
from dev.reference.modules import constants, modules
from dev.reference.observed import MARKS
from dev.reference.programs import PROGRAMS
from dev.reference.reasons import CHECKS, PARTS, findings, reasons

DOCS = Path(__file__).resolve().parents[3] / "docs"
FINDINGS = "Findings of `netclaimctl ipam check`"


@pytest.fixture(scope="module")
def generated() -> dict[str, str]:
    return reference.pages()


def test_the_committed_reference_is_what_the_code_generates(generated: dict[str, str]) -> None:
    """Run `make reference` when this fails."""
    committed = {path.name: path.read_text() for path in (DOCS / "reference").iterdir()}
    assert committed == generated


def test_writing_twice_changes_nothing_and_removes_what_is_no_page(
    tmp_path: Path, generated: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "pages", lambda: generated)
    (tmp_path / "old.md").write_text("gone")
    assert len(reference.write(tmp_path)) == len(generated) + 1
    assert not (tmp_path / "old.md").exists()
    assert reference.write(tmp_path) == []


def explained(section: str) -> list[str]:
    """The reasons in the first column of the page's section."""
    text = (DOCS / "troubleshooting.md").read_text()
    (body,) = re.findall(rf"^## {re.escape(section)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    rows = [line for line in body.splitlines() if line.startswith("| `")]
    assert all(len(re.split(r"(?<!\\)\|", row)) == 5 for row in rows), f"a row of {section} has not three cells"
    return [word for row in rows for word in re.findall(r"`(\w+)`", row.split("|")[1])]


@pytest.mark.parametrize("part", dict.fromkeys(PARTS.values()))
def test_every_reason_is_explained_once_and_no_other(part: str) -> None:
    """Each refusal has one reason constant, used by code, docs and tests alike."""
    listed = explained(part)
    assert sorted(listed) == sorted({each.name for each in reasons() if each.part == part})


def test_every_finding_of_the_checker_is_explained_once_and_no_other() -> None:
    assert sorted(explained(FINDINGS)) == sorted(findings())
    assert {module.__name__ for module in modules()} >= set(CHECKS)


def test_reasons_that_are_built_from_others_are_found() -> None:
    """The scan is worth something: each way in which a reason is defined is among what it finds."""
    found = {(each.part, each.name) for each in reasons()}
    assert (PARTS["nso.claims"], "NotProgrammed") in found
    assert (PARTS["nso.ipam"], "PoolExhausted") in found
    assert (PARTS["webhook"], "HostNetwork") in found
    assert (PARTS["vpc_controller"], "NodeFactsCleared") in found
    assert (PARTS["node_agent"], "OtherContainer") in found


def test_every_flag_has_a_description() -> None:
    for program, _, settings in PROGRAMS:
        for name, info in settings.model_fields.items():
            assert info.description, f"{program} --{name}"


def test_every_label_annotation_and_finalizer_says_what_it_is_for() -> None:
    endings = tuple(ending for ending, _ in MARKS)
    silent = [
        each.name
        for module in modules()
        if module.__name__.startswith("netclaim.api.")
        for each in constants(module)
        if each.name.endswith(endings) and not each.told
    ]
    assert silent == []
