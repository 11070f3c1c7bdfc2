"""SQLAlchemy engines for SQLite and PostgreSQL: URLs, connections, errors and threads for reads.

SQLite uses a write-ahead log, so that readers and the writer do not wait for each other, and syncs
only at checkpoints: a killed process loses nothing that was committed, a power failure may lose the
last commits. Its file is readable only by its owner, since it contains prompts. PostgreSQL
connections detect a dead network themselves. The database ends reads that exceed their time limit.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, Table, create_engine, event, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DisconnectionError,
    NoSuchModuleError,
    SQLAlchemyError,
)
from sqlalchemy.pool import NullPool, QueuePool

from penstock.errors import UsageError
from penstock.store.tables import add_postgres_index

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql


import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, NotSupportedError

from penstock.errors import PenstockError
from penstock.redaction import Redactor, is_secret_name

LOCK_SECONDS: Final = 1.0
"""How many seconds a connection waits for SQLite's lock; callers retry to wait longer."""

CONNECT_SECONDS: Final = 5
"""The connect timeout of PostgreSQL."""

SERVER_DEAD_SECONDS: Final = 20
"""After how many seconds without data the machine of PostgreSQL counts as unreachable."""

CHECK_STEPS: Final = 10_000
"""How many steps of SQLite's virtual machine lie between two time checks: about 1 ms."""

CACHE_KB: Final = 1_024
"""The page cache of an SQLite connection in kB: half of SQLite's default."""

MAX_WAL: Final = 64 << 20
"""To how many bytes SQLite's write-ahead log is truncated after a checkpoint."""

MAX_CONNECTIONS: Final = 5
"""The pool size: one connection per reader thread, and one for the writer of PostgreSQL."""


# Errors of SQLAlchemy would otherwise quote the parameters, which are bodies of requests.
_QUIET: Final[dict[str, Any]] = {"hide_parameters": True}


def parse_url(url: str) -> URL:
    """Parse *url*; raise `UsageError`, without quoting it, if the store cannot use it."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise UsageError(
            "the store URL is invalid: use sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"
        ) from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "postgresql+psycopg":
        return parsed
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise UsageError("the store URL must begin with sqlite:/// or postgresql://")
    name = parsed.database or ""
    if name in ("", ":memory:") or name.startswith("file:"):
        raise UsageError("the store URL must name a file, such as sqlite:///penstock.db")
    return parsed.set(database=str(Path(name).absolute()))


def find_file(url: URL) -> Path | None:
    """Return the file of an SQLite database; None for PostgreSQL."""
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def make_engine(url: URL, *, writes: bool, create: bool = False) -> Engine:
    """Return an engine; one that *writes* starts transactions with SQLite's write lock."""
    path = find_file(url)
    try:
        return (
            _make_postgres(url)
            if path is None
            else _make_sqlite(path, writes=writes, create=create)
        )
    except (ModuleNotFoundError, NoSuchModuleError):
        raise UsageError("PostgreSQL needs an extra: pip install 'penstock[postgres]'") from None


def identify(path: Path) -> tuple[int, int]:
    """Return the identity of a file, which differs from that of a file that replaces it.

    Raises `OSError` if it does not exist.
    """
    found = path.stat()
    return found.st_dev, found.st_ino


