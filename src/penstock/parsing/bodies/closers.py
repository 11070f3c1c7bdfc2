"""What ends a raw value: a closing tag, and what has to follow it.

A value is raw text and may hold its own closing tag. A closer names the marks that may end its
value (`marks`) and judges each: where the value's closing ends, that it is data, or that only more
text can tell. What is looked at for that has a bound, and the answer never changes with more text.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final, Protocol

from penstock.parsing.bodies.opening_tags import MAX_TAG, attributes_of, known_name
from penstock.parsing.scanner import Markers, markers
from penstock.values.rxml.closing import is_quoted
from penstock.values.rxml.markup import COMMENT, closing_at, may_become_opening, opening_at

MORE: Final = -2
"""Only more text can tell."""

DATA: Final = -1
"""This ends nothing; any place is greater, the first one too."""

MAX_GAP: Final = 256
"""How much white space may stand in and behind a closing tag."""

CALL_ENDS: Final = ("arguments", "tool")
"""The elements around a value, whose closing tags may follow it."""

MAX_COMMENTS: Final = 1024
"""How many characters of comments may stand between a closing tag and what follows it."""

MAX_REMARK: Final = 64
"""How much text that says nothing, like a comma, may stand between two arguments."""

_COMMENT_END: Final = "-->"
_SECTION_END: Final = "]]>"
_GAP: Final = re.compile(rf"\s{{0,{MAX_GAP + 1}}}")


class Closer(Protocol):
    """Knows what ends one value."""

    @property
    def marks(self) -> Markers:
        """What may begin the closing of the value."""

    def judge(self, text: str, at: int, *, final: bool) -> int:
        """Judge the mark at *at*: give the end of the closing, `DATA` or `MORE`.

        *final* tells that no more text will come; then `MORE` is no answer.
        """


class FirstCloser:
    """The first closing tag of *name* ends the value."""

    def __init__(self, name: str) -> None:
        self.marks = markers(f"</{name}", fold=True)
        self._name = name

    def judge(self, text: str, at: int, *, final: bool) -> int:
        """Judge a closing tag by itself."""
        return _settled(closing_end(text, at, self._name), final=final)


class StrictCloser:
    """A closing tag of *name* ends the value where something follows that may follow a value.

    That is the end of the call or of its arguments, ``<arg name=…>``, the opening tag of another
    argument (*known* has their names; with None any tag may be one), or the end of all text, white
    space and comments aside. With *nests*, the value holds elements: a closing tag that belongs to
    an element of the same name inside is data.

    Where *nests* is None the value is content exactly as it stands, which has to end strictly. In
    any other a remark may stand before the next ``<arg name=…>`` or the end of the call.
    """

    def __init__(
        self, name: str, known: Collection[str] | None, *, nests: bool | None = None
    ) -> None:
        opening = () if nests is None else (f"<{name}",)
        self.marks = markers(f"</{name}", *opening, fold=True)
        self._name = name
        self._known = known
        self._nests = bool(nests)
        self._remarks = nests is not None
        self._unmatched = 0  # opening tags of the same name inside the value

    def judge(self, text: str, at: int, *, final: bool) -> int:
        """Judge a closing tag by what follows it; count an opening tag."""
        if not text.startswith("</", at):
            return self._count(text[at : at + MAX_TAG], final=final)
        end = _settled(closing_end(text, at, self._name), final=final)
        if end <= DATA:
            return end
        return self.judge_end(text, end, final=final)

    def judge_end(self, text: str, end: int, *, final: bool) -> int:
        """Judge the closing tag that ends at *end*."""
        follows = skip_margin(text, end)
        if follows == DATA or is_quoted(text, end):
            verdict = DATA
        elif follows in (MORE, len(text)):
            verdict = end if final else MORE
        elif text[follows] == "<":
            window = text[follows : follows + MAX_TAG]
            verdict = self._judge_follower(window, end, self._known, final=final)
        elif self._remarks and not self._unmatched:
            verdict = self._judge_remark(text, follows, end, final=final)
        else:
            verdict = DATA
        if verdict == DATA:
            self._unmatched = max(0, self._unmatched - 1)
        return verdict

    def _judge_remark(self, text: str, at: int, end: int, *, final: bool) -> int:
        """Judge the closing tag that ends at *end* by what follows the remark at *at*."""
        tag = text.find("<", at, at + MAX_REMARK + 1)
        if tag == -1:
            return DATA if final or len(text) - at > MAX_REMARK else MORE
        follows = skip_margin(text, tag)
        if follows in (MORE, len(text)):
            return DATA if final else MORE
        if follows == DATA or text[follows] != "<":
            return DATA
        return self._judge_follower(text[follows : follows + MAX_TAG], end, (), final=final)

    def _judge_follower(
        self, window: str, end: int, known: Collection[str] | None, *, final: bool
    ) -> int:
        """Judge the closing tag that ends at *end* by the tag that *window* begins with."""
        closing = closing_at(window, 0)
        if closing is not None:
            return end if closing[0].lower() in CALL_ENDS else DATA
        tag = opening_at(window, 0)
        if tag is not None:
            if self._nests and self._unmatched:
                return DATA
            if tag.name.lower() == "arg":
                return end if "name" in attributes_of(tag) else DATA
            return end if known is None or tag.name in known else DATA
        if not (may_become_opening(window, 0) or _may_end_call(window)):
            return DATA
        if final:
            return end
        return MORE if len(window) < MAX_TAG else DATA

    def _count(self, window: str, *, final: bool) -> int:
        tag = opening_at(window, 0)
        if tag is None and not final and len(window) < MAX_TAG and may_become_opening(window, 0):
            return MORE
        is_own = tag is not None and tag.name.lower() == self._name.lower() and not tag.empty
        self._unmatched += is_own
        return DATA


class SectionCloser:
    """A CDATA section ends the value where the value's closing tag follows its end."""

    def __init__(self, name: str, known: Collection[str] | None) -> None:
        self.marks = markers(_SECTION_END)
        self._name = name
        self._strict = StrictCloser(name, known, nests=False)

    def judge(self, text: str, at: int, *, final: bool) -> int:
        """Judge an end of a section by the closing tag behind it."""
        end = _settled(closing_behind(text, at + len(_SECTION_END), self._name), final=final)
        return self._strict.judge_end(text, end, final=final) if end > DATA else end


