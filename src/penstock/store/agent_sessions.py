"""The sessions of agents: one row per session, and one row per line of its log.

The content of a line is not interpreted. The lines of a session are numbered from 0, and the number
is part of the key: of two processes that append to a session at once, one fails. Lines that were
committed without an acknowledgement may be written again: they are found to exist.

Writes wait for the commit, on a thread that holds a connection; reads have another thread. A
database that is locked or restarting is retried for a while. A deleted SQLite file can still be
written to, without effect, so a commit counts only if the file is still the one that was opened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from sqlalchemy import Connection, delete, or_, select
from sqlalchemy.exc import DataError, DBAPIError, NotSupportedError, SQLAlchemyError

from penstock.store.engine import (
    Describer,
    ReadPool,
    StoreError,
    discard,
    find_file,
    identify,
    insert_into,
    make_engine,
    parse_url,
    read_connection,
)
from penstock.store.migrations import prepare
from penstock.store.records import MAX_PAGE
from penstock.store.tables import (
    AGENT_ENTRIES,
    AGENT_SESSIONS,
    MAX_PATH,
    Fields,
    clean_key,
    clean_text,
)

TIMEOUT: Final = 10.0
"""How many seconds a read may take, and for how long a write is retried."""

RETRY_SECONDS: Final = 0.05
"""How many seconds lie between two attempts to write."""

Result = TypeVar("Result")


class AgentSessionRow(Struct, frozen=True, kw_only=True):
    """The summary of a session; *size* is the size of its lines in bytes."""

    id: str
    title: str = ""
    prompt: str = ""
    cwd: str = ""
    parent: str = ""
    created: float = 0.0
    updated: float = 0.0
    messages: int = 0
    size: int = 0


class LinesConflictError(StoreError):
    """Another process has appended to the session."""


class LinesGoneError(StoreError):
    """The session, with the lines before these, no longer exists."""


_ROW: Final = Fields(AGENT_SESSIONS.c)


class AgentSessions:
    """The sessions of agents in the database at *url*, which is created or upgraded on first use.

    Raises `UsageError` for an invalid URL; the methods raise `StoreError` for a database that
    cannot be used.
    """

    def __init__(self, url: str = "sqlite:///penstock.db") -> None:
        parsed = parse_url(url)
        self._file = find_file(parsed)
        self._describe = Describer(parsed)
        self._writing = make_engine(parsed, writes=True, create=True)
        self._reading = self._writing if self._file is None else make_engine(parsed, writes=False)
        self._writers = ReadPool("agent session writer", 1)
        self._readers = ReadPool("agent session reader", 1)
        self._connection: Connection | None = None  # of the writing thread
        self._identity: tuple[int, int] | None = None
        self._is_closed = False

    async def append(self, row: AgentSessionRow, first: int, lines: Sequence[bytes]) -> None:
        """Commit *lines*, which are numbered from *first*, and the summary *row*.

        Raises `LinesConflictError` if there are other lines with these numbers, and
        `LinesGoneError` if *first* is not 0 and the session does not exist.
        """
        await self._write(lambda connection: _append(connection, row, first, lines))

    async def read(self, id: str) -> list[bytes]:  # noqa: A002 - the field's name
        """Return the lines of a session; none if it does not exist."""
        return await self._read(lambda connection: _read(connection, id))

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_PAGE
    ) -> list[AgentSessionRow]:
        """Return sessions, the one last written to first."""
        return await self._read(lambda connection: _list(connection, cwd, search, limit))

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; return whether there was one."""
        return await self._write(lambda connection: _delete(connection, id))

    async def close(self) -> None:
        """Close the database after the write in progress."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._writers.run(self._disconnect, TIMEOUT)
        finally:
            self._writers.close()
            self._readers.close()
            self._writing.dispose()
            self._reading.dispose()

    # --- reading ---

    async def _read(self, work: Callable[[Connection], Result]) -> Result:
        """Return the result of *work*, once the writing thread has found or made the database."""
        await self._writers.run(self._find_database, TIMEOUT)

        def query() -> Result:
            with read_connection(self._reading, TIMEOUT) as connection:
                return work(connection)

        try:
            return await self._readers.run(query, TIMEOUT)
        except (SQLAlchemyError, OSError) as exc:
            raise StoreError(f"cannot read the sessions: {self._describe(exc)}") from exc

    # --- the writing thread ---

    async def _write(self, work: Callable[[Connection], Result]) -> Result:
        return await self._writers.run(lambda: self._persist(work), TIMEOUT)

    def _find_database(self) -> None:
        if self._connection is None or self._identity != self._find_identity():
            self._persist(lambda _: None)

    def _persist(self, work: Callable[[Connection], Result]) -> Result:
        """Run *work* in a transaction, and retry it while that may help."""
        deadline = time.monotonic() + TIMEOUT
        while True:
            try:
                return self._commit(work)
            except (SQLAlchemyError, OSError) as exc:
                self._disconnect()
                if not _may_recover(exc) or time.monotonic() > deadline:
                    problem = self._describe(exc)
                    raise StoreError(f"cannot write the sessions: {problem}") from exc
            time.sleep(RETRY_SECONDS)

    def _commit(self, work: Callable[[Connection], Result]) -> Result:
        if self._identity != self._find_identity():
            self._disconnect()
        connection = self._connection or self._connect()
        with connection.begin():
            result = work(connection)
        if self._identity != self._find_identity():
            self._disconnect()
            raise LinesGoneError("the database file was replaced")
        return result

    def _connect(self) -> Connection:
        connection = self._writing.connect()
        try:
            prepare(connection, create=True)
            self._identity = self._find_identity()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _find_identity(self) -> tuple[int, int] | None:
        if self._file is None or not self._file.exists():
            return None
        return identify(self._file)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        discard(connection)


def _may_recover(exc: Exception) -> bool:
    """Return whether a retry may help: after a lock, a restart, or a race for a number."""
    return isinstance(exc, DBAPIError) and not isinstance(exc, DataError | NotSupportedError)


# --- statements ---


def _append(
    connection: Connection, row: AgentSessionRow, first: int, lines: Sequence[bytes]
) -> None:
    key = clean_key(row.id)
    known = select(AGENT_SESSIONS.c.id).where(AGENT_SESSIONS.c.id == key)
    if first and connection.scalar(known) is None:
        raise LinesGoneError("the session was deleted")
    done = _count_written(connection, key, first, lines)
    rows = [
        {"session": key, "number": number, "data": line}
        for number, line in enumerate(lines[done:], first + done)
    ]
    if rows:
        connection.execute(AGENT_ENTRIES.insert(), rows)
    insert = insert_into(connection, AGENT_SESSIONS)
    changed = {name: insert.excluded[name] for name in _ROW.names if name != "id"}
    upsert = insert.on_conflict_do_update(index_elements=["id"], set_=changed)
    connection.execute(upsert, _ROW.make_row(row))


def _count_written(connection: Connection, key: str, first: int, lines: Sequence[bytes]) -> int:
    """Return how many of *lines* exist already; raise if others have their numbers."""
    entries = AGENT_ENTRIES.c
    existing = select(entries.data).where(entries.session == key, entries.number >= first)
    written = [bytes(data) for data in connection.scalars(existing.order_by(entries.number))]
    if written != list(lines[: len(written)]):
        raise LinesConflictError("another process has appended to this session: reopen it")
    return len(written)


def _read(connection: Connection, name: str) -> list[bytes]:
    found = select(AGENT_ENTRIES.c.data).where(AGENT_ENTRIES.c.session == clean_key(name))
    return [bytes(data) for data in connection.scalars(found.order_by(AGENT_ENTRIES.c.number))]


def _list(
    connection: Connection, cwd: str | None, search: str, limit: int
) -> list[AgentSessionRow]:
    columns = AGENT_SESSIONS.c
    wanted = select(AGENT_SESSIONS)
    if cwd is not None:
        wanted = wanted.where(columns.cwd == clean_text(cwd, MAX_PATH))
    if search:
        words = clean_text(search)
        places = (columns.title, columns.prompt)
        wanted = wanted.where(or_(*(place.icontains(words, autoescape=True) for place in places)))
    newest = wanted.order_by(columns.updated.desc(), columns.id.desc())
    rows = connection.execute(newest.limit(max(1, min(MAX_PAGE, limit)))).mappings()
    return [AgentSessionRow(**row) for row in rows]


def _delete(connection: Connection, name: str) -> bool:
    key = clean_key(name)
    connection.execute(delete(AGENT_ENTRIES).where(AGENT_ENTRIES.c.session == key))
    return connection.execute(delete(AGENT_SESSIONS).where(AGENT_SESSIONS.c.id == key)).rowcount > 0
