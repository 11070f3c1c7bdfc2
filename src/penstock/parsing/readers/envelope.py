"""The object around one call in JSON: its name, its id, its arguments.

Told of every change in the object, it opens the call as soon as the name is known and the arguments
have begun, writes them as they come, and closes the call with the object. Keys may come in any
order: arguments that come before the name wait for it. Arguments may be JSON inside a string; then
`inner` reads them, and they are written as they come too. An id that comes after the arguments is
too late, in either mode: the call has begun, under an id of ours.

A `Shape` says which keys are looked at. What is not in it is not a part of a call.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import CallSink, NoCallError, RepairedCall
from penstock.parsing.readers.base import OpenString, Verdict, without_begun
from penstock.parsing.readers.json_steps import BrokenJSONError, JSONFlow, JSONSteps
from penstock.parsing.readers.tagged.tags import known_name
from penstock.parsing.scanner import Scanner
from penstock.values import rjson
from penstock.values.coercion import coerce
from penstock.values.incremental_state import Change
from penstock.values.rjson.notes import Repair
from penstock.values.rjson.repair_strings import CONTROL_TOKEN
from penstock.values.schema import Schema

# Calls as JSON values, once they are whole: which tool, which arguments.
#
# A model that was asked for arguments alone may name the tool once more around them, in the
# shape of another format: ``{"name": …, "arguments": …}``, ``{"tool": {"function": …,
# "parameters": …}}``, a list of these. An object is such an envelope if it has the keys of one
# and no other, and none that the tool's own schema declares.


WRAPPERS: Final = ("tool", "function")
"""Keys of an object around the call, or of the tool's name."""

LISTS: Final = ("tool_calls", "tools")
"""Keys of a list of calls."""

_NAMES: Final = ("name", "tool_name", "function", "tool")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input")
ENVELOPE: Final = frozenset({*_NAMES, *_ARGUMENTS, *LISTS, "id", "tool_call_id", "type"})
"""All keys that an object around arguments may have."""

Found = tuple[str, dict[str, Any]]
"""A call: the tool's name as it is known, and the arguments."""


def find_tool(name: str, schemas: Mapping[str, Schema]) -> str:
    """Return the name of a tool as it is known: the same, or else the same but for case.

    Raises `NoCallError` where there is not one.
    """
    known = known_name(name.strip(), schemas)
    if known is None:
        raise NoCallError(f"no tool is called {name[:99]!r}")
    return known


def read_arguments_call_shapes(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the arguments that stand beside a name; None where there are not.

    Raises `NoCallError`, or `JSONParseError`, for arguments that are not object.
    """
    arguments = next((fields[key] for key in _ARGUMENTS if fields.get(key) is not None), None)
    if isinstance(arguments, str):
        arguments = rjson.loads(arguments, duplicates="last") if arguments.strip() else {}
    if arguments is not None and not isinstance(arguments, dict):
        raise NoCallError("arguments that are no object")
    return arguments


def find_calls(value: Any, schemas: Mapping[str, Schema]) -> list[Found]:
    """Return the calls that *value* is, of the tools that it names itself.

    Raises `NoCallError`, or `JSONParseError`, where it is not one.
    """
    return [_named(_flat(item), schemas) for item in _items(value)]


def unwrap(value: Any, declared: Collection[str]) -> list[dict[str, Any]]:
    """Return the arguments of each call that *value* is, of a tool that has those *declared*.

    An object in which anything is not an envelope holds the arguments itself. Raises `NoCallError`
    for a list of something else than calls.
    """
    if isinstance(value, list):
        return [_inside(item, declared) for item in _items(value)]
    try:
        items = _items(value)
    except NoCallError:
        return [value]
    found = [_inside(item, declared) for item in items]
    return [value] if any(map(operator.is_, found, items)) else found


def _items(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a list of calls, or in an envelope around one; or the one object."""
    items = value
    if isinstance(value, dict) and len(value) == 1:
        items = next((value[key] for key in LISTS if isinstance(value.get(key), list)), value)
    if not isinstance(items, list):
        items = [items]
    if not items or not all(isinstance(item, dict) for item in items):
        raise NoCallError("a list of something else than calls")
    return items


def _named(fields: dict[str, Any], schemas: Mapping[str, Schema]) -> Found:
    return find_tool(_name_in(fields), schemas), read_arguments_call_shapes(fields) or {}


def _inside(item: dict[str, Any], declared: Collection[str]) -> dict[str, Any]:
    """Return the arguments in the envelope *item*, or *item* itself where it is not one."""
    if not all(key in ENVELOPE and key not in declared for key in item):
        return item
    fields = _flat(item)
    is_named = _name_in(fields) != ""
    if not is_named and not isinstance(fields.get("arguments", fields.get("parameters")), dict):
        return item
    try:
        arguments = read_arguments_call_shapes(fields)
    except (NoCallError, JSONParseError):
        return item
    return item if arguments is None else arguments


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    """Put what is in an inner ``tool`` or ``function`` beside what stands around it."""
    fields = dict(item)
    for wrapper in WRAPPERS:
        if isinstance(fields.get(wrapper), dict):
            fields |= fields.pop(wrapper)
    return fields


def _name_in(fields: dict[str, Any]) -> str:
    return next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), "")


