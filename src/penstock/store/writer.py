"""`StoreWriter`, the thread that writes records and retries until it is closed, and its queue.

Whatever happens to the database (missing, locked, full, stopped, deleted while in use), the thread
closes its connection, waits a little longer each time, connects again and repeats the batch. Only
committed records are acknowledged. If a record makes a batch fail, the batch is written entry by
entry, and the entries that fail are dropped and counted.

A deleted SQLite file can still be written to, without effect. So a commit counts only if the file
is still the one that was opened.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Connection, Engine, Table, func, select
from sqlalchemy.exc import SQLAlchemyError

from penstock.store.engine import (
    Describer,
    StoreError,
    discard,
    identify,
    insert_into,
    is_fault_of_record,
)
from penstock.store.maintenance import (
    HEARTBEAT_SECONDS,
    WORKER_DEAD_SECONDS,
    Worker,
    delete_step,
    mark_interrupted,
    shrink,
)
from penstock.store.migrations import prepare
from penstock.store.records import RequestEnded, RequestStarted, ResponseRow, Retention, SessionRow
from penstock.store.tables import (
    BODIES,
    REQUESTS,
    RESPONSES,
    SEARCH,
    SESSIONS,
    Fields,
    clean_key,
    encode_bodies,
    split_words,
)

# --- the queue ---

# `push` runs on the event loop, so it never waits for the writer: callers share a lock only among
# themselves, the two deques need none, and the writer is woken by releasing a bare lock. Records
# that the writer has taken count as queued until they are written or dropped, so that the limits
# hold for everything in memory. Records that a caller waits for have a queue of their own, which
# the writer takes first.

Record = RequestStarted | RequestEnded | SessionRow | ResponseRow
Complete = Callable[[RequestEnded], RequestEnded]
"""Fills in what takes too long for the event loop, from which a record is pushed."""

MAX_BATCH: Final = 100
"""How many entries a transaction has: more save nothing and hold the lock longer."""

MAX_BATCH_BYTES: Final = 1 << 20
"""How many bytes a transaction has, unless its first entry alone is larger."""

BATCH_SECONDS: Final = 0.25
"""How many seconds the writer waits for more entries of a batch that no caller waits for.

A transaction costs as much as a dozen records, and at a few requests per second each would have its
own."""

OVERHEAD: Final = 1_000
"""About how many bytes a record takes in memory beside its bodies."""


class QueuedWrite(Struct, frozen=True):
    """Records that are written together or not at all; `done` gets whether they were."""

    records: tuple[Record, ...]
    size: int
    done: Future[bool] | None = None
    complete: Complete | None = None

    def completed(self) -> QueuedWrite:
        """Return the entry with complete records; those that fail stay as they are."""
        if self.complete is None:
            return self
        try:
            records = tuple(
                self.complete(one) if isinstance(one, RequestEnded) else one for one in self.records
            )
        except Exception:  # noqa: BLE001 - a record without the addition is better than none.
            _log.exception("a record of the log could not be completed")
            records = self.records
        return replace(self, records=records, complete=None)

    def settle(self, *, is_written: bool) -> None:
        """Notify the caller that waits, if there is one."""
        if self.done is not None and self.done.set_running_or_notify_cancel():
            self.done.set_result(is_written)


class WakeUp:
    """Wakes one waiting thread; several calls of `set` before it wakes count as one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def set(self) -> None:
        """Wake the waiting thread, or let the next call of `wait` return."""
        if self._lock.locked():
            try:
                self._lock.release()
            except RuntimeError:  # Another thread has just released it.
                return

    def wait(self, seconds: float) -> None:
        """Wait for `set`, but no longer than *seconds*."""
        # A bare lock: `threading.Condition` and `Event` take a lock inside `set`, on which the
        # event loop could wait for a writer that was interrupted while it held it.
        self._lock.acquire(timeout=max(0.0, seconds))


