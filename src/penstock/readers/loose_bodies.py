"""Bodies of calls in another form than their format has: what models print when they drift.

Inside the right markers, models write the name alone, or a name and JSON, Python, YAML or
attributes after it, an object with the keys of another format, the name as the only key of an
object, name and arguments between tags of their own, parameters whose name is between the tags
(``<parameter>path</parameter>a.txt``), or a tag for each parameter. Repair reads such a body if
nothing is left over: the tool is known, every parameter is one of the tool's and comes once, and no
value has a tag of a call in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock.errors import PenstockError
from penstock.parsing.call_shape import ANY_CALL, CALL_KEYS, parse_call
from penstock.parsing.call_sink import NoCallError, RepairedCall, read_call
from penstock.readers.python_slips import read_slips
from penstock.readers.tagged.values import read_typed
from penstock.readers.yaml_calls import YAMLCallReader
from penstock.tools import clean_name
from penstock.values import rjson, yaml
from penstock.values.schema import Schema

MAX_CALLS: Final = 64
"""How many calls one section may have."""

NOTE: Final = "read a call that was written in another form"

_LOOSE_CALL: Final = structs.replace(
    ANY_CALL,
    names=(*ANY_CALL.names, "function_name", "action"),
    arguments=(
        *ANY_CALL.arguments,
        *("tool_args", "tool_arguments", "tool_input", "tool_parameters", "action_input"),
        *("function_args", "function_arguments", "function_parameters", "params", "kwargs"),
    ),
)
"""The keys that models give a call in JSON when they mix formats up."""

_LOOSE_KEYS: Final = CALL_KEYS | {*_LOOSE_CALL.names, *_LOOSE_CALL.arguments}

_QUOTE: Final = "[\"'\u201c\u201d]?"
_NAME: Final = r"[A-Za-z_][\w.:-]{0,127}"
# The token of DSML before the name of any tag: it is dropped, and the tag is read.
_DECORATION: Final = re.compile(r"<(/?)[|\uff5c]{1,2}(?:DSML|GCML)[|\uff5c]{1,2} ?")
# `<function=write>`, `<invoke name="write">`, `<tool name=write>`: a head of any family.
_HEAD: Final = re.compile(
    rf"\s*+<(?P<tag>function|invoke|tool)(?:\s*=\s*|\s+name\s*=\s*){_QUOTE}(?P<name>{_NAME}){_QUOTE}\s*>"
)
# `write {…}`, `write(…)`, `write:{…}` or `write` alone.
_BARE_HEAD: Final = re.compile(rf"\s*+(?P<name>{_NAME}?)(?::(?=\s*+\{{)|(?=[\s({{]|\Z))")
# `<tool_name>write</tool_name><arguments>{…}</arguments>`.
_ELEMENTS: Final = re.compile(
    rf"\s*+<((?:tool_|function_)?name)>\s*+(?P<name>{_NAME})\s*+</\1>"
    r"\s*+(?:<(arguments|parameters|args|input)>(?P<body>.*)</\3>\s*+)?",
    re.DOTALL,
)
# `write path="a.txt" mode="w"`: arguments as the attributes of a tag without brackets.
_ATTRIBUTE: Final = re.compile(
    r"""\s++(?P<key>[A-Za-z_]\w{0,63})=(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)')"""
)
# `name: write`, then `arguments:` with an indented mapping.
_YAML_HEAD: Final = re.compile(r"\s*+(?:name|tool|function)\s?:\s")
# In a value these are more likely the rest of a damaged call than data (law 11).
_STRUCTURE: Final = re.compile(
    r"</?(?:parameter|function|invoke|tool_calls?|arg_key|arg_value|param)\b"
)
# Special tokens: the body is not what it seems if one is left in it.
_CONTROL: Final = re.compile(r"<\||\|>|\uff5c|</s>|<end_of_turn>|<eos>")
# `<parameter=path>` and `<param name="path">`, then the name between the tags, as in
# `<parameter>path</parameter>a.txt` or `<parameter>path=a.txt</parameter>`, then `<path>`.
_NAMED: Final = re.compile(
    rf"\s*+<param(?:eter)?(?:\s*=\s*|\s+name\s*=\s*){_QUOTE}(?P<key>{_NAME}){_QUOTE}\s*>"
)
_INSIDE: Final = re.compile(
    rf"\s*+<param(?:eter)?>\s*(?P<key>{_NAME})\s*(?P<mark></param(?:eter)?>|=)"
)
_ELEMENT: Final = re.compile(rf"\s*+<(?P<key>{_NAME})>")
_CLOSE: Final = re.compile(r"</param(?:eter)?>")
_NEXT: Final = re.compile(r"<param(?:eter)?[\s=>]")
# What is left of other tags after an object.
_CLOSING_TAG: Final = re.compile(r"</[a-z_:|]{1,48}>?")
_LONGEST_TAG: Final = 51
# A line of a YAML mapping.
_KEYED: Final = re.compile(r"[A-Za-z_][\w.-]{0,127}\s?:(?:\s|\Z)")


