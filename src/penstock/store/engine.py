"""Engines for the two databases: how a URL is read, and what every connection is told first.

SQLite keeps a write-ahead log, so that readers and the writer do not wait for each other, and it
syncs at checkpoints only: a killed process loses nothing that was committed, a power cut may lose
the last commits. Its file is made readable by its owner alone: it holds what people asked.
PostgreSQL is told to give up on a dead network by itself. Reads can be limited in time: the
database ends them.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, Table, create_engine, event, text
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError, NoSuchModuleError
from sqlalchemy.pool import NullPool, QueuePool

from penstock.errors import UsageError
from penstock.store.tables import know_postgres

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql

LOCK_SECONDS: Final = 1.0
"""How long a connection waits for SQLite's lock; who wants to wait longer tries again."""

CONNECT_SECONDS: Final = 5
"""How long PostgreSQL may take to take a connection."""

DEAD_SECONDS: Final = 20
"""After how many seconds without a sign PostgreSQL's machine counts as gone."""

CHECK_STEPS: Final = 10_000
"""How many steps of SQLite's machine lie between two looks at the clock: about a millisecond."""

PAGES: Final = 1_024
"""How many kB of SQLite's file a connection keeps in memory: half of what SQLite would."""

MAX_JOURNAL: Final = 64 << 20
"""To how many bytes SQLite's log is cut back after a checkpoint."""

MAX_CONNECTIONS: Final = 5
"""How many connections a process keeps: one for each reader, and one for PostgreSQL's writer."""


_QUIET: Final[dict[str, Any]] = {"hide_parameters": True}


def read_url(url: str) -> URL:
    """Read *url*; raise `UsageError`, without quoting it, for what the store cannot use."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise UsageError("the store's URL cannot be read as one") from None
    if parsed.drivername in ("postgresql", "postgres"):
        parsed = parsed.set(drivername="postgresql+psycopg")
    if parsed.drivername == "postgresql+psycopg":
        return parsed
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite"):
        raise UsageError("the store needs a URL that begins with sqlite:/// or postgresql://")
    name = parsed.database or ""
    if name in ("", ":memory:") or name.startswith("file:"):
        raise UsageError("the store needs a file: sqlite:///penstock.db")
    return parsed.set(database=str(Path(name).absolute()))


def file_of(url: URL) -> Path | None:
    """Return the file of an SQLite database, and None for PostgreSQL."""
    return Path(url.database or "") if url.get_backend_name() == "sqlite" else None


def make_engine(url: URL, *, writes: bool, create: bool = False) -> Engine:
    """Make an engine; one that *writes* takes SQLite's lock when a transaction begins."""
    path = file_of(url)
    try:
        return _postgres(url) if path is None else _sqlite(path, writes=writes, create=create)
    except (ModuleNotFoundError, NoSuchModuleError):
        raise UsageError("PostgreSQL needs the extra: pip install 'penstock[postgres]'") from None


def identify(path: Path) -> tuple[int, int]:
    """Return what tells a file from another of the same name.

    Raise `OSError` if there is not one.
    """
    found = path.stat()
    return found.st_dev, found.st_ino


@contextmanager
def reading(engine: Engine, seconds: float) -> Iterator[Connection]:
    """Lend a connection whose queries the database itself ends after *seconds*."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            limit = text("SELECT set_config('statement_timeout', :limit, true)")
            connection.execute(limit, {"limit": str(int(seconds * 1000))})
            yield connection
            return
        driver: Any = connection.connection.driver_connection
        deadline = time.monotonic() + seconds
        driver.set_progress_handler(lambda: time.monotonic() > deadline, CHECK_STEPS)
        yield connection


def insert_into(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that knows what to do about a row that is there already."""
    if connection.dialect.name == "sqlite":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - SQLite does without it

    return postgresql.insert(table)


def _postgres(url: URL) -> Engine:
    know_postgres()
    arguments = {
        "connect_timeout": CONNECT_SECONDS,
        "keepalives_idle": DEAD_SECONDS // 2,
        "keepalives_interval": DEAD_SECONDS // 4,
        "keepalives_count": 2,
        "tcp_user_timeout": DEAD_SECONDS * 1000,
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
        # What the URL itself says about them wins.
        connect_args={name: value for name, value in arguments.items() if name not in url.query},
    )


def _sqlite(path: Path, *, writes: bool, create: bool) -> Engine:
    def connect() -> sqlite3.Connection:
        if create:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        return sqlite3.connect(
            f"{path.as_uri()}?mode=rw",  # never a new file where one was deleted
            uri=True,
            timeout=LOCK_SECONDS,
            isolation_level=None,
            check_same_thread=False,
        )

    if writes:  # one connection, held for long
        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, **_QUIET)
        event.listen(engine, "connect", _prepare_file)
        event.listen(engine, "connect", _keep_few_pages)
        event.listen(engine, "begin", lambda link: link.exec_driver_sql("BEGIN IMMEDIATE"))
        return engine
    pool = {"poolclass": QueuePool, "pool_size": MAX_CONNECTIONS, "max_overflow": 0}
    engine = create_engine("sqlite://", creator=connect, **pool, **_QUIET)
    event.listen(engine, "connect", _keep_few_pages)
    event.listen(engine, "begin", lambda link: link.exec_driver_sql("BEGIN"))
    _renew_when_replaced(engine, path)
    return engine


def _renew_when_replaced(engine: Engine, path: Path) -> None:
    """Let no pooled connection be used whose file is no longer the one of that name."""

    def note(_: object, record: Any) -> None:
        record.info["identity"] = identify(path)

    def compare(_: object, record: Any, __: object) -> None:
        if record.info["identity"] != identify(path):
            raise DisconnectionError

    event.listen(engine, "connect", note)
    event.listen(engine, "checkout", compare)


def _keep_few_pages(driver: sqlite3.Connection, _: object) -> None:
    driver.execute(f"PRAGMA cache_size = -{PAGES}")


def _prepare_file(driver: sqlite3.Connection, _: object) -> None:
    driver.execute("PRAGMA auto_vacuum = INCREMENTAL")  # heeded by an empty file only
    if driver.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        driver.execute("PRAGMA journal_mode = WAL")
    driver.execute("PRAGMA synchronous = NORMAL")
    driver.execute(f"PRAGMA journal_size_limit = {MAX_JOURNAL}")
