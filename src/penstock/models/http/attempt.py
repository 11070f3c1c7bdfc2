"""One response over HTTP: send the call, decode its bytes into events, retry if it fails early.

An `Attempt` sends one call and decodes its response. Only the wait for bytes is timed, never the
consumer: a slow reader must not look like an idle server. Whatever ends an attempt, including an
abort, closes the socket before anything else happens.

A `RetryingRequest` makes as many attempts as the policy allows. While no event has been passed on,
a retryable failure is recorded in the `Report` and the call is sent again. A later failure ends the
response: the content received so far, then `Failed`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import suppress
from logging import getLogger
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.apis import Api
from penstock.apis.decoder import StreamDecoder
from penstock.errors import PenstockError
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from penstock.messages import AssistantMessage, ErrorInfo, Usage
from penstock.models.base import Tap
from penstock.models.http.redaction import Redactor
from penstock.models.http.retry import RetryPolicy
from penstock.models.http.timeouts import Deadlines, Timeouts
from penstock.models.http.transport import (
    FirstByteTimeoutError,
    HTTPCall,
    HTTPResponse,
    IdleTimeoutError,
    Transport,
    TransportError,
)
from penstock.streams import INTERVAL, EventStream
from penstock.streams.errors import error_of
from penstock.streams.pump import Events

MAX_ERROR_BODY: Final = 65_536
"""How many bytes of an error response are read: enough for its reason."""

MAX_RESPONSE: Final = 128 * 1024 * 1024
"""How many bytes a response may have, decompressed: a hundred times a long one, and no bomb."""

MAX_REMAINDER: Final = 65_536
"""How many bytes after the terminal event are read so that the connection can be reused."""

MAX_TURN: Final = 16_384
"""How many bytes are read before other tasks of the loop get a turn.

A server that sends faster than it is read would otherwise starve all others. So many bytes of the
shortest lines and frames take about 5 ms."""

MAX_PART: Final = 4_096
"""How many characters of one delta are passed on before other tasks of the loop get a turn.

