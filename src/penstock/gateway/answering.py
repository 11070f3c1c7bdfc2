"""One request answered: events of a model in, bytes of the client's API out.

This is the hot path. What arrives together from the upstream leaves together: one list of events,
one `send`, and the next list is asked for when the client has room. There is no queue, so whoever
reads slowly slows the upstream down, and nothing is held but what is on its way.

A client that hangs up cancels the task, and with it the upstream's connection, whatever it waits
for. An upstream that fails before anything went out is answered with a status; afterwards with the
error of the client's API, in the stream. A client that waits long for the first word gets a sign of
life, and so does one that waits in the middle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from logging import getLogger
from typing import Any, Final, Literal, Protocol

from msgspec import structs

from penstock.apis.encoding import StreamEncoder, ending_of, failure_of
from penstock.events import Done, Failed
from penstock.gateway import refusals
from penstock.gateway.caller import Caller
from penstock.gateway.endings import (
    aborted_by,
    cut,
    find_end,
    is_nothing_but_failure,
    make_fit,
    shutdown,
)
from penstock.gateway.journal import Journal
from penstock.gateway.signs import SignsOfLife
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches
from penstock.streams.failures import error_of

FAREWELL: Final = 1.0
"""How many seconds a client has to take the last words of a stream that the gateway ends."""

FLAW: Final = b"x-penstock-error"
"""The header of a whole answer of which a call is missing, because it is not complete."""

MAX_TOLD: Final = 200
"""How many characters of the reason the header has."""

_LOG: Final = getLogger("penstock.gateway")

Keep = Callable[[AssistantMessage], Awaitable[None]]
"""Keeps what the next request will need of an answer, before the client sees its end."""


class Dialect(Protocol):
    """How one endpoint tells an answer."""

    @property
    def api(self) -> str:
        """The API whose errors it tells."""

    def encoder(self) -> StreamEncoder:
        """Make what writes the stream."""

    def whole(self, message: AssistantMessage) -> dict[str, Any]:
        """Write the whole answer."""


class Answering:
    """Answers one *caller* in its *dialect*; `run` it once."""

    __slots__ = ("_alive", "_caller", "_dialect", "_encoder", "_is_closing", "_is_finished",
                 "_journal", "_keep", "_task", "aborted", "end", "status")  # fmt: skip

    def __init__(
        self, caller: Caller, dialect: Dialect, journal: Journal, keep: Keep, *, patience: float
    ) -> None:
        self._caller = caller
        self._dialect = dialect
        self._journal = journal
        self._keep = keep
        self._encoder = dialect.encoder()
        self._alive = SignsOfLife(caller, self._encoder, patience)
        self._task: asyncio.Task[object] | None = None
        self._is_closing = False
        self._is_finished = False  # whether the last word of the stream was written
        self.end: Done | Failed | None = None
        """How the answer ended, once it has."""
        self.aborted: Failed | None = None
        """Why it was ended from outside, if it was."""
        self.status = 200

    def close(self) -> None:
        """End the answer now, because the gateway ends; the client is told."""
        self._is_closing = True
        self._cancel()

    async def run(self, *sources: Batches, stream: bool) -> None:
        """Answer with what *sources* give, of which there is one: as it comes, or all at once."""
        self._task = asyncio.current_task()
        try:
            self._caller.watch(self._cancel)
            try:
                await (self._stream(*sources) if stream else self._whole(*sources))
            finally:
                for source in sources:
                    await source.aclose()
        except asyncio.CancelledError:
            is_ours = self._caller.is_gone or self._is_closing
            await self._say_goodbye(stream=stream)
            if not is_ours:  # The server ends, and waits no longer.
                raise
        except Exception as exc:
            if not stream or not self._caller.has_begun:
                raise
            _LOG.exception("the answer %s failed", self._journal.started.id)
            await self._give_up(error_of(exc))
        finally:
            self._alive.stop()
            self._caller.unwatch()
            self._task = None
            self._note()

    # --- as it comes ---

    async def _stream(self, *sources: Batches) -> None:
        (batches,) = sources
        encode, caller, journal, alive = (
            self._encoder.encode, self._caller, self._journal, self._alive
        )  # fmt: skip
        alive.begin()
        async for batch in batches:
            if not batch:
                continue
            journal.events(batch)
            if (end := find_end(batch)) is not None:
                await self._finish(end)
                if not caller.has_begun and is_nothing_but_failure(batch):
                    await self._refuse(end)
                    return
            if not caller.has_begun:
                await caller.begin_stream()
            data = b"".join([encode(event) for event in batch])
            if data:
                alive.touch()
                await caller.send(data)
        await caller.end_stream(self._finished())

    # --- all at once ---

    async def _whole(self, *sources: Batches) -> None:
        (batches,) = sources
        async for batch in batches:
            self._journal.events(batch)
            end = find_end(batch)
            if end is not None:
                await self._finish(end)
                break
        end = self.end
        if end is None:
            end = self.end = Failed("error", cut(), AssistantMessage())
        failure = failure_of(end.message)
        if failure is not None:
            await self._refuse(
                end if isinstance(end, Failed) else Failed("error", failure, end.message)
            )
            return
        self._tell_flaw(end.message)
        await self._caller.answer(200, self._dialect.whole(end.message))

    def _tell_flaw(self, message: AssistantMessage) -> None:
        """Say in a header what is missing: some APIs have no place for it in a whole answer."""
        ending = ending_of(message)
        if isinstance(ending, ErrorInfo):
            told = ending.message.encode("ascii", "replace")[:MAX_TOLD]
            self._caller.extra.append((FLAW, told.replace(b"\n", b" ").replace(b"\r", b" ")))

    # --- the end ---

    async def _finish(self, end: Done | Failed) -> None:
        """Note the end, and keep what the next request needs before the client sees it."""
        self.end = end
        if isinstance(end, Done):
            await self._keep(end.message)
            return
        self._make_fit(end)

    def _make_fit(self, end: Failed) -> None:
        """Take out of an error what is no business of a client: secrets, and our own keys."""
        for error in filter(None, (end.error, end.message.error)):
            self._journal.secrets.hide_in(error)
            make_fit(error)

    async def _refuse(self, end: Failed | Done) -> None:
        error = end.error if isinstance(end, Failed) else cut()
        self.end = end
        self.status, body = refusals.write(error, self._dialect.api, self._journal.started.id)
        await self._caller.answer(self.status, body, *refusals.headers_of(error))

    async def _say_goodbye(self, *, stream: bool) -> None:
        """End what the gateway cannot go on with; to a client that is gone nothing is said."""
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        is_gone = self._caller.is_gone
        error = ErrorInfo("the client hung up", "aborted") if is_gone else shutdown()
        self.aborted = aborted_by(error)
        self.end = self.end or self.aborted
        if is_gone:
            self.status = 499
            return
        try:
            async with asyncio.timeout(FAREWELL):
                if stream and self._caller.has_begun:
                    await self._caller.end_stream(self._last_words(self.aborted))
                elif not self._caller.has_begun:
                    await self._refuse(self.aborted)
        except TimeoutError:
            self.end = self.aborted  # whatever the upstream said: the client did not hear it

    async def _give_up(self, error: ErrorInfo) -> None:
        """End a stream in which we ourselves have failed."""
        self.end = failed = Failed("error", error, AssistantMessage(error=error))
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._caller.end_stream(self._last_words(failed))

    def _last_words(self, failed: Failed) -> bytes:
        """Write the end of a stream that stops here; nothing where it has been written."""
        if self._is_finished:
            return b""
        return self._encoder.encode(failed) + self._finished()

    def _finished(self) -> bytes:
        self._is_finished = True
        return self._encoder.finish()

    def _note(self) -> None:
        """Hand the account of the answer to the log."""
        self._note_one(self.end, self._journal)

    def _note_one(self, end: Done | Failed | None, journal: Journal) -> None:
        end = end or Failed("error", cut(), AssistantMessage())
        message = end.message
        if isinstance(end, Failed) and message.error is None:
            message = structs.replace(message, error=end.error)
        state: Literal["done", "failed", "aborted"] = "done"
        if isinstance(end, Failed):
            state = "aborted" if end.reason == "aborted" else "failed"
        whole = None if failure_of(message) is not None else self._dialect.whole
        journal.end(
            message,
            state=state,
            status=self.status,
            response=None if whole is None else lambda: whole(message),
        )

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
