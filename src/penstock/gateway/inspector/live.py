"""Report the responses in progress.

`LiveFeed` notifies the pages that watch. The responses of this process are known by their logs
from start to end; a timer reads them, so a response in progress does no work for the feed. Those of
other worker processes, and the end of each response, are in the store. One task reads both twice a
second for all watchers, and only while there are any. Each watcher has a bounded queue; one that
does not read misses rows and is notified of the gap.

`StreamTail` reads what one response in progress has logged so far, for the page that shows it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import structs

from penstock import _json
from penstock.gateway.errors import RETRY_LATER, HTTPError
from penstock.store import MAX_PAGE, RequestQuery, RequestRow, Store, StoreError

if TYPE_CHECKING:
    from penstock.gateway.request_log import RequestLog

INTERVAL: Final = 0.5
"""How many seconds are between two updates."""

TAIL_INTERVAL: Final = 0.2
"""How many seconds are between two updates of one response: text appears to flow."""

MAX_TAIL: Final = 262_144
"""How many bytes of events one update has: to decompress them takes about a millisecond."""

MAX_WATCHERS: Final = 64
"""How many pages may watch at a time."""

MAX_PER_KEY: Final = 8
"""How many of them may use the same key."""

MAX_QUEUED: Final = 64
"""How many updates may wait for a watcher."""

MAX_PROGRESS: Final = 200
"""The progress of how many responses one update holds: no screen shows more."""

MAX_PAGES: Final = 5
"""How many pages of new rows are read for one update; more of them are a gap."""

MAX_ENDED: Final = 1_000
"""How many responses that have ended are known before their rows are stored."""

MAX_RUNNING: Final = 10_000
"""How many responses are followed to their end."""

OVERLAP: Final = 5.0
"""How many seconds late a row may be stored, after rows that began later."""

LATE: Final = 60.0
"""How many seconds late a row of this process may be stored: its database may be busy."""

GAP: Final = b"event: gap\ndata: {}\n\n"

_EMPTY: Final = (
    *("finish", "error_kind", "error_type", "error_message"),
    *("summary", "found", "unread_reason", "conversation"),
)
_NONE: Final = ("status", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
# The fields of a row that are not known before the end of the response.
_UNKNOWN: Final[dict[str, Any]] = {**dict.fromkeys(_EMPTY, ""), **dict.fromkeys(_NONE)}

Update = tuple[str | None, bytes]
"""The scope that may see it, or None for all, and the frames of the event stream."""


# A slow page gets a gap and reads the list again, instead of slowing down the others or the
# gateway.
class Watcher:
    """A page that watches *scope*, or everything if that is None."""

    def __init__(self, scope: str | None) -> None:
        self.scope = scope
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(MAX_QUEUED)
        self._has_gap = False

    def push(self, updates: Iterable[Update]) -> None:
        """Queue the updates of this watcher's scope; never waits."""
        mine = [data for scope, data in updates if scope is None or self.scope in (None, scope)]
        if not mine:
            return
        try:
            self._queue.put_nowait(b"".join([GAP, *mine] if self._has_gap else mine))
            self._has_gap = False
        except asyncio.QueueFull:
            self._has_gap = True

    async def next(self) -> bytes:
        """Wait for the next frames."""
        return await self._queue.get()


class LiveFeed:
    """Notifies watchers of responses as they start, progress and end."""

    def __init__(self) -> None:
        self.open: dict[str, RequestLog] = {}
        """The logs of this process's responses in progress, by request id."""
        self.ended: deque[str] = deque(maxlen=MAX_ENDED)
        """The ids of this process's responses that ended lately."""
        self._watchers: set[Watcher] = set()
        self._listening = 0  # how many of them watch all responses
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, store: Store, scope: str | None) -> Iterator[Watcher]:
        """Watch until the end of the block; raise `HTTPError` if there are too many watchers."""
        with self.admit(scope) as watcher:
            watcher.push(make_update(make_row(one)) for one in list(self.open.values())[-MAX_PAGE:])
            if self._task is None:
                updating = self._update(_Follower(store, self.open, self.ended))
                self._task = asyncio.create_task(updating, name="penstock: live feed")
            self._listening += 1
            try:
                yield watcher
            finally:
                self._listening -= 1
                if not self._listening and self._task is not None:
                    self._task.cancel()
                    self._task = None

    @contextmanager
    def admit(self, scope: str | None) -> Iterator[Watcher]:
        """Count a page as watching; raise `HTTPError` if there are too many."""
        if len(self._watchers) >= MAX_WATCHERS:
            reason = f"{MAX_WATCHERS} pages are watching already; close one and try again"
            raise HTTPError(503, reason, retry_after=RETRY_LATER)
        if scope is not None and sum(one.scope == scope for one in self._watchers) >= MAX_PER_KEY:
            reason = f"{MAX_PER_KEY} pages are watching with this key already; close one of them"
            raise HTTPError(429, reason, retry_after=RETRY_LATER)
        watcher = Watcher(scope)
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    async def _update(self, follower: _Follower) -> None:
        while True:
            updates = await follower.read_updates()
            for watcher in self._watchers:
                watcher.push(updates)
            # The database is asked once for all pages, however many watch.
            await asyncio.sleep(INTERVAL)