class WriteQueue:
    """Queues up to *rows* records of *size* bytes for the writer."""

    def __init__(self, rows: int, size: int) -> None:
        self._max_rows = rows
        self._max_bytes = size
        self._lock = threading.Lock()  # It is never taken by the writer.
        self._normal: deque[QueuedWrite] = deque()
        self._urgent: deque[QueuedWrite] = deque()
        self._pushed = self._pushed_bytes = 0  # by callers
        self._settled = self._settled_bytes = 0  # by the writer
        self._has_work = WakeUp()
        self._has_urgent = WakeUp()
        self._closing = threading.Event()
        self.rejected = 0

    @property
    def is_closed(self) -> bool:
        """Whether no more entries are accepted."""
        return self._closing.is_set()

    @property
    def rows(self) -> int:
        """The number of records that wait or are being written."""
        return self._pushed - self._settled

    @property
    def size(self) -> int:
        """The number of bytes that wait or are being written."""
        return self._pushed_bytes - self._settled_bytes

    def push(self, entry: QueuedWrite) -> bool:
        """Add *entry* and return True; if the queue is full, count and return False."""
        count = len(entry.records)
        with self._lock:
            is_full = self.rows + count > self._max_rows or self.size + entry.size > self._max_bytes
            if is_full or self.is_closed:
                self.rejected += count
                return False
            self._pushed += count
            self._pushed_bytes += entry.size
            (self._normal if entry.done is None else self._urgent).append(entry)
        self._has_work.set()
        if entry.done is not None:
            self._has_urgent.set()
        return True

    def reject(self, number: int) -> None:
        """Count records that cannot be queued."""
        with self._lock:
            self.rejected += number

    def close(self) -> None:
        """Accept no more entries, and wake the writer."""
        with self._lock:
            self._closing.set()
        self._has_urgent.set()
        self._has_work.set()

    # --- for the writer ---

    def take(self, seconds: float) -> list[QueuedWrite]:
        """Return the next batch; wait up to *seconds* for its first entry."""
        end = time.monotonic() + seconds
        # What woke the writer may have been taken with the batch before.
        while not (self._normal or self._urgent or self.is_closed):
            if (rest := end - time.monotonic()) <= 0:
                break
            self._has_work.wait(rest)
        if not (self._urgent or self.is_closed) and 0 < len(self._normal) < MAX_BATCH:
            self._has_urgent.wait(BATCH_SECONDS)
        batch: list[QueuedWrite] = []
        size = 0
        while len(batch) < MAX_BATCH and size < MAX_BATCH_BYTES:
            queue = self._urgent or self._normal
            if not queue:
                break
            entry = queue.popleft()
            size += entry.size
            batch.append(entry)
        return batch

    def pause(self, seconds: float) -> None:
        """Wait because the database cannot be used; `close` ends the wait."""
        self._closing.wait(seconds)

    def settle(self, entry: QueuedWrite, *, is_written: bool) -> None:
        """Remove *entry*, which was written or dropped."""
        self._settled += len(entry.records)
        self._settled_bytes += entry.size
        entry.settle(is_written=is_written)


# --- statements of a batch ---

# Every statement is idempotent: a batch whose commit was not acknowledged is written again. The end
# of a request whose start was dropped still becomes a row.


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
    """Write *records* in the open transaction; *worker* is that of records without one."""
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
    _write_words(connection, ends)
    # In the order of their keys, so that two processes with the same rows cannot deadlock.
    _upsert(connection, SESSIONS, _sort_by_key(map(_SESSION.make_row, sessions)), keep=("created",))
    _upsert(connection, RESPONSES, _sort_by_key(map(_RESPONSE.make_row, responses)))


def _write_starts(
    connection: Connection, starts: Sequence[RequestStarted], worker: str, bodies: Rows
) -> None:
    rows = []
    here: dict[tuple[str, str], str] = {}  # the conversations of this batch
    for record in starts:
        row = _STARTED.make_row(record)
        row["conversation"] = _find_conversation(connection, row, record.prefix_hash, here)
        here[row["scope"], row["messages_hash"]] = row["conversation"]
        row["worker"] = row["worker"] or worker
        row["size"] = OVERHEAD + _add_bodies(record, bodies)
        rows.append(row)
    if rows:
        # The row exists if the batch is written again.
        connection.execute(insert_into(connection, REQUESTS).on_conflict_do_nothing(), rows)


def _find_conversation(
    connection: Connection, row: dict[str, Any], prefix: str, here: dict[tuple[str, str], str]
) -> str:
    """Return the conversation that a request continues, or its own id if it starts one."""
    # A session that the client names takes precedence over what the messages have in common.
    if row["session"]:
        return str(row["session"])
    if not prefix:
        return str(row["id"])
    found = here.get((row["scope"], prefix))
    if found is None:
        columns = REQUESTS.c
        earlier = select(columns.conversation).where(
            columns.messages_hash == clean_key(prefix), columns.scope == row["scope"]
        )
        # Ids sort by time. After a retry, several requests have the same messages: the newest
        # counts.
        found = connection.scalar(earlier.order_by(columns.id.desc()).limit(1))
    return found or str(row["id"])


