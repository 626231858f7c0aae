"""What this node has promised and has yet to undo: one SQLite file, touched from one thread of its own.

Calls that wait at the same moment share one transaction (group commit); each is on disk before it returns. A row is
written before the kernel is touched and again after, so that whatever was interrupted is found at the next start.
"""

from __future__ import annotations

import asyncio
import json
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from node_agent.datapath.model import LAST_INDEX, Record
from node_agent.rows import Row, RowKey, State, Withdrawal

Result = TypeVar("Result")
CONFIG: Final = "config"
"""Name of the fact that tells whose journal this is: NodeConfig and system namespace, as JSON."""
LAYOUT: Final = 1
"""Layout of the file (SQLite's user_version). A file of another layout is not read."""

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS rows (
  container TEXT NOT NULL, ifname TEXT NOT NULL, state TEXT NOT NULL CHECK (state IN ('adding', 'added', 'deleting')),
  request TEXT NOT NULL, attachment TEXT NOT NULL, uid TEXT NOT NULL, device TEXT NOT NULL, ifindex INTEGER NOT NULL,
  netns_inode INTEGER NOT NULL, vpc INTEGER NOT NULL, vpc_index INTEGER NOT NULL, record TEXT NOT NULL,
  result TEXT, at INTEGER NOT NULL,
  PRIMARY KEY (container, ifname)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS rows_by_device ON rows (device);
CREATE INDEX IF NOT EXISTS rows_by_vpc ON rows (vpc);
CREATE TABLE IF NOT EXISTS vpcs (identifier INTEGER PRIMARY KEY, vpc_index INTEGER NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS withdrawals (
  container TEXT NOT NULL, attachment TEXT NOT NULL, uid TEXT NOT NULL, vpc INTEGER NOT NULL, own INTEGER NOT NULL,
  PRIMARY KEY (container, attachment)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""


class JournalDamagedError(Exception):
    """The file cannot be read as a journal. ``path``: the file; ``why``: SQLite's words."""

    def __init__(self, path: Path, why: str) -> None:
        self.path = path
        self.why = why
        super().__init__(f"the journal {path} cannot be read: {why}")


class IndexesExhaustedError(Exception):
    """Every per-node VPC index is in use."""


class Journal:
    """The journal of one node. Every method waits until what it did is on disk."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, fresh: bool) -> None:
        self.path = path
        self.fresh = fresh
        """Whether this life began without one: what kernel and API hold of this node is of an earlier life."""
        self._connection = connection
        self._orders: queue.SimpleQueue[_Order | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="journal", daemon=True)

    @classmethod
    async def open(cls, path: Path) -> Self:
        """Open or create the file. Raises JournalDamagedError; the caller decides what becomes of a damaged file."""
        connection, fresh = await asyncio.to_thread(_connect, path)
        journal = cls(path, connection, fresh=fresh)
        journal._thread.start()
        return journal

    async def close(self) -> None:
        """Finish what was asked for and close the file."""
        self._orders.put(None)
        await asyncio.to_thread(self._thread.join)

    async def begin(self, row: Row) -> None:
        """Write the row before the kernel is touched (state adding); replaces a row of the same key.

        What is owed for an earlier try of the same container is no longer owed.
        """

        def order(db: sqlite3.Connection) -> None:
            _put(db, row)
            _settle(db, row.withdrawal)

        await self._do(order)

    async def change(self, row: Row) -> None:
        """Write the row anew; same key."""
        await self._do(lambda db: _put(db, row))

    async def end(self, row: Row, withdrawal: Withdrawal | None) -> None:
        """Forget the row, and remember in the same step what is still to be told."""

        def order(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM rows WHERE container = ? AND ifname = ?", row.key)
            if withdrawal is not None:
                _put_withdrawal(db, withdrawal)

        await self._do(order)

    async def get(self, key: RowKey) -> Row | None:
        """The row of a container's interface."""
        found = await self._do(lambda db: _rows(db, "container = ? AND ifname = ?", key))
        return found[0] if found else None

    async def rows(self) -> list[Row]:
        """Every row."""
        return await self._do(lambda db: _rows(db, "1", ()))

    async def of_device(self, device: str) -> list[Row]:
        """The rows that name this device: one, or two while one container follows another."""
        return await self._do(lambda db: _rows(db, "device = ?", (device,)))

    async def near(self, key: RowKey, device: str) -> list[Row]:
        """What an ADD has to look at: the row of its container's interface, and those that name this device."""
        return await self._do(lambda db: _rows(db, "device = ? OR (container = ? AND ifname = ?)", (device, *key)))

    async def of_vpc(self, vpc: int) -> list[Row]:
        """The rows of a VPC."""
        return await self._do(lambda db: _rows(db, "vpc = ?", (vpc,)))

    async def vpc_index(self, vpc: int) -> int:
        """The VPC's index on this node, drawn when it has none (the lowest free one). Raises IndexesExhaustedError."""
        return await self._do(lambda db: _vpc_index(db, vpc))

    async def vpcs(self) -> dict[int, int]:
        """Index by VPC identifier, of every VPC that has one on this node."""
        return await self._do(lambda db: dict(db.execute("SELECT identifier, vpc_index FROM vpcs").fetchall()))

    async def keep_vpc_index(self, vpc: int, index: int) -> None:
        """Remember the index that a VPC has in the kernel already. Nothing happens when either is known."""
        await self._do(lambda db: db.execute("INSERT OR IGNORE INTO vpcs VALUES (?, ?)", (vpc, index)))

    async def forget_vpc(self, vpc: int) -> None:
        """Give the VPC's index back. Only once nothing of it is left in the kernel."""
        await self._do(lambda db: db.execute("DELETE FROM vpcs WHERE identifier = ?", (vpc,)))

    async def owe(self, withdrawal: Withdrawal) -> None:
        """Remember a withdrawal that belongs to no row."""
        await self._do(lambda db: _put_withdrawal(db, withdrawal))

    async def withdrawals(self) -> list[Withdrawal]:
        """Everything that is still to be taken back at the API."""
        return await self._do(_withdrawals)

    async def settle(self, withdrawal: Withdrawal) -> None:
        """The withdrawal is done."""
        await self._do(lambda db: _settle(db, withdrawal))

    async def fact(self, name: str) -> str | None:
        """One remembered fact about this node: ``CONFIG``, or None when nothing was remembered."""
        found = await self._do(lambda db: db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone())
        return None if found is None else str(found[0])

    async def remember(self, name: str, value: str) -> None:
        """Remember a fact."""
        await self._do(lambda db: db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value)))

    async def _do(self, order: Callable[[sqlite3.Connection], Result]) -> Result:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Result] = loop.create_future()
        self._orders.put(_Order(order, loop, future))
        return await future

    def _work(self) -> None:
        with closing(self._connection) as db:
            while (first := self._orders.get()) is not None:
                batch, last = [first], False
                while not self._orders.empty():
                    order = self._orders.get()
                    if order is None:
                        last = True
                        break
                    batch.append(order)
                _commit(db, batch)
                if last:
                    return


