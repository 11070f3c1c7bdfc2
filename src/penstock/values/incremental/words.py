"""The steps through literals, numbers, bare words and comments.

What has no closing mark is whole only when something else follows, so numbers and words wait as
parts until then. A literal of strict JSON ends with its last letter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.values.grammar import (
    LITERALS,
    NUMBER,
    RELAXED_LITERALS,
    RELAXED_NUMBER,
    WORD_CHARACTERS,
    read_number,
)
from penstock.values.incremental.draft import Change
from penstock.values.incremental.reading import State

if TYPE_CHECKING:
    from penstock.values.incremental.reading import Reading, Search, Step

_find_after_number: Final[Search] = re.compile(r"[^0-9+\-.eE]").search
_find_after_word: Final[Search] = re.compile(rf"[^{WORD_CHARACTERS}]").search
_find_line_end: Final[Search] = re.compile(r"[\n\r]").search
_COMMENT_OPENS: Final = re.compile(r"//|/\*|#")
_BLOCK_COMMENTS: Final = re.compile(r"(?:/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*")
_SHORT: Final = 16
_LITERAL_OF: Final = {word[0]: word for word in LITERALS}


# --- strict -------------------------------------------------------------------


def literal(reading: Reading, text: str, at: int) -> int:
    """Read ``true``, ``false`` or ``null``."""
    token = _LITERAL_OF[text[at]]
    if text.startswith(token, at):
        value = LITERALS[token]
        reading.place(value, Change(reading.path, "value", "", value))
        reading.state = reading.after
        return at + len(token)
    if len(text) - at < len(token) and token.startswith(text[at:]):
        reading.held = text[at:]
        return len(text)
    return reading.refuse("a value is expected", text, at)


def number(reading: Reading, text: str, at: int) -> int:
    """Read a strict number; only what follows tells where it ends."""
    found = _find_after_number(text, at)
    if found is None:
        reading.parts = [text[at:]]
        reading.resume = more_number
        return len(text)
    end = found.start()
    _put_strict_number(reading, text[at:end], text, end)
    return end


def more_number(reading: Reading, text: str, at: int) -> int:
    """Read on in a strict number."""
    found = _find_after_number(text, at)
    if found is None:
        reading.parts.append(text[at:])
        reading.resume = more_number
        return len(text)
    end = found.start()
    reading.parts.append(text[at:end])
    _put_strict_number(reading, "".join(reading.parts), text, end)
    return end


def _put_strict_number(reading: Reading, token: str, text: str, end: int) -> None:
    if len(token) < _SHORT and token.isdigit() and token[0] != "0":
        value = int(token)  # most numbers, without a pattern
        reading.place(value, Change(reading.path, "value", "", value))
        reading.state = reading.after
    elif NUMBER.fullmatch(token):
        _put_number(reading, token, text, end)
    else:
        reading.refuse("not a number", text, end - len(token))


# --- relaxed ------------------------------------------------------------------


def word(reading: Reading, text: str, at: int) -> int:
    """Read a bare word: a literal, a relaxed number, or a string that lacks its quotes."""
    reading.parts = []
    return more_word(reading, text, at)


def more_word(reading: Reading, text: str, at: int) -> int:
    """Read on in a bare word; it shows only when it is whole, for it may become a number."""
    end = _end_of(_find_after_word, text, at)
    if end == len(text):
        return _wait(reading, text, at, more_word)
    token = _join(reading, text, at, end)
    head, comment = _split_comment(token)
    if head in RELAXED_LITERALS:
        if head not in LITERALS:
            reading.relaxed["Python literals"] = None
        value = RELAXED_LITERALS[head]
        reading.place(value, Change(reading.path, "value", "", value))
        reading.state = reading.after
    elif RELAXED_NUMBER.fullmatch(head):
        if not (head.isdigit() and head[0] != "0") and not NUMBER.fullmatch(head):
            reading.relaxed["unusual numbers"] = None
        _put_number(reading, head, text, end - len(token) + len(head))
    else:
        _put_word(reading, token, text, end)
        return end
    # What is left of a comment is another step: where a value ends must not depend on how much
    # of the comment is there.
    if comment == "/*":
        reading.awaits = "*/"
        reading.state = IN_BLOCK_COMMENT
    elif comment:
        reading.state = IN_LINE_COMMENT
    return end


def _leave_line_comment(reading: Reading, text: str, at: int) -> int:
    reading.state = reading.after
    return line_comment(reading, text, at)


def _leave_block_comment(reading: Reading, text: str, at: int) -> int:
    reading.state = reading.after
    return block_comment(reading, text, at)


IN_LINE_COMMENT: Final = State({"": _leave_line_comment})
"""Behind a number or a literal whose token a comment begins in."""

IN_BLOCK_COMMENT: Final = State({"": _leave_block_comment})
"""The same, for a comment that has an end mark."""


def _split_comment(token: str) -> tuple[str, str]:
    """Split the comments off a token that may be a number or literal; tell what is still open.

    ``/*`` or ``//`` means that a comment goes on behind the token. Where something else comes
    after a comment, or no comment opens, the head is the token itself.
    """
    opens = _COMMENT_OPENS.search(token)
    if opens is None:
        return token, ""
    head = token[: opens.start()]
    blocks = _BLOCK_COMMENTS.match(token, opens.start())
    rest = blocks.end() if blocks else opens.start()
    if rest == len(token):
        return head, ""
    mark = _COMMENT_OPENS.match(token, rest)
    if mark is None:
        return token, ""
    return head, "/*" if mark[0] == "/*" else "//"


def _put_number(reading: Reading, token: str, text: str, end: int) -> None:
    """Put a number; where reading must go on, one with too many digits stays text."""
    try:
        value = read_number(token)
    except ValueError as exc:
        reading.refuse(str(exc), text, end - len(token))
        reading.put_text(token)
        reading.state = reading.after
    else:
        reading.place(value, Change(reading.path, "value", "", value))
        reading.state = reading.after


def _put_word(reading: Reading, token: str, text: str, end: int) -> None:
    """Put a bare word as the string it stands for."""
    if token.startswith(tuple(LITERALS)) or RELAXED_NUMBER.match(token):
        reading.refuse("a number or literal with something glued to it", text, end - len(token))
    if reading.node is None and reading.dialect.recovers:
        # Prose or a fence in front of the value, most likely; skipped, so that the value is found.
        reading.refuse("a word outside the value", text, end - len(token))
        return
    reading.relaxed["unquoted strings"] = None
    reading.put_text(token)
    reading.state = reading.after


def word_key(reading: Reading, text: str, at: int) -> int:
    """Read a key without quotes."""
    reading.parts = []
    return more_word_key(reading, text, at)


def more_word_key(reading: Reading, text: str, at: int) -> int:
    """Read on in a key without quotes."""
    end = _end_of(_find_after_word, text, at)
    if end == len(text):
        return _wait(reading, text, at, more_word_key)
    key = _join(reading, text, at, end)
    if key in RELAXED_LITERALS or RELAXED_NUMBER.match(key):
        reading.refuse("a key must be a string or a word", text, end - len(key))
    reading.relaxed["unquoted keys"] = None
    reading.name(key)
    reading.state = reading.dialect.colon
    return end


# --- tokens in parts ----------------------------------------------------------


def _end_of(find_after: Search, text: str, at: int) -> int:
    found = find_after(text, at)
    return len(text) if found is None else found.start()


def _wait(reading: Reading, text: str, at: int, step: Step) -> int:
    """Keep what the piece has of an open token."""
    reading.parts.append(text[at:])
    reading.resume = step
    return len(text)


def _join(reading: Reading, text: str, at: int, end: int) -> str:
    """Give the token that ends at *end*."""
    if not reading.parts:
        return text[at:end]
    reading.parts.append(text[at:end])
    return "".join(reading.parts)


# --- comments -----------------------------------------------------------------


def comment(reading: Reading, text: str, at: int) -> int:
    """Skip a comment; a slash alone is what it is in this state."""
    return _comment_or(reading.state[""], reading, text, at)


def comment_or_word(reading: Reading, text: str, at: int) -> int:
    """Skip a comment, or read the value that begins with a slash."""
    return _comment_or(word, reading, text, at)


def comment_or_word_key(reading: Reading, text: str, at: int) -> int:
    """Skip a comment, or read the key that begins with a slash."""
    return _comment_or(word_key, reading, text, at)


def _comment_or(other: Step, reading: Reading, text: str, at: int) -> int:
    if text.startswith("//", at):
        return line_comment(reading, text, at)
    if text.startswith("/*", at):
        return block_comment(reading, text, at + 2)
    if at + 1 < len(text):
        return other(reading, text, at)
    reading.held = text[at:]
    return len(text)


def line_comment(reading: Reading, text: str, at: int) -> int:
    """Skip a comment that ends with its line."""
    reading.relaxed["comments"] = None
    found = _find_line_end(text, at)
    if found is None:
        reading.resume = line_comment
        return len(text)
    return found.start()


def block_comment(reading: Reading, text: str, at: int) -> int:
    """Skip the rest of a comment that has an end mark."""
    reading.relaxed["comments"] = None
    reading.awaits = "*/"
    end = text.find("*/", at)
    if end != -1:
        reading.awaits = ""
        return end + 2
    reading.resume = block_comment
    if len(text) > at and text.endswith("*"):
        reading.held = "*"
    return len(text)
