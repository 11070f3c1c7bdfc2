"""`Store`: the interface of the gateway to its database.

Records are queued and written by one thread (`writer`). What the next request needs is queued too,
and the caller waits for it briefly (`save`). Reads have their own threads, and lookups for requests
in progress have threads apart from lists and searches.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from math import inf
from typing import Any, Final, TypeVar

from msgspec.structs import replace
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from penstock.store import queries
from penstock.store.engine import (
    Describer,
    ReadPool,
    StoreError,
    find_file,
    make_engine,
    parse_url,
    read_connection,
)
from penstock.store.maintenance import Worker
from penstock.store.queries import overview
from penstock.store.records import (
    ConversationRow,
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
from penstock.store.writer import (
    OVERHEAD,
    Complete,
    QueuedWrite,
    Record,
    StoreWriter,
    WriteQueue,
)

LOOKUP_SECONDS: Final = 1.0
"""How many seconds a lookup for a request in progress may take."""

SEARCH_SECONDS: Final = 10.0
"""How many seconds a list or a search may take."""

THREADS: Final = 2
"""How many lookups run at once, and how many lists."""

_DAY: Final = 24 * 3600.0

Result = TypeVar("Result")

# The fields of a request that hold its content, empty.
_NO_CONTENT: Final[dict[str, Any]] = {
    **dict.fromkeys(("text", "summary", "unread_reason"), ""),
    **dict.fromkeys(("upstream_request", "timeline", "response"), b""),
    "raw": [],
    "events": [],
}


class Store:
    """The gateway's log and sessions in the database at *url*.

    Up to *queue* records with *queue_bytes* wait for the writer; further ones are dropped and
    counted. Without *bodies*, requests and responses are stored without their content. Without
    *create*, a database is neither created nor upgraded. *worker* identifies this process and must
    be unique. Raises `UsageError` for an invalid URL, and nothing for a database that cannot be
    used: the store waits for it.
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
        parsed = parse_url(url)
        file = find_file(parsed)
        self.worker = worker or uuid.uuid4().hex
        self._bodies = bodies
        days = None if retention is None else retention.days
        self.keep_seconds = inf if days is None else days * _DAY
        """How many seconds a record is kept."""
        self._describe = Describer(parsed)
        self._writing = make_engine(parsed, writes=True, create=create)
        self._reading = self._writing if file is None else make_engine(parsed, writes=False)
        self._queue = WriteQueue(queue, queue_bytes)
        self._writer = StoreWriter(
            self._writing,
            self._queue,
            Worker(self.worker),
            describe=self._describe,
            file=file,
            retention=retention,
            create=create,
        )
        # Two pools: a request waits for the lookup of its session, and no search may delay that.
        self._lookups = ReadPool("store lookup", THREADS)
        self._lists = ReadPool("store list", THREADS)
        self._is_started = False

    def start(self) -> None:
        """Start the writer, whatever the state of the database."""
        if not self._is_started:
            self._is_started = True
            self._writer.start()

    async def close(self, timeout: float = 5.0) -> None:  # noqa: ASYNC109 - it does not cancel
        """Write the queued records, for at most *timeout* seconds, and close the database."""
        self._lookups.close()
        self._lists.close()
        self._writer.close(timeout)
        if self._is_started:
            # A little longer than the writer, which may be within a transaction.
            await asyncio.to_thread(self._writer.ended.wait, timeout + 0.5)
        self._writing.dispose()
        self._reading.dispose()

    @property
    def health(self) -> StoreHealth:
        """The state of the writer."""
        queued, writer = self._queue, self._writer
        return StoreHealth(
            is_up=writer.is_up,
            queued=queued.rows,
            queued_bytes=queued.size,
            written=writer.written,
            dropped=queued.rejected + writer.dropped,
            last_error=writer.last_error,
            last_commit=writer.last_commit,
        )

    # --- writing ---

    def begin(self, record: RequestStarted) -> None:
        """Queue the start of a request; never waits, never raises."""
        if not self._bodies:
            record = replace(record, request=b"", prompt="")
        self._push(record)

    def end(self, record: RequestEnded, complete: Complete | None = None, size: int = 0) -> None:
        """Queue the end of a request; never waits, never raises.

        *complete* is called on the thread of the writer, for work that would delay other requests.
        What it holds counts as *size* bytes.
        """
        if not self._bodies:
            record = replace(record, search=record.error_message, **_NO_CONTENT)
        self._push(record, complete, size)

    def _push(self, record: Record, complete: Complete | None = None, size: int = 0) -> None:
        try:
            size += _measure(record)
        except TypeError:  # A body is not bytes.
            self._queue.reject(1)
        else:
            self._queue.push(QueuedWrite((record,), size, complete=complete))

    async def save(self, *records: SessionRow | ResponseRow, within: float = 0.05) -> bool:
        """Queue *records* and wait until they are committed, all or none; return whether they are.

        After *within* seconds this returns False and they stay queued. It also returns False if
        they are dropped.
        """
        done: Future[bool] = Future()
        if not self._queue.push(QueuedWrite(records, sum(map(_measure, records)), done)):
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
        """Run *work* once the queued records are written: one of them could recreate the row."""

        def delete(connection: Connection) -> bool:
            was_found = work(connection)
            connection.commit()
            return was_found

        if self._queue.rows and not await self.save(within=SEARCH_SECONDS):
            raise StoreError(
                "the database has not written the queued records, so nothing was deleted"
            )
        return await self._list(delete)

    # --- reading ---

    async def session(
        self,
        *,
        scope: str | None,
        id: str = "",  # noqa: A002 - the field's name
        hash: str = "",  # noqa: A002 - the field's name
    ) -> SessionRow | None:
        """Return the newest live session with this *id*, or else with this *hash*.

        A *scope* of None is any.
        """
        return await self._look_up(
            lambda connection: queries.find_session(connection, scope, id, hash)
        )

    async def response(self, id: str, *, scope: str) -> ResponseRow | None:  # noqa: A002
        """Return a live response of *scope*."""
        return await self._look_up(lambda connection: queries.find_response(connection, scope, id))

    async def requests(self, query: RequestQuery) -> Page[RequestRow]:
        """Return requests, newest first."""
        return await self._list(lambda connection: queries.list_requests(connection, query))

    async def request(self, id: str) -> RequestDetail | None:  # noqa: A002
        """Return a request with its bodies."""
        return await self._list(lambda connection: queries.find_request(connection, id))

    async def sessions(self, query: SessionQuery) -> Page[SessionRow]:
        """Return sessions, the newest first."""
        return await self._list(lambda connection: queries.list_sessions(connection, query))

    async def follow(self, after: str, limit: int) -> list[RequestRow]:
        """Return requests newer than the one with the id *after*, oldest first."""
        return await self._list(lambda connection: queries.list_newer(connection, after, limit))

    async def named(self, ids: Sequence[str]) -> list[RequestRow]:
        """Return the requests with these *ids*, in any order."""
        return await self._list(lambda connection: queries.list_named(connection, ids))

    async def overview(self, query: OverviewQuery) -> Overview:
        """Return statistics of requests over time."""
        return await self._list(lambda connection: overview(connection, query))

    async def conversations(
        self, scope: str | None, before: str, limit: int
    ) -> Page[ConversationRow]:
        """Return conversations of several requests, the one with the newest request first."""
        return await self._list(
            lambda connection: queries.list_conversations(connection, scope, before, limit)
        )

    async def first_time(self, scope: str | None, since: float) -> float | None:
        """Return when the first request after *since* arrived; None if there is none."""
        return await self._list(
            lambda connection: queries.find_first_time(connection, scope, since)
        )

    async def totals(self, since: float) -> Totals:
        """Return the totals of the requests since *since*."""
        return await self._list(lambda connection: queries.find_totals(connection, since))

    async def _look_up(self, work: Callable[[Connection], Result]) -> Result:
        return await self._query(self._lookups, work, LOOKUP_SECONDS)

    async def _list(self, work: Callable[[Connection], Result]) -> Result:
        return await self._query(self._lists, work, SEARCH_SECONDS)

    async def _query(
        self, pool: ReadPool, work: Callable[[Connection], Result], seconds: float
    ) -> Result:
        def query() -> Result:
            with read_connection(self._reading, seconds) as connection:
                return work(connection)

        try:
            return await pool.run(query, seconds)
        except (SQLAlchemyError, OSError) as exc:
            problem = self._describe(exc)
            raise StoreError(f"cannot read the database: {problem}") from exc


def _measure(record: Record) -> int:
    """Return about how many bytes *record* takes in memory."""
    match record:
        case RequestStarted():
            size = len(record.request)
        case RequestEnded():
            size = len(record.text) + len(record.search) + len(record.upstream_request)
            size += len(record.response) + len(record.timeline)
            size += sum(map(len, record.raw)) + sum(map(len, record.events))
        case ResponseRow():
            size = len(record.data)
        case SessionRow():
            size = 0
    return OVERHEAD + size
