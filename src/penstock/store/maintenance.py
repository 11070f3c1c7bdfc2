"""What the writer does between batches: say that it lives, mark what was cut off, make room.

A worker is a process with a store. It says every `BEAT` seconds that it lives; one that was not
seen for `DEAD` seconds is dead, and so is one on this machine whose process is gone. Requests that
a dead worker had started are *interrupted*. A worker that was only slow takes that back by the end
that it writes.

Retention goes in small steps, each a short transaction, so that batches need not wait for it.
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
from penstock.store.sanitize import clean_key, clean_text
from penstock.store.tables import BODIES, REQUESTS, RESPONSES, SESSIONS, WORKERS

BEAT: Final = 10.0
"""How often a worker says that it lives, in seconds."""

DEAD: Final = 30.0
"""After how many silent seconds a worker is dead; how often the living look for dead ones."""

STEP: Final = 200
"""How many rows a step of retention deletes: some milliseconds of work."""

FREE_PAGES: Final = 500
"""How many free pages of an SQLite file a step gives back to the disk: 2 MB."""

RETENTION_LOCK: Final = 0x70656E73746F636C
"""The number of the lock by which one process at a time does PostgreSQL's retention."""


class Worker:
    """The process of this store, as the others know it."""

    def __init__(self, name: str) -> None:
        self.id = clean_key(name)
        self._pid = os.getpid()
        self._host = clean_text(_this_host(), 200)
        self._started = time.time()

    def beat(self, connection: Connection) -> None:
        """Say that this worker lives."""
        row = {"id": self.id, "pid": self._pid, "host": self._host, "started": self._started}
        row["seen"] = time.time()
        insert = insert_into(connection, WORKERS)
        seen = {"seen": insert.excluded.seen}
        connection.execute(insert.on_conflict_do_update(index_elements=["id"], set_=seen), row)

    def leave(self, connection: Connection) -> None:
        """Take this worker off the list, and with it whatever it left open."""
        connection.execute(delete(WORKERS).where(WORKERS.c.id == self.id))
        mark_interrupted(connection)

    def bury_neighbours(self, connection: Connection) -> None:
        """Take workers of this machine off the list whose process is gone."""
        here = select(WORKERS.c.id, WORKERS.c.pid).where(
            WORKERS.c.host == self._host, WORKERS.c.id != self.id
        )
        gone = [name for name, pid in connection.execute(here) if not self._is_alive(pid)]
        connection.execute(delete(WORKERS).where(WORKERS.c.id.in_(gone)))

    def _is_alive(self, pid: int) -> bool:
        if pid <= 0:  # to the system these are groups
            return False
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except (OSError, OverflowError):  # somebody else's, or no answer on this system
            return True
        return True


def mark_interrupted(connection: Connection) -> int:
    """Mark what dead workers had started, and forget them; tell how many requests that were."""
    is_dead = WORKERS.c.seen < time.time() - DEAD
    connection.execute(delete(WORKERS).where(is_dead))
    orphans = REQUESTS.c.worker.not_in(select(WORKERS.c.id))
    change = update(REQUESTS).where(REQUESTS.c.state == "started", orphans)
    return connection.execute(change.values(state="interrupted")).rowcount


def make_room(connection: Connection, retention: Retention | None) -> bool:
    """Do one step of retention; return whether more is to be done."""
    if connection.dialect.name == "postgresql":
        lock = text("SELECT pg_try_advisory_xact_lock(:lock)")
        if not connection.scalar(lock, {"lock": RETENTION_LOCK}):
            return False
    counts = [_delete_expired(connection)]
    if retention is not None:
        counts += [_delete_old(connection, retention), _delete_excess(connection, retention)]
    return max(counts) >= STEP


def shrink(connection: Connection) -> bool:
    """Release free pages of an SQLite file if there are many; return whether more are left.

    The others are filled again soon, and a file that shrinks and grows by turns is slow. To be
    called outside of any transaction.
    """
    if connection.dialect.name != "sqlite":
        return False
    driver: Any = connection.connection.driver_connection
    (pages,) = driver.execute("PRAGMA page_count").fetchone()
    (free,) = driver.execute("PRAGMA freelist_count").fetchone()
    if free < max(FREE_PAGES, pages // 4):
        return False
    # It frees one page for each step of the statement; only a script is stepped to its end.
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
        connection.execute(delete(REQUESTS).where(REQUESTS.c.id.in_(ids)))
    return len(ids)


def _this_host() -> str:
    """Name this machine, or rather the space in which a process id means this process."""
    name = socket.gethostname()
    with suppress(OSError):  # Linux: containers that share a name do not share their processes
        name = f"{name}/{Path('/proc/self/ns/pid').stat().st_ino}"
    return name
