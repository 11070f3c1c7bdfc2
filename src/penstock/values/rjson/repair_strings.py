r"""Strings of broken JSON: which quote ends a string, and which one the model forgot to escape.

The text after the quote decides, apart from white space and comments. A quote ends a string if the
grammar can continue after it:

* a key: before a colon, or before anything that is not glued to the quote;
* a member's value: before a comma with a key and its colon after it (before a semicolon the key
  must be quoted: ``content: "x"; color: red`` is code), before a key and its colon (the comma is
  missing), before closing brackets;
* an element of a list: before a comma with a value after it, before another quoted element, before
  closing brackets, or before a colon and a value (the list was meant to be an object);
* anything: before the end of the text, a code fence, or a closing tag that ends the text.

After closing brackets the text must continue in the same way. If they close the root, a word or
quote glued to them shows that they do not: ``log("}")`` is code. So does, in a string that had
inner quotes already, more text after them that ends with a quote and closing brackets.

Each check looks at most `LOOK_AHEAD` characters ahead, so a text of nothing but quotes still takes
linear time. If the window ends before the decision, the quote ends the string: strict JSON, cut
anywhere, is never misread.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from penstock.values.control_tokens import CONTROL_TOKEN
from penstock.values.rjson.escapes import drop_cut_escape, looks_like_path, repair_escapes
from penstock.values.rjson.notes import Repair, Repairs

# --- between two tokens -------------------------------------------------------------------------

_LITERAL: Final = r"(?:true|false|null|True|False|None)"
SENTENCE: Final = (
    rf"(?!{_LITERAL}(?:[ \t]*+,|[ \t]++(?:{_LITERAL}\b|[0-9\-])))"
    r"[^\W\d_][\w'\u2019\-]*+(?:,?[ \t]++[\w'\u2019\-]++){1,64}[.!?\u2026](?!\w)"
)
"""Words that a model writes between two tokens: at least two, and the end of a sentence.

