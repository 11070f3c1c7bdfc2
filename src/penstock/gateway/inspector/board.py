"""What is on its way right now, for whoever watches.

Answers of this process are known from their start to their end by their journals, which are read by
a timer and know nothing of it. Those of other workers, and how each answer ended, are in the store.
One task looks at both, twice a second, for all watchers together, and only while there are any.
Each watcher has a queue with a bound: who does not read misses rows, and is told so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from penstock import _json
from penstock.gateway.errors import HTTPError
from penstock.store import MAX_PAGE, RequestQuery, RequestRow, Store, StoreError

if TYPE_CHECKING:
    from penstock.gateway.request_log import RequestLog

TICK: Final = 0.5
"""How many seconds lie between two looks."""

MAX_WATCHERS: Final = 64
"""How many pages may watch at a time."""

MAX_EACH: Final = 8
"""How many of them may have the same key."""

MAX_QUEUED: Final = 64
"""How many looks a watcher may be behind."""

MAX_PROGRESS: Final = 200
"""Of how many answers progress is told in one look: no screen shows more."""

MAX_PAGES: Final = 5
"""How many pages of new rows are read in one look; who would have been told more is told so."""

MAX_RUNNING: Final = 10_000
"""How many answers are followed to their end."""

OVERLAP: Final = 5.0
"""How many seconds late a row may come into the store, behind rows that began after it."""

GAP: Final = b"event: gap\ndata: {}\n\n"

_NO_WORDS: Final = ("finish", "error_kind", "error_type", "error_message")
_NO_NUMBERS: Final = (
    *("status", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens"),
)
_UNKNOWN: Final[dict[str, Any]] = {**dict.fromkeys(_NO_WORDS, ""), **dict.fromkeys(_NO_NUMBERS)}
"""What is not known of an answer before its end."""

Told = tuple[str | None, bytes]
"""Whose it is, or None where it concerns all, and what a watcher is told."""


class Watcher:
    """One page that watches; it is told what is of its *scope*, and everything if that is None."""

    def __init__(self, scope: str | None) -> None:
        self.scope = scope
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(MAX_QUEUED)
        self._has_gap = False

    def tell(self, told: Iterable[Told]) -> None:
        """Queue what is of this watcher's scope; never waits."""
        mine = [data for scope, data in told if scope is None or self.scope in (None, scope)]
        if not mine:
            return
        try:
            self._queue.put_nowait(b"".join([GAP, *mine] if self._has_gap else mine))
            self._has_gap = False
        except asyncio.QueueFull:
            self._has_gap = True

    async def next(self) -> bytes:
        """Wait for what is to be told next."""
        return await self._queue.get()


class Board:
    """Knows the answers that are on their way, and tells watchers."""

    def __init__(self) -> None:
        self.open: dict[str, RequestLog] = {}
        """The accounts of this process's open answers, by their ids."""
        self._watchers: set[Watcher] = set()
        self._looking: asyncio.Task[None] | None = None

    @contextmanager
    def watching(self, store: Store, scope: str | None) -> Iterator[Watcher]:
        """Watch until the end of the block; raise `HTTPError` where too many do."""
        if len(self._watchers) >= MAX_WATCHERS:
            raise HTTPError(503, "too many pages watch already", retry_after=5.0)
        if scope is not None and sum(one.scope == scope for one in self._watchers) >= MAX_EACH:
            raise HTTPError(429, "too many pages watch with this key already", retry_after=5.0)
        watcher = Watcher(scope)
        self._watchers.add(watcher)
        watcher.tell(told_of(row_of(journal)) for journal in list(self.open.values())[-MAX_PAGE:])
        if self._looking is None:
            look = self._look(_Round(store, self.open))
            self._looking = asyncio.create_task(look, name="penstock: the live board")
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            if not self._watchers and self._looking is not None:
                self._looking.cancel()
                self._looking = None

    async def _look(self, round_: _Round) -> None:
        while True:
            told = await round_.told()
            for watcher in self._watchers:
                watcher.tell(told)
            await asyncio.sleep(TICK)


