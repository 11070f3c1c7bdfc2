"""Settings as people read them: a ``penstock.toml`` without its secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.gateway.config.addresses import Address
from penstock.gateway.config.problems import Place
from penstock.models.http.redaction import HIDDEN, Secret

_LONG: Final = 100_000


def describe(settings: Struct) -> str:
    """Write *settings* as TOML; a secret that is set is shown as ``***``, what is not set not."""
    return "\n\n".join("\n".join(lines) for lines in _tables(settings, Place())) + "\n"


def _tables(value: Any, place: Place) -> Iterator[list[str]]:
    """Give each table: its head and its values, then those of the tables in it."""
    items = _items(value)
    lines = [f"{Place((name,))} = {text_of(one)}" for name, one in items if not _is_table(one)]
    if lines or isinstance(value, Struct):  # An entry without any value is one all the same.
        yield [f"[{place}]", *lines] if place.path else lines
    for name, one in items:
        if _is_table(one):
            yield from _tables(one, place.child(name))


def _items(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [*value.items()]
    found = [(name, getattr(value, name)) for name in value.__struct_fields__]
    return [(name, one) for name, one in found if is_set(one)]


def is_set(value: object) -> bool:
    """Tell whether *value* says something: no text, no address and no key at all say nothing."""
    return bool(value) or isinstance(value, (bool, int, float, Struct))


def _is_table(value: object) -> bool:
    return isinstance(value, (dict, Struct))


def number_of(value: float) -> str:
    """Write a number as TOML does: a long one in groups of three digits."""
    if not float(value).is_integer():
        return str(value)  # also `inf`, which TOML writes the same way
    return f"{int(value):_}" if value >= _LONG else f"{int(value)}"


def text_of(value: Any) -> str:
    """Write one value as TOML does."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return number_of(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, Secret):
        return f'"{HIDDEN}"'
    if isinstance(value, (Address, Path)):
        return text_of(str(value))
    return _json.encode(str(value)).decode().replace("\x7f", "\\u007f")