class CallCloser:
    """What *closer* lets end the value of *tag* does; so does a closing tag before another call.

    That is the opening tag of one of *tools*: the model forgot to end this call.
    """

    def __init__(self, closer: Closer, tag: str, tools: Collection[str]) -> None:
        self.marks = closer.marks
        self._closer = closer
        self._tag = tag
        self._tools = tools

    def judge(self, text: str, at: int, *, final: bool) -> int:
        """Judge a mark as *closer* does, which waits for any tag behind it to be whole."""
        verdict = self._closer.judge(text, at, final=final)
        if verdict != DATA:
            return verdict
        if text.startswith(_SECTION_END, at):
            end = closing_behind(text, at + len(_SECTION_END), self._tag)
        else:
            end = closing_end(text, at, self._tag)
        follows = skip_gap(text, end) if end > DATA else DATA
        if follows == DATA:
            return DATA
        tag = opening_at(text[follows : follows + MAX_TAG], 0)
        if tag is None or tag.name.lower() != "tool":
            return DATA
        name = attributes_of(tag).get("name", "")
        return DATA if known_name(name, self._tools) is None else end


class MarkerCloser:
    """The end marker ends the value where the closing tag follows it.

    Where the end marker was forgotten, a closing tag does that ends the call as well, if nothing
    follows the call. Anywhere else the closing tags are content: it may be a file about calls, and
    such a file must not be cut.
    """

    def __init__(self, name: str, end_marker: str) -> None:
        self.marks = markers(end_marker, f"</{name}", fold=True)
        self._name = name
        self._end_marker = end_marker

    def judge(self, text: str, at: int, *, final: bool) -> int:
        """Judge an end marker, or a closing tag without one."""
        if text.startswith(self._end_marker, at):
            behind = at + len(self._end_marker)
            return _settled(closing_behind(text, behind, self._name), final=final)
        end = closing_end(text, at, self._name)
        if end <= DATA:
            return _settled(end, final=final)
        return self._judge_call_end(text, end, final=final)

    def _judge_call_end(self, text: str, end: int, *, final: bool) -> int:
        """Judge the closing tag that ends at *end* by whether the call ends with it."""
        arguments = closing_behind(text, end, "arguments")
        tool = closing_behind(text, arguments if arguments > DATA else end, "tool")
        if tool <= DATA:
            is_begun = MORE in (arguments, tool)
            return _settled(MORE if is_begun else DATA, final=final)
        if skip_gap(text, tool) != len(text):
            return DATA
        return end if final else MORE


def closing_end(text: str, at: int, name: str) -> int:
    """Find the end of the closing tag of *name* at *at*, in any case."""
    found = _closing(name).match(text, at)
    if found is None:
        return DATA
    if found.end() == len(text) and not found[0].endswith(">"):
        return MORE
    return found.end() if found[0].endswith(">") else DATA


def closing_behind(text: str, at: int, name: str) -> int:
    """Find the end of the closing tag of *name* that follows *at*, white space aside."""
    follows = skip_gap(text, at)
    if follows == len(text):
        return MORE
    if follows == DATA:
        return DATA
    if markers(f"</{name}", fold=True).find_held(text, follows) == follows:
        return MORE
    return closing_end(text, follows, name)


def skip_gap(text: str, at: int) -> int:
    """Skip white space from *at* on; `DATA` where there is too much of it."""
    found = _GAP.match(text, at)
    end = at if found is None else found.end()
    return DATA if end - at > MAX_GAP else end


def skip_margin(text: str, at: int) -> int:
    """Skip white space and comments from *at* on; `DATA` where there is too much of either.

    `MORE` tells that a comment has no end yet.
    """
    limit = at + MAX_COMMENTS
    at = skip_gap(text, at)
    while at != DATA and text.startswith(COMMENT, at):
        end = text.find(_COMMENT_END, at + len(COMMENT), limit)
        if end == -1:
            return MORE if len(text) < limit else DATA
        at = skip_gap(text, end + len(_COMMENT_END))
    is_begun = 0 < len(text) - at < len(COMMENT) and COMMENT.startswith(text[at:])
    return MORE if at != DATA and is_begun else at


def _settled(verdict: int, *, final: bool) -> int:
    return DATA if final and verdict == MORE else verdict


def _may_end_call(window: str) -> bool:
    """Tell whether more text could make *window* the closing tag of what is around a value."""
    bare = window.rstrip().lower()
    names = [f"</{name}" for name in CALL_ENDS]
    if bare in names:
        return True
    return len(bare) == len(window) and any(name.startswith(bare) for name in names)


@lru_cache(maxsize=512)
def _closing(name: str) -> re.Pattern[str]:
    """Give the pattern of the closing tag of *name*, or of what it may have come to so far."""
    return re.compile(rf"(?ai:</{re.escape(name)})\s{{0,{MAX_GAP}}}>?")
