"""`Store`: what the gateway holds of the database.

Three ways in, and they never meet: records are queued and written by one thread (`writer`); what a
next request needs is queued too, and waited for a moment (`save`); reads have threads of their own,
and lookups for a request that is being served do not stand after somebody's search.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from math import inf
from typing import Final, TypeVar

from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from penstock.store import queries
from penstock.store.engine import file_of, make_engine, read_url, reading
from penstock.store.errors import Describer, StoreError
from penstock.store.maintenance import Worker
from penstock.store.queries import overview
from penstock.store.read_pool import Readers
from penstock.store.records import (
    Overview,
    OverviewQuery,
    Page,
    RequestDetail,
    RequestEnded,
    RequestQuery,
    RequestRow,
    RequestStarted,
    ResponseRow,
    Retention,
    SessionQuery,
    SessionRow,
    StoreHealth,
    Totals,
)
from penstock.store.write_queue import OVERHEAD, Backlog, QueuedWrite, Record
from penstock.store.writer import StoreWriter

LOOKUP_SECONDS: Final = 1.0
"""How long a request that is being served waits for its session."""

LIST_SECONDS: Final = 10.0
"""How long a list or a search may take."""

THREADS: Final = 2
"""How many lookups run at once, and how many lists."""

_DAY: Final = 24 * 3600.0

Result = TypeVar("Result")


class Store:
    """The gateway's log and sessions in the database at *url*.

    `queue` records of `queue_bytes` may wait for the writer; what does not fit is dropped and
    counted. Without *bodies*, neither requests nor answers are stored, only what is known about
    them. Without *create*, a database is used but never made or upgraded. `worker` names this
    process in the records; it must be its own. A URL that cannot be used is a `UsageError`; a
    database that cannot be used is not: the store waits for it.
    """

    def __init__(
        self,
        url: str = "sqlite:///penstock.db",
        *,
        queue: int = 10_000,
        queue_bytes: int = 64 << 20,
        retention: Retention | None = None,
        bodies: bool = True,
        create: bool = True,
        worker: str = "",
    ) -> None:
        parsed = read_url(url)
        file = file_of(parsed)
        self.worker = worker or uuid.uuid4().hex
        self._bodies = bodies
        days = None if retention is None else retention.days
        self.keep_seconds = inf if days is None else days * _DAY
        """How long a record is kept."""
        self._describe = Describer(parsed)
        self._writing = make_engine(parsed, writes=True, create=create)
        self._reading = self._writing if file is None else make_engine(parsed, writes=False)
        self._backlog = Backlog(queue, queue_bytes)
        self._writer = StoreWriter(
            self._writing,
            self._backlog,
            Worker(self.worker),
            describe=self._describe,
            file=file,
            retention=retention,
            create=create,
        )
        self._lookups = Readers("store lookup", THREADS)
        self._lists = Readers("store list", THREADS)
        self._is_started = False

    def start(self) -> None:
        """Begin to write; whatever state the database is in."""
        if not self._is_started:
            self._is_started = True
            self._writer.start()

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - it does not cancel
        """Write what is queued, for *timeout* seconds at most, and end."""
        self._lookups.close()
        self._lists.close()
        self._writer.close(timeout)
        if self._is_started:
            # A little longer than the writer takes, which may be amid a transaction.
            await asyncio.to_thread(self._writer.ended.wait, timeout + 0.5)
        self._writing.dispose()
        self._reading.dispose()

    @property
    def health(self) -> StoreHealth:
        """How the writer is doing."""
        backlog, writer = self._backlog, self._writer
        return StoreHealth(
            is_up=writer.is_up,
            queued=backlog.rows,
            queued_bytes=backlog.size,
            written=writer.written,
            dropped=backlog.refused + writer.spoiled,
            last_error=writer.last_error,
            last_commit=writer.last_commit,
        )

    # --- writing ---

    def begin(self, record: RequestStarted) -> None:
        """Queue the start of a request; never waits, never raises."""
        if not self._bodies:
            record = replace(record, request=b"")
        self._push(record)

    def end(self, record: RequestEnded) -> None:
        """Queue the end of a request; never waits, never raises."""
        if not self._bodies:
            record = replace(
                record, text="", upstream_request=b"", raw=[], timeline=b"", events=[], response=b""
            )
        self._push(record)

    def _push(self, record: Record) -> None:
        try:
            size = _size_of(record)
        except TypeError:  # no bytes where there should be
            self._backlog.refuse(1)
        else:
            self._backlog.push(QueuedWrite((record,), size))

    async def save(self, *records: SessionRow | ResponseRow, within: float = 0.05) -> bool:
        """Queue *records* and wait until they are committed, all or none; return whether they are.

        After *within* seconds they are still queued, but nobody waits. Dropped ones are False too.
        """
        done: Future[bool] = Future()
        if not self._backlog.push(QueuedWrite(records, sum(map(_size_of, records)), done)):
            return False
        waiting = asyncio.wrap_future(done)
        await asyncio.wait([waiting], timeout=within)
        return waiting.done() and waiting.result()

    async def delete_session(self, id: str, *, scope: str | None) -> bool:  # noqa: A002
        """Delete a session, of any scope if *scope* is None; return whether there was one."""
        return await self._delete(lambda connection: queries.delete_session(connection, id, scope))

    async def delete_response(self, id: str, *, scope: str) -> bool:  # noqa: A002
        """Delete a response of *scope*; return whether there was one."""
        return await self._delete(lambda connection: queries.delete_response(connection, id, scope))

    async def _delete(self, work: Callable[[Connection], bool]) -> bool:
        """Delete after what is queued: it would come back if it were written later."""

        def delete(connection: Connection) -> bool:
            is_gone = work(connection)
            connection.commit()
            return is_gone

        if self._backlog.rows and not await self.save(within=LIST_SECONDS):
            raise StoreError("the database has not taken what is to be deleted")
        return await self._list(delete)

    # --- reading ---

    async def session(
        self,
        *,
        scope: str | None,
        id: str = "",  # noqa: A002 - the field's name
        hash: str = "",  # noqa: A002 - the field's name
    ) -> SessionRow | None:
        """Find the newest live session by its id, or else by its conversation's hash.

        It is of any scope if *scope* is None.
        """
        return await self._look_up(
            lambda connection: queries.find_session(connection, scope, id, hash)
        )

    async def response(self, id: str, *, scope: str) -> ResponseRow | None:  # noqa: A002
        """Find a live response of *scope*."""
        return await self._look_up(lambda connection: queries.find_response(connection, scope, id))

    async def requests(self, query: RequestQuery) -> Page[RequestRow]:
        """List requests, newest first."""
        return await self._list(lambda connection: queries.list_requests(connection, query))

    async def request(self, id: str) -> RequestDetail | None:  # noqa: A002
        """Find a request with its bodies."""
        return await self._list(lambda connection: queries.find_request(connection, id))

    async def sessions(self, query: SessionQuery) -> Page[SessionRow]:
        """List sessions, the newest made first."""
        return await self._list(lambda connection: queries.list_sessions(connection, query))

    async def follow(self, after: str, limit: int) -> list[RequestRow]:
        """List requests newer than the one with the id *after*, oldest first."""
        return await self._list(lambda connection: queries.list_newer(connection, after, limit))

    async def named(self, ids: Sequence[str]) -> list[RequestRow]:
        """List the requests with these *ids*, in any order."""
        return await self._list(lambda connection: queries.list_named(connection, ids))

    async def overview(self, query: OverviewQuery) -> Overview:
        """Sum up requests over time."""
        return await self._list(lambda connection: overview(connection, query))

    async def totals(self, since: float) -> Totals:
        """Sum up the requests made since *since*."""
        return await self._list(lambda connection: queries.sum_up(connection, since))

    async def _look_up(self, work: Callable[[Connection], Result]) -> Result:
        return await self._ask(self._lookups, work, LOOKUP_SECONDS)

    async def _list(self, work: Callable[[Connection], Result]) -> Result:
        return await self._ask(self._lists, work, LIST_SECONDS)

    async def _ask(
        self, readers: Readers, work: Callable[[Connection], Result], seconds: float
    ) -> Result:
        def ask() -> Result:
            with reading(self._reading, seconds) as connection:
                return work(connection)

        try:
            return await readers.run(ask, seconds)
        except (SQLAlchemyError, OSError) as exc:
            problem = self._describe(exc)
            raise StoreError(f"the database cannot be read: {problem}") from exc


def _size_of(record: Record) -> int:
    """Return what *record* takes in memory, in bytes, roughly."""
    match record:
        case RequestStarted():
            size = len(record.request)
        case RequestEnded():
            size = len(record.text) + len(record.upstream_request) + len(record.response)
            size += len(record.timeline) + sum(map(len, record.raw)) + sum(map(len, record.events))
        case ResponseRow():
            size = len(record.data)
        case SessionRow():
            size = 0
    return OVERHEAD + size
