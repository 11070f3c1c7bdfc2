"""What a text means once it is known which type is wanted: a number, a boolean, an object, a list.

Every reader returns `UNREAD` for a text that does not mean such a value; then the text stays. What
JSON cannot write (``1e999``, integers of more digits than Python converts) is left as text too.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock import _json
from penstock.errors import PenstockError
from penstock.values import rjson
from penstock.values.coercion.entities import decode_entities
from penstock.values.grammar import MAX_DIGITS

UNREAD: Final = object()
"""The text does not mean a value of the wanted type."""

_NUMBER: Final = re.compile(r"(-?[0-9]+)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_BOOLEANS: Final = {"true": True, "false": False}
_EXACT: Final = 2**53
"""Up to here a float holds every whole number, so one that is whole needs no point."""

_TAG: Final = re.compile(r"\s*<([A-Za-z_][A-Za-z0-9_.-]*)>([^<]*)</([A-Za-z_][A-Za-z0-9_.-]*)>\s*")


def read_number(text: str) -> Any:
    """Read a number (``-?digits``, a fraction, an exponent); leading zeros count for nothing.

    Integers are exact at any size; what is whole but written otherwise (``4.0``, ``1e3``) is an
    integer too, as far as a float is exact.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return UNREAD
    if match[2] is None and match[3] is None:
        return int(match[1]) if len(match[1].lstrip("-")) <= MAX_DIGITS else UNREAD
    number = float(match[0])
    if number in (float("inf"), float("-inf")):
        return UNREAD
    # Minus zero has no integer; the sign is worth keeping.
    return int(number) if number.is_integer() and 0 < abs(number) <= _EXACT else number


def read_boolean(text: str) -> Any:
    """Read ``true`` or ``false``, in any case; "yes" and "1" are no booleans."""
    return _BOOLEANS.get(text.strip().lower(), UNREAD)


def read_object(text: str) -> Any:
    """Read an object: JSON, relaxed JSON or a Python dict, else flat ``<key>value</key>`` tags."""
    found = UNREAD
    body = text.strip()
    if body.startswith("{"):
        found = _read_relaxed(body)
    elif body.startswith("<"):
        found = _read_tags(body)
    return found if isinstance(found, dict) else UNREAD


def read_array(text: str) -> Any:
    """Read an array as JSON or relaxed JSON; a lone object is returned as it is."""
    body = text.strip()
    found = _read_relaxed(body) if body.startswith(("[", "{")) else UNREAD
    return found if isinstance(found, (list, dict)) else UNREAD


def split_list(text: str) -> list[str]:
    """Split a text into lines, or at commas if it is one line; trimmed, empty pieces left out."""
    body = text.strip()
    pieces = body.split("\n" if "\n" in body else ",")
    return [piece for raw in pieces if (piece := raw.strip())]


def read_freely(text: str) -> Any:
    """Read a text that no schema speaks of; only what cannot be meant otherwise is converted.

    These are ``true`` and ``false``, numbers that print as the same text (so ``00531``, ``1.50``
    and ``1e3`` stay), and strict JSON objects and arrays, whose inner values are left.
    """
    body = text.strip()
    if body.startswith(("{", "[")):
        return _read_strict(body)
    number = read_number(body)
    if number is UNREAD:
        return read_boolean(body)
    return number if write_scalar(number) == body and "e" not in body else UNREAD


def write_scalar(value: object) -> Any:
    """Write a number or a boolean as JSON would; anything else is `UNREAD`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    try:
        if isinstance(value, int):
            return str(int(value))
        return _json.encode_strict(value).decode() if isinstance(value, float) else UNREAD
    except (PenstockError, ValueError):  # NaN, infinity, more digits than Python converts
        return UNREAD


def _read_strict(text: str) -> Any:
    try:
        return _writable(_json.decode(text))
    except PenstockError:
        return UNREAD


def _read_relaxed(text: str) -> Any:
    try:
        return _writable(rjson.loads(text, duplicates="last"))
    except PenstockError:
        return UNREAD


def _writable(value: Any) -> Any:
    """Return *value* if JSON can write it, which NaN and infinity it cannot."""
    _json.encode_strict(value)
    return value


def _read_tags(text: str) -> Any:
    """Read ``<key>value</key>`` after ``<key>value</key>``; a key that comes again is a list."""
    found: dict[str, Any] = {}
    at = 0
    while at < len(text):
        match = _TAG.match(text, at)
        if match is None or match[1] != match[3]:
            return UNREAD
        found.setdefault(match[1], []).append(decode_entities(match[2]))
        at = match.end()
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
