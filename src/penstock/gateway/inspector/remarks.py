"""What there is to say about a stream, in words and at its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from msgspec import Struct

from penstock.events import Done, Event, Failed, ToolCallEnd
from penstock.gateway.inspector.colouring import Span
from penstock.messages import ErrorInfo, ToolCall

RemarkKind = Literal["repair", "error", "cut", "dropped"]

MAX_REMARKS: Final = 200
"""How many remarks a page is given: who reads more has read enough."""

_BEGINNING: Final = "beginning"
_KINDS: Final = {
    "provider": "The upstream refused, or failed",
    "transport": "The connection to the upstream failed",
    "truncated": "The upstream stopped before its answer had an end",
    "malformed": "What the upstream sent is no stream of its API",
    "refusal": "The model refused",
    "filter": "A filter of the upstream ended the answer",
    "aborted": "The answer was broken off",
}


class Remark(Struct, frozen=True):
    """Something that is worth knowing; *at* is where in the text, in UTF-16 units, if anywhere."""

    at: int | None
    kind: RemarkKind
    text: str


def remarks_on(events: Sequence[Event], spans: Sequence[Span]) -> list[Remark]:
    """Say what is remarkable about *events*, whose text has *spans*."""
    places = _places(events, spans)
    found: list[Remark] = []
    for event in events:
        if len(found) >= MAX_REMARKS:
            break
        if isinstance(event, ToolCallEnd):
            found += _on_call(event.call, places.get(event.index, {}))
        elif isinstance(event, Done | Failed):
            found += _on_end(event, spans[-1].end if spans else None)
    return found[:MAX_REMARKS]


def remarks_on_notes(notes: dict[str, Any]) -> list[Remark]:
    """Say what the log has noted about a request beside its events."""
    return [
        Remark(None, kind, text)
        for name, kind, words in _NOTES
        for text in _told(notes.get(name), words)
    ][:MAX_REMARKS]


def complaint(why: str, at: int | None = None) -> Remark:
    """Say of the text *at* a place that it was meant to be a call."""
    return Remark(at, "error", f"Text that was meant to be a call is none: {why}")


_NOTES: Final[tuple[tuple[str, RemarkKind, str], ...]] = (
    ("failures", "error", "The upstream was asked again after: {}"),
    ("left_out", "dropped", "The upstream's API has no word for `{}`: it was left out"),
    ("skipped", "dropped", "{} frames of the upstream's stream could not be read"),
    ("adapted", "repair", "The request was changed for the upstream: {}"),
    ("cut", "cut", "The stream was too long to be kept whole: what is shown is its beginning"),
)


def _told(noted: Any, words: str) -> Iterator[str]:
    if isinstance(noted, list):
        yield from (words.format(one) for one in noted)
    elif noted:
        yield words.format(noted)


def _places(events: Sequence[Event], spans: Sequence[Span]) -> dict[int, dict[str, int]]:
    """Give where each block has its first text of each kind, and where it begins."""
    places: dict[int, dict[str, int]] = {}
    for span in spans:
        index = getattr(events[span.event], "index", None) if span.event >= 0 else None
        if index is not None:
            block = places.setdefault(index, {_BEGINNING: span.start})
            block.setdefault(span.kind, span.start)
    return places


def _on_call(call: ToolCall, places: dict[str, int]) -> Iterator[Remark]:
    """Say what is remarkable about *call*: what was mended where it shows, or at its name."""
    begin = places.get(_BEGINNING)
    mended = places.get("repaired", places.get("name", begin))
    for repair in call.repairs:
        yield Remark(mended, "repair", f"The call of `{call.name}` was mended: {repair}")
    if not call.complete:
        yield Remark(
            begin, "cut", f"The call of `{call.name}` is not complete: nobody is told to run it"
        )


def _on_end(end: Done | Failed, at: int | None) -> Iterator[Remark]:
    if isinstance(end, Failed):
        yield Remark(at, "error", words_for(end.error))
    elif end.reason == "length":
        yield Remark(at, "cut", "The model came to its limit of tokens: the answer ends here")


def words_for(error: ErrorInfo) -> str:
    """Say what *error* is, and what it says of itself."""
    status = f" (status {error.status})" if error.status else ""
    return f"{_KINDS.get(error.kind, error.kind)}{status}: {error.message}"
