"""Calls as JSON values, once they are whole: which tool, which arguments.

A model that was asked for arguments alone may name the tool once more around them, in the shape of
another format: ``{"name": …, "arguments": …}``, ``{"tool": {"function": …, "parameters": …}}``, a
list of these. An object is such an envelope if it has the keys of one and no other, and none that
the tool's own schema declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.parsing.bodies.base import NoCallError
from penstock.parsing.bodies.opening_tags import known_name
from penstock.values import rjson
from penstock.values.schema import Schema

_NAMES: Final = ("name", "tool_name", "function", "tool")
_ARGUMENTS: Final = ("arguments", "parameters", "args", "input")
_LISTS: Final = ("tool_calls", "tools")
_ENVELOPE: Final = frozenset({*_NAMES, *_ARGUMENTS, *_LISTS, "id", "tool_call_id", "type"})

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


def find_calls(value: Any, name: str, schemas: Mapping[str, Schema]) -> list[Found]:
    """Give the calls that *value* is: of the tool *name*, or of those that it names itself.

    Raises `NoCallError`, or `JSONParseError`, where it is none.
    """
    items = value
    if isinstance(value, dict) and len(value) == 1:
        items = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), value)
    if not isinstance(items, list):
        items = [items]
    if not items or not all(isinstance(item, dict) for item in items):
        raise NoCallError("a list of something else than calls")
    if name:
        return [(name, _inside(item, schemas[name])) for item in items]
    return [_named(_flat(item), schemas) for item in items]


def _named(fields: dict[str, Any], schemas: Mapping[str, Schema]) -> Found:
    return find_tool(_name_in(fields), schemas), read_arguments(fields) or {}


def _inside(item: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Give the arguments in the envelope *item*, or *item* itself where it is none."""
    if not all(_may_envelop(key, schema) for key in item):
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


def _may_envelop(key: str, schema: Schema) -> bool:
    """Tell whether *key* may stand around the arguments of a tool with this *schema*."""
    return key in _ENVELOPE and key not in schema.properties


def _flat(item: dict[str, Any]) -> dict[str, Any]:
    """Put what stands in an inner ``tool`` or ``function`` beside what stands around it."""
    fields = dict(item)
    for wrapper in ("tool", "function"):
        if isinstance(fields.get(wrapper), dict):
            fields |= fields.pop(wrapper)
    return fields


def _name_in(fields: dict[str, Any]) -> str:
    return next((fields[key] for key in _NAMES if isinstance(fields.get(key), str)), "")
