"""Response writers: events of a model in, bytes of the client's API out.

This is the hot path. Events that arrive together are sent together: one list of events, one `send`,
and the next list is requested when the client has room. There is no queue, so a slow reader slows
down the upstream, and only data in progress is held in memory.

A client that disconnects cancels the task and with it the connection to the upstream, whatever the
task is waiting for. An upstream that fails before any output becomes an HTTP status; a later
failure is reported in the stream, as an error of the client's API. While nothing arrives, a stream
sends keep-alives.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from logging import getLogger
from typing import Any, ClassVar, Final, Literal, Protocol

from msgspec import Struct, structs

from penstock import _json, apis
from penstock.apis.encoder import StreamEncoder, find_ending, find_failure
from penstock.apis.errors import error_from_exception
from penstock.apis.fields import usage_or_estimate
from penstock.apis.openai_chat.encode import ChoicesEncoder, write_choices
from penstock.apis.openai_responses.client_tools import read_client_tools
from penstock.apis.openai_responses.response import echo_request
from penstock.events import ENDS, Done, Event, Failed, MessageStart
from penstock.gateway.errors import adapt_upstream_error, error_headers, write_error
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.request_log import RequestLog
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches
from penstock.request import Request

# --- keep-alives ---

# A frame without content whenever a stream has been silent for too long. All responses of an event
# loop with the same interval share one timer, which fires several times per interval and counts the
# silent ticks of each response.

TICKS: Final = 4
"""How often the timer fires per interval: a keep-alive is late by at most a quarter of it."""


class KeepAlive:
    """Sends a keep-alive after *seconds* of silence; 0 disables it."""

    __slots__ = ("_encoder", "_exchange", "_has_sent", "_seconds", "_sending", "_silent", "_timer")

    def __init__(self, exchange: HTTPExchange, encoder: StreamEncoder, seconds: float) -> None:
        self._exchange = exchange
        self._encoder = encoder
        self._seconds = seconds
        self._has_sent = True  # since the last tick; the start counts too
        self._silent = 0  # ticks
        self._timer: _SharedTimer | None = None
        self._sending: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to measure silence."""
        if self._seconds:
            self._timer = _SharedTimer.get(asyncio.get_running_loop(), self._seconds)
            self._timer.add(self)

    def touch(self) -> None:
        """Record that data was sent."""
        self._has_sent = True

    def stop(self) -> None:
        """Send no more keep-alives."""
        if self._timer is not None:
            self._timer.remove(self)
            self._timer = None
        if self._sending is not None:
            self._sending.cancel()

    def tick(self) -> None:
        """Count the silence, and send a keep-alive if it was long enough."""
        self._silent = 0 if self._has_sent else self._silent + 1
        self._has_sent = False
        if self._silent >= TICKS and (self._sending is None or self._sending.done()):
            self._silent = 0
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        # Reverse proxies wait for the head of a response only 60 s by default (nginx,
        # `proxy_read_timeout`), and slow machines take longer to read a prompt.
        if not self._exchange.has_started:
            await self._exchange.start_stream()
        # The SDKs of OpenAI and Anthropic ignore comment lines; Anthropic's API also has `ping`.
        await self._exchange.send_keepalive(self._encoder.keep_alive())


class _SharedTimer:
    """The timer that responses of one loop share; it exists while there are any."""

    _timers: ClassVar[dict[tuple[asyncio.AbstractEventLoop, float], _SharedTimer]] = {}

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._subscribers: set[KeepAlive] = set()
        self._handle = loop.call_later(seconds / TICKS, self._on_time)

    @classmethod
    def get(cls, loop: asyncio.AbstractEventLoop, seconds: float) -> _SharedTimer:
        """Return the timer of *loop* for this interval."""
        found = cls._timers.get((loop, seconds))
        if found is None:
            found = cls._timers[loop, seconds] = cls(loop, seconds)
        return found

    def add(self, subscriber: KeepAlive) -> None:
        """Call ``subscriber.tick`` from now on."""
        self._subscribers.add(subscriber)

    def remove(self, subscriber: KeepAlive) -> None:
        """Remove a subscriber; without any the timer stops."""
        self._subscribers.discard(subscriber)
        if not self._subscribers:
            self._handle.cancel()
            del self._timers[self._loop, self._seconds]

    def _on_time(self) -> None:
        self._handle = self._loop.call_later(self._seconds / TICKS, self._on_time)
        for subscriber in self._subscribers:
            subscriber.tick()


