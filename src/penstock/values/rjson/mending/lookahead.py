r"""Tells a quote that ends a string from one that the model forgot to escape.

What follows decides, white space and comments aside. A quote ends a string where the grammar can go
on behind it:

* a key: before a colon, or before anything that is not glued to the quote;
* a member's value: before a comma with a key and its colon behind it (before a semicolon the key
  must be quoted: ``content: "x"; color: red`` is code), before a key and its colon (the comma is
  missing), before closing brackets;
* an element of a list: before a comma with a value behind it, before another quoted element, before
  closing brackets, or before a colon and a value (the list was meant to be an object);
* anything: before the end of the text, a code fence, or a closing tag that ends the text.

Behind closing brackets the text must go on in the same way. If they close the root, a word or quote
glued to them speaks against it: ``log("}")`` is code. So does, in a string that had inner quotes
already, more text behind them whose own end is a quote and closing brackets.

A question looks at most `LOOK_AHEAD` characters ahead, so a text of nothing but quotes still costs
linear time. Where the window ends before the answer, the quote is structural: strict JSON, cut
anywhere, is never misread.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from penstock.values.rjson.mending.blanks import CONTROL_TOKEN, SENTENCE

LOOK_AHEAD: Final = 256
"""How far one question looks: a key of any sane length with the white space around it."""


class Role(Enum):
    """What the string is that a quote may end."""

    KEY = "key"
    MEMBER = "member"
    ELEMENT = "element"
    ROOT = "root"


QUOTES: Final = "\"'`\u201c\u2018\u201e\u201a"
"""What may open a string in broken JSON."""

_PAIRS: Final = ('""', "''", "``", "\u201c\u201d", "\u2018\u2019", "\u201e\u201c", "\u201a\u2018")

# A comment that nothing ends is one only if it holds no quote: that may be the string's own.
_GAP: Final = (
    r"(?:\s++|(?://|\#)(?:[^\n]*+\n|[^\n\"]*+\Z)|/\*[^*]*+(?:\*(?!/)[^*]*+)*\*/"
    rf"|{CONTROL_TOKEN})*"
)
_QUOTED: Final = "(?:" + "|".join(rf"{a}(?:[^{b}\\\n]++|\\.)*{b}" for a, b in _PAIRS) + ")"
_CUT_QUOTED: Final = "(?:" + "|".join(rf"{a}(?:[^{b}\\\n]++|\\.)*\\?\Z" for a, b in _PAIRS) + ")"
_WORD: Final = r"[\w$.\-/]++"

_KEY: Final = rf"(?:\"?{_QUOTED}\"?|{_WORD}){_GAP}:"  # a quote may be doubled
_CUT_KEY: Final = rf"(?:{_QUOTED}{_GAP}\Z|{_CUT_QUOTED}|[\w$.\-/]*+\Z)"
_NUMBER: Final = r"[-+]?[0-9.]*+(?:[eE][-+]?[0-9]*+)?"
_LITERAL: Final = r"(?:true|false|null|True|False|None)"
_VALUE: Final = rf"(?:[{QUOTES}{{\[]|(?:{_NUMBER}|{_LITERAL}){_GAP}(?:[,;}}\]]|\Z)|[a-zA-Z]*+\Z)"

_STOP: Final = r"(?:(?<=\s)```|</[\w:.\-]++>\s*+\Z)"

# A sentence may stand between two tokens, see `words`.
_ASIDE: Final = rf"{_GAP}(?:{SENTENCE}{_GAP})?"

_MEMBER_FOLLOWS: Final = re.compile(
    rf"""{_ASIDE}(?:\Z
      | , {_ASIDE} (?:\Z | [,}}\]] | {_KEY} | {_CUT_KEY})
      | ; {_GAP} (?:\Z | [,}}\]] | {_QUOTED} {_GAP} :)
      | {_QUOTED} {_GAP} :
      | {_STOP}
      | (?P<closers>[}}\]])
    )""",
    re.VERBOSE | re.DOTALL,
)
_ELEMENT_FOLLOWS: Final = re.compile(
    rf"""{_ASIDE}(?:\Z
      | [,;] {_ASIDE} (?:\Z | [,}}\]] | {_VALUE})
      | (?<=\s) {_QUOTED} {_GAP} (?:[,;}}\]{QUOTES}] | \Z)
      | (?<=\s) \{{ \s*+ [}}{QUOTES}]
      | : {_GAP} {_VALUE}
      | {_STOP}
      | (?P<closers>[}}\]])
    )""",
    re.VERBOSE | re.DOTALL,
)
_PROSE: Final = re.compile(SENTENCE)
# Most inner quotes have a word behind them, and need no look further.
_GLUED: Final = re.compile(rf"[^\s,;:}}\]{{/\#<{QUOTES}]")
_CLOSERS: Final = re.compile(r"[\s}\]]*+")
_COMMA_AND_CLOSERS: Final = re.compile(r"\s*+,?[\s}\]]*+")
_CLOSED: Final = re.compile(r"\s*+[}\]][\s}\]]*+\Z")
_NEXT_VALUE: Final = re.compile(rf"[\s,]*+(?:</?[\w:.\-]++>\s*+)*[{{\[]\s*+[{QUOTES}]")
_AFTER_CLOSERS: Final = re.compile(
    rf"{_ASIDE}(?:\Z|[,;]{_ASIDE}(?:\Z|[,}}\]]|{_VALUE}|{_KEY}|{_CUT_KEY})|{_QUOTED}{_GAP}:|\{{|{_STOP})",
    re.DOTALL,
)
_AFTER_ROOT: Final = re.compile(rf"\Z|[\s,;`<|*{{\[]|[.)](?:[;\s]|\Z)|[{QUOTES}]\s*+\Z")
_KEY_FOLLOWS: Final = re.compile(rf"{_GAP}(?:\Z|[:,}}\]=])")
_REST_OF_KEY: Final = re.compile(rf"\w[^\n{QUOTES}]*+[{QUOTES}]\s*+:")
_COMMA_AND_KEY: Final = re.compile(rf"{_GAP},{_ASIDE}{_KEY}", re.DOTALL)
_MORE: Final = re.compile(
    rf"{_GAP}(?:[{QUOTES}{{\[]|(?:{_NUMBER}|{_LITERAL}){_GAP}[,;}}\]])", re.DOTALL
)
_COMMA_OR_MORE: Final = re.compile(rf"{_GAP}[{QUOTES}{{\[,}}\]]", re.DOTALL)
_COLON_AND_VALUE: Final = re.compile(rf"{_GAP}:{_GAP}{_VALUE}", re.DOTALL)
_QUOTE_AND_COLON: Final = re.compile(r"[\"']\s*+:")
_KEY_AND_COLON: Final = re.compile(rf"{_QUOTED}{_GAP}:", re.DOTALL)


class LookAhead:
    """Answers, in bounded time, what follows a place in the text (which ends at *end*)."""

    def __init__(self, text: str, end: int) -> None:
        self._text = text
        self._end = end
        self._last = -1
        self._quote: int | None = None

    def closes_string(self, at: int, role: Role, depth: int) -> bool:
        """Tell whether a quote just before *at* ends a string of *role* inside *depth* brackets."""
        match role:
            case Role.KEY:
                return self._closes_key(at)
            case Role.ROOT:
                return at >= self._end_of_words()
            case Role.MEMBER | Role.ELEMENT:
                if _GLUED.match(self._text, at, self._end) and not self._match(_PROSE, at):
                    return False
                pattern = _MEMBER_FOLLOWS if role is Role.MEMBER else _ELEMENT_FOLLOWS
                follows = self._match(pattern, at)
                if follows and follows.group("closers"):
                    return self.fits_container_end(follows.start("closers"), depth)
                return follows is not None

    def fits_container_end(self, at: int, depth: int) -> bool:
        """Tell whether the text can go on at *at* behind a container inside *depth* brackets."""
        closers = self._match(_CLOSERS, at)
        run = closers.group() if closers else ""
        after = at + len(run)
        if run.count("}") + run.count("]") < depth:
            return self._match(_AFTER_CLOSERS, after) is not None
        return run[-1:].isspace() or self._match(_AFTER_ROOT, after) is not None

    def leaves_text(self, at: int, depth: int) -> bool:
        """Tell whether a quote just before *at* ends the root, but a later one ends the text."""
        closers = self._match(_COMMA_AND_CLOSERS, at)
        run = closers.group() if closers else ""
        ends_root = run.count("}") + run.count("]") >= depth
        after = at + len(run)
        return ends_root and after <= self._last_quote() and not self._match(_NEXT_VALUE, after)

    def resumes(self, at: int, *, is_done: bool) -> bool:
        """Tell whether JSON goes on at *at*, behind words that are none of it.

        A value or a key begins, or, where the value *is_done*, a comma or a bracket follows.
        """
        return self._match(_COMMA_OR_MORE if is_done else _MORE, at) is not None

    def has_colon(self, at: int) -> bool:
        """Tell whether a colon and a value stand at *at*."""
        return self._match(_COLON_AND_VALUE, at) is not None

    def begins_member(self, at: int) -> bool:
        """Tell whether a quoted key and its colon stand at *at*."""
        return self._match(_KEY_AND_COLON, at) is not None

    def ends_bare_key(self, at: int) -> bool:
        """Tell whether a quote and a colon stand at *at*: the key lacks its opening quote."""
        return self._match(_QUOTE_AND_COLON, at) is not None

    def goes_on_with_member(self, at: int) -> bool:
        """Tell whether a comma, a key and its colon stand at *at*."""
        return self._match(_COMMA_AND_KEY, at) is not None

    def _closes_key(self, at: int) -> bool:
        # A quote with a word glued to it is inner only if another one can end the key.
        return bool(self._match(_KEY_FOLLOWS, at)) or not self._match(_REST_OF_KEY, at)

    def _end_of_words(self) -> int:
        if self._last < 0:
            self._last = len(self._text[: self._end].rstrip())
        return self._last

    def _last_quote(self) -> int:
        """Return where the quote is that ends the last string of the text, if it ends so."""
        if self._quote is None:
            self._quote = self._text.rfind('"', 0, self._end)
            if not _CLOSED.match(self._text, self._quote + 1, self._end):
                self._quote = -1
        return self._quote

    def _match(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        return pattern.match(self._text, at, min(self._end, at + LOOK_AHEAD))
