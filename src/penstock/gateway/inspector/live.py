"""Report what happens in the gateway now: responses in progress, and what they cost.

`LiveFeed` notifies the pages that watch. The responses of this process are known by their journals
from start to end; a timer reads them, so a response in progress does no work for the feed. Those of
other worker processes, and the end of each response, are in the store. One task reads both twice a
second for all watchers, and only while there are any. Each watcher has a bounded queue; one that
does not read misses rows and is notified of the gap.

`CpuSamples` keeps what a chunk of a response has cost this process, over time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import structs

from penstock import _json
from penstock.gateway.errors import HTTPError
from penstock.store import MAX_PAGE, RequestQuery, RequestRow, Store, StoreError

if TYPE_CHECKING:
    from penstock.gateway.request_log import RequestLog

INTERVAL: Final = 0.5
"""How many seconds are between two updates."""

MAX_WATCHERS: Final = 64
"""How many pages may watch at a time."""

MAX_PER_KEY: Final = 8
"""How many of them may use the same key."""

MAX_QUEUED: Final = 64
"""How many updates a watcher may be behind."""

MAX_PROGRESS: Final = 200
"""The progress of how many responses one update holds: no screen shows more."""

MAX_PAGES: Final = 5
"""How many pages of new rows are read for one update; more of them are a gap."""

MAX_RUNNING: Final = 10_000
"""How many responses are followed to their end."""

OVERLAP: Final = 5.0
"""How many seconds late a row may be stored, after rows that began later."""

GAP: Final = b"event: gap\ndata: {}\n\n"

_EMPTY: Final = ("finish", "error_kind", "error_type", "error_message")
_NONE: Final = ("status", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
_UNKNOWN: Final[dict[str, Any]] = {**dict.fromkeys(_EMPTY, ""), **dict.fromkeys(_NONE)}
"""The fields of a row that are not known before the end of the response."""

Update = tuple[str | None, bytes]
"""The scope that may see it, or None for all, and the frames of the event stream."""


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
        """The journals of this process's responses in progress, by request id."""
        self._watchers: set[Watcher] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, store: Store, scope: str | None) -> Iterator[Watcher]:
        """Watch until the end of the block; raise `HTTPError` if there are too many watchers."""
        if len(self._watchers) >= MAX_WATCHERS:
            reason = f"{MAX_WATCHERS} pages are watching already; close one and try again"
            raise HTTPError(503, reason, retry_after=5.0)
        if scope is not None and sum(one.scope == scope for one in self._watchers) >= MAX_PER_KEY:
            reason = f"{MAX_PER_KEY} pages are watching with this key already; close one of them"
            raise HTTPError(429, reason, retry_after=5.0)
        watcher = Watcher(scope)
        self._watchers.add(watcher)
        watcher.push(make_update(make_row(one)) for one in list(self.open.values())[-MAX_PAGE:])
        if self._task is None:
            updating = self._update(_Follower(store, self.open))
            self._task = asyncio.create_task(updating, name="penstock: live feed")
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)
            if not self._watchers and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _update(self, follower: _Follower) -> None:
        while True:
            updates = await follower.read_updates()
            for watcher in self._watchers:
                watcher.push(updates)
            await asyncio.sleep(INTERVAL)


class _Follower:
    """Reads the journals and the store, and remembers what was reported."""

    def __init__(self, store: Store, open_: dict[str, RequestLog]) -> None:
        self._store = store
        self._open = open_
        self._began = time.time()
        self._has_begun = False  # whether the open responses of other processes are known
        self._running: dict[str, None] = dict.fromkeys(open_)  # reported, and not ended
        self._seen: dict[str, None] = dict.fromkeys(open_)  # reported lately

    async def read_updates(self) -> list[Update]:
        """Return what is new since the last time."""
        updates = [*self._read_journals()]
        with suppress(StoreError):  # The store is down: its rows are reported later.
            if not self._has_begun:
                query = RequestQuery(state="started", limit=MAX_PAGE)
                updates += self._report_new((await self._store.requests(query)).items)
                self._has_begun = True
            updates += await self._read_new_rows()
            # Those that this process has not got open may have ended.
            waiting = [id_ for id_ in self._running if id_ not in self._open][:MAX_PAGE]
            for row in await self._store.named(waiting):
                if row.state != "started":
                    self._running.pop(row.id, None)
                    updates.append(make_update(row))
        while len(self._running) > MAX_RUNNING:
            del self._running[next(iter(self._running))]
        return updates

    def _read_journals(self) -> Iterator[Update]:
        fresh = [journal for id_, journal in self._open.items() if id_ not in self._seen]
        known = [journal for id_, journal in self._open.items() if id_ in self._seen]
        for journal in known[-MAX_PROGRESS:]:
            progress = {
                "id": journal.started.id,
                "chunks": journal.chunks,
                "first_byte": journal.first_byte,
                "first_token": journal.first_token,
                "duration": journal.passed(),
            }
            yield journal.started.scope, _encode_frame("progress", progress)
        for journal in fresh[-MAX_PAGE:]:
            self._remember(journal.started.id)
            yield make_update(make_row(journal))

    async def _read_new_rows(self) -> list[Update]:
        """Return the rows that are new in the store, with a gap if there are more."""
        updates: list[Update] = []
        # Ids begin with their time, so this one is older than any that is new.
        after = f"{int(max(self._began, time.time() - OVERLAP) * 1000):012x}"
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


def make_update(row: RequestRow) -> Update:
    """Return the update that reports *row*."""
    return row.scope, _encode_frame("row", row)


def make_row(journal: RequestLog) -> RequestRow:
    """Return the row of a response in progress."""
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


def _encode_frame(name: str, value: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), _json.encode_wire(value))


# --- processor time ---

SAMPLE_INTERVAL: Final = 10.0
"""How many seconds are between two samples."""

MAX_SAMPLES: Final = 10_000
"""How many samples are kept: those of a bit more than a day."""

MIN_CHUNKS: Final = 100
"""From how many chunks on the cost of one is shown: with fewer, other work dominates."""


class CpuSample(NamedTuple):
    """The processor time of the process, and how many chunks it had sent, at a moment."""

    at: float
    seconds: float
    chunks: int


class CpuSamples:
    """Samples of the processor time of one process, one at most every `SAMPLE_INTERVAL`.

    The time between two samples is that of the chunks between them, and of everything else that the
    process did meanwhile. The inspector's worker process is not part of it.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        cpu_time: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._cpu_time = cpu_time
        self._samples = deque([CpuSample(clock(), cpu_time(), 0)], MAX_SAMPLES)
        self.chunks = 0

    def note(self, chunks: int) -> None:
        """Count the chunks of a response that has ended."""
        self.chunks += chunks
        now = self._clock()
        if now - self._samples[-1].at >= SAMPLE_INTERVAL:
            self._samples.append(CpuSample(now, self._cpu_time(), self.chunks))

    def per_bucket(self, since: float, width: float, number: int) -> list[float | None]:
        """Return the microseconds of one chunk in each of *number* buckets of *width* seconds."""
        seconds, chunks = [0.0] * number, [0] * number
        for before, sample in pairwise(self._samples):
            place = int((sample.at - since) // width)
            if 0 <= place < number:
                seconds[place] += sample.seconds - before.seconds
                chunks[place] += sample.chunks - before.chunks
        return [
            cost / many * 1e6 if many >= MIN_CHUNKS else None
            for cost, many in zip(seconds, chunks, strict=True)
        ]
