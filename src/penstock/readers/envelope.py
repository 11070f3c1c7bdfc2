r"""JSON read in steps, and the envelope: the object in it that has the name and the arguments.

`JSONSteps` reads the relaxed grammar of `IncrementalJSON` step by step. Each step ends at a change,
so that every event can claim its own text. The first character of a string is a change of its own,
so that the caller can decide how to read the rest. A string that streams is split: plain text,
escapes that strict JSON has, too (``\n``, ``\"``), and any other escape alone. So all text before
an error is emitted, however the input is split.

An `Envelope` follows the changes of one object. It opens the call as soon as the name is known and
the arguments have begun, writes them as they arrive, and closes the call with the object. Keys may
come in any order: arguments that come before the name wait for it. Arguments may be JSON in a
string; then `inner` reads them, and they are written as they arrive, too. An id that comes after
the arguments is too late in either mode: the call was opened with a generated id.

A `CallShape` names the keys that count; all others are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from json.decoder import JSONDecodeError, scanstring  # type: ignore[attr-defined]
from typing import Any, Final, NamedTuple

from penstock.errors import JSONParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import OpenString, Translated, without_begun
from penstock.parsing.call_shape import (
    CALL,
    CALL_KEYS,
    HELD_NAME,
    NO_NAME,
    NOT_AN_OBJECT,
    CallShape,
    ParsedCall,
    find_name,
    list_calls,
    may_hold_arguments,
    parse_arguments,
    parse_call,
)
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.values import rjson
from penstock.values.coercion import coerce
from penstock.values.control_tokens import without_turn_end
from penstock.values.incremental import IncrementalJSON
from penstock.values.incremental_state import Change
from penstock.values.json_grammar import (
    BYTE_ORDER_MARK,
    CLOSING_QUOTES,
    WORD,
    string_gate,
)
from penstock.values.rjson.notes import Repair
from penstock.values.schema import Schema

Steps = tuple[list[Change], int]
"""The changes, and where in the text the step ended."""

_QUOTE: Final = re.compile(f"[{''.join({*CLOSING_QUOTES, *CLOSING_QUOTES.values()})}]")
_SPECIAL: Final = {
    quote: re.compile(rf'["{quote}\\\x00-\x1f]') for quote in CLOSING_QUOTES.values()
}
"""By closing quote: characters that are not plain in a string, or that strict JSON escapes."""

_GATES: Final = {quote: string_gate(quote) for quote in CLOSING_QUOTES.values()}
"""By closing quote: where a run of plain text in a string ends."""

_TAME_ESCAPES: Final = re.compile(r'(?:\\["\\bfnrt]){1,1000}')
_TAME_OR_RAW: Final = re.compile(r'(?:[^"\\\x00-\x08\x0b\x0c\x0e-\x1f]|\\["\\bfnrt]){0,1000}')

# Only the text after a high surrogate shows whether it is half of a pair.
_HIGH: Final = r"[Dd][89ABab]"
_ESCAPE: Final = re.compile(
    rf"\\(?:u{_HIGH}[0-9A-Fa-f]{{2}}(?:\\u[0-9A-Fa-f]{{4}}|\\[^u]|[^\\])"
    rf"|u(?!{_HIGH})[0-9A-Fa-f]{{4}}|[^u])",
    re.DOTALL,
)
_ESCAPE_BEGINS: Final = re.compile(
    rf"\\(?:u(?:[0-9A-Fa-f]{{0,3}}|{_HIGH}[0-9A-Fa-f]{{2}}(?:\\(?:u[0-9A-Fa-f]{{0,3}})?)?))?"
)
_LONGEST: Final = 12  # characters of an escape: both halves of a surrogate pair
_OFFSET: Final = " at offset "
_WORD_CHARACTERS: Final = "".join(char for char in map(chr, range(128)) if WORD.match(char))

MAX_STEP: Final = 4096
"""How much text between two strings is read in one step, at most."""

MAX_WORD: Final = 64
"""Up to this length, an error in a number or a word is reported where it begins."""


class JSONFlow(Enum):
    """How the text of the open string is read."""

    WAITS = "when it is complete"
    STREAMS = "as it arrives"
    NESTS = "as it arrives, escape by escape: it is JSON itself"


class BrokenJSONError(NoCallError):
    """The text is not JSON from *at* on.

    *place* is where the error begins: before *at* if some of a long word was read earlier.
    """

    def __init__(self, reason: str, at: int, place: int | None = None) -> None:
        super().__init__(reason)
        self.at = at
        self.place = at if place is None else place


class BrokenArgumentsError(BrokenJSONError):
    """The text in a string is not JSON; the JSON around the string may be valid."""


def error_at(reason: str, place: int) -> JSONParseError:
    """Return an error with *place* instead of the offset that *reason* ends with."""
    return JSONParseError(f"{reason.partition(_OFFSET)[0]}{_OFFSET}{place}", position=place)


class JSONSteps(IncrementalJSON):
    """One JSON value in the relaxed grammar, read step by step."""

    def __init__(self) -> None:
        super().__init__(lenient=True)
        self.pieces: list[str] = []
        """The pieces of the string that was opened last, decoded."""
        self._has_begun = False
        self._is_entered = False  # the first character of the open string was read
        self._string: tuple[str | int, ...] = ()  # its path

    @property
    def awaits(self) -> str:
        """The end of the open string, key or comment; empty outside of them."""
        return self._reading.awaits

    def step(self, text: str, at: int, flow: JSONFlow) -> Steps:
        """Continue from *at* up to the next change.

        If nothing changed and the position is *at*, more text is needed. Raises
        `BrokenJSONError`.
        """
        opened = self.open_string
        if opened is None:
            if not self.awaits and not self.in_line_comment:
                self._is_entered = False
                if text.startswith(BYTE_ORDER_MARK, at):
                    if self._has_begun:
                        raise BrokenJSONError("a byte order mark inside the value", at)
                    self._has_begun = True
                    return [], at + 1
            # Within a window: a call that breaks soon must not cost a search of all text.
            window = at + MAX_STEP
            quote = _QUOTE.search(text, at, window)
            end = quote.end() if quote else self._find_word(text[:window], at)
            # Up to a byte order mark, which is checked at the beginning of a step.
            mark = text.find(BYTE_ORDER_MARK, at + 1, end)
            end = end if mark == -1 else mark
            return self._read(text, at, end) if end > at else ([], at)
        if not self._is_entered:
            return self._enter(*opened, text, at)
        if flow is JSONFlow.WAITS:
            return self._read(text, at, len(text))
        return self._stream(*opened, text, at, flow)

    def streaming_string(self) -> OpenString | None:
        """Return the open string as a run."""
        if self.open_string is None or not self._is_entered:
            return None
        quote, pieces = self.open_string
        if quote != '"':
            return OpenString(_GATES[quote], pieces)
        return OpenString(_GATES[quote], pieces, _translate_tame, known=_KNOWN_TAME)

    def waiting_string(self) -> OpenString | None:
        """Return the open string, which is part of a value that waits, as a run."""
        string = self.streaming_string()
        return None if string is None else string._replace(waits=True)

    def nested_string(self, inner: JSONSteps) -> OpenString | None:
        """Return the open string of *inner*, the JSON in the open string here, as a run."""
        opened, nested = self.open_string, inner.open_string
        if opened is None or nested is None or not (opened[0] == nested[0] == '"'):
            return None
        return OpenString(_GATES['"'], nested[1], _translate_nested, known=_KNOWN_NESTED)

    def _find_word(self, text: str, at: int) -> int:
        """Return where the last word of *text* begins: only the next character completes it."""
        if self.awaits or self.in_line_comment:
            return len(text)
        tail = text[max(at, len(text) - MAX_WORD) :]
        word = len(tail) - len(tail.rstrip(_WORD_CHARACTERS))
        return len(text) - word if word < MAX_WORD else len(text)

    def _enter(self, quote: str, pieces: list[str], text: str, at: int) -> Steps:
        """Read the first character of the open string, or its end."""
        if _SPECIAL[quote].match(text, at):
            changes, end = self._read_special(text, at)
        else:
            changes, end = self._read(text, at, at + 1)
        if changes:
            self._is_entered = True
            self._string = changes[0].path
            self.pieces = pieces
        return changes, end

    def _stream(self, quote: str, pieces: list[str], text: str, at: int, flow: JSONFlow) -> Steps:
        """Continue in the open string: read plain text, or one special character or escape."""
        special = _SPECIAL[quote].search(text, at)
        end = special.start() if special else len(text)
        if end > at:
            pieces.append(text[at:end])
            return [Change(self._string, "string", text[at:end])], end
        if quote == '"' and flow is JSONFlow.STREAMS and (tame := _TAME_ESCAPES.match(text, at)):
            piece = scanstring(tame[0] + '"', 0)[0]
            pieces.append(piece)
            return [Change(self._string, "string", piece, tame[0])], tame.end()
        return self._read_special(text, at)

    def _read_special(self, text: str, at: int) -> Steps:
        """Read one escape, or one character that is not plain."""
        if text[at] != "\\":
            return self._read(text, at, at + 1)
        escape = _ESCAPE.match(text, at)
        if escape is None and _ESCAPE_BEGINS.fullmatch(text, at):
            return [], at
        return self._read(text, at, escape.end() if escape else min(at + _LONGEST, len(text)))

    def _read(self, text: str, at: int, end: int) -> Steps:
        self._has_begun = True
        is_all = end == len(text)
        try:
            if is_all:
                return self.advance(text, at)
            changes, used = self.advance(text[at:end])
        except JSONParseError as exc:
            place = exc.position + (0 if is_all else at)
            reason = exc.reason.rpartition(_OFFSET)[0]
            raise BrokenJSONError(reason, max(place, at), place) from exc
        return changes, at + used


def _translate_tame(text: str) -> Translated | None:
    """Read a piece of a string if its escapes are those that strict JSON has, too.

    Line breaks and tabs may be raw: many models write code that way. A backslash at the end is not
    read, because the rest of its escape comes next.
    """
    if text[-1] == "\\" and text[-2:] != "\\\\":
        text = text[:-1]
    # `scanstring` alone takes half the time of a pattern before it. It refuses control characters
    # and unknown escapes with an exception, which is slow, so those that are common go elsewhere.
    # An escaped slash is written as a plain one everywhere, so that the cut does not matter.
    if text.isprintable() and "\\u" not in text and "\\/" not in text:
        try:
            value, end = scanstring(text + '"', 0)
        except JSONDecodeError:
            return None
        return (value, text, len(text)) if end > len(text) else None
    if _TAME_OR_RAW.fullmatch(text) is None:
        return None
    written = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return scanstring(written + '"', 0)[0], written, len(text)


def _translate_nested(text: str) -> Translated | None:
    """Read a piece of a string inside a string, if both have the escapes of strict JSON only."""
    outer = _translate_tame(text)
    if outer is None or outer[1] != text:
        return None
    written, _, size = outer
    if written.endswith("\\") and not written.endswith("\\\\"):
        written, size = written[:-1], size - 2  # two characters begin that escape
    inner = _translate_tame(written) if written else ("", "", 0)
    return None if inner is None else (inner[0], inner[1], size)


_KNOWN_TAME: Final[dict[str, Translated]] = {}
_KNOWN_NESTED: Final[dict[str, Translated]] = {}

Path = tuple[str | int, ...]


# --- the envelope ------------------------------------------------------------------------------


DEFINITION: Final = "the arguments are a JSON Schema: this is the definition of a tool"
OUTSIDE: Final = "arguments outside of the arguments"
MISNAMED: Final = "the key of the arguments is damaged"


def is_definition(arguments: dict[str, Any], schema: Schema | None = None) -> bool:
    """Return whether *arguments* are a JSON Schema, and not those of a tool with this *schema*."""
    if arguments.get("type") != "object" or not isinstance(arguments.get("properties"), dict):
        return False
    return schema is None or not {"type", "properties"} <= schema.properties.keys()


class NotMeantError(NoCallError):
    """No call was meant: the text only looked like one."""


class NameRule(Enum):
    """Which names make a call of an object."""

    ANY = "any name"
    KNOWN = "the name of a known tool: any other object was not meant as a call"
    FOLDED = "the same in any case, and the call opens as soon as the name is known"


class MemberWriter:
    """Writes arguments from the changes of a JSON value; subclasses decide which changes count."""

    is_streaming = False
    """Whether the open string is an argument that is written as it arrives."""

    def _write(self, key: str, change: Change, writer: ArgumentWriter) -> None:
        """Write the *change* of the argument *key*."""
        match change.kind:
            case "string" if self.is_streaming:
                if change.value is not None:
                    writer.add_escaped(change.value)
                else:
                    writer.add_text(change.text)
            case "string" if writer.streams(key):
                self.is_streaming = True
                writer.open_text(key)
                writer.add_text(change.text)
            case "value" if self.is_streaming:
                self.is_streaming = False
                writer.end_text(change.value)
            case "value" if change.value == "" and writer.streams(key):
                # Its second quote may be a doubled first one, see `end_text`.
                writer.open_text(key)
                writer.end_text("")
            case "value" | "end":
                writer.put_typed(key, change.value)


class Envelope(MemberWriter):
    """Follows one object and makes a call of it; *base* is the depth of the object in the JSON.

    With *wrapped*, only the members of the shape's outer keys count.
    """

    def __init__(
        self,
        calls: CallSink,
        base: int,
        shape: CallShape = CALL,
        rule: NameRule = NameRule.ANY,
        *,
        wrapped: bool = False,
    ) -> None:
        self.name = ""
        self.has_arguments = False
        self.inner: JSONSteps | None = None  # reads the open string, which holds the arguments
        self.rule = rule
        self._inner_begun = False  # the string holds more than white space
        self._calls = calls
        self._base = base
        self._shape = shape
        self._wrapped = wrapped
        self._id = ""
        self._name_key = ""
        self._outer: str | int = ""  # the key of the object around the name, in an outer key
        self._others: set[str] = set()  # the keys of members that are not part of a call
        self._is_misnamed = False  # one of them may hold the arguments
        self._writer: ArgumentWriter | None = None
        self._waiting: list[Any] = []  # arguments that came before the name

    def follow(self, change: Change) -> None:
        """Process a change at or below the object; raise `NoCallError` if it cannot be a call."""
        if self.inner is not None and change.kind == "string":
            self._inner_begun = self._inner_begun or bool(change.text.strip())
            return
        path, shape = change.path[self._base :], self._shape
        if not path:
            if change.kind == "end":
                self._close()
        elif shape.keyed:
            self._follow_key(str(path[0]), change, path)
        elif path[0] in shape.outer_keys:
            if not self.name:
                self._outer = path[0]
            if not self._is_around(change, path):
                self._follow_member(change, path[1:] or path)
        elif self._wrapped:
            self._check_outside(path[0])
        else:
            if not self.name:
                self._outer = ""
            self._follow_member(change, path)

    def _follow_member(self, change: Change, path: Path) -> None:
        """Process a change of a member of the call, at *path* in it."""
        shape = self._shape
        is_held = len(path) > 1 and path[0] in shape.holders
        if is_held:
            path = path[1:]
        if path[0] in shape.arguments:
            self._follow_arguments(change, path)
        elif len(path) == 1:
            self._follow_field(str(path[0]), change, is_held=is_held)

    def _is_around(self, change: Change, path: Path) -> bool:
        """Return whether *change*, at *path*, begins or ends the object that the call is in.

        Its key may also be an argument of the tool. The object begins before the name is known.
        """
        if len(path) > 1:
            return False
        if change.kind == "object":
            return not self.name
        return change.kind == "end" and path[0] == self._outer

    def _check_outside(self, key: str | int) -> None:
        """Raise `NoCallError` if the member *key*, outside of the wrapper, holds arguments."""
        schema = self._calls.schemas.get(self.name)
        if schema is not None and (key in self._shape.arguments or key in schema.properties):
            raise NoCallError(OUTSIDE)

    def follow_inner(self, change: Change) -> None:
        """Process a change in the JSON that a string holds."""
        if change.path:
            self._follow_arguments(change, ("", *change.path))
        elif change.kind == "object":
            self._begin_arguments()
        elif change.kind == "end":
            self._end_arguments(change.value)
        elif change.kind == "array" or change.value is not None:
            raise NoCallError(NOT_AN_OBJECT)

    def end_inner(self) -> None:
        """Process the end of the string that holds the arguments: they have to be complete."""
        if self.inner is not None and self._inner_begun and not self.inner.complete:
            raise NoCallError("the string ends inside the arguments")
        self.inner = None

    def agrees_with(self, call: RepairedCall, open_text: str | None) -> bool:
        """Return whether *call*, repaired from the same text, has what was read before it broke.

        A repair is a guess; what was read before the mistake is not.
        """
        writer, schema = self._writer, self._calls.schemas.get(call.name)
        if writer is None or schema is None:
            return True
        # Where nothing has been emitted, the end of an open string is a guess as well.
        open_text = open_text if self._calls.started else None
        return writer.agrees_with(coerce(call.arguments, schema, typed=True), open_text)

    def _follow_key(self, key: str, change: Change, path: Path) -> None:
        if not key or (self.name and key != self.name):
            raise NoCallError("the object has other keys than the name of one tool")
        self.name = key
        self._follow_arguments(change, path)

    def _follow_field(self, key: str, change: Change, *, is_held: bool) -> None:
        """Process a change of a member that is not the arguments: the name, the id, or another."""
        if key not in CALL_KEYS:
            self._others.add(key)
        if change.kind in ("value", "end") and may_hold_arguments(key, change.value):
            self._is_misnamed = True
        if change.kind != "value":
            return
        is_name = key == HELD_NAME if is_held else key in self._shape.names
        if is_name and not self.name:
            if not isinstance(change.value, str) or not change.value:
                raise NoCallError("the name of the call is not a string")
            self._name_key = key
            self._take_name(change.value)
        elif is_name and key == self._name_key and change.value != self.name:
            raise NoCallError("two calls in one object")
        elif key in self._shape.ids and isinstance(change.value, str):
            self._id = change.value

    def _take_name(self, name: str) -> None:
        schemas = self._calls.schemas
        if self.rule is not NameRule.ANY:
            known = find_name(name, schemas) if self.rule is NameRule.FOLDED else name
            if known is None or known not in schemas:
                raise NotMeantError(f"unknown tool {name!r}")
            name = known
        self.name = self._calls.name = name
        if self._waiting or self.rule is NameRule.FOLDED:
            self._open()

    # --- arguments ---

    def _follow_arguments(self, change: Change, path: Path) -> None:
        if len(path) == 1:
            self.has_arguments = True
            self._follow_all_arguments(change)
        elif len(path) == 2 and isinstance(path[1], str):  # noqa: PLR2004 - arguments, argument
            self._follow_argument(path[1], change)

    def _follow_all_arguments(self, change: Change) -> None:
        """Process a change of the arguments as a whole."""
        match change.kind:
            case "object" if self.name:
                self._begin_arguments()
            case "end" if isinstance(change.value, dict):
                self._end_arguments(change.value)
            case "string" if self.name:
                # Arguments in a JSON string are decoded once; they stream, too.
                self.inner = JSONSteps()
                self._inner_begun = bool(change.text.strip())
            case "value":
                if isinstance(change.value, str) and not self.name:
                    self._waiting.append(change.value)
                elif not isinstance(change.value, str | None):
                    raise NoCallError(NOT_AN_OBJECT)
            case "array":
                raise NoCallError(NOT_AN_OBJECT)

    def _begin_arguments(self) -> None:
        self._open()

    def _follow_argument(self, key: str, change: Change) -> None:
        if self._writer is not None:
            self._write(key, change, self._writer)

    def _end_arguments(self, arguments: dict[str, Any]) -> None:
        if self._writer is None:
            self._waiting.append(arguments)

    # --- the call ---

    def _open(self) -> None:
        """Open the call, if it is not open, and write the arguments that waited for it."""
        if self._writer is not None:
            return
        waiting = [parse_arguments(value) for value in self._waiting]
        for arguments in waiting:
            self._check_arguments(arguments)
        self._waiting.clear()
        self._writer = self._calls.open(self.name, self._id)
        for arguments in waiting:
            for key, value in arguments.items():
                self._writer.put_typed(key, value)

    def _check_arguments(self, arguments: dict[str, Any]) -> None:
        """Raise `NoCallError` if *arguments*, which are complete, are not those of a call."""

    def _close(self) -> None:
        if not self.name:
            raise NoCallError(NO_NAME)
        schema = self._calls.schemas.get(self.name)
        if self._others and schema is not None and not self._others.isdisjoint(schema.properties):
            # A bracket came too early, and what follows it was meant as arguments.
            raise NoCallError(OUTSIDE)
        if self._is_misnamed and not self.has_arguments:
            raise NoCallError(MISNAMED)
        self._open()
        written = {} if self._writer is None else self._writer.arguments
        if schema is not None and is_definition(written, schema):
            self._calls.doubt(DEFINITION)
        self._calls.close()


# --- repair -------------------------------------------------------------------------------------

_WORDS_BEFORE: Final = re.compile(
    "|".join(re.escape(said).replace(r"\{count\}", r"\d+") for said in Repair.TEXT_BEFORE.value)
)
"""The notes of `rjson.repair` about words that it dropped before a value."""

Check = Callable[[dict[str, Any]], None]
"""Raises `NoCallError` if the members of an object are not those of a call."""


def repair_json_calls(
    text: str,
    shape: CallShape,
    schemas: Mapping[str, Schema],
    check: Check | None = None,
    end: str = "",
) -> list[RepairedCall]:
    """Return the calls of *shape* in *text*, repaired, or an empty list.

    The text may end with the marker *end*. It is repaired as a whole, so each of several calls has
    the notes of all. Words before a value are a sign of prose: "`<tool_call>` and then `{...}`"
    describes a call and makes none.
    """
    try:
        value, repairs, text = repair_body(text, end)
        # Keyed calls (Apertus) follow a special token, which prose does not have.
        if not shape.keyed and any(map(_WORDS_BEFORE.fullmatch, repairs)):
            return []
        return [
            _repair_call(item, shape, schemas, repairs, check, text)
            for item in list_calls(value, shape)
        ]
    except (JSONParseError, NoCallError):
        return []


def _repair_call(
    item: Any,
    shape: CallShape,
    schemas: Mapping[str, Schema],
    repairs: list[str],
    check: Check | None,
    text: str,
) -> RepairedCall:
    repairs = list(repairs)
    call = parse_call(item, shape, repairs)
    if check is not None:
        check(call.fields)
    schema = schemas.get(call.name)
    if schema is not None and not shape.keyed:
        others = call.fields.keys() - CALL_KEYS
        if not others.isdisjoint(schema.properties):
            raise NoCallError(OUTSIDE)
    if not call.name:
        raise NoCallError(NO_NAME)
    arguments = call.arguments
    if call.misnamed:
        arguments = _take_misnamed(call, schema)
        repairs.append(f"read {call.misnamed[0][:99]!r} as the arguments")
    return RepairedCall(call.name, arguments or {}, repairs, call.id, written=text)


def _take_misnamed(call: ParsedCall, schema: Schema | None) -> dict[str, Any]:
    """Return the arguments of *call*, whose key is damaged; raise `NoCallError` in doubt."""
    arguments = parse_arguments(call.fields[call.misnamed[0]])
    known = schema.properties if schema is not None else ()
    if len(call.misnamed) > 1 or not all(key in known for key in arguments):
        raise NoCallError(MISNAMED)
    return arguments


class RepairedBody(NamedTuple):
    """The JSON value of a body, the repairs that it took, and its text without end markers."""

    value: Any
    repairs: list[str]
    text: str


def repair_body(text: str, *ends: str) -> RepairedBody:
    """Read the JSON of a body up to its *ends*, repaired where that is not a guess.

    End markers, complete or begun, and tokens after the JSON do not belong to it. A string that is
    open before one of them may lack more than its quote, so the value is refused then. Raises
    `JSONParseError`.
    """
    bare = _drop_ends(text.rstrip(), *filter(None, map(str.strip, ends)))
    has_end = bare != text.rstrip()
    # Without a marker, white space at the end may be part of a string that was left open.
    body = bare if has_end else text
    is_cut = any(ends_with_rest(body, end) for end in ends)
    value, repairs = rjson.repair(body, guess=False, closes=not (has_end or is_cut))
    return RepairedBody(value, repairs, body)


MIN_REST: Final = 4
"""How much of an end marker, at least, is a sign that the text before it was lost."""


def ends_with_rest(text: str, end: str) -> bool:
    """Return whether *text* ends with the rest of the marker *end*, whose beginning was lost."""
    end, bare = end.strip(), text.rstrip()
    return any(bare.endswith(end[at:]) for at in range(1, len(end) - MIN_REST + 1))


def _drop_ends(text: str, *ends: str) -> str:
    before = None
    while before != text:
        before, text = text, without_turn_end(text).rstrip()
        for end in ends:
            text = text.removesuffix(end).rstrip()
    for end in ends:
        text = without_begun(text, end)
    return text