class _Round:
    """Looks again and again, and remembers what was told."""

    def __init__(self, store: Store, open_: dict[str, RequestLog]) -> None:
        self._store = store
        self._open = open_
        self._began = time.time()
        self._has_begun = False  # whether those that other workers had open are known
        self._running: dict[str, None] = dict.fromkeys(open_)  # told of, and not ended
        self._seen: dict[str, None] = dict.fromkeys(open_)  # lately, so that it is told once

    async def told(self) -> list[Told]:
        """Give what is new since the last look."""
        told = [*self._of_this_process()]
        with suppress(StoreError):  # The log is down: there may be more to tell later.
            if not self._has_begun:
                query = RequestQuery(state="started", limit=MAX_PAGE)
                told += self._new((await self._store.requests(query)).items)
                self._has_begun = True
            told += await self._followed()
            told += self._ended(await self._store.named(self._waiting()))
        while len(self._running) > MAX_RUNNING:
            del self._running[next(iter(self._running))]
        return told

    def _of_this_process(self) -> Iterator[Told]:
        fresh = [journal for id_, journal in self._open.items() if id_ not in self._seen]
        known = [journal for id_, journal in self._open.items() if id_ in self._seen]
        for journal in known[-MAX_PROGRESS:]:
            yield journal.started.scope, _event("progress", _progress(journal))
        for journal in fresh[-MAX_PAGE:]:
            self._note(journal.started.id)
            yield told_of(row_of(journal))

    async def _followed(self) -> list[Told]:
        """Give the rows that are new in the store; say so where there are more."""
        told: list[Told] = []
        after = self._after()
        for _ in range(MAX_PAGES):
            rows = await self._store.follow(after, MAX_PAGE)
            told += self._new(rows)
            if len(rows) < MAX_PAGE:
                return told
            after = rows[-1].id
        return [(None, GAP), *told]

    def _after(self) -> str:
        """Give an id that is older than any that is new; ids begin with their time."""
        moment = max(self._began, time.time() - OVERLAP)
        return f"{int(moment * 1000):012x}"

    def _new(self, rows: list[RequestRow]) -> Iterator[Told]:
        for row in rows:
            if row.id in self._seen:
                continue
            self._note(row.id)
            if row.state != "started":
                del self._running[row.id]
            yield told_of(row)

    def _waiting(self) -> list[str]:
        """Name those that may have ended: this process has not got them open."""
        return [id_ for id_ in self._running if id_ not in self._open][:MAX_PAGE]

    def _ended(self, rows: list[RequestRow]) -> Iterator[Told]:
        for row in rows:
            if row.state != "started":
                self._running.pop(row.id, None)
                yield told_of(row)

    def _note(self, id_: str) -> None:
        self._running[id_] = self._seen[id_] = None
        while len(self._seen) > MAX_RUNNING:
            del self._seen[next(iter(self._seen))]


def told_of(row: RequestRow) -> Told:
    """Tell of *row*."""
    return row.scope, _event("row", row)


def row_of(journal: RequestLog) -> RequestRow:
    """Give the row of an answer that is on its way."""
    started = structs.asdict(journal.started)
    known = {name: started[name] for name in RequestRow.__struct_fields__ if name in started}
    return RequestRow(
        **known,
        **_UNKNOWN,
        state="started",
        first_byte=journal.first_byte,
        first_token=journal.first_token,
        duration=journal.passed(),
        chunks=journal.chunks,
        calls=0,
        repairs=[],
        size=0,
    )


def _progress(journal: RequestLog) -> dict[str, Any]:
    return {
        "id": journal.started.id,
        "chunks": journal.chunks,
        "first_byte": journal.first_byte,
        "first_token": journal.first_token,
        "duration": journal.passed(),
    }


def _event(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _json.encode_wire(value))
