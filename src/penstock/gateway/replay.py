"""Parse logged streams again with today's parser, and compare the result with the log.

A logged request keeps the bytes that its upstream sent and when each chunk arrived. `replay` feeds
these bytes through the same path as a live request (`tool_adapter.stream`); only the model at the
end is a `RecordedModel`, which returns the logged responses in order, one for each request. The
options are those that were in force then, or others. So a reported bug can be reproduced as it
happened, and a new version or another format can be tried on what models really wrote.

A model in the process sends no bytes; where its text is stored, `read_text` parses that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import ndiff, unified_diff
from itertools import accumulate, pairwise, zip_longest
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, Struct, UnsetType, ValidationError, field, structs

from penstock import _json, apis
from penstock.apis import Api
from penstock.config.routes import ModelOptions
from penstock.config.types import parse_reasoning, parse_tool_mode
from penstock.errors import JSONParseError, UsageError
from penstock.events import ENDS, Event, Failed
from penstock.formats import Parser, get
from penstock.gateway import tool_adapter
from penstock.messages import AssistantMessage, CallIds, ErrorInfo, ToolCall
from penstock.models.base import (
    Batches,
    Model,
    Tap,
    collect_message,
    ensure_end,
    ids_for,
    iter_events,
)
from penstock.models.middleware import qwen_tools
from penstock.parsing import OnError
from penstock.request import Request
from penstock.store import RequestDetail
from penstock.streams import EventStream
from penstock.streams.pump import Record
from penstock.tools import Tool

RESPONSE_STARTS: Final = "response_starts"
"""The note that holds the offset of each response of the upstream in the raw bytes."""

MAX_LEADING: Final = 16
"""In how many chunks short bodies before the response are looked for: errors, a new chat's id."""

MAX_DIFF: Final = 200_000
"""Up to how many characters two texts are compared by line: the worst case is quadratic."""

MAX_COMPLAINTS: Final = 50
"""How many complaints of one text are kept."""

CONTEXT: Final = 2
"""How many equal lines are shown around a difference."""

_QWEN: Final = ("qwen_web", "prompt")  # the format of the qwen model, and how tools are shown to it
_UNREADABLE: Final = ("truncated", "malformed")
_NO_RESPONSE: Final = ErrorInfo("the log holds no further response of the upstream", "truncated")
_ENTRY: Final = 8  # bytes of the timeline for one chunk: its time and its length


class Replay(Struct):
    """The result of a replay: *events* and message of *now*, the message *then*, and differences.

    *complaints* are the reasons why text that looks like a call is not one now.
    """

    events: list[Event]
    then: AssistantMessage
    now: AssistantMessage
    differences: list[Difference] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


class ReplayOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options that replace the logged ones, as a client sends them."""

    format: str | UnsetType = UNSET
    arguments: Literal["live", "whole"] | UnsetType = UNSET
    reasoning: str | UnsetType | None = UNSET
    repair: bool | UnsetType = UNSET
    trim: bool | UnsetType = UNSET
    quoted: Literal["text", "calls"] | UnsetType = UNSET
    fenced: Literal["text", "calls"] | UnsetType = UNSET
    reasoning_only: Literal["reasoning", "text"] | UnsetType = UNSET
    stray_reasoning: Literal["text", "split"] | UnsetType = UNSET

    def to_dict(self) -> dict[str, Any]:
        """Return the options that are set."""
        given: dict[str, Any] = msgspec.to_builtins(self)
        return given


async def replay(detail: RequestDetail, **changes: str | bool | None) -> Replay:
    """Parse the stream of *detail* again; *changes* replace the logged options.

    Raises `UsageError` for a request whose stream cannot be replayed, and for an invalid option.
    """
    check_replayable(detail)
    options = change_options(options_for(detail), changes)
    complaints: list[str] = []
    then, is_whole = message_for(detail)
    # The status of a response is not in the log. If an error is all that the client received, its
    # status is that of the last response.
    status = None if then.error is None or then.content else then.error.status
    model = RecordedModel(detail, status)

    def complain(why: str, _: object) -> None:
        complaints.append(why)

    # An exception of today's parser becomes a failed response: a difference like any other.
    responses = ensure_end(_ask(model, request_for(detail), options, complain))
    events = [event async for event in iter_events(responses)]
    now = fold_events(events)
    return Replay(events, then, now, find_differences(then, now, is_whole=is_whole), complaints)


def check_replayable(detail: RequestDetail) -> None:
    """Raise `UsageError` with the reason if the stream of *detail* cannot be replayed."""
    row = detail.row
    if row.upstream_api not in apis.names():
        raise UsageError(
            f"request {row.id} was answered by {row.upstream_api or 'no upstream'!r}: "
            "a model in the process sends no bytes that could be parsed again"
        )
    if row.state == "started":
        raise UsageError(f"request {row.id} has not ended yet")
    if row.state == "interrupted":
        raise UsageError(f"request {row.id} was interrupted: its stream was not stored")
    if not detail.raw and not detail.request:
        raise UsageError(f"the bodies of request {row.id} were not stored (store.bodies is off)")
    if not detail.raw:
        raise UsageError(f"request {row.id} got no response: {row.error_message or row.state}")
    if detail.notes.get("cut"):
        raise UsageError(f"the stream of request {row.id} was too long to be stored completely")


def _ask(
    model: RecordedModel, request: Request, options: ModelOptions, on_error: OnError
) -> Batches:
    """Send *request* to *model* as the gateway sent it to the upstream."""
    if model.api.name == "qwen" and options.parse and (options.format, options.tools) == _QWEN:
        # The qwen model parses calls with a preset of its own.
        tools = qwen_tools(
            model, **options.parser_options(), **options.quote_options(), on_error=on_error
        )
        return tools.batches(request)
    return tool_adapter.stream(options, model, request, Tap(), on_error)


# --- what the log says about a request ---


def options_for(detail: RequestDetail) -> ModelOptions:
    """Return the options that the stream of *detail* was parsed with, as far as they are logged."""
    row, known = detail.row, ModelOptions.__struct_fields__
    noted = detail.notes.get("options")
    fields = {name: value for name, value in (noted or {}).items() if name in known}
    logged: dict[str, Any] = {"format": row.format, "tools": row.mode}
    if row.mode == "none":  # the log's name for `parse = false`
        fields |= {"tools": "native", "parse": False}
    if row.upstream_api == "qwen":  # the qwen model never repairs calls, whatever is configured
        fields["repair"] = False
    return change_options(
        ModelOptions(), {**{name: one for name, one in logged.items() if one}, **fields}
    )


def change_options(options: ModelOptions, changes: dict[str, Any]) -> ModelOptions:
    """Return *options* with *changes*; raise `UsageError` for an invalid one."""
    try:
        parse_tool_mode(str(changes.get("tools")))
        found = msgspec.convert({**structs.asdict(options), **changes}, ModelOptions)
        if found.reasoning is not None:
            parse_reasoning(found.reasoning)
    except (ValidationError, ValueError) as exc:
        raise UsageError(str(exc)) from exc
    get(found.format)
    return found


def request_for(detail: RequestDetail) -> Request:
    """Return the client's request; a default one for a body that is missing or not readable."""
    row = detail.row
    try:
        data = _json.decode(detail.request)
        request = apis.get(row.client_api).read_request(data)
    except (JSONParseError, UsageError):  # /v1/completions has neither messages nor tools
        request = Request()
    return structs.replace(request, model=row.upstream_model, n=None, stream=row.stream)


def message_for(detail: RequestDetail) -> tuple[AssistantMessage, bool]:
    """Return the message that the client received, and whether it received the end of it."""
    try:
        lines = detail.events.splitlines()
        record = _record([_json.decode_as(line, Event) for line in lines if line])
    except (JSONParseError, ValidationError, UsageError):
        return AssistantMessage(), False
    return record.message, record.ended


def fold_events(events: Iterable[Event]) -> AssistantMessage:
    """Return the message that *events* describe; raise `UsageError` for an invalid sequence."""
    return _record(events).message


def _record(events: Iterable[Event]) -> Record:
    record = Record()
    for event in events:
        record.add(event)
    return record


# --- text that is parsed without an upstream ---


class Complaint(Struct, frozen=True):
    """The reason *why* some *text* that looks like a call is not one."""

    why: str
    text: str


class TextReading(Struct, frozen=True):
    """The result of parsing a text once: its *events*, and the *rest* that no event consumed."""

    events: list[Event]
    rest: str
    complaints: list[Complaint]

    @property
    def reasons(self) -> list[str]:
        """The reasons why text that looks like a call is not one."""
        return [one.why for one in self.complaints]


