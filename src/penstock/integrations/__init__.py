"""Parts of penstock for other programs: SDK transports and plugins, each with an extra.

This module is what they share, and what to use with any other HTTP library: it rewrites the
responses of an upstream before an SDK reads them, bytes in, bytes out. `prepare` looks at a request
that an SDK sends and returns an `Exchange`, or None if there is nothing to rewrite. The exchange
has the body to send and rewrites the response: calls that the model printed as text become calls of
the API, and printed reasoning becomes reasoning.

A Chat stream passes byte for byte as long as parsing changes nothing, so that fields which penstock
does not know (`logprobs`, `service_tier`, …) reach the SDK. A Responses or Messages stream is
encoded again, because its events carry numbers and ids that a new call would shift.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from msgspec import Struct, structs

from penstock import _json, apis
from penstock.apis.decoder import StreamDecoder
from penstock.apis.encoder import GuardedArguments, StreamEncoder
from penstock.builder import message_events
from penstock.errors import JSONParseError, UsageError
from penstock.events import (
    ENDS,
    Event,
    MessageStart,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats import EventReader, FormatLike, Placement, get, make_event_parser, names
from penstock.framing import sse
from penstock.messages import AssistantMessage, Text
from penstock.models.base import join_deltas, new_call_id
from penstock.models.middleware import RequestPlanner, without_calls
from penstock.models.untrusted import untrusted_in
from penstock.parsing import Arguments, FencedCalls, OnError, QuotedCalls, Reasoning
from penstock.request import Request
from penstock.tools import Tool

__all__ = ["Exchange", "RewriteOptions", "find_api", "prepare"]

MAX_PENDING: Final = 1_000_000
"""How many bytes of an unfinished frame are held so that it can pass unchanged."""

_PATHS: Final = {
    "/chat/completions": "openai-chat",
    "/responses": "openai-responses",
    "/messages": "anthropic",
}
_CONVERSATION: Final = ("messages", "system", "input", "instructions", "stop", "stop_sequences")
# The frames that are written get the time of the upstream's own, so that a stream has one.
_CREATED: Final = re.compile(rb'"created(?:_at)?" *: *([0-9]{1,12})')
_FRAME_ENDS: Final = (b"\n\n", b"\r\n\r\n")

# The field of a whole response that holds its content, and those that depend on it.
_CONTENT_FIELDS: Final = {
    "openai-chat": ("choices",),
    "openai-responses": ("output", "status", "incomplete_details"),
    "anthropic": ("content", "stop_reason"),
}


class RewriteOptions(Struct, frozen=True, kw_only=True):
    """How requests and responses are rewritten.

    * *tools*: ``auto`` sends the tools as the SDK wrote them and parses the text of the response;
      ``prompt`` describes the tools in the system prompt, for servers that have no tools.
    * *format*, *reasoning*, *arguments*, *repair*, *trim* and *fenced* are options of
      `penstock.Parser`; *quoted* is the option of `ToolMiddleware`. With *trim*, text that ends in
      white space waits for the next delta, so that fewer frames pass unchanged.
    * *heal* repairs native calls that the upstream's own parser damaged.
    * *placement* is where the tools go in the system prompt, with ``prompt``.
    * *on_error* is called for text that looks like a call and is not accepted as one.
    """

    tools: Literal["auto", "prompt"] = "auto"
    format: FormatLike = "auto"
    reasoning: str | Reasoning | None = None
    arguments: Arguments = "live"
    repair: bool = True
    trim: bool = False
    fenced: FencedCalls = "text"
    quoted: QuotedCalls = "text"
    heal: bool = True
    placement: Placement = "first"
    on_error: OnError | None = None

    def __post_init__(self) -> None:
        """Raise `UsageError` for an unknown format or way of passing tools."""
        get(self.format)
        if self.tools not in ("auto", "prompt"):
            raise UsageError(f"tools must be 'auto' or 'prompt', got {self.tools!r}")


def find_api(path: str) -> str | None:
    """Return the API that a request to *path* uses, or None for any other path."""
    path = path.rstrip("/")
    return next((api for end, api in _PATHS.items() if path.endswith(end)), None)


def prepare(api: str, body: bytes, options: RewriteOptions) -> Exchange | None:
    """Return how to handle a request to *api* with *body*; None means: leave both directions alone.

    Requests that are not valid JSON and requests for several choices are left alone.
    """
    try:
        data = _json.decode(body)
        # Only the first choice would be read, so rewriting would lose the others.
        if not isinstance(data, dict) or data.get("n") not in (None, 1):
            return None
        request = apis.get(api).read_request(data)
    except (JSONParseError, UsageError):
        return None  # The upstream has an error message for it.
    return Exchange(api, body, data, request, options)


class Exchange:
    """One request and the rewriting of its response.

    `body` is what to send. For a response with an event stream use `feed` and `finish`, for a whole
    one `rewrite`.
    """

    def __init__(
        self,
        api: str,
        body: bytes,
        data: Mapping[str, Any],
        request: Request,
        options: RewriteOptions,
    ) -> None:
        self.body = body
        self._name = api
        self._api = apis.get(api)
        self._options = options
        self._request = request
        self._format, self._reasoning = get(options.format), options.reasoning
        is_forbidden = request.tool_choice is not None and request.tool_choice.mode == "none"
        self._tools = [] if is_forbidden else request.tools
        if options.tools == "prompt" and request.tools:
            self._put_tools_in_prompt(data)
        elif not self._tools:
            self._format, self._reasoning = without_calls(self._format, self._reasoning)
        self._stream: _Stream | None = None

    def _put_tools_in_prompt(self, data: Mapping[str, Any]) -> None:
        planner = RequestPlanner(
            self._format, {"placement": self._options.placement}, self._reasoning
        )
        plan = planner.plan(self._request, self._request.model, self._name)
        written = self._api.write_request(plan.request)
        # Only the conversation changes: every other field is sent as the SDK wrote it.
        dropped = {"tools", "tool_choice", "parallel_tool_calls", *_CONVERSATION}
        sent = {key: value for key, value in data.items() if key not in dropped}
        sent |= {key: value for key, value in written.items() if key in _CONVERSATION}
        self.body = _json.encode_wire(sent)
        self._format, self._reasoning = plan.format, plan.reasoning
        self._tools = plan.demand.tools

    def feed(self, data: bytes) -> bytes:
        """Rewrite more bytes of an event stream."""
        stream = self._stream
        if stream is None:
            stream = self._stream = self._start(_find_created(data))
        return stream.feed(data)

    def finish(self) -> bytes:
        """End the event stream; return what was held."""
        if self._stream is None:
            self._stream = self._start()
        return self._stream.finish()

    def rewrite(self, body: bytes) -> bytes:
        """Rewrite a whole response; one that parsing does not change is returned as it is."""
        try:
            data = _json.decode(body)
        except JSONParseError:
            return body
        if not isinstance(data, dict):
            return body
        message = self._api.read_response(data)
        if message.error is not None or message.stop_reason is None:
            return body
        for block in message.content:
            if isinstance(block, Text):  # Its id belongs to a message that may be split.
                block.signature = ""
        found = self._parse(message)
        if found is None or found.content == message.content:
            return body
        try:
            written = self._api.write_response(found)
        except UsageError:  # A call is incomplete and there is nothing else.
            return body
        fields = {key: written[key] for key in _CONTENT_FIELDS[self._name] if key in written}
        return _json.encode_wire({**data, **fields})

    def _start(self, created: int = 0) -> _Stream:
        return _Stream(
            self._api.decoder(),
            self._make_parser(self._options.arguments),
            self._api.encoder(created=created),
            passes_bytes=self._name == "openai-chat",
        )

    def _make_parser(self, arguments: Arguments) -> EventReader:
        options, request = self._options, self._request
        return make_event_parser(
            self._format,
            self._tools,
            reasoning=self._reasoning,
            arguments=arguments,
            repair=options.repair,
            trim=options.trim,
            fenced=options.fenced,
            on_error=options.on_error,
            ids=new_call_id,
            max_calls=1 if request.parallel_tool_calls is False else None,
            untrusted=untrusted_in(request, options.quoted) if self._tools else None,
            heal=options.heal and bool(self._tools),
            max_tokens=request.max_tokens,
        )

    def _parse(self, message: AssistantMessage) -> AssistantMessage | None:
        # A broken or cut call of a whole response is text: nothing has been sent yet.
        parser, last = self._make_parser("whole"), None
        for event in message_events(message):
            for out in parser.add(event):
                last = out
        return last.message if isinstance(last, ENDS) else None


class _Stream:
    """Rewrites one event stream.

    With *passes_bytes*, frames do not depend on each other, and those that parsing does not change
    pass unchanged.
    """

    def __init__(
        self,
        decoder: StreamDecoder,
        parser: EventReader,
        encoder: StreamEncoder,
        *,
        passes_bytes: bool,
    ) -> None:
        self._decoder = decoder
        self._parser = parser
        self._encoder = encoder
        self._passes_bytes = passes_bytes
        self._drops_signatures = not passes_bytes
        self._pending = b""  # the beginning of a frame
        self._held = b""  # whole frames that are decided by the events after them

    def feed(self, data: bytes) -> bytes:
        """Rewrite more bytes."""
        if self._pending:
            data = self._pending + data
        if not self._passes_bytes:
            self._pending = b""
            events = self._parse(self._decoder.feed(data))
            return self._encoder.encode(events[0]) if len(events) == 1 else self._encode(events)
        if not data.endswith(_FRAME_ENDS):
            data = self._split(data)
            if not data:
                return b""
        elif self._pending:
            self._pending = b""
        read = self._decoder.feed(data)
        events = self._parse(read)
        if len(events) == 1 and not self._held and _is_same_delta(read, events):
            return data  # Nearly all frames; the encoder need not know of these deltas.
        if not read and not events:
            return self._hold(data)
        if _is_same(read, events):
            self._encode(events)  # The encoder must know what has been sent.
            held, self._held = self._held, b""
            return held + data
        if any(isinstance(event, ToolCallStart) for event in events):
            self._passes_bytes = False
        # Frames that were held have no content: the encoder writes its own end.
        self._held = b""
        return self._encode(events)

    def finish(self) -> bytes:
        """End the stream; return what was held."""
        pending, self._pending = self._pending, b""
        read = self._decoder.feed(pending) if pending else []
        read += self._decoder.finish()
        events = self._parse(read)
        if self._passes_bytes and _is_same(read, events):
            return self._held + pending
        events += self._parser.finish()
        return self._encode(events) + self._encoder.finish()

    def _split(self, data: bytes) -> bytes:
        """Return the whole frames of *data* and keep the rest."""
        at = max(data.rfind(end) + len(end) if end in data else 0 for end in _FRAME_ENDS)
        self._pending = data[at:]
        lines = self._pending.count(b"\ndata:")
        if len(self._pending) > MAX_PENDING or lines:
            # The server does not separate its frames: the decoder finds their ends.
            self._passes_bytes = False
            self._pending = b""
            return data
        return data[:at]

    def _hold(self, data: bytes) -> bytes:
        """Hold frames without events until it is known how the response continues.

        They may end it with `stop` while the parser still holds a call. Comments pass at once.
        """
        if not self._held and all(
            line.startswith(b":") for line in data.splitlines() if line.strip()
        ):
            return data
        self._held += data
        return b""

    def _parse(self, events: list[Event]) -> list[Event]:
        if len(events) == 1 and isinstance(events[0], TextDelta):  # nearly always
            found = self._parser.add(events[0])
            return found if len(found) == 1 else join_deltas(found)
        if self._drops_signatures:
            events = [_without_signature(event) for event in events]
        return [out for event in events for out in join_deltas(self._parser.add(event))]

    def _encode(self, events: list[Event]) -> bytes:
        encode = self._encoder.encode
        return b"".join([encode(event) for event in events])


def _without_signature(event: Event) -> Event:
    """Return *event* without the upstream's id of a message, which is split if it has calls."""
    if isinstance(event, TextEnd) and event.signature:
        return structs.replace(event, signature="")
    return event