# --- one response ---


LAST_CHUNK_SECONDS: Final = 1.0
"""How many seconds a client has to take the last chunk of a stream that the gateway ends."""

FLAW_HEADER: Final = b"x-penstock-error"
"""The header of a whole response in which an incomplete call is missing."""

MAX_FLAW: Final = 200
"""How many characters of the reason are in `FLAW_HEADER`."""

_LOG: Final = getLogger("penstock.gateway")

SaveResponse = Callable[[AssistantMessage], Awaitable[None]]
"""Stores what the next request needs of a response, before the client receives its end."""


class EndpointFormat(Protocol):
    """How one endpoint writes a response."""

    @property
    def api(self) -> str:
        """The API whose errors are sent."""

    def encoder(self) -> StreamEncoder:
        """Return the encoder of the stream."""

    def write_whole(self, message: AssistantMessage) -> dict[str, Any]:
        """Return the body of a response that is not streamed."""


def find_end(batch: list[Event]) -> Done | Failed | None:
    """Return the terminal event, if *batch* has it."""
    last = batch[-1] if batch else None
    return last if isinstance(last, ENDS) else None


def has_only_failure(batch: list[Event]) -> bool:
    """Return whether the response failed before it had content; a refusal is content."""
    *before, last = batch
    if not isinstance(last, Failed) or not isinstance(find_ending(last.message), ErrorInfo):
        return False
    return all(isinstance(event, MessageStart) for event in before)


def make_aborted(error: ErrorInfo) -> Failed:
    """Return the terminal event of a response that *error* aborted."""
    return Failed("aborted", error, AssistantMessage(stop_reason="aborted", error=error))


def _make_truncated() -> Failed:
    """Return the terminal event for an upstream that sent none."""
    message = "the upstream ended the stream without a terminal event"
    return Failed("error", ErrorInfo(message, "truncated", retryable=True), AssistantMessage())