def read_loose(text: str, schemas: Mapping[str, Schema]) -> list[RepairedCall]:
    """Return the calls of *text*, the inside of a section; an empty list if they are not clear."""
    text = _DECORATION.sub(r"<\1", text)
    if _CONTROL.search(text):
        return []
    if text.lstrip().startswith("["):
        return _read_list(text.strip(), schemas)
    if text.lstrip().startswith("{"):
        return _read_object_calls(text, schemas)
    if not _HEAD.match(text):
        call = _read_bare(text, schemas)
        return [] if call is None else [call]
    calls: list[RepairedCall] = []
    while text.strip():
        head = _HEAD.match(text)
        if head is None or len(calls) == MAX_CALLS:
            return []
        inside, closing, text = text[head.end() :].partition(f"</{head['tag']}>")
        name = clean_name(head["name"], schemas)
        arguments = read_body(inside, name, schemas)
        if arguments is None or not (closing or inside.strip()):
            return []  # What follows the name may be arguments that the format could not read.
        calls.append(RepairedCall(name, arguments, [NOTE]))
    return calls


def _read_list(text: str, schemas: Mapping[str, Schema]) -> list[RepairedCall]:
    """Return the calls of a list: objects that another format would have, or Python."""
    try:
        found = rjson.loads(text)
    except PenstockError:
        return read_slips(text, schemas, fewest=0)[:MAX_CALLS]
    return _read_items(found, schemas)


def _read_items(found: Any, schemas: Mapping[str, Schema]) -> list[RepairedCall]:
    """Return the calls of a list of objects; none if one of them is not a call."""
    if not isinstance(found, list) or len(found) > MAX_CALLS:
        return []
    calls = [_read_members(item, schemas) for item in found if isinstance(item, dict)]
    known = [call for call in calls if call is not None]
    return known if len(known) == len(found) else []


def _read_bare(text: str, schemas: Mapping[str, Schema]) -> RepairedCall | None:
    """Return the call of *text*, which has no tag with a name."""
    if _YAML_HEAD.match(text):
        return _read_mapping(text, schemas)
    head = _ELEMENTS.fullmatch(text)
    if head is not None:
        name, body = clean_name(head["name"], schemas), (head["body"] or "{}").strip()
        found = read_object(body) if name in schemas and body.startswith("{") else None
        return None if found is None else RepairedCall(name, found, [NOTE])
    head = _BARE_HEAD.match(text)
    if head is None:
        return None
    name = clean_name(head["name"], schemas)
    arguments = read_body(text[head.end() :], name, schemas)
    return None if arguments is None else RepairedCall(name, arguments, [NOTE])


def _read_object_calls(text: str, schemas: Mapping[str, Schema]) -> list[RepairedCall]:
    """Return the calls of *text*, an object, perhaps with surplus end tags after it.

    It may hold the list of calls that OpenAI's messages have.
    """
    try:
        found = rjson.loads(_without_closing_tags(text))
    except PenstockError:
        return []
    if not isinstance(found, dict):
        return []
    if found.keys() == {"tool_calls"}:
        return _read_items(found["tool_calls"], schemas)
    call = _read_members(found, schemas)
    return [] if call is None else [call]


def _read_members(found: dict[str, Any], schemas: Mapping[str, Schema]) -> RepairedCall | None:
    """Return the call of an object as another format has it, or whose only key is a name."""
    if len(found) == 1:
        ((name, arguments),) = found.items()
        if name in schemas and isinstance(arguments, dict):
            return RepairedCall(name, arguments, [NOTE])
    try:
        call = parse_call(found, _LOOSE_CALL)
    except (NoCallError, PenstockError):
        return None
    name = clean_name(call.name, schemas)
    if name not in schemas:
        return None
    others = {key: call.fields[key] for key in call.fields if key not in _LOOSE_KEYS}
    declared = schemas[name].properties.keys()
    if call.arguments is None and others and others.keys() <= declared:
        return RepairedCall(name, others, [NOTE])  # They are next to the name.
    is_clear = call.arguments is not None and others.keys().isdisjoint(declared)
    if not is_clear or any(isinstance(value, (dict, list)) for value in others.values()):
        return None
    return RepairedCall(name, call.arguments or {}, [NOTE])