A row of literals and numbers is not one: ``null, true, 0.5`` are three values.
"""

MAX_SENTENCE: Final = 1024
"""The maximum length of a sentence between two tokens."""

_COMMENT: Final = r"//[^\n]*+|\#[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/|\Z)"
_BLANK: Final = re.compile(rf"(?:[\s\ufeff\u200b]++|{_COMMENT})*")
_COMMENT_OPENS: Final = re.compile(r"//|/\*|\#")
_ODD: Final = re.compile(r"[^ \t\n\r]")
_SENTENCE: Final = re.compile(SENTENCE)
_TOKEN: Final = re.compile(CONTROL_TOKEN)


def skip_blank(text: str, at: int, end: int, notes: Repairs) -> int:
    """Return where the white space (of any script), comments and control tokens at *at* end.

    A block comment that is not closed ends with the text.
    """
    stop = _skip_space(text, at, end, notes)
    while token := _TOKEN.match(text, stop, end):
        notes.note(Repair.CONTROL_TOKEN, token[0])
        stop = _skip_space(text, token.end(), end, notes)
    return stop


def find_sentence_end(text: str, at: int, end: int) -> int:
    """Return where the sentence at *at* ends, or -1 if it is not a sentence."""
    found = _SENTENCE.match(text, at, min(end, at + MAX_SENTENCE))
    return found.end() if found else -1


def _skip_space(text: str, at: int, end: int, notes: Repairs) -> int:
    blank = _BLANK.match(text, at, end)
    stop = blank.end() if blank else at
    if stop > at and _ODD.search(text, at, stop):
        comment = _COMMENT_OPENS.search(text, at, stop)
        notes.note(Repair.COMMENT if comment else Repair.ODD_SPACE)
    return stop


# --- unescaped quotes inside a string -----------------------------------------------------------
#
# Code in a string has strings of its own, and the text after one of those often looks like JSON: in
# ``{"code": "d = {"a": "b"}; f(d)"}`` the quote after ``b`` could end everything. It does not,
# because a bracket of the code is still open there and, counting in pairs, the quote closes a
# string of the code. An opening quote in that place does end the string: code may be cut inside its
# brackets.

_QUOTE: Final = re.compile(r'\\.|"', re.DOTALL)
_HAS_WORD: Final = re.compile(r"\w")
_IS_NEXT: Final = re.compile(r"[\s,:].*\w", re.DOTALL)
_BEFORE_QUOTATION: Final = re.compile(
    r"(?:\A|[\s(\[{<=:,;+\-*/|&>!?@%~^`'\\]|\b[fFrRbBuULN]{1,2})\Z"
)


def are_quotations(text: str, start: int, end: int) -> bool:
    """Return whether the quotes between *start* and *end* come in pairs, as quotations do.

    A quotation begins after a space, a bracket or an operator, never glued to a word: in ``alpha",
    "b`` the first quote ended a string, and the text after it was meant as JSON.
    """
    quotes = [found.start() for found in _QUOTE.finditer(text, start, end) if found[0] == '"']
    if len(quotes) % 2 or any(text[at - 1] == "\\" for at in quotes):
        return False  # After a backslash that came twice, a quote may have been escaped.
    if quotes and quotes[0] == start and not _HAS_WORD.search(text, start, quotes[1]):
        return False  # `"a": "": "b"`: the quotes are those of JSON.
    if quotes and quotes[-1] == end - 1 and not _HAS_WORD.search(text, quotes[-2], end):
        return False
    pairs = zip(quotes[::2], quotes[1::2], strict=True)
    if any(_IS_NEXT.match(text, first + 1, last) for first, last in pairs):
        return False  # `"a", and "b": "c"`: so does JSON, with words in it.
    befores = (text[max(start, at - 3) : at] for at in quotes[::2])
    return all(map(_BEFORE_QUOTATION.search, befores))


def _may_quote(text: str) -> bool:
    r"""Return whether a doubled quote at either end of *text* may be one of its own.

    Without it, an escaped quote would have no other one, white space would end the string, or the
    quote follows a backslash, which escapes it if it came twice: ``"say \\"hi""``.
    """
    escaped = sum(found[0] == '\\"' for found in _QUOTE.finditer(text))
    bare = text.removesuffix('"')
    return escaped % 2 == 1 or bare[-1:].isspace() or bare.endswith("\\")


class InnerQuotes:
    """The quotes so far inside the string that begins at *start*, and the brackets between them."""

    def __init__(self, text: str, start: int) -> None:
        self.count = 0
        self.last = -1
        self.boundary = -1  # where a key with its colon begins, perhaps the next member's
        self.fitting = -1  # the first quote that could end the string, apart from the brackets
        self.before_fitting = 0  # how many quotes came before that one
        self._last_fits = False
        self._text = text
        self._from = start
        self._brackets = 0

    @property
    def is_odd(self) -> bool:
        """Whether a string of the code is open, if the quotes come in pairs."""
        return self.count % 2 == 1

    def is_code_cut(self, end: int) -> bool:
        """Return whether the text, which ends at *end*, is cut in the middle of code."""
        is_closed = self._last_fits and self._text[self.last + 1 : end].strip() != ""
        return self._brackets > 0 and not is_closed

    @property
    def in_code(self) -> bool:
        """Whether the next quote closes a string of the code, inside brackets of the code."""
        return self.is_odd and self._brackets > 0

    def add(self, at: int, *, fits: bool) -> None:
        """Count the quote at *at* as an inner one; with *fits* it could have been the last."""
        if not self.is_odd:
            code = self._text[self._from : at]
            opened = sum(map(code.count, "([{")) - sum(map(code.count, ")]}"))
            self._brackets = max(0, self._brackets + opened)
        if fits and self.fitting < 0:
            self.fitting, self.before_fitting = at, self.count
        self.count += 1
        self.last = at
        self._last_fits = fits
        self._from = at + 1


# --- what follows a quote -----------------------------------------------------------------------

LOOK_AHEAD: Final = 256
"""How far one check looks: enough for a key with the white space around it."""


class StringRole(Enum):
    """The place of a string in the JSON."""

    KEY = "key"
    MEMBER = "member"
    ELEMENT = "element"
    ROOT = "root"


QUOTES: Final = "\"'`\u201c\u2018\u201e\u201a"
"""Characters that may open a string in broken JSON."""

_PAIRS: Final = ('""', "''", "``", "\u201c\u201d", "\u2018\u2019", "\u201e\u201c", "\u201a\u2018")

# A comment that is not closed counts only without a quote, which may be the string's own.
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
_VALUE: Final = rf"(?:[{QUOTES}{{\[]|(?:{_NUMBER}|{_LITERAL}){_GAP}(?:[,;}}\]]|\Z)|[a-zA-Z]*+\Z)"

_STOP: Final = r"(?:(?<=\s)```|</[\w:.\-]++>\s*+\Z)"

# A sentence may be between two tokens, see `SENTENCE`.
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
# Most inner quotes have a word glued to them, so no further check is needed.
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
    """Checks, in bounded time, what follows a place in the text, which ends at *end*."""

    def __init__(self, text: str, end: int) -> None:
        self._text = text
        self._end = end
        self._last = -1
        self._quote: int | None = None

    def closes_string(self, at: int, role: StringRole, depth: int) -> bool:
        """Return whether a quote before *at* ends a string of *role* inside *depth* brackets."""
        match role:
            case StringRole.KEY:
                # A quote with a word glued to it is inner only if another one can end the key.
                return bool(self._match(_KEY_FOLLOWS, at)) or not self._match(_REST_OF_KEY, at)
            case StringRole.ROOT:
                return at >= self._end_of_words()
            case StringRole.MEMBER | StringRole.ELEMENT:
                if _GLUED.match(self._text, at, self._end) and not self._match(_PROSE, at):
                    return False
                pattern = _MEMBER_FOLLOWS if role is StringRole.MEMBER else _ELEMENT_FOLLOWS
                follows = self._match(pattern, at)
                if follows and follows.group("closers"):
                    return self.fits_container_end(follows.start("closers"), depth)
                return follows is not None

    def fits_container_end(self, at: int, depth: int) -> bool:
        """Return whether text can continue at *at* after a container inside *depth* brackets."""
        closers = self._match(_CLOSERS, at)
        run = closers.group() if closers else ""
        after = at + len(run)
        if run.count("}") + run.count("]") < depth:
            return self._match(_AFTER_CLOSERS, after) is not None
        return run[-1:].isspace() or self._match(_AFTER_ROOT, after) is not None

    def leaves_text(self, at: int, depth: int) -> bool:
        """Return whether a quote just before *at* ends the root, but a later one ends the text."""
        closers = self._match(_COMMA_AND_CLOSERS, at)
        run = closers.group() if closers else ""
        ends_root = run.count("}") + run.count("]") >= depth
        after = at + len(run)
        return ends_root and after <= self._last_quote() and not self._match(_NEXT_VALUE, after)

    def resumes(self, at: int, *, is_done: bool) -> bool:
        """Return whether JSON continues at *at*, after words that do not belong to it.

        A value or a key begins, or, where the value *is_done*, a comma or a bracket follows.
        """
        return self._match(_COMMA_OR_MORE if is_done else _MORE, at) is not None

    def has_colon(self, at: int) -> bool:
        """Return whether a colon and a value follow at *at*."""
        return self._match(_COLON_AND_VALUE, at) is not None

    def begins_member(self, at: int) -> bool:
        """Return whether a quoted key and its colon follow at *at*."""
        return self._match(_KEY_AND_COLON, at) is not None

    def ends_bare_key(self, at: int) -> bool:
        """Return whether a quote and a colon follow at *at*: the key lacks its opening quote."""
        return self._match(_QUOTE_AND_COLON, at) is not None

    def continues_with_member(self, at: int) -> bool:
        """Return whether a comma, a key and its colon follow at *at*."""
        return self._match(_COMMA_AND_KEY, at) is not None

    def _end_of_words(self) -> int:
        if self._last < 0:
            self._last = len(self._text[: self._end].rstrip())
        return self._last

    def _last_quote(self) -> int:
        """Return the place of the quote that ends the last string of the text, or -1."""
        if self._quote is None:
            self._quote = self._text.rfind('"', 0, self._end)
            if not _CLOSED.match(self._text, self._quote + 1, self._end):
                self._quote = -1
        return self._quote

    def _match(self, pattern: re.Pattern[str], at: int) -> re.Match[str] | None:
        return pattern.match(self._text, at, min(self._end, at + LOOK_AHEAD))


# --- strings ------------------------------------------------------------------------------------

MAX_SECOND_LOOKS: Final = 8
"""How many wrong guesses are corrected: each may read the rest of the text once more."""

CLOSING: Final = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": '\u201d\u201c"',
    "\u2018": "\u2019\u2018'",
    "\u201e": '\u201c\u201d"',
    "\u201a": "\u2018\u2019'",
}
"""The quotes that may end a string, by the one that opened it; the first is the right one."""

_BODIES: Final = {
    opening: re.compile(rf"[^{closing}\\]*+(?:\\.[^{closing}\\]*+)*", re.DOTALL)
    for opening, closing in CLOSING.items()
}
_KINDS: Final = {'"': None, "'": Repair.SINGLE_QUOTES, "`": Repair.BACKTICKS}
_CONTROL: Final = re.compile("[\x00-\x1f]")
_LAST_CLOSERS: Final = re.compile(r"[\s}\]]++\Z")
# Text that an open string does not have: a special token, or a closing tag at its end.
_MARKUP: Final = re.compile(rf"{CONTROL_TOKEN}|</[\w:.\-]++>\s*+\Z|\[/?[A-Z_]{{3,}}\]")
_MEMBER: Final = re.compile(
    r"""[{,]\s*+"[\w\-]{1,64}+"\s*+:|"\s*+,\s*+"\w*+[\s}\]]*+\Z|"[ \t]*+,[ \t]*+\n\s*+\""""
)
_LINE_END: Final = re.compile(r"[ \t]*+\n")
OTHER_QUOTES: Final = (
    "&quot;",
    "&#34;",
    "&#39;",
    "&apos;",
    *"\u201c\u201d\u2019\u201e\u201f\u00ab\u00bb",
)
"""What models write in the place of a quote, and JSON readers do not read as one."""