def _write_words(connection: Connection, ends: Sequence[RequestEnded]) -> None:
    rows = [
        {"request": clean_key(record.id), "words": split_words(record.search)}
        for record in ends
        if record.search
    ]
    if rows:
        insert = insert_into(connection, SEARCH)
        changes = {"words": insert.excluded.words}
        connection.execute(
            insert.on_conflict_do_update(index_elements=["request"], set_=changes), rows
        )


def _write_ends(connection: Connection, ends: Sequence[RequestEnded], bodies: Rows) -> None:
    if not ends:
        return
    now = time.time()
    rows = []
    for record in ends:
        row = _ENDED.make_row(record)
        row["size"] = _add_bodies(record, bodies) + len(record.text) + len(record.search)
        row["created"] = now - row["duration"]  # used if the start is missing
        rows.append(row)
    insert = insert_into(connection, REQUESTS)
    new = insert.excluded
    changes: dict[str, Any] = {name: new[name] for name in _ENDED.names if name != "id"}
    # chat.qwen.ai assigns the id of a session, so it may be known only at the end.
    changes["session"] = func.coalesce(func.nullif(new.session, ""), REQUESTS.c.session)
    changes["size"] = REQUESTS.c.size + new.size
    connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=changes), rows)


def _add_bodies(record: RequestStarted | RequestEnded, bodies: Rows) -> int:
    """Add the bodies of *record* to *bodies*; return their size."""
    size = 0
    for kind, coding, data in encode_bodies(record):
        request = clean_key(record.id)
        bodies.append({"request": request, "kind": kind, "coding": coding, "data": data})
        size += len(data)
    return size


def _upsert(connection: Connection, table: Table, rows: Rows, keep: Sequence[str] = ()) -> None:
    """Insert *rows*, or overwrite rows with the same keys except for the columns to *keep*."""
    if not rows:
        return
    insert = insert_into(connection, table)
    keys = [column.name for column in table.primary_key]
    names = (column.name for column in table.c)
    changes = {name: insert.excluded[name] for name in names if name not in (*keys, *keep)}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=changes), rows)


def _sort_by_key(rows: Iterable[dict[str, Any]]) -> Rows:
    return sorted(rows, key=lambda row: (row["scope"], row["id"]))


# --- the thread ---


FIRST_WAIT: Final = 0.05
"""How many seconds the writer waits after the first failure; each further one doubles it."""

LONGEST_WAIT: Final = 5.0
"""The longest wait in seconds: the writer may resume that much later than the database."""

RETENTION_SECONDS: Final = 60.0
"""How many seconds lie between two runs of the retention."""

_log = logging.getLogger("penstock.store")


class Schedule:
    """When maintenance is due, in monotonic seconds."""

    def __init__(self) -> None:
        now = time.monotonic()
        self.heartbeat = self.dead_check = self.retention = now

    @property
    def seconds(self) -> float:
        """The seconds until something is due."""
        due = min(self.heartbeat, self.dead_check, self.retention)
        return max(0.0, due - time.monotonic())


