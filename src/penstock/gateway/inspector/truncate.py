"""Limit how much of a stream the page receives at first; ``?full=1`` returns all of it.

A `Truncation` cuts texts and lists at the limits below and records under its name each one that it
cut, with the size that is shown and the size that there is. The page offers to load the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from penstock import _json
from penstock.errors import JSONParseError, shorten
from penstock.events import DELTAS, Event
from penstock.gateway.inspector.spans import TextSpan, spoken_text, utf16_length
from penstock.messages import AssistantMessage

MAX_FIRST_TEXT: Final = 500_000
"""How many UTF-16 units of a text, or bytes of a body, are shown at first: the size of a book."""

MAX_EVENTS: Final = 20_000
"""How many events, chunks and spans are shown at first."""

MAX_EVENT_TEXT: Final = 1_000_000
"""How many characters the deltas among these events have: the text has them once more."""

MAX_STRING: Final = 20_000
"""How many characters of one string within an event or a message are shown at first."""

MAX_DEPTH: Final = 100
"""How deep strings are looked for in arguments; deeper ones are not cut."""

_Items = TypeVar("_Items", bytes, Sequence[Any])


class Truncation:
    """Cuts what is too long, unless *full*; `cut` is what was cut: shown and whole size by name."""

    def __init__(self, *, full: bool = False, limit: int = 0) -> None:
        self.full = full
        self._limit = limit or MAX_STRING  # of one string
        self.cut: dict[str, tuple[int, int]] = {}

    def cut_items(self, name: str, items: _Items, limit: int) -> _Items:
        """Return the first *limit* items, or bytes."""
        if self.full or len(items) <= limit:
            return items
        self.cut[name] = (limit, len(items))
        return items[:limit]

    def cut_events(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the first events, up to `MAX_EVENTS` or `MAX_EVENT_TEXT`."""
        size = 0
        for number, one in enumerate(events[:MAX_EVENTS], 1):
            if isinstance(one, DELTAS):
                size += len(one.raw) + len(spoken_text(one))
            if size > MAX_EVENT_TEXT:
                return self.cut_items("events", events, number)
        return self.cut_items("events", events, MAX_EVENTS)

    def cut_text(self, name: str, text: str) -> str:
        """Return the first `MAX_FIRST_TEXT` UTF-16 units of *text*."""
        size = utf16_length(text)
        if self.full or size <= MAX_FIRST_TEXT:
            return text
        self.cut[name] = (MAX_FIRST_TEXT, size)
        return clip(text, MAX_FIRST_TEXT)

    def cut_body(self, name: str, data: bytes) -> Any:
        """Return a body as JSON, or as text if it is not JSON or is cut."""
        shown = self.cut_items(name, data, MAX_FIRST_TEXT)
        if len(shown) == len(data):
            try:
                return _json.decode(data) if data else None
            except JSONParseError:
                pass
        return shown.decode("utf-8", "replace")

    def cut_spans(
        self, name: str, pieces: list[tuple[int, str]], spans: list[TextSpan]
    ) -> tuple[list[tuple[int, str]], list[TextSpan]]:
        """Return the chunks and the spans of a model's text, both cut at the same place."""
        whole = spans[-1].end if spans else 0
        limit = min(MAX_FIRST_TEXT, spans[MAX_EVENTS].start if len(spans) > MAX_EVENTS else whole)
        if self.full or limit >= whole:
            return pieces, spans
        kept: list[tuple[int, str]] = []
        end = 0
        for ms, piece in pieces:
            if shown := clip(piece, limit - end):
                kept.append((ms, shown))
            end += utf16_length(shown)
            if len(shown) < len(piece) or end >= limit:
                break
        self.cut[name] = (end, whole)
        shown_spans = [span for span in spans if span.start < end]
        return kept, [structs.replace(span, end=min(span.end, end)) for span in shown_spans]

    def cut_strings(self, value: Event | AssistantMessage) -> Any:
        """Return *value* with each long string in it cut."""
        if self.full:
            return value
        if isinstance(value, DELTAS) and len(value.raw) + len(spoken_text(value)) <= MAX_STRING:
            return value
        return self.cut_value(msgspec.to_builtins(value))

    def cut_value(self, value: Any) -> Any:
        """Return a JSON value with each long string in it cut."""
        return value if self.full else self._cut_strings(value, 0)

    def _cut_strings(self, value: Any, depth: int) -> Any:
        match value:
            case list() | dict() if depth >= MAX_DEPTH:
                return value
            case str() if len(value) > self._limit:
                _, longest = self.cut.get("strings", (0, 0))
                self.cut["strings"] = (self._limit, max(longest, len(value)))
                return shorten(value, self._limit)
            case list():
                return [self._cut_strings(one, depth + 1) for one in value]
            case dict():
                return {name: self._cut_strings(one, depth + 1) for name, one in value.items()}
            case _:
                return value


def clip(text: str, units: int) -> str:
    """Return the beginning of *text* with at most *units* UTF-16 units, no character in half."""
    shown = text[: max(0, units)]
    while utf16_length(shown) > units:
        shown = shown[: len(shown) - -(-(utf16_length(shown) - units) // 2)]
    return shown