class ResponseWriter:
    """Writes one response to *exchange* in the format of *endpoint*; call `run` once."""

    __slots__ = (
        "_encoder",
        "_endpoint",
        "_exchange",
        "_has_finished",
        "_is_closing",
        "_keepalive",
        "_log",
        "_save",
        "_task",
        "aborted",
        "end",
        "status",
    )  # fmt: skip

    def __init__(
        self,
        exchange: HTTPExchange,
        endpoint: EndpointFormat,
        log: RequestLog,
        save: SaveResponse,
        *,
        keepalive_seconds: float,
    ) -> None:
        self._exchange = exchange
        self._endpoint = endpoint
        self._log = log
        self._save = save
        self._encoder = endpoint.encoder()
        self._keepalive = KeepAlive(exchange, self._encoder, keepalive_seconds)
        self._task: asyncio.Task[object] | None = None
        self._is_closing = False
        self._has_finished = False  # The encoder has written the end of the stream.
        self.end: Done | Failed | None = None
        """The terminal event, once it is known."""
        self.aborted: Failed | None = None
        """The terminal event of a response that the client or the gateway aborted."""
        self.status = 200

    def close(self) -> None:
        """End the response now, with an error, because the gateway is shutting down."""
        self._is_closing = True
        self._cancel()

    async def run(self, *sources: Batches, stream: bool) -> None:
        """Write the events of *sources*, one for each choice, as a stream or as a whole."""
        self._task = asyncio.current_task()
        try:
            self._exchange.watch(self._cancel)
            try:
                await (self._stream(*sources) if stream else self._write_whole(*sources))
                self._log.complete()
            finally:
                # Closing the source closes the upstream's connection. Most servers stop generating
                # then.
                for source in sources:
                    await source.aclose()
        except asyncio.CancelledError:
            is_ours = self._exchange.is_gone or self._is_closing
            await self._abort(stream=stream)
            if not is_ours:  # The server itself is ending.
                raise
        except Exception as exc:
            if not stream or not self._exchange.has_started:
                raise
            _LOG.exception("response %s failed", self._log.started.id)
            if self._exchange.is_complete:
                return
            error = error_from_exception(exc)
            self.end = failed = Failed("error", error, AssistantMessage(error=error))
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_CHUNK_SECONDS):
                    await self._exchange.end_stream(self._encode_end(failed))
        finally:
            self._keepalive.stop()
            self._exchange.unwatch()
            self._task = None
            self._end_log()

    async def _stream(self, *sources: Batches) -> None:
        (batches,) = sources
        encode, exchange, log, keepalive = (
            self._encoder.encode, self._exchange, self._log, self._keepalive
        )  # fmt: skip
        keepalive.start()
        async for batch in batches:
            if not batch:
                continue
            log.add_events(batch)
            end = batch[-1]
            if isinstance(end, ENDS):
                await self._finish(end)
                if not exchange.has_started and has_only_failure(batch):
                    await self._respond_error(end)
                    return
            if len(batch) == 1:
                data = encode(batch[0])
            else:
                data = b"".join([encode(event) for event in batch])
            # Until here the status could still be an error: SDKs retry on 429 and 5xx, but not on
            # an error within a stream of status 200.
            if isinstance(end, ENDS):
                # Clients disconnect once they have `[DONE]`, and the upstream may end much later.
                keepalive.stop()
                await exchange.end_stream(data + self._finish_encoder())
                return
            if data:
                keepalive.touch()
            if not exchange.has_started:
                await exchange.start_stream(data)
            elif data and not exchange.send_now(data):
                await exchange.send(data)
        await exchange.end_stream(self._finish_encoder())

    async def _write_whole(self, *sources: Batches) -> None:
        (batches,) = sources
        async for batch in batches:
            self._log.add_events(batch)
            if (end := find_end(batch)) is not None:
                await self._finish(end)
                break
        end = self.end
        if end is None:
            end = self.end = _make_truncated()
        if (failure := find_failure(end.message)) is not None:
            failed = end if isinstance(end, Failed) else Failed("error", failure, end.message)
            await self._respond_error(failed)
            return
        ending = find_ending(end.message)
        if isinstance(ending, ErrorInfo):
            # Most APIs have no field for an incomplete call in a whole response.
            flaw = ending.message.encode("ascii", "replace")[:MAX_FLAW]
            flaw = flaw.replace(b"\n", b" ").replace(b"\r", b" ")
            self._exchange.extra_headers.append((FLAW_HEADER, flaw))
        await self._exchange.respond(200, self._endpoint.write_whole(end.message))

    # --- the end ---

    async def _finish(self, end: Done | Failed) -> None:
        """Record the end, and store what the next request needs before the client receives it."""
        self.end = end
        if isinstance(end, Done):
            await self._save(end.message)
        else:
            self._clean_error(end)

    def _clean_error(self, end: Failed) -> None:
        """Remove secrets from an upstream's error, adapt its status, and add what to do."""
        route = self._log.route
        advice = "" if route is None else route.advise(end.error)
        for error in filter(None, (end.error, end.message.error)):
            self._log.redactor.redact_error(error)
            adapt_upstream_error(error)
            if advice and not error.message.endswith(advice):
                error.message = f"{error.message.rstrip('. ')}. {advice}"

    async def _respond_error(self, end: Failed | Done) -> None:
        error = end.error if isinstance(end, Failed) else _make_truncated().error
        self.end = end
        self.status, body = write_error(error, self._endpoint.api, self._log.started.id)
        await self._exchange.respond(self.status, body, *error_headers(error))

    async def _abort(self, *, stream: bool) -> None:
        """End a response that was cancelled; nothing is sent if the client has disconnected."""
        task = asyncio.current_task()
        if task is not None:
            # The cancellation ends here, so it must not count for timeouts and task groups.
            task.uncancel()
        if self._exchange.is_complete:
            return  # Only the rest of the upstream's response was still read.
        if self._exchange.is_gone:
            self.aborted = make_aborted(ErrorInfo("the client disconnected", "aborted"))
            self.end = self.end or self.aborted
            self.status = 499  # nginx's status for a client that closed the connection
            return
        message = "the gateway is shutting down"
        error = ErrorInfo(message, "aborted", "overloaded_error", 503, retryable=True)
        self.aborted = make_aborted(error)
        self.end = self.end or self.aborted
        try:
            async with asyncio.timeout(LAST_CHUNK_SECONDS):
                if stream and self._exchange.has_started:
                    await self._exchange.end_stream(self._encode_end(self.aborted))
                elif not self._exchange.has_started:
                    await self._respond_error(self.aborted)
        except TimeoutError:
            self.end = self.aborted  # The client has not received what the upstream sent.

    def _encode_end(self, failed: Failed) -> bytes:
        """Return the end of a stream that fails here; nothing if it was already written."""
        if self._has_finished:
            return b""
        return self._encoder.encode(failed) + self._finish_encoder()

    def _finish_encoder(self) -> bytes:
        self._has_finished = True
        return self._encoder.finish()

    def _end_log(self) -> None:
        """Complete the log of the response."""
        self._end_one_log(self.end, self._log)

    def _end_one_log(self, end: Done | Failed | None, log: RequestLog) -> None:
        end = end or _make_truncated()
        message = end.message
        if isinstance(end, Failed) and message.error is None:
            message = structs.replace(message, error=end.error)
        state: Literal["done", "failed", "aborted"] = "done"
        if isinstance(end, Failed):
            state = "aborted" if end.reason == "aborted" else "failed"
        write = None if find_failure(message) is not None else self._endpoint.write_whole
        log.end(
            message,
            state=state,
            status=self.status,
            response=None if write is None else lambda: write(message),
        )

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


