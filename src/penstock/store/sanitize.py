"""Values fitted to their column, so that no record can be refused for what is in it.

PostgreSQL takes no NUL in text, neither database takes half a surrogate pair or an integer of more
than 64 bits, and a model or a client may send any of them. Each column has a cleaner by its type;
none of them raises. What was NUL or half a pair is U+FFFD afterwards, in both databases alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Double, LargeBinary, String

from penstock import _json
from penstock.errors import PenstockError
from penstock.store.tables import KEY, MAX_KEY

Cleaner = Callable[[Any], object]

MAX_INTEGER: Final = 2**63 - 1
"""What a column of integers holds in both databases."""


def clean_text(value: object, length: int | None = None) -> str:
    """Return *value* as text that a database takes, cut to *length* characters."""
    text = value if isinstance(value, str) else "" if value is None else str(value)
    if length is not None:
        text = text[:length]
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text if length is None else text[:length]


def clean_key(value: object) -> str:
    """Return *value* as a key: too long a one keeps its beginning and is told apart by its hash."""
    text = clean_text(value)
    if len(text) <= MAX_KEY:
        return text
    digest = sha256(text.encode()).hexdigest()
    return f"{text[: MAX_KEY - len(digest) - 1]}~{digest}"


def clean_json(value: object, empty: str) -> str:
    """Write *value* as JSON; what has no JSON form is *empty*."""
    if not value:
        return empty
    try:
        return _json.encode_wire(value).decode()
    except (PenstockError, TypeError, ValueError, RecursionError):
        return empty


def _clean_integer(value: object) -> int:
    try:
        number: int = int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return 0
    return max(-MAX_INTEGER, min(MAX_INTEGER, number))


def _clean_float(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _clean_bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b""


def _cleaner_for(column: Column[Any]) -> Cleaner:
    kind = column.type
    if column.info == KEY:
        return clean_key
    if "empty" in column.info:
        return partial(clean_json, empty=column.info["empty"])
    if isinstance(kind, Boolean):
        return bool
    if isinstance(kind, LargeBinary):
        return _clean_bytes
    if isinstance(kind, String):
        return partial(clean_text, length=kind.length)
    number = _clean_integer if isinstance(kind, BigInteger) else _clean_float
    assert isinstance(kind, BigInteger | Double)  # noqa: S101 - a new type wants a cleaner
    if column.nullable:
        return lambda value: None if value is None else number(value)
    return number


class Fields:
    """Some columns of a table, as a record with attributes of the same names fills them."""

    def __init__(self, columns: Iterable[Column[Any]]) -> None:
        self._cleaners = [(column.name, _cleaner_for(column)) for column in columns]
        self.names = [name for name, _ in self._cleaners]

    def of(self, record: object) -> dict[str, Any]:
        """Return the row that *record* makes."""
        return {name: clean(getattr(record, name)) for name, clean in self._cleaners}
