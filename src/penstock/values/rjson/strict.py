"""Strict JSON at the speed of C: whole texts, and containers in texts that are not strict.

The standard library is used, not msgspec: it has hooks for repeated keys and ``NaN``, and it can
begin in the middle of a text. Most of a broken text is not broken, so the slow readers try
`StrictShortcut` first where a container opens.
"""

from __future__ import annotations

import json
from typing import Any, Final

from penstock import _json
from penstock.values.json_grammar import MAX_DEPTH


class NotStrictError(Exception):
    """The text is not strict JSON, or has something that a slower reader reports."""


def read_strict(text: str, *, last_wins: bool = False) -> Any:
    """Return the value of *text*, as the standard library does.

    Raises `NotStrictError` for any other text, and for what this library refuses or reports:
    ``NaN`` and infinity, a repeated key (unless the last one wins), a nesting over `MAX_DEPTH`.
    """
    decoder = _last_decoder if last_wins else _unique_decoder
    try:
        value = decoder.decode(text)
    except (ValueError, RecursionError) as exc:
        raise NotStrictError from exc
    if _is_too_deep(value, text, 0, len(text), MAX_DEPTH):
        raise NotStrictError
    return value


class StrictShortcut:
    """Reads containers in *text* that are strict JSON themselves.

    A failed attempt costs the text that it read, so there is a budget of characters for these,
    linear in the text. When it is spent, the slow reader continues alone.
    """

    BUDGET: Final = 8
    """How often, on average, a character of the text may be read by a failed attempt."""

    ERROR_COST: Final = 16
    """An error counts the lines before it, which is this many times faster than reading them."""

    def __init__(self, text: str, end: int) -> None:
        self._text = text
        self._end = end
        self._budget = self.BUDGET * len(text)

    def take(self, at: int, depth: int) -> tuple[Any, int] | None:
        """Return the container at *at* and where it ends, if it is strict and fits in *depth*."""
        if self._budget <= 0:
            return None
        try:
            value, end = _unique_decoder.raw_decode(self._text, at)
        except json.JSONDecodeError as exc:
            self._budget -= exc.pos - at + exc.pos // self.ERROR_COST + 1
            return None
        except NotStrictError:
            # A repeated key or `NaN` somewhere: the slow reader finds it.
            self._budget -= len(self._text)
            return None
        except (ValueError, RecursionError):
            self._budget = 0
            return None
        if end > self._end or _is_too_deep(value, self._text, at, end, MAX_DEPTH - depth):
            return None
        return value, end


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise NotStrictError
    return members


def _refuse_constant(_name: str) -> float:
    raise NotStrictError


_unique_decoder: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_refuse_constant
)
_last_decoder: Final = json.JSONDecoder(parse_constant=_refuse_constant)


def _is_too_deep(value: Any, text: str, start: int, end: int, depth: int) -> bool:
    """Return whether *value*, read from that part of *text*, has more than *depth* levels."""
    if text.count("{", start, end) + text.count("[", start, end) <= depth:
        return False
    return _json.is_deeper(value, depth)