A parser that looks for calls may need 20 µs for each character if they are all markers."""

GRACE: Final = 0.05
"""How many seconds after the terminal event the end of the body may arrive."""

_REPORTED_BY_SERVER: Final = ("provider", "refusal", "filter")
"""Kinds of failures that the server itself reported."""

# Tuples: a union in `isinstance` is built again on every call, and these are per read.
_DELTAS: Final = (TextDelta, ThinkingDelta, ToolCallDelta)
_ENDS: Final = (Done, Failed)
_LOG: Final = getLogger("penstock.models")
# Of OpenAI, Anthropic, Google and, for servers behind it, Cloudflare.
_REQUEST_IDS: Final = ("x-request-id", "request-id", "x-goog-request-id", "cf-ray")

Send = Callable[[HTTPCall], Awaitable[bytes]]
"""Sends a call that precedes the request itself, and returns the whole body of its response."""

Prepare = Callable[[Send], Awaitable[HTTPCall]]
"""Returns the call of an attempt; most APIs have it ready."""

Receive = Callable[[], Awaitable[bytes]]
"""Returns the next bytes of a body; raises `StopAsyncIteration` after the last."""


class UpstreamError(PenstockError):
    """The server responded with an error, or with a response that is too long."""

    def __init__(self, info: ErrorInfo) -> None:
        super().__init__(info.message)
        self.info = info


class Report(Struct):
    """Statistics of one response; complete when its stream has ended.

    *left_out* lists the request fields that the API cannot express, *failures* the attempts that
    failed. Times are seconds since the first read of the stream: *first_byte* of the body,
    *first_token* (the first delta of any block), *duration* of the whole response. *request_id* is
    the provider's. *skipped* is how many frames of the stream were not readable, in all attempts.
    *session* has the server's ids of the conversation, if the server keeps it.
    """

    api: str = ""
    model: str = ""
    left_out: list[str] = field(default_factory=list)
    attempts: int = 0
    failures: list[ErrorInfo] = field(default_factory=list)
    status: int | None = None
    request_id: str = ""
    first_byte: float | None = None
    first_token: float | None = None
    duration: float | None = None
    usage: Usage = field(default_factory=Usage)
    skipped: int = 0
    session: dict[str, str] = field(default_factory=dict)


class HTTPStream(EventStream):
    """The stream of a response over HTTP, with its `report`."""

    def __init__(self, events: Events, report: Report, *, interval: float = INTERVAL) -> None:
        super().__init__(events, interval=interval)
        self.report = report
        """Statistics of the response so far."""


class CallContext(Struct, frozen=True):
    """Where one response is recorded, and which secrets are removed from it."""

    report: Report
    redactor: Redactor
    tap: Tap


class Attempt:
    """Sends the call that *prepare* returns over *transport* and decodes its response.

    Call `read` until it returns no events, then `aclose`. *ids* makes ids for tool calls that the
    server sends without one. This is a plain object rather than a generator: it is resumed for
    every chunk, and generators between the network and the reader cost measurable time.
    """

    __slots__ = ("_api", "_deadlines", "_decoder", "_first_until", "_is_complete", "_is_over",
                 "_late", "_prepare", "_receive", "_redactor", "_report", "_response", "_size",
                 "_tap", "_transport", "_turn", "_unread", "_waiting")  # fmt: skip

    def __init__(
        self,
        api: Api,
        prepare: Prepare,
        transport: Transport,
        deadlines: Deadlines,
        context: CallContext,
        ids: Callable[[], str],
    ) -> None:
        self._api = api
        self._prepare: Prepare | None = prepare
        self._transport = transport
        self._deadlines = deadlines
        self._redactor = context.redactor
        self._report = context.report
        self._tap = context.tap
        self._decoder = api.decoder(ids=ids)
        self._response: HTTPResponse | None = None
        self._receive: Receive = _receive_nothing
        self._first_until = 0.0  # the deadline of the first byte
        self._late: type[TransportError] = FirstByteTimeoutError
        self._size = 0
        self._turn = 0  # bytes that were read in this turn of the loop
        self._unread = 0  # bytes that were read since the last event
        self._waiting: Iterator[list[Event]] = iter(())  # events of one read, split into turns
        self._is_over = False  # nothing more will be returned
        self._is_complete = False  # the server has sent the terminal event

    async def read(self) -> list[Event]:
        """Return the events of the next read that has any; empty after the terminal event.

        Never raises: a failure is returned as the terminal event.
        """
        deadlines = self._deadlines
        if (held := next(self._waiting, None)) is not None:
            await asyncio.sleep(0)
            return held
        try:
            if self._prepare is not None:
                await self._start(self._prepare)
            while not self._is_over:
                until, late = self._first_until, self._late
                if self._size:
                    until = deadlines.now() + deadlines.idle
                with deadlines.until(until, late):
                    data = await self._receive()
                # A read of buffered data does not suspend, so other tasks need an explicit turn.
                if self._turn >= MAX_TURN:
                    self._turn = 0
                    await asyncio.sleep(0)
                if events := self._decode(data):
                    return self._limit_turn(events)
        except StopAsyncIteration:
            self._is_over = True
            return self._limit_turn(self._decoder.finish())
        except Exception as exc:  # noqa: BLE001 - every failure becomes an event
            self._is_over = True
            rest = _fail(self._decoder, exc)
            await self.aclose()
            return self._limit_turn(rest)
        return []

    async def aclose(self) -> None:
        """Release the connection; after the terminal event, read the short rest of the body."""
        self._report.session = getattr(self._decoder, "session", {})
        response, self._response = self._response, None
        if response is None:
            return
        if skipped := self._decoder.skipped:
            self._report.skipped += skipped
            _LOG.warning("%s: skipped %d unreadable frames of the stream", self._api.name, skipped)
        try:
            if self._is_complete:
                await _read_remainder(self._receive, self._tap)
        finally:
            with suppress(Exception):
                await response.aclose()

    async def _start(self, prepare: Prepare) -> None:
        """Send the call and drop it: it holds the whole request, and a response takes minutes."""
        self._prepare = None
        call = await prepare(self._fetch)
        self._first_until = self._deadlines.now() + self._deadlines.first_byte
        self._response = response = await self._send(call, self._first_until)
        await self._check_status(response)
        self._receive = aiter(response).__anext__

    async def _send(self, call: HTTPCall, until: float) -> HTTPResponse:
        self._tap.sent(call.body)
        with self._deadlines.until(until, FirstByteTimeoutError):
            return await self._transport.send(call)

    def _decode(self, data: bytes) -> list[Event]:
        if not data:
            return []
        if not self._size:
            self._report.first_byte = self._deadlines.elapsed()
            self._late = IdleTimeoutError
        self._tap.received(data)
        self._size += len(data)
        self._turn += len(data)
        self._unread += len(data)
        if self._size > MAX_RESPONSE:
            raise UpstreamError(
                ErrorInfo(f"the response is longer than {MAX_RESPONSE} bytes", "malformed")
            )
        events = self._decoder.feed(data)
        if events and isinstance(events[-1], _ENDS):
            self._is_over = self._is_complete = True
        return events

    def _limit_turn(self, events: list[Event]) -> list[Event]:
        """Return *events*, or the first part of them if they are too many for one turn."""
        read, self._unread = self._unread, 0
        if read <= MAX_TURN:
            return events
        self._waiting = split_events(events, MAX_PART)
        return next(self._waiting, [])

    async def _check_status(self, response: HTTPResponse) -> None:
        """Raise `UpstreamError` unless the status is 2xx."""
        headers, status = response.headers, response.status
        self._report.status = status
        request_id = next((headers[name] for name in _REQUEST_IDS if name in headers), "")
        self._report.request_id = self._redactor.text(request_id)
        if 200 <= status < 300:  # noqa: PLR2004
            return
        body = self._redactor.body(await self._read_short_body(response))
        info = self._api.read_error(status, headers, body, now=time.time())
        if 300 <= status < 400:  # noqa: PLR2004
            where = headers.get("location", "another URL")
            info.message = f"the server redirects to {where}, and redirects are not followed"
        advice = headers.get("x-should-retry")  # sent by the servers of OpenAI and Anthropic
        if advice in ("true", "false"):
            info.retryable = advice == "true"
        raise UpstreamError(info)

    async def _fetch(self, call: HTTPCall) -> bytes:
        response = await self._send(call, self._deadlines.now() + self._deadlines.first_byte)
        try:
            await self._check_status(response)
            return await self._read_short_body(response)
        finally:
            await response.aclose()

    async def _read_short_body(self, response: HTTPResponse) -> bytes:
        """Return up to `MAX_ERROR_BODY` bytes; an error while reading only ends the body."""
        body, deadlines, read = aiter(response), self._deadlines, bytearray()
        with suppress(TransportError, OSError):
            while len(read) < MAX_ERROR_BODY:
                with deadlines.until(deadlines.now() + deadlines.idle, IdleTimeoutError):
                    data = await anext(body, None)
                if data is None:
                    break
                self._tap.received(data)
                read += data
        return bytes(read[:MAX_ERROR_BODY])


async def _receive_nothing() -> bytes:
    raise StopAsyncIteration


async def _read_remainder(receive: Receive, tap: Tap) -> None:
    """Read the end of a body after its terminal event, so that the connection can be reused."""
    left = MAX_REMAINDER
    with suppress(Exception):
        async with asyncio.timeout(GRACE):
            while left > 0:
                data = await receive()
                tap.received(data)
                left -= len(data)


def _fail(decoder: StreamDecoder, exc: Exception) -> list[Event]:
    """Return the events that *decoder* held back when *exc* was raised, and the terminal event.

    A response that had its terminal event is over, whatever happened to the connection after it.
    """
    info = exc.info if isinstance(exc, TransportError | UpstreamError) else error_of(exc)
    events = decoder.finish()
    last = events[-1] if events else None
    if isinstance(last, Done):
        return events
    if isinstance(last, Failed) and last.error.kind in _REPORTED_BY_SERVER:
        return events
    message = last.message if isinstance(last, Failed) else AssistantMessage()
    message.error = info
    held = [event for event in events if not isinstance(event, Failed)]
    return [*held, Failed("error", info, message)]


def split_events(events: list[Event], size: int) -> Iterator[list[Event]]:
    """Split *events* into lists with deltas of about *size* characters each.

    A longer delta is split into several with the same content.
    """
    part: list[Event] = []
    left = size
    for event in events:
        for piece in _split_delta(event, size):
            part.append(piece)
            left -= _count_characters(piece)
            if left <= 0:
                yield part
                part, left = [], size
    if part:
        yield part


def _count_characters(event: Event) -> int:
    if isinstance(event, TextDelta | ThinkingDelta):
        return len(event.text)
    return len(event.arguments) if isinstance(event, ToolCallDelta) else 1


def _split_delta(event: Event, size: int) -> Iterator[Event]:
    if _count_characters(event) <= size or event.raw:  # API decoders leave `raw` empty.
        yield event
    elif isinstance(event, TextDelta | ThinkingDelta):
        for at in range(0, len(event.text), size):
            yield replace(event, text=event.text[at : at + size])
    elif isinstance(event, ToolCallDelta):
        for at in range(0, len(event.arguments), size):
            yield replace(event, arguments=event.arguments[at : at + size])


# --- retries ---


class RetryingRequest:
    """Gets one response from *transport*; read `batches` once.

    *ids* makes ids for tool calls that the server sends without one.
    """

    __slots__ = ("_api", "_context", "_ids", "_prepare", "_report", "_retry", "_timeouts",
                 "_transport")  # fmt: skip

    def __init__(
        self,
        api: Api,
        prepare: Prepare,
        transport: Transport,
        *,
        timeouts: Timeouts,
        retry: RetryPolicy,
        context: CallContext,
        ids: Callable[[], str],
    ) -> None:
        self._api = api
        self._prepare = prepare
        self._transport = transport
        self._timeouts = timeouts
        self._retry = retry
        self._context = context
        self._ids = ids
        self._report = context.report

    async def batches(self) -> AsyncGenerator[list[Event]]:
        """Yield the events of the first successful attempt, or else of the last one."""
        deadlines, report = Deadlines(self._timeouts), self._report
        try:
            while True:
                delay, has_output = None, False
                report.attempts += 1
                attempt = Attempt(
                    self._api, self._prepare, self._transport, deadlines, self._context, self._ids
                )
                try:
                    while batch := await attempt.read():
                        # Between the first delta and the end there is nothing to record.
                        if report.first_token is None or isinstance(batch[-1], _ENDS):
                            self._redact_error(batch[-1])
                            if not has_output:
                                delay = self._find_delay(batch, deadlines)
                            if delay is not None:
                                break
                            self._record(batch, deadlines)
                        if not has_output:
                            # There will be no second attempt: free the request body.
                            self._prepare = _already_sent
                        has_output = True
                        yield batch
                finally:
                    await attempt.aclose()
                if delay is None:
                    break
                await asyncio.sleep(delay)
        finally:
            deadlines.close()
            report.duration = deadlines.elapsed()

    def _find_delay(self, batch: list[Event], deadlines: Deadlines) -> float | None:
        """Return the seconds to wait for the next attempt if *batch* is only a failure, or None."""
        failed = batch[-1]
        if not isinstance(failed, Failed):
            return None
        if not all(isinstance(event, MessageStart) for event in batch[:-1]):
            return None
        tried, error = self._report.attempts, failed.error
        delay = self._retry.delay(tried, error, random.random())  # noqa: S311 - jitter
        if delay is None or deadlines.now() + delay >= deadlines.ends:
            return None
        self._report.failures.append(error)
        _LOG.debug("attempt %d failed: %s; retrying in %.2f s", tried, error.message, delay)
        return delay

    def _record(self, batch: list[Event], deadlines: Deadlines) -> None:
        report = self._report
        if report.first_token is None and any(isinstance(event, _DELTAS) for event in batch):
            report.first_token = deadlines.elapsed()
        end = batch[-1]
        if isinstance(end, _ENDS):
            report.usage = end.message.usage

    def _redact_error(self, end: Event) -> None:
        """Remove keys that the server may have echoed in an error."""
        if isinstance(end, Failed):
            for error in (end.error, end.message.error):
                if error is not None:
                    error.message = self._context.redactor.text(error.message)
                    error.type = self._context.redactor.text(error.type)


async def _already_sent(_send: Send) -> HTTPCall:
    raise AssertionError("a call whose response has started must not be sent again")
