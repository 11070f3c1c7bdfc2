"""Strings between tags that go out as they come: trimmed, or exactly as they stand.

The white space at the end of a string goes out only when something follows it, for it may be the
end. At most `MAX_TAIL` of it waits: more than that belongs to the string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Final, Protocol

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.readers.base import OpenString, Translated
from penstock.parsing.readers.tagged.tags import MAX_TAG, attributes_of_opening_tags, known_name
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.values.coercion import decode_entities, find_entity
from penstock.values.rxml.closing import is_quoted
from penstock.values.rxml.markup import COMMENT, closing_at, may_become_opening, opening_at

# What ends a raw value: a closing tag, and what has to follow it.
#
# A value is raw text and may hold its own closing tag. A closer names the marks that may end
# its value (`marks`) and judges each: where the value's closing ends, that it is data, or that
# only more text can tell. What is looked at for that has a bound, and the answer never changes
# with more text.


MORE: Final = -2
"""Only more text can tell."""

DATA: Final = -1
"""This ends nothing; any place is greater, the first one too."""

MAX_GAP: Final = 256
"""How much white space may are in and after a closing tag."""

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

        *final* tells that no more text will come; then `MORE` is not an answer.
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
                return end if "name" in attributes_of_opening_tags(tag) else DATA
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
        """Judge an end of a section by the closing tag after it."""
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
        """Judge a mark as *closer* does, which waits for any tag after it to be whole."""
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
        name = attributes_of_opening_tags(tag).get("name", "")
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
    """Return whether more text could make *window* the closing tag of what is around a value."""
    bare = window.rstrip().lower()
    names = [f"</{name}" for name in CALL_ENDS]
    if bare in names:
        return True
    return len(bare) == len(window) and any(name.startswith(bare) for name in names)


@lru_cache(maxsize=512)
def _closing(name: str) -> re.Pattern[str]:
    """Return the pattern of the closing tag of *name*, or of what it may have come to so far."""
    return re.compile(rf"(?ai:</{re.escape(name)})\s{{0,{MAX_GAP}}}>?")


# A string field in raw text, written as it comes, its entities decoded where it was escaped.
#
# Only its end tells whether a string was escaped: one that holds a ``<`` was not. So from its
# first entity on a string waits, until a ``<`` or its end comes; after a ``<`` nothing waits.


_PLAIN: Final = re.compile(r'[<&"\\\x00-\x1f]')
_PLAIN_BEHIND_MARKUP: Final = re.compile(r'[<"\\\x00-\x1f]')
"""What is not plain: it may end or change the string, or strict JSON escapes it."""


class RawString:
    """Writes the open string of *writer*; with *trims* it loses one newline at either end.

    All of the raw text goes to *pieces*, after what is there. *tags* may end the string.
    """

    __slots__ = ("_begun", "_held", "_markup", "_newline", "_pieces", "_start", "_tags", "_trims",
                 "_waiting", "_writer")  # fmt: skip

    def __init__(
        self, tags: Markers, writer: ArgumentWriter, pieces: list[str], *, trims: bool
    ) -> None:
        self._tags = tags
        self._writer = writer
        self._pieces = pieces
        self._start = len(pieces)
        self._trims = trims
        self._begun = not trims  # nothing at the beginning is dropped any more
        self._newline = ""  # the last one: a closing tag may follow
        self._held = ""  # what may become an entity
        self._waiting: list[str] = []  # from the first entity on
        self._markup = False

    def run(self) -> OpenString | None:
        """Return the string as a run, unless any of it waits."""
        if self._waiting or self._held or self._newline or not self._begun:
            return None
        plain = _PLAIN_BEHIND_MARKUP if self._markup else _PLAIN
        return OpenString(plain, self._pieces, self._translate)

    def add(self, piece: str) -> None:
        """Take more of the raw text."""
        self._pieces.append(piece)
        if not self._begun:
            self._begun = True
            piece = piece.removeprefix("\n")
        if self._markup:
            self._write(piece)
        elif "<" in piece:
            self._markup = True
            piece = "".join((*self._waiting, self._held, piece))
            self._waiting, self._held = [], ""
            self._write(piece)
        elif self._waiting:
            self._waiting.append(piece)
        elif self._held or "&" in piece:
            self._write_up_to_entity(self._held + piece)
        else:
            self._write(piece)

    def close(self) -> None:
        """End the string: its closing tag follows."""
        self._writer.close_text(self.finish(at_tag=True))

    def finish(self, *, at_tag: bool) -> str:
        """Write what has waited, for no more of the string will come; return all that it says.

        *at_tag* tells that a tag follows, and a newline before it may be trimmed.
        """
        rest, raw = self._rest(), self._raw()
        if at_tag and self._trims:
            rest, raw = rest.removesuffix("\n"), raw.removesuffix("\n")
        if rest:
            self._writer.add_text(rest if self._markup else decode_entities(rest))
        return decode_entities(raw)

    def gone_out(self) -> str:
        """Return what the string says as far as it was written: what waits is not part of it."""
        raw = self._raw()
        return raw[: len(raw) - len(self._rest())]

    def _rest(self) -> str:
        """Return what was taken and not written yet."""
        return self._newline + "".join(self._waiting) + self._held

    def _raw(self) -> str:
        raw = "".join(self._pieces[self._start :])
        return raw.removeprefix("\n") if self._trims else raw

    def _translate(self, text: str) -> Translated | None:
        """Read a piece that holds no tag of the string's own name, and nothing that may wait."""
        size = len(text)
        if not self._markup:
            if "<" in text or "&" in text:
                return None
        elif "<" in text:
            if self._tags.find(text) is not None:
                return None
            size = self._tags.find_held(text)
        if self._trims and text[size - 1 : size] == "\n":
            size -= 1
        text = text[:size]
        return text, encode_basestring(text)[1:-1], size

    def _write_up_to_entity(self, text: str) -> None:
        at, is_whole = find_entity(text)
        self._write(text[:at])
        if is_whole:
            self._waiting, self._held = [text[at:]], ""
        else:
            self._held = text[at:]

    def _write(self, text: str) -> None:
        if self._trims:
            text = self._newline + text
            self._newline = "\n" if text.endswith("\n") else ""
            text = text.removesuffix("\n")
        if text:
            self._writer.add_text(text)


