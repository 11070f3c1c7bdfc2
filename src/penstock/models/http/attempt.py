"""One try at an answer: the call goes out, bytes come back, the API's decoder makes them events.

Only the wait for bytes is timed, never the consumer's: who reads slowly is no idle server. Whatever
ends the try, an abort too, closes the socket before anything else is done.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from logging import getLogger
from typing import Final

from msgspec.structs import replace

from penstock.apis import Api
from penstock.apis.decoder import StreamDecoder
from penstock.errors import PenstockError
from penstock.events import Done, Event, Failed, TextDelta, ThinkingDelta, ToolCallDelta
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Tap
from penstock.models.http.report import Account
from penstock.models.http.transport import (
    Answer,
    FirstByteTimeoutError,
    HTTPCall,
    IdleTimeoutError,
    Transport,
    TransportError,
)
from penstock.models.http.waiting import Patience
from penstock.streams.errors import error_of

MAX_ERROR_BODY: Final = 65_536
"""How many bytes of a refusal are read: its reason, and no flood."""

MAX_ANSWER: Final = 128 * 1024 * 1024
"""How many bytes an answer may have, uncompressed: some hundred long ones, and no bomb."""

MAX_REMAINDER: Final = 65_536
"""How many bytes behind the end of an answer are read, to keep its connection."""

MAX_TURN: Final = 16_384
"""How many bytes are read before everything else in the loop has its turn.

A server that sends faster than it is read would otherwise be the only one that is served. So many
bytes of the shortest lines and frames take some 5 ms."""

MAX_PART: Final = 4_096
"""How many characters of one delta go out before everything else in the loop has its turn.

Whoever reads calls in them may need 20 µs for each, if they are all markers."""

GRACE: Final = 0.05
"""How many seconds the end of a body may come later than the end of the answer in it."""

_SAID: Final = ("provider", "refusal", "filter")
"""Failures that the server itself told."""

_ENDS: Final = (Done, Failed)  # a union would be made anew for each read
_LOG: Final = getLogger("penstock.models")
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-goog-request-id", "cf-ray")


class RefusedError(PenstockError):
    """The server answered, and its answer is an error."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message)
        self.info = info


Send = Callable[[HTTPCall], Awaitable[bytes]]
"""Sends a call and gives the whole body of its answer, for what precedes the answer itself."""

Prepare = Callable[[Send], Awaitable[HTTPCall]]
"""Gives the call of a try; most have it ready."""

Receive = Callable[[], Awaitable[bytes]]
"""Gives the next bytes of a body; raises `StopAsyncIteration` behind the last."""