def read_text(pieces: Iterable[str], options: ModelOptions, tools: Sequence[Tool]) -> TextReading:
    """Parse *pieces* of a model's text; raise `UsageError` for an invalid option."""
    complaints: list[Complaint] = []
    parser = Parser(
        options.format,
        tools,
        **options.parser_options(),
        on_error=lambda why, segment: complaints.append(Complaint(why, segment.text)),
        ids=CallIds(),
    )
    events: list[Event] = []
    for piece in pieces:
        events += parser.feed(piece)
    events += parser.finish(cut=False)
    return TextReading(events, parser.rest, complaints[:MAX_COMPLAINTS])


# --- the responses of the log ---


class RecordedModel(Model):
    """A model that returns the logged responses of *detail*, one for each request.

    *status* is that of the last response, where that response is an error.
    """

    def __init__(self, detail: RequestDetail, status: int | None = None) -> None:
        self._status = status
        self._name = detail.row.upstream_model
        self.api: Api = apis.get(detail.row.upstream_api)
        self._responses = split_responses(detail, self.api)

    @property
    def name(self) -> str:
        """The name of the model at its upstream."""
        return self._name

    @property
    def api_name(self) -> str:
        """The name of the upstream's API."""
        return self.api.name

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Return the events of the next response, in the batches in which they were decoded."""
        del tap
        return self._decode(request)

    def stream(self, request: Request) -> EventStream:
        """Return the next response as a stream."""
        return EventStream(iter_events(self.batches(request)), interval=0.0)

    async def complete(self, request: Request) -> AssistantMessage:
        """Return the next response as a message."""
        return await collect_message(self.batches(request))

    async def _decode(self, request: Request) -> Batches:
        if not self._responses:
            yield [Failed("error", _NO_RESPONSE, AssistantMessage(error=_NO_RESPONSE))]
            return
        response = self._responses.pop(0)
        if (refused := self._decode_refusal(response)) is not None:
            yield [refused]
            return
        decoder = self.api.decoder(ids=ids_for(request))
        for piece in response:
            events = decoder.feed(piece)
            yield events
            if events and isinstance(events[-1], ENDS):
                return
        yield decoder.finish()

    def _decode_refusal(self, response: list[bytes]) -> Failed | None:
        """Return the error that the last *response* is, if no decoder of the API can read it.

        Such a body is the page of a server or proxy that refused the request.
        """
        if self._status is None or self._responses:
            return None
        failed = _find_failure(response, self.api)
        if failed is None or failed.error.kind not in _UNREADABLE:
            return None
        error = self.api.read_error(self._status, {}, b"".join(response))
        return Failed("error", error, AssistantMessage(error=error))


def split_responses(detail: RequestDetail, api: Api) -> list[list[bytes]]:
    """Return the responses of the upstream, each as a list of chunks.

    A request can have several: after a failure or for the middleware the upstream was asked again,
    or a chat was created first. A response that holds nothing but a failure and has another one
    after it is omitted, because the client never received it.
    """
    pieces = split_raw(detail)
    starts = detail.notes.get(RESPONSE_STARTS)
    if isinstance(starts, list):
        responses = _split_at(starts, pieces)
    else:
        responses = _guess_responses(pieces, api)
    *earlier, last = responses or [[]]
    return [*(one for one in earlier if _find_failure(one, api) is None), last]


def split_raw(detail: RequestDetail) -> list[bytes]:
    """Return the raw bytes in the chunks in which they arrived; the rest is one chunk.

    The timeline of a response in very many chunks holds only the first ones. A timeline with more
    bytes than there are is ignored.
    """
    raw = detail.raw
    edges = [*accumulate((size for _, size in read_timeline(detail)), initial=0)]
    return [raw[start:end] for start, end in pairwise([*edges, len(raw)]) if end > start]


def read_timeline(detail: RequestDetail) -> list[tuple[int, int]]:
    """Return the milliseconds at which each chunk arrived, and its length in bytes."""
    whole = len(detail.timeline) - len(detail.timeline) % _ENTRY
    numbers = memoryview(detail.timeline[:whole]).cast("I").tolist() if whole else []
    timeline = list(zip(numbers[::2], numbers[1::2], strict=True))
    return timeline if sum(size for _, size in timeline) <= len(detail.raw) else []


def _split_at(starts: list[Any], pieces: list[bytes]) -> list[list[bytes]]:
    """Split *pieces* at the offsets *starts*: between two of them, or within one."""
    edges = {start for start in starts if isinstance(start, int)}
    responses: list[list[bytes]] = [[]]
    at = 0
    for piece in pieces:
        cuts = sorted(edge - at for edge in edges if at <= edge < at + len(piece))
        for start, end in pairwise([0, *cuts, len(piece)]):
            responses[-1] += [piece[start:end]] if end > start else []
            responses += [[]] if end in cuts else []
        at += len(piece)
    return [response for response in responses if response]


def _guess_responses(pieces: list[bytes], api: Api) -> list[list[bytes]]:
    """Find short bodies before the response: each is a JSON object, with which no stream begins.

    Ollama is the exception: every line of its stream is JSON, so only an error is a body.
    """
    responses: list[list[bytes]] = []
    start = 0
    for end in range(1, min(len(pieces), MAX_LEADING)):
        try:
            value = _json.decode(b"".join(pieces[start:end]))
        except JSONParseError:
            continue
        if isinstance(value, dict) and (api.name != "ollama" or "error" in value):
            responses.append(pieces[start:end])
            start = end
    return [*responses, pieces[start:]]


def _find_failure(response: list[bytes], api: Api) -> Failed | None:
    """Return the failure that is all of *response*, or None."""
    decoder = api.decoder()
    events = [*decoder.feed(b"".join(response)), *decoder.finish()]
    last = events[-1] if events else None
    return last if isinstance(last, Failed) and not last.message.content else None


# --- differences ---


class Difference(Struct, frozen=True):
    """One part of a message that differs: *what* it is, and its text *then* and *now*."""

    what: str
    then: str
    now: str

    def lines(self, limit: int = MAX_DIFF) -> list[str]:
        """Return the difference by line: old ones begin with ``-``, new ones with ``+``.

        For texts of more than *limit* characters only the lengths are compared.
        """
        then, now = self.then.splitlines(), self.now.splitlines()
        if max(len(self.then), len(self.now)) > limit:
            return [f"- {len(self.then):,} characters", f"+ {len(self.now):,} characters"]
        if then == now:  # only the line ends differ
            then, now = [repr(self.then)], [repr(self.now)]
        if min(len(then), len(now)) <= 1:
            return [line for line in ndiff(then, now) if not line.startswith("?")]
        _, _, _, *changed = unified_diff(then, now, n=CONTEXT, lineterm="")
        return [f"{line[0]} {line[1:]}" if line[:2] != "@@" else "…" for line in changed]


def find_differences(
    then: AssistantMessage, now: AssistantMessage, *, is_whole: bool = True
) -> list[Difference]:
    """Return how *now* differs from *then*.

    If the client did not receive the end (not *is_whole*), *now* may continue where *then* stops:
    only what the client received is compared. Ids of calls are always new and ignored.
    """
    if is_whole:
        pairs = [("thinking", then.thinking, now.thinking), ("text", then.text, now.text)]
        pairs += _pair_calls(then.tool_calls, now.tool_calls)
        pairs.append(("end", _describe_end(then), _describe_end(now)))
    else:
        calls = [call for call in then.tool_calls if call.complete]
        pairs = [
            ("thinking", then.thinking, now.thinking[: len(then.thinking)]),
            ("text", then.text, now.text[: len(then.text)]),
            *_pair_calls(calls, now.tool_calls[: len(calls)]),
        ]
    return [Difference(what, before, after) for what, before, after in pairs if before != after]


def _pair_calls(then: list[ToolCall], now: list[ToolCall]) -> Iterator[tuple[str, str, str]]:
    for number, (before, after) in enumerate(zip_longest(then, now), 1):
        repairs = ["\n".join(call.repairs) if call is not None else "" for call in (before, after)]
        yield f"call {number}", _render_call(before), _render_call(after)
        yield f"repairs of call {number}", repairs[0], repairs[1]


def _render_call(call: ToolCall | None) -> str:
    """Render a call with one argument on each line, so that a diff shows the changed ones."""
    if call is None:
        return ""
    lines = [call.name if call.complete else f"{call.name} (cut off)"]
    for name, value in call.arguments.items():
        if isinstance(value, str) and "\n" in value:
            lines += [f"  {name}: |", *(f"    {line}" for line in value.split("\n"))]
        else:
            lines.append(f"  {name}: {_json.encode(value).decode()}")
    return "\n".join(lines)


def _describe_end(message: AssistantMessage) -> str:
    """Return how a response ended; the message of an error may change, its kind may not."""
    if message.error is None:
        return message.stop_reason or ""
    return f"{message.stop_reason or 'error'} ({message.error.kind})"