MAX_TAIL: Final = 1024
"""How much white space at the end of a string waits for what follows."""


class OpenValue(Protocol):
    """Takes the text of a value while it comes."""

    def add(self, piece: str) -> None:
        """Take more of the text."""

    def close(self, mark: str) -> None:
        """End the value, at *mark*."""

    def flush(self) -> None:
        """Write what is held back, for a value that is cut."""

    def gone_out(self) -> str | None:
        """Return what was written so far of a string that streams."""

    def run(self) -> OpenString | None:
        """Return the value as a run, if it is a string and none of it waits."""


def read_value(value: OpenValue, closer: Closer, scanner: Scanner, *, final: bool = False) -> bool:
    """Read on in *value*, up to what ends it by its *closer*; return whether it has ended.

    *final* says that no more text will come.
    """
    text, marks = scanner.text, closer.marks
    while found := marks.find(text, scanner.at):
        _add(value, scanner, found.start())
        end = closer.judge(text, found.start(), final=final)
        if end == MORE:
            return False
        if end != DATA:
            scanner.at = end
            value.close(found[0])
            return True
        _add(value, scanner, found.end())
    _add(value, scanner, len(text) if final else marks.find_held(text, scanner.at))
    return False


def _add(value: OpenValue, scanner: Scanner, end: int) -> None:
    at = scanner.at
    if end > at:
        scanner.at = end
        value.add(scanner.text[at:end])


def _as_it_is(text: str) -> Translated:
    return text, encode_basestring(text)[1:-1], len(text)


class Tail:
    """The white space that a text ends with just now, with *lines* only from its first newline."""

    __slots__ = ("_flooded", "_lines", "held")

    def __init__(self, *, lines: bool = False) -> None:
        self.held = ""
        self._lines = lines
        self._flooded = False  # there was too much of it: it goes out until something else comes

    @property
    def is_clear(self) -> bool:
        """Whether nothing is held back, and nothing was too much."""
        return not (self.held or self._flooded)

    def push(self, piece: str) -> str:
        """Take more text; return all that is not a tail."""
        if self._flooded:
            if piece.isspace():
                return piece
            self._flooded = False
        text = self.held + piece
        end = self.find(text)
        self.held = text[end:]
        if len(self.held) > MAX_TAIL:
            self.held = ""
            self._flooded = True
            return text
        return text[:end]

    def find(self, text: str) -> int:
        """Find where the tail of *text* begins."""
        end = len(text.rstrip())
        if not self._lines:
            return end
        newline = text.find("\n", end)
        return newline if newline != -1 else len(text)


