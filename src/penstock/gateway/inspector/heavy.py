"""Heavy work, away from the loop in which answers stream.

It runs on a few threads of its own. While it runs, the interpreter changes threads more often than
it usually does, so the loop gets its turn every millisecond, as long as no single step takes more:
so a long answer is written as JSON piece by piece, and the garbage collector, which would look
through a hundred thousand new objects at once, waits until the work is done. Who comes when too
much waits already is told so at once.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final, TypeVar

from penstock import _json
from penstock.gateway.refusals import Refusal

THREADS: Final = 2
"""How many pieces of work run at once: they share one processor with the answers."""

MAX_WAITING: Final = 16
"""How many pieces of work may wait: a page asks for one or two at a time."""

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
        self._threads: ThreadPoolExecutor | None = None
        self._lock = Lock()
        self._inside = 0  # what is being done, and what waits
        self._quiet = _Quiet()

    async def do(self, work: Callable[[], Result]) -> Result:
        """Do *work* on a thread; raise `Refusal` where too much waits already."""
        if self._inside >= THREADS + MAX_WAITING:
            raise Refusal(503, "the inspector has too much to do", retry_after=1.0)
        if self._threads is None:
            self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="penstock: inspector")
        with self._lock:
            self._inside += 1
        job = self._threads.submit(self._do, work)
        job.add_done_callback(self._leave)  # Work goes on where nobody waits for it any more.
        return await asyncio.wrap_future(job)

    def _leave(self, job: Future[Any]) -> None:
        del job
        with self._lock:
            self._inside -= 1

    def _do(self, work: Callable[[], Result]) -> Result:
        with self._quiet.kept():
            return work()


class _Quiet:
    """Keeps heavy work from being felt by others, while there is any."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._was_on = False
        self._turn = TURN

    @contextmanager
    def kept(self) -> Iterator[None]:
        with self._lock:
            if not self._inside:
                self._was_on, self._turn = gc.isenabled(), sys.getswitchinterval()
                gc.disable()
                sys.setswitchinterval(min(TURN, self._turn))
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    sys.setswitchinterval(self._turn)
                    if self._was_on:
                        gc.enable()


def encode(value: object) -> bytes:
    """Write *value* as `_json.encode_wire` does, no long step in it."""
    return b"".join(_written(value))


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
