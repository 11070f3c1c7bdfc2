"""Huge entries made bearable: their longest strings are cut, and say so.

Everything else of an entry is written as it is, byte for byte. But a tool may give back a gigabyte,
and a record that cannot be opened any more is worth less than one that lacks the middle of that.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import msgspec

from penstock.agent.session.entries import Entry

MAX_STRING: Final = 500_000
"""How many characters a string of a huge entry keeps: more than most models can be shown."""

E = TypeVar("E", bound=Entry)


def cut_long_strings(entry: E) -> E:
    """Give *entry* with every long string cut; half a signature is none, so it is left out."""
    value = _cut(msgspec.to_builtins(entry))
    return msgspec.convert(value, type(entry))


def _cut(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _cut(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [_cut(inner) for inner in value]
    if not isinstance(value, str) or len(value) <= MAX_STRING:
        return value
    if name == "signature":
        return ""
    return f"{value[:MAX_STRING]}\n[{len(value) - MAX_STRING} characters were not written down]"