@dataclass(frozen=True, slots=True)
class _Order:
    """One asked-for change and who waits for it."""

    run: Callable[[sqlite3.Connection], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]

    def answer(self, value: Any, error: Exception | None) -> None:
        """Hand the outcome to the waiting task, unless it is gone."""

        def deliver() -> None:
            if self.future.done():
                return
            if error is None:
                self.future.set_result(value)
            else:
                self.future.set_exception(error)

        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(deliver)


def _commit(db: sqlite3.Connection, batch: Collection[_Order]) -> None:
    """Run the orders in one transaction. One that fails is undone alone; a commit that fails fails all."""
    answers: list[tuple[_Order, Any, Exception | None]] = []
    try:
        db.execute("BEGIN IMMEDIATE")
        for order in batch:
            db.execute("SAVEPOINT one")
            try:
                answers.append((order, order.run(db), None))
            except Exception as error:  # noqa: BLE001 - whoever asked is told; the thread, and all others, go on
                db.execute("ROLLBACK TO one")
                answers.append((order, None, error))
            db.execute("RELEASE one")
        db.execute("COMMIT")
    except sqlite3.Error as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        answers = [(order, None, error) for order in batch]
    for order, value, failure in answers:
        order.answer(value, failure)


def _connect(path: Path) -> tuple[sqlite3.Connection, bool]:
    """The opened file, and whether it was made just now."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = not path.exists()
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        _open_layout(db)
        _rows(db, "1", ())
    except (sqlite3.DatabaseError, ValueError, KeyError) as error:
        db.close()
        raise JournalDamagedError(path, str(error)) from error
    return db, fresh


def _open_layout(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    found = db.execute("PRAGMA quick_check").fetchone()[0]
    if found != "ok":
        raise sqlite3.DatabaseError(found)
    layout = db.execute("PRAGMA user_version").fetchone()[0]
    if layout not in (0, LAYOUT):
        raise sqlite3.DatabaseError(f"its layout is {layout}, this agent reads {LAYOUT}")
    db.executescript(_TABLES)
    db.execute(f"PRAGMA user_version = {LAYOUT}")


def _put(db: sqlite3.Connection, row: Row) -> None:
    attachment = row.record.attachment
    db.execute(
        "INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row.container,
            row.ifname,
            row.state.value,
            json.dumps(row.request),
            json.dumps(row.attachment),
            row.uid,
            row.device,
            row.record.ifindex,
            row.netns_inode,
            row.vpc,
            attachment.vpc.index,
            json.dumps(row.record.as_json()),
            None if row.result is None else json.dumps(row.result),
            row.at or time.time_ns(),
        ),
    )


def _rows(db: sqlite3.Connection, where: str, values: tuple[Any, ...]) -> list[Row]:
    columns = "container, ifname, state, request, attachment, uid, netns_inode, record, result, at"
    found = db.execute(f"SELECT {columns} FROM rows WHERE {where} ORDER BY at", values)  # noqa: S608 - fixed texts only
    return [
        Row(
            container=container,
            ifname=ifname,
            state=State(state),
            request=json.loads(request),
            attachment=_pair(attachment),
            uid=uid,
            netns_inode=inode,
            record=Record.from_json(json.loads(record)),
            result=None if result is None else json.loads(result),
            at=at,
        )
        for container, ifname, state, request, attachment, uid, inode, record, result, at in found
    ]


def read_rows(db: sqlite3.Connection) -> list[Row]:
    """Every row of an opened journal file, for who looks at it from outside. Raises sqlite3.Error, ValueError."""
    return _rows(db, "1", ())


def _vpc_index(db: sqlite3.Connection, vpc: int) -> int:
    known = db.execute("SELECT vpc_index FROM vpcs WHERE identifier = ?", (vpc,)).fetchone()
    if known is not None:
        return int(known[0])
    taken = {index for (index,) in db.execute("SELECT vpc_index FROM vpcs")}
    free = next((index for index in range(1, LAST_INDEX + 1) if index not in taken), None)
    if free is None:
        raise IndexesExhaustedError(f"all {LAST_INDEX} VPC indexes of this node are in use")
    db.execute("INSERT INTO vpcs VALUES (?, ?)", (vpc, free))
    return free


def _put_withdrawal(db: sqlite3.Connection, owed: Withdrawal) -> None:
    db.execute(
        "INSERT OR REPLACE INTO withdrawals VALUES (?, ?, ?, ?, ?)",
        (owed.container, json.dumps(owed.attachment), owed.uid, owed.vpc, owed.own),
    )


def _settle(db: sqlite3.Connection, owed: Withdrawal) -> None:
    key = (owed.container, json.dumps(owed.attachment))
    db.execute("DELETE FROM withdrawals WHERE container = ? AND attachment = ?", key)


def _withdrawals(db: sqlite3.Connection) -> list[Withdrawal]:
    found = db.execute("SELECT container, attachment, uid, vpc, own FROM withdrawals")
    return [Withdrawal(container, _pair(attachment), uid, vpc, own) for container, attachment, uid, vpc, own in found]


def _pair(text: str) -> tuple[str, str]:
    namespace, name = json.loads(text)
    return str(namespace), str(name)
