"""Calls as JSON values, once they are whole: which tool, which arguments.

A model that was asked for arguments alone may name the tool once more around them, in the shape of
another format: ``{"name": …, "arguments": …}``, ``{"tool": {"function": …, "parameters": …}}``, a
list of these. An object is such an envelope if it has the keys of one and no other, and none that
the tool's own schema declares.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.parsing.bodies.base import NoCallError
from penstock.parsing.bodies.opening_tags import known_name
from penstock.values import rjson
from penstock.values.schema import Schema

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
    """Give the name of a tool as it is known: the same, or else the same but for case.

    Raises `NoCallError` where there is none.
    """
    known = known_name(name.strip(), schemas)
    if known is None:
        raise NoCallError(f"no tool is called {name[:99]!r}")
    return known


def read_arguments(fields: dict[str, Any]) -> dict[str, Any] | None:
    """Give the arguments that stand beside a name; None where there are none.

    Raises `NoCallError`, or `JSONParseError`, for arguments that are no object.
    """
    arguments = next((fields[key] for key in _ARGUMENTS if fields.get(key) is not None), None)
    if isinstance(arguments, str):
        arguments = rjson.loads(arguments, duplicates="last") if arguments.strip() else {}
    if arguments is not None and not isinstance(arguments, dict):
        raise NoCallError("arguments that are no object")
    return arguments


def find_calls(value: Any, schemas: Mapping[str, Schema]) -> list[Found]:
    """Give the calls that *value* is, of the tools that it names itself.

    Raises `NoCallError`, or `JSONParseError`, where it is none.
    """
    return [_named(_flat(item), schemas) for item in _items(value)]


def unwrap(value: Any, declared: Collection[str]) -> list[dict[str, Any]]:
    """Give the arguments of each call that *value* is, of a tool that has those *declared*.

    An object in which anything is no envelope holds the arguments itself. Raises `NoCallError` for
    a list of something else than calls.
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
    """Give the objects in a list of calls, or in an envelope around one; or the one object."""
    items = value
    if isinstance(value, dict) and len(value) == 1:
        items = next((value[key] for key in LISTS if isinstance(value.get(key), list)), value)
    if not isinstance(items, list):
        items = [items]
    if not items or not all(isinstance(item, dict) for item in items):
        raise NoCallError("a list of something else than calls")
    return items


def _named(fields: dict[str, Any], schemas: Mapping[str, Schema]) -> Found:
    return find_tool(_name_in(fields), schemas), read_arguments(fields) or {}


def _inside(item: dict[str, Any], declared: Collection[str]) -> dict[str, Any]:
    """Give the arguments in the envelope *item*, or *item* itself where it is none."""
    if not all(key in ENVELOPE and key not in declared for key in item):
        return item
    fields = _flat(item)
    is_named = _name_in(fields) != ""
    if not is_named and not isinstance(fields.get("arguments", fields.get("parameters")), dict):
        return item
    try:
        arguments = read_arguments(fields)
    except (NoCallError, JSONParseError):
        return item
    return item if arguments is None else arguments


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    """Put what stands in an inner ``tool`` or ``function`` beside what stands around it."""
    fields = dict(item)
    for wrapper in WRAPPERS:
        if isinstance(fields.get(wrapper), dict):
            fields |= fields.pop(wrapper)
    return fields


def _name_in(fields: dict[str, Any]) -> str:
    return next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), "")
