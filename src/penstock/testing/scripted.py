"""`ScriptedModel`: a model that responds by a script."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, Final, Literal

from msgspec import Struct, structs

from penstock import apis
from penstock.agent.tokens import message_tokens, request_tokens
from penstock.builder import message_events
from penstock.errors import UsageError
from penstock.events import (
    ENDS,
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from penstock.formats import AnyFormat, FormatLike, get
from penstock.messages import (
    AssistantMessage,
    Content,
    ErrorInfo,
    ErrorKind,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from penstock.models.base import (
    Batches,
    Model,
    OutputMode,
    Tap,
    ensure_end,
    ids_for,
    iter_events,
)
from penstock.request import Request, RequestLike, make_request
from penstock.streams import EventStream

CHUNK: Final = 8
"""How many characters of a script one delta has: few enough that a test sees several deltas."""

NATIVE: Final = "native"
"""Instead of a format: calls and reasoning are events, as from a server with native tools."""


class Pause(Struct, frozen=True):
    """A pause of *seconds* within a response."""

    seconds: float


class Disconnect(Struct, frozen=True):
    """The connection ends here, in the middle of a response."""


Part = str | Text | Thinking | ToolCall | Opaque | ErrorInfo | Exception | Pause | Disconnect
"""A part of a response: text, reasoning, a call, a failure or a pause."""

Reply = Part | AssistantMessage | Sequence[Part]
"""A response: its parts, or a whole message with its stop reason and usage."""

Respond = Callable[[Request], Reply | Awaitable[Reply]]
"""Returns the response to a request."""


def call(name: str, /, **arguments: Any) -> ToolCall:
    """Return a call of the tool *name*; it gets its id when the response is sent."""
    return ToolCall("", name, arguments)


def think(text: str) -> Thinking:
    """Return reasoning."""
    return Thinking(text)


def fail(
    message: str = "the server failed",
    *,
    kind: ErrorKind = "provider",
    type: str = "",  # noqa: A002 - the field's name
    status: int | None = None,
    retry_after: float | None = None,
    retryable: bool = False,
) -> ErrorInfo:
    """Return a failure; the arguments are those of `ErrorInfo`."""
    return ErrorInfo(message, kind, type, status, retry_after, retryable)


def wait(seconds: float) -> Pause:
    """Return a pause of *seconds*."""
    return Pause(seconds)


# Unlike `fail`, nothing says that the response has failed: the consumer has to notice that no
# terminal event came.
def cut() -> Disconnect:
    """Return the end of a connection in the middle of a response."""
    return Disconnect()


class ScriptedModel(Model):
    """A model that responds by *script*: a list of responses, or a function of the request.

    A response is text, a call, or a list of parts: text, `think(…)`, `call(…)`, `wait(…)`,
    `fail(…)`, `cut()`, an exception. An `AssistantMessage` is sent as it is. A function returns one
    of these, and may be a coroutine function.

    With *format*, the name of a text format, calls are printed as text in it, and reasoning between
    ``<think>`` tags, as by a model without native tools. Text is sent in deltas of *chunk*
    characters. *modes* are the ways in which it can be asked for typed output.

    `requests` has every request. A request after the last response fails, and `check_finished`
    fails if responses are left.
    """

    def __init__(
        self,
        script: Iterable[Reply] | Respond,
        *,
        format: FormatLike = NATIVE,  # noqa: A002 - the public name of this option
        name: str = "scripted",
        chunk: int = CHUNK,
        modes: tuple[OutputMode, ...] | None = None,
    ) -> None:
        if chunk < 1:
            raise UsageError(f"chunk must be 1 or more characters, got {chunk}")
        # A string is iterable: each character would be a response.
        if isinstance(script, str | Struct | Exception):
            raise UsageError("a script must be a list of responses or a function")
        self.requests: list[Request] = []
        self._respond_to = script if callable(script) else None
        self._replies = [] if callable(script) else list(script)
        self._total = len(self._replies)
        self._format: AnyFormat | None = None if format == NATIVE else get(format)
        self._name = name
        self._chunk = chunk
        native: tuple[OutputMode, ...] = ("native", "tool", "prompt")
        self._modes = modes or (("prompt",) if self._format else native)

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    def output_modes(self, *, has_tools: bool) -> tuple[OutputMode, ...]:
        """Return *modes*."""
        del has_tools
        return self._modes

    def stream(self, request: RequestLike) -> EventStream:
        """Start the response to *request*."""
        return EventStream(self._send(make_request(request)), interval=0)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Yield the events of the response one by one."""
        del tap
        return ensure_end(self._send_each(make_request(request)))

    def check_finished(self) -> None:
        """Raise `AssertionError` if responses of the script were not requested."""
        if self._replies:
            raise AssertionError(
                f"{len(self._replies)} of {self._total} responses were not requested; "
                f"the next one is {self._replies[0]!r}"
            )

    # --- one response ---

    async def _send_each(self, request: Request) -> Batches:
        async for event in self._send(request):
            yield [event]

    async def _send(self, request: Request) -> AsyncGenerator[Event, None]:
        # The agent extends the list of messages later.
        self.requests.append(structs.replace(request, messages=list(request.messages)))
        reply = await self._find_reply(request)
        if isinstance(reply, AssistantMessage):
            for event in message_events(reply):
                for piece in self._split(event):
                    yield piece
        else:
            async for event in self._send_parts(reply, request):
                yield event

    async def _send_parts(
        self, reply: Part | Sequence[Part], request: Request
    ) -> AsyncGenerator[Event, None]:
        parts = [reply] if isinstance(reply, Part) else list(reply)
        message = AssistantMessage(f"msg_{len(self.requests)}", self._name)
        yield MessageStart(message.id, message.model)
        for end in self._group(parts, message, request):
            for event in self._block_events(message, end.first):
                for piece in self._split(event):
                    yield piece
            match end.then:
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                case Disconnect():
                    return
                case ErrorInfo() as error:
                    yield Failed("error", error, message)
                    return
                case Exception() as exc:
                    raise exc
        message.usage = _count(request, message)
        reason: Literal["stop", "tool_use"] = "tool_use" if message.tool_calls else "stop"
        message.stop_reason = reason
        yield Done(reason, message)

    async def _find_reply(self, request: Request) -> Reply:
        if self._respond_to is not None:
            reply = self._respond_to(request)
            return await reply if isawaitable(reply) else reply
        if not self._replies:
            number = len(self.requests)
            return fail(f"the script has {self._total} responses, and this is request {number}")
        return self._replies.pop(0)

    def _group(
        self, parts: Sequence[Part], message: AssistantMessage, request: Request
    ) -> Iterator[_Step]:
        """Add the blocks of *parts* to *message* up to each pause and failure; yield those."""
        ids, first = ids_for(request), 0
        for part in parts:
            if isinstance(part, Pause | Disconnect | ErrorInfo | Exception):
                yield _Step(first, part)
                first = len(message.content)
                continue
            block: Content = Text(part) if isinstance(part, str) else part
            if isinstance(block, ToolCall) and not block.id:
                block = structs.replace(block, id=ids())
                ids.taken.add(block.id)
            if self._format is not None:
                block = self._print(block, self._format)
            message.content.append(block)
        yield _Step(first, None)

    def _print(self, block: Content, format_: AnyFormat) -> Content:
        if isinstance(block, ToolCall):
            return Text(format_.render_call(block))
        return Text(f"<think>{block.text}</think>\n") if isinstance(block, Thinking) else block

    def _block_events(self, message: AssistantMessage, first: int) -> Iterator[Event]:
        """Yield the events of the blocks from *first* on."""
        shown = structs.replace(message, stop_reason="stop")
        starts = {"text_start", "thinking_start", "toolcall_start", "part"}
        index = -1
        for event in message_events(shown):
            index += event.type in starts
            if index >= first and not isinstance(event, MessageStart | Done | Failed):
                yield event

    def _split(self, event: Event) -> Iterator[Event]:
        """Yield *event*; a long delta in pieces."""
        if isinstance(event, TextDelta | ThinkingDelta):
            for at in range(0, len(event.text), self._chunk):
                yield structs.replace(event, text=event.text[at : at + self._chunk])
        elif isinstance(event, ToolCallDelta):
            for at in range(0, len(event.arguments), self._chunk):
                yield structs.replace(event, arguments=event.arguments[at : at + self._chunk])
        else:
            yield event