class TrimmedString:
    """A string without the white space around it; entities are decoded where it holds no ``<``.

    Whoever makes it has skipped the white space before it. *marks* may end it.
    """

    def __init__(self, marks: Markers, writer: ArgumentWriter) -> None:
        self._pieces: list[str] = []
        self._string = RawString(marks, writer, self._pieces, trims=False)
        self._tail = Tail()
        self._is_cut = False
        self._translate_inner: Callable[[str], Translated | None] = _as_it_is

    def add(self, piece: str) -> None:
        """Take more of the text."""
        shown = self._tail.push(piece)
        if shown:
            self._string.add(shown)

    def close(self, mark: str) -> None:
        """End the string, at *mark*."""
        del mark
        self._string.close()

    def flush(self) -> None:
        """Write what waits, for a string that is cut; white space at its end stays unwritten."""
        self._string.finish(at_tag=False)
        self._is_cut = True

    def gone_out(self) -> str:
        """Return what was written so far."""
        text = "".join(self._pieces)
        if self._is_cut:
            return decode_entities(text)
        return text if "<" in text else text[: find_entity(text)[0]]

    def run(self) -> OpenString | None:
        """Return the string as a run, unless any of it waits."""
        inner = self._string.run() if self._tail.is_clear else None
        if inner is None or inner.translate is None:
            return None
        self._translate_inner = inner.translate
        return OpenString(_with_blank_end(inner.gate), self._pieces, self._translate)

    def _translate(self, text: str) -> Translated | None:
        """Read a piece; the white space at its end is left."""
        shown = text.rstrip()
        if len(text) - len(shown) > MAX_TAIL:
            return None
        translated = self._translate_inner(shown)
        if translated is not None and translated[0][-1:].isspace():
            return self._translate_inner(translated[0].rstrip())  # after it may be a mark
        return translated


class PlainString:
    """A string exactly as it stands; *marks* may end it.

    With *skips*, a newline at its beginning is not one of it; with *drops*, neither is the white
    space from the newline on that its last line ends with, if it ends at a tag.
    """

    def __init__(
        self, marks: Markers, writer: ArgumentWriter, *, skips: bool = False, drops: bool = False
    ) -> None:
        self._pieces: list[str] = []
        self._writer = writer
        self._marks = marks
        self._skips = skips
        self._tail = Tail(lines=True) if drops else None

    def add(self, piece: str) -> None:
        """Take more of the text."""
        if self._skips and piece:
            self._skips = False
            piece = piece.removeprefix("\n")
        self._write(piece if self._tail is None else self._tail.push(piece))

    def close(self, mark: str) -> None:
        """End the string, at *mark*."""
        if not mark.startswith("<"):
            self.flush()
        self._writer.close_text("".join(self._pieces))

    def flush(self) -> None:
        """Write what is held back, for a string that is cut."""
        if self._tail is not None:
            self._write(self._tail.held)

    def gone_out(self) -> str:
        """Return what was written so far."""
        return "".join(self._pieces)

    def run(self) -> OpenString | None:
        """Return the string as a run, unless any of it waits."""
        if self._skips or not (self._tail is None or self._tail.is_clear):
            return None
        return OpenString(_plain(self._marks.literals), self._pieces, self._translate)

    def _write(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._writer.add_text(text)

    def _translate(self, text: str) -> Translated | None:
        """Read a piece that holds no mark; what may begin one, or is a tail, is left."""
        size = len(text)
        if self._marks.gate(text) is not None:
            if self._marks.find(text) is not None:
                return None
            size = self._marks.find_held(text)
        if self._tail is not None:
            end = self._tail.find(text[:size])
            if size - end > MAX_TAIL:
                return None
            size = end
        text = text[:size]
        return text, encode_basestring(text)[1:-1], size


@lru_cache(maxsize=64)
def _with_blank_end(gate: re.Pattern[str]) -> re.Pattern[str]:
    """Let *gate*, a set of characters, stop white space at the end, too.

    One set that holds both is found much faster than either of two patterns; what is white space
    and not at the end is then let pass.
    """
    special = gate.pattern[1:-1]
    return re.compile(rf"[{special}\s](?:(?<=[{special}])|\Z)")


@lru_cache(maxsize=512)
def _plain(marks: tuple[str, ...]) -> re.Pattern[str]:
    """Return what is not plain: what may begin one of *marks*, or strict JSON escapes."""
    firsts = "".join(sorted({mark[0] for mark in marks}))
    return re.compile(rf'[{re.escape(firsts)}"\\\x00-\x1f]')
