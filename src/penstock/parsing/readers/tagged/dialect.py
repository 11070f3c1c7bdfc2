"""The dialects of calls with raw values, as data, and what a reader needs of one, compiled.

They all say the same: a section of calls, a call that names its tool, parameters with a key and a
value that is raw text. A `TagDialect` says how each of these looks, and how freely models write it.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from penstock.parsing.readers.plausible import LAST_TURN_END, TURN_ENDS
from penstock.parsing.readers.tagged.tags import (
    MAX_GAP,
    NAME,
    ParameterTag,
    Spelling,
    attributes_of,
    is_self_closing,
    tag,
)
from penstock.parsing.scanner import Markers, markers

Trim = Literal["nothing", "newlines", "blanks"]
"""What is not a part of a value: nothing, one newline at either end, or all white space there."""


class TagDialect(Struct, frozen=True):
    """How calls look in one dialect; tags are templates, see `tags`.

    A marker of *starts* opens a section or a call; no one of them begins another. *lead* may stand
    before the tag of a call, piece by piece, and *trail* after its end. Where the key stands
    apart, *value* opens the value. *trims* says what is not a part of a value.

    *special*: tags are tokens that the model cannot write as data, so no value holds one. *cdata*:
    a value may be a CDATA section. *nests*: a value may hold elements. *json* tells where an object
    may be instead: for the parameters of a call, or also for the calls of a section. *unwraps*: a
    sole parameter ``arguments`` or ``input`` may hold all of them.
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
    special: bool = False
    cdata: bool = False
    nests: bool = False
    json: Literal["nowhere", "in calls", "in sections"] = "nowhere"
    unwraps: bool = False


class TagOpening(Struct, frozen=True):
    """The opening tag of a call: the tool's *name*, where the tag ends, whether the call does."""

    name: str
    end: int
    is_whole: bool


class TagKind(Enum):
    """What a tag of a dialect is."""

    SECTION = "the beginning of a section"
    SECTION_END = "the end of a section"
    CALL = "the beginning of a call"
    CALL_END = "the end of a call"
    TRAIL = "what may follow a call"
    PARAMETER = "a parameter"
    KEY = "a piece of the tag of a key"
    VALUE = "the beginning of a value whose key comes before it"
    VALUE_END = "the end of a value"
    TURN_END = "the end of the turn"


_OUTER_KINDS: Final = frozenset(
    {TagKind.SECTION, TagKind.SECTION_END, TagKind.CALL, TagKind.TRAIL, TagKind.TURN_END}
)
"""Tags that come between calls, not inside one."""


class Token(NamedTuple):
    """A tag that was found in a text, and where it ends."""

    kind: TagKind
    end: int
    found: re.Match[str]


