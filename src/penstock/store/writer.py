"""The one thread that writes: it connects, takes what is queued, commits it, and never gives up.

Whatever the database does (absent, locked, full, stopped, deleted under our feet), the thread
closes its connection, waits a little longer each time, connects again and writes the same batch
again. What was committed is acknowledged, and only that. A batch that one record spoils is written
entry by entry, and the spoiled ones are dropped and counted.

A deleted SQLite file can still be written to, to no avail. So a commit counts only if the file is
still the one that was opened.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, Table, func
from sqlalchemy.exc import SQLAlchemyError

from penstock.store.compression import bodies_of
from penstock.store.engine import identify, insert_into
from penstock.store.errors import Describer, StoreError, is_fault_of_record
from penstock.store.maintenance import BEAT, DEAD, Worker, make_room, mark_interrupted, shrink
from penstock.store.migrate import prepare
from penstock.store.records import RequestEnded, RequestStarted, ResponseRow, Retention, SessionRow
from penstock.store.sanitize import Fields, clean_key
from penstock.store.tables import BODIES, REQUESTS, RESPONSES, SESSIONS
from penstock.store.write_queue import OVERHEAD, Backlog, QueuedWrite, Record

# Records become rows: the statements of one batch, in one transaction.
#
# Every statement may be run twice without harm, since a batch whose commit got lost on the way
# is written again. An end whose start was dropped still makes a row.


_STARTED: Final = Fields(
    REQUESTS.c[name] for name in RequestStarted.__struct_fields__ if name in REQUESTS.c
)
_ENDED: Final = Fields(
    REQUESTS.c[name] for name in RequestEnded.__struct_fields__ if name in REQUESTS.c
)
_SESSION: Final = Fields(SESSIONS.c)
_RESPONSE: Final = Fields(RESPONSES.c)

Rows = list[dict[str, Any]]


def write(connection: Connection, records: Iterable[Record], worker: str) -> None:
    """Write *records* in the transaction that is open; *worker* serves those that name none."""
    starts: list[RequestStarted] = []
    ends: list[RequestEnded] = []
    sessions: list[SessionRow] = []
    responses: list[ResponseRow] = []
    for record in records:
        match record:
            case RequestStarted():
                starts.append(record)
            case RequestEnded():
                ends.append(record)
            case SessionRow():
                sessions.append(record)
            case ResponseRow():
                responses.append(record)
    bodies: Rows = []
    _write_starts(connection, starts, worker, bodies)
    _write_ends(connection, ends, bodies)
    _upsert(connection, BODIES, bodies)
    # In the order of their keys: two processes that write the same ones do not block each other.
    _upsert(connection, SESSIONS, _sorted(map(_SESSION.of, sessions)), keep=("created",))
    _upsert(connection, RESPONSES, _sorted(map(_RESPONSE.of, responses)))


def _write_starts(
    connection: Connection, starts: Sequence[RequestStarted], worker: str, bodies: Rows
) -> None:
    rows = []
    for record in starts:
        row = _STARTED.of(record)
        row["worker"] = row["worker"] or worker
        row["size"] = OVERHEAD + _add_bodies(record, bodies)
        rows.append(row)
    if rows:
        connection.execute(insert_into(connection, REQUESTS).on_conflict_do_nothing(), rows)


def _write_ends(connection: Connection, ends: Sequence[RequestEnded], bodies: Rows) -> None:
    if not ends:
        return
    now = time.time()
    rows = []
    for record in ends:
        row = _ENDED.of(record)
        row["size"] = _add_bodies(record, bodies) + len(record.text)
        row["created"] = now - row["duration"]  # of a request whose start is not there
        rows.append(row)
    insert = insert_into(connection, REQUESTS)
    new = insert.excluded
    changes: dict[str, Any] = {name: new[name] for name in _ENDED.names if name != "id"}
    changes["session"] = func.coalesce(func.nullif(new.session, ""), REQUESTS.c.session)
    changes["size"] = REQUESTS.c.size + new.size
    connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changes), rows)


def _add_bodies(record: RequestStarted | RequestEnded, bodies: Rows) -> int:
    """Add the bodies of *record* to *bodies*; return their size."""
    size = 0
    for kind, coding, data in bodies_of(record):
        request = clean_key(record.id)
        bodies.append({"request": request, "kind": kind, "coding": coding, "data": data})
        size += len(data)
    return size


def _upsert(connection: Connection, table: Table, rows: Rows, keep: Sequence[str] = ()) -> None:
    """Insert *rows*, or overwrite those with the same key but for the columns to *keep*."""
    if not rows:
        return
    insert = insert_into(connection, table)
    keys = [column.name for column in table.primary_key]
    names = (column.name for column in table.c)
    changes = {name: insert.excluded[name] for name in names if name not in (*keys, *keep)}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=changes), rows)


def _sorted(rows: Iterable[dict[str, Any]]) -> Rows:
    return sorted(rows, key=lambda row: (row["scope"], row["id"]))


FIRST_WAIT: Final = 0.05
"""How many seconds the writer waits after a first failure; each further one doubles it."""

LONGEST_WAIT: Final = 5.0
"""How many seconds the writer waits at most: so much later than the database it is back."""

ROOM: Final = 60.0
"""How many seconds lie between two looks at what retention says."""

_log = logging.getLogger("penstock.store")


class Clock:
    """When the chores are due, in monotonic seconds."""

    def __init__(self) -> None:
        now = time.monotonic()
        self.beat = self.look = self.room = now

    @property
    def seconds(self) -> float:
        """How long nothing is due."""
        return max(0.0, min(self.beat, self.look, self.room) - time.monotonic())


class StoreWriter:
    """Writes what comes into *backlog* to the database of *engine*."""

    def __init__(
        self,
        engine: Engine,
        backlog: Backlog,
        worker: Worker,
        *,
        describe: Describer,
        file: Path | None,
        retention: Retention | None,
        create: bool,
    ) -> None:
        self.written = 0
        self.spoiled = 0  # records that were dropped here
        self.is_up = False
        self.last_error = ""
        self.last_commit = 0.0
        self.ended = threading.Event()
        self._engine = engine
        self._backlog = backlog
        self._worker = worker
        self._describe = describe
        self._file = file
        self._retention = retention
        self._create = create
        self._connection: Connection | None = None
        self._identity: tuple[int, int] | None = None  # of the file that was opened
        self._batch: list[QueuedWrite] = []
        self._clock = Clock()
        self._wait = FIRST_WAIT
        self._deadline = float("inf")
        self._is_new = True

    def start(self) -> None:
        """Begin; a process that ends does not wait for the thread."""
        threading.Thread(target=self._run, name="penstock: store writer", daemon=True).start()

    def close(self, seconds: float) -> None:
        """Write what is queued, for *seconds* at most, and end; `ended` tells when."""
        self._deadline = time.monotonic() + seconds
        self._backlog.close()

    # --- the thread ---

    def _run(self) -> None:
        try:
            while not self._is_over():
                try:
                    self._work()
                except Exception as exc:  # noqa: BLE001 - whatever it is, the thread lives on
                    self._fail(exc)
            self._leave()
        finally:
            self._give_up()
            self._disconnect()
            self.ended.set()

    def _is_over(self) -> bool:
        if not self._backlog.is_closed:
            return False
        return not self._backlog.rows or time.monotonic() > self._deadline

    def _work(self) -> None:
        """Do what is due, then write one batch."""
        connection = self._connection or self._connect()
        self._do_chores(connection)
        if not self._batch:  # else what counts is whether that batch can be written by now
            self._succeed()
            self._batch = self._backlog.take(self._clock.seconds)
        if self._batch:
            self._write_batch(connection)

    def _connect(self) -> Connection:
        connection = self._connection = self._engine.connect()
        prepare(connection, create=self._create)
        self._identity = self._find_identity()
        with connection.begin():
            self._worker.beat(connection)
            if self._is_new:
                self._worker.bury_neighbours(connection)
                mark_interrupted(connection)
        self._is_new = False
        # After an outage the others need time to say that they live.
        self._clock.look = time.monotonic() + DEAD
        return connection

    def _do_chores(self, connection: Connection) -> None:
        """Do what is due; a chore that fails waits for its next time, lest it hold up the rest."""
        now = time.monotonic()
        clock = self._clock
        if now >= clock.beat:
            clock.beat = now + BEAT
            with connection.begin():
                self._worker.beat(connection)
            self._check_file()
        if now >= clock.look:
            clock.look = now + DEAD
            with connection.begin():
                mark_interrupted(connection)
        if now >= clock.room:
            clock.room = now + ROOM
            with connection.begin():
                is_more = make_room(connection, self._retention)
            if shrink(connection) or is_more:
                clock.room = now

    def _write_batch(self, connection: Connection) -> None:
        try:
            self._commit(connection, self._batch)
        except Exception as exc:
            if not is_fault_of_record(exc):
                raise
            self._write_singly(connection)
        self._succeed()

    def _write_singly(self, connection: Connection) -> None:
        while self._batch:
            try:
                self._commit(connection, self._batch[:1])
            except Exception as exc:
                if not is_fault_of_record(exc):
                    raise
                self._drop(self._batch.pop(0))
                _log.warning("a record was dropped: %s", self._describe(exc))

    def _commit(self, connection: Connection, entries: list[QueuedWrite]) -> None:
        """Write *entries*, which begin the batch, in one transaction, and acknowledge them."""
        with connection.begin():
            records = [record for entry in entries for record in entry.records]
            write(connection, records, self._worker.id)
        self._check_file()
        self._succeed()  # first: who sees the count sees that the store is up
        self.written += len(records)
        self.last_commit = time.time()
        for entry in entries:
            self._backlog.settle(entry, is_written=True)
        self._batch = self._batch[len(entries) :]

    def _find_identity(self) -> tuple[int, int] | None:
        return None if self._file is None else identify(self._file)

    def _check_file(self) -> None:
        if self._find_identity() != self._identity:
            raise StoreError("the database file was replaced")

    # --- better and worse ---

    def _succeed(self) -> None:
        self._wait = FIRST_WAIT
        if not self.is_up:
            self.is_up = True
            if self.last_error:
                _log.warning("the store writes again")

    def _fail(self, exc: Exception) -> None:
        self.last_error = self._describe(exc)
        if self.is_up or self._wait == FIRST_WAIT:
            _log.warning("the store cannot write: %s", self.last_error)
        self.is_up = False
        self._disconnect()
        seconds = self._wait
        self._wait = min(LONGEST_WAIT, 2 * seconds)
        if self._backlog.is_closed:
            time.sleep(max(0.0, min(seconds, self._deadline - time.monotonic())))
        else:
            self._backlog.pause(seconds)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.invalidate()
            connection.close()
        except SQLAlchemyError as exc:
            _log.debug("closing failed: %s", self._describe(exc))

    def _leave(self) -> None:
        if self._connection is None:
            return
        try:
            with self._connection.begin():
                self._worker.leave(self._connection)
        except SQLAlchemyError as exc:
            self.last_error = self._describe(exc)

    def _give_up(self) -> None:
        """Drop what could not be written before the end."""
        while batch := self._batch or self._backlog.take(0):
            for entry in batch:
                self._drop(entry)
            self._batch = []

    def _drop(self, entry: QueuedWrite) -> None:
        self.spoiled += len(entry.records)
        self._backlog.settle(entry, is_written=False)