@contextmanager
def read_connection(engine: Engine, seconds: float) -> Iterator[Connection]:
    """Yield a connection whose queries the database ends after *seconds*."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            # `true` limits it to the transaction: the connection returns to the pool without a
            # timeout.
            limit = text("SELECT set_config('statement_timeout', :limit, true)")
            connection.execute(limit, {"limit": str(int(seconds * 1000))})
            yield connection
            return
        driver: Any = connection.connection.driver_connection
        deadline = time.monotonic() + seconds
        driver.set_progress_handler(lambda: time.monotonic() > deadline, CHECK_STEPS)
        yield connection


def discard(connection: Connection | None) -> None:
    """Close *connection*, which may be broken, without returning it to the pool."""
    if connection is not None:
        with suppress(SQLAlchemyError):
            connection.invalidate()
            connection.close()


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that supports ``ON CONFLICT``."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - only if it is used

    return postgresql.insert(table)


def _make_postgres(url: URL) -> Engine:
    add_postgres_index()
    arguments = {
        # With the defaults of Linux, a connection to a machine that vanished lasts for two hours if
        # it is idle (keepalive), and for a quarter of an hour if it is sending (retransmission).
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": SERVER_DEAD_SECONDS // 2,
        "keepalives_interval": SERVER_DEAD_SECONDS // 4,
        "keepalives_count": 2,
        "tcp_user_timeout": SERVER_DEAD_SECONDS * 1000,
        "client_encoding": "utf8",
        "application_name": "penstock",
    }
    return create_engine(
        url,
        poolclass=QueuePool,
        pool_size=MAX_CONNECTIONS,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        pool_pre_ping=True,
        **_QUIET,
        # Options in the URL take precedence.
        connect_args={name: value for name, value in arguments.items() if name not in url.query},
    )


def _make_sqlite(path: Path, *, writes: bool, create: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        if create:
            # Conversations are private: only the owner may read the file.
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        return sqlite3.connect(
            f"{path.as_uri()}?mode=rw",  # Do not create a file in place of a deleted one.
            uri=True,
            timeout=LOCK_SECONDS,
            # The module would otherwise start transactions itself, and only before a write.
            isolation_level=None,
            check_same_thread=False,
        )

    if writes:  # a single connection that stays open
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, **_QUIET)
        event.listen(engine, "connect", _prepare_file)
        event.listen(engine, "connect", _limit_cache)
        # With the lock at once: a transaction that reads first and then writes can fail with
        # SQLITE_BUSY, whatever its timeout.
        event.listen(engine, "begin", lambda link: link.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine
    pool = {"poolclass": QueuePool, "pool_size": MAX_CONNECTIONS, "max_overflow": 0}
    engine = create_engine("sqlite://", creator=connect, **pool, **_QUIET)
    event.listen(engine, "connect", _limit_cache)
    event.listen(engine, "begin", lambda link: link.exec_driver_sql("BEGIN"))
    _renew_when_replaced(engine, path)
    return engine


def _renew_when_replaced(engine: Engine, path: Path) -> None:
    """Discard pooled connections whose file was replaced."""

    def note(_: object, record: Any) -> None:
        record.info["identity"] = identify(path)

    def compare(_: object, record: Any, __: object) -> None:
        if record.info["identity"] != identify(path):
            raise DisconnectionError

    event.listen(engine, "connect", note)
    event.listen(engine, "checkout", compare)


def _limit_cache(driver: sqlite3.Connection, _: object) -> None:
    driver.execute(f"PRAGMA cache_size = -{CACHE_KB}")


def _prepare_file(driver: sqlite3.Connection, _: object) -> None:
    driver.execute("PRAGMA auto_vacuum = INCREMENTAL")  # It has an effect only on an empty file.
    if driver.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        driver.execute("PRAGMA journal_mode = WAL")
    # In WAL mode, NORMAL may lose the last commits when the power fails, but the file stays valid.
    driver.execute("PRAGMA synchronous = NORMAL")
    driver.execute(f"PRAGMA journal_size_limit = {MAX_WAL}")


# --- errors ---

MAX_MESSAGE: Final = 200
"""How many characters of a driver's message are kept: later ones may quote the row."""


class StoreError(PenstockError):
    """The database cannot be used: it is missing, locked, damaged, too new or too slow."""


