"""Describe in words what is unusual about a stream, each remark at its place in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, Literal

from msgspec import Struct, field

from penstock.config.routes import ModelOptions
from penstock.errors import PenstockError
from penstock.events import (
    ENDS,
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats import Parser, UnreadCall, find_unread
from penstock.gateway.inspector.spans import Attribution, TextSpan, utf16_length
from penstock.gateway.replay import Complaint, change_options, read_text
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall
from penstock.models.untrusted import untrusted_in
from penstock.parsing import QUOTED_FROM
from penstock.request import Request
from penstock.tools import Tool

RemarkKind = Literal["repair", "error", "cut", "dropped", "unread"]

MAX_REMARKS: Final = 200
"""How many remarks the page receives."""

MAX_REREAD: Final = 200_000
"""Up to how many characters a text is parsed again to find the places of complaints."""

_START: Final = "start"
_ERROR_KINDS: Final = {
    "provider": "The upstream refused the request or failed",
    "transport": "The connection to the upstream failed",
    "truncated": "The upstream's stream stopped before its end",
    "malformed": "The upstream sent something that is not a stream of its API",
    "refusal": "The model refused",
    "filter": "A content filter of the upstream ended the response",
    "aborted": "The response was aborted",
}
# The notes of the log, and what each of them means.
_NOTES: Final[tuple[tuple[str, RemarkKind, str], ...]] = (
    ("failures", "error", "The request was sent to the upstream again after: {}"),
    ("omitted_fields", "dropped", "`{}` was dropped: the upstream's API has no such option"),
    ("skipped", "dropped", "{} frames or fields of the upstream's stream could not be read"),
    ("adapted", "repair", "The request was changed for the upstream: {}"),
    ("cut", "cut", "The stream was too long to be stored completely: this is its beginning"),
)


class Remark(Struct, frozen=True):
    """A remark *at* a place in the text, in UTF-16 units; None if it is about all of it."""

    at: int | None
    kind: RemarkKind
    text: str


def make_remarks(events: Sequence[Event], spans: Sequence[TextSpan]) -> list[Remark]:
    """Return remarks on *events*, whose text has *spans*: repairs, incomplete calls, the end."""
    places = _find_places(events, spans)
    found: list[Remark] = []
    for event in events:
        if len(found) >= MAX_REMARKS:
            break
        if isinstance(event, ToolCallEnd):
            found += _remark_on_call(event.call, places.get(event.index, {}))
        elif isinstance(event, ENDS):
            found += _remark_on_end(event, spans[-1].end if spans else None)
    return found[:MAX_REMARKS]


def remarks_for_notes(notes: dict[str, Any]) -> list[Remark]:
    """Return remarks on what the log has noted about a request besides its events."""
    found: list[Remark] = []
    for name, kind, words in _NOTES:
        noted = notes.get(name)
        each = noted if isinstance(noted, list) else [noted] if noted else []
        found += [Remark(None, kind, words.format(one)) for one in each]
    return found[:MAX_REMARKS]


def _find_places(events: Sequence[Event], spans: Sequence[TextSpan]) -> dict[int, dict[str, int]]:
    """Return where each block starts, and where it has its first text of each kind.

    Of repaired text it is the last: a remark follows its text, and would split a word otherwise.
    """
    places: dict[int, dict[str, int]] = {}
    for span in spans:
        event = events[span.event] if span.event >= 0 else None
        if event is not None and not isinstance(event, (MessageStart, *ENDS)):
            block = places.setdefault(event.index, {_START: span.start})
            if span.kind == "repaired":
                block[span.kind] = span.start
            block.setdefault(span.kind, span.start)
    return places


def _remark_on_call(call: ToolCall, places: dict[str, int]) -> Iterator[Remark]:
    """Yield remarks on repairs, at the repaired arguments or the name, and on a cut call."""
    start = places.get(_START)
    repaired = places.get("repaired", places.get("name", start))
    for repair in call.repairs:
        yield Remark(repaired, "repair", f"The call of `{call.name}` was repaired: {repair}")
    if not call.complete:
        words = f"The call of `{call.name}` is not complete: clients do not run it"
        yield Remark(start, "cut", words)


def _remark_on_end(end: Done | Failed, at: int | None) -> Iterator[Remark]:
    if isinstance(end, Failed):
        yield Remark(at, "error", describe_error(end.error))
    elif end.reason == "length":
        yield Remark(at, "cut", "The model reached its token limit: the response ends here")


def describe_error(error: ErrorInfo) -> str:
    """Return what kind of *error* this is, and its message."""
    status = f" (status {error.status})" if error.status else ""
    return f"{_ERROR_KINDS.get(error.kind, error.kind)}{status}: {error.message}"


# --- text that looks like a call and is not one ---


def find_complaints(text: str, options: ModelOptions, request: Request) -> list[Complaint]:
    """Parse *text*, the response to *request*, again; return what is wrong with its calls.

    The log keeps the words of complaints and not their places. Both readings make the same
    complaints in the same order.
    """
    if len(text) > MAX_REREAD or not options.parse:
        return []
    found: list[Complaint] = []
    try:
        parser = Parser(
            options.format,
            request.tools,
            arguments=options.arguments,
            reasoning=options.reasoning or None,
            repair=options.repair,
            fenced=options.fenced,
            stray_reasoning=options.stray_reasoning,
            untrusted=untrusted_in(request, options.quoted, options.quoted_tools),
            on_error=lambda why, segment: found.append(Complaint(why, segment.text)),
        )
        parser.feed(text)
        parser.finish(cut=False)
    except PenstockError:
        return []
    return found


def remarks_for_unread(unread: Iterable[ShownUnread], *, with_advice: bool = False) -> list[Remark]:
    """Return a remark for each text that is not a call, where it begins.

    An incomplete call has a remark of its own.
    """
    return [
        Remark(
            one.at, "unread", f"This {one.description}. {one.advice if with_advice else ''}".strip()
        )
        for one in unread
        if one.format
    ][:MAX_REMARKS]


def explains(unread: Iterable[ShownUnread]) -> bool:
    """Return whether *unread* says the same as the complaints of the parser, and more."""
    return any(one.reason in ("in_code", "refused", "broken", "cut") for one in unread)


def remarks_for_complaints(
    reasons: Iterable[str], found: Iterable[Complaint], text: str
) -> list[Remark]:
    """Return a remark for each of *reasons*, at the place in *text* where it was *found*."""
    remarks: list[Remark] = []
    ahead, at = list(found), 0
    for why in reasons:
        place = None
        same = next((n for n, one in enumerate(ahead) if why.startswith(one.why)), None)
        if same is not None:
            start = text.find(ahead[same].text, at) if ahead[same].text else -1
            place = None if start < 0 else utf16_length(text[:start])
            at, ahead = max(at, start + 1), ahead[same + 1 :]
        words = f"This text looks like a tool call, but is not a valid one: {why}"
        remarks.append(Remark(place, "error", words))
    return remarks[:MAX_REMARKS]


# --- explanations of such text ---
#
# `find_unread` of the library gives the reasons. Here each of them gets its place in the model's
# output, advice in the words of the configuration, and the options with which a replay reads the
# call. Options are offered only if they were tried: the text is parsed with them, and has the call.

MAX_TRIED: Final = 100_000
"""Up to how many characters a text is parsed with other options to see whether they help."""

_QUOTED: Final = 'Set `quoted = "calls"` if the model meant it'
_ADVICE: Final = {
    "not_offered": "Offer the tool {name} in the request",
    "other_format": 'Set `format = "{format}"` for this model, or `"auto"`, which reads any format',
    "in_code": 'Set `fenced = "calls"` if the model writes its calls in code fences',
    "in_reasoning": 'Set `heal = true` or `reasoning = "none"` if the model calls tools there',
    "refused": f"{_QUOTED}, or allow parallel calls",
    "broken": "Set `repair = true`: it repairs a call that has one possible meaning",
    "cut": "Raise the token limit of the request, or set `repair = true` if the model had stopped",
}
_ANY_TOOL: Final = ', or set `format = "{format}"`, which reads calls of any tool'
_STILL_CUT: Final = "Raise the token limit of the request, or look for why the stream was cut"
_STILL_REASONING: Final = 'Set `reasoning = "none"` if the model calls tools there'
_STILL_BROKEN: Final = "The call has more than one possible meaning. Ask the model to try again"


class ShownUnread(Struct, frozen=True):
    """A text that is not a call, *at* a place in UTF-16 units; *replay* are options that help."""

    at: int | None
    end: int | None
    name: str
    format: str
    reason: str
    description: str
    advice: str
    replay: dict[str, Any] | None = field(default=None)


def explain_unread(
    message: AssistantMessage,
    events: Sequence[Event],
    attribution: Attribution,
    options: ModelOptions,
    tools: Sequence[Tool],
    complaints: Sequence[str] = (),
) -> list[ShownUnread]:
    """Return what looks like a call in a response and is not one; its parser had *complaints*."""
    if not options.parse:
        return []
    trials = _Trials(attribution.text, options, tools)
    shown = []
    for one in find_unread(message, options.format, tools, complaints=complaints):
        start, end = _find_place(one, events, attribution)
        replay = trials.find(one)
        shown.append(
            ShownUnread(
                start,
                end,
                one.name,
                one.format,
                one.reason,
                one.description,
                _write_advice(one, options, replay),
                replay,
            )
        )
    return shown


def _write_advice(one: UnreadCall, options: ModelOptions, replay: dict[str, Any] | None) -> str:
    words = _ADVICE[one.reason]
    if one.reason == "not_offered" and replay is not None:
        words += _ANY_TOOL
    elif one.reason == "broken" and options.repair:
        words = _STILL_BROKEN
    # A call that the model itself ended early would have been repaired, so something else cut it.
    elif one.reason == "cut" and options.repair:
        words = _STILL_CUT
    elif one.reason == "in_reasoning" and options.heal:
        words = _STILL_REASONING
    elif one.reason == "refused" and one.error:
        words = _QUOTED if QUOTED_FROM in one.error else "Allow parallel calls"
    return words.format(name=f"`{one.name}`" if one.name else "", format=one.format) + "."


def _find_place(
    one: UnreadCall, events: Sequence[Event], attribution: Attribution
) -> tuple[int | None, int | None]:
    """Return where the text of *one* begins and ends in the model's output."""
    if one.start == one.end:  # an incomplete call: it begins with its block
        starts = (
            at - size
            for at, size, event in zip(
                accumulate(attribution.sizes), attribution.sizes, events, strict=False
            )
            if isinstance(event, ToolCallStart) and event.index == one.index
        )
        start = next(starts, None)
        return (None, None) if start is None else (utf16_length(attribution.text[:start]), None)
    places: list[int] = []
    before = position = 0
    for event, size in zip(events, attribution.sizes, strict=False):
        if isinstance(event, TextDelta | ThinkingDelta) and event.index == one.index:
            after = before + len(event.text)
            # The event may have consumed markup before its text: the end of the call before it.
            shift = position + max(0, event.raw.rfind(event.text)) - before
            places += [
                min(wanted + shift, position + size)
                for wanted in (one.start, one.end - 1)[len(places) :]
                if wanted < after
            ]
            before = after
        position += size
    if len(places) < 2:  # noqa: PLR2004 - a start and an end
        return None, None
    start, end = places[0], places[1] + 1
    text = attribution.text
    return utf16_length(text[:start]), utf16_length(text[:end])


