"""Strict, relaxed and recovering JSON, as tables of steps.

Strict is RFC 8259 as Python's own reader takes it. Relaxed is the grammar of `rjson.loads`.
Recovering is relaxed and has a step for everything else too: it puts in the comma, colon or value
that is missing, takes any closing bracket for the one that is due (a model that writes ``}`` for
``]`` rarely means to close two), and skips what makes no sense.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.values.grammar import (
    BYTE_ORDER_MARK,
    CLOSING_QUOTES,
    ESCAPES,
    RELAXED_ESCAPES,
    WHITESPACE,
    WORD,
)
from penstock.values.incremental import reading as steps
from penstock.values.incremental import strings, words
from penstock.values.incremental.reading import Dialect, Reading, Search, State, Step

Steps = dict[str, Step]


def _refusing(message: str) -> Step:
    def refuse(reading: Reading, text: str, at: int) -> int:
        return reading.refuse(message, text, at)

    return refuse


def _special(*characters: str) -> Search:
    return re.compile(f"[{''.join(characters)}]").search


def _skip_byte_order_mark(reading: Reading, text: str, at: int) -> int:
    return at + 1 if reading.fed == len(text) - at else reading.state[""](reading, text, at)


_NO_VALUE: Final = {"": _refusing("a value is expected")}
_NO_KEY: Final = {"": _refusing("a key is expected")}
_NO_COLON: Final = {"": _refusing("a colon is expected")}
_NO_COMMA: Final = {"": _refusing("a comma or a closing bracket is expected")}
_NO_MORE: Final = {"": _refusing("text after the value")}

_SPACE: Final[Steps] = dict.fromkeys(WHITESPACE, steps.skip_space)
_CONTAINERS: Final[Steps] = {"{": steps.open_object, "[": steps.open_array}
_CLOSE_ARRAY: Final[Steps] = {"]": steps.close}
_CLOSE_OBJECT: Final[Steps] = {"}": steps.close}
_COLON: Final[Steps] = {":": strings.to_value}
_NEXT_ITEM: Final[Steps] = {",": steps.to_item}
_NEXT_KEY: Final[Steps] = {",": strings.to_key}

# --- strict -------------------------------------------------------------------

_VALUE: Final[Steps] = (
    _NO_VALUE
    | _SPACE
    | _CONTAINERS
    | {'"': strings.open_text}
    | dict.fromkeys("-0123456789", words.number)
    | dict.fromkeys("tfn", words.literal)
)
_KEY: Final[Steps] = _NO_KEY | _SPACE | {'"': strings.open_key}

STRICT: Final = Dialect(
    value=State(_VALUE),
    first_item=State(_VALUE | _CLOSE_ARRAY),
    next_item=State(_VALUE),
    first_key=State(_KEY | _CLOSE_OBJECT),
    next_key=State(_KEY),
    colon=State(_NO_COLON | _SPACE | _COLON),
    after_item=State(_NO_COMMA | _SPACE | _NEXT_ITEM | _CLOSE_ARRAY),
    after_member=State(_NO_COMMA | _SPACE | _NEXT_KEY | _CLOSE_OBJECT),
    end=State(_NO_MORE | _SPACE),
    escapes=ESCAPES,
    closing={'"': '"'},
    special={'"': _special(r"\"\\\x00-\x1f")},
)

# --- relaxed ------------------------------------------------------------------

_WORD_CHARACTERS: Final = [chr(code) for code in range(128) if WORD.match(chr(code))]
_BLANK: Final[Steps] = _SPACE | {"/": words.comment, "#": words.line_comment}
_RELAXED_VALUE: Final[Steps] = (
    _NO_VALUE
    | _CONTAINERS
    | dict.fromkeys(CLOSING_QUOTES, strings.open_odd_text)
    | {'"': strings.open_text}
    | dict.fromkeys(_WORD_CHARACTERS, words.word)
    | _BLANK
    | {"/": words.comment_or_word, BYTE_ORDER_MARK: _skip_byte_order_mark}
)
_RELAXED_KEY: Final[Steps] = (
    _NO_KEY
    | _CLOSE_OBJECT
    | dict.fromkeys(CLOSING_QUOTES, strings.open_odd_key)
    | {'"': strings.open_key}
    | dict.fromkeys(_WORD_CHARACTERS, words.word_key)
    | _BLANK
    | {"/": words.comment_or_word_key}
)

RELAXED: Final = Dialect(
    value=State(_RELAXED_VALUE),
    first_item=State(_RELAXED_VALUE | _CLOSE_ARRAY),
    next_item=State(_RELAXED_VALUE | {"]": steps.close_after_comma}),
    first_key=State(_RELAXED_KEY),
    next_key=State(_RELAXED_KEY | {"}": steps.close_after_comma}),
    colon=State(_NO_COLON | _BLANK | _COLON),
    after_item=State(_NO_COMMA | _BLANK | _NEXT_ITEM | _CLOSE_ARRAY),
    after_member=State(_NO_COMMA | _BLANK | _NEXT_KEY | _CLOSE_OBJECT),
    end=State(_NO_MORE | _BLANK),
    escapes=RELAXED_ESCAPES,
    closing=CLOSING_QUOTES,
    special={quote: _special(quote, r"\\") for quote in CLOSING_QUOTES.values()},
)

# --- recovering ---------------------------------------------------------------


def _miss_value(reading: Reading, text: str, at: int) -> int:
    """Do without a value: its key is dropped, and what follows goes on behind it."""
    if reading.node is None:
        return reading.refuse("a value is expected", text, at)
    reading.refuse("a value is missing", text, at)
    reading.state = reading.after
    return at


def _miss_colon(reading: Reading, text: str, at: int) -> int:
    reading.refuse("a colon is missing", text, at)
    reading.state = reading.dialect.value
    return at


def _miss_comma(reading: Reading, text: str, at: int) -> int:
    reading.refuse("a comma is missing", text, at)
    if isinstance(reading.node, list):
        reading.next_item()
        reading.state = reading.dialect.next_item
    else:
        reading.state = reading.dialect.next_key
    return at


def _close_anyway(reading: Reading, text: str, at: int) -> int:
    reading.refuse("another closing bracket is expected", text, at)
    return steps.close(reading, text, at)


def _skip_rest(reading: Reading, text: str, at: int) -> int:
    reading.refuse("text after the value", text, at)
    reading.state = _REST
    return at


def _skip_all(_reading: Reading, text: str, _at: int) -> int:
    return len(text)


_REST: Final = State({"": _skip_all})
_MISSING_VALUE: Final[Steps] = dict.fromkeys(",]}", _miss_value)
_MISSING_COMMA: Final[Steps] = dict.fromkeys([*CLOSING_QUOTES, *_WORD_CHARACTERS], _miss_comma)

RECOVERING: Final = Dialect(
    value=State(RELAXED.value | _MISSING_VALUE),
    first_item=State(RELAXED.first_item | {",": _miss_value, "}": _close_anyway}),
    next_item=State(RELAXED.next_item | {",": _miss_value, "}": _close_anyway}),
    first_key=State(RELAXED.first_key | {"]": _close_anyway}),
    next_key=State(RELAXED.next_key | {"]": _close_anyway}),
    colon=State(RELAXED.colon | {"": _miss_colon}),
    after_item=State(
        _MISSING_COMMA
        | dict.fromkeys(_CONTAINERS, _miss_comma)
        | RELAXED.after_item
        | {"}": _close_anyway}
    ),
    after_member=State(_MISSING_COMMA | RELAXED.after_member | {"]": _close_anyway}),
    end=State(RELAXED.end | {"": _skip_rest}),
    escapes=RELAXED.escapes,
    closing=RELAXED.closing,
    special=RELAXED.special,
    recovers=True,
)