def is_fault_of_record(exc: Exception) -> bool:
    """Return whether a record caused *exc*, rather than the database or the connection.

    An exception that no database raised comes from the values of the record. Class 54 of
    PostgreSQL's error codes means that a value exceeds a limit.
    """
    if isinstance(exc, DBAPIError):
        # psycopg has the SQLSTATE of the server; sqlite3 has none, and its classes are enough.
        code = str(getattr(exc.orig, "sqlstate", None) or "")
        return isinstance(exc, DataError | IntegrityError | NotSupportedError) or code[:2] == "54"
    return not isinstance(exc, SQLAlchemyError | OSError | PenstockError)


class Describer:
    """Describes an exception in one line, without the secrets in *url*."""

    def __init__(self, url: URL) -> None:
        # An exception may quote the whole URL or the password alone, encoded or not.
        found = {url.render_as_string(hide_password=False), str(url.password or "")}
        for name, value in url.query.items():
            if is_secret_name(name):
                found.update([value] if isinstance(value, str) else value)
        found.update([_quote(secret) for secret in found])
        self._redactor = Redactor(found, min_length=1)

    def __call__(self, exc: BaseException) -> str:
        """Return the type of *exc* and the first line of its message."""
        cause = exc.orig if isinstance(exc, DBAPIError) and exc.orig is not None else exc
        if isinstance(cause, PenstockError):
            return str(cause)
        if isinstance(cause, OSError):  # Its message contains a path.
            return f"{type(cause).__name__}: {cause.strerror or 'failed'}"
        first = self._redactor.text(str(cause)).strip().partition("\n")[0]
        return f"{type(cause).__name__}: {first[:MAX_MESSAGE]}"


def _quote(text: str) -> str:
    """Return *text* as it is written in a URL."""
    address = URL.create("x", username="u", password=text)
    return address.render_as_string(hide_password=False).removeprefix("x://u:").removesuffix("@")


# --- threads for reads ---
#
# A database that hangs blocks these threads and never a caller: a caller gets an error after the
# deadline, or at once if too many reads are waiting. The threads are daemons, so that a process can
# end while one hangs; `concurrent.futures` joins its threads at exit.

MAX_WAITING: Final = 100
"""How many reads may wait for a thread: later ones would not be served in time anyway."""

CANCEL_SECONDS: Final = 0.5
"""How many seconds after the deadline of the database a caller gives up."""

Result = TypeVar("Result")
Work = Callable[[], Any]
Job = tuple["Future[Any]", Work]


class ReadPool:
    """Runs functions on *number* threads, which are started on first use."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._is_started = False
        self._is_closed = False

    async def run(self, work: Callable[[], Result], seconds: float) -> Result:
        """Run *work* on a thread; raise `StoreError` if it takes longer than *seconds*."""
        done: Future[Result] = Future()
        job = (done, work)
        with self._changed:
            if self._is_closed:
                raise StoreError("the store is closed")
            if len(self._jobs) >= MAX_WAITING:
                raise StoreError("too many reads are waiting for the database")
            self._start()
            self._jobs.append(job)
            self._changed.notify()
        waiting = asyncio.wrap_future(done)
        try:
            await asyncio.wait([waiting], timeout=seconds + CANCEL_SECONDS)
            if not waiting.done():
                raise StoreError(f"the database did not respond within {seconds:g} seconds")
            return waiting.result()
        finally:
            self._abandon(job)
            waiting.cancel()

    def close(self) -> None:
        """End the threads, each after the jobs that wait."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _abandon(self, job: Job) -> None:
        """Take *job* out of the queue if no thread has begun it: its result is not needed."""
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    def _start(self) -> None:
        if self._is_started:
            return
        self._is_started = True
        for index in range(self._number):
            name = f"penstock: {self._name} {index}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            done, work = job
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(work())
            except BaseException as exc:  # noqa: BLE001 - it is raised in the caller
                done.set_exception(exc)
            del job, done, work  # Free the result before the next read.

    def _next(self) -> Job | None:
        with self._changed:
            while not self._jobs:
                if self._is_closed:
                    return None
                self._changed.wait()
            return self._jobs.popleft()