class _Trials:
    """Parses *text* with other options, each of them once."""

    def __init__(self, text: str, options: ModelOptions, tools: Sequence[Tool]) -> None:
        self._text = text
        self._options = options
        self._tools = tools
        self._results: dict[tuple[str, Any], set[str]] = {}

    def find(self, one: UnreadCall) -> dict[str, Any] | None:
        """Return the change of options that makes a call of *one*."""
        if len(self._text) > MAX_TRIED:
            return None
        for name, value in self._list_changes(one):
            if one.name in self._read(name, value):
                return {name: value}
        return None

    def _list_changes(self, one: UnreadCall) -> list[tuple[str, Any]]:
        own = [("format", one.format)] if one.format else []
        changes: dict[str, list[tuple[str, Any]]] = {
            "not_offered": own,
            "other_format": [("format", "auto"), *own],
            "in_code": [("fenced", "calls")],
            "in_reasoning": [("reasoning", "none")],
            "broken": [("repair", True), *own],
            "cut": [("repair", True)],
        }
        return changes.get(one.reason, [])

    def _read(self, name: str, value: Any) -> set[str]:
        """Return the names of the tools that are called with one option changed."""
        key = (name, value)
        if key not in self._results:
            try:
                options = change_options(self._options, {name: value})
                events = read_text([self._text], options, self._tools).events
            except PenstockError:
                events = []
            calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
            self._results[key] = {call.name for call in calls if call.complete}
        return self._results[key]