class _Follower:
    """Reads the logs and the store, and remembers what was reported."""

    def __init__(self, store: Store, open_: dict[str, RequestLog], ended: Collection[str]) -> None:
        self._store = store
        self._open = open_
        self._ended = ended
        self._has_begun = False  # whether the open responses of other processes are known
        self._running: dict[str, None] = dict.fromkeys(open_)  # reported, and not ended
        self._seen: dict[str, None] = dict.fromkeys(open_)  # reported lately

    async def read_updates(self) -> list[Update]:
        """Return what is new since the last time."""
        updates = [*self._read_open()]
        recent = _id_at(time.time() - LATE)
        # Started and ended between two updates.
        for id_ in [one for one in self._ended if one > recent and one not in self._seen]:
            self._remember(id_)  # reported when its row is stored
        with suppress(StoreError):  # The store is down: its rows are reported later.
            if not self._has_begun:
                query = RequestQuery(state="started", limit=MAX_PAGE)
                updates += self._report_new((await self._store.requests(query)).items)
                self._has_begun = True
            updates += await self._read_new_rows()
            # Those that this process has not got open may have ended.
            waiting = [id_ for id_ in self._running if id_ not in self._open][:MAX_PAGE]
            for id_ in waiting:  # Those that are never stored must not keep out the others.
                self._running[id_] = self._running.pop(id_)
            for row in await self._store.named(waiting):
                if row.state != "started":
                    self._running.pop(row.id, None)
                    updates.append(make_update(row))
        while len(self._running) > MAX_RUNNING:
            del self._running[next(iter(self._running))]
        return updates

    def _read_open(self) -> Iterator[Update]:
        fresh = [log for id_, log in self._open.items() if id_ not in self._seen]
        known = [log for id_, log in self._open.items() if id_ in self._seen]
        for log in known[-MAX_PROGRESS:]:
            progress = {
                "id": log.started.id,
                "chunks": log.chunks,
                "first_byte": log.first_byte,
                "first_token": log.first_token,
                "duration": log.elapsed(),
            }
            yield log.started.scope, _encode_frame("progress", progress)
        for log in fresh[-MAX_PAGE:]:
            self._remember(log.started.id)
            yield make_update(make_row(log))

    async def _read_new_rows(self) -> list[Update]:
        """Return the rows that are new in the store, with a gap if there are more."""
        updates: list[Update] = []
        # Rows that began before the first watcher came may be stored after it has read its list.
        after = _id_at(time.time() - OVERLAP)
        for _ in range(MAX_PAGES):
            rows = await self._store.follow(after, MAX_PAGE)
            updates += self._report_new(rows)
            if len(rows) < MAX_PAGE:
                return updates
            after = rows[-1].id
        return [(None, GAP), *updates]

    def _report_new(self, rows: list[RequestRow]) -> Iterator[Update]:
        for row in rows:
            if row.id in self._seen:
                continue
            self._remember(row.id)
            if row.state != "started":
                del self._running[row.id]
            yield make_update(row)

    def _remember(self, id_: str) -> None:
        self._running[id_] = self._seen[id_] = None
        while len(self._seen) > MAX_RUNNING:
            del self._seen[next(iter(self._seen))]


def _id_at(seconds: float) -> str:
    """Return what is smaller than every id made after *seconds*: ids begin with their time."""
    return f"{int(seconds * 1000):012x}"


def make_update(row: RequestRow) -> Update:
    """Return the update that reports *row*."""
    return row.scope, _encode_frame("row", row)


def make_row(log: RequestLog) -> RequestRow:
    """Return the row of a response in progress."""
    started = structs.asdict(log.started)
    known = {name: started[name] for name in RequestRow.__struct_fields__ if name in started}
    return RequestRow(
        **known,
        **_UNKNOWN,
        state="started",
        first_byte=log.first_byte,
        first_token=log.first_token,
        duration=log.elapsed(),
        chunks=log.chunks,
        calls=0,
        incomplete=0,
        unread=0,
        repairs=[],
        size=0,
    )


def _encode_frame(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _json.encode_wire(value))


class StreamTail:
    """Reads the events and chunks of one response in progress from its *log*."""

    def __init__(self, log: RequestLog) -> None:
        self._log = log
        self._events = 0  # bytes that were read
        self._chunks = 0

    def read(self) -> tuple[bytes, bool]:
        """Return the frames for what is new, and whether there is more already."""
        data = self._log.read_events(self._events, MAX_TAIL)
        is_more = len(data) >= MAX_TAIL
        # Events are lines; the last one may not be whole yet.
        data = data[: data.rfind(b"\n") + 1]
        self._events += len(data)
        chunks = self._log.read_chunks(self._chunks)
        self._chunks += len(chunks)
        if not data and not chunks:
            return b"", is_more
        lines = b",".join(data.splitlines())
        ms = int(self._log.elapsed() * 1000)
        listed = _json.encode_wire(chunks)
        frame = b'event: more\ndata: {"ms":%d,"chunks":%s,"events":[%s]}\n\n'
        return frame % (ms, listed, lines), is_more
