"""Heavy work, away from the loop in which answers stream.

It runs on a few threads of its own. While it runs, the interpreter changes threads more often than
it usually does, so the loop gets its turn every millisecond, as long as no single step takes more:
so a long answer is written as JSON piece by piece, and the garbage collector, which would look
through a hundred thousand new objects at once, waits for a moment (`_Quiet`).

No key has more than one piece of work done at a time, so that nobody keeps all threads from others,
and who comes when too much waits already is told so at once. Work whose caller has left is dropped
if it waits, and ends when it next looks up (`jobs`). The threads keep no process from its end.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Condition, Lock
from typing import Any, Final, TypeVar

from penstock import _json
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import ClientDisconnectedError
from penstock.gateway.inspector.jobs import Job, look_up

THREADS: Final = 2
"""How many pieces of work run at once: they share one processor with the answers."""

MAX_WAITING: Final = 16
"""How many pieces of work may wait: a page asks for one or two at a time."""

MAX_EACH: Final = 4
"""How many pieces of work of one key are done or wait at a time."""

MAX_QUIET: Final = 1.0
"""For how many seconds the garbage collector waits at most: others make garbage meanwhile."""

TURN: Final = 0.0005
"""After how many seconds heavy work lets others have the interpreter."""

STEP: Final = 1_000
"""How many items of a list are written at a time."""

MAX_DEPTH: Final = 8
"""How deep a value is taken apart: what lies deeper is never much."""

TEXT_STEP: Final = 200_000
"""How many characters of a text are written at a time: well below a millisecond."""

Result = TypeVar("Result")


class Workshop:
    """Does work on threads, which begin with the first piece of it."""

    def __init__(self) -> None:
        self._threads = 0
        self._change = Condition()
        self._waiting: list[Job] = []
        self._running: list[Job] = []

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do *work* of one without a key, on a thread; raise `HTTPError` where too much waits."""
        result: Result = await self.result(self.take(Job(work)))
        return result

    async def result(self, job: Job) -> Any:
        """Wait for what comes of *job*; raise what ended it."""
        waiting = asyncio.wrap_future(job.done)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            waiting.add_done_callback(_forget)
            self.give_up(job, ClientDisconnectedError())
            raise

    def take(self, job: Job) -> Job:
        """Let *job* be done when its turn comes; raise `HTTPError` where too much waits already."""
        with self._change:
            inside = [*self._waiting, *self._running]
            if len(inside) >= THREADS + MAX_WAITING:
                raise HTTPError(503, "the inspector has too much to do", retry_after=1.0)
            if job.whose is not None and _count(inside, job.whose) >= MAX_EACH:
                reason = "the inspector does enough for this key already"
                raise HTTPError(429, reason, retry_after=1.0)
            self._waiting.append(job)
            self._change.notify()
        if self._threads < THREADS:
            self._threads += 1
            name = f"penstock: inspector {self._threads}"
            threading.Thread(target=self._work, name=name, daemon=True).start()
        return job

    def give_up(self, job: Job, why: Exception) -> None:
        """End *job* with *why*: at once where it waits, and when it next looks up where it runs."""
        job.give_up(why)
        with self._change:
            if job not in self._waiting:
                return
            self._waiting.remove(job)
        job.done.set_exception(why)

    def _work(self) -> None:
        while True:
            with self._change:
                while (job := self._next()) is None:
                    self._change.wait()
                self._waiting.remove(job)
                self._running.append(job)
            with _quiet.kept():
                job.run(_quiet.look)
            with self._change:
                self._running.remove(job)
                self._change.notify_all()
            del job  # and what it holds, while the next one is waited for

    def _next(self) -> Job | None:
        """Find the first piece of work of whoever has none done at the moment."""
        busy = {job.whose for job in self._running} - {None}
        return next((job for job in self._waiting if job.whose not in busy), None)


def _count(jobs: list[Job], whose: str) -> int:
    return sum(job.whose == whose for job in jobs)


def _forget(done: asyncio.Future[Any]) -> None:
    """Take what nobody waits for, so that nobody complains that it was not taken."""
    if not done.cancelled():
        done.exception()


class _Quiet:
    """Keeps heavy work from being felt by others, while there is any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._was_on = False
        self._turn = TURN
        self._since = 0.0  # when the garbage collector was told to wait

    @contextmanager
    def kept(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._was_on, self._turn = gc.isenabled(), sys.getswitchinterval()
                self._since = time.monotonic()
                gc.disable()
                sys.setswitchinterval(min(TURN, self._turn))
            self._inside += 1
        self.look()
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    sys.setswitchinterval(self._turn)
                    if self._was_on:
                        gc.enable()

    def look(self) -> None:
        """Let the garbage collector go on if it has waited long enough, until all work is done."""
        if self._was_on and time.monotonic() - self._since > MAX_QUIET and not gc.isenabled():
            gc.enable()


_quiet: Final = _Quiet()  # one of a process, as the interpreter is


def encode(value: object) -> bytes:
    """Write *value* as `_json.encode_wire` does, no long step in it."""
    pieces = []
    for piece in _written(value):
        look_up()
        pieces.append(piece)
    return b"".join(pieces)


def _written(value: object, depth: int = 0) -> Iterator[bytes]:
    match value:
        case dict() if value and depth < MAX_DEPTH:
            yield from _members(value, depth + 1)
        case list() | tuple() if len(value) > STEP:
            for at in range(0, len(value), STEP):
                yield (b"," if at else b"[") + _json.encode_wire(value[at : at + STEP])[1:-1]
            yield b"]"
        case str() if len(value) > TEXT_STEP:
            yield b'"'
            for at in range(0, len(value), TEXT_STEP):
                yield _json.encode_wire(value[at : at + TEXT_STEP])[1:-1]
            yield b'"'
        case _:
            yield _json.encode_wire(value)


def _members(value: dict[Any, Any], depth: int) -> Iterator[bytes]:
    before = b"{"
    for name, inner in value.items():
        yield before + _json.encode_wire(str(name)) + b":"
        yield from _written(inner, depth)
        before = b","
    yield b"}"
