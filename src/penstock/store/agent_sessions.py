"""The sessions of agents: lines of a record, each a row, and a row for each session to list.

This floor does not know what a line says. A session's lines are numbered from 0, and the number is
part of the key: of two who add to one session at once, one is refused. What was committed when the
answer got lost on the way may be written again, and is found to be there.

Writes wait for the commit, on a thread of their own that holds a connection; reads have another. A
database that is locked or restarts is waited for, a while. A deleted SQLite file can still be
written to, to no avail: so a commit counts only if the file is still the one that was opened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from msgspec import Struct
from sqlalchemy import Connection, delete, or_, select
from sqlalchemy.exc import DataError, DBAPIError, NotSupportedError, SQLAlchemyError

from penstock.store.engine import file_of, identify, insert_into, make_engine, read_url, reading
from penstock.store.errors import Describer, StoreError
from penstock.store.migrate import prepare
from penstock.store.read_pool import Readers
from penstock.store.records import MAX_PAGE
from penstock.store.sanitize import Fields, clean_key, clean_text
from penstock.store.tables import AGENT_ENTRIES, AGENT_SESSIONS, MAX_PATH

SECONDS: Final = 10.0
"""How long a read may take, and how long a write waits for a database that does not let it."""

PAUSE: Final = 0.05
"""How many seconds lie between two tries to write."""

Result = TypeVar("Result")


class AgentSessionRow(Struct, frozen=True, kw_only=True):
    """What is known of a session without reading its lines; *size* is theirs, in bytes."""

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
    """Somebody else has added to the session."""


class LinesGoneError(StoreError):
    """The lines before these are not there any more."""


_ROW: Final = Fields(AGENT_SESSIONS.c)


class AgentSessions:
    """The sessions of agents in the database at *url*, which is made or upgraded at first use.

    A URL that cannot be used is a `UsageError`, a database that cannot be used a `StoreError`.
    """

    def __init__(self, url: str = "sqlite:///penstock.db") -> None:
        parsed = read_url(url)
        self._file = file_of(parsed)
        self._describe = Describer(parsed)
        self._writing = make_engine(parsed, writes=True, create=True)
        self._reading = self._writing if self._file is None else make_engine(parsed, writes=False)
        self._writers = Readers("agent session writer", 1)
        self._readers = Readers("agent session reader", 1)
        self._connection: Connection | None = None  # of the writing thread
        self._identity: tuple[int, int] | None = None
        self._is_closed = False

    async def append(self, row: AgentSessionRow, first: int, lines: Sequence[bytes]) -> None:
        """Commit *lines*, numbered from *first* on, and what *row* says of the session by now.

        Raises `LinesConflictError` if others are there by these numbers, and `LinesGoneError` if
        *first* is not 0 and there is no such session.
        """
        await self._write(lambda connection: _append(connection, row, first, lines))

    async def read(self, id: str) -> list[bytes]:  # noqa: A002 - the field's name
        """Return the lines of a session; none if there is no such session."""
        return await self._read(lambda connection: _read(connection, id))

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_PAGE
    ) -> list[AgentSessionRow]:
        """List sessions, the one last written to first."""
        return await self._read(lambda connection: _list(connection, cwd, search, limit))

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; return whether there was one."""
        return await self._write(lambda connection: _delete(connection, id))

    async def close(self) -> None:
        """Let go of the database, after what is being written."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._writers.run(self._disconnect, SECONDS)
        finally:
            self._writers.close()
            self._readers.close()
            self._writing.dispose()
            self._reading.dispose()

    # --- reading ---

    async def _read(self, work: Callable[[Connection], Result]) -> Result:
        """Read, from a database that the writing thread has found or made."""
        await self._writers.run(self._find_database, SECONDS)

        def ask() -> Result:
            with reading(self._reading, SECONDS) as connection:
                return work(connection)

        try:
            return await self._readers.run(ask, SECONDS)
        except (SQLAlchemyError, OSError) as exc:
            raise StoreError(f"the sessions cannot be read: {self._describe(exc)}") from exc

    # --- the writing thread ---

    async def _write(self, work: Callable[[Connection], Result]) -> Result:
        return await self._writers.run(lambda: self._persist(work), SECONDS)

    def _find_database(self) -> None:
        if self._connection is None or self._identity != self._find_identity():
            self._persist(lambda _: None)

    def _persist(self, work: Callable[[Connection], Result]) -> Result:
        """Do *work* in a transaction, again and again while the database does not let it."""
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                return self._commit(work)
            except (SQLAlchemyError, OSError) as exc:
                self._disconnect()
                if not _may_pass(exc) or time.monotonic() > deadline:
                    problem = self._describe(exc)
                    raise StoreError(f"the sessions cannot be written: {problem}") from exc
            time.sleep(PAUSE)

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
        if connection is None:
            return
        try:
            connection.invalidate()
            connection.close()
        except SQLAlchemyError:  # it was broken already
            return


def _may_pass(exc: Exception) -> bool:
    """Return whether trying again may help: a lock, a restart, or a race for a number."""
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
    connection.execute(upsert, _ROW.of(row))


def _count_written(connection: Connection, key: str, first: int, lines: Sequence[bytes]) -> int:
    """Count how many of *lines* are there already; raise if there are others in their place."""
    entries = AGENT_ENTRIES.c
    there = select(entries.data).where(entries.session == key, entries.number >= first)
    written = [bytes(data) for data in connection.scalars(there.order_by(entries.number))]
    if written != list(lines[: len(written)]):
        raise LinesConflictError("somebody else has added to this session: open it again")
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
