"""The steps through a JSON text, and the tables that make a grammar of them.

A token without a closing mark is complete only when something else follows, so numbers and words
wait as parts until then. A literal of strict JSON ends with its last letter.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.values.incremental_state import (
    Change,
    JSONDialect,
    JSONReading,
    ReaderState,
    Search,
    Step,
)
from penstock.values.json_grammar import (
    BYTE_ORDER_MARK,
    CLOSING_QUOTES,
    ESCAPES,
    LITERALS,
    MAX_DEPTH,
    NUMBER,
    RELAXED_ESCAPES,
    RELAXED_LITERALS,
    RELAXED_NUMBER,
    WHITESPACE,
    WORD,
    WORD_CHARACTERS,
    read_number,
)

# --- containers and white space -----------------------------------------------------------------

_find_after_space: Final[Search] = re.compile(rf"[^{WHITESPACE}]").search
_TOO_DEEP: Final = f"containers nested more than {MAX_DEPTH} deep"


def skip_space(_reading: JSONReading, text: str, at: int) -> int:
    """Skip white space."""
    at += 1
    if at == len(text) or text[at] not in WHITESPACE:
        return at
    found = _find_after_space(text, at)
    return len(text) if found is None else found.start()


def open_object(reading: JSONReading, text: str, at: int) -> int:
    """Enter an object."""
    if len(reading.above) >= MAX_DEPTH:
        return reading.refuse(_TOO_DEEP, text, at)
    reading.open({})
    reading.after = reading.dialect.after_member
    reading.state = reading.dialect.first_key
    return at + 1


def open_array(reading: JSONReading, text: str, at: int) -> int:
    """Enter an array."""
    if len(reading.above) >= MAX_DEPTH:
        return reading.refuse(_TOO_DEEP, text, at)
    reading.open([])
    reading.after = reading.dialect.after_item
    reading.state = reading.dialect.first_item
    return at + 1


def close(reading: JSONReading, _text: str, at: int) -> int:
    """Leave the innermost container."""
    reading.close()
    node = reading.node
    if node is None:
        state = reading.dialect.end
    elif isinstance(node, dict):
        state = reading.dialect.after_member
    else:
        state = reading.dialect.after_item
    reading.after = reading.state = state
    return at + 1


def close_after_comma(reading: JSONReading, text: str, at: int) -> int:
    """Leave the innermost container after a trailing comma."""
    reading.relaxed["a trailing comma"] = None
    return close(reading, text, at)


def to_item(reading: JSONReading, text: str, at: int) -> int:
    """Pass the comma between items, and the one space that usually follows."""
    reading.next_item()
    reading.state = reading.dialect.next_item
    at += 1
    return at + 1 if at < len(text) and text[at] == " " else at


# --- strings and keys, and the colon and comma before them --------------------------------------
#
# Plain text is read in runs. An escape is decoded once it is complete: until then it waits in
# `JSONReading.held`, at most eleven characters, and a high surrogate waits for its other half,
# since only the next characters show whether it is alone. String methods decide what is plain: on
# pieces of a few characters they take a quarter of the time of a pattern.


_CODE: Final = re.compile(r"[0-9A-Fa-f]{4}")
_CODE_BEGINS: Final = re.compile(r"[0-9A-Fa-f]{0,3}")
# The second half of a surrogate pair: JSON writes characters beyond U+FFFF as two escapes (RFC
# 8259, section 7).
_LOW: Final = re.compile(r"\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})")
_LOW_BEGINS: Final = re.compile(r"(?:\\(?:u(?:[Dd](?:[C-Fc-f][0-9A-Fa-f]?)?)?)?)?")


def open_text(reading: JSONReading, text: str, at: int) -> int:
    """Read a string that is a value."""
    reading.awaits = reading.dialect.closing[text[at]]
    at += 1
    end = text.find(reading.awaits, at)
    if end != -1:
        piece = text[at:end]
        if "\\" not in piece and piece.isprintable():
            reading.awaits = ""
            reading.put_text(piece)
            reading.state = reading.after
            return end + 1
    reading.open_text()
    if at < len(text):
        return more_text(reading, text, at)
    reading.resume = more_text
    reading.gate = reading.awaits
    return at


def open_odd_text(reading: JSONReading, text: str, at: int) -> int:
    """Read a string that is a value, in quotes that strict JSON does not have."""
    reading.relaxed[_ODD_QUOTES.get(text[at], _SMART_QUOTES)] = None
    return open_text(reading, text, at)


def open_odd_key(reading: JSONReading, text: str, at: int) -> int:
    """Read a key in quotes that strict JSON does not have."""
    reading.relaxed[_ODD_QUOTES.get(text[at], _SMART_QUOTES)] = None
    return open_key(reading, text, at)


_ODD_QUOTES: Final = {"'": "single-quoted strings"}
_SMART_QUOTES: Final = "strings in smart quotes"


def more_text(reading: JSONReading, text: str, at: int) -> int:
    """Continue with a string that is a value; all its text in this piece is one change."""
    end = text.find(reading.awaits, at)
    piece = text[at:end] if end != -1 else text[at:]
    if "\\" in piece or not piece.isprintable():
        piece, end = _take_special_text(reading, text, at)
    if piece:
        reading.parts.append(piece)
        reading.changes.append(Change(reading.path, "string", piece))
        for watch in reading.watching:
            watch.add(piece)
    if end == -1:
        reading.resume = more_text
        reading.gate = "" if reading.held else reading.awaits
        return len(text)
    reading.awaits = ""
    reading.close_text()
    reading.state = reading.after
    return end + 1


def open_key(reading: JSONReading, text: str, at: int) -> int:
    """Read a key in quotes."""
    reading.awaits = reading.dialect.closing[text[at]]
    reading.parts = []
    at += 1
    if at < len(text):
        return more_key(reading, text, at)
    reading.resume = more_key
    reading.gate = reading.awaits
    return at


def more_key(reading: JSONReading, text: str, at: int) -> int:
    """Continue with a key in quotes; it becomes visible only when it is complete."""
    end = text.find(reading.awaits, at)
    piece = text[at:end] if end != -1 else text[at:]
    if not piece.isidentifier() and ("\\" in piece or not piece.isprintable()):
        piece, end = _take_special_text(reading, text, at)
    if end == -1:
        reading.parts.append(piece)
        reading.resume = more_key
        reading.gate = "" if reading.held else reading.awaits
        return len(text)
    if reading.parts:
        reading.parts.append(piece)
        piece = "".join(reading.parts)
    reading.awaits = ""
    reading.path = reading.trail + (piece,)  # noqa: RUF005 - `JSONReading.name`, without the call
    at = end + 1
    if at < len(text) and text[at] == ":":
        return to_value(reading, text, at)
    reading.state = reading.dialect.colon
    return at


def to_value(reading: JSONReading, text: str, at: int) -> int:
    """Pass the colon, and what usually follows: one space and a quote."""
    at += 1
    if text.startswith(' "', at):
        return open_text(reading, text, at + 1)
    reading.state = reading.dialect.value
    return at + 1 if at < len(text) and text[at] == " " else at


def to_key(reading: JSONReading, text: str, at: int) -> int:
    """Pass the comma between members, and what usually follows: one space and a quote."""
    at += 1
    if text.startswith(' "', at):
        return open_key(reading, text, at + 1)
    reading.state = reading.dialect.next_key
    return at + 1 if at < len(text) and text[at] == " " else at


def _take_special_text(reading: JSONReading, text: str, at: int) -> tuple[str, int]:
    """Return the decoded text up to the closing quote, and the place of the quote or -1.

    For text with escapes, or with characters that strict JSON may refuse.
    """
    pieces = []
    find_special = reading.dialect.special[reading.awaits]
    while (found := find_special(text, at)) is not None:
        end = found.start()
        pieces.append(text[at:end])
        if text[end] == reading.awaits:
            return "".join(pieces), end
        char, at = _take_escape(reading, text, end)
        if not char:
            reading.held = text[end:]
            return "".join(pieces), -1
        pieces.append(char)
    pieces.append(text[at:])
    return "".join(pieces), -1


def _take_escape(reading: JSONReading, text: str, at: int) -> tuple[str, int]:
    """Decode the escape at *at*; an empty string means that it is incomplete."""
    if text[at] != "\\":
        reading.refuse("a raw control character in a string", text, at)
    letter = text[at + 1 : at + 2]
    char = reading.dialect.escapes.get(letter)
    if char is not None:
        return char, at + 2
    if letter == "u":
        return _take_code(reading, text, at)
    if not letter and not reading.ended:
        return "", at
    # A recovering reader keeps the backslash: `C:\dir` was meant so.
    reading.refuse("an escape that JSON does not know", text, at)
    return "\\", at + 1


def _take_code(reading: JSONReading, text: str, at: int) -> tuple[str, int]:
    r"""Decode ``\u`` and its digits; both halves of a surrogate pair make one character."""
    code = _CODE.match(text, at + 2)
    if code is None:
        if _CODE_BEGINS.fullmatch(text, at + 2) and not reading.ended:
            return "", at
        reading.refuse(r"a `\u` escape without four digits", text, at)
        return "\\", at + 1
    char = chr(int(code[0], 16))
    if not "\ud800" <= char <= "\udbff":
        return char, at + 6
    low = _LOW.match(text, at + 6)
    if low is not None:
        return chr(0x10000 + ((ord(char) - 0xD800) << 10) + int(low[1], 16) - 0xDC00), at + 12
    if _LOW_BEGINS.fullmatch(text, at + 6) and not reading.ended:
        return "", at
    return char, at + 6


_find_after_number: Final[Search] = re.compile(r"[^0-9+\-.eE]").search
_find_after_word: Final[Search] = re.compile(rf"[^{WORD_CHARACTERS}]").search
_find_line_end: Final[Search] = re.compile(r"[\n\r]").search
_COMMENT_OPENS: Final = re.compile(r"//|/\*|#")
_BLOCK_COMMENTS: Final = re.compile(r"(?:/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/)*")
_SHORT: Final = 16
_LITERAL_OF: Final = {word[0]: word for word in LITERALS}


# --- literals, numbers and words ----------------------------------------------------------------


def literal(reading: JSONReading, text: str, at: int) -> int:
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


def number(reading: JSONReading, text: str, at: int) -> int:
    """Read a strict number; only the next character shows where it ends."""
    reading.parts = []
    return more_number(reading, text, at)


def more_number(reading: JSONReading, text: str, at: int) -> int:
    """Continue with a strict number."""
    found = _find_after_number(text, at)
    if found is None:
        return _wait(reading, text, at, more_number)
    end = found.start()
    token = _join(reading, text, at, end)
    if len(token) < _SHORT and token.isdigit() and token[0] != "0":
        value = int(token)  # most numbers, without a pattern
        reading.place(value, Change(reading.path, "value", "", value))
        reading.state = reading.after
    elif NUMBER.fullmatch(token):
        _put_number(reading, token, text, end)
    else:
        reading.refuse("not a number", text, end - len(token))
    return end


def word(reading: JSONReading, text: str, at: int) -> int:
    """Read a bare word: a literal, a relaxed number, or a string that lacks its quotes."""
    reading.parts = []
    return more_word(reading, text, at)


def more_word(reading: JSONReading, text: str, at: int) -> int:
    """Continue with a bare word; it becomes visible only when complete: it may be a number."""
    found = _find_after_word(text, at)
    if found is None:
        return _wait(reading, text, at, more_word)
    end = found.start()
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
    # The rest of a comment is another step: where a value ends must not depend on how much of the
    # comment has arrived.
    if comment == "/*":
        reading.awaits = "*/"
        reading.state = IN_BLOCK_COMMENT
    elif comment:
        reading.state = IN_LINE_COMMENT
    return end


def _leave_line_comment(reading: JSONReading, text: str, at: int) -> int:
    reading.state = reading.after
    return line_comment(reading, text, at)


def _leave_block_comment(reading: JSONReading, text: str, at: int) -> int:
    reading.state = reading.after
    return block_comment(reading, text, at)


IN_LINE_COMMENT: Final = ReaderState({"": _leave_line_comment})
"""The state after a number or a literal whose token contains the start of a comment."""

IN_BLOCK_COMMENT: Final = ReaderState({"": _leave_block_comment})
"""The same, for a comment with an end mark."""


def _split_comment(token: str) -> tuple[str, str]:
    """Split the comments off a token that may be a number or literal; return the open one's mark.

    ``/*`` or ``//`` means that a comment continues after the token. If something else follows a
    comment, or no comment begins, the head is the token itself.
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


def _put_number(reading: JSONReading, token: str, text: str, end: int) -> None:
    """Store a number; a recovering reader stores one with too many digits as text."""
    try:
        value = read_number(token)
    except ValueError as exc:
        reading.refuse(str(exc), text, end - len(token))
        reading.put_text(token)
        reading.state = reading.after
    else:
        reading.place(value, Change(reading.path, "value", "", value))
        reading.state = reading.after


def _put_word(reading: JSONReading, token: str, text: str, end: int) -> None:
    """Store a bare word as a string."""
    if token.startswith(tuple(LITERALS)) or RELAXED_NUMBER.match(token):
        reading.refuse("a number or literal with something glued to it", text, end - len(token))
    if reading.node is None and reading.dialect.recovers:
        # Most likely prose or a fence before the value: skipped, so that the value is found.
        reading.refuse("a word outside the value", text, end - len(token))
        return
    reading.relaxed["unquoted strings"] = None
    reading.put_text(token)
    reading.state = reading.after


def word_key(reading: JSONReading, text: str, at: int) -> int:
    """Read a key without quotes."""
    reading.parts = []
    return more_word_key(reading, text, at)


def more_word_key(reading: JSONReading, text: str, at: int) -> int:
    """Continue with a key without quotes."""
    found = _find_after_word(text, at)
    if found is None:
        return _wait(reading, text, at, more_word_key)
    end = found.start()
    key = _join(reading, text, at, end)
    if key in RELAXED_LITERALS or RELAXED_NUMBER.match(key):
        reading.refuse("a key must be a string or a word", text, end - len(key))
    reading.relaxed["unquoted keys"] = None
    reading.name(key)
    reading.state = reading.dialect.colon
    return end


def _wait(reading: JSONReading, text: str, at: int, step: Step) -> int:
    """Keep the beginning of a token that continues in the next piece."""
    reading.parts.append(text[at:])
    reading.resume = step
    return len(text)


def _join(reading: JSONReading, text: str, at: int, end: int) -> str:
    """Return the token that ends at *end*."""
    if not reading.parts:
        return text[at:end]
    reading.parts.append(text[at:end])
    return "".join(reading.parts)


# --- comments -----------------------------------------------------------------------------------


def comment(reading: JSONReading, text: str, at: int) -> int:
    """Skip a comment; a slash alone is handled by the current state."""
    return _comment_or(reading.state[""], reading, text, at)


def comment_or_word(reading: JSONReading, text: str, at: int) -> int:
    """Skip a comment, or read the value that begins with a slash."""
    return _comment_or(word, reading, text, at)


def comment_or_word_key(reading: JSONReading, text: str, at: int) -> int:
    """Skip a comment, or read the key that begins with a slash."""
    return _comment_or(word_key, reading, text, at)


def _comment_or(other: Step, reading: JSONReading, text: str, at: int) -> int:
    if text.startswith("//", at):
        return line_comment(reading, text, at)
    if text.startswith("/*", at):
        return block_comment(reading, text, at + 2)
    if at + 1 < len(text):
        return other(reading, text, at)
    reading.held = text[at:]
    return len(text)


def line_comment(reading: JSONReading, text: str, at: int) -> int:
    """Skip a comment that ends with its line."""
    reading.relaxed["comments"] = None
    found = _find_line_end(text, at)
    if found is None:
        reading.resume = line_comment
        return len(text)
    return found.start()


def block_comment(reading: JSONReading, text: str, at: int) -> int:
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


# --- grammars -----------------------------------------------------------------------------------
#
# Strict is RFC 8259 as Python's own reader implements it. Relaxed is the grammar of `rjson.loads`.
# Recovering is relaxed and has a step for everything else, too: it adds the missing comma, colon or
# value, accepts any closing bracket for the expected one (a model that writes ``}`` for ``]``
# rarely means to close two), and skips all other text.


Steps = dict[str, Step]


def _refusing(message: str) -> Step:
    def refuse(reading: JSONReading, text: str, at: int) -> int:
        return reading.refuse(message, text, at)

    return refuse


def _special(*characters: str) -> Search:
    return re.compile(f"[{''.join(characters)}]").search


def _skip_byte_order_mark(reading: JSONReading, text: str, at: int) -> int:
    return at + 1 if reading.fed == len(text) - at else reading.state[""](reading, text, at)


_NO_VALUE: Final = {"": _refusing("a value is expected")}
_NO_KEY: Final = {"": _refusing("a key is expected")}
_NO_COLON: Final = {"": _refusing("a colon is expected")}
_NO_COMMA: Final = {"": _refusing("a comma or a closing bracket is expected")}
_NO_MORE: Final = {"": _refusing("text after the value")}

_SPACE: Final[Steps] = dict.fromkeys(WHITESPACE, skip_space)
_CONTAINERS: Final[Steps] = {"{": open_object, "[": open_array}
_CLOSE_ARRAY: Final[Steps] = {"]": close}
_CLOSE_OBJECT: Final[Steps] = {"}": close}
_COLON: Final[Steps] = {":": to_value}
_NEXT_ITEM: Final[Steps] = {",": to_item}
_NEXT_KEY: Final[Steps] = {",": to_key}

_VALUE: Final[Steps] = (
    _NO_VALUE
    | _SPACE
    | _CONTAINERS
    | {'"': open_text}
    | dict.fromkeys("-0123456789", number)
    | dict.fromkeys("tfn", literal)
)
_KEY: Final[Steps] = _NO_KEY | _SPACE | {'"': open_key}

STRICT: Final = JSONDialect(
    value=ReaderState(_VALUE),
    first_item=ReaderState(_VALUE | _CLOSE_ARRAY),
    next_item=ReaderState(_VALUE),
    first_key=ReaderState(_KEY | _CLOSE_OBJECT),
    next_key=ReaderState(_KEY),
    colon=ReaderState(_NO_COLON | _SPACE | _COLON),
    after_item=ReaderState(_NO_COMMA | _SPACE | _NEXT_ITEM | _CLOSE_ARRAY),
    after_member=ReaderState(_NO_COMMA | _SPACE | _NEXT_KEY | _CLOSE_OBJECT),
    end=ReaderState(_NO_MORE | _SPACE),
    escapes=ESCAPES,
    closing={'"': '"'},
    special={'"': _special(r"\"\\\x00-\x1f")},
)

_WORD_CHARACTERS: Final = [chr(code) for code in range(128) if WORD.match(chr(code))]
_BLANK: Final[Steps] = _SPACE | {"/": comment, "#": line_comment}
_RELAXED_VALUE: Final[Steps] = (
    _NO_VALUE
    | _CONTAINERS
    | dict.fromkeys(CLOSING_QUOTES, open_odd_text)
    | {'"': open_text}
    | dict.fromkeys(_WORD_CHARACTERS, word)
    | _BLANK
    | {"/": comment_or_word, BYTE_ORDER_MARK: _skip_byte_order_mark}
)
_RELAXED_KEY: Final[Steps] = (
    _NO_KEY
    | _CLOSE_OBJECT
    | dict.fromkeys(CLOSING_QUOTES, open_odd_key)
    | {'"': open_key}
    | dict.fromkeys(_WORD_CHARACTERS, word_key)
    | _BLANK
    | {"/": comment_or_word_key}
)

RELAXED: Final = JSONDialect(
    value=ReaderState(_RELAXED_VALUE),
    first_item=ReaderState(_RELAXED_VALUE | _CLOSE_ARRAY),
    next_item=ReaderState(_RELAXED_VALUE | {"]": close_after_comma}),
    first_key=ReaderState(_RELAXED_KEY),
    next_key=ReaderState(_RELAXED_KEY | {"}": close_after_comma}),
    colon=ReaderState(_NO_COLON | _BLANK | _COLON),
    after_item=ReaderState(_NO_COMMA | _BLANK | _NEXT_ITEM | _CLOSE_ARRAY),
    after_member=ReaderState(_NO_COMMA | _BLANK | _NEXT_KEY | _CLOSE_OBJECT),
    end=ReaderState(_NO_MORE | _BLANK),
    escapes=RELAXED_ESCAPES,
    closing=CLOSING_QUOTES,
    special={quote: _special(quote, r"\\") for quote in CLOSING_QUOTES.values()},
)


def _miss_value(reading: JSONReading, text: str, at: int) -> int:
    """Continue without a value: its key is dropped."""
    if reading.node is None:
        return reading.refuse("a value is expected", text, at)
    reading.refuse("a value is missing", text, at)
    reading.state = reading.after
    return at


def _miss_colon(reading: JSONReading, text: str, at: int) -> int:
    reading.refuse("a colon is missing", text, at)
    reading.state = reading.dialect.value
    return at


def _miss_comma(reading: JSONReading, text: str, at: int) -> int:
    reading.refuse("a comma is missing", text, at)
    if isinstance(reading.node, list):
        reading.next_item()
        reading.state = reading.dialect.next_item
    else:
        reading.state = reading.dialect.next_key
    return at


def _close_anyway(reading: JSONReading, text: str, at: int) -> int:
    reading.refuse("another closing bracket is expected", text, at)
    return close(reading, text, at)


def _skip_rest(reading: JSONReading, text: str, at: int) -> int:
    reading.refuse("text after the value", text, at)
    reading.state = _REST
    return at


def _skip_all(_reading: JSONReading, text: str, _at: int) -> int:
    return len(text)


_REST: Final = ReaderState({"": _skip_all})
_MISSING_VALUE: Final[Steps] = dict.fromkeys(",]}", _miss_value)
_MISSING_COMMA: Final[Steps] = dict.fromkeys([*CLOSING_QUOTES, *_WORD_CHARACTERS], _miss_comma)

RECOVERING: Final = JSONDialect(
    value=ReaderState(RELAXED.value | _MISSING_VALUE),
    first_item=ReaderState(RELAXED.first_item | {",": _miss_value, "}": _close_anyway}),
    next_item=ReaderState(RELAXED.next_item | {",": _miss_value, "}": _close_anyway}),
    first_key=ReaderState(RELAXED.first_key | {"]": _close_anyway}),
    next_key=ReaderState(RELAXED.next_key | {"]": _close_anyway}),
    colon=ReaderState(RELAXED.colon | {"": _miss_colon}),
    after_item=ReaderState(
        _MISSING_COMMA
        | dict.fromkeys(_CONTAINERS, _miss_comma)
        | RELAXED.after_item
        | {"}": _close_anyway}
    ),
    after_member=ReaderState(_MISSING_COMMA | RELAXED.after_member | {"]": _close_anyway}),
    end=ReaderState(RELAXED.end | {"": _skip_rest}),
    escapes=RELAXED.escapes,
    closing=RELAXED.closing,
    special=RELAXED.special,
    recovers=True,
)