class _Step(Struct):
    """Blocks from *first* on, and what happens after them."""

    first: int
    then: Pause | Disconnect | ErrorInfo | Exception | None


def _count(request: Request, message: AssistantMessage) -> Usage:
    """Return an estimate of the tokens, which is the same every time."""
    read = request_tokens(request.messages, request.system, request.tools)
    written = message_tokens(message)
    return Usage(input=read, output=written, total=read + written)


# --- recorded streams ---

REPLAY_CHUNK: Final = 64
"""How many bytes of a recording are read at once: a small packet."""


class ReplayModel(Model):
    """Responds with *recordings*, one per request, as a server with *api* sent them.

    A recording is the body of a streamed response: bytes, or the path of a file. It is decoded in
    pieces of *chunk* bytes. `requests` has every request. `from_log` replays a request of the
    gateway's log.

    Raises `UsageError` for an unknown API.
    """

    def __init__(
        self,
        *recordings: bytes | str | Path,
        api: str = "openai-chat",
        name: str = "recorded",
        chunk: int = REPLAY_CHUNK,
        modes: tuple[OutputMode, ...] = ("native", "tool", "prompt"),
    ) -> None:
        if chunk < 1:
            raise UsageError(f"chunk must be 1 or more bytes, got {chunk}")
        self.requests: list[Request] = []
        self._api = apis.get(api)
        self._name = name
        self._modes = modes
        self._streams: list[Sequence[bytes]] = []
        for recording in recordings:
            data = recording if isinstance(recording, bytes) else Path(recording).read_bytes()
            self._streams.append([data[at : at + chunk] for at in range(0, len(data), chunk)])

    @classmethod
    async def from_log(cls, database: str, request_id: str) -> ReplayModel:
        """Return a model that replays the request *request_id* of the log in *database*.

        *database* is the URL of the gateway's database. Needs the extra ``server``.
        Raises `UsageError` if the log does not have the request, or not its bodies, and
        `StoreError` if the database cannot be read.
        """
        from penstock.gateway.replay import split_responses  # noqa: PLC0415 - a heavy import
        from penstock.store import Store  # noqa: PLC0415

        store = Store(database, create=False)
        store.start()
        try:
            detail = await store.request(request_id)
        finally:
            await store.close()
        if detail is None or not detail.raw:
            raise UsageError(f"the log has no request {request_id} with its bodies")
        model = cls(api=detail.row.upstream_api, name=detail.row.upstream_model)
        model._streams = [*split_responses(detail, model._api)]
        return model

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    @property
    def api_name(self) -> str:
        """The name of the API of the recordings."""
        return self._api.name

    def output_modes(self, *, has_tools: bool) -> tuple[OutputMode, ...]:
        """Return *modes*."""
        del has_tools
        return self._modes

    def stream(self, request: RequestLike) -> EventStream:
        """Start the next response."""
        return EventStream(iter_events(self.batches(request)), interval=0)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Yield the events of the next response as they are decoded."""
        return ensure_end(self._decode(make_request(request), tap or Tap()))

    async def _decode(self, request: Request, tap: Tap) -> Batches:
        self.requests.append(request)
        if not self._streams:
            error = ErrorInfo(f"there is no recording for request {len(self.requests)}")
            yield [Failed("error", error, AssistantMessage(error=error))]
            return
        decoder = self._api.decoder(ids=ids_for(request))
        for piece in self._streams.pop(0):
            tap.received(piece)
            events = decoder.feed(piece)
            yield events
            if events and isinstance(events[-1], ENDS):
                return
        yield decoder.finish()
