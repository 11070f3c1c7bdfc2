"""Whether raw text can be the value that a model meant (law 11).

A value between tags is raw text, so whatever stands there reads as a value: also the markup of a
damaged call, and prose that a model wrote between two tags. A value is refused where it shows signs
of that. In doubt there is not a complete call.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.values import rjson
from penstock.values.coercion import coerce
from penstock.values.rxml.closing import is_quoted
from penstock.values.schema import Schema

# Tokens that end a turn, where they appear inside or after a call.


TURN_ENDS: Final = (
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<｜end▁of▁sentence｜>",  # noqa: RUF001 - the token is spelled so
    "<|end_of_text|>",
    "<|observation|>",
    "<|user|>",
)
"""Tokens that end a turn: what follows is as good as nothing."""

LAST_TURN_END: Final = "</s>"
"""Another one, but only where it is the last thing of all: elsewhere it is HTML."""


def without_turn_end(text: str) -> str:
    """Return *text* without the tokens that end the turn, if it ends with any."""
    bare = text.rstrip()
    while (token := next(filter(bare.endswith, (*TURN_ENDS, LAST_TURN_END)), "")) != "":
        text = bare.removesuffix(token)
        bare = text.rstrip()
    return text


def without_turn_end_in(value: Any) -> Any:
    """Return *value* without the token that ends the turn in the string that ends it."""
    if isinstance(value, str):
        return without_turn_end(value)
    if isinstance(value, list) and value:
        return [*value[:-1], without_turn_end_in(value[-1])]
    if isinstance(value, dict) and value:
        key = list(value)[-1]
        return {**value, key: without_turn_end_in(value[key])}
    return value


MAX_NAMES: Final = 64
"""How many names of tags are looked for in a value: those of one call."""

_JSON_PIECE: Final = re.compile(r"""[\[{]\s*["'\[{]|["'\]}]\s*[\]},:]|["']\s*,\s*["']""")
_CLOSES: Final = re.compile(r"""[)\]}]\s*\Z|,\s*["']?\w+["']?\s*[:=]""")
_MARKUP: Final = re.compile(r"""[<>{}\[\]"|]|\S\s+\S""")


def has_loose_tags(text: str, names: Collection[str]) -> bool:
    """Return whether *text* holds unmatched tags of one of *names*, in any case.

    A tag that a quote follows is quoted, and counts for nothing. Opening and closing tags have to
    match like brackets, as they do in a file that documents the format.
    """
    if "<" not in text:
        return False
    is_open: list[str] = []
    for found in _tags(tuple(names)[:MAX_NAMES]).finditer(text):
        if is_quoted(text, found.end()):
            continue
        slash, name, empty = found.groups()
        if not slash and not empty:
            is_open.append(name.lower())
        elif slash and (not is_open or is_open.pop() != name.lower()):
            return True
    return bool(is_open)


def last_text(value: object) -> str | None:
    """Return the string that ends *value*, if one does."""
    while isinstance(value, dict | list) and value:
        value = list(value.values())[-1] if isinstance(value, dict) else value[-1]
    return value if isinstance(value, str) else None


def may_end_here(text: str, *marks: str) -> bool:
    """Return whether a string whose quote was forgotten may end with the response.

    Not if nothing of it has come, and not if it holds what ends a call, one of *marks*, or the key
    of another argument: then the quote is missing somewhere inside, and it is not clear where.
    """
    if not text.strip() or any(mark in text for mark in filter(None, marks)):
        return False
    return _CLOSES.search(text) is None


def fits(text: str, schema: Schema | None) -> bool:
    """Return whether *text*, read by *schema*, is a value rather than what is left of a call.

    One word may stand for a list of one, and for a number that it is not: a client validates. Text
    that cannot be read as the schema wants, and holds pieces of JSON, markup or a sentence, is what
    is left of something else.
    """
    if schema is None or schema.free or "string" in schema.types:
        return True
    bare = text.strip()
    if any(token in bare for token in TURN_ENDS):
        return False
    if bare[:1] in ("[", "{") and schema.types & {"array", "object"}:
        with suppress(JSONParseError):
            rjson.loads(bare, duplicates="last")
            return True
    if "array" in schema.types:
        is_even = all(bare.count(a) == bare.count(b) for a, b in ("[]", "{}"))
        return is_even and bare[:1] not in ("[", "{") and _JSON_PIECE.search(bare) is None
    is_read = not isinstance(coerce(bare, schema, typed=True), str)
    return is_read or _MARKUP.search(bare) is None


@lru_cache(maxsize=256)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    either = "|".join(map(re.escape, names))
    return re.compile(rf"(?i)<(/ ?)?({either})(?=[\s/>])(?(1)\s*|[^<>]*?(/)?)>")
