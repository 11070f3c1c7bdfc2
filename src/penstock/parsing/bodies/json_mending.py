"""Calls out of JSON that broke: mended as a whole, then read by the same shape."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from penstock.errors import JSONParseError
from penstock.parsing.bodies.base import NoCallError
from penstock.parsing.bodies.envelope import HELD_NAME, Shape, read_arguments
from penstock.parsing.bodies.rereading import without_begun
from penstock.parsing.calls import Mended
from penstock.values import rjson
from penstock.values.rjson.mending.blanks import CONTROL_TOKEN
from penstock.values.rjson.repairs import Repair

_WORDS_BEFORE: Final = re.compile(
    "|".join(re.escape(said).replace(r"\{count\}", r"\d+") for said in Repair.TEXT_BEFORE.value)
)
"""What `rjson.repair` says where it dropped words before a value."""

_LAST_TOKEN: Final = re.compile(rf"\s*+(?:{CONTROL_TOKEN}|</s>)\Z")
"""A token that ends the turn, or the call: elsewhere ``</s>`` is HTML."""

Check = Callable[[dict[str, Any]], None]
"""Raises `NoCallError` for an object that is no call, whatever its shape."""


def mended_calls(
    text: str, shape: Shape, check: Check | None = None, end: str = ""
) -> list[Mended]:
    """Give the calls of *shape* in *text*, mended; none where there is no call to be made of it.

    The text may hold the marker *end*.

    What is wrong with one of several calls is said of each: their text was mended as a whole. Words
    before a value tell of prose: "`<tool_call>` and then `{...}`" describes a call and makes none.
    """
    try:
        value, repairs, text = repair_body(text, end)
        if any(map(_WORDS_BEFORE.fullmatch, repairs)):
            return []
        calls = [_read_call(item, shape, repairs, check) for item in _items(value, shape)]
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

    End markers, whole or begun, and tokens behind the JSON are none of it. A string that is open
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


def _items(value: Any, shape: Shape) -> list[Any]:
    """Give what may be calls: the value, what a list has, what values in a row have."""
    if isinstance(value, dict):
        listed = next((value[key] for key in shape.lists if isinstance(value.get(key), list)), None)
        return [value] if listed is None else listed
    if isinstance(value, list):
        return [inner for item in value for inner in (item if isinstance(item, list) else [item])]
    return []


def _read_call(item: Any, shape: Shape, repairs: list[str], check: Check | None) -> Mended:
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
    return Mended(name, arguments, repairs, _first(call, shape.ids, str) or "")


def _mended_arguments(value: Any, repairs: list[str]) -> dict[str, Any]:
    """Read arguments; those inside a string may be broken too."""
    if isinstance(value, str) and value.strip():
        value, inner = rjson.repair(value, guess=False)
        repairs += inner
    return read_arguments(value)


def _unwrapped(item: Any, wrappers: frozenset[str]) -> Any:
    return (_first(item, wrappers, dict) or item) if isinstance(item, dict) else item


def _first(members: dict[str, Any], keys: frozenset[str], kind: type[Any]) -> Any:
    """Give the first of *members* that has one of *keys* and is of this *kind*."""
    found = (value for key, value in members.items() if key in keys and isinstance(value, kind))
    return next(found, None)
