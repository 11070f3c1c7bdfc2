"""The text before a marker: whether it shows that the marker is quoted, or part of a document.

Documentation, diffs, code and logs show calls as text. Models do not write a call in quotes, after
the sign of a comment or of a diff, or as indented code of Markdown.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from penstock.parsing.call_sink import CallSink, Shown
from penstock.parsing.scanner import Scanner

MAX_BEFORE: Final = 512
"""How much text before a marker is looked at: a tag or a line, and white space."""

_TAG_BEFORE: Final = re.compile(r"<(/?)[A-Za-z][^<>]{0,200}>(\s{0,256})\Z")
_TICKS: Final = re.compile("`+")

# Lines that are quoted as a whole: of a quotation, a table, a diff (``+`` and ``-``), a comment.
_QUOTED_LINE: Final = re.compile(
    r"[ \t]{0,3}(?:>[ \t]|\|[ \t])|(?:\+[ \t]*|-(?:[ \t]{2,})?)\Z"
    r"|[ \t]*(?://|\#|/\*|<!--|--(?=[ \t]))[^\w\n]{0,8}\Z"
)
# The beginning of a string: in code, such as ``text = '``, or in a sentence. White space may follow
# three quotes.
_STRING: Final = re.compile(
    r"""(?:\A|[\s=(,\[{:+]|\breturn)[A-Za-z]{0,2}(?:("{3}|'{3})\s{0,16}|(["'])|([“‘«„]))\Z"""  # noqa: RUF001
)
_INDENT: Final = 4
_INDENTED: Final = re.compile(r"\S[ \t]*\r?\n[ \t]*\r?\n(?: {4}|\t)[ \t]*\Z")
# Elements that show code or examples.
_SAMPLE: Final = re.compile(
    r"<(pre|code|samp|kbd|xmp|example|sample|snippet|textarea|blockquote|document)"
    r"(?:\s[^<>]{0,200})?>\s{0,16}\Z",
    re.IGNORECASE,
)

# The characters that the patterns above begin or end with: checking these first saves time.
_SIGNS: Final = frozenset(">|+-/#<")
_QUOTES: Final = frozenset("\"'“‘«„")  # noqa: RUF001
_BLANKS: Final = frozenset(" \t")
_MAX_QUOTE: Final = 24
_MAX_BLANK: Final = 128

_BLANK_LINE: Final = r"\n[ \t\r]*+\n"
_END_OF_LINE: Final = re.compile("\n")
_END_OF_INDENTED: Final = re.compile(r"\n(?: {0,3})[^\s]")
_CLOSING_QUOTES: Final = {"“": "[”“]", "‘": "[’‘]", "«": "»", "„": "[“”]"}  # noqa: RUF001


def find_quotation(line: str, before: str = "") -> re.Pattern[str] | None:
    """Return what ends the quotation that a marker after *line* is in; None if it is in none.

    With the text *before* the marker, quotations of several lines are found too.
    """
    ticks = _find_open_ticks(line) if "`" in line else ""
    if ticks:
        return _end_of(rf"(?<!`){ticks}(?!`)|{_BLANK_LINE}")
    if line.lstrip()[:1] in _SIGNS and _QUOTED_LINE.match(line) is not None:
        return _END_OF_LINE
    before = before or line
    last = before.rstrip()[-1:]
    if last in _QUOTES:
        string = _STRING.search(before, max(0, len(before) - _MAX_QUOTE))
        if string is not None:
            three, one, curly = string.groups()
            end = three or _CLOSING_QUOTES.get(curly, one)
            return _end_of(end if three else f"{end}|{_BLANK_LINE}")
    sample = _SAMPLE.search(before) if last == ">" else None
    if sample is not None:
        return _end_of(f"(?i)</{sample[1]}")
    if before[-1:] in _BLANKS and _INDENTED.search(before, max(0, len(before) - _MAX_BLANK)):
        return _END_OF_INDENTED
    return None


def may_span(line: str, shown: Shown) -> bool:
    """Return whether a quotation that began before *line* may contain a marker after it.

    Most lines are not indented, and what was *shown* before ends with neither quotes nor a tag.
    """
    if line and not line.isspace():
        return False
    if len(line) >= _INDENT or "\t" in line:
        return True
    pieces, size = shown
    for at in range(size - 1, -1, -1):
        piece = (pieces or [])[at]
        if piece[-1:] in _BLANKS:
            return True
        last = piece.rstrip()
        if last:
            return last[-1] in "\"'>"
    return False


@cache
def _end_of(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _find_open_ticks(line: str) -> str:
    """Return the backticks that opened inline code which is still open at the end of *line*."""
    begun = ""
    for ticks in _TICKS.findall(line):
        begun = ticks if not begun else "" if ticks == begun else begun
    return begun


def is_in_element(gap: str, shown: Shown) -> bool:
    """Return whether what follows the *gap* after the text *shown* is inside another element.

    That is so right after an opening tag, and on an indented line after any tag. The tag of a tool
    there is part of a document: models write calls on lines that are not indented.
    """
    tag = _TAG_BEFORE.search(text_before(gap, shown))
    if tag is None or tag[0].rstrip().endswith("/>"):
        return False
    newline, indent = "\n" in tag[2], tag[2].rpartition("\n")[2]
    return bool(indent) if newline else not tag[1]


def text_before(gap: str, shown: Shown) -> str:
    """Return the end of the text *shown* with the *gap* after it, up to `MAX_BEFORE`."""
    pieces, size = shown
    before = gap
    for piece in reversed((pieces or ())[:size]):
        if len(before) >= MAX_BEFORE:
            break
        before = piece[-MAX_BEFORE:] + before
    return before[-MAX_BEFORE:]


def gap_before(marker: str, scanner: Scanner) -> str:
    """Return the white space that `trim` included before *marker*, which was just passed."""
    before = scanner.read_since_call()
    return before[: len(before) - len(marker)]


def line_before(gap: str, calls: CallSink) -> str:
    """Return the text before a marker on its line, with the *gap* that is not shown yet."""
    _, newline, rest = gap.rpartition("\n")
    return rest if newline else calls.line() + rest
