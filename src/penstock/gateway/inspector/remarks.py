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
    places: dict[int, int] = {}  # where the text of an event begins
    for span in spans:
        places.setdefault(span.event, span.start)
    starts: dict[int, int | None] = {}  # where the text of a block begins
    found: list[Remark] = []
    for number, event in enumerate(events):
        index = getattr(event, "index", None)
        if index is not None and starts.get(index) is None:
            starts[index] = places.get(number)
        if len(found) >= MAX_REMARKS:
            break
        if isinstance(event, ToolCallEnd):
            found += _on_call(event.call, starts.get(event.index))
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


def complaint(why: str) -> Remark:
    """Say of text that it was meant to be a call."""
    return Remark(None, "error", _NOT_A_CALL.format(why))


_NOT_A_CALL: Final = "Text that was meant to be a call is none: {}"
_NOTES: Final[tuple[tuple[str, RemarkKind, str], ...]] = (
    ("complaints", "error", _NOT_A_CALL),
    ("failures", "error", "The upstream was asked again after: {}"),
    ("left_out", "dropped", "The upstream's API has no word for `{}`: it was left out"),
    ("cut", "cut", "The stream was too long to be kept whole: what is shown is its beginning"),
)


def _told(noted: Any, words: str) -> Iterator[str]:
    if isinstance(noted, list):
        yield from (words.format(one) for one in noted)
    elif noted:
        yield words


def _on_call(call: ToolCall, at: int | None) -> Iterator[Remark]:
    for repair in call.repairs:
        yield Remark(at, "repair", f"The call of `{call.name}` was mended: {repair}")
    if not call.complete:
        yield Remark(
            at, "cut", f"The call of `{call.name}` is not complete: nobody is told to run it"
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
