"""Whether raw text can be the value that a model meant (law 11).

Any text between tags reads as a value, including markup of a damaged call and prose that a model
wrote between two tags. A value that shows signs of that is refused: in doubt there is no complete
call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from penstock.errors import JSONParseError
from penstock.values import rjson
from penstock.values.coercion import coerce
from penstock.values.control_tokens import TURN_ENDS, has_control_token, without_turn_end
from penstock.values.rxml.closing_tags import is_quoted
from penstock.values.schema import Schema


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


REASONING: Final = frozenset({"think", "thinking", "thought", "reasoning"})
"""Elements between the arguments of a call that are the model's reasoning."""

MIN_KEY: Final = 3
MAX_KEY: Final = 64
"""The length of a name whose misspellings are looked for."""

MAX_QUOTATION: Final = 256
"""How far before a tag the quote may be that quotes it: lines of code are shorter."""

MAX_NAMES: Final = 64
"""How many names of tags are looked for in a value: those of one call."""

_JSON_PIECE: Final = re.compile(r"""[\[{]\s*["'\[{]|["'\]}]\s*[\]},:]|["']\s*,\s*["']""")
_BRACKET: Final = re.compile(r"[\[\]{}]")
_CLOSES: Final = re.compile(r"""[)\]}]\s*\Z|,\s*["']?\w+["']?\s*[:=]""")
_MARKUP: Final = re.compile(r"""[<>{}\[\]"|]|\S\s+\S""")


def has_loose_tags(text: str, names: Collection[str]) -> bool:
    """Return whether *text* holds unmatched tags of one of *names*, in any case.

    A tag that a quote follows, with one before it on its line, is quoted, and does not count.
    Opening and closing tags must match like brackets, as they do in a file that documents the
    format.
    """
    if "<" not in text:
        return False
    is_open: list[str] = []
    for found in _tags(tuple(names)[:MAX_NAMES]).finditer(text):
        before = text[max(0, found.start() - MAX_QUOTATION) : found.start()].rpartition("\n")[2]
        if is_quoted(text, found.end()) and any(quote in before for quote in "\"'`"):
            continue
        slash, name, empty = found.groups()
        if not slash and not empty:
            is_open.append(name.lower())
        elif slash and (not is_open or is_open.pop() != name.lower()):
            return True
    return bool(is_open)


def holds_turn_end(text: str) -> bool:
    """Return whether *text* holds a token that ends a turn and that no quotes are around."""
    for token in TURN_ENDS:
        at = text.find(token)
        while at != -1:
            before = text[max(0, at - MAX_QUOTATION) : at].rpartition("\n")[2]
            end = at + len(token)
            if not (is_quoted(text, end) and any(quote in before for quote in "\"'`")):
                return True
            at = text.find(token, end)
    return False


def ends_with_loose_tag(text: str) -> bool:
    """Return whether *text*, a value without its closing tag, ends with a tag that closes nothing.

    It may be the closing tag after all: in another case, with blanks or entities in it, or that of
    another format. A tag that closes an element of the value is data, and so is an empty one.
    """
    bare = text.rstrip()
    if bare.endswith(_FENCE):
        return bare.count(_FENCE) % 2 == 1
    if bare.endswith("<") or _BEGUN_CLOSING.search(bare, max(0, len(bare) - MAX_LAST_TAG)):
        return True
    if not bare.endswith((">", "&gt;")):
        return False
    found = _LAST_TAG.search(bare, max(0, len(bare) - MAX_LAST_TAG))
    if found is None or found["empty"]:
        return False
    if not found["slash"]:
        return True
    name = re.escape(found["name"])
    tags = re.compile(rf"(?:<|&lt;)(/?){name}(?=[\s/>&])").findall(bare, 0, found.start())
    return tags.count("") <= tags.count("/")


def may_end_here(text: str, *marks: str) -> bool:
    """Return whether a string whose quote was forgotten may end with the response.

    An empty string may not, nor one that holds what ends a call, one of *marks*, a token that ends
    a turn, or the key of another argument: then the quote is missing somewhere inside, and it is
    not clear where.
    """
    if not text.strip() or any(mark in text for mark in filter(None, marks)):
        return False
    if has_control_token(text):
        return False
    return _CLOSES.search(text) is None


