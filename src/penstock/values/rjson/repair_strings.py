r"""Tells a quote that ends a string from one that the model forgot to escape.

What follows decides, white space and comments aside. A quote ends a string where the grammar can go
on after it:

* a key: before a colon, or before anything that is not glued to the quote;
* a member's value: before a comma with a key and its colon after it (before a semicolon the key
  must be quoted: ``content: "x"; color: red`` is code), before a key and its colon (the comma is
  missing), before closing brackets;
* an element of a list: before a comma with a value after it, before another quoted element, before
  closing brackets, or before a colon and a value (the list was meant to be an object);
* anything: before the end of the text, a code fence, or a closing tag that ends the text.

After closing brackets the text must continue in the same way. If they close the root, a word or
quote glued to them speaks against it: ``log("}")`` is code. So does, in a string that had inner
quotes already, more text after them whose own end is a quote and closing brackets.

A question looks at most `LOOK_AHEAD` characters ahead, so a text of nothing but quotes still costs
linear time. Where the window ends before the answer, the quote is structural: strict JSON, cut
anywhere, is never misread.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NamedTuple

from penstock.values.rjson.escapes import drop_cut_escape, looks_like_path, mend_escapes
from penstock.values.rjson.notes import Repair, Repairs

# Steps over what may stand between two tokens of broken JSON.


CONTROL_TOKEN: Final = r"<(?:\|[\w\-]{1,40}+\||\uff5c[\w\u2581\-]{1,40}+\uff5c)>"  # noqa: S105 - no password
"""A special token of a model, such as the one that ends its turn: never a part of JSON."""

SENTENCE: Final = r"[^\W\d_][\w'\u2019\-]*+(?:,?[ \t]++[\w'\u2019\-]++){1,64}[.!?\u2026]"
"""Words that a model says between two tokens: two or more, and the mark that ends a sentence."""

MAX_SENTENCE: Final = 1024
"""How long a sentence between two tokens may be."""

_COMMENT: Final = r"//[^\n]*+|\#[^\n]*+|/\*[^*]*+(?:\*(?!/)[^*]*+)*(?:\*/|\Z)"
_BLANK: Final = re.compile(rf"(?:[\s\ufeff\u200b]++|{_COMMENT})*")
_COMMENT_OPENS: Final = re.compile(r"//|/\*|\#")
_ODD: Final = re.compile(r"[^ \t\n\r]")
_SENTENCE: Final = re.compile(SENTENCE)
_TOKEN: Final = re.compile(CONTROL_TOKEN)


def skip_blank(text: str, at: int, end: int, notes: Repairs) -> int:
    """Return where the white space (of any alphabet), comments and control tokens at *at* end.

    A block comment that is never closed ends with the text.
    """
    stop = _skip_space(text, at, end, notes)
    while token := _TOKEN.match(text, stop, end):
        notes.note(Repair.CONTROL_TOKEN, token[0])
        stop = _skip_space(text, token.end(), end, notes)
    return stop


def find_sentence_end(text: str, at: int, end: int) -> int:
    """Return where the sentence at *at* ends, or -1 where there is not one."""
    found = _SENTENCE.match(text, at, min(end, at + MAX_SENTENCE))
    return found.end() if found else -1


def _skip_space(text: str, at: int, end: int, notes: Repairs) -> int:
    blank = _BLANK.match(text, at, end)
    stop = blank.end() if blank else at
    if stop > at and _ODD.search(text, at, stop):
        comment = _COMMENT_OPENS.search(text, at, stop)
        notes.note(Repair.COMMENT if comment else Repair.ODD_SPACE)
    return stop


# Follows the unescaped quotes inside one string, and the brackets of the code between them.
#
# Code in a string has strings of its own, and what follows one of those often looks like JSON:
# in ``{"code": "d = {"a": "b"}; f(d)"}`` the quote after ``b`` could end everything. It does
# not, because a bracket of the code is still open there and, counting in pairs, the quote
# closes a string of the code. An opening one in that place is believed: code may well be cut in
# its brackets.


_QUOTE: Final = re.compile(r'\\.|"', re.DOTALL)
_BEFORE_QUOTATION: Final = re.compile(
    r"(?:\A|[\s(\[{<=:,;+\-*/|&>!?@%~^`'\\]|\b[fFrRbBuULN]{1,2})\Z"
)


def are_quotations(text: str, start: int, end: int) -> bool:
    """Return whether the quotes between *start* and *end* come in pairs, as quotations do.

    A quotation begins after a space, a bracket or an operator, never glued to a word: in ``alpha",
    "b`` the first quote ended a string, and what comes after it was meant to be JSON.
    """
    quotes = [found.start() for found in _QUOTE.finditer(text, start, end) if found[0] == '"']
    if len(quotes) % 2:
        return False
    befores = (text[max(start, at - 3) : at] for at in quotes[::2])
    return all(map(_BEFORE_QUOTATION.search, befores))


class InnerQuotes:
    """The quotes inside the string that begins at *start*, as far as it has been read."""

    def __init__(self, text: str, start: int) -> None:
        self.count = 0
        self.last = -1
        self.boundary = -1  # where a key with its colon begins that may be the next member's
        self.fitting = -1  # the first quote that could end the string, but for the brackets
        self.before_fitting = 0  # how many came before that one
        self._last_fits = False
        self._text = text
        self._from = start
        self._brackets = 0

    @property
    def is_odd(self) -> bool:
        """Whether a string of the code is open, if the quotes come in pairs."""
        return self.count % 2 == 1

    def is_code_cut(self, end: int) -> bool:
        """Return whether the text, which has its end at *end*, breaks off in the middle of code."""
        is_closed = self._last_fits and self._text[self.last + 1 : end].strip() != ""
        return self._brackets > 0 and not is_closed

    @property
    def in_code(self) -> bool:
        """Whether the next quote closes a string of the code, inside brackets of the code."""
        return self.is_odd and self._brackets > 0

    def add(self, at: int, *, fits: bool) -> None:
        """Count the quote at *at* as an inner one; *fits* says that it could have been the last."""
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


LOOK_AHEAD: Final = 256
"""How far one question looks: a key of any sane length with the white space around it."""


class StringRole(Enum):
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
# Most inner quotes have a word after them, and need no look further.
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

    def closes_string(self, at: int, role: StringRole, depth: int) -> bool:
        """Return whether a quote before *at* ends a string of *role* inside *depth* brackets."""
        match role:
            case StringRole.KEY:
                return self._closes_key(at)
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
        """Return whether JSON continues at *at*, after words that are not of it.

        A value or a key begins, or, where the value *is_done*, a comma or a bracket follows.
        """
        return self._match(_COMMA_OR_MORE if is_done else _MORE, at) is not None

    def has_colon(self, at: int) -> bool:
        """Return whether a colon and a value stand at *at*."""
        return self._match(_COLON_AND_VALUE, at) is not None

    def begins_member(self, at: int) -> bool:
        """Return whether a quoted key and its colon stand at *at*."""
        return self._match(_KEY_AND_COLON, at) is not None

    def ends_bare_key(self, at: int) -> bool:
        """Return whether a quote and a colon stand at *at*: the key lacks its opening quote."""
        return self._match(_QUOTE_AND_COLON, at) is not None

    def goes_on_with_member(self, at: int) -> bool:
        """Return whether a comma, a key and its colon stand at *at*."""
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


MAX_SECOND_LOOKS: Final = 8
"""How many guesses may turn out wrong: each may cost the rest of the text once."""

CLOSING: Final = {
    '"': '"',
    "'": "'",
    "`": "`",
    "\u201c": '\u201d\u201c"',
    "\u2018": "\u2019\u2018'",
    "\u201e": '\u201c\u201d"',
    "\u201a": "\u2018\u2019'",
}
"""What may end a string, by the quote that opened it; the first of each is the right one."""

_BODIES: Final = {
    opening: re.compile(rf"[^{closing}\\]*+(?:\\.[^{closing}\\]*+)*", re.DOTALL)
    for opening, closing in CLOSING.items()
}
_KINDS: Final = {'"': None, "'": Repair.SINGLE_QUOTES, "`": Repair.BACKTICKS}
_CONTROL: Final = re.compile("[\x00-\x1f]")
_LAST_CLOSERS: Final = re.compile(r"[\s}\]]++\Z")
_MARKUP: Final = re.compile(rf"{CONTROL_TOKEN}|</[\w:.\-]++>\s*+\Z|\[/?[A-Z_]{{3,}}\]")
"""What an open string does not hold: a special token anywhere, a closing tag at its end."""
_LINE_END: Final = re.compile(r"[ \t]*+\n")
_PATH_END: Final = re.compile(r'\\"(?=[\s}\]]*+\Z)')


class Taken(NamedTuple):
    """A string that was read, and where the text continues."""

    value: str
    end: int


class StringMender:
    """Takes strings out of the text before *end*, noting what was repaired."""

    def __init__(self, text: str, end: int, ahead: LookAhead, notes: Repairs) -> None:
        self._text = text
        self._end = end
        self._ahead = ahead
        self._notes = notes
        self._second_looks = MAX_SECOND_LOOKS
        self._lonely_triples: set[str] = set()

    def take(self, at: int, role: StringRole, depth: int) -> Taken:
        """Take the string whose opening quote is at *at*, inside *depth* open brackets."""
        opening = self._text[at]
        triple = self._find_triple(at, opening, role, depth)
        if triple >= 0:
            self._notes.note(Repair.TRIPLE_QUOTES)
            return Taken(self._content(at + 3, triple, cut=False), triple + 3)
        if opening != '"':
            self._notes.note(_KINDS.get(opening) or Repair.SMART_QUOTES)
        return self._take_quoted(at + 1, opening, role, depth)

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
        if inner.is_odd:
            # One quote too many, beside the one that opens the string or the one that ends it.
            if self._text[start] == opening:
                return self._take_doubled(start + 1, at, inner.count - 1, at + 1)
            if self._text[at - 1] == self._text[at]:
                return self._take_doubled(start, at - 1, inner.count - 1, at + 1)
        return self._take_closed(start, at, inner.count)

    def _take_doubled(self, start: int, at: int, inner: int, behind: int) -> Taken:
        self._notes.note(Repair.DOUBLED_QUOTE)
        return Taken(self._take_closed(start, at, inner).value, behind)

    def _is_inside(self, at: int, inner: InnerQuotes, depth: int) -> bool:
        """Return whether the quote at *at* fits but is one of many.

        In code, or before more code.
        """
        return inner.in_code or (inner.count > 0 and self._ahead.leaves_text(at + 1, depth))

    def _take_closed(self, start: int, at: int, inner: int) -> Taken:
        if inner:
            self._notes.note(Repair.INNER_QUOTE, count=inner)
            if not are_quotations(self._text, start, at):
                self._notes.doubt("quotes in a string that may be its end")
        return Taken(self._content(start, at, cut=False), at + 1)

    def _take_cut(self, start: int, inner: InnerQuotes, role: StringRole, depth: int) -> Taken:
        """Take a string that nothing ends."""
        looks_back = self._second_looks > 0 and not inner.is_code_cut(self._end)
        if looks_back and inner.boundary >= 0:
            return self._take_before_member(start, inner.boundary)
        if looks_back and inner.fitting >= 0:
            self._second_looks -= 1
            return self._take_closed(start, inner.fitting, inner.before_fitting)
        # `"c"` at the end of a line, and prose after: the bracket was forgotten, not the quote.
        if inner.count == 1 and _LINE_END.match(self._text, inner.last + 1, self._end):
            return self._take_closed(start, inner.last, 0)
        # `"C:\dir\"}`: the backslash was meant, and the quote was meant to end the string.
        tail = max(start, self._end - LOOK_AHEAD)
        path_end = _PATH_END.search(self._text, tail, self._end)
        if path_end and looks_like_path(self._text[start : path_end.start()] + "/"):
            return self._take_closed(start, path_end.start() + 1, 0)
        end = self._find_content_end(start, depth)
        is_cut = end == self._end
        self._notes.note(Repair.UNCLOSED_STRING if is_cut else Repair.MISSING_QUOTE)
        content = self._text[start:end]
        if not content.strip() or role is not StringRole.MEMBER:
            self._notes.doubt("an open string, which may be cut")
        elif not are_quotations(self._text, start, end) or _MARKUP.search(content):
            self._notes.doubt("an open string that may hold markup")
        return Taken(self._content(start, end, cut=is_cut), end)

    def _find_content_end(self, start: int, depth: int) -> int:
        """Return where an open string ends whose quote alone is missing: before the brackets.

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
        """Take a string without a closing quote: it ends before the key at *boundary*."""
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
        if has_surplus or not are_quotations(self._text, start, end) or _MARKUP.search(content):
            self._notes.doubt("a string whose end may be elsewhere")
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
        # A fourth quote in front, code after: a plain string that begins with a docstring.
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
        return mend_escapes(content, self._notes)
