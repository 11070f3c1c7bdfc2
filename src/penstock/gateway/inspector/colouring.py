"""Which character of the model's text became what.

The `raw` of events joins to the text, so every character has an event that claimed it, and the
event says what it is: text, a thought, a name, an argument, or a marker around them. In the text of
a call the name and the arguments are looked for (`arguments`). A call that came whole has all of
its text on its start; who can read that text again, live, tells the parts of it (*reread*).

What an upstream sends natively, thoughts and calls that were never text, consumed nothing. It is
shown all the same, so that all that the model said is seen, with the note `NATIVE`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal

from msgspec import Struct, structs

from penstock.events import (
    Event,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.gateway.inspector.arguments import (
    ArgumentText,
    Piece,
    cut_head,
    cut_out,
    find_object,
    values_in,
)
from penstock.gateway.inspector.jobs import look_up
from penstock.gateway.inspector.offsets import width
from penstock.messages import ToolCall

Kind = Literal["text", "thinking", "marker", "name", "arguments", "repaired", "dropped"]
"""What a character became; *dropped* ones became nothing, and are no marker either."""

Reread = Callable[[str], Iterable[Event]]
"""Reads the text of one call again, as it would have come live."""

NATIVE: Final = "native"
CUT: Final = "not complete"
NOBODY: Final = -1
"""The event of text that none has claimed."""

_CALLS: Final = (ToolCallStart, ToolCallDelta, ToolCallEnd)
_Part = tuple[str, Kind, str]  # some text, what it is, and a note


class Span(Struct, frozen=True, array_like=True, gc=False):
    """The text from *start* to *end*, in UTF-16 units, is of one *kind*; *event* claimed it."""

    start: int
    end: int
    kind: Kind
    event: int
    note: str = ""


class Coloured(Struct, frozen=True):
    """A text and its spans; *parts* is how much of the text each event brought, in characters."""

    text: str
    spans: list[Span]
    parts: list[int]


def colour(events: Sequence[Event], rest: str = "", *, reread: Reread | None = None) -> Coloured:
    """Colour the text that *events* claimed, and the *rest* that they did not.

    The spans cover all of it, in order and without overlap.
    """
    painter = _Painter(events, reread)
    texts: list[str] = []
    spans: list[Span] = []
    sizes: list[int] = []
    at = 0
    for number, event in enumerate([*events, None]):
        look_up()
        size = 0
        parts = _around(rest) if event is None else painter.parts(event)
        for text, kind, note in parts:
            end = at + width(text)
            spans.append(Span(at, end, kind, NOBODY if event is None else number, note))
            texts.append(text)
            at, size = end, size + len(text)
        sizes.append(size)
    return Coloured("".join(texts), spans, sizes[:-1])


class _Painter:
    """Says of one event after the other what its text is."""

    def __init__(self, events: Sequence[Event], reread: Reread | None) -> None:
        self._reread = reread
        self._claimed = {index for event in events if event.raw and (index := _index(event)) >= 0}
        self._calls: dict[int, ToolCall] = {
            event.index: event.call for event in events if isinstance(event, ToolCallEnd)
        }
        self._live = {
            event.index
            for event in events
            if event.raw and isinstance(event, ToolCallDelta | ToolCallEnd)
        }
        self._owed = _owed(events)
        self._arguments: dict[int, ArgumentText] = {}
        self._noted: set[int] = set()  # the blocks whose note has been given

    def parts(self, event: Event) -> Iterator[_Part]:
        """Give the parts of the text that *event* brought; none of them is empty."""
        is_native = _index(event) not in self._claimed
        if isinstance(event, TextDelta | ThinkingDelta):
            yield from self._said(event, is_native=is_native)
        elif isinstance(event, _CALLS):
            yield from self._of_call(event, is_native=is_native)
        else:
            yield from _around(event.raw)

    # --- text and thoughts ---

    def _said(self, event: TextDelta | ThinkingDelta, *, is_native: bool) -> Iterator[_Part]:
        kind: Kind = "text" if isinstance(event, TextDelta) else "thinking"
        text, raw = event.text, event.text if is_native else event.raw
        before, found, after = raw.partition(text) if text else (raw, "", "")
        if text and not found:  # It was read as something else, as an entity is.
            yield raw, kind, ""
            return
        yield from _around(before)
        if found:
            yield found, kind, self._note_once(event.index, NATIVE) if is_native else ""
        yield from _around(after)

    # --- calls ---

    def _of_call(
        self, event: ToolCallStart | ToolCallDelta | ToolCallEnd, *, is_native: bool
    ) -> Iterator[_Part]:
        if is_native:
            yield from self._of_native_call(event)
        elif isinstance(event, ToolCallStart):
            yield from self._start(event)
        elif isinstance(event, ToolCallDelta):
            reader = self._arguments.setdefault(event.index, ArgumentText())
            yield from self._pieces(event.index, reader.pieces(event.arguments, event.raw))
        elif event.raw:
            yield event.raw, "marker", ""

    def _of_native_call(
        self, event: ToolCallStart | ToolCallDelta | ToolCallEnd
    ) -> Iterator[_Part]:
        if isinstance(event, ToolCallStart) and event.name:
            yield event.name, "name", NATIVE
        elif isinstance(event, ToolCallDelta) and event.arguments:
            yield from self._pieces(event.index, [(event.arguments, True)])

    def _start(self, event: ToolCallStart) -> Iterator[_Part]:
        call = self._calls.get(event.index)
        if event.index in self._live or call is None:
            yield from self._head(event, self._owed.get(event.index, ""), call)
        elif (again := self._read_again(event)) is not None:
            yield from again
        else:
            yield from self._searched(event, call)

    def _head(self, event: ToolCallStart, owed: str, call: ToolCall | None) -> Iterator[_Part]:
        """Cut the head of a call: at its name, and at the arguments in it, which *owed* says."""
        raw, values = event.raw, ArgumentText().values(owed)
        places = _find_names(raw, event.name)
        if values and call is not None:
            first, last = find_object(raw[: places[-1][0]], call.arguments)
            if first >= 0:  # They stand before the name.
                yield from self._named(raw[:first], first, first, call)
                yield from self._pieces(event.index, [(raw[first:last], True)])
                at, end = places[-1]
                yield from self._named(raw[last:], at - last, end - last, call)
                return
        start, end = _choose_name(raw, places, values)
        yield from self._named(raw[:end], start, end, call)
        yield from self._pieces(event.index, cut_head(raw[end:], values))

    def _named(self, raw: str, start: int, end: int, call: ToolCall | None) -> Iterator[_Part]:
        """Cut *raw* at the name that stands from *start* to *end*."""
        note = CUT if call is not None and not call.complete else ""
        blank = start - len(raw[:start].lstrip())
        if blank:  # It touches the call, and was trimmed.
            yield raw[:blank], "dropped", ""
        if start > blank:
            yield raw[blank:start], "marker", ""
        if end > start:
            yield raw[start:end], "name", note
        if raw[end:]:
            yield raw[end:], "marker", ""

    def _read_again(self, event: ToolCallStart) -> list[_Part] | None:
        """Give the parts of a call that came whole, as a live reading tells them, if it can."""
        events = [*self._reread(event.raw)] if self._reread is not None else []
        calls = [one for one in events if isinstance(one, _CALLS)]
        starts = [one for one in calls if isinstance(one, ToolCallStart)]
        joined = "".join(one.raw for one in events)
        if [one.name for one in starts] != [event.name] or not event.raw.startswith(joined):
            return None
        reader, parts, owed = ArgumentText(), list[_Part](), _owed(events).get(starts[0].index, "")
        for one in events:
            if isinstance(one, ToolCallStart):
                head = structs.replace(one, index=event.index)
                parts += self._head(head, owed, self._calls.get(event.index))
            elif isinstance(one, ToolCallDelta):
                parts += self._pieces(event.index, reader.pieces(one.arguments, one.raw))
            else:
                parts += _around(one.raw)
        return [*parts, *_around(event.raw[len(joined) :])]

    def _searched(self, event: ToolCallStart, call: ToolCall) -> Iterator[_Part]:
        """Give the parts of a call that came whole, as far as a search finds them."""
        start, end = _find_names(event.raw, event.name)[0]
        yield from self._named(event.raw[:end], start, end, call)
        pieces = cut_out(event.raw[end:], values_in(call.arguments))
        yield from self._pieces(event.index, [piece for piece in pieces if piece[0]])

    def _pieces(self, index: int, pieces: Iterable[Piece]) -> Iterator[_Part]:
        call = self._calls.get(index)
        repairs = "; ".join(call.repairs) if call is not None else ""
        for text, is_argument in pieces:
            if not is_argument:
                yield text, "marker", ""
            elif repairs:
                yield text, "repaired", self._note_once(index, repairs)
            else:
                yield text, "arguments", ""

    def _note_once(self, index: int, note: str) -> str:
        if index in self._noted:
            return ""
        self._noted.add(index)
        return note


def _index(event: Event) -> int:
    index: int = getattr(event, "index", NOBODY)
    return index


def _around(text: str) -> Iterator[_Part]:
    """Say what text is that stands around what is said: it marks, and blanks behind it are none."""
    marker = text.rstrip()
    if marker:
        yield marker, "marker", ""
    if len(marker) < len(text):
        yield text[len(marker) :], "dropped", ""


def _owed(events: Iterable[Event]) -> dict[int, str]:
    """Give, for each call, the JSON of arguments that the text of its start brought."""
    owed: dict[int, list[str]] = {}
    paid: set[int] = set()
    for event in events:
        if isinstance(event, ToolCallDelta) and event.index not in paid:
            if event.raw:
                paid.add(event.index)
            else:
                owed.setdefault(event.index, []).append(event.arguments)
    return {index: "".join(said) for index, said in owed.items()}


def _find_names(raw: str, name: str) -> list[tuple[int, int]]:
    """Find where *raw* may name the call; its end where it does not."""
    found = [match.span() for match in _name_pattern(name).finditer(raw)] if name else []
    return found or [(len(raw), len(raw))]


def _choose_name(raw: str, places: list[tuple[int, int]], values: list[str]) -> tuple[int, int]:
    """Choose the place of a name: the last one, or else the first, with all *values* behind it."""
    for place in (places[-1], places[0]):
        pieces = cut_head(raw[place[1] :], values)
        if sum(is_argument for _, is_argument in pieces) == len(values):
            return place
    return places[-1]


@lru_cache(maxsize=256)
def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
