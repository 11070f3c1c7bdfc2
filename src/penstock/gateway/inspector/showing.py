"""How much of a stream is shown: long ones are cut, and say so, and who asks gets all of it.

What was cut is noted by its name, with how much of it is there and how much there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import structs

from penstock import _json
from penstock.errors import JSONParseError
from penstock.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from penstock.gateway.inspector.colouring import Span
from penstock.gateway.inspector.offsets import clipped, width
from penstock.gateway.inspector.recorded import Heard, said_by
from penstock.gateway.inspector.telling import Told
from penstock.messages import AssistantMessage

MAX_TEXT: Final = 500_000
"""How many units of a text are shown at first: a book, of which nobody reads more on a page."""

MAX_EVENTS: Final = 20_000
"""How many events, pieces and spans are shown at first."""

MAX_STRING: Final = 20_000
"""How many characters of one text within an event or a message are shown at first."""

MAX_DEPTH: Final = 100
"""How deep texts are looked for in arguments: deeper ones stay as long as they are."""

_SMALL: Final = (TextDelta, ThinkingDelta, ToolCallDelta)

Truncated = dict[str, tuple[int, int]]
"""What was cut: how much of it is shown, and how much there is."""


def text(
    pieces: list[tuple[int, str]], spans: list[Span], truncated: Truncated, *, full: bool
) -> dict[str, Any]:
    """Show the model's text: in the pieces in which it came, and what became of it."""
    whole = spans[-1].end if spans else 0
    limit = min(MAX_TEXT, spans[MAX_EVENTS].start if len(spans) > MAX_EVENTS else whole)
    if not full and limit < whole:
        pieces = _clip(pieces, limit)
        limit = sum(width(piece) for _, piece in pieces)
        truncated["upstream.text"] = (limit, whole)
        shown = [span for span in spans if span.start < limit]
        spans = [structs.replace(span, end=min(span.end, limit)) for span in shown]
    return {"text_pieces": pieces, "spans": spans}


def _clip(pieces: list[tuple[int, str]], limit: int) -> list[tuple[int, str]]:
    """Keep what begins before *limit*; a character that lies across it is left out."""
    kept = []
    for ms, piece in pieces:
        shown = clipped(piece, limit)
        if shown:
            kept.append((ms, shown))
        limit -= width(piece)
        if limit <= 0:
            break
    return kept


def raw(data: bytes, heard: Heard, truncated: Truncated, *, full: bool) -> dict[str, Any]:
    """Show the bytes of the upstream, and when they came."""
    timeline = heard.timeline
    if not full and len(data) > MAX_TEXT:
        truncated["upstream.raw"] = (MAX_TEXT, len(data))
        data = data[:MAX_TEXT]
    if not full and len(timeline) > MAX_EVENTS:
        truncated["upstream.timeline"] = (MAX_EVENTS, len(timeline))
        timeline = timeline[:MAX_EVENTS]
    return {"raw": data.decode("utf-8", "replace"), "timeline": timeline, "answers": heard.answers}


def events(
    given: Sequence[Event], times: Sequence[int] | None, truncated: Truncated, *, full: bool
) -> list[tuple[int, Any]]:
    """Show events, each with its time, or its number where that is unknown."""
    stamps = times or range(len(given))
    if full:
        return [*zip(stamps, given, strict=True)]
    shown = given[:MAX_EVENTS]
    if len(shown) < len(given):
        truncated["events"] = (len(shown), len(given))
    short = [_shortened(event, truncated) for event in shown]
    return [*zip(stamps, short, strict=False)]


def message(given: AssistantMessage, truncated: Truncated, *, full: bool) -> Any:
    """Show a message."""
    return given if full else _shortened(given, truncated)


def _shortened(value: Event | AssistantMessage, truncated: Truncated) -> Any:
    """Give *value* with no text in it that is too long for a list."""
    if isinstance(value, _SMALL) and len(value.raw) + len(said_by(value)) <= MAX_STRING:
        return value
    return _clipped(msgspec.to_builtins(value), truncated)


def _clipped(value: Any, truncated: Truncated, depth: int = 0) -> Any:
    match value:
        case list() | dict() if depth >= MAX_DEPTH:
            return value
        case str() if len(value) > MAX_STRING:
            _, longest = truncated.get("strings", (0, 0))
            truncated["strings"] = (MAX_STRING, max(longest, len(value)))
            return value[:MAX_STRING] + "…"
        case list():
            return [_clipped(one, truncated, depth + 1) for one in value]
        case dict():
            return {name: _clipped(one, truncated, depth + 1) for name, one in value.items()}
        case _:
            return value


def client(told: Told, truncated: Truncated, *, full: bool = False) -> dict[str, Any]:
    """Show what the client got."""
    size = width(told.body)
    if not full and size > MAX_TEXT:
        truncated["client.body"] = (MAX_TEXT, size)
        pieces = [piece for piece in told.pieces if piece[2] <= MAX_TEXT]
        told = structs.replace(told, body=clipped(told.body, MAX_TEXT), pieces=pieces)
    return structs.asdict(told)


def body(data: bytes, name: str, truncated: Truncated, *, full: bool) -> Any:
    """Show a body: as JSON, or as text where it is none or too long."""
    if not full and len(data) > MAX_TEXT:
        truncated[name] = (MAX_TEXT, len(data))
        return data[:MAX_TEXT].decode("utf-8", "replace")
    try:
        return _json.decode(data) if data else None
    except JSONParseError:
        return data.decode("utf-8", "replace")
