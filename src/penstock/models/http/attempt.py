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
from penstock.apis.errors import error_from_exception
from penstock.errors import PenstockError
from penstock.events import (
    DELTAS,
    ENDS,
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
from penstock.models.http.policy import Deadlines, RetryPolicy, Timeouts
from penstock.models.http.transport import (
    FirstByteTimeoutError,
    HTTPCall,
    HTTPResponse,
    IdleTimeoutError,
    Transport,
    TransportError,
    describe_target,
)
from penstock.redaction import Redactor
from penstock.streams import INTERVAL, EventStream
from penstock.streams.pump import Events

MAX_ERROR_BODY: Final = 65_536
"""How many bytes of an error response are read: enough for its reason."""

MAX_RESPONSE: Final = 64 * 1024 * 1024
"""How many bytes a response may have, decompressed: fifty times as many as a long one.

The event at the end of a block has all of its text. To join twice as much takes up to 70 ms.
"""

MAX_REMAINDER: Final = 65_536
"""How many bytes after the terminal event are read so that the connection can be reused."""

MAX_TURN: Final = 16_384
"""How many bytes are read before other tasks of the loop get a turn.

A server that sends faster than it is read would otherwise starve all others."""

MAX_LINES: Final = 512
"""How many lines of one read are decoded before other tasks of the loop get a turn.

A frame without content takes about 18 µs, and 16 kB can hold 1,800 of them. A read of ordinary
frames has about 200 lines."""

DENSE_PART: Final = 1_024
"""How many bytes of a read with more than `MAX_LINES` lines are decoded in one turn."""

MAX_PART: Final = 512
"""How many characters of deltas are passed on before other tasks of the loop get a turn.

A parser that looks for calls takes about 10 µs for each character of start markers in a row."""

REMAINDER_SECONDS: Final = 0.05
"""How many seconds after the terminal event the end of the body may arrive."""

HTML_RESPONSE: Final = "html_response"
"""The error type of a page that a server sent in place of a response."""

_REPORTED_BY_SERVER: Final = ("provider", "refusal", "filter")
"""Kinds of failures that the server itself reported."""

# A tuple: a union in `isinstance` is built again on every call, and this is per read.
_TEXTS: Final = (TextDelta, ThinkingDelta)
_LOG: Final = getLogger("penstock.models")
# Of OpenAI, Anthropic, Google and Cloudflare, in that order.
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

    *omitted_fields* lists the request fields that the API cannot express, *failures* the attempts
    that failed. Times are seconds since the first read of the stream: *first_byte* of the body,
    *first_token* (the first delta of any block), *duration* of the whole response. *request_id* is
    the provider's. *skipped* is how many frames of the stream were not readable, in all attempts.
    *session* has the server's ids of the conversation, if the server keeps it.
    """

    api: str = ""
    model: str = ""
    omitted_fields: list[str] = field(default_factory=list)
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

    __slots__ = ("_api", "_deadlines", "_decoded", "_decoder", "_first_until", "_is_complete",
                 "_is_over", "_is_page", "_late", "_prepare", "_receive", "_redactor", "_report",
                 "_response", "_size", "_tap", "_target", "_transport", "_turn", "_undecoded",
                 "_waiting")  # fmt: skip

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
        self._late: type[TransportError] = FirstByteTimeoutError  # if the next read is late
        self._target = ("", "")  # method and URL of the last call
        self._size = 0
        self._turn = 0  # bytes that were read in this turn of the loop
        self._decoded = 0  # bytes that were decoded since the last event
        self._undecoded: Iterator[bytes] | None = None  # the rest of a read with too many lines
        self._waiting: Iterator[list[Event]] | None = None  # the rest of the events of a long read
        self._is_page = False  # the server says that it sends HTML
        self._is_over = False  # nothing more will be returned
        self._is_complete = False  # the server has sent the terminal event

    async def read(self) -> list[Event]:  # noqa: C901, PLR0912 - see the comment in the loop
        """Return the events of the next read that has any; empty after the terminal event.

        Never raises: a failure is returned as the terminal event.
        """
        if self._waiting is not None and (held := next(self._waiting, None)) is not None:
            await asyncio.sleep(0)
            return held
        try:
            if self._prepare is not None:
                await self._start(self._prepare)
            deadlines = self._deadlines
            # The loop is one coroutine: parts of it in others would cost time for every chunk.
            while not self._is_over:
                if self._undecoded is not None:
                    data = await self._next_part(self._undecoded)
                else:
                    until = deadlines.now() + deadlines.idle if self._size else self._first_until
                    with deadlines.until(until, self._late):
                        data = await self._receive()
                    # A read of buffered data does not suspend: other tasks need an explicit turn.
                    if self._turn >= MAX_TURN:
                        self._turn = 0
                        await asyncio.sleep(0)
                    if data:
                        self._tap.received(data)
                        if not self._size:
                            await self._check_first(data)
                        data = self._take_part(data)
                if not data:
                    continue
                self._decoded += len(data)
                if events := self._decoder.feed(data):
                    if isinstance(events[-1], ENDS):
                        self._is_over = self._is_complete = True
                    return self._limit_turn(events)
        except StopAsyncIteration:
            self._is_over = True
            return self._limit_turn(self._decoder.finish())
        except Exception as exc:  # noqa: BLE001 - every failure becomes an event
            self._is_over = True
            rest = _fail(self._decoder, exc, *self._target)
            await self.aclose()
            return self._limit_turn(rest)
        return []

    async def aclose(self) -> None:
        """Release the connection; after the terminal event, read the short rest of the body."""
        self._report.session = self._decoder.session
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
        self._target = (call.method, call.url)
        self._tap.sent(call.body)
        with self._deadlines.until(until, FirstByteTimeoutError):
            return await self._transport.send(call)

    async def _next_part(self, undecoded: Iterator[bytes]) -> bytes:
        """Return the next part of a read with many lines; empty after the last."""
        part = next(undecoded, None)
        if part is None:
            self._undecoded = None
            return b""
        await asyncio.sleep(0)
        return part

    async def _check_first(self, data: bytes) -> None:
        """Record the first bytes of the body; raise `UpstreamError` if they are an HTML page."""
        self._report.first_byte = self._deadlines.elapsed()
        self._late = IdleTimeoutError
        if self._is_page and data.lstrip().startswith(b"<"):
            if self._response is not None:  # The log and a trace show the page.
                await self._read_short_body(self._response)
            message = "the server sent an HTML page in place of a response"
            raise UpstreamError(ErrorInfo(message, "malformed", HTML_RESPONSE))

    def _take_part(self, data: bytes) -> bytes:
        """Count *data*; return what of it is decoded in this turn."""
        self._size += len(data)
        self._turn += len(data)
        if self._size > MAX_RESPONSE:
            raise UpstreamError(
                ErrorInfo(f"the response is longer than {MAX_RESPONSE} bytes", "malformed")
            )
        if len(data) <= DENSE_PART or data.count(b"\n") + data.count(b"\r") <= MAX_LINES:
            return data
        starts = range(0, len(data), DENSE_PART)
        self._undecoded = iter([data[at : at + DENSE_PART] for at in starts])
        return next(self._undecoded)

    def _limit_turn(self, events: list[Event]) -> list[Event]:
        """Return *events*, or the first part of them if they are too many for one turn."""
        read, self._decoded = self._decoded, 0
        if read <= MAX_PART or sum(map(_count_characters, events)) <= MAX_PART:
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
            # Servers that send events with this type exist, so the body decides. The decoder of
            # chat.qwen.ai reads its page, which is a challenge of the bot protection.
            is_page = headers.get("content-type", "").startswith("text/html")
            self._is_page = is_page and self._api.name != "qwen"
            return
        body = self._redactor.body(await self._read_short_body(response))
        info = self._api.read_error(status, headers, body, now=time.time())
        if 300 <= status < 400:  # noqa: PLR2004
            where = headers.get("location", "another URL")
            info.message = f"the server redirects to {where}, and redirects are not followed"
            info.message += f": check the base URL ({describe_target(*self._target)})"
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
        async with asyncio.timeout(REMAINDER_SECONDS):
            while left > 0:
                data = await receive()
                tap.received(data)
                left -= len(data)


def _fail(decoder: StreamDecoder, exc: Exception, method: str, url: str) -> list[Event]:
    """Return the events that *decoder* held back when *exc* was raised, and the terminal event.

    A response that had its terminal event is over, whatever happened to the connection after it.
    The error of a transport names *method* and *url*, if a call was sent; a server's own message
    is not changed.
    """
    info = (
        exc.info if isinstance(exc, TransportError | UpstreamError) else error_from_exception(exc)
    )
    if url and isinstance(exc, TransportError | OSError):
        info.message = f"{info.message} ({describe_target(method, url)})"
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
    if isinstance(event, _TEXTS):
        return len(event.text)
    return len(event.arguments) if isinstance(event, ToolCallDelta) else 1


def _split_delta(event: Event, size: int) -> Iterator[Event]:
    if _count_characters(event) <= size or event.raw:  # API decoders leave `raw` empty.
        yield event
    elif isinstance(event, _TEXTS):
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
                        if report.first_token is None or isinstance(batch[-1], ENDS):
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
        # Content that came with the failure is passed on, so nothing may be sent again.
        if not all(isinstance(event, MessageStart) for event in batch[:-1]):
            return None
        tried, error = self._report.attempts, failed.error
        if not self._context.tap.may_retry(error):
            return None
        delay = self._retry.delay(tried, error, random.random())  # noqa: S311 - jitter
        # A wait that the total timeout would end is not started: the error is passed on now.
        if delay is None or deadlines.now() + delay >= deadlines.ends:
            return None
        self._report.failures.append(error)
        _LOG.debug("attempt %d failed: %s; retrying in %.2f s", tried, error.message, delay)
        return delay

    def _record(self, batch: list[Event], deadlines: Deadlines) -> None:
        report = self._report
        if report.first_token is None and any(isinstance(event, DELTAS) for event in batch):
            report.first_token = deadlines.elapsed()
        end = batch[-1]
        if isinstance(end, ENDS):
            report.usage = end.message.usage

    def _redact_error(self, end: Event) -> None:
        """Remove keys that the server may have echoed in an error."""
        if isinstance(end, Failed):
            for error in (end.error, end.message.error):
                if error is not None:
                    self._context.redactor.redact_error(error)


async def _already_sent(_send: Send) -> HTTPCall:
    raise AssertionError("a call whose response has started must not be sent again")
