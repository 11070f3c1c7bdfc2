"""Native calls that an upstream damaged, repaired while they stream (the option `heal`).

Servers parse the model's text themselves, and some of their parsers damage calls. Observed:

* values of an array, object, number or boolean sent as a JSON string (vLLM and SGLang with XML
  formats, several hosted models), or all arguments as one string;
* two parallel calls glued into one, ``{"a": 1}{"a": 2}`` (servers that ignore the call's index),
  or an empty object before the arguments, ``{}{"a": 1}`` (proxies that begin with `input: {}`);
* names with a namespace or with tokens of their format: ``functions.X``, ``X<|channel|>commentary``
  (harmony), ``functions.X:0`` (Kimi), another case;
* a call that is left in the reasoning, with nothing else in the response;
* a call that is sent twice, as text and as a native call;
* ``stop`` where the token limit was reached.

`CallHealer` repairs the blocks of native calls, delta by delta: it holds back only a string that
may become another value, an empty object and the last brace. `EventHealer` wraps an event parser
and repairs the rest. Values, names and calls in the reasoning are repaired only if the tool is
known. Each call lists its repairs in `repairs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from msgspec import structs

from penstock import _json
from penstock.errors import JSONParseError
from penstock.events import (
    CALL_EVENTS,
    DELTAS,
    ENDS,
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import INCOMPLETE_CALL, ToolCall
from penstock.tools import clean_name
from penstock.values import coerce
from penstock.values.coercion import describe_change
from penstock.values.schema import Schema

MAX_QUEUE: Final = 10_000
"""How many events wait for the end of a native call that may be the twin of a printed one."""

MAX_HELD: Final = 4 * 1024 * 1024
"""How many characters of one string may wait to be decoded; a longer one is passed on unchanged."""

SPLIT: Final = None
"""Separates the pieces of two calls that were glued together."""

_QUOTE_OR_ESCAPE: Final = re.compile(r'["\\]')
_STRUCTURE: Final = re.compile(r'["{}\[\],]')
_NOT_BLANK: Final = re.compile(r"[^ \t\r\n]")


class _Frame:
    """An open object or array, with the schema for its next value."""

    __slots__ = ("index", "is_object", "key", "schema", "wants_key")

    def __init__(self, schema: Schema | None, *, is_object: bool) -> None:
        self.schema = schema
        self.is_object = is_object
        self.wants_key = is_object
        self.key = ""
        self.index = 0

    def child(self) -> Schema | None:
        """Return the schema of the value that comes next, if there is one."""
        if self.schema is None:
            return None
        return self.schema.property(self.key) if self.is_object else self.schema.item(self.index)


class _ArgumentText:
    """The arguments of one call as they stream: JSON text in, repaired JSON text out.

    It follows strings, brackets and keys, and does not validate: text that is not strict JSON
    (relaxed JSON, garbage) turns it off, and the rest passes unchanged.
    """

    __slots__ = ("_escaped", "_frames", "_held", "_is_key", "_literal", "_off", "_schema",
                 "_tail", "_wanted", "is_glued", "is_string", "notes")  # fmt: skip

    def __init__(self, schema: Schema | None) -> None:
        self.notes: list[str] = []
        self.is_glued = False  # There was more than one object.
        self.is_string = False  # All arguments are one JSON string.
        self._schema = schema
        self._frames: list[_Frame] = []
        self._off = False
        self._held = ""  # An opening brace, or an empty object, that was not emitted yet.
        self._tail = ""  # The last brace, and the white space after it.
        self._literal: list[str] | None = None  # The open string: its text, if it waits.
        self._is_key = False
        self._wanted: Schema | None = None  # What the open string is to become.
        self._escaped = False  # The last chunk ended with a backslash.

    def feed(self, text: str) -> list[str | None]:
        """Return the pieces that can be emitted; `SPLIT` where another call begins."""
        out: list[str | None] = []
        at = 0
        while at < len(text) and not self._off:
            if self._literal is not None:
                at = self._read_string(text, at, out)
            elif self._frames:
                at = self._read_structure(text, at, out)
            else:
                at = self._read_outside(text, at, out)
        if at < len(text):
            out.append(self._release() + text[at:])
        return _join(out)

    def finish(self) -> str:
        """Return what was held back."""
        return self._release()

    def _release(self) -> str:
        held = self._held + ("".join(self._literal or ()) if self._waits() else "") + self._tail
        self._held = self._tail = ""
        self._literal = None
        return held

    def _waits(self) -> bool:
        return self._wanted is not None

    def _read_outside(self, text: str, at: int, out: list[str | None]) -> int:
        """Read the text before or after the object: another object after it is another call."""
        found = _NOT_BLANK.search(text, at)
        if found is None:
            self._tail += text[at:] if self._tail else ""
            return len(text)
        if self._tail and found[0] == "{":
            self.is_glued = True
            self._tail = self._tail[0]  # White space between two objects belongs to neither.
            if self._held and self._schema is not None and self._schema.required:
                self.notes.append("dropped an empty object before the arguments")
            else:
                out.extend((self._release(), SPLIT))
            self._held = self._tail = ""
        elif self._tail or found[0] != "{":
            self._off = True
            if self._tail:
                return at
            self.is_string = found[0] == '"'
            return found.start()
        self._frames.append(_Frame(self._schema, is_object=True))
        self._held = "{"
        return found.end()

    def _read_structure(self, text: str, at: int, out: list[str | None]) -> int:
        """Read up to the next string, or to the end of the text."""
        frame = self._frames[-1]
        if self._held:
            return self._read_first(text, at, out)
        found = _STRUCTURE.search(text, at)
        if found is None:
            out.append(text[at:])
            return len(text)
        char, end = found[0], found.end()
        if char == '"':
            self._is_key = frame.wants_key
            wanted = None if self._is_key else frame.child()
            self._wanted = wanted if wanted is not None and _refuses_text(wanted) else None
            out.append(text[at : found.start()] if self._waits() else text[at:end])
            self._literal = ['"'] if self._waits() or self._is_key else []
            return end
        if char in "{[":
            if len(self._frames) > _json.MAX_DEPTH:
                self._off = True
                return at
            self._frames.append(_Frame(frame.child(), is_object=char == "{"))
        elif char == ",":
            frame.wants_key = frame.is_object
            frame.index += 1
        elif (char == "}") != frame.is_object:
            self._off = True
            return at
        else:
            self._frames.pop()
            if not self._frames:
                out.append(text[at : found.start()])
                self._tail = char
                return end
        out.append(text[at:end])
        return end

    def _read_first(self, text: str, at: int, out: list[str | None]) -> int:
        """Read what follows the opening brace: an empty object waits as a whole."""
        found = _NOT_BLANK.search(text, at)
        self._held += text[at:] if found is None else text[at : found.start()]
        if found is None:
            return len(text)
        if found[0] == "}":
            self._frames.pop()
            self._tail = "}"
            return found.end()
        out.append(self._held)
        self._held = ""
        return found.start()

    def _read_string(self, text: str, at: int, out: list[str | None]) -> int:
        """Continue in a string; one that may become another value waits for its end."""
        start, literal = at, self._literal
        assert literal is not None  # noqa: S101 - checked by the caller
        if self._escaped:
            at += 1
            self._escaped = False
        is_closed = False
        while at < len(text) and not is_closed:
            found = _QUOTE_OR_ESCAPE.search(text, at)
            if found is None:
                at = len(text)
            elif found[0] == '"':
                at, is_closed = found.end(), True
            else:
                self._escaped = found.end() == len(text)
                at = min(found.end() + 1, len(text))
        piece = text[start:at]
        if self._waits() or self._is_key:
            literal.append(piece)
        if not self._waits():
            out.append(piece)
        elif sum(map(len, literal)) > MAX_HELD:
            out.append("".join(literal))
            self._wanted = None
        if is_closed:
            self._close_string("".join(literal), out)
        return at

    def _close_string(self, literal: str, out: list[str | None]) -> None:
        frame, wanted = self._frames[-1], self._wanted
        self._literal, self._wanted = None, None
        try:
            value = _json.decode(literal) if wanted is not None or self._is_key else ""
        except JSONParseError:
            self._off = True
            out.append(literal if wanted is not None else "")
            return
        if self._is_key:
            frame.key, frame.wants_key = value, False
        elif wanted is not None:
            fitted = coerce(value, wanted, typed=True)
            is_fit = not isinstance(fitted, str) and wanted.accepts(fitted)
            out.append(_json.encode_strict(fitted).decode() if is_fit else literal)
            if is_fit:
                self.notes.append(describe_change(frame.key or "an item", value, fitted))


def _refuses_text(schema: Schema) -> bool:
    """Return whether *schema* allows no string, so that a string is another value, encoded."""
    types = schema.types
    return bool(types) and "string" not in types


def _join(pieces: list[str | None]) -> list[str | None]:
    """Return *pieces* with neighbouring texts joined and empty ones dropped."""
    if len(pieces) == 1:
        return pieces if pieces[0] or pieces[0] is SPLIT else []
    joined: list[str | None] = []
    for piece in pieces:
        if piece is SPLIT:
            joined.append(SPLIT)
        elif piece and joined and joined[-1] is not SPLIT:
            joined[-1] += piece
        elif piece:
            joined.append(piece)
    return joined


class _OpenCall:
    """An open native call: its block, and what was emitted of it."""

    __slots__ = ("id", "index", "is_split", "name", "notes", "schema", "sent", "text")

    def __init__(self, start: ToolCallStart, name: str, schema: Schema | None) -> None:
        self.index = start.index
        self.id = start.id
        self.name = name
        self.schema = schema
        self.text = _ArgumentText(schema)
        self.sent: list[str] = []
        self.is_split = False
        self.notes: list[str] = []


class CallHealer:
    """Repairs the native calls of one response as their events arrive.

    *schemas* are those of the known tools; *ids* creates the id of a call that was glued to
    another. Blocks of such calls get negative indexes, which no provider uses.
    """

    def __init__(self, schemas: Mapping[str, Schema], ids: Callable[[], str]) -> None:
        self._schemas = schemas
        self._ids = ids
        self.complete = 0
        self.incomplete = 0
        self._open: dict[int, _OpenCall] = {}
        self._next_index = -1

    def add(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> list[Event]:
        """Handle one event of a native call; return the events that replace it."""
        if isinstance(event, ToolCallStart):
            name = clean_name(event.name, self._schemas, folds=True)
            call = self._open[event.index] = _OpenCall(event, name, self._schemas.get(name))
            if name != event.name:
                call.notes.append(f"renamed {event.name!r} to {name!r}")
                event = structs.replace(event, name=name)
            return [event]
        if event.index not in self._open:
            return [event]
        if isinstance(event, ToolCallDelta):
            return self._read(event)
        return self._end(event)

    def _read(self, event: ToolCallDelta) -> list[Event]:
        call = self._open[event.index]
        events: list[Event] = []
        pieces = call.text.feed(event.arguments)
        is_string = call.text.is_string
        if pieces == [event.arguments] and call.index == event.index and not is_string:
            call.sent.append(event.arguments)
            return [event]  # nearly all
        for piece in pieces:
            if piece is SPLIT:
                events += self._split(call)
                continue
            call.sent.append(piece)
            if not is_string:
                events.append(ToolCallDelta(call.index, piece))
        if event.raw and events:
            events[0] = structs.replace(events[0], raw=event.raw)
        return events

    def _split(self, call: _OpenCall) -> list[Event]:
        """End the first of two calls that were glued together, and begin the second."""
        ended = ToolCallEnd(call.index, self._count(self._healed(call, call.id)))
        call.index, self._next_index = self._next_index, self._next_index - 1
        call.id, call.sent, call.is_split = self._ids(), [], True
        call.text.notes.clear()
        call.notes = ["split from the call that it was glued to"]
        return [ended, ToolCallStart(call.index, call.id, call.name)]

    def _end(self, event: ToolCallEnd) -> list[Event]:
        call, given = self._open.pop(event.index), event.call
        held = call.text.finish()
        if call.text.is_string:
            held, call.sent = "".join(call.sent), []
            if given.complete:
                held = _json.encode_strict(
                    coerce(given.arguments, call.schema, typed=True)
                ).decode()
                call.notes.append("decoded arguments that were sent as a string")
        events: list[Event] = []
        if held:
            call.sent.append(held)
            events.append(ToolCallDelta(call.index, held))
        if call.is_split or call.text.notes or (call.text.is_string and given.complete):
            healed = self._healed(call, call.id)
            is_complete = healed.complete and (given.complete or call.text.is_glued)
            given = structs.replace(healed, complete=is_complete, signature=given.signature)
        else:
            repairs = [*call.notes, *given.repairs]
            given = structs.replace(given, name=call.name, repairs=repairs)
        return [*events, structs.replace(event, index=call.index, call=self._count(given))]

    def _count(self, call: ToolCall) -> ToolCall:
        self.complete += call.complete
        self.incomplete += not call.complete
        return call

    def _healed(self, call: _OpenCall, id_: str) -> ToolCall:
        """Return the call as it was emitted, complete if its arguments are a JSON object."""
        try:
            arguments = _json.decode_strict("".join(call.sent))
        except JSONParseError:
            arguments = None
        is_complete = isinstance(arguments, dict)
        return ToolCall(
            id_,
            call.name,
            arguments if is_complete else {},
            complete=is_complete,
            repairs=[*call.notes, *call.text.notes],
        )


class EventReader(Protocol):
    """Turns the events of a response into others, as `EventParser` does."""

    def add(self, event: Event) -> list[Event]:
        """Handle one event; return the events that are certain now."""

    def finish(self) -> list[Event]:
        """End a sequence that has no terminal event."""


class EventHealer:
    """Repairs what an upstream did to the calls of a response, around an event *parser*.

    *schemas* are those of the known tools, *ids* creates ids for calls. *read_calls* returns the
    calls that a text ends with, for calls that were left in the reasoning. *max_tokens* is the
    limit of the request. After the last event `repairs` lists the repairs of the whole response.
    """

    def __init__(
        self,
        parser: EventReader,
        schemas: Mapping[str, Schema],
        *,
        ids: Callable[[], str],
        read_calls: Callable[[str], list[ToolCall]],
        max_tokens: int | None = None,
    ) -> None:
        self.repairs: list[str] = []
        self._parser = parser
        self._calls = CallHealer(schemas, ids)
        self._read_calls = read_calls
        self._max_tokens = max_tokens
        # Calls without a twin so far: those that came as text, and those that came as native calls.
        self._unmatched: tuple[list[ToolCall], list[ToolCall]] = ([], [])
        self._held: dict[int, tuple[bool, list[Event]]] = {}  # Calls that may be twins.
        self._open: dict[int, tuple[bool, str]] = {}  # Kind and name of calls that were not held.
        # Chat streams end a native call only with the response: a printed twin waits for that, and
        # so does all that comes after it.
        self._waiting: ToolCallEnd | None = None
        self._queue: list[tuple[Event, bool]] = []
        self._dropped: dict[int, ToolCall] = {}  # By the parser's index.
        self._raw = ""  # Text of dropped calls, which the next event claims.
        self._next = 0
        self._reasoning = ""
        self._has_content = False

    def add(self, event: Event) -> list[Event]:
        """Handle one event; return the events that are certain now."""
        if isinstance(event, TextDelta):
            events = self._parser.add(event)
            # Nearly all deltas become one: checking each of them took a third of the parser's time.
            is_plain = len(events) == 1 and isinstance(events[0], DELTAS)
            if not is_plain or self._held or self._dropped or self._waiting:
                return self._check_all(events)
            is_known = self._has_content or not isinstance(events[0], TextDelta)
            return events if is_known else self._check_all(events)
        if isinstance(event, CALL_EVENTS):
            if isinstance(event, ToolCallDelta) and not self._changes_calls:
                return self._read_delta(event)
            return self._read_call(self._calls.add(event))
        if isinstance(event, ENDS):
            event = self._correct_end(event)
        return self._check_all(self._parser.add(event))

    def finish(self) -> list[Event]:
        """End a sequence that has no terminal event."""
        events = self._check_all(self._parser.finish())
        events += self._stop_waiting()
        for _, held in self._held.values():
            events += map(self._renumber, held)
        return events

    @property
    def _changes_calls(self) -> bool:
        """Whether the events of calls are held, dropped or numbered again."""
        return bool(self._held or self._dropped or self._waiting or self._raw)

    def _read_delta(self, event: ToolCallDelta) -> list[Event]:
        """Read a delta of a native call, whose start was emitted; nearly all stay one delta."""
        healed = self._calls.add(event)
        if len(healed) == 1 and isinstance(healed[0], ToolCallDelta):
            return self._parser.add(healed[0])
        return self._read_call(healed)

    def _read_call(self, events: list[Event]) -> list[Event]:
        """Read healed events of a native call."""
        found: list[Event] = []
        for event in events:
            *before, native = self._parser.add(event)
            found += self._check_all(before)
            found += self._check(native, is_native=True)
        return found

    def _check_all(self, events: list[Event]) -> list[Event]:
        found: list[Event] = []
        for event in events:
            found += self._check(event, is_native=False)
        return found

    def _check(self, event: Event, *, is_native: bool) -> list[Event]:
        """Return what becomes of one event of the parser."""
        if isinstance(event, MessageStart):
            return [event]
        if isinstance(event, ENDS):
            waited = self._stop_waiting()
            return [*waited, *self._end(event)]
        if self._waiting is not None and event.index not in self._open:
            self._queue.append((event, is_native))
            return self._stop_waiting() if len(self._queue) > MAX_QUEUE else []
        if event.index in self._held:
            return self._check_held(event, event.index)
        if isinstance(event, ToolCallStart):
            return self._check_start(event, is_native=is_native)
        if isinstance(event, ToolCallEnd):
            self._has_content = True
            self._open.pop(event.index, None)
            self._unmatched[is_native].append(event.call)
            ended, waiting = self._renumber(event), self._waiting
            if waiting is not None and not self._is_open(waiting.call.name, is_native=is_native):
                return [ended, *self._stop_waiting()]
            return [ended]
        if isinstance(event, ThinkingEnd):
            self._reasoning = event.text
        elif isinstance(event, TextDelta) and not event.text.isspace():
            self._has_content = True
        return [self._renumber(event)]

    def _check_start(self, event: ToolCallStart, *, is_native: bool) -> list[Event]:
        """Hold the start if a call of the other kind has its name: it may be the same call."""
        is_known = any(call.name == event.name for call in self._unmatched[not is_native])
        if is_known or self._is_open(event.name, is_native=not is_native):
            self._held[event.index] = is_native, [event]
            return []
        self._open[event.index] = is_native, event.name
        return [self._renumber(event)]

    def _check_held(self, event: Event, index: int) -> list[Event]:
        """Add *event* to its held call; at the end, decide about it or wait for the other one."""
        is_native, events = self._held[index]
        events.append(event)
        if not isinstance(event, ToolCallEnd):
            return []
        if self._is_open(event.call.name, is_native=not is_native):
            self._waiting = event
            return []
        return self._settle(event)

    def _is_open(self, name: str, *, is_native: bool) -> bool:
        """Return whether a call of *name* has been emitted that has not ended."""
        return (is_native, name) in self._open.values()

    def _stop_waiting(self) -> list[Event]:
        """Settle the call that waits for another one, then handle what came after it."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return []
        events = self._settle(waiting)
        queue, self._queue = self._queue, []
        for event, is_native in queue:
            events += self._check(event, is_native=is_native)
        return events

    def _settle(self, event: ToolCallEnd) -> list[Event]:
        """Drop a call that came twice, once as text and once as a native call; else release it."""
        is_native, events = self._held.pop(event.index)
        call, others = event.call, self._unmatched[not is_native]
        for place, other in enumerate(others):
            is_twin = (other.name, other.arguments) == (call.name, call.arguments)
            if is_twin and call.complete and other.complete:
                del others[place]
                self._dropped[event.index] = call
                self._raw += "".join(one.raw for one in events)
                note = f"dropped the second copy of a call of {call.name!r}"
                other.repairs.append(note)  # The log lists the repairs of the message's calls.
                self.repairs.append(note)
                return []
        self._unmatched[is_native].append(call)
        return [self._renumber(one) for one in events]

    def _renumber(self, event: Event) -> Event:
        """Close the gaps that dropped calls left, and attach their text."""
        if isinstance(event, (MessageStart, *ENDS)):
            return event
        index = event.index - sum(index < event.index for index in self._dropped)
        self._next = max(self._next, index + 1)
        if index == event.index and not self._raw:
            return event
        raw, self._raw = self._raw + event.raw, ""
        return structs.replace(event, index=index, raw=raw)

    def _correct_end(self, event: Done | Failed) -> Done | Failed:
        """Return how the response really ended, before the parser closes its text."""
        calls, message = self._calls, event.message
        if isinstance(event, Failed):
            is_healed = calls.complete and not calls.incomplete
            if is_healed and event.error.type == INCOMPLETE_CALL:
                return Done("tool_use", structs.replace(message, error=None), event.raw)
            return event
        limit = self._max_tokens
        if event.reason == "stop" and limit and message.usage.output >= limit:
            # Several servers report `stop` for a response that reached the token limit.
            self.repairs.append("ended as length: the token limit was reached")
            return structs.replace(event, reason="length")
        return event

    def _end(self, event: Done | Failed) -> list[Event]:
        before: list[Event] = []
        for _, held in self._held.values():
            before += map(self._renumber, held)
        self._held.clear()
        dropped = {id(call) for call in self._dropped.values()}
        content = [block for block in event.message.content if id(block) not in dropped]
        raw, self._raw = self._raw + event.raw, ""
        calls: list[ToolCall] = []
        if event.reason == "stop" and self._reasoning and not self._has_content:
            calls = self._read_calls(self._reasoning)
        for found in calls:
            repairs = [*found.repairs, "taken out of the reasoning"]
            call = structs.replace(found, repairs=repairs)
            arguments = _json.encode_strict(call.arguments).decode()
            before += [
                ToolCallStart(self._next, call.id, call.name),
                ToolCallDelta(self._next, arguments),
                ToolCallEnd(self._next, call),
            ]
            self._next += 1
            content.append(call)
        message = structs.replace(event.message, content=content)
        if calls:
            message.stop_reason = "tool_use"
            return [*before, Done("tool_use", message, raw)]
        return [*before, structs.replace(event, message=message, raw=raw)]
