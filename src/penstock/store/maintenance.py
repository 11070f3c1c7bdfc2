"""Maintenance between batches: heartbeats, interrupted requests, retention.

A worker is a process with a store. It writes a heartbeat every `HEARTBEAT_SECONDS`; one without a
heartbeat for `WORKER_DEAD_SECONDS` is dead, and so is one on this machine whose process does not
exist. Requests that a dead worker had started are *interrupted*. If it was only slow, the end that
it writes replaces that state.

Retention deletes in small steps, each a short transaction, so that batches need not wait.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, delete, func, select, text, update

from penstock.store.engine import insert_into
from penstock.store.records import Retention
from penstock.store.tables import (
    BODIES,
    REQUESTS,
    RESPONSES,
    SEARCH,
    SESSIONS,
    WORKERS,
    clean_key,
    clean_text,
)

HEARTBEAT_SECONDS: Final = 10.0
"""How many seconds lie between two heartbeats of a worker."""

WORKER_DEAD_SECONDS: Final = 30.0
"""After how many seconds without a heartbeat a worker is dead; also how often that is checked."""

STEP: Final = 200
"""How many rows a step of retention deletes: a few milliseconds of work."""

FREE_PAGES: Final = 500
"""How many free pages of an SQLite file a step returns to the file system: 2 MB."""

RETENTION_LOCK: Final = 0x70656E73746F636C
"""The advisory lock that lets one process at a time do the retention in PostgreSQL."""


class Worker:
    """The process of this store, as other processes see it."""

    def __init__(self, name: str) -> None:
        self.id = clean_key(name)
        self._pid = os.getpid()
        self._host = clean_text(_find_host(), 200)
        self._started = time.time()

    def write_heartbeat(self, connection: Connection) -> None:
        """Record that this worker is alive."""
        row = {"id": self.id, "pid": self._pid, "host": self._host, "started": self._started}
        row["seen"] = _read_clock(connection)
        insert = insert_into(connection, WORKERS)
        seen = {"seen": insert.excluded.seen}
        connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=seen), row)

    def unregister(self, connection: Connection) -> None:
        """Remove this worker, and mark the requests that it left open."""
        connection.execute(delete(WORKERS).where(WORKERS.c.id == self.id))
        mark_interrupted(connection)

    def remove_dead_neighbours(self, connection: Connection) -> None:
        """Remove the workers of this machine whose process does not exist."""
        here = select(WORKERS.c.id, WORKERS.c.pid).where(
            WORKERS.c.host == self._host, WORKERS.c.id != self.id
        )
        gone = [name for name, pid in connection.execute(here) if not self._is_alive(pid)]
        connection.execute(delete(WORKERS).where(WORKERS.c.id.in_(gone)))

    def _is_alive(self, pid: int) -> bool:
        if pid <= 0:  # `os.kill` would take these for process groups.
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):  # of another user, or not supported
            return True
        return True


def mark_interrupted(connection: Connection) -> int:
    """Remove dead workers and mark the requests they had started; return their number."""
    is_dead = WORKERS.c.seen < _read_clock(connection) - WORKER_DEAD_SECONDS
    connection.execute(delete(WORKERS).where(is_dead))
    orphans = REQUESTS.c.worker.not_in(select(WORKERS.c.id))
    change = update(REQUESTS).where(REQUESTS.c.state == "started", orphans)
    return connection.execute(change.values(state="interrupted")).rowcount


def _read_clock(connection: Connection) -> float:
    """Return the time by the clock of PostgreSQL, because the clocks of machines differ."""
    if connection.dialect.name != "postgresql":
        return time.time()
    return float(connection.scalar(select(func.extract("epoch", func.clock_timestamp()))) or 0.0)


def delete_step(connection: Connection, retention: Retention | None) -> bool:
    """Do one step of retention; return whether there is more to delete."""
    if connection.dialect.name == "postgresql":
        lock = text("SELECT pg_try_advisory_xact_lock(:lock)")
        if not connection.scalar(lock, {"lock": RETENTION_LOCK}):
            return False
    counts = [_delete_expired(connection)]
    if retention is not None:
        counts += [_delete_old(connection, retention), _delete_excess(connection, retention)]
    return max(counts) >= STEP


def shrink(connection: Connection) -> bool:
    """Release free pages of an SQLite file if there are many; return whether any were released.

    A few free pages are soon used again, and a file that shrinks and grows is slow. Call this
    outside of transactions.
    """
    if connection.dialect.name != "sqlite":
        return False
    driver: Any = connection.connection.driver_connection
    (pages,) = driver.execute("PRAGMA page_count").fetchone()
    (free,) = driver.execute("PRAGMA freelist_count").fetchone()
    if free < max(FREE_PAGES, pages // 4):
        return False
    # The statement frees one page per step, and only a script is stepped to its end.
    driver.executescript(f"PRAGMA incremental_vacuum({FREE_PAGES})")
    (left,) = driver.execute("PRAGMA freelist_count").fetchone()
    return bool(left < free)


def _delete_expired(connection: Connection) -> int:
    now = time.time()
    most = 0
    for table in (SESSIONS, RESPONSES):
        is_expired = (table.c.expires > 0) & (table.c.expires < now)
        keys = select(table.c.scope, table.c.id).where(is_expired).limit(STEP)
        rows = connection.execute(keys).all()
        for scope, name in rows:
            connection.execute(delete(table).where(table.c.scope == scope, table.c.id == name))
        most = max(most, len(rows))
    return most


def _delete_old(connection: Connection, retention: Retention) -> int:
    if retention.days is None:
        return 0
    oldest = time.time() - retention.days * 86_400
    old = select(REQUESTS.c.id).where(REQUESTS.c.created < oldest)
    return _delete_requests(
        connection, list(connection.scalars(old.order_by(REQUESTS.c.created).limit(STEP)))
    )


def _delete_excess(connection: Connection, retention: Retention) -> int:
    if retention.size is None:
        return 0
    excess = int(connection.scalar(select(func.sum(REQUESTS.c.size))) or 0) - retention.size
    ids: list[str] = []
    oldest = select(REQUESTS.c.id, REQUESTS.c.size).order_by(REQUESTS.c.id).limit(STEP)
    for name, size in connection.execute(oldest) if excess > 0 else ():
        if excess <= 0:
            break
        ids.append(name)
        excess -= size
    return _delete_requests(connection, ids)


def _delete_requests(connection: Connection, ids: list[str]) -> int:
    if ids:
        connection.execute(delete(BODIES).where(BODIES.c.request.in_(ids)))
        connection.execute(delete(SEARCH).where(SEARCH.c.request.in_(ids)))
        connection.execute(delete(REQUESTS).where(REQUESTS.c.id.in_(ids)))
    return len(ids)


def _find_host() -> str:
    """Return the name of this machine and of the namespace of its process ids."""
    name = socket.gethostname()
    with suppress(OSError):  # On Linux, containers may share a host name.
        name = f"{name}/{Path('/proc/self/ns/pid').stat().st_ino}"
    return name
