"""A line of those who wait for the one engine, and the thread that serves it.

The engine writes one answer at a time. Its thread begins with the first who waits and ends with the
last, so that a model at rest holds no thread and a program can end. An answer that nobody wants any
more is stopped at its next token, and one that still waits is never begun.

What an answer has brought waits in memory until it is taken: all of it is at most as long as the
model's context.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import Any, Final, Self

from penstock.errors import ProviderError, UsageError
from penstock.models.local.engine import Engine, Piece

MAX_WAITING: Final = 16
"""How many may wait for the engine; one more is told to come back later."""


class Turn:
    """One who waits in line with the *fields* that the engine is asked, and then is served.

    Iterating gives the pieces of the answer as they come, and raises what the engine raised.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[Piece | Exception | None] = asyncio.Queue()
        self.is_wanted = True

    # --- in the loop ---

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Piece:
        arrived = await self._arrived.get()
        if arrived is None:
            raise StopAsyncIteration
        if isinstance(arrived, Exception):
            raise arrived
        return arrived

    # --- in the thread ---

    def serve(self, engine: Engine) -> None:
        """Let *engine* write the answer."""
        end: Exception | None = None
        try:
            if self.is_wanted:
                engine.write(self._fields, self._take)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it belongs to the one who waits
            end = exc
        self._hand_over(end)

    def _take(self, piece: Piece) -> bool:
        self._hand_over(piece)
        # A program that ends waits for its threads: this one is not worth waiting for.
        return not (self.is_wanted and threading.main_thread().is_alive())

    def _hand_over(self, arrived: Piece | Exception | None) -> None:
        try:
            self._loop.call_soon_threadsafe(self._arrived.put_nowait, arrived)
        except RuntimeError:  # The loop has ended, and with it whoever waited.
            self.is_wanted = False


class Line:
    """Serves turns one after another from *engine*, in a thread of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._waiting: deque[Turn] = deque()
        self._served: Turn | None = None
        self._thread: threading.Thread | None = None  # while there is work
        self._is_closed = False

    def join(self, turn: Turn) -> None:
        """Queue up; raise `ProviderError` where the line is too long."""
        with self._lock:
            if self._is_closed:
                raise UsageError("the model was closed")
            if len(self._waiting) >= MAX_WAITING:
                raise ProviderError(
                    f"{MAX_WAITING} answers wait for the model already",
                    status=503,
                    type="overloaded",
                )
            self._waiting.append(turn)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="penstock: local model")
                self._thread.start()

    def leave(self, turn: Turn) -> None:
        """Want no more: a turn that waits is dropped, one that is served ends soon."""
        turn.is_wanted = False
        with self._lock, suppress(ValueError):
            self._waiting.remove(turn)

    def close(self) -> None:
        """End all turns and the engine; waits for the thread."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            for turn in (*self._waiting, *filter(None, [self._served])):
                turn.is_wanted = False
        if thread is not None:
            thread.join()
        self._engine.close()

    def _serve(self) -> None:
        while (turn := self._next()) is not None:
            turn.serve(self._engine)

    def _next(self) -> Turn | None:
        with self._lock:
            self._served = self._waiting.popleft() if self._waiting else None
            if self._served is None:
                self._thread = None
            return self._served
