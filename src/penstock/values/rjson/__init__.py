"""Robust JSON: `loads` what models and people write, `repair` what they break, `dumps` it strictly.

Three readers, each slower and more forgiving than the one before, and the first that accepts the
text gives the value:

1. the standard library's, with hooks (it has them, msgspec has not): strict JSON;
2. `RelaxedReader`: what `loads` takes beyond that, such as comments and unquoted keys;
3. the mender, for `repair` alone: what is structurally broken.

So strict text always means what it means everywhere else, and `repair` never changes a value that
`loads` can read. All three are linear in the text, none recurses on its depth, and a nesting of
more than `MAX_DEPTH` containers is refused by all.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from penstock import _json
from penstock.errors import JSONParseError, UsageError
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rjson.notes import Repair, Repairs, closes_text
from penstock.values.rjson.relaxed import RelaxedReader
from penstock.values.rjson.repair_values import holds_value, mend
from penstock.values.rjson.strict import NotStrictError, read_strict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Repaired", "closes_text", "dumps", "loads", "repair"]


Duplicates = Literal["error", "last"]

_ENCODED_LEVELS: Final = 3
"""How often `repair` decodes a string that holds JSON: two levels are seen, more hardly ever."""

_SIGNS_OF_PROSE: Final = (
    Repair.TEXT_BEFORE,
    Repair.TEXT_AFTER,
    Repair.CONCATENATED,
    Repair.BARE_WORD,
    Repair.UNQUOTED_TEXT,
    Repair.JUNK,
)
"""What a string that holds JSON does not need; a sentence with brackets in it does."""


class Repaired(NamedTuple):
    """A value that `repair` read, and what it did to read it, in words."""

    value: Any
    repairs: list[str]


def loads(text: str | bytes, *, duplicates: Duplicates = "error") -> Any:
    """Read one JSON value, strict or relaxed.

    Strict JSON gives what the standard library gives, big integers and floats exact. ``NaN`` and
    ``Infinity`` are no JSON: as bare words they are strings. A repeated key is an error that names
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
    r"""Read the JSON value in *text*, repairing what is broken, and say what was repaired.

    Text that `loads` can read gives the value that it gives there. Inside strings nothing is ever
    lost: an unescaped quote, a raw newline and the backslash of ``\d`` are data. A string at the
    root that holds an object or a list is decoded; strings elsewhere stay strings.

    Without *guess* a value is refused of which a part was dropped or made up, or a string of which
    may end elsewhere: what a tool is to be called with. Without *closes* that holds for a string,
    too, that only the end of the text ends: something else stood there.

    Raises `JSONParseError` where there is no JSON value at all, or one nested too deep.
    """
    notes = Repairs()
    text = _as_text(text)
    value = _repaired(text, notes)
    if isinstance(value, str):
        value = _decoded(value, notes, _ENCODED_LEVELS)
    is_cut = not closes and notes.has(Repair.UNCLOSED_STRING)
    if not guess and (is_cut or notes.is_guess):
        why = next(iter(notes.doubts), "a part of it was dropped or made up")
        raise JSONParseError(f"what was meant is not certain: {why}", text=text, position=0)
    return Repaired(value, notes.lines())


def dumps(value: object, *, indent: int | None = None) -> str:
    """Write a JSON value as strict JSON text: compact, or over lines with *indent* spaces.

    Characters beyond ASCII stay readable (but where the value holds a lone surrogate, which only
    an escape can write). What `loads` would not read back equal is refused with `UsageError`: NaN,
    infinity, a key that is not a string, other types, more than `MAX_DEPTH` nested containers.
    """
    data = _json.encode_strict(value)
    _check_writable(value)
    return data.decode() if indent is None else _indented(data, max(indent, 0))


# --- parts of the public three -----------------------------------------------------------------


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
    return mend(text, notes)


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
    """Refuse what msgspec writes in a form of its own. It was written, so it has no cycle."""
    level = [value]
    depth = 0
    while level:
        containers = [item for item in level if not _is_scalar(item)]
        depth += 1
        if containers and depth > MAX_DEPTH:
            raise UsageError(f"nested deeper than {MAX_DEPTH} containers")
        level = [inner for outer in containers for inner in _contents(outer)]


def _is_scalar(item: object) -> bool:
    return item is None or isinstance(item, (str, int, float))


def _contents(item: object) -> Iterable[object]:
    if isinstance(item, (list, tuple)):
        return item
    if not isinstance(item, dict):
        raise UsageError(f"not a JSON value: {type(item).__name__}")
    if not all(isinstance(key, str) for key in item):
        raise UsageError("a key of a JSON object is a string")
    return item.values()
