"""The journal: what was promised survives, whatever happens to the process or to the file."""

import asyncio
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from node_agent.__main__ import open_journal
from node_agent.journal import CONFIG, IndexesExhaustedError, Journal, JournalDamagedError
from node_agent.rows import State, Withdrawal
from tests.unit.agent.objects import a_row


async def test_a_row_comes_back_as_it_was_written_after_a_restart(tmp_path: Path) -> None:
    """T03: the next life of the agent reads exactly what the last one recorded."""
    row = a_row(state=State.ADDING, netns_inode=4026532, result=None)
    journal = await Journal.open(tmp_path / "journal.db")
    await journal.begin(row)
    added = replace(row, state=State.ADDED, record=row.record.with_ifindex(9), result={"ips": []})
    await journal.change(added)
    await journal.close()
    journal = await Journal.open(tmp_path / "journal.db")
    assert await journal.rows() == [added]
    assert await journal.get(("sandbox-1", "eth0")) == added
    assert await journal.of_device("G00000000A013H") == [added]
    assert await journal.of_vpc(36) == [added]
    assert await journal.get(("sandbox-1", "net1")) is None
    await journal.close()


async def test_the_end_of_a_row_and_what_is_owed_for_it_are_one_step(tmp_path: Path) -> None:
    """node-agent.md, Reports: after a DEL with the API away, what must be taken back is still known."""
    journal = await Journal.open(tmp_path / "journal.db")
    row = a_row()
    await journal.begin(row)
    await journal.end(row, row.withdrawal)
    await journal.close()
    journal = await Journal.open(tmp_path / "journal.db")
    owed = Withdrawal("sandbox-1", ("shop", "web-0-eth0"), "uid-1", 36, 65)
    assert (await journal.rows(), await journal.withdrawals()) == ([], [owed])
    assert (owed.device, owed.advertisement) == ("G00000000A013H", "24-41")
    await journal.settle(owed)
    assert await journal.withdrawals() == []
    await journal.close()


async def test_a_vpc_keeps_its_index_until_it_is_forgotten(tmp_path: Path) -> None:
    """node-agent.md, Kernel state: table ids are remembered in the journal."""
    journal = await Journal.open(tmp_path / "journal.db")
    assert [await journal.vpc_index(vpc) for vpc in (36, 62, 36)] == [1, 2, 1]
    await journal.close()
    journal = await Journal.open(tmp_path / "journal.db")
    await journal.forget_vpc(36)
    assert [await journal.vpc_index(vpc) for vpc in (62, 200)] == [2, 1]
    assert await journal.vpcs() == {62: 2, 200: 1}
    await journal.close()


async def test_many_writers_share_commits_and_one_failure_hurts_only_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T11: a burst of calls is one group of commits; a call that cannot be recorded fails alone."""
    monkeypatch.setattr("node_agent.journal.LAST_INDEX", 3)
    journal = await Journal.open(tmp_path / "journal.db")
    outcomes = await asyncio.gather(
        *(journal.vpc_index(vpc) for vpc in range(1, 6)),
        journal.begin(replace(a_row("unwritable"), request={"pod": object()})),
        *(journal.begin(a_row(f"sandbox-{number}")) for number in range(50)),
        return_exceptions=True,
    )
    assert sorted(o for o in outcomes[:5] if isinstance(o, int)) == [1, 2, 3]
    assert sum(isinstance(o, IndexesExhaustedError) for o in outcomes[:5]) == 2
    assert isinstance(outcomes[5], TypeError)
    assert len(await journal.rows()) == 50
    await journal.close()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(b"this is no database", id="not a database"),
        pytest.param(b"SQLite format 3\x00" + b"\xff" * 4096, id="broken header"),
    ],
)
async def test_a_damaged_journal_is_set_aside_and_a_new_one_begun(tmp_path: Path, damage: bytes) -> None:
    """node-agent.md, Journal: a damaged file is moved aside and said; never a crash loop."""
    path = tmp_path / "journal.db"
    path.write_bytes(damage)
    with pytest.raises(JournalDamagedError, match=r"journal\.db"):
        await Journal.open(path)
    journal = await open_journal(path, "node-1")
    assert await journal.rows() == []
    await journal.close()
    (aside,) = tmp_path.glob("journal.db.damaged-*")  # noqa: ASYNC240 - a file of a few bytes
    assert aside.read_bytes() == damage


async def test_a_journal_of_another_node_is_set_aside(tmp_path: Path) -> None:
    """T08, calico PR 13538: a renamed machine, or one made from another's image, does not speak for that one's Pods."""
    path = tmp_path / "journal.db"
    journal = await open_journal(path, "node-1")
    await journal.remember(CONFIG, '{"node": "node-1"}')
    await journal.vpc_index(36)
    await journal.close()
    journal = await open_journal(path, "node-1")
    assert (journal.fresh, await journal.vpcs()) == (False, {36: 1})
    await journal.close()
    journal = await open_journal(path, "node-2")
    assert (journal.fresh, await journal.vpcs()) == (True, {})
    await journal.close()


async def test_a_journal_of_another_layout_is_not_misread(tmp_path: Path) -> None:
    """T29: a downgraded agent does not take a newer file for its own."""
    path = tmp_path / "journal.db"
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(JournalDamagedError, match="layout is 99"):
        await Journal.open(path)