# The members of an object of arguments, written to a call as they come.
#
# Whoever follows the changes of the object knows which of them are arguments, and says so here.


class JSONMembers:
    """Writes arguments out of the changes of a JSON value."""

    is_streaming = False
    """Whether the open string is an argument that is written as it comes."""

    def _write(self, key: str, change: Change, writer: ArgumentWriter) -> None:
        """Write what *change* says of the argument *key*."""
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


Path = tuple[str | int, ...]

NO_OBJECT: Final = "arguments that are no object"


class NotMeantError(NoCallError):
    """No call was meant: the text only looked like one."""


class Shape(Struct, frozen=True):
    """Where the parts of a call are in its object.

    *wrappers* are keys of an object around the call (``{"tool": {…}}``), *holders* those of one
    that has the name and perhaps the arguments (``{"function": {"name": …}}``), *lists* those of a
    list of calls.
    """

    names: frozenset[str] = frozenset({"name", "tool_name"})
    arguments: frozenset[str] = frozenset({"arguments", "parameters", "args", "input"})
    ids: frozenset[str] = frozenset({"id", "tool_call_id"})
    wrappers: frozenset[str] = frozenset()
    holders: frozenset[str] = frozenset()
    lists: frozenset[str] = frozenset()


def read_arguments(value: Any) -> dict[str, Any]:
    """Return the arguments that *value* says: an object, JSON inside a string, or nothing.

    Raises `NoCallError`, or `JSONParseError`, for anything else: no tool is to run without what was
    meant.
    """
    if isinstance(value, str):
        value = rjson.loads(value, duplicates="last") if value.strip() else None
    if value is not None and not isinstance(value, dict):
        raise NoCallError(NO_OBJECT)
    return value or {}


CALL: Final = Shape()
"""A call with all its parts side by side: ``{"name": …, "arguments": {…}}``."""

HELD_NAME: Final = "name"
"""The key of the name in a holder."""