def _read_mapping(text: str, schemas: Mapping[str, Schema]) -> RepairedCall | None:
    """Return the call of a YAML mapping with a name and arguments."""
    try:
        found = yaml.loads(text)
    except PenstockError:
        return None
    if not isinstance(found, dict):
        return None
    name = next((found.pop(key) for key in ("name", "tool", "function") if key in found), None)
    keys = [key for key in ("arguments", "parameters", "input", "args") if key in found]
    arguments = found.pop(keys[0]) if keys else {}
    arguments = {} if arguments is None else arguments
    if found or not isinstance(name, str) or not isinstance(arguments, dict):
        return None
    return RepairedCall(clean_name(name, schemas), arguments, [NOTE])


def read_body(text: str, name: str, schemas: Mapping[str, Schema]) -> dict[str, Any] | None:
    """Return the arguments of the tool *name* in *text*; None if they are not clear."""
    schema, bare = schemas.get(name), text.strip()
    if schema is None:
        return None
    if not bare:
        return None if schema.required else {}
    if bare.startswith("{"):
        return read_object(bare)
    if bare.startswith("("):
        inside = bare[1:-1].strip()
        if inside.startswith("{") and bare.endswith(")"):
            return read_object(inside)
        calls = read_slips(f"{name}{bare}", schemas, fewest=0)
        return calls[0].arguments if len(calls) == 1 else None
    if bare.startswith("<"):
        return _read_tags(text, schema)
    if text[:1].isspace() and _ATTRIBUTE.match(text):
        return _read_attributes(text, schema)
    if _KEYED.match(bare) and not _STRUCTURE.search(bare):
        body = text.strip("\n")
        call = read_call(YAMLCallReader(name), f"\n{body}\n</{name}>", schemas)
        known = call is not None and call.arguments.keys() <= schema.properties.keys()
        return call.arguments if call is not None and known else None
    return None


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that *text* is; None if it is not one."""
    try:
        found = rjson.loads(text, duplicates="last")
    except PenstockError:
        return None
    return found if isinstance(found, dict) else None


def _read_attributes(text: str, schema: Schema) -> dict[str, Any] | None:
    """Return the arguments in *text*, a row of attributes."""
    found: dict[str, Any] = {}
    at, end = 0, len(text.rstrip())
    while at < end:
        pair = _ATTRIBUTE.match(text, at)
        key = pair["key"] if pair else ""
        if pair is None or key in found or key not in schema.properties:
            return None
        value = pair["single"] if pair["double"] is None else pair["double"]
        try:
            found[key] = read_typed(value, schema.properties[key])
        except NoCallError:
            return None
        at = pair.end()
    return found


def _read_tags(text: str, schema: Schema) -> dict[str, Any] | None:
    """Return the arguments in *text*, a row of tags."""
    found: dict[str, Any] = {}
    while text.strip():
        taken = _take_parameter(text, schema)
        if taken is None:
            return None
        key, value, text = taken
        if key in found or key not in schema.properties or _STRUCTURE.search(value):
            return None
        try:
            found[key] = read_typed(value, schema.properties[key])
        except NoCallError:
            return None
    return found


def _take_parameter(text: str, schema: Schema) -> tuple[str, str, str] | None:
    """Return the key and the value of the parameter that *text* begins with, and the rest."""
    inside = _INSIDE.match(text)
    if inside is not None and inside["mark"] != "=":
        # The value has no tag of its own: the next parameter ends it, or the call.
        following = _NEXT.search(text, inside.end())
        end = len(text) if following is None else following.start()
        return inside["key"], text[inside.end() : end].strip(), text[end:]
    named = inside or _NAMED.match(text)
    if named is not None:
        close = _CLOSE.search(text, named.end())
        if close is None:
            return None
        return named["key"], _without_edges(text[named.end() : close.start()]), text[close.end() :]
    element = _ELEMENT.match(text)
    if element is None or element["key"] not in schema.properties:
        return None
    value, closing, rest = text[element.end() :].partition(f"</{element['key']}>")
    return (element["key"], _without_edges(value), rest) if closing else None


def _without_edges(value: str) -> str:
    """Return *value* without the newline at either end that separates it from its tags."""
    return value.removeprefix("\n").removesuffix("\n")


def _without_closing_tags(text: str) -> str:
    """Return *text* without the closing tags at its end, and without white space around it."""
    text = text.strip()
    end = len(text)
    while True:
        at = text.rfind("</", max(0, end - _LONGEST_TAG), end)
        if at == -1 or _CLOSING_TAG.fullmatch(text, at, end) is None:
            return text[:end]
        end = at
        while end and text[end - 1].isspace():
            end -= 1