class Attempt:
    """Sends the call that *prepare* gives over *transport* and reads its answer; then `aclose` it.

    *ids* names the calls of servers that give them no name. There is no generator in it: what
    stands between the network and its reader is resumed for every piece.
    """

    __slots__ = ("_answer", "_api", "_decoder", "_first_until", "_is_complete", "_is_over", "_late",
                 "_mask", "_patience", "_prepare", "_receive", "_report", "_size", "_tap",
                 "_transport", "_turn", "_unread", "_waiting")  # fmt: skip

    def __init__(
        self,
        api: Api,
        prepare: Prepare,
        transport: Transport,
        patience: Patience,
        account: Account,
        ids: Callable[[], str],
    ) -> None:
        self._api = api
        self._prepare: Prepare | None = prepare
        self._transport = transport
        self._patience = patience
        self._mask = account.mask
        self._report = account.report
        self._tap = account.tap
        self._decoder = api.decoder(ids=ids)
        self._answer: Answer | None = None
        self._receive: Receive = _nothing
        self._first_until = 0.0  # when the first byte has to be there
        self._late: type[TransportError] = FirstByteTimeoutError
        self._size = 0
        self._turn = 0  # how many bytes were read in this turn of the loop
        self._unread = 0  # how many bytes were read since the last event
        self._waiting: Iterator[list[Event]] = iter(())  # what one read gave and is too much
        self._is_over = False  # there is no more to give
        self._is_complete = False  # its server has said the last word of it

    async def read(self) -> list[Event]:
        """Give the events of the next read that has any, up to the terminal event; never raises.

        Behind that there are none.
        """
        patience = self._patience
        if (held := next(self._waiting, None)) is not None:
            await asyncio.sleep(0)
            return held
        try:
            if self._prepare is not None:
                await self._begin(self._prepare)
            while not self._is_over:
                until, late = self._first_until, self._late
                if self._size:
                    until = patience.now() + patience.idle
                with patience.until(until, late):
                    data = await self._receive()
                if self._turn >= MAX_TURN:
                    self._turn = 0
                    await asyncio.sleep(0)
                if events := self._decoded(data):
                    return self._in_turns(events)
        except StopAsyncIteration:
            self._is_over = True
            return self._in_turns(self._decoder.finish())
        except Exception as exc:  # noqa: BLE001 - whatever it is, consumers are told
            self._is_over = True
            rest = _rest_of(self._decoder, exc)
            await self.aclose()
            return self._in_turns(rest)
        return []

    def _in_turns(self, events: list[Event]) -> list[Event]:
        """Give *events*, or the first of them if they say too much for one turn of the loop."""
        read, self._unread = self._unread, 0
        if read <= MAX_TURN:
            return events
        self._waiting = parts_of(events, MAX_PART)
        return next(self._waiting, [])

    async def aclose(self) -> None:
        """Let the connection go; behind the last word, read on to the end, if that is near."""
        self._report.session = getattr(self._decoder, "session", {})
        answer, self._answer = self._answer, None
        if answer is None:
            return
        if skipped := self._decoder.skipped:
            self._report.skipped += skipped
            _LOG.warning("%s: %d frames of the stream could not be read", self._api.name, skipped)
        try:
            if self._is_complete:
                await _read_remainder(self._receive, self._tap)
        finally:
            with suppress(Exception):
                await answer.aclose()

    async def _begin(self, prepare: Prepare) -> None:
        """Send the call, and let it go: it is the whole request, and an answer may take minutes."""
        self._prepare = None
        call = await prepare(self._fetch)
        self._first_until = self._patience.now() + self._patience.first_byte
        self._answer = answer = await self._send(call, self._first_until)
        await self._check(answer)
        self._receive = aiter(answer).__anext__

    async def _send(self, call: HTTPCall, until: float) -> Answer:
        self._tap.sent(call.body)
        with self._patience.until(until, FirstByteTimeoutError):
            return await self._transport.send(call)

    def _decoded(self, data: bytes) -> list[Event]:
        if not data:
            return []
        if not self._size:
            self._report.first_byte = self._patience.passed()
            self._late = IdleTimeoutError
        self._tap.received(data)
        self._size += len(data)
        self._turn += len(data)
        self._unread += len(data)
        if self._size > MAX_ANSWER:
            raise RefusedError(ErrorInfo(f"an answer of over {MAX_ANSWER} bytes", "malformed"))
        events = self._decoder.feed(data)
        if events and isinstance(events[-1], _ENDS):
            self._is_over = self._is_complete = True
        return events

    async def _check(self, answer: Answer) -> None:
        """Raise `RefusedError` unless the server agreed."""
        headers, status = answer.headers, answer.status
        self._report.status = status
        named = next((headers[name] for name in _REQUEST_IDS if name in headers), "")
        self._report.request_id = self._mask.text(named)
        if status // 100 == 2:  # noqa: PLR2004 - all that begin so are an agreement
            return
        body = self._mask.body(await self._body(answer))
        info = self._api.read_error(status, headers, body, now=time.time())
        if status // 100 == 3:  # noqa: PLR2004 - and these say to ask elsewhere
            where = headers.get("location", "elsewhere")
            info.message = f"the server redirects to {where}, and redirects are not followed"
        advice = headers.get("x-should-retry")
        if advice in ("true", "false"):
            info.retryable = advice == "true"
        raise RefusedError(info)

    async def _fetch(self, call: HTTPCall) -> bytes:
        answer = await self._send(call, self._patience.now() + self._patience.first_byte)
        try:
            await self._check(answer)
            return await self._body(answer)
        finally:
            await answer.aclose()

    async def _body(self, answer: Answer) -> bytes:
        """Read a short body: what is too long or too late in it is not worth an error."""
        body, patience, read = aiter(answer), self._patience, bytearray()
        with suppress(TransportError, OSError):
            while len(read) < MAX_ERROR_BODY:
                with patience.until(patience.now() + patience.idle, IdleTimeoutError):
                    data = await anext(body, None)
                if data is None:
                    break
                self._tap.received(data)
                read += data
        return bytes(read[:MAX_ERROR_BODY])


def parts_of(events: list[Event], size: int) -> Iterator[list[Event]]:
    """Cut *events* into lists with deltas of about *size* characters in each.

    A long delta becomes several, which say the same.
    """
    part: list[Event] = []
    room = size
    for event in events:
        for piece in _pieces_of(event, size):
            part.append(piece)
            room -= _length_of(piece)
            if room <= 0:
                yield part
                part, room = [], size
    if part:
        yield part


def _length_of(event: Event) -> int:
    if isinstance(event, TextDelta | ThinkingDelta):
        return len(event.text)
    return len(event.arguments) if isinstance(event, ToolCallDelta) else 1


def _pieces_of(event: Event, size: int) -> Iterator[Event]:
    if _length_of(event) <= size or event.raw:  # Decoders read no text of a model: `raw` is empty.
        yield event
    elif isinstance(event, TextDelta | ThinkingDelta):
        for at in range(0, len(event.text), size):
            yield replace(event, text=event.text[at : at + size])
    elif isinstance(event, ToolCallDelta):
        for at in range(0, len(event.arguments), size):
            yield replace(event, arguments=event.arguments[at : at + size])


async def _nothing() -> bytes:
    raise StopAsyncIteration


async def _read_remainder(receive: Receive, tap: Tap) -> None:
    """Read the end of a body whose answer is complete, so that its connection can be used again."""
    left = MAX_REMAINDER
    with suppress(Exception):
        async with asyncio.timeout(GRACE):
            while left > 0:
                data = await receive()
                tap.received(data)
                left -= len(data)


def _rest_of(decoder: StreamDecoder, exc: Exception) -> list[Event]:
    """Give what the decoder held back when *exc* ended the answer, and the terminal event.

    An answer that had said its last word is over, done or refused, whatever became of the
    connection.
    """
    info = exc.info if isinstance(exc, TransportError | RefusedError) else error_of(exc)
    events = decoder.finish()
    last = events[-1] if events else None
    if isinstance(last, Done) or (isinstance(last, Failed) and last.error.kind in _SAID):
        return events
    message = last.message if isinstance(last, Failed) else AssistantMessage()
    message.error = info
    held = [event for event in events if not isinstance(event, Failed)]
    return [*held, Failed("error", info, message)]