class Envelope(JSONMembers):
    """Follows one object and makes a call of it; *base* is how deep it is in the JSON."""

    def __init__(self, calls: CallSink, base: int, shape: Shape = CALL) -> None:
        self.name = ""
        self.inner: JSONSteps | None = None  # reads the open string: it holds the arguments
        self._inner_begun = False
        self._calls = calls
        self._base = base
        self._shape = shape
        self._id = ""
        self._writer: ArgumentWriter | None = None
        self._waiting: list[Any] = []  # arguments that came before the name

    def follow(self, change: Change) -> None:
        """Take a change at or below the object; raise `NoCallError` where it can be no call."""
        if self.inner is not None and change.kind == "string":
            self._begin_inner(change.text)
            return
        path, is_held = self._within(change.path[self._base :])
        if not path:
            if change.kind == "end":
                self._close()
        elif path[0] in self._shape.arguments:
            self._follow_arguments(change, path)
        elif len(path) == 1:
            self._note(str(path[0]), change, is_held=is_held)

    def follow_inner(self, change: Change) -> None:
        """Take a change in the JSON that a string holds."""
        if change.path:
            self._follow_arguments(change, ("", *change.path))
        elif change.kind == "object":
            self._begin_arguments()
        elif change.kind == "end":
            self._end_arguments(change.value)
        elif change.kind == "array" or change.value is not None:
            raise NoCallError(NO_OBJECT)

    def end_inner(self) -> None:
        """Take the end of the string that holds the arguments: they have to be whole."""
        if self.inner is not None and self._inner_begun and not self.inner.complete:
            raise NoCallError("arguments that end before they are whole")
        self.inner = None

    def agrees_with(self, call: RepairedCall, open_text: str | None) -> bool:
        """Return whether *call*, made of the same text, says what was read before that broke.

        What repairing makes of a text is a guess; what was read before the mistake is not one.
        """
        writer, schema = self._writer, self._calls.schemas.get(call.name)
        if writer is None or schema is None:
            return True
        # Where nothing has gone out, the end of an open string is a guess as well.
        open_text = open_text if self._calls.started else None
        return writer.agrees_with(coerce(call.arguments, schema, typed=True), open_text)

    def _within(self, path: Path) -> tuple[Path, bool]:
        """Return *path* as seen from the call itself; return whether it goes through a holder."""
        if len(path) > 1 and path[0] in self._shape.wrappers:
            path = path[1:]
        is_held = len(path) > 1 and path[0] in self._shape.holders
        return (path[1:] if is_held else path), is_held

    def _note(self, key: str, change: Change, *, is_held: bool) -> None:
        if change.kind != "value":
            return
        is_name = key == HELD_NAME if is_held else key in self._shape.names
        if is_name and not self.name:
            if not isinstance(change.value, str) or not change.value:
                raise NoCallError("a name that is no text")
            self._take_name(change.value)
        elif key in self._shape.ids and isinstance(change.value, str):
            self._id = change.value

    def _take_name(self, name: str) -> None:
        self.name = self._calls.name = name
        if self._waiting:
            self._open()

    # --- arguments ---

    def _follow_arguments(self, change: Change, path: Path) -> None:
        if len(path) == 1:
            self._follow_all(change)
        elif len(path) == 2 and isinstance(path[1], str):  # noqa: PLR2004 - arguments, argument
            self._follow_argument(path[1], change)

    def _follow_all(self, change: Change) -> None:
        """Take what happens to the arguments as a whole."""
        match change.kind:
            case "object" if self.name:
                self._begin_arguments()
            case "end" if isinstance(change.value, dict):
                self._end_arguments(change.value)
            case "string" if self.name:
                self.inner = JSONSteps()
                self._inner_begun = False
                self._begin_inner(change.text)
            case "value":
                if isinstance(change.value, str) and not self.name:
                    self._waiting.append(change.value)
                elif not isinstance(change.value, str | None):
                    raise NoCallError(NO_OBJECT)
            case "array":
                raise NoCallError(NO_OBJECT)

    def _begin_inner(self, text: str) -> None:
        """Note that the string that should hold the arguments holds anything at all."""
        self._inner_begun = self._inner_begun or bool(text.strip())

    def _begin_arguments(self) -> None:
        self._open()

    def _follow_argument(self, key: str, change: Change) -> None:
        if self._writer is not None:
            self._write(key, change, self._writer)

    def _end_arguments(self, arguments: dict[str, Any]) -> None:
        if self._writer is None:
            self._waiting.append(arguments)

    # --- the call ---

    def _open(self) -> ArgumentWriter:
        """Open the call, if it is not open; write what has waited for that."""
        if self._writer is None:
            waiting = [self._admit(read_arguments(value)) for value in self._waiting]
            self._waiting.clear()
            self._writer = self._calls.open(self.name, self._id)
            for arguments in waiting:
                for key, value in arguments.items():
                    self._writer.put_typed(key, value)
        return self._writer

    def _admit(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Look at arguments that have waited, before they are written."""
        return arguments

    def _close(self) -> None:
        if not self.name:
            raise NoCallError("a call without a name")
        self._open()
        self._calls.close()


# Arguments of a call whose name is known already, as one JSON object.
#
# The object holds the arguments; or it is an envelope as other formats have it, with a name and
# the arguments inside, and then the name says nothing new. It is an envelope if every key of it
# is one of an envelope's, and none is an argument that the tool declares: so what was read
# waits until the first key that is not an envelope's, or until the object is whole. A list of calls
# waits as well.


_JSON_ARGUMENTS_NAMES: Final = CALL.names.union(WRAPPERS)
_NAMING: Final = _JSON_ARGUMENTS_NAMES | CALL.ids | {"type"}
_OUTER: Final = (*WRAPPERS, *LISTS)
_NESTS: Final = (dict, list)


class JSONArgumentReader:
    """Reads the arguments of the open call of *name*, up to the end of the JSON value.

    With *several*, the value may be a list of calls, which `close` puts out.
    """

    def __init__(self, name: str, schema: Schema | None, *, several: bool = False) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._steps = JSONSteps()
        self._name = name
        self._object = _ArgumentObject(name, schema, several=several)

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; `DONE` tells that the value is whole."""
        moves = True
        try:
            while moves and scanner.at < len(scanner.text) and not self._steps.complete:
                moves = self._step(scanner, calls)
        except (NoCallError, ParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            if isinstance(exc, BrokenJSONError):
                scanner.at = max(scanner.at, exc.at)
            return Verdict.BROKEN
        if not self._steps.complete:
            return Verdict.MORE
        calls.note(*self._steps.take_relaxed())
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended; return whether the value is whole."""
        del scanner, calls
        return Verdict.DONE if self._steps.complete else Verdict.GIVE_UP

    def close(self, calls: CallSink) -> None:
        """Close the call, and put out those that stand after it in a list."""
        calls.close()
        for arguments in self._object.further:
            writer = calls.open(self._name)
            for key, value in arguments.items():
                writer.put_typed(key, value)
            calls.close()

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return self._steps.run() if self._object.is_streaming else None

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now, decoded."""
        return "".join(self._steps.pieces) if self._object.is_streaming else None

    def _step(self, scanner: Scanner, calls: CallSink) -> bool:
        """Read up to the next change; return whether anything came of it."""
        before, writer = scanner.at, calls.writer
        assert writer is not None  # noqa: S101 - whoever knows the name has opened the call
        flow = JSONFlow.STREAMS if self._object.is_streaming else JSONFlow.WAITS
        changes, scanner.at = self._steps.step(scanner.text, before, flow)
        for change in changes:
            self._object.follow(change, writer)
        return bool(changes) or scanner.at > before


class _ArgumentObject(JSONMembers):
    """Follows the object and writes the arguments of it."""

    def __init__(self, name: str, schema: Schema | None, *, several: bool) -> None:
        self.further: list[dict[str, Any]] = []  # arguments of the calls after the first
        self._name = name
        self._several = several
        self._declared = schema.properties if schema is not None else {}
        self._is_flat = False  # it is not an envelope, but the arguments themselves
        self._waiting: dict[str, Any] = {}  # what was read before that was known

    def follow(self, change: Change, writer: ArgumentWriter) -> None:
        """Take one change."""
        path = change.path
        if not path:
            self._follow_whole(change, writer)
        elif isinstance(path[0], str) and len(path) == 1:
            self._follow_member(path[0], change, writer)

    def _follow_whole(self, change: Change, writer: ArgumentWriter) -> None:
        """Take a change of the value itself."""
        if change.kind not in ("object", "end", "array" if self._several else ""):
            raise NoCallError(NO_OBJECT)
        if change.kind == "end" and not self._is_flat:
            first, *self.further = self._unwrapped(change.value)
            for key, value in first.items():
                writer.put_typed(key, value)

    def _follow_member(self, key: str, change: Change, writer: ArgumentWriter) -> None:
        if not self._is_flat and not self._may_wrap(key, change):
            self._is_flat = True
            for waiting, value in self._waiting.items():
                writer.put_typed(waiting, value)
        if self._is_flat:
            self._write(key, change, writer)
        elif change.kind in ("value", "end"):
            self._waiting[key] = change.value

    def _may_wrap(self, key: str, change: Change) -> bool:
        """Return whether an envelope may have this under *key*."""
        if key in self._declared:
            return False
        match change.kind:
            case "object" | "end":
                return key in CALL.arguments or key in WRAPPERS or key in LISTS
            case "array":
                return self._several and key in LISTS
            case "value" if key in CALL.arguments:
                return _decoded(change.value) is not None
            case _:
                return key in _NAMING or key in CALL.arguments

    def _unwrapped(self, value: Any) -> list[dict[str, Any]]:
        """Return the arguments of each call in *value*, of which nothing can be no envelope."""
        if isinstance(value, list) or any(isinstance(value.get(key), _NESTS) for key in _OUTER):
            return unwrap(value, self._declared)
        inside = [_decoded(value[key]) for key in value if key in CALL.arguments]
        if inside and None not in inside:
            return [{key: item for each in inside for key, item in (each or {}).items()}]
        names = [value[key] for key in value if key in _JSON_ARGUMENTS_NAMES]
        is_own = any(isinstance(name, str) and name.lower() == self._name.lower() for name in names)
        return [{} if is_own else value]


def _decoded(value: Any) -> dict[str, Any] | None:
    """Read arguments: an object, or JSON in a text, or nothing; None for what can be none."""
    if value is None or isinstance(value, dict):
        return value or {}
    if not isinstance(value, str):
        return None
    try:
        inside = rjson.loads(value, duplicates="last") if value.strip() else {}
    except ParseError:
        return None
    return inside if isinstance(inside, dict) else None


# Calls out of JSON that broke: repaired as a whole, then read by the same shape.


_WORDS_BEFORE: Final = re.compile(
    "|".join(re.escape(said).replace(r"\{count\}", r"\d+") for said in Repair.TEXT_BEFORE.value)
)
"""What `rjson.repair` says where it dropped words before a value."""

_LAST_TOKEN: Final = re.compile(rf"\s*+(?:{CONTROL_TOKEN}|</s>)\Z")
"""A token that ends the turn, or the call: elsewhere ``</s>`` is HTML."""

Check = Callable[[dict[str, Any]], None]
"""Raises `NoCallError` for an object that is not a call, whatever its shape."""


def mended_calls(
    text: str, shape: Shape, check: Check | None = None, end: str = ""
) -> list[RepairedCall]:
    """Return the calls of *shape* in *text*, repaired; empty if it cannot be repaired.

    The text may hold the marker *end*.

    What is wrong with one of several calls is said of each: their text was repaired as a whole.
    Words before a value tell of prose: "`<tool_call>` and then `{...}`" describes a call and makes
    none.
    """
    try:
        value, repairs, text = repair_body(text, end)
        if any(map(_WORDS_BEFORE.fullmatch, repairs)):
            return []
        calls = [
            _read_call(item, shape, repairs, check) for item in _items_json_mending(value, shape)
        ]
        return [call._replace(written=text) for call in calls]
    except (JSONParseError, NoCallError):
        return []


class RepairedBody(NamedTuple):
    """The JSON value of a body, what was repaired in it, and its text without end markers."""

    value: Any
    repairs: list[str]
    text: str


def repair_body(text: str, *ends: str) -> RepairedBody:
    """Read the JSON of a body up to its *ends*, repaired where that is no guess.

    End markers, whole or begun, and tokens after the JSON are not of it. A string that is open
    before one of them may lack more than its quote: then the value is refused. Raises
    `JSONParseError`.
    """
    bare = _without_ends(text.rstrip(), *filter(None, map(str.strip, ends)))
    has_end = bare != text.rstrip()
    # White space before no marker may be part of a string that was left open.
    body = bare if has_end else text
    value, repairs = rjson.repair(body, guess=False, closes=not has_end)
    return RepairedBody(value, repairs, body)


def _without_ends(text: str, *ends: str) -> str:
    before = None
    while before != text:
        before, text = text, _LAST_TOKEN.sub("", text)
        for end in ends:
            text = text.removesuffix(end).rstrip()
    for end in ends:
        text = without_begun(text, end)
    return text


def _items_json_mending(value: Any, shape: Shape) -> list[Any]:
    """Return what may be calls: the value, what a list has, what values in a row have."""
    if isinstance(value, dict):
        listed = next((value[key] for key in shape.lists if isinstance(value.get(key), list)), None)
        return [value] if listed is None else listed
    if isinstance(value, list):
        return [inner for item in value for inner in (item if isinstance(item, list) else [item])]
    return []


def _read_call(item: Any, shape: Shape, repairs: list[str], check: Check | None) -> RepairedCall:
    call = _unwrapped(item, shape.wrappers)
    if not isinstance(call, dict):
        raise NoCallError("something else than an object")
    if check is not None:
        check(call)
    held = _first(call, shape.holders, dict) or {}
    name = held.get(HELD_NAME) or _first(call, shape.names, str)
    if not isinstance(name, str) or not name:
        raise NoCallError("a call without a name")
    arguments: dict[str, Any] = {}
    repairs = list(repairs)
    for key, value in (*call.items(), *held.items()):
        if key in shape.arguments:
            arguments |= _mended_arguments(value, repairs)
    return RepairedCall(name, arguments, repairs, _first(call, shape.ids, str) or "")


def _mended_arguments(value: Any, repairs: list[str]) -> dict[str, Any]:
    """Read arguments; those inside a string may be broken too."""
    if isinstance(value, str) and value.strip():
        value, inner = rjson.repair(value, guess=False)
        repairs += inner
    return read_arguments(value)


def _unwrapped(item: Any, wrappers: frozenset[str]) -> Any:
    return (_first(item, wrappers, dict) or item) if isinstance(item, dict) else item


def _first(members: dict[str, Any], keys: frozenset[str], kind: type[Any]) -> Any:
    """Return the first of *members* that has one of *keys* and is of this *kind*."""
    found = (value for key, value in members.items() if key in keys and isinstance(value, kind))
    return next(found, None)