def _is_same_delta(read: list[Event], events: list[Event]) -> bool:
    """Return whether both are one delta with the same text."""
    one, other = read[0] if len(read) == 1 else None, events[0]
    return isinstance(one, TextDelta) and isinstance(other, TextDelta) and one.text == other.text


def _is_same(read: list[Event], events: list[Event]) -> bool:
    """Return whether parsing changed nothing that a client can see."""
    if len(read) != len(events):
        return False
    for one, other in zip(read, events, strict=True):
        if isinstance(one, TextDelta):
            if not isinstance(other, TextDelta) or one.text != other.text:
                return False
        elif type(one) is not type(other):
            return False
        elif isinstance(one, ENDS):
            assert isinstance(other, ENDS)  # noqa: S101 - they have the same type
            if one.reason != other.reason or one.message.content != other.message.content:
                return False
        elif not isinstance(one, MessageStart) and one != other:
            return False
    return True


def _find_created(data: bytes) -> int:
    """Return the time in the first bytes of a stream, or now if they have none."""
    found = _CREATED.search(data)
    return int(found[1]) if found else int(time.time())


# --- plugins of engines and trainers ---

PLUGIN: Final = "penstock"
"""The name of the parser that recognises the format, and the beginning of all other names."""


def list_plugin_formats() -> dict[str, str]:
    """Return the names under which a plugin registers tool parsers, each with its format."""
    formats = (name for name in names() if name != "none")
    return {PLUGIN if name == "auto" else f"{PLUGIN}_{name}": name for name in formats}


