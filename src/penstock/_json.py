"""The only module that encodes and decodes JSON: with msgspec, or with the standard library.

msgspec is about six times faster, but differs from the standard library in three places:

* it refuses lone surrogates, which models do stream (half an emoji); here they are written as
  escapes and read back unchanged;
* it silently writes NaN and infinity as ``null``; here they are written as ``NaN`` and
  ``Infinity``, which only this module and Python read. For other readers, `encode_wire` writes null
  and `encode_strict` refuses them;
* it refuses ``1e999`` and, as Python itself does, integers of more than 4,300 digits; the first is
  infinity here, the second an error in both directions.

The maximum depth of a value depends on the version of Python; here it is always `MAX_DEPTH`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, Literal

import msgspec

from penstock.errors import JSONParseError, UsageError

JSON = dict[str, Any] | list[Any] | str | int | float | bool | None
"""A JSON value in Python."""

MAX_DEPTH: Final = 512
"""How deep containers may nest: far deeper than any real value, within Python's recursion limit."""

_LONE: Final = re.compile(rb"(\\\\|\\ud[89ab]..\\ud[c-f]..)|\\ud[89a-f]..")
_NO_NUMBER: Final = re.compile(rb'("[^"\\]*+(?:\\.[^"\\]*+)*")|NaN|-?Infinity')
_NULL: Final = re.compile(rb"(?:\A|[:,\[])null")
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
    # NaN is written as `null`, so a search in the bytes clears most values; `find` takes half the
    # time of `in`. Schemas have the string "null" often and the value hardly ever.
    may_hold_null = data.find(b"null") >= 0 and _NULL.search(data) is not None
    if may_hold_null and _has_unwritable_float(msgspec.to_builtins(value)):
        return _encode_slowly(value, None)
    return data


def encode_text(text: str) -> bytes:
    """Write *text* as a JSON string for the wire; for hot paths.

    A lone surrogate becomes U+FFFD, as in `encode_wire`.
    """
    try:
        return _encoder.encode(text)
    except UnicodeEncodeError:
        return encode_wire(text)


def encode_wire(value: object) -> bytes:
    """Write *value* for any reader: lone surrogates become U+FFFD, NaN and infinity null.

    Only surrogates are written as escapes that begin so, so a search clears most values.
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
    """Read one JSON value that means the same to every reader.

    It has no NaN, no lone surrogate, no ``1e999``, and no repeated key: of two values some readers
    take the first, others the last. Raises `JSONParseError`.
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


def decode_strict_at(text: str, at: int, limit: int) -> tuple[Any, int] | None:
    """Read the value that begins at *at* as `decode_strict` does; return it and where it ends.

    Returns None if it is not complete within *limit* characters, or not such a value. The standard
    library counts the lines before an error, so without a limit many errors would be quadratic.
    """
    window = text[at : at + limit]
    try:
        value, end = _strict_decoder.raw_decode(window)  # msgspec reads whole texts only
    except (ValueError, RecursionError):
        return None
    data = window[:end]
    if "\\u" in data or (not data.isascii() and SURROGATE.search(data) is not None):
        # An escape may be half of a surrogate pair, and a key may be spelled in two ways.
        try:
            value = decode_strict(data)
        except JSONParseError:
            return None
    elif _count_brackets(data) > MAX_DEPTH and is_deeper(value, MAX_DEPTH):
        return None
    return value, at + end


def _make_object(members: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of *members*; refuse one with a repeated key."""
    value = dict(members)
    if len(value) != len(members):
        raise ValueError("a key is repeated")
    return value


def _read_float(written: str) -> float:
    value = float(written)
    if not math.isfinite(value):
        raise ValueError("the number has no JSON form")
    return value


def _refuse_constant(written: str) -> float:
    raise ValueError(f"{written} has no JSON form")


_strict_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_make_object, parse_float=_read_float, parse_constant=_refuse_constant
)


def decode_as(data: bytes | str, type_: Any) -> Any:
    """Read one JSON value as *type_* (a Struct or a union of them)."""
    try:
        return msgspec.json.decode(data, type=type_)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _decode_slowly(data)
    try:
        return msgspec.convert(value, type_)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as exc:
        # msgspec cannot compare a lone surrogate with a tag or a literal.
        raise JSONParseError(f"unexpected JSON: {exc}") from exc


def is_finite(value: object) -> bool:
    """Return whether *value* holds neither NaN nor infinity, which JSON cannot express."""
    return not _has_unwritable_float(value)


def may_hold_more(data: bytes | str, values: int) -> bool:
    """Return whether the JSON text *data* may hold more than so many *values*.

    Commas and brackets are counted, also those inside strings. Decoding creates an object for each
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
    """Count the opening brackets, also in strings: a text with few of them is not deep."""
    if isinstance(data, str):
        return data.count("[") + data.count("{")
    return data.count(b"[") + data.count(b"{")


def _count_colons(data: bytes | str) -> int:
    """Count the ends of keys, and strings that contain ``":`` with them."""
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
                raise JSONParseError(f"the key `{key}` is repeated")
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


# --- surrogates ---------------------------------------------------------------------------------
#
# Models do stream halves of surrogate pairs (half an emoji), and no encoding can represent one.

SURROGATE: Final = re.compile("[\ud800-\udfff]")
_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def join_surrogates(text: str, *, lone: Literal["keep", "ignore", "replace"] = "keep") -> str:
    """Join the halves of surrogate pairs in *text*; keep, drop or replace lone ones by U+FFFD."""
    if text.isascii() or SURROGATE.search(text) is None:
        return text
    if lone == "keep":
        return _PAIR.sub(lambda pair: join_surrogates(pair[0], lone="ignore"), text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", lone)


def escape_surrogates(written: str) -> str:
    """Return a piece of JSON text with lone surrogates as escapes, so that it can be encoded."""
    if written.isascii():
        return written
    return SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def without_lone_surrogates(value: dict[str, Any]) -> dict[str, Any]:
    """Return *value* with surrogate pairs joined and lone ones dropped, at any depth.

    Only surrogates are written as escapes in its JSON, so a search clears most values.
    """
    data = encode(value)
    if data.find(b"\\ud") < 0:
        return value
    cleaned: dict[str, Any] = decode(_LONE.sub(lambda match: match[1] or b"", data))
    return cleaned