class Grammar:
    """A dialect, compiled: its tags, and the questions that a reader asks."""

    def __init__(self, dialect: TagDialect) -> None:
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
        has_attributes = 'name="NAME"' in dialect.call
        begins = dialect.call if has_attributes else dialect.call.partition("NAME")[0]
        self._next_call = tag(begins, spelling)
        self._turn_ends = tuple(tag(token, Spelling()) for token in TURN_ENDS)
        self._last_end = tag(LAST_TURN_END, Spelling())
        self._tokens = self._all_tokens()
        self._after_call = tuple(each for kind, each in self._tokens if kind in _OUTER_KINDS)
        gap = r"(?:\s|\\n)" if spelling.escaped else r"\s"
        self._gap = re.compile(rf"{gap}{{0,{MAX_GAP + 1}}}")

    def _all_tokens(self) -> tuple[tuple[TagKind, ParameterTag], ...]:
        """Return the tags of the dialect; of two that match at one place the first counts."""
        dialect, bare = self.dialect, self.dialect.spelling._replace(prefix="")
        tokens = [(TagKind.CALL_END, self.call_end)]
        tokens += [(TagKind.SECTION_END, each) for each in self.section_ends]
        if self.section is not None:
            tokens.append((TagKind.SECTION, self.section))
        tokens.append((TagKind.CALL, self._next_call))
        tokens += [(TagKind.CALL, tag(piece, bare)) for piece in dialect.lead if "<" in piece]
        tokens += [(TagKind.TRAIL, each) for each in self.trail]
        tokens += [(TagKind.VALUE_END, self._value_end), (TagKind.PARAMETER, self.parameter)]
        if self.value is not None:
            tokens.append((TagKind.VALUE, self.value))
            key_tags = dialect.parameter.split("KEY")
            tokens += [(TagKind.KEY, tag(piece, dialect.spelling)) for piece in key_tags]
        after_name = dialect.call.partition("NAME")[2]
        if after_name.startswith("<"):
            tokens.append((TagKind.TRAIL, tag(after_name, dialect.spelling)))
        tokens += [(TagKind.TURN_END, each) for each in self._turn_ends]
        return tuple(tokens)

    def token(self, text: str, at: int) -> Token | None:
        """Return the tag at *at*, if there is one."""
        for kind, each in self._tokens:
            found = each.match(text, at)
            if found is not None:
                if kind is TagKind.KEY and self.parameter.is_begun(text, at):
                    return None  # It may be a whole parameter.
                return Token(kind, found.end(), found)
        return None

    def may_become_token(self, text: str, at: int) -> bool:
        """Return whether *text* ends inside what may become a tag, from *at* on."""
        return any(each.is_begun(text, at) for _, each in self._tokens)

    def may_become_end(self, text: str, at: int) -> bool:
        """Return whether *text* ends inside the end of a call, of its section or of the turn."""
        ends = (self.call_end, *self.section_ends, *self.trail, *self._turn_ends, self._last_end)
        last = self._last_end.match(text, at)
        if last is not None and self.skip_gap(text, last.end()) == len(text):
            return True
        return any(each.is_begun(text, at) for each in ends)

    def open_call(self, text: str, at: int = 0) -> TagOpening | None:
        """Return the call whose opening tag is at *at*, if it has a name that may be one."""
        found = self.call.match(text, at)
        if found is None:
            return None
        has_attributes = "attributes" in found.groupdict()
        name = attributes_of(found).get("name", "") if has_attributes else found["name"]
        if NAME.fullmatch(name) is None:
            return None
        return TagOpening(name, found.end(), is_self_closing(found))

    @property
    def ends(self) -> tuple[str, ...]:
        """What may end a value: a grammar for the model's text keeps it out of values."""
        prefix = self.dialect.spelling.prefix
        if prefix:
            return (prefix,)
        tags = (self.dialect.parameter_end, self.dialect.parameter, self.dialect.call_end)
        return tuple(re.split("[>= ]", each)[0] for each in tags)

    def _marks(self) -> Markers:
        """Return what the tags of the dialect begin with, and those that end a turn."""
        dialect, spelling = self.dialect, self.dialect.spelling
        if spelling.prefix:
            return markers(spelling.prefix, *TURN_ENDS)
        tags = [dialect.parameter, dialect.parameter_end, dialect.value, dialect.call]
        tags += [dialect.call_end, dialect.section, dialect.section_end]
        begins = [re.split("[>= ]", each)[0] for each in tags if each]
        if dialect.value:
            begins.append(dialect.parameter.split("KEY")[1].removesuffix(">"))
        after_name = dialect.call.partition("NAME")[2]
        begins += [after_name] if after_name.startswith("<") else []
        begins += [piece for piece in (*dialect.lead, *dialect.trail) if "<" in piece]
        if spelling.spaced:
            begins += [begin.replace("<", "< ") for begin in begins]
            begins += [begin.replace("/", "/ ") for begin in begins]
        if any("｜" in begin for begin in begins):  # noqa: RUF001 - the token is spelled so
            begins += [f"<{slash}{bar}" for slash in ("", "/") for bar in "｜|"]  # noqa: RUF001
        return markers(*begins, *TURN_ENDS)

    def skip_gap(self, text: str, at: int) -> int | None:
        """Skip white space from *at* on; None where there is too much of it."""
        found = self._gap.match(text, at)
        end = found.end() if found else at
        if self.dialect.spelling.escaped and text[end : end + 2] == "\\":
            return len(text)  # half a newline: more text will tell
        return None if end - at > MAX_GAP else end

    def ends_call(self, text: str, at: int, *, final: bool) -> bool | None:
        """Return whether what follows *at* can follow the end of a call; None for not yet.

        That is another call, the end of the section or of the turn, or the end of the text. *final*
        tells that no more text will come: then what has begun counts.
        """
        at_tag = self.skip_gap(text, at)
        if at_tag is None:
            return False
        if at_tag == len(text):
            return True if final else None
        if any(each.match(text, at_tag) for each in self._after_call):
            return True
        last = self._last_end.match(text, at_tag)
        if last is not None:
            is_last = self.skip_gap(text, last.end()) == len(text)
            return is_last if final or not is_last else None
        if any(each.is_begun(text, at_tag) for each in (*self._after_call, self._last_end)):
            return True if final else None
        return False


@lru_cache(maxsize=128)
def grammar_of(dialect: TagDialect) -> Grammar:
    """Compile *dialect*, once."""
    return Grammar(dialect)
