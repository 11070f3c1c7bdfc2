"""What a tool call looks like as a JSON object: one description for readers, repair and writers.

A `CallShape` names the keys of a call: of its name, its arguments and its id, of objects around
it, and of a list of calls. Readers that stream follow it change by change (`readers/envelope.py`);
the functions here read a value that is complete, and `CallShape.write` makes one.

Arguments are an object, or the JSON text of one in a string: OpenAI's API has them so, and models
that were trained on its transcripts print them so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from operator import is_not
from typing import Any, Final, NamedTuple

from msgspec import Struct

from penstock.errors import JSONParseError
from penstock.parsing.call_sink import NoCallError
from penstock.values import rjson

NOT_AN_OBJECT: Final = "the arguments are not a JSON object"
NO_NAME: Final = "the call has no name"

HELD_NAME: Final = "name"
"""The key of the name in a holder."""


class CallShape(Struct, frozen=True):
    """The keys of a call in JSON; of each kind, the first is the one that is written.

    *outer_keys* are keys of an object around the call (``{"tool": {…}}``), *holders* those of an
    object with the name and perhaps the arguments (``{"function": {"name": …}}``), *lists* those
    of a list of calls. A *keyed* call has its name as the only key: ``{"NAME": {…}}``.

    *written_in* are the keys of the objects around a call that is written, from the outside in,
    and with *writes_id* its id is written.
    """

    # `parameters` is an alias of `arguments` in every JSON format, an id next to them is
    # the call's own, and all other keys are ignored. `tool_name` is Command R's, `args` Gemini's,
    # `input` Anthropic's.
    names: tuple[str, ...] = ("name", "tool_name")
    arguments: tuple[str, ...] = ("arguments", "parameters", "args", "input")
    ids: tuple[str, ...] = ("id", "tool_call_id")
    outer_keys: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    keyed: bool = False
    written_in: tuple[str, ...] = ()
    writes_id: bool = False

    def write(self, name: str, arguments: Any, id: str = "") -> dict[str, Any]:  # noqa: A002 - the field's name
        """Return the JSON object of a call of *name*."""
        if self.keyed:
            return {name: arguments}
        call = {self.names[0]: name, self.arguments[0]: arguments}
        if self.writes_id:
            call = {self.ids[0]: id, **call}
        for key in reversed(self.written_in):
            call = {key: call}
        return call


CALL: Final = CallShape()
"""A call with all its parts side by side: ``{"name": …, "arguments": {…}}``."""

ANY_CALL: Final = CallShape(
    names=("name", "tool_name", "function", "tool"),
    outer_keys=("tool",),
    holders=("function",),
    lists=("tool_calls", "tools"),
)
"""A call as any model may write it."""

CALL_KEYS: Final = frozenset({*ANY_CALL.names, *ANY_CALL.arguments, *ANY_CALL.ids,
                              *ANY_CALL.lists, "type"})  # fmt: skip
"""All keys that an object around arguments may have."""


class ParsedCall(NamedTuple):
    """The parts of a call; *arguments* is None if they are missing.

    *fields* are the members of the call's object and of those inside and around it. *misnamed* are
    the keys that may have been meant as that of the arguments, which are missing then.
    """

    name: str
    arguments: dict[str, Any] | None
    id: str
    fields: dict[str, Any]
    misnamed: tuple[str, ...] = ()


def parse_call(item: Any, shape: CallShape, repairs: list[str] | None = None) -> ParsedCall:
    """Return the parts of the call that *item* is, a complete value.

    A missing name is empty. Several keys of arguments, as a model writes them when
    it changes its mind, are merged. With *repairs*, broken arguments in a string are repaired.
    Raises `NoCallError` or `JSONParseError`.
    """
    if not isinstance(item, dict):
        raise NoCallError("a call is a JSON object")
    if shape.keyed:
        if len(item) != 1:
            raise NoCallError("the object has other keys than the name of one tool")
        ((name, value),) = item.items()
        return ParsedCall(name, parse_arguments(value, repairs), "", item)
    fields = dict(item)
    for key in shape.outer_keys:
        if isinstance(fields.get(key), dict):
            fields |= fields.pop(key)
    names = [fields.get(key) for key in shape.names]
    for key in shape.holders:
        if isinstance(held := fields.get(key), dict):
            fields |= fields.pop(key)
            names.insert(0, held.get(HELD_NAME))
    name = next((name for name in names if isinstance(name, str) and name), "")
    given = [fields[key] for key in fields if key in shape.arguments]
    arguments: dict[str, Any] = {}
    for value in given:
        arguments |= parse_arguments(value, repairs)
    id_ = next((fields[key] for key in fields if key in shape.ids), "")
    misnamed = [key for key in fields if not given and may_hold_arguments(key, fields[key])]
    return ParsedCall(
        name,
        arguments if given else None,
        id_ if isinstance(id_, str) else "",
        fields,
        tuple(misnamed),
    )


def may_hold_arguments(key: str, value: Any) -> bool:
    """Return whether the member *key* may be the arguments, with another name.

    A call without arguments may have other scalars beside its name, and empty objects.
    """
    if key in CALL_KEYS:
        return False
    if isinstance(value, str):
        bare = value.strip()
        return bare.startswith("{") and bare != "{}"
    return isinstance(value, dict | list) and len(value) > 0


def parse_arguments(value: Any, repairs: list[str] | None = None) -> dict[str, Any]:
    """Return the arguments that *value* holds: an object, JSON in a string, or nothing.

    With *repairs*, broken JSON in the string is repaired, and the repairs are added to the list.
    Raises `NoCallError` or `JSONParseError` for anything else: no tool may run with other
    arguments than those that were meant.
    """
    if isinstance(value, str):
        if not value.strip():
            return {}  # Missing, null or empty arguments are an empty object.
        if repairs is None:
            value = rjson.loads(value, duplicates="last")
        else:
            value, found = rjson.repair(value, guess=False)
            repairs += found
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise NoCallError(NOT_AN_OBJECT)
    return value


def list_calls(value: Any, shape: CallShape) -> list[Any]:
    """Return what may be calls in *value*: the value, the items of a list, or values in a row.

    Raises `NoCallError` for any other value.
    """
    if isinstance(value, dict):
        lists = (value[key] for key in shape.lists if isinstance(value.get(key), list))
        value = next(lists, [value])
    if not isinstance(value, list) or not value:
        raise NoCallError("a call is a JSON object, or a list of them")
    return [inner for item in value for inner in (item if isinstance(item, list) else [item])]


def unwrap_arguments(value: Any, name: str, declared: Collection[str]) -> list[dict[str, Any]]:
    """Return the arguments of each call in *value*, all of the tool *name*.

    A model that was asked for arguments alone may name the tool once more around them, in the
    shape of another format. An object is such an envelope if it has the keys of one and no other,
    and none that the tool has *declared*; any other object holds the arguments themselves. Raises
    `NoCallError` for a list of something else than objects, or of none.
    """
    items = list_calls(value, ANY_CALL)
    if not items or not all(isinstance(item, dict) for item in items):
        raise NoCallError("the list holds something else than calls")
    found = [_unwrap(item, name, declared) for item in items]
    is_envelope = isinstance(value, list) or all(map(is_not, found, items))
    return found if is_envelope else [dict(value)]


def _unwrap(item: dict[str, Any], name: str, declared: Collection[str]) -> dict[str, Any]:
    if not all(key in CALL_KEYS and key not in declared for key in item):
        return item
    try:
        call = parse_call(item, ANY_CALL)
    except (NoCallError, JSONParseError):
        return item
    if call.arguments is None:
        return {} if call.name.casefold() == name.casefold() else item
    return call.arguments


def find_name(name: str, known: Iterable[str]) -> str | None:
    """Return the one of *known* that *name* means: the same, or else the same but for case."""
    folded, found = name.casefold(), None
    for candidate in known:
        if candidate == name:
            return candidate
        if found is None and candidate.casefold() == folded:
            found = candidate
    return found


def find_tool(name: str, tools: Iterable[str]) -> str:
    """Return the one of *tools* that *name* means; raise `NoCallError` if it is unknown."""
    found = find_name(name.strip(), tools)
    if found is None:
        raise NoCallError(f"unknown tool {name[:99]!r}")
    return found
