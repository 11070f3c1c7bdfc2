"""Analyse one stream for the page: its text, spans, events, message, client view and remarks.

An analysis is made of events and of what the upstream sent: those of the log, those of a replay of
the log with other options, or those of a text that was pasted. `truncate` limits its size.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field, structs

from penstock import _json, apis
from penstock.config.routes import ModelOptions
from penstock.errors import JSONParseError, PenstockError, UsageError
from penstock.events import ENDS, Event
from penstock.formats import Parser
from penstock.formats.base import build_message
from penstock.gateway import http_exchange
from penstock.gateway.errors import HTTPError
from penstock.gateway.inspector import truncate
from penstock.gateway.inspector.client_view import DISCONNECTED, ClientView, encode_for, reconstruct
from penstock.gateway.inspector.recording import (
    Upstream,
    align,
    event_times,
    make_response,
    read_events,
    read_upstream,
)
from penstock.gateway.inspector.remarks import (
    MAX_REMARKS,
    Remark,
    explain_unread,
    explains,
    find_complaints,
    make_remarks,
    remarks_for_complaints,
    remarks_for_notes,
    remarks_for_unread,
)
from penstock.gateway.inspector.spans import Attribution, Reread, attribute
from penstock.gateway.inspector.truncate import Truncation
from penstock.gateway.replay import (
    Replay,
    ReplayOptions,
    change_options,
    check_replayable,
    find_differences,
    fold_events,
    message_for,
    options_for,
    read_text,
    replay,
    request_for,
)
from penstock.messages import AssistantMessage
from penstock.request import Request
from penstock.store import RequestDetail, RequestRow

MAX_REREAD: Final = 200_000
"""Up to how many characters of a call are parsed again to attribute them; others are searched."""

MAX_REREAD_SECONDS: Final = 2.0
"""How many seconds calls are parsed again; the ones after that are searched."""

MAX_TURN_TEXT: Final = 2_000
"""How many characters of one text are shown in a conversation; its stream shows all of them."""

MAX_DIFF: Final = 20_000
"""Up to how many characters a difference is shown by line: the worst case is quadratic."""

_Body = TypeVar("_Body")


class StreamReading(Struct, dict=True):
    """One reading of a stream: its *events*, and what each character of the text became."""

    events: list[Event]
    attribution: Attribution
    message: AssistantMessage
    upstream: Upstream = field(default_factory=Upstream)

    @cached_property
    def aligned(self) -> list[tuple[int, str]] | None:
        """The chunks in which the text arrived; None if that is unknown."""
        return align(self.attribution.text, self.upstream) or None

    @cached_property
    def times(self) -> list[int] | None:
        """The time of each event; None if that is unknown."""
        if self.aligned is None or not self.upstream.is_timed:
            return None
        times = event_times(self.attribution.sizes, self.aligned)
        if times and isinstance(self.events[-1], ENDS):
            times[-1] = max(times[-1], self.upstream.end)  # the end comes with the last byte
        return times

    @property
    def pieces(self) -> list[tuple[int, str]]:
        """The text in chunks with their times, or else with their numbers."""
        if self.aligned is None:
            return _split_by_event(self.attribution)
        if self.times is None:
            return [(number, text) for number, (_, text) in enumerate(self.aligned)]
        return self.aligned


def _split_by_event(attribution: Attribution) -> list[tuple[int, str]]:
    """Split a text by the events that brought it."""
    pieces = []
    at = 0
    for number, size in enumerate(attribution.sizes):
        if size:
            pieces.append((number, attribution.text[at : at + size]))
            at += size
    rest = attribution.text[at:]
    return [*pieces, (len(attribution.sizes), rest)] if rest else pieces


def make_reading(events: list[Event], upstream: Upstream, reread: Reread | None) -> StreamReading:
    """Make a reading of *events*; the message of an invalid sequence is empty."""
    try:
        message = fold_events(events)
    except UsageError:
        message = AssistantMessage()
    return StreamReading(events, attribute(events, reread=reread), message, upstream)


def show_reading(
    reading: StreamReading, remarks: Sequence[Remark], truncation: Truncation
) -> dict[str, Any]:
    """Return a reading as the page receives it."""
    spans = reading.attribution.spans
    pieces, spans = truncation.cut_spans("upstream.text", reading.pieces, spans)
    events = truncation.cut_events(reading.events)
    stamps = reading.times or range(len(reading.events))
    shown = [(ms, truncation.cut_strings(one)) for ms, one in zip(stamps, events, strict=False)]
    return {
        "timed": reading.times is not None,
        "upstream": {"text_pieces": pieces, "spans": spans},
        "events": shown,
        "message": truncation.cut_strings(reading.message),
        "usage": reading.message.usage,
        "remarks": remarks,
    }


def show_client(view: ClientView, truncation: Truncation) -> dict[str, Any]:
    """Return what the client received as the page receives it."""
    text = truncation.cut_text("client.body", view.body)
    if len(text) < len(view.body):
        pieces = [piece for piece in view.pieces if piece[2] <= truncate.MAX_FIRST_TEXT]
        view = structs.replace(view, body=text, pieces=pieces)
    return structs.asdict(view)


def read_body(data: bytes, kind: type[_Body], max_depth: int) -> _Body:
    """Read a request body as *kind*; raise `HTTPError` if it is not one."""
    try:
        return msgspec.convert(http_exchange.parse_object(data, max_depth), kind)
    except msgspec.ValidationError as exc:
        raise HTTPError(400, str(exc)) from None
    except UnicodeEncodeError:  # in the name of a field, or in a value that is one of a few words
        raise HTTPError(400, "The body contains a lone surrogate.") from None


# --- a logged stream ---


def analyse(detail: RequestDetail, full: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002 - sent to the worker
    """Return the analysis of a logged request; all of it if *full*."""
    events, is_whole = read_events(detail)
    remarks = remarks_for_notes(detail.notes)
    if not is_whole:
        remarks.append(Remark(None, "error", "Some events of the log cannot be read"))
    try:
        options = options_for(detail)
    except UsageError as exc:  # Its format is not known in this version.
        remarks.append(Remark(None, "error", f"The logged options are not valid today: {exc}"))
        options = ModelOptions(parse=False)
    noted = detail.notes.get("complaints")
    complaints = [str(why) for why in noted] if isinstance(noted, list) else []
    view = reconstruct(detail, events)
    return _analyse(detail, events, options, complaints, view, remarks, full=full)


def replay_from_body(
    detail: RequestDetail,
    data: bytes,
    max_depth: int,
    full: bool,  # noqa: FBT001 - sent to the worker
) -> dict[str, Any]:
    """Return `analyse_replay` with the options in the request body *data*."""
    return analyse_replay(detail, read_body(data or b"{}", ReplayOptions, max_depth), full)


def analyse_replay(detail: RequestDetail, changes: ReplayOptions, full: bool) -> dict[str, Any]:  # noqa: FBT001 - sent to the worker
    """Parse the stream of *detail* again; return the analysis of that, and the differences.

    Raises `UsageError` for a stream that cannot be replayed.
    """
    options = change_options(options_for(detail), changes.to_dict())
    if _is_text(detail):
        again = _replay_text(detail, options)
    else:
        # This runs in a process of its own, which has no event loop.
        again = asyncio.run(replay(detail, **changes.to_dict()))
    view = encode_for(detail, again.events)
    return {
        "analysis": _analyse(detail, again.events, options, again.complaints, view, full=full),
        "differences": [
            {
                "path": one.what,
                "then": one.then,
                "now": one.now,
                "words": "\n".join(one.lines(MAX_DIFF)),
            }
            for one in again.differences
        ],
        "complaints": again.complaints,
    }


def _replay_text(detail: RequestDetail, options: ModelOptions) -> Replay:
    """Parse the text of a model in the process again."""
    texts = [text for _, text in read_upstream(detail).pieces]
    reading = read_text(texts, options, request_for(detail).tools)
    then, is_whole = message_for(detail)
    now = build_message(reading.events)
    found = find_differences(then, now, is_whole=is_whole)
    return Replay(make_response(reading), then, now, found, reading.reasons)


def _analyse(
    detail: RequestDetail,
    events: list[Event],
    options: ModelOptions,
    complaints: Sequence[str],
    view: ClientView,
    remarks: Sequence[Remark] = (),
    *,
    full: bool,
) -> dict[str, Any]:
    """Return the analysis of a request that was parsed as *events* and answered with *view*."""
    request = request_for(detail)
    reread = None
    if options.parse:
        reread = make_rereader(options.format, request.tools, repair=options.repair)
    reading = make_reading(events, read_upstream(detail), reread)
    text, upstream = reading.attribution.text, reading.upstream
    unread = []
    if request.tools:
        unread = explain_unread(
            reading.message, events, reading.attribution, options, request.tools, complaints
        )
    # The page would otherwise say the same twice, once in the parser's words.
    complaints = [] if explains(unread) else complaints[:MAX_REMARKS]
    found = find_complaints(text, options, request) if complaints else []
    remarks = [
        *make_remarks(events, reading.attribution.spans),
        *remarks_for_unread(unread),
        *remarks_for_complaints(complaints, found, text),
        *remarks,
        *_remark_on_request(detail, reading),
    ]
    truncation = Truncation(full=full)
    shown = show_reading(reading, remarks, truncation)
    raw = truncation.cut_items("upstream.raw", detail.raw, truncate.MAX_FIRST_TEXT)
    timeline = truncation.cut_items("upstream.timeline", upstream.timeline, truncate.MAX_EVENTS)
    shown["upstream"] |= {
        "raw": raw.decode("utf-8", "replace"),
        "timeline": timeline,
        "responses": upstream.responses,
    }
    return {
        "row": msgspec.to_builtins(detail.row),
        "notes": detail.notes,
        "replayable": _why_not_replayable(detail),
        "unread": unread,
        "conversation": show_messages(request, truncation),
        "upstream_conversation": _show_upstream_request(detail, truncation),
        **shown,
        "client": show_client(view, truncation),
        "request": truncation.cut_body("request", detail.request),
        "upstream_request": truncation.cut_body("upstream_request", detail.upstream_request),
        "response": truncation.cut_body("response", detail.response),
        "truncated": truncation.cut,
    }


MAX_MESSAGES: Final = 500
"""How many messages of a request are shown, the newest ones: no reader wants more."""


def show_messages(request: Request, truncation: Truncation) -> dict[str, Any]:
    """Return the messages and tools of *request*, of any API, as the page receives them."""
    number = len(request.messages)
    first = 0 if truncation.full else max(0, number - MAX_MESSAGES)
    if first:
        truncation.cut["messages"] = (MAX_MESSAGES, number)
    return {
        "system": truncation.cut_value(request.system),
        "messages": truncation.cut_value(msgspec.to_builtins(request.messages[first:])),
        "first": first,
        "tools": truncation.cut_value(msgspec.to_builtins(request.tools)),
    }


def _show_upstream_request(detail: RequestDetail, truncation: Truncation) -> dict[str, Any] | None:
    """Return the messages that the upstream received; None if they cannot be read."""
    if not detail.upstream_request or detail.row.upstream_api not in apis.names():
        return None
    try:
        body = _json.decode(detail.upstream_request)
        request = apis.get(detail.row.upstream_api).read_request(body)
    except (JSONParseError, UsageError):
        return None
    return show_messages(request, truncation)


def show_conversation(rows: list[RequestRow], detail: RequestDetail | None) -> dict[str, Any]:
    """Return the requests of one conversation, and the messages of *detail*, the longest."""
    truncation = Truncation(limit=MAX_TURN_TEXT)
    shown: dict[str, Any] = {"rows": [msgspec.to_builtins(row) for row in rows]}
    if detail is not None:
        request = request_for(detail)
        request.messages.append(message_for(detail)[0])
        shown |= show_messages(request, truncation) | {"of": detail.row.id}
    return shown | {"truncated": truncation.cut}


def make_rereader(format_: str, tools: object, *, repair: bool) -> Reread:
    """Return a function that parses the text of one call of *format_* with live arguments.

    It returns no events for a long text, and once it has taken `MAX_REREAD_SECONDS`.
    """
    spent = 0.0

    def reread(text: str) -> list[Event]:
        nonlocal spent
        if len(text) > MAX_REREAD or spent > MAX_REREAD_SECONDS:
            return []
        began = time.monotonic()
        try:
            # The text is known to be a call, also if it was within a code fence.
            parser = Parser(format_, tools, arguments="live", repair=repair, fenced="calls")
            return [*parser.feed(text), *parser.finish(cut=False)]
        except PenstockError:
            return []
        finally:
            spent += time.monotonic() - began

    return reread


def _is_text(detail: RequestDetail) -> bool:
    """Return whether the raw bytes of *detail* are the model's text itself."""
    return bool(detail.raw) and detail.row.upstream_api not in apis.names()


def _why_not_replayable(detail: RequestDetail) -> str:
    """Return why a request cannot be replayed; an empty string if it can."""
    if _is_text(detail):
        return ""
    try:
        check_replayable(detail)
    except UsageError as exc:
        return str(exc)
    return ""


def _remark_on_request(detail: RequestDetail, reading: StreamReading) -> list[Remark]:
    found, responses = list[Remark](), reading.upstream.responses
    if detail.row.status == DISCONNECTED and detail.row.state != "done":
        spans = reading.attribution.spans
        at = spans[-1].end if spans else None
        found.append(Remark(at, "cut", "The client disconnected here"))
    if responses > 1:
        words = f"The upstream responded {responses} times: the client received the last response"
        found.append(Remark(None, "dropped", words))
    if "." in detail.row.id:
        # Choices of one request are logged as requests of their own, with ids such as `ID.2`.
        first, _, number = detail.row.id.partition(".")
        words = f"This is choice {number} of several; the first one is request {first}"
        found.append(Remark(None, "dropped", words))
    return found
