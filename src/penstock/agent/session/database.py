"""Sessions in a database: the same lines as in a file, each in a row.

An entry is committed before `append` returns. Several processes may use one database. If two of
them continue the same session, the second is refused and has to open it again. Needs the extra
``server`` (SQLAlchemy), and ``postgres`` for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import convert, structs

from penstock.agent.session.entries import Contents, EntryLine, Header, read_lines
from penstock.agent.session.storage import (
    MAX_LISTED,
    SessionError,
    SessionGoneError,
    SessionInfo,
    check_id,
    update_info,
)
from penstock.models.base import AsyncCloseable
from penstock.store import AgentSessionRow, AgentSessions, StoreError
from penstock.store.agent_sessions import LinesGoneError


@contextmanager
def _session_errors() -> Iterator[None]:
    """Raise an error of the store as a `SessionError`."""
    try:
        yield
    except StoreError as exc:
        raise SessionError(str(exc)) from exc


class SessionDatabase(AsyncCloseable):
    """The sessions in the database at *url*: ``sqlite:///penstock.db``, ``postgresql://…``.

    Its tables are created or upgraded when it is first used. Raises `UsageError` for an invalid
    URL.
    """

    def __init__(self, url: str = "sqlite:///penstock.db") -> None:
        self._table = AgentSessions(url)

    def writer(self, id: str) -> DatabaseSessionWriter:  # noqa: A002 - the field's name
        """Return the writer of the session *id*."""
        return DatabaseSessionWriter(self._table, check_id(id))

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_LISTED
    ) -> list[SessionInfo]:
        """List sessions, newest first."""
        with _session_errors():
            rows = await self._table.sessions(cwd=cwd, search=search, limit=limit)
        return [SessionInfo(**structs.asdict(row)) for row in rows]

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; return whether it existed."""
        with _session_errors():
            return await self._table.delete(id)

    async def close(self) -> None:
        """Close the database; close the sessions in it first."""
        with _session_errors():
            await self._table.close()


class DatabaseSessionWriter:
    """The writer of the session *id*."""

    def __init__(self, table: AgentSessions, id: str) -> None:  # noqa: A002 - the field's name
        self._table = table
        self._id = id
        self._info = SessionInfo(id)
        self._next = 0  # the number of the next line

    async def open(self) -> Contents:
        """Read the record."""
        with _session_errors():
            lines = await self._table.read(self._id)
        contents = read_lines(lines)
        self._next = len(lines)
        headers: list[Header] = [] if contents.header is None else [contents.header]
        info = update_info(self._info, [*headers, *contents.entries])
        self._info = structs.replace(info, size=sum(map(len, lines)))
        return contents

    async def append(self, lines: Sequence[EntryLine]) -> None:
        """Commit all of *lines* or none."""
        data = [line.data for line in lines]
        # The row of the session is written with its lines, so that a list need not read them.
        info = update_info(self._info, [line.item for line in lines])
        info = structs.replace(info, id=self._id, size=info.size + sum(map(len, data)))
        row = convert(info, AgentSessionRow, from_attributes=True)
        try:
            await self._table.append(row, self._next, data)
        # The rows were deleted while the session was open; `SessionLog` writes all of them again.
        except LinesGoneError as exc:
            self._next = 0
            self._info = SessionInfo(self._id)
            raise SessionGoneError(str(exc)) from exc
        except StoreError as exc:
            raise SessionError(str(exc)) from exc
        self._info = info
        self._next += len(data)

    async def close(self) -> None:
        """Do nothing: a record in a database is not locked."""
