"""The one JSON seam: msgspec where it agrees with Python, the standard library where it refuses.

msgspec is some six times faster but differs in three places, and all three are settled here:

* it refuses lone surrogates, which models do stream (half an emoji); they are written as escapes
  and read back as they were;
* it writes NaN and infinity as ``null`` without a word; here they survive as ``NaN`` and
  ``Infinity``, which only this module and Python read. Where the text goes to a stranger,
  `encode_wire` writes null and `encode_strict` refuses them;
* it refuses ``1e999`` and, as Python itself does, integers of more than 4,300 digits; the first is
  infinity here, the second an error in both directions.

How deep a value may nest depends on the version of Python; here it is `MAX_DEPTH` in all.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

import msgspec

from penstock.errors import JSONParseError, UsageError

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None
"""A JSON value as Python holds it."""

MAX_DEPTH: Final = 512
"""How deep containers may nest: far beyond any real value, and within Python's own recursion."""

_LONE: Final = re.compile(rb"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..")
_NO_NUMBER: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*")|NaN|-?Infinity')
_LOST: Final = b"\\ufffd"
_KEY_END: Final = re.compile(rb'"[ \t\r\n]*+:')
_KEY_END_TEXT: Final = re.compile(r'"[ \t\r\n]*+:')

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


def encode(value: object) -> bytes:
    """Write *value* (JSON or a Struct) as compact JSON that `decode` reads back equal."""
    try:
        data = _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError, OverflowError) as exc:
        return _encode_slowly(value, exc)
    # A NaN always shows as `null`, so most values are cleared by a search in bytes; `find` takes
    # half the time of `in`.
    if data.find(b"null") >= 0 and _has_unwritable_float(msgspec.to_builtins(value)):
        return _encode_slowly(value, None)
    return data


def encode_text(text: str) -> bytes:
    """Write *text* as a JSON string for the wire; for hot paths, where only a surrogate is wrong.

    Half a surrogate pair is U+FFFD, as `encode_wire` has it.
    """
    try:
        return _encoder.encode(text)
    except UnicodeEncodeError:
        return encode_wire(text)


def encode_wire(value: object) -> bytes:
    """Write *value* for a stranger: half a surrogate pair is U+FFFD, NaN and infinity are null.

    msgspec has them so, or refuses them. Then halves show as escapes, as little else does: most
    values are cleared by a search.
    """
    try:
        data = _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError, ValueError, TypeError, OverflowError) as exc:
        slow = _encode_slowly(value, exc)
        data = _NO_NUMBER.sub(lambda match: match[1] or b"null", slow)
    if data.find(b"\\ud") < 0:
        return data
    return _LONE.sub(lambda match: match[1] or _LOST, data)


def encode_strict(value: object) -> bytes:
    """Write *value* as JSON that any reader accepts; refuse NaN and infinity."""
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError as exc:
        data = _encode_slowly(value, exc)
    except (RecursionError, ValueError, TypeError, OverflowError) as exc:
        raise UsageError(f"not a JSON value: {exc}") from exc
    if (b"null" in data or b"N" in data or b"I" in data) and _has_unwritable_float(
        msgspec.to_builtins(value)
    ):
        raise UsageError("NaN and infinity have no JSON form")
    return data


def decode(data: bytes | str) -> Any:
    """Read one JSON value: what the standard library accepts, up to `MAX_DEPTH`, and as it does."""
    try:
        value = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _decode_slowly(data)
    if _count_brackets(data) > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise JSONParseError(f"containers nested more than {MAX_DEPTH} deep")
    return value


def decode_strict(data: bytes | str) -> Any:
    """Read one JSON value that every reader reads alike.

    There is no NaN in it, no lone surrogate, no ``1e999``, and no object has a key twice: of two
    values some readers take the first, others the last.
    """
    try:
        value = _decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        raise JSONParseError(str(exc)) from exc
    if _count_brackets(data) > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        raise JSONParseError(f"containers nested more than {MAX_DEPTH} deep")
    if isinstance(value, (dict, list)) and _count_colons(data) != _count_keys(value):
        _refuse_repeated_keys(data)
    return value


def decode_as(data: bytes | str, type_: Any) -> Any:
    """Read one JSON value as *type_* (a Struct or a union of them)."""
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _decode_slowly(data)
    try:
        return msgspec.convert(value, type_)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        # A lone surrogate in a tag or a literal is not a word that msgspec can compare.
        raise JSONParseError(f"JSON of another shape: {exc}") from exc


def is_finite(value: object) -> bool:
    """Return whether *value* holds no NaN and no infinity, which JSON has no number for."""
    return not _has_unwritable_float(value)


def may_hold_more(data: bytes | str, values: int) -> bool:
    """Return whether the JSON text *data* may hold more than so many *values*.

    Commas and brackets are counted, those inside strings too. Reading makes an object of each
    value, and three bytes are enough for one: 15 MB of ``[],`` take seconds, of text 20 ms.
    """
    if len(data) <= values:
        return False
    if isinstance(data, str):
        return sum(map(data.count, ("[", "{", ","))) > values
    return sum(map(data.count, (b"[", b"{", b","))) > values


def is_deeper(value: object, depth: int) -> bool:
    """Return whether *value* nests more than *depth* containers."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(depth):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
    return level != []


def _count_brackets(data: bytes | str) -> int:
    """Count what may open a container: a text with few of them is not deep, and most have few."""
    if isinstance(data, str):
        return data.count("[") + data.count("{")
    return data.count(b"[") + data.count(b"{")


def _count_colons(data: bytes | str) -> int:
    """Count what may end a key: every key does, and a string that holds ``":`` shows as one too."""
    pattern = _KEY_END_TEXT if isinstance(data, str) else _KEY_END
    return len(pattern.findall(data))  # type: ignore[arg-type]


def _count_keys(value: object) -> int:
    number, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            number += len(item)
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return number


def _refuse_repeated_keys(data: bytes | str) -> None:
    def check(members: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in members:
            if key in seen:
                raise JSONParseError(f"the key `{key}` is there twice")
            seen.add(key)

    json.loads(data, object_pairs_hook=check)


def _encode_slowly(value: object, cause: Exception | None) -> bytes:
    try:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as exc:
        raise UsageError(f"not a JSON value: {exc}") from (cause or exc)


def _decode_slowly(data: bytes | str) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as exc:
        text = data if isinstance(data, str) else data.decode("utf-8", "replace")
        position = exc.pos if isinstance(exc, json.JSONDecodeError) else 0
        reason = exc.msg if isinstance(exc, json.JSONDecodeError) else str(exc)
        raise JSONParseError(reason, text=text, position=position) from exc


def _has_unwritable_float(value: object) -> bool:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, (list, tuple)):
            waiting.extend(item)
    return False


# Halves of surrogate pairs, which models do stream, and which no strict reader of JSON takes.


_LONE_SURROGATES: Final = re.compile(r"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..")


def without_lone_surrogates(value: dict[str, Any]) -> dict[str, Any]:
    """Return *value* with pairs joined and halves omitted, wherever in it they are.

    They show as escapes in its JSON, and nothing else does but for backslashes: most values are
    cleared by a search.
    """
    text = encode(value).decode()
    if "\\ud" not in text:
        return value
    cleaned: dict[str, Any] = decode(_LONE_SURROGATES.sub(lambda match: match[1] or "", text))
    return cleaned