def fits(text: str, schema: Schema | None) -> bool:
    """Return whether *text*, read by *schema*, is a value rather than the rest of a call.

    One word is accepted for a list of one, and for a number that it is not: clients validate. Text
    that does not fit the schema, and holds pieces of JSON, markup or a sentence, is the rest of
    something else.
    """
    if schema is None or schema.free or "string" in schema.types:
        return True
    bare = text.strip()
    if has_control_token(bare):
        return False
    if bare[:1] in ("[", "{") and schema.types & {"array", "object"}:
        with suppress(JSONParseError):
            rjson.loads(bare, duplicates="last")
            return True
    if "array" in schema.types:
        is_even = all(bare.count(a) == bare.count(b) for a, b in ("[]", "{}"))
        is_broken = bare[:1] in tuple('[{"') or ('"' in bare and _BRACKET.search(bare))
        return is_even and not is_broken and _JSON_PIECE.search(bare) is None
    is_read = not isinstance(coerce(bare, schema, typed=True), str)
    return is_read or _MARKUP.search(bare) is None


def misspell(word: str) -> Iterator[str]:
    """Yield *word* with one character missing, doubled, or swapped with the next one."""
    for at, char in enumerate(word):
        yield word[:at] + word[at + 1 :]
        yield word[:at] + char + word[at:]
        if at + 1 < len(word):
            yield word[:at] + word[at + 1] + char + word[at + 2 :]


_FENCE: Final = "```"
MAX_LAST_TAG: Final = 256
"""The maximum length of a tag at the end of a value."""

_LAST_TAG: Final = re.compile(
    r"(?:<|&lt;)\s*+(?P<slash>/?)\s*+(?P<name>[A-Za-z|\uff5c][\w:.|\uff5c-]*+)"
    r"(?P<rest>[^<>]*?)(?P<empty>/?)\s*+(?:>|&gt;)\Z"
)
_BEGUN_CLOSING: Final = re.compile(r"</\w{0,64}+[\s\"'\])}]{0,16}+\Z")
_HAS_WORD: Final = re.compile(r"\w")
_DIGIT: Final = re.compile(r"\d")
_NO_KEY: Final = re.compile(r'[\n{}\[\]<>"|]|[.:!?]\s')


def is_misspelled(key: str, schema: Schema | None, given: Collection[str] = ()) -> bool:
    """Return whether *key* is not a parameter of *schema*, but was meant to be one.

    It is one of them with a wrong character, or has markup or words in it. Beside a parameter that
    was *given*, a key with another letter is another word: ``mode`` and ``more``.
    """
    if schema is None or not schema.properties or key in schema.properties:
        return False
    if _NO_KEY.search(key.strip()) or not _HAS_WORD.search(key):
        return True
    words = key.split()
    if len(words) > 1 and any(word in schema.properties for word in words):
        return True
    if any(key.casefold() == name.casefold() for name in schema.properties):
        return True
    if not MIN_KEY <= len(key) <= MAX_KEY or not key.isascii() or _DIGIT.search(key):
        return False
    return any(_is_near(key, name, may_replace=name not in given) for name in schema.properties)


def _is_near(key: str, name: str, *, may_replace: bool) -> bool:
    """Return whether *key* is twice *name*, or has one character too many, too few or wrong.

    Unless it *may_replace* one, a wrong character is one of two that are swapped.
    """
    if key == name + name:
        return True
    if abs(len(name) - len(key)) > 1:
        return False
    same = 0
    while same < min(len(key), len(name)) and key[same] == name[same]:
        same += 1
    rest, other = key[same:], name[same:]
    if len(rest) == len(other):
        is_replaced = rest[1:] == other[1:] and may_replace
        return is_replaced or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
    return rest[1:] == other if len(rest) > len(other) else rest == other[1:]


@lru_cache(maxsize=256)
def _tags(names: tuple[str, ...]) -> re.Pattern[str]:
    either = "|".join(map(re.escape, names))
    return re.compile(rf"(?i)<(/ ?)?({either})(?=[\s/>])(?(1)\s*|[^<>]*?(/)?)>")