class StoreWriter:
    """Writes the records of *queue* to the database of *engine*."""

    def __init__(
        self,
        engine: Engine,
        queue: WriteQueue,
        worker: Worker,
        *,
        describe: Describer,
        file: Path | None,
        retention: Retention | None,
        create: bool,
    ) -> None:
        self.written = 0
        self.dropped = 0  # records
        self.is_up = False
        self.last_error = ""
        self.last_commit = 0.0
        self.ended = threading.Event()
        self._engine = engine
        self._queue = queue
        self._worker = worker
        self._describe = describe
        self._file = file
        self._retention = retention
        self._create = create
        self._connection: Connection | None = None
        self._identity: tuple[int, int] | None = None  # of the file that was opened
        self._batch: list[QueuedWrite] = []
        self._schedule = Schedule()
        self._wait = FIRST_WAIT
        self._deadline = float("inf")
        self._is_new = True

    def start(self) -> None:
        """Start the thread, which does not keep the process alive."""
        threading.Thread(target=self._run, name="penstock: store writer", daemon=True).start()

    def close(self, seconds: float) -> None:
        """Write the queued records, for at most *seconds*, and end; then `ended` is set."""
        self._deadline = time.monotonic() + seconds
        self._queue.close()

    def _run(self) -> None:
        try:
            while not self._is_over():
                try:
                    self._work()
                except Exception as exc:  # noqa: BLE001 - the thread must survive everything
                    self._fail(exc)
            self._unregister()
        finally:
            self._drop_rest()
            self._disconnect()
            self.ended.set()

    def _is_over(self) -> bool:
        if not self._queue.is_closed:
            return False
        return not self._queue.rows or time.monotonic() > self._deadline

    def _work(self) -> None:
        """Do the maintenance that is due, then write one batch."""
        connection = self._connection or self._connect()
        self._maintain(connection)
        if not self._batch:  # Otherwise success is decided by that batch.
            self._succeed()
            self._batch = self._queue.take(self._schedule.seconds)
            if time.monotonic() < self._deadline:
                self._batch = [entry.completed() for entry in self._batch]
        if self._batch:
            self._write_batch(connection)

    def _connect(self) -> Connection:
        connection = self._connection = self._engine.connect()
        prepare(connection, create=self._create)
        self._identity = self._find_identity()
        with connection.begin():
            self._worker.write_heartbeat(connection)
            if self._is_new:
                self._worker.remove_dead_neighbours(connection)
                mark_interrupted(connection)
        self._is_new = False
        # After an outage, other workers need time for their heartbeats.
        self._schedule.dead_check = time.monotonic() + WORKER_DEAD_SECONDS
        return connection

    def _maintain(self, connection: Connection) -> None:
        """Do what is due; a task that fails is not repeated before its next time."""
        now = time.monotonic()
        schedule = self._schedule
        if now >= schedule.heartbeat:
            schedule.heartbeat = now + HEARTBEAT_SECONDS
            with connection.begin():
                self._worker.write_heartbeat(connection)
            self._check_file()
        if now >= schedule.dead_check:
            schedule.dead_check = now + WORKER_DEAD_SECONDS
            with connection.begin():
                mark_interrupted(connection)
        if now >= schedule.retention:
            schedule.retention = now + RETENTION_SECONDS
            with connection.begin():
                is_more = delete_step(connection, self._retention)
            if shrink(connection) or is_more:
                schedule.retention = now

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
                _log.warning("dropped a record that cannot be written: %s", self._describe(exc))

    def _commit(self, connection: Connection, entries: list[QueuedWrite]) -> None:
        """Write *entries*, the first of the batch, in one transaction, and acknowledge them."""
        with connection.begin():
            records = [record for entry in entries for record in entry.records]
            write(connection, records, self._worker.id)
        self._check_file()
        self._succeed()  # First, so that a new count implies that the store is up.
        self.written += len(records)
        self.last_commit = time.time()
        for entry in entries:
            self._queue.settle(entry, is_written=True)
        self._batch = self._batch[len(entries) :]

    def _find_identity(self) -> tuple[int, int] | None:
        return None if self._file is None else identify(self._file)

    def _check_file(self) -> None:
        if self._find_identity() != self._identity:
            raise StoreError("the database file was replaced")

    # --- success and failure ---

    def _succeed(self) -> None:
        self._wait = FIRST_WAIT
        if not self.is_up:
            self.is_up = True
            if self.last_error:
                _log.warning("the store is writable again")

    def _fail(self, exc: Exception) -> None:
        was_up, self.is_up = self.is_up, False  # before the error, which other threads read
        self.last_error = self._describe(exc)
        if was_up or self._wait == FIRST_WAIT:
            _log.warning("the store is not writable: %s", self.last_error)
        self._disconnect()
        seconds = self._wait
        self._wait = min(LONGEST_WAIT, 2 * seconds)
        if self._queue.is_closed:
            time.sleep(max(0.0, min(seconds, self._deadline - time.monotonic())))
        else:
            self._queue.pause(seconds)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        discard(connection)

    def _unregister(self) -> None:
        if self._connection is None:
            return
        try:
            with self._connection.begin():
                self._worker.unregister(self._connection)
        except SQLAlchemyError as exc:
            self.last_error = self._describe(exc)

    def _drop_rest(self) -> None:
        """Drop the records that could not be written before the end."""
        while batch := self._batch or self._queue.take(0):
            for entry in batch:
                self._drop(entry)
            self._batch = []

    def _drop(self, entry: QueuedWrite) -> None:
        self.dropped += len(entry.records)
        self._queue.settle(entry, is_written=False)
