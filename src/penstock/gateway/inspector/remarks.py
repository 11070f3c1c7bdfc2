"""Describe in words what is unusual about a stream, each remark at its place in the text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from penstock.config.routes import ModelOptions
from penstock.errors import PenstockError
from penstock.events import ENDS, Done, Event, Failed, MessageStart, ToolCallEnd
from penstock.formats import Parser
from penstock.gateway.inspector.spans import TextSpan, utf16_length
from penstock.gateway.inspector.unread import ShownUnread
from penstock.gateway.replay import Complaint
from penstock.messages import ErrorInfo, ToolCall
from penstock.models.untrusted import untrusted_in
from penstock.request import Request

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
_NOTES: Final[tuple[tuple[str, RemarkKind, str], ...]] = (
    ("failures", "error", "The request was sent to the upstream again after: {}"),
    ("omitted_fields", "dropped", "`{}` was dropped: the upstream's API has no such option"),
    ("skipped", "dropped", "{} frames or fields of the upstream's stream could not be read"),
    ("adapted", "repair", "The request was changed for the upstream: {}"),
    ("cut", "cut", "The stream was too long to be stored completely: this is its beginning"),
)
"""The notes of the log, and what each of them means."""


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
