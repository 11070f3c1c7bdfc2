"""Sessions in a database: the same lines as in a file, each a row.

An entry is committed before `append` returns. Any number of processes may use one database; of two
who continue with the same session, the one that comes second is refused and has to open it again.
Needs the extra ``server`` (SQLAlchemy), and ``postgres`` for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import structs

from penstock.agent.session.entries import Contents, EntryLine, Header, read_lines
from penstock.agent.session.storage import (
    MAX_LISTED,
    SessionError,
    SessionGoneError,
    SessionInfo,
    check_id,
    describe,
)
from penstock.models.base import AsyncCloseable
from penstock.store import AgentSessionRow, AgentSessions, StoreError
from penstock.store.agent_sessions import LinesGoneError

_FIELDS: Final = AgentSessionRow.__struct_fields__


class SessionDatabase(AsyncCloseable):
    """The sessions in the database at *url*: ``sqlite:///penstock.db``, ``postgresql://…``.

    It is made or upgraded when it is first used, and serves any number of sessions. A URL that
    cannot be used is a `UsageError`.
    """

    def __init__(self, url: str = "sqlite:///penstock.db") -> None:
        self._table = AgentSessions(url)

    def journal(self, id: str) -> StoredJournal:  # noqa: A002 - the field's name
        """Return the record of the session *id*."""
        return StoredJournal(self._table, check_id(id))

    async def sessions(
        self, *, cwd: str | None = None, search: str = "", limit: int = MAX_LISTED
    ) -> list[SessionInfo]:
        """List sessions, the one last written to first."""
        try:
            rows = await self._table.sessions(cwd=cwd, search=search, limit=limit)
        except StoreError as exc:
            raise SessionError(str(exc)) from exc
        return [SessionInfo(**structs.asdict(row)) for row in rows]

    async def delete(self, id: str) -> bool:  # noqa: A002 - the field's name
        """Delete a session; return whether there was one."""
        try:
            return await self._table.delete(id)
        except StoreError as exc:
            raise SessionError(str(exc)) from exc

    async def close(self) -> None:
        """Let go of the database; sessions that are in it are to be closed before."""
        try:
            await self._table.close()
        except StoreError as exc:
            raise SessionError(str(exc)) from exc


class StoredJournal:
    """The record of the session *id*."""

    def __init__(self, table: AgentSessions, id: str) -> None:  # noqa: A002 - the field's name
        self._table = table
        self._id = id
        self._info = SessionInfo(id)
        self._next = 0  # the number of the next line

    async def open(self) -> Contents:
        """Read what there is."""
        try:
            lines = await self._table.read(self._id)
        except StoreError as exc:
            raise SessionError(str(exc)) from exc
        contents = read_lines(lines)
        self._next = len(lines)
        headers: list[Header] = [] if contents.header is None else [contents.header]
        self._info = describe(self._info, [*headers, *contents.entries])
        self._info = structs.replace(self._info, size=sum(map(len, lines)))
        return contents

    async def append(self, lines: Sequence[EntryLine]) -> None:
        """Commit *lines*, all or none."""
        data = [line.data for line in lines]
        info = describe(self._info, [line.item for line in lines])
        info = structs.replace(info, id=self._id, size=info.size + sum(map(len, data)))
        row = AgentSessionRow(**{name: getattr(info, name) for name in _FIELDS})
        try:
            await self._table.append(row, self._next, data)
        except LinesGoneError as exc:
            self._next = 0
            self._info = SessionInfo(self._id)
            raise SessionGoneError(str(exc)) from exc
        except StoreError as exc:
            raise SessionError(str(exc)) from exc
        self._info = info
        self._next += len(data)

    async def close(self) -> None:
        """Do nothing: others may write all the time."""