def read_offered_tools(tools: Iterable[Any]) -> Iterator[Tool]:
    """Yield the *tools* of an engine's request, models of pydantic, as ours.

    Tools that the server runs itself are skipped.
    """
    for tool in tools:
        with suppress(UsageError):
            yield Tool.read(tool.model_dump(exclude_none=True))


class EngineCalls:
    """Follows the calls of a stream, in the fields that vLLM and SGLang read of a tool *parser*."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser
        self._arguments: dict[int, GuardedArguments] = {}
        self._numbers: dict[int, int] = {}  # of calls, by the number of their block

    def add(self, event: Event) -> tuple[int, str] | None:
        """Return the number of a call and the piece of its arguments; None if nothing is sent.

        The piece of a start is empty.
        """
        parser = self._parser
        if isinstance(event, ToolCallStart):
            number = self._numbers[event.index] = len(self._numbers)
            self._arguments[event.index] = GuardedArguments()
            parser.current_tool_id = number
            parser.current_tool_name_sent = True
            # `arguments` has what was sent, so that the engine finds nothing left to send.
            parser.prev_tool_call_arr.append({"name": event.name, "arguments": ""})
            parser.streamed_args_for_tool.append("")
            return number, ""
        if isinstance(event, ToolCallDelta):
            piece = self._arguments[event.index].add(event.arguments)
        elif isinstance(event, ToolCallEnd):
            piece = self._arguments.pop(event.index).end(event.call)
        else:
            return None
        if not piece:
            return None
        number = self._numbers[event.index]
        parser.streamed_args_for_tool[number] += piece
        parser.prev_tool_call_arr[number]["arguments"] += piece
        return number, piece


# --- integrations without HTTP ---
#
# A framework has text and calls in objects of its own. Its text is written as a response of the
# Chat API, rewritten by an `Exchange`, and read again: so all integrations treat printed calls
# alike.

API: Final = "openai-chat"


def prepare_chat(
    messages: list[dict[str, Any]],
    tools: list[dict[str, Any]],
    options: RewriteOptions,
    **fields: Any,
) -> tuple[list[dict[str, Any]], Exchange | None]:
    """Return the messages to send, and the exchange that rewrites the response.

    There is no exchange if the request has no tools.
    """
    if not tools:
        return messages, None
    body = {"model": "model", "messages": messages, "tools": tools, **fields}
    exchange = prepare(API, _json.encode_wire(body), options)
    if exchange is None or options.tools != "prompt":
        return messages, exchange
    sent = _json.decode(exchange.body)
    return (sent["messages"] if isinstance(sent, dict) else messages), exchange


def rewrite_message(exchange: Exchange, message: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return a whole Chat *message* with its printed calls as calls; *reason* ended it."""
    choice = {"index": 0, "message": message, "finish_reason": reason}
    body = {"id": "r", "object": "chat.completion", "model": "model", "choices": [choice]}
    found: Any = _json.decode(exchange.rewrite(_json.encode_wire(body)))
    rewritten: dict[str, Any] = found["choices"][0]["message"]
    return rewritten


class DeltaRewriter:
    """Rewrites the text of one stream: text in, Chat deltas out."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._frames = sse.Decoder()

    def feed(self, text: str) -> list[dict[str, Any]]:
        """Return the deltas for more text."""
        return self._read(self._exchange.feed(_write_chunk({"content": text})))

    def finish(self, reason: str = "stop") -> list[dict[str, Any]]:
        """Return the deltas at the end of the response; *reason* ended it."""
        end = _write_chunk({}, reason) + b"data: [DONE]\n\n"
        return self._read(self._exchange.feed(end) + self._exchange.finish())

    def _read(self, data: bytes) -> list[dict[str, Any]]:
        deltas = []
        for frame in self._frames.feed(data):
            if frame.data != "[DONE]":
                found: Any = _json.decode(frame.data)
                deltas += [choice["delta"] for choice in found.get("choices", ())]
        return deltas


def _write_chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    chunk = {"id": "r", "object": "chat.completion.chunk", "model": "model", "choices": [choice]}
    return b"data: " + _json.encode_wire(chunk) + b"\n\n"