# --- formats of endpoints ---


PREFIXES: Final = {
    "openai-chat": "chatcmpl-",
    "openai-responses": "resp_",
    "anthropic": "msg_",
    "gemini": "",
}
"""How response ids begin in each API."""


class ApiEndpointFormat(Struct, frozen=True):
    """Writes responses of *api* with the model name that the client used.

    *tokens* is the estimated size of the prompt, *options* are those of the encoder.
    """

    api: str
    id: str
    model: str
    created: int
    options: dict[str, Any]
    tokens: int = 0

    def encoder(self) -> StreamEncoder:
        """Return the encoder of the stream."""
        return apis.get(self.api).encoder(
            model=self.model, id=self.id, created=self.created, **self.options
        )

    def write_whole(self, message: AssistantMessage) -> dict[str, Any]:
        """Return the body of a response that is not streamed."""
        tools = {"tools": self.options["tools"]} if "tools" in self.options else {}
        body = apis.get(self.api).write_response(
            self.localize(message), created=self.created, **tools
        )
        if "fields" not in self.options:
            return body
        has_failed = message.error is not None or body["status"] == "failed"
        return {**body, **self.options["fields"](), **({"store": False} if has_failed else {})}

    def localize(self, message: AssistantMessage) -> AssistantMessage:
        """Return *message* with the id and the model of this response, and with its usage."""
        usage = usage_or_estimate(message, self.tokens)
        return structs.replace(message, id=self.id, model=self.model, usage=usage)


