"""The dialects of calls with raw values, as data, and what a reader needs of one, compiled.

They all say the same: a section of calls, a call that names its tool, parameters with a key and a
value that is raw text. A `Dialect` says how each of these looks, and how freely models write it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from penstock.parsing.bodies.parameters.tags import (
    MAX_GAP,
    NAME,
    Spelling,
    Tag,
    attributes_of,
    is_self_closing,
    tag,
)
from penstock.parsing.bodies.turn_ends import LAST_TURN_END, TURN_ENDS
from penstock.parsing.scanner import Markers, markers

Trim = Literal["nothing", "newlines", "blanks"]
"""What is no part of a value: nothing, one newline at either end, or all white space there."""


class Dialect(Struct, frozen=True):
    """How calls look in one dialect; tags are templates, see `tags`.

    A marker of *starts* opens a section or a call; no one of them begins another. *lead* may stand
    before the tag of a call, piece by piece, and *trail* behind its end. Where the key stands
    apart, *value* opens the value. *trims* says what is no part of a value.

    *unclosed*: a value may lack its end. *cdata*: a value may be a CDATA section. *nests*: a value
    may hold elements, and a parameter that comes again makes a list. *json* tells where an object
    may stand instead: for the parameters of a call, or also for the calls of a section. *unwraps*:
    a sole parameter ``arguments`` or ``input`` may hold all of them.
    """

    starts: tuple[str, ...]
    call: str
    call_end: str
    parameter: str
    parameter_end: str
    value: str = ""
    section: str = ""
    section_end: str = ""
    lead: tuple[str, ...] = ()
    trail: tuple[str, ...] = ()
    trims: Trim = "nothing"
    spelling: Spelling = Spelling()
    unclosed: bool = False
    cdata: bool = False
    nests: bool = False
    json: Literal["nowhere", "in calls", "in sections"] = "nowhere"
    unwraps: bool = False


class Opening(Struct, frozen=True):
    """The opening tag of a call: the tool's *name*, where the tag ends, whether the call does."""

    name: str
    end: int
    is_whole: bool


class Grammar:
    """A dialect, compiled: its tags, and the questions that a reader asks."""

    def __init__(self, dialect: Dialect) -> None:
        spelling = dialect.spelling
        self.dialect = dialect
        self.section = tag(dialect.section, spelling) if dialect.section else None
        self.call = tag(dialect.call, spelling, dialect.lead)
        self.call_end = tag(dialect.call_end, spelling)
        self.parameter = tag(dialect.parameter, spelling)
        self.value = tag(dialect.value, spelling) if dialect.value else None
        bare = spelling._replace(prefix="")
        self.marks = self._marks()
        self._value_end = tag(dialect.parameter_end, spelling)
        self.trail = tuple(tag(piece, bare) for piece in dialect.trail)
        self.section_ends = (tag(dialect.section_end, spelling),) if dialect.section_end else ()
        next_parameter = dialect.parameter.partition("KEY")[0] if self.value else dialect.parameter
        self.behind_value = (
            tag(next_parameter, spelling), self.call_end, *self.trail, *self.section_ends
        )  # fmt: skip
        next_call = tag(dialect.call.partition("NAME")[0], spelling)
        self.behind_call = (*self.section_ends, next_call)
        self._turn_ends = tuple(tag(token, Spelling()) for token in TURN_ENDS)
        self._last_end = tag(LAST_TURN_END, Spelling())
        gap = r"(?:\s|\\n)" if spelling.escaped else r"\s"
        self._gap = re.compile(rf"{gap}{{0,{MAX_GAP + 1}}}")

    def open_call(self, text: str, at: int = 0) -> Opening | None:
        """Give the call whose opening tag stands at *at*, if it has a name that may be one."""
        found = self.call.match(text, at)
        if found is None:
            return None
        has_attributes = "attributes" in found.groupdict()
        name = attributes_of(found).get("name", "") if has_attributes else found["name"]
        if NAME.fullmatch(name) is None:
            return None
        return Opening(name, found.end(), is_self_closing(found))

    def value_end(self, key: str) -> Tag:
        """Give the tag that ends the value of *key*."""
        if "KEY" not in self.dialect.parameter_end:
            return self._value_end
        return tag(self.dialect.parameter_end.replace("KEY", key), self.dialect.spelling)

    def _marks(self) -> Markers:
        """Give what the end of a value may begin with, or what tells that it was forgotten."""
        dialect = self.dialect
        if dialect.spelling.prefix:
            return markers(dialect.spelling.prefix)
        forgotten = (dialect.parameter, dialect.call_end) if dialect.unclosed else ()
        begins = [re.split("[>=]", end)[0] for end in (dialect.parameter_end, *forgotten)]
        if dialect.spelling.spaced:
            begins += [begin.replace("<", "< ") for begin in begins]
            begins += [begin.replace("/", "/ ") for begin in begins]
        return markers(*begins)

    def skip_gap(self, text: str, at: int) -> int | None:
        """Skip white space from *at* on; None where there is too much of it."""
        found = self._gap.match(text, at)
        end = found.end() if found else at
        if self.dialect.spelling.escaped and text[end : end + 2] == "\\":
            return len(text)  # half a newline: more text will tell
        return None if end - at > MAX_GAP else end

    def follows(self, tags: tuple[Tag, ...], text: str, at: int, *, final: bool) -> bool | None:
        """Tell whether one of *tags*, or the end of the answer, follows *at*; None for not yet.

        *final* tells that no more text will come: then what has begun counts.
        """
        at_tag = self.skip_gap(text, at)
        if at_tag is None:
            return False
        if at_tag == len(text):
            return True if final else None
        if any(each.match(text, at_tag) for each in (*tags, *self._turn_ends)):
            return True
        last = self._last_end.match(text, at_tag)
        if last is not None:
            is_last = self.skip_gap(text, last.end()) == len(text)
            return is_last if final or not is_last else None
        if any(each.is_begun(text, at_tag) for each in (*tags, *self._turn_ends, self._last_end)):
            return True if final else None
        return False


@lru_cache(maxsize=128)
def grammar_of(dialect: Dialect) -> Grammar:
    """Compile *dialect*, once."""
    return Grammar(dialect)
