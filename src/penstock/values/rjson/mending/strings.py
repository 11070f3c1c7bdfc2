"""Reads strings of broken JSON, and keeps every character of them.

`LookAhead` says which quote ends a string; the quotes before it are data. A string that the end of
the text cuts keeps what arrived, without the half of an escape.

Where they stand in brackets of code that the string holds, `InnerQuotes` tells them apart as well:
``["a", "b"]`` ends no string behind ``a``.

One guess looks back. In ``{"a": "x, "b": "y"}`` the quote that is missing is the one after ``x``,
and every quote behind it would be taken for an inner one. So where a key with its colon began at an
inner quote, and the quotes do not pair up or the string never ends, the string is taken to end
before that key. Likewise, where brackets held on to every quote up to the end, the first one that
fits ends the string. Looking back reads again what was read, so a text gets `MAX_SECOND_LOOKS` of
it.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from penstock.values.rjson.escapes import drop_cut_escape, looks_like_path, mend_escapes
from penstock.values.rjson.mending.blanks import CONTROL_TOKEN
from penstock.values.rjson.mending.inner_quotes import InnerQuotes, are_quotations
from penstock.values.rjson.mending.lookahead import LOOK_AHEAD, LookAhead, Role
from penstock.values.rjson.repairs import Repair, Repairs

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
    """A string that was read, and where the text goes on."""

    value: str
    end: int


class StringMender:
    """Takes strings out of the text before *end*, noting what was mended."""

    def __init__(self, text: str, end: int, ahead: LookAhead, notes: Repairs) -> None:
        self._text = text
        self._end = end
        self._ahead = ahead
        self._notes = notes
        self._second_looks = MAX_SECOND_LOOKS
        self._lonely_triples: set[str] = set()

    def take(self, at: int, role: Role, depth: int) -> Taken:
        """Take the string whose opening quote is at *at*, inside *depth* open brackets."""
        opening = self._text[at]
        triple = self._find_triple(at, opening, role, depth)
        if triple >= 0:
            self._notes.note(Repair.TRIPLE_QUOTES)
            return Taken(self._content(at + 3, triple, cut=False), triple + 3)
        if opening != '"':
            self._notes.note(_KINDS.get(opening) or Repair.SMART_QUOTES)
        return self._take_quoted(at + 1, opening, role, depth)

    def _take_quoted(self, start: int, opening: str, role: Role, depth: int) -> Taken:
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
            if inner.boundary < 0 and role is Role.MEMBER and self._begins_member(start, at):
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
        """Tell whether the quote at *at* fits but is one of many: in code, or before more code."""
        return inner.in_code or (inner.count > 0 and self._ahead.leaves_text(at + 1, depth))

    def _take_closed(self, start: int, at: int, inner: int) -> Taken:
        if inner:
            self._notes.note(Repair.INNER_QUOTE, count=inner)
            if not are_quotations(self._text, start, at):
                self._notes.doubt("quotes in a string that may be its end")
        return Taken(self._content(start, at, cut=False), at + 1)

    def _take_cut(self, start: int, inner: InnerQuotes, role: Role, depth: int) -> Taken:
        """Take a string that nothing ends."""
        looks_back = self._second_looks > 0 and not inner.is_code_cut(self._end)
        if looks_back and inner.boundary >= 0:
            return self._take_before_member(start, inner.boundary)
        if looks_back and inner.fitting >= 0:
            self._second_looks -= 1
            return self._take_closed(start, inner.fitting, inner.before_fitting)
        # `"c"` at the end of a line, and prose behind: the bracket was forgotten, not the quote.
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
        if not content.strip() or role is not Role.MEMBER:
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

    def _find_triple(self, at: int, quote: str, role: Role, depth: int) -> int:
        """Return where the string in triple quotes ends that begins at *at*, or -1."""
        mark = quote * 3
        if role is Role.KEY or mark in self._lonely_triples or not self._text.startswith(mark, at):
            return -1
        end = self._text.find(mark, at + 3, self._end)
        if end < 0:
            self._lonely_triples.add(mark)
            return -1
        # A fourth quote in front, code behind: a plain string that begins with a docstring.
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