def make_endpoint_format(
    api: str,
    request: Request,
    request_id: str,
    *,
    tokens: int = 0,
    always_usage: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> ApiEndpointFormat:
    """Return the format of the response to *request* of *api*.

    *tokens* is the estimated size of the prompt: Anthropic's API reports it first, and some
    upstreams count nothing. *always_usage* sends the usage even if the client did not ask for it.
    *fields* are the fields of a Responses object beside those that repeat the request.
    """
    options: dict[str, Any] = {"input_tokens": tokens}
    if api == "openai-chat":
        # OpenAI sends the usage in a last chunk without choices, and only if it was asked for.
        options |= {"usage": request.include_usage or always_usage, "error_id": request_id}
    elif api == "openai-responses":
        # Its tools may be in namespaces or take free text: calls go out under the client's names.
        options["tools"] = read_client_tools(request.raw or {})
        # Compressed: the tools of an agent are large, and streams are open for minutes.
        echoed = {**echo_request(request.raw or {}), **(fields or {})}
        options["fields"] = partial(_decompress, zlib.compress(_json.encode(echoed), 1))
    id_ = PREFIXES[api] + request_id
    return ApiEndpointFormat(api, id_, request.model, int(time.time()), options, tokens)


def _decompress(data: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = _json.decode(zlib.decompress(data))
    return fields


# --- several choices ---


NumberedBatch = tuple[int, list[Event]]
"""A list of events, and the number of the choice that they belong to."""


class MultiChoiceResponseWriter(ResponseWriter):
    """Writes a chat completion with several choices, each of which has its own source and log."""

    def __init__(
        self,
        exchange: HTTPExchange,
        endpoint: ApiEndpointFormat,
        logs: list[RequestLog],
        save: SaveResponse,
        *,
        keepalive_seconds: float,
    ) -> None:
        super().__init__(exchange, endpoint, logs[0], save, keepalive_seconds=keepalive_seconds)
        self._logs = logs
        self._ends: list[Done | Failed | None] = [None] * len(logs)
        self._format = endpoint
        self._choices = ChoicesEncoder(
            len(logs),
            model=endpoint.model,
            id=endpoint.id,
            created=endpoint.created,
            usage=bool(endpoint.options.get("usage")),
            input_tokens=endpoint.tokens,
        )

    async def _stream(self, *sources: Batches) -> None:
        self._keepalive.start()
        async with aclosing(merge_batches(sources)) as merged:
            async for choice, batch in merged:
                self._add(choice, batch)
                if not self._exchange.has_started:
                    if has_only_failure(batch):
                        await self._respond_error(self._ends[choice] or _make_truncated())
                        return
                    await self._exchange.start_stream()
                data = b"".join([self._choices.encode(choice, event) for event in batch])
                self._keepalive.touch()
                if data:
                    await self._exchange.send(data)
                if self._choices.ended:
                    break
        await self._exchange.end_stream(self._choices.finish())

    async def _write_whole(self, *sources: Batches) -> None:
        async with aclosing(merge_batches(sources)) as merged:
            async for choice, batch in merged:
                self._add(choice, batch)
        ends = [end or _make_truncated() for end in self._ends]
        for end in ends:
            if (failure := find_failure(end.message)) is not None:
                failed = end if isinstance(end, Failed) else Failed("error", failure, end.message)
                await self._respond_error(failed)
                return
        self.end = ends[0]
        messages = [self._format.localize(end.message) for end in ends]
        await self._exchange.respond(200, write_choices(messages, created=self._format.created))

    def _add(self, choice: int, batch: list[Event]) -> None:
        self._logs[choice].add_events(batch)
        if (end := find_end(batch)) is not None:
            self._ends[choice] = self.end = end
            if isinstance(end, Failed):
                self._clean_error(end)

    def _encode_end(self, failed: Failed) -> bytes:
        return self._choices.finish(failed)

    def _end_log(self) -> None:
        """Complete the log of each choice; those without an end were aborted with the others."""
        stopped = self.aborted
        if stopped is None and any(isinstance(end, Failed) for end in self._ends):
            stopped = make_aborted(ErrorInfo("another choice failed", "aborted"))
        for end, log in zip(self._ends, self._logs, strict=True):
            self._end_one_log(end or stopped, log)


async def merge_batches(sources: Sequence[Batches]) -> AsyncGenerator[NumberedBatch, None]:
    """Yield the batches of all *sources* as they arrive; closing this closes all sources."""
    queue: asyncio.Queue[NumberedBatch | None] = asyncio.Queue(maxsize=len(sources))

    async def read(number: int, source: Batches) -> None:
        try:
            async with aclosing(source):
                async for batch in source:
                    if batch:
                        await queue.put((number, batch))
        except Exception as exc:  # noqa: BLE001 - every failure becomes an event
            failed = Failed("error", error_from_exception(exc), AssistantMessage())
            await queue.put((number, [failed]))
        await queue.put(None)

    tasks = [asyncio.create_task(read(number, one)) for number, one in enumerate(sources)]
    try:
        left = len(tasks)
        while left:
            numbered = await queue.get()
            if numbered is None:
                left -= 1
            else:
                yield numbered
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
