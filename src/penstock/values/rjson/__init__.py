"""Robust JSON: `loads` reads strict and relaxed JSON, `repair` broken JSON, `dumps` writes strict.

There are three readers, each slower and more tolerant than the one before; the first that accepts
the text returns the value:

1. the standard library's, with hooks (which msgspec does not have): strict JSON;
2. `RelaxedReader`: what `loads` accepts beyond that, such as comments and unquoted keys;
3. `BrokenJSONReader`, for `repair` only: text that is structurally broken.

So strict text always has its usual meaning, and `repair` never changes a value that `loads` can
read. All three are linear in the text, none recurses on its depth, and all refuse a nesting of more
than `MAX_DEPTH` containers.
"""

from __future__ import annotations

import json
from contextlib import suppress
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from penstock import _json
from penstock.errors import JSONParseError, UsageError
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rjson.notes import Repair, Repairs, closes_text
from penstock.values.rjson.relaxed import RelaxedReader
from penstock.values.rjson.repair_values import holds_value, read_broken
from penstock.values.rjson.strict import NotStrictError, read_strict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Repaired", "closes_text", "dumps", "loads", "repair"]


Duplicates = Literal["error", "last"]

# How often `repair` decodes a string that holds JSON: models rarely write more than two levels.
_ENCODED_LEVELS: Final = 3

# Repairs that JSON in a string does not need, but a sentence with brackets in it does.
_SIGNS_OF_PROSE: Final = (
    Repair.TEXT_BEFORE,
    Repair.TEXT_AFTER,
    Repair.CONCATENATED,
    Repair.BARE_WORD,
    Repair.UNQUOTED_TEXT,
    Repair.JUNK,
)


class Repaired(NamedTuple):
    """A value that `repair` read, and the repairs that it took, in words."""

    value: Any
    repairs: list[str]


def loads(text: str | bytes, *, duplicates: Duplicates = "error") -> Any:
    """Read one JSON value, strict or relaxed.

    Strict JSON gives what the standard library gives, big integers and floats exact. ``NaN`` and
    ``Infinity`` are not JSON: as bare words they are strings. A repeated key is an error that names
    it; with ``duplicates="last"`` the last value counts, at the place of the first.

    Raises `JSONParseError`, with the position, for anything else.
    """
    if duplicates not in ("error", "last"):
        raise UsageError(f'duplicates is "error" or "last", not {duplicates!r}')
    text = _as_text(text)
    last_wins = duplicates == "last"
    with suppress(NotStrictError):
        return read_strict(text, last_wins=last_wins)
    return RelaxedReader(text, last_wins=last_wins).read()


def repair(text: str | bytes, *, guess: bool = True, closes: bool = True) -> Repaired:
    r"""Read the JSON value in *text*, repair what is broken, and return the repairs, too.

    Text that `loads` can read has the same value here. Inside strings nothing is ever lost: an
    unescaped quote, a raw newline and the backslash of ``\d`` are data. A string at the root that
    holds an object or a list is decoded; strings elsewhere stay strings.

    Without *guess*, for the arguments of a tool, a value is refused if a part of it was dropped or
    made up, or if one of its strings may end elsewhere. Without *closes*, so is a string that only
    the end of the text ends, because a marker followed it.

    Raises `JSONParseError` if the text has no JSON value, or one nested too deep.
    """
    notes = Repairs()
    text = _as_text(text)
    value = _repaired(text, notes)
    if isinstance(value, str):
        value = _decoded(value, notes, _ENCODED_LEVELS)
    is_cut = not closes and notes.has(Repair.UNCLOSED_STRING)
    if not guess and (is_cut or notes.is_guess):
        why = next(iter(notes.doubts), "a part of the value was dropped or made up")
        raise JSONParseError(
            f"the meaning of the broken JSON is not certain: {why}", text=text, position=0
        )
    return Repaired(value, notes.lines())


def dumps(value: object, *, indent: int | None = None) -> str:
    """Write a JSON value as strict JSON text: compact, or over lines with *indent* spaces.

    Characters beyond ASCII stay readable, unless the value holds a lone surrogate, which only an
    escape can express. Raises `UsageError` for a value that `loads` would not read back equal: NaN,
    infinity, a key that is not a string, other types, more than `MAX_DEPTH` nested containers.
    """
    data = _json.encode_strict(value)
    _check_writable(value)
    return data.decode() if indent is None else _indented(data, max(indent, 0))


def _as_text(text: str | bytes) -> str:
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError as exc:
        readable = text.decode(errors="replace")
        raise JSONParseError(f"not UTF-8: {exc.reason}", text=readable, position=exc.start) from exc


def _repaired(text: str, notes: Repairs) -> Any:
    with suppress(NotStrictError):
        return read_strict(text)
    with suppress(JSONParseError):
        found = Repairs()
        value = RelaxedReader(text, last_wins=True, notes=found).read()
        notes.add(found)
        return value
    return read_broken(text, notes)


def _decoded(content: str, notes: Repairs, levels: int) -> Any:
    """Return the object or list that *content* is the text of, or *content* itself.

    The content must be the value and nothing else: a sentence with brackets in it is a sentence.
    """
    if levels == 0 or not holds_value(content):
        return content
    inner = Repairs()
    try:
        value = _repaired(content, inner)
    except JSONParseError:
        return content
    if isinstance(value, str):
        value = _decoded(value, inner, levels - 1)
    if isinstance(value, str) or inner.has(*_SIGNS_OF_PROSE):
        return content
    notes.note(Repair.DOUBLE_ENCODED)
    notes.add(inner)
    return value


def _indented(data: bytes, indent: int) -> str:
    try:
        return msgspec.json.format(data, indent=indent).decode()
    except msgspec.DecodeError:  # a lone surrogate, even as an escape
        return json.dumps(json.loads(data), indent=indent)


def _check_writable(value: object) -> None:
    """Raise `UsageError` for types that only msgspec writes; the value has no cycle."""
    level = [value]
    depth = 0
    while level:
        containers = [item for item in level if not isinstance(item, (str, int, float, NoneType))]
        depth += 1
        if containers and depth > MAX_DEPTH:
            raise UsageError(f"nested deeper than {MAX_DEPTH} containers")
        level = [inner for outer in containers for inner in _contents(outer)]


def _contents(item: object) -> Iterable[object]:
    if isinstance(item, (list, tuple)):
        return item
    if not isinstance(item, dict):
        raise UsageError(f"not a JSON value: {type(item).__name__}")
    if not all(isinstance(key, str) for key in item):
        raise UsageError("the keys of a JSON object must be strings")
    return item.values()