_LAST_QUOTES: Final = (*OTHER_QUOTES, *"".join(CLOSING.values()), "\\")
_PATH_END: Final = re.compile(r'\\"(?=[\s}\]]*+\Z)')


class Taken(NamedTuple):
    """A string that was read, and where the text continues."""

    value: str
    end: int


class BrokenStringReader:
    """Reads strings of broken JSON in the text before *end*, and notes the repairs."""

    def __init__(self, text: str, end: int, ahead: LookAhead, notes: Repairs) -> None:
        self._text = text
        self._end = end
        self._ahead = ahead
        self._notes = notes
        self._second_looks = MAX_SECOND_LOOKS
        self._lonely_triples: set[str] = set()

    def read(self, at: int, role: StringRole, depth: int) -> Taken:
        """Read the string whose opening quote is at *at*, inside *depth* open brackets."""
        opening = self._text[at]
        triple = self._find_triple(at, opening, role, depth)
        if triple >= 0:
            self._notes.note(Repair.TRIPLE_QUOTES)
            return Taken(self._content(at + 3, triple, cut=False), triple + 3)
        if opening != '"':
            self._notes.note(_KINDS.get(opening) or Repair.SMART_QUOTES)
        taken = self._take_quoted(at + 1, opening, role, depth)
        content = self._text[at + 1 : taken.end]
        # Some models escape quotes in backticks and some do not: `\"` may be one or two characters.
        if opening == "`" and "\\" in content:
            self._notes.doubt("a backslash in backticks")
        return taken

    def _take_quoted(self, start: int, opening: str, role: StringRole, depth: int) -> Taken:
        body = _BODIES[opening]
        inner = InnerQuotes(self._text, start)
        at = start
        while True:
            run = body.match(self._text, at, self._end)
            at = run.end() if run else at
            if self._text[at : min(at + 1, self._end)] in ("", "\\"):
                return self._take_cut(start, inner, role, depth)
            fits = self._ahead.closes_string(at + 1, role, depth)
            if fits and not (self._second_looks and self._is_inside(at, inner, depth)):
                break
            if inner.boundary < 0 and role is StringRole.MEMBER and self._begins_member(start, at):
                inner.boundary = at
            inner.add(at, fits=fits)
            at += 1
        if inner.boundary >= 0 and inner.is_odd and self._second_looks:
            return self._take_before_member(start, inner.boundary)
        if self._text[at] != CLOSING[opening][0]:
            self._notes.note(Repair.MIXED_QUOTES)
        doubled = self._take_doubled(start, at, opening, inner) if inner.is_odd else None
        return doubled or self._take_closed(start, at, inner.count)

    def _take_doubled(self, start: int, at: int, opening: str, inner: InnerQuotes) -> Taken | None:
        """Read a string with one quote too many, next to its first or its last one."""
        if inner.count > 1 or _may_quote(self._text[start:at]):
            self._notes.doubt("a doubled quote that may be an inner one")
        if self._text[start] == opening:
            self._notes.note(Repair.DOUBLED_QUOTE)
            if self._text[start + 1 : at].lstrip()[:1] in (":", ","):
                self._notes.doubt("the colon of JSON in a string")
            return self._take_closed(start + 1, at, inner.count - 1)
        if inner.last == at - 1:
            self._notes.note(Repair.DOUBLED_QUOTE)
            return Taken(self._take_closed(start, at - 1, inner.count - 1).value, at + 1)
        return None

    def _is_inside(self, at: int, inner: InnerQuotes, depth: int) -> bool:
        """Return whether the quote at *at* could end the string but is in code, or before code."""
        return inner.in_code or (inner.count > 0 and self._ahead.leaves_text(at + 1, depth))

    def _take_closed(self, start: int, at: int, inner: int) -> Taken:
        if inner:
            self._notes.note(Repair.INNER_QUOTE, count=inner)
            if not are_quotations(self._text, start, at):
                self._notes.doubt("quotes in a string that may be its end")
        return Taken(self._content(start, at, cut=False), at + 1)

    def _take_cut(self, start: int, inner: InnerQuotes, role: StringRole, depth: int) -> Taken:
        """Read a string that has no end."""
        looks_back = self._second_looks > 0 and not inner.is_code_cut(self._end)
        if looks_back and inner.boundary >= 0:
            return self._take_before_member(start, inner.boundary)
        if looks_back and inner.fitting >= 0:
            self._second_looks -= 1
            return self._take_closed(start, inner.fitting, inner.before_fitting)
        # `"c"` at the end of a line, then prose: the bracket is missing, not the quote.
        if inner.count == 1 and _LINE_END.match(self._text, inner.last + 1, self._end):
            return self._take_closed(start, inner.last, 0)
        # `"C:\dir\"}`: the backslash is data, and the quote ends the string.
        tail = max(start, self._end - LOOK_AHEAD)
        path_end = _PATH_END.search(self._text, tail, self._end)
        if path_end and looks_like_path(self._text[start : path_end.start()] + "/"):
            return self._take_closed(start, path_end.start() + 1, 0)
        end = self._find_content_end(start, depth)
        is_cut = end == self._end
        self._notes.note(Repair.UNCLOSED_STRING if is_cut else Repair.MISSING_QUOTE)
        self._check_open(start, end, role)
        return Taken(self._content(start, end, cut=is_cut), end)

    def _check_open(self, start: int, end: int, role: StringRole) -> None:
        """Doubt the string from *start* to *end*, which was left open, if it may hold markup."""
        content = self._text[start:end]
        if not content.strip(" \t\r\n:,[]{}") or content.lstrip()[:1] in (":", ","):
            self._notes.doubt("an open string of markup")
        elif role is not StringRole.MEMBER:
            self._notes.doubt("an open string, which may be cut")
        elif self._text[start - 1] != '"' and (content[0].isspace() or '"' in content):
            self._notes.doubt("a quote of another kind before a value")
        elif not are_quotations(self._text, start, end) or _MARKUP.search(content):
            self._notes.doubt("an open string that may hold markup")
        elif _MEMBER.search(content):
            self._notes.doubt("an open string that may hold JSON")
        elif end < self._end:
            self._check_end(content)

    def _check_end(self, content: str) -> None:
        """Doubt the end of *content*, which lacks its quote, if it may be one of another kind."""
        if content.rstrip().endswith(_LAST_QUOTES):
            self._notes.doubt("a string that may end with another quote")

    def _find_content_end(self, start: int, depth: int) -> int:
        """Return where an open string ends if only its quote is missing: before the brackets.

        The brackets are not its own if it has none that they close, and if they are just as many
        as are open around it: ``{"a": {"b": "ls -la}}``.
        """
        content = self._text[start : self._end]
        surplus = sum(map(content.count, "}]")) - sum(map(content.count, "{["))
        if surplus <= 0:
            return self._end
        closers = _LAST_CLOSERS.search(content)
        run = closers[0] if closers else ""
        if surplus != depth or len(run) - sum(map(str.isspace, run)) < depth:
            self._notes.doubt("an open string with brackets that may not be its own")
            return self._end
        at = len(content)
        for _ in range(depth):
            at = max(content.rfind("}", 0, at), content.rfind("]", 0, at))
        bare = content[:at].rstrip()
        return start + (len(bare) if "\n" in content[len(bare) : at] else at)

    def _take_before_member(self, start: int, boundary: int) -> Taken:
        """Read a string without a closing quote, which ends before the key at *boundary*."""
        self._second_looks -= 1
        end = boundary
        while end > start and self._text[end - 1].isspace():
            end -= 1
        if self._text[end - 1] == ",":
            end -= 1
        if self._text.endswith('\\"', start, end) and looks_like_path(self._text[start:end]):
            return Taken(self._content(start, end - 1, cut=False), end)
        self._notes.note(Repair.MISSING_QUOTE)
        content = self._text[start:end]
        has_surplus = sum(map(content.count, "}]")) > sum(map(content.count, "{["))
        if content.endswith(",") or content.lstrip()[:1] in (":", ","):
            has_surplus = True
        if has_surplus or not are_quotations(self._text, start, end) or _MARKUP.search(content):
            self._notes.doubt("a string whose end may be elsewhere")
        elif _MEMBER.search(content):
            self._notes.doubt("a string that may hold the beginning of other JSON")
        else:
            self._check_end(content)
        return Taken(self._content(start, end, cut=False), end)

    def _begins_member(self, start: int, at: int) -> bool:
        if not (self._text[at - 1] == "," or self._text[at - 1].isspace()):
            return False
        before = self._text[max(start, at - LOOK_AHEAD) : at]
        words = before.rstrip()
        new_line = words.endswith(",") or "\n" in before[len(words) :]
        return new_line and self._ahead.begins_member(at)

    def _find_triple(self, at: int, quote: str, role: StringRole, depth: int) -> int:
        """Return where the string in triple quotes ends that begins at *at*, or -1."""
        mark = quote * 3
        if (
            role is StringRole.KEY
            or mark in self._lonely_triples
            or not self._text.startswith(mark, at)
        ):
            return -1
        end = self._text.find(mark, at + 3, self._end)
        if end < 0:
            self._lonely_triples.add(mark)
            return -1
        # A fourth quote before and code after it: a plain string that begins with a docstring.
        return end if self._ahead.closes_string(end + 3, role, depth) else -1

    def _content(self, start: int, end: int, *, cut: bool) -> str:
        content = self._text[start:end]
        if _CONTROL.search(content):
            self._notes.note(Repair.RAW_CONTROL)
        if "\\" not in content:
            return content
        if cut:
            whole = drop_cut_escape(content)
            if whole != content:
                self._notes.note(Repair.CUT_ESCAPE)
            content = whole
        return repair_escapes(content, self._notes)
