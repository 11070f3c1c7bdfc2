"""Attribute every character of a model's text to the event that consumed it.

The `raw` fields of the events join to the text, so every character has an event, and the type of
the event says what the character is: text, reasoning, the name of a tool, an argument, or a marker
around them. The `raw` of a call's events holds both markup and arguments; there the name and the
values of the arguments are searched for. A call that came in one piece has all of its text on its
start event; if a *reread* function can parse that text again with live arguments, the events of
that reading tell the parts.

Reasoning and calls that an upstream sends natively were never text and consume none. They are part
of the attribution all the same, with the note `NATIVE`, so that all output of the model is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import pairwise
from json import JSONDecoder
from typing import Any, Final, Literal

from msgspec import Struct, structs

from penstock import _json
from penstock.errors import JSONParseError
from penstock.events import (
    CALL_EVENTS,
    ENDS,
    Event,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ToolCall

SpanKind = Literal["text", "thinking", "marker", "name", "arguments", "repaired", "dropped"]
"""What a character became; a *dropped* one is white space that is part of nothing."""

Reread = Callable[[str], Iterable[Event]]
"""Parses the text of one call again, with live arguments."""

NATIVE: Final = "native"
INCOMPLETE: Final = "not complete"
NO_EVENT: Final = -1
"""The event of text that no event has consumed."""

MAX_OBJECTS: Final = 16
"""At how many braces of a text a JSON object is looked for."""

_LAST_OF_ONE_UNIT: Final = "\uffff"
_Part = tuple[str, SpanKind, str]  # some text, what it is, and a note


# A page may have 100,000 of them: arrays are half as long as objects in JSON, and without tracking
# by the garbage collector they are made faster.
class TextSpan(Struct, frozen=True, array_like=True, gc=False):
    """The text from *start* to *end*, in UTF-16 units, is of one *kind*; *event* consumed it."""

    start: int
    end: int
    kind: SpanKind
    event: int
    note: str = ""


class Attribution(Struct, frozen=True):
    """A text and its spans; *sizes* is how many characters of the text each event brought."""

    text: str
    spans: list[TextSpan]
    sizes: list[int]


def attribute(
    events: Sequence[Event], rest: str = "", *, reread: Reread | None = None
) -> Attribution:
    """Attribute the text that *events* consumed, and the *rest* that they did not.

    The spans cover all of the text, in order and without overlap.
    """
    attributor = _Attributor(events, reread)
    texts: list[str] = []
    spans: list[TextSpan] = []
    sizes: list[int] = []
    at = 0
    for number, event in enumerate([*events, None]):
        size = 0
        parts = _split_marker(rest) if event is None else attributor.split(event)
        for text, kind, note in parts:
            end = at + utf16_length(text)
            spans.append(TextSpan(at, end, kind, NO_EVENT if event is None else number, note))
            texts.append(text)
            at, size = end, size + len(text)
        sizes.append(size)
    return Attribution("".join(texts), spans, sizes[:-1])


def utf16_length(text: str) -> int:
    """Count the UTF-16 units of *text*, as browsers do; an unpaired surrogate is one."""
    # JavaScript counts characters beyond U+FFFF as two.
    if text.isascii() or max(text) <= _LAST_OF_ONE_UNIT:
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def spoken_text(event: Event) -> str:
    """Return the output of the model that an *event* of a decoder holds."""
    match event:
        case TextDelta() | ThinkingDelta():
            return event.text
        case ToolCallDelta():
            return event.arguments
        case ToolCallStart():
            return event.name
        case _:
            return ""


class _Attributor:
    """Splits the text of one event after the other."""

    def __init__(self, events: Sequence[Event], reread: Reread | None) -> None:
        self._reread = reread
        self._consuming = {
            index for event in events if event.raw and (index := _block_index(event)) >= 0
        }
        self._calls: dict[int, ToolCall] = {
            event.index: event.call for event in events if isinstance(event, ToolCallEnd)
        }
        self._live = {
            event.index
            for event in events
            if event.raw and isinstance(event, ToolCallDelta | ToolCallEnd)
        }
        self._head_arguments = _collect_head_arguments(events)
        self._readers: dict[int, ArgumentSplitter] = {}
        self._noted: set[int] = set()  # the blocks that have their note
        self._parts = self._split_late_calls(events)  # what is left of them, by block

    def _split_late_calls(self, events: Sequence[Event]) -> dict[int, list[_Part]]:
        """Split the calls whose values come in a later event than their text, as in YAML."""
        behind = _find_behind(events)
        late = {
            event.index: event
            for event in events
            if isinstance(event, ToolCallStart)
            and event.index in self._live
            and (
                event.index in behind
                or self._is_late(event, self._head_arguments.get(event.index, ""))
            )
        }
        texts: dict[int, list[str]] = {index: [] for index in late}
        for event in events:
            if isinstance(event, CALL_EVENTS) and event.index in late:
                texts[event.index].append(event.raw)
        return {
            index: [*self._split_by_search(structs.replace(start, raw="".join(texts[index])), call)]
            for index, start in late.items()
            if (call := self._calls.get(index)) is not None
        }

    def _is_late(self, start: ToolCallStart, arguments: str) -> bool:
        """Return whether the text of *start* has a value that is not in its *arguments*."""
        call = self._calls.get(start.index)
        values = list_values(call.arguments) if call is not None and not arguments else []
        _, end = _find_names(start.raw, start.name)[0]
        return bool(values) and _find_value(start.raw, values[0], end)[0] >= 0

    def split(self, event: Event) -> Iterator[_Part]:
        """Yield the parts of the text that *event* brought; none of them is empty."""
        is_native = _block_index(event) not in self._consuming
        if isinstance(event, CALL_EVENTS) and event.index in self._parts:
            yield from _take_parts(self._parts[event.index], len(event.raw))
        elif isinstance(event, TextDelta | ThinkingDelta):
            yield from self._split_delta(event, is_native=is_native)
        elif isinstance(event, CALL_EVENTS):
            yield from self._split_call(event, is_native=is_native)
        else:
            yield from _split_marker(event.raw)

    def _split_delta(self, event: TextDelta | ThinkingDelta, *, is_native: bool) -> Iterator[_Part]:
        kind: SpanKind = "text" if isinstance(event, TextDelta) else "thinking"
        text, raw = event.text, event.text if is_native else event.raw
        before, found, after = raw.partition(text) if text else (raw, "", "")
        if text and not found:  # The text differs from what was written, as with an XML entity.
            yield raw, kind, ""
            return
        yield from _split_marker(before)
        if found:
            yield found, kind, self._note_once(event.index, NATIVE) if is_native else ""
        yield from _split_marker(after)

    # --- calls ---

    def _split_call(
        self, event: ToolCallStart | ToolCallDelta | ToolCallEnd, *, is_native: bool
    ) -> Iterator[_Part]:
        if is_native:
            if isinstance(event, ToolCallStart) and event.name:
                yield event.name, "name", NATIVE
            elif isinstance(event, ToolCallDelta) and event.arguments:
                yield from self._label(event.index, [(event.arguments, True)])
        elif isinstance(event, ToolCallStart):
            yield from self._split_start(event)
        elif isinstance(event, ToolCallDelta):
            reader = self._readers.setdefault(event.index, ArgumentSplitter())
            yield from self._label(event.index, reader.split(event.arguments, event.raw))
        elif event.raw:
            yield event.raw, "marker", ""

    def _split_start(self, event: ToolCallStart) -> Iterator[_Part]:
        call = self._calls.get(event.index)
        if event.index in self._live or call is None:
            yield from self._split_head(event, self._head_arguments.get(event.index, ""), call)
        elif (again := self._split_reread(event)) is not None:
            yield from again
        else:
            yield from self._split_by_search(event, call)

    def _split_head(
        self, event: ToolCallStart, arguments: str, call: ToolCall | None
    ) -> Iterator[_Part]:
        """Split the head of a call at its name and at the *arguments* (JSON text) within it."""
        raw, values = event.raw, ArgumentSplitter().read_values(arguments)
        places = _find_names(raw, event.name)
        if values and call is not None:
            first, last = find_object(raw[: places[-1][0]], call.arguments)
            if first >= 0:  # The arguments are before the name.
                yield from self._split_at_name(raw[:first], first, first, call)
                yield from self._label(event.index, [(raw[first:last], True)])
                at, end = places[-1]
                yield from self._split_at_name(raw[last:], at - last, end - last, call)
                return
        start, end = _choose_name(raw, places, values)
        yield from self._split_at_name(raw[:end], start, end, call)
        yield from self._label(event.index, split_after_name(raw[end:], values))

    def _split_at_name(
        self, raw: str, start: int, end: int, call: ToolCall | None
    ) -> Iterator[_Part]:
        """Split *raw* at the name from *start* to *end*."""
        note = INCOMPLETE if call is not None and not call.complete else ""
        blank = start - len(raw[:start].lstrip())
        if blank:  # White space beside a call is trimmed.
            yield raw[:blank], "dropped", ""
        if start > blank:
            yield raw[blank:start], "marker", ""
        if end > start:
            yield raw[start:end], "name", note
        if raw[end:]:
            yield raw[end:], "marker", ""

    def _split_reread(self, event: ToolCallStart) -> list[_Part] | None:
        """Split a call that came in one piece by parsing it again; None if that differs."""
        events = [*self._reread(event.raw)] if self._reread is not None else []
        starts = [one for one in events if isinstance(one, ToolCallStart)]
        joined = "".join(one.raw for one in events)
        if [one.name for one in starts] != [event.name] or not event.raw.startswith(joined):
            return None
        if _find_behind(events):
            return None
        reader, parts = ArgumentSplitter(), list[_Part]()
        arguments = _collect_head_arguments(events).get(starts[0].index, "")
        if self._is_late(structs.replace(starts[0], index=event.index), arguments):
            return None
        for one in events:
            if isinstance(one, ToolCallStart):
                head = structs.replace(one, index=event.index)
                parts += self._split_head(head, arguments, self._calls.get(event.index))
            elif isinstance(one, ToolCallDelta):
                parts += self._label(event.index, reader.split(one.arguments, one.raw))
            else:
                parts += _split_marker(one.raw)
        return [*parts, *_split_marker(event.raw[len(joined) :])]

    def _split_by_search(self, event: ToolCallStart, call: ToolCall) -> Iterator[_Part]:
        """Split a call that came in one piece at the name and the values that are found in it."""
        start, end = _find_names(event.raw, event.name)[0]
        yield from self._split_at_name(event.raw[:end], start, end, call)
        pieces = split_body(event.raw[end:], list_values(call.arguments))
        yield from self._label(event.index, [piece for piece in pieces if piece[0]])

    def _label(self, index: int, pieces: Iterable[Piece]) -> Iterator[_Part]:
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


def _block_index(event: Event) -> int:
    """Return the index of the block that *event* belongs to, if it belongs to one."""
    return NO_EVENT if isinstance(event, (MessageStart, *ENDS)) else event.index


def _take_parts(parts: list[_Part], size: int) -> Iterator[_Part]:
    """Remove and yield the first *size* characters of *parts*."""
    while size > 0 and parts:
        text, kind, note = parts.pop(0)
        if len(text) > size:
            parts.insert(0, (text[size:], kind, ""))
        yield text[:size], kind, note
        size -= len(text)


def _split_marker(text: str) -> Iterator[_Part]:
    """Split text around blocks: it is a marker, and the white space after it is dropped."""
    marker = text.rstrip()
    if marker:
        yield marker, "marker", ""
    if len(marker) < len(text):
        yield text[len(marker) :], "dropped", ""


def _collect_head_arguments(events: Iterable[Event]) -> dict[int, str]:
    """Return, for each call, the JSON of the arguments whose text is in the `raw` of its start."""
    heads: dict[int, list[str]] = {}
    complete: set[int] = set()
    for event in events:
        if isinstance(event, ToolCallDelta) and event.index not in complete:
            if event.raw:
                complete.add(event.index)
            else:
                heads.setdefault(event.index, []).append(event.arguments)
    return {index: "".join(pieces) for index, pieces in heads.items()}


def _find_behind(events: Iterable[Event]) -> set[int]:
    """Return the calls with a delta whose text has a tag in a value that the next delta brings.

    In YAML a value is known when its line is over, so its JSON comes with the text after it.
    """
    found: set[int] = set()
    deltas = (event for event in events if isinstance(event, ToolCallDelta))
    for before, delta in pairwise(deltas):
        if "<" in before.raw and "<" in delta.arguments and before.index == delta.index:
            values = ArgumentSplitter(is_inside=not delta.arguments.startswith((",", "{")))
            first = next((one for one in values.read_values(delta.arguments) if "<" in one), "")
            if first in before.raw and first not in before.arguments and first not in delta.raw:
                found.add(delta.index)
    return found


def _find_names(raw: str, name: str) -> list[tuple[int, int]]:
    """Find where *raw* may hold the name of the call; the end of *raw* where it does not."""
    found = [match.span() for match in _name_pattern(name).finditer(raw)] if name else []
    return found or [(len(raw), len(raw))]


def _choose_name(raw: str, places: list[tuple[int, int]], values: list[str]) -> tuple[int, int]:
    """Choose the place of a name: the last one, or else the first, with all *values* after it."""
    for place in (places[-1], places[0]):
        pieces = split_after_name(raw[place[1] :], values)
        if sum(is_argument for _, is_argument in pieces) == len(values):
            return place
    return places[-1]


@lru_cache(maxsize=256)
def _name_pattern(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")


# --- arguments within the text of a call ---
#
# A delta of a call holds its arguments twice: as JSON, and as the text that the model wrote. The
# values of the JSON are searched for in the text. A value that is found is an argument. What is
# between two values is markup if it holds a tag, and otherwise punctuation of the arguments. So
# a ``<b>`` within a value is part of the value, and ``<parameter=city>`` is not.

Piece = tuple[str, bool]
"""Some text, and whether it is part of the arguments."""

# The tags of all formats.
_TAG: Final = re.compile(
    r"<\|(?:open|close)\|>[^<>]*<\|sep\|>"  # a tag of several tokens
    r"|\]<\][^<>]*\[>\[(?:<[^<>]*>)?"  # a tag with a token before it
    r"|<[^<>]*>"
    r"|\[/?[A-Z_]{3,}\]"
)

_DECODER: Final = JSONDecoder()
_BRACE: Final = re.compile(r"[^{}]*\{\s*")
_FIRST_KEY: Final = re.compile(r'\{("[^"\\]*)')
_INSIDE: Final = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*', re.DOTALL)
_SCALAR: Final = re.compile(r'[^\s{}\[\],:"]+')
_OUTSIDE: Final = re.compile(r"[\s{}\[\],:]+")
_COLON: Final = re.compile(r"\s*:")


class ArgumentSplitter:
    """Reads the deltas of one call, in order."""

    __slots__ = ("_escape", "_has_begun", "_is_in_string", "_late")

    def __init__(self, *, is_inside: bool = False) -> None:
        self._is_in_string = is_inside
        self._has_begun = False  # some text has been read
        self._escape = ""  # a backslash whose character is in the next delta
        self._late: list[str] = []  # values of a delta without text

    def split(self, arguments: str, raw: str) -> list[Piece]:
        """Split *raw*, which a delta with the JSON text *arguments* consumed.

        The braces around all arguments are markup: most formats write them as part of the call.
        """
        if raw and not self._has_begun:
            self._has_begun = True
            if brace := _find_opening(arguments, raw):
                return [(brace, False), *self.split(arguments, raw[len(brace) :])]
        is_plain = '"' not in arguments and "\\" not in arguments
        if self._is_in_string and is_plain and not self._escape:
            self._late = [] if raw else [arguments]
            return [(raw, True)] if raw else []
        was_in_string = self._is_in_string
        values = self.read_values(self._escape + arguments)
        # In some formats (cohere_command5) the text of a value is in the delta after its JSON.
        late, self._late = self._late, [] if raw else values
        if was_in_string and self._is_in_string and len(values) <= 1:
            return [(raw, True)] if raw else []  # All of it is part of one value, escaped or not.
        return split_at_values(raw, values or late) if raw else []

    def read_values(self, arguments: str) -> list[str]:
        """Return the values in a piece of JSON text, each whole or as far as it goes; no keys."""
        return [*self._read_values(arguments)]

    def _read_values(self, text: str) -> Iterator[str]:
        self._escape = ""
        at, end = 0, len(text)
        while at < end:
            if self._is_in_string:
                at = yield from self._read_string(text, at)
            elif text[at] == '"':
                self._is_in_string = True
                at += 1
            elif found := _SCALAR.match(text, at):
                yield found[0]
                at = found.end()
            else:
                found = _OUTSIDE.match(text, at)
                at = at + 1 if found is None else found.end()

    def _read_string(self, text: str, at: int) -> Generator[str, None, int]:
        found = _INSIDE.match(text, at)
        inside, end = ("", at) if found is None else (found[0], found.end())
        if text[end : end + 1] == "\\":
            self._escape, end = "\\", end + 1
        elif end < len(text):
            self._is_in_string, end = False, end + 1
        if inside and (self._is_in_string or not _COLON.match(text, end)):
            yield inside
        return end


def _find_opening(arguments: str, raw: str) -> str:
    """Return what of *raw* is before the first key of *arguments*, if that ends in a brace."""
    key, brace = _FIRST_KEY.match(arguments), _BRACE.match(raw)
    return "" if key is None or brace is None or key[1] in brace[0] else brace[0]


def split_at_values(raw: str, values: list[str]) -> list[Piece]:
    """Split *raw* at the *values* that are found in it, in their order."""
    pieces: list[Piece] = []
    at = 0
    for start, end in _find_values(raw, values):
        pieces += [*_split_at_tags(raw[at:start]), (raw[start:end], True)]
        at = end
    return [*pieces, *_split_at_tags(raw[at:])]


def split_body(raw: str, values: list[str]) -> list[Piece]:
    """Split *raw* at its *values*; what is before the first and after the last is markup."""
    places = [*_find_values(raw, values)]
    if not places:
        return [(raw, False)]
    start, end = places[0][0], places[-1][1]
    return [(raw[:start], False), *split_at_values(raw[start:end], values), (raw[end:], False)]


def split_after_name(raw: str, values: list[str]) -> list[Piece]:
    """Split *raw*, which follows a name: the *values* are in quotes, or at its end."""
    pieces: list[Piece] = []
    at = 0
    for value in values:
        start, end = _find_quoted(raw, value, at)
        if start >= 0:
            pieces += [(raw[at:start], False), (raw[start:end], True)]
            at = end
    return [piece for piece in (*pieces, (raw[at:], False)) if piece[0]]


def _split_at_tags(text: str) -> list[Piece]:
    """Split the text between values: tags are markup, and so is white space beside them."""
    if not text:
        return []
    pieces: list[Piece] = []
    at = 0
    for tag in _TAG.finditer(text):
        before = text[at : tag.start()]
        pieces += [(before, bool(before.strip()))] if before else []
        pieces.append((tag[0], False))
        at = tag.end()
    if not pieces:
        return [(text, True)]
    after = text[at:]
    return [*pieces, (after, bool(after.strip()))] if after else pieces


def find_object(raw: str, value: Any) -> tuple[int, int]:
    """Find the JSON of *value*, an object, in *raw*; return the range between its braces."""
    at = raw.find("{")
    for _ in range(MAX_OBJECTS):
        if at < 0:
            break
        with suppress(ValueError, RecursionError):
            found, end = _DECODER.raw_decode(raw, at)
            if found == value:
                return at + 1, end - 1
        at = raw.find("{", at + 1)
    return -1, -1


def _find_values(raw: str, values: list[str]) -> Iterator[tuple[int, int]]:
    at = 0
    for value in values:
        start, end = _find_value(raw, value, at)
        if start >= 0:
            yield start, end
            at = end


def _find_quoted(raw: str, value: str, at: int) -> tuple[int, int]:
    for form in _spellings(value):
        for quote in "\"'":
            # A short value such as "a" occurs in other words; in quotes it rarely does.
            start = raw.find(f"{quote}{form}{quote}", at)
            if start >= 0:
                return start + 1, start + 1 + len(form)
        if raw.endswith(form) and len(raw) - len(form) >= at:
            return len(raw) - len(form), len(raw)
    return _find_value(raw, value, at)


def _find_value(raw: str, value: str, at: int) -> tuple[int, int]:
    for form in _spellings(value):
        start = raw.find(form, at)
        if start >= 0:
            return start, start + len(form)
    return -1, -1


def _spellings(value: str) -> Iterator[str]:
    """Yield how *value*, a piece of JSON, may be written: unescaped, as it is, or ``True``.

    The lines of a YAML block are indented by two spaces (the format ``yaml_xml``).
    """
    plain: Any = value
    if "\\" in value:
        with suppress(JSONParseError):
            plain = _json.decode(f'"{value}"')
    plain = plain if isinstance(plain, str) else value
    forms = (plain, value, value.capitalize(), plain.replace("\n", "\n  "))
    yield from filter(None, dict.fromkeys(forms))


def list_values(arguments: Any) -> list[str]:
    """Return the values of a call's *arguments* as pieces of JSON, in their order."""
    found: list[str] = []
    waiting = [arguments]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(reversed(value.values()))
        elif isinstance(value, list):
            waiting.extend(reversed(value))
        else:
            text = _json.encode_wire(value).decode()
            found.append(text[1:-1] if isinstance(value, str) else text)
    return [text for text in found if text]
