"""Calls whose parameters are raw text between tags: their dialects as data, and their readers.

All dialects have the same structure: an optional section of calls, calls that name their tool, and
parameters with a key and a value that is raw text. A `TagDialect` shows how each of these is
written; `CompiledDialect` has the tags and finds them in a text. `parameters` reads calls
in any dialect, `endings` decides where a value ends.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from msgspec import Struct

from penstock._json import SURROGATE
from penstock.parsing.scanner import Markers, markers, skip_match
from penstock.readers.tagged.damaged_tags import DamagedTags
from penstock.readers.tagged.tags import (
    BLANKS,
    MAX_GAP,
    MAX_TAG,
    NAME,
    FoundTag,
    Spelling,
    TagChoice,
    make_any_tag,
    make_tag,
)
from penstock.values.control_tokens import LAST_TURN_END, TURN_ENDS

Trim = Literal["exact", "nothing", "newlines", "any newlines", "lines", "blanks"]
"""What is not part of a value: nothing, one newline at either end, or all white space there.

With "lines" the newlines count only where the value begins with one: it is on lines of its own.
With "any newlines" they may be ``\\r\\n``, as some servers write them: a value that begins with it
also ends with it.

With "nothing" a newline at the end waits, because a forgotten closing tag drops it; with "exact" it
is emitted at once, and a value that ends with one needs its closing tag.
"""


class TagDialect(Struct, frozen=True, cache_hash=True):
    """How one dialect writes calls; tags are templates, see `make_tag`.

    A marker of *starts* opens a section or a call; none is a prefix of another. *other_sections*
    are tags that may be in the place of *section*, *other_ends* in that of *call_end*. Pieces of
    *lead* may come before the tag of a call, *trail* after its end, *after_name* after the name in
    it. Where key and value have tags
    of their own, *value* opens the value. *trims* is the white space that is not part of a value.

    *special*: tags are tokens that the model cannot write as data, so no value holds one.
    *controls*: other tokens of which the same is true; *separator* is the one that ends every tag,
    *header* the one that begins the next message.
    *cdata*: a value may be a CDATA section. *nests*: a value may hold elements. *json* is where a
    JSON object may be instead: for the parameters of a call, or also for the calls of a section,
    for a whole call (K2-Horizon), or for the parameters after a ``>`` (GLM-5.3-Flash).
    *unwraps*: a sole parameter ``arguments`` or ``input`` may hold all of them. *type_attribute*
    declares the type of a value: a JSON type, or whether it is a string (DSML's ``string``);
    *type_tag* does so between the key and the value.
    """

    starts: tuple[str, ...]
    call: str
    call_end: str
    parameter: str
    parameter_end: str
    value: str = ""
    section: str = ""
    section_end: str = ""
    other_sections: tuple[str, ...] = ()
    other_ends: tuple[str, ...] = ()
    lead: tuple[str, ...] = ()
    trail: tuple[str, ...] = ()
    after_name: str = ""
    controls: tuple[str, ...] = ()
    separator: str = ""
    header: str = ""
    trims: Trim = "nothing"
    spelling: Spelling = Spelling()
    special: bool = False
    cdata: bool = False
    nests: bool = False
    json: Literal["nowhere", "in calls", "in sections", "as calls", "after names"] = "nowhere"
    unwraps: bool = False
    type_attribute: str = "string"
    type_tag: str = ""


class TagKind(Enum):
    """What a tag of a dialect is."""

    SECTION = "the beginning of a section"
    SECTION_END = "the end of a section"
    CALL = "the beginning of a call"
    NAME_END = "what may follow the name of a call"
    CALL_END = "the end of a call"
    TRAIL = "what may follow a call"
    PARAMETER = "a parameter"
    KEY = "a piece of the tag of a key"
    VALUE = "the beginning of a value whose key comes before it"
    TYPE = "the type of a value whose key comes before it"
    VALUE_END = "the end of a value"
    TURN_END = "the end of the turn"
    CONTROL = "another token that no value has"


_OUTER_KINDS: Final = frozenset(
    {TagKind.SECTION, TagKind.SECTION_END, TagKind.CALL, TagKind.TRAIL, TagKind.TURN_END}
)
"""Tags that come between calls, not inside one."""

_BEGUN_TAG: Final = re.compile(r"</?\w{3,64}+")
_INNER_KINDS: Final = frozenset(
    {TagKind.PARAMETER, TagKind.VALUE, TagKind.TYPE, TagKind.VALUE_END, TagKind.CALL_END}
)
"""Tags inside a call, and its end."""

_PARTIAL_KINDS: Final = frozenset({TagKind.KEY, TagKind.CONTROL})
"""Tags that may turn out to be the beginning of a longer one."""


class Token(Struct, frozen=True, gc=False):
    """A tag that was found in a text, and what it is."""

    kind: TagKind
    tag: FoundTag

    @property
    def end(self) -> int:
        """Where the tag ends."""
        return self.tag.end


class SimpleParameter(Struct, frozen=True, gc=False):
    """A parameter whose value is plain text, and where it ends.

    *kind* is the type that its tag declares, if it does.
    """

    key: str
    kind: str
    value: str
    end: int


class JSONCall(NamedTuple):
    """A call with JSON inside: its name, if that is outside, and where the JSON begins."""

    name: str
    bracket: int


MAX_TAIL: Final = 1024
"""How much white space at the end of a string waits for what follows; more is part of it."""

QUOTES: Final = "\"'`\\"
"""What follows a tag that is quoted: a quote, or the backslash of an escaped one."""

_QUOTES: Final = re.escape(QUOTES)
_JSON_CALLS: Final = ("as calls", "after names")
_NAME_AND_JSON: Final = re.compile(
    rf"\s{{0,16}}(?P<name>[\w.:/-]{{1,256}})(?:>\s{{0,{MAX_GAP}}}(?P<bracket>\{{)?)?"
)


class CompiledDialect:
    """The tags of a dialect, compiled."""

    def __init__(self, dialect: TagDialect) -> None:
        spelling = dialect.spelling
        bare = spelling._replace(prefix="")
        self.dialect = dialect
        sections = (dialect.section, *dialect.other_sections)
        self.section = make_any_tag(sections, spelling) if dialect.section else None
        self.call = make_tag(dialect.call, spelling, dialect.lead)
        self.call_end = make_tag(dialect.call_end, spelling)
        self.parameter = make_tag(dialect.parameter, spelling)
        self.parameter_end = make_tag(dialect.parameter_end, spelling)
        self.value = make_tag(dialect.value, spelling) if dialect.value else None
        self.trail = tuple(make_tag(piece, bare) for piece in dialect.trail)
        ends = (dialect.section_end, *(each.replace("<", "</") for each in sections[1:]))
        self.section_ends = tuple(make_tag(end, spelling) for end in ends if end)
        turn_ends = tuple(make_tag(token, Spelling()) for token in TURN_ENDS)
        self._last_end = make_tag(LAST_TURN_END, Spelling())
        any_end = (self.call_end, *self.section_ends, *self.trail, *turn_ends, self._last_end)
        self._any_end = TagChoice(any_end)
        # Of two tags that match at one place the first counts. So the wildcard `<KEY>` of
        # MiniMax-M3 comes after the tags of calls and sections.
        tokens = [(TagKind.CALL_END, self.call_end)]
        tokens += [(TagKind.CALL_END, make_tag(end, spelling)) for end in dialect.other_ends]
        tokens += [(TagKind.SECTION_END, each) for each in self.section_ends]
        tokens += [(TagKind.SECTION, self.section)] if self.section is not None else []
        # Without attributes the tag counts before its name is whole: inside a value, `<function=`
        # alone shows that another call begins.
        has_attributes = '="NAME"' in dialect.call
        begins = dialect.call if has_attributes else dialect.call.partition("NAME")[0]
        self.call_begin = make_tag(begins, spelling)
        tokens.append((TagKind.CALL, self.call_begin))
        tokens += [(TagKind.CALL, make_tag(piece, bare)) for piece in dialect.lead if "<" in piece]
        tokens += [(TagKind.TRAIL, each) for each in self.trail]
        tokens.append((TagKind.VALUE_END, self.parameter_end))
        tokens.append((TagKind.PARAMETER, self.parameter))
        if self.value is not None:
            tokens.append((TagKind.VALUE, self.value))
            if dialect.type_tag:
                tokens.append((TagKind.TYPE, make_tag(dialect.type_tag, spelling)))
            key_tags = dialect.parameter.split("KEY")
            tokens += [(TagKind.KEY, make_tag(piece, spelling)) for piece in key_tags]
        if dialect.after_name:
            tokens.append((TagKind.NAME_END, make_tag(dialect.after_name, spelling)))
        tokens += [(TagKind.TURN_END, each) for each in turn_ends]
        tokens += [(TagKind.CONTROL, make_tag(each, Spelling())) for each in dialect.controls]
        self._tokens = tuple(tokens)
        self._any_token = TagChoice([each for _, each in tokens])
        self._after_call = TagChoice([each for kind, each in tokens if kind in _OUTER_KINDS])
        self.marks = self._make_marks()
        self.simple = self._compile_simple()
        self.tags = self._list_tags()
        self.damaged_tags = DamagedTags(
            self.tags, (*dialect.controls, *filter(None, [spelling.prefix]))
        )
        gap = r"(?:\s|\\n)" if spelling.escaped else r"\s"
        self._gap = re.compile(rf"{gap}{{0,{MAX_GAP + 1}}}")

    def _make_marks(self) -> Markers:
        """Return the beginnings of the tags of the dialect, and the tokens that end a turn."""
        dialect, spelling = self.dialect, self.dialect.spelling
        if spelling.prefix:
            return markers(spelling.prefix, *TURN_ENDS)
        if dialect.controls:
            return markers(*dialect.controls, *TURN_ENDS)
        tags = [dialect.parameter, dialect.parameter_end, dialect.value, dialect.call]
        tags += [dialect.call_end, dialect.section, dialect.section_end, *dialect.other_sections]
        tags += [each.replace("<", "</") for each in dialect.other_sections]
        tags += dialect.type_tag.split("KEY")
        begins = [re.split("[>= ]", each)[0] for each in tags if each]
        if dialect.value:
            begins.append(dialect.parameter.split("KEY")[1].removesuffix(">"))
        begins += [dialect.after_name.removesuffix(">")] if dialect.after_name else []
        begins += [piece for piece in (*dialect.lead, *dialect.trail) if "<" in piece]
        guarded: tuple[str, ...] = ()
        unless = ""
        if spelling.spaced:  # `< parameter=path>` and `</ parameter>`, but not the `<` of `a < b`
            firsts = sorted({"/", *(begin.lstrip("</")[:1] for begin in begins)})
            gaps = [sign + blank for sign in ("<", "</") for blank in BLANKS]
            guarded = tuple(gap + blank for gap in gaps for blank in BLANKS)
            unless = rf"[{BLANKS}]*+[^{BLANKS}{re.escape(''.join(firsts))}]"
            begins += [gap + first for gap in gaps for first in firsts]
        if any("｜" in begin for begin in begins):  # noqa: RUF001 - the token is spelled so
            begins += [f"<{slash}{bar}" for slash in ("", "/") for bar in "｜|"]  # noqa: RUF001
        return markers(*begins, *guarded, *TURN_ENDS, unless=unless, guarded=guarded)

    def _compile_simple(self) -> re.Pattern[str]:
        """Return a pattern of a whole parameter, in whose value nothing may be markup.

        What may end the value does not begin in it, and its closing tag is not in quotes.
        """
        gap, value = self.dialect.spelling.gap.whole, ""
        if self.value is not None:
            value = gap + self.value.part.whole
        closing = self.parameter_end.part.whole.replace("(?P<key>", "(?P<closed>")
        text = f"(?P<text>[^{re.escape(self.marks.firsts)}]*+)"
        return re.compile(
            f"(?P<before>{gap}){self.parameter.part.whole}{value}{text}{closing}(?=[^{_QUOTES}])"
        )

    def find_simple(self, text: str, at: int) -> SimpleParameter | None:
        """Return the parameter after the white space at *at*, if nothing in it needs judgement.

        All of it has come. Whole responses consist of such parameters, and reading them tag by tag
        takes three times as long.
        """
        found = self.simple.match(text, at)
        if found is None:
            return None
        start, (begin, end), after = found.end("before"), found.span("text"), found.end()
        if begin - start > MAX_TAG or after - end > MAX_TAG:
            return None  # The pattern has no limit for a tag; `Tag.match` has.
        if self.dialect.nests and not self._is_pair(found, text, start, end):
            return None
        opening = self.parameter.read_plain(found, self.dialect.type_attribute)
        if opening is None:
            return None
        value = text[begin:end]
        if not value.isascii() and SURROGATE.search(value):
            return None  # Two halves of a character are joined by the steps.
        # White space at the end may belong to a closing tag that the model forgot.
        if value[-MAX_TAIL:].isspace() or self.damaged_tags.are_in(value):
            return None
        return SimpleParameter(*opening, value, after)

    def _is_pair(self, found: re.Match[str], text: str, start: int, end: int) -> bool:
        """Return whether the tags are those of one parameter: any name may be one (MiniMax-M3)."""
        if found["key"] != found["closed"]:
            return False
        opening, closing = self._any_token.find(text, start), self._any_token.find(text, end)
        if -1 in (opening, closing):
            return False
        kinds = self._tokens[opening][0], self._tokens[closing][0]
        return kinds == (TagKind.PARAMETER, TagKind.VALUE_END)

    def _list_tags(self) -> tuple[str, ...]:
        """Return the templates of all tags of the dialect."""
        dialect = self.dialect
        tags = [dialect.section, dialect.section_end, dialect.call, dialect.call_end]
        tags += [dialect.parameter_end, dialect.value, dialect.type_tag, dialect.after_name]
        tags += dialect.parameter.split("KEY")
        tags += [*dialect.other_sections, *dialect.other_ends, *dialect.lead, *dialect.trail]
        return tuple(filter(None, (*tags, *dialect.controls, dialect.spelling.prefix)))

    def token(self, text: str, at: int) -> Token | None:
        """Return the tag at *at*, if there is one and it cannot be part of a longer one."""
        number = self._any_token.find(text, at)
        if number == -1:
            return None
        kind, tag = self._tokens[number]
        found = tag.match(text, at)
        longer = self.parameter if kind is TagKind.KEY else self._any_token
        if found is None or (kind in _PARTIAL_KINDS and longer.could_begin(text, at)):
            return None
        return Token(kind, found)

    def has_tags_inside(self, text: str, at: int) -> bool:
        """Return whether *text* has a tag of the inside of a call from *at* on, whole or damaged.

        Tags of another call do not count.
        """
        begin = at
        begun = _BEGUN_TAG.match(text, at)
        if begun is not None and any(tag.startswith(begun[0]) for tag in self.tags):
            return True
        while found := self.marks.find(text, at):
            token = self.token(text, found.start())
            if token is not None and token.kind in _OUTER_KINDS:
                return self.damaged_tags.are_in(text[begin : found.start()])
            if token is not None and token.kind in _INNER_KINDS:
                return True
            at = found.end() if token is None else token.end
        return self.damaged_tags.are_in(text[begin:])

    def could_begin_token(self, text: str, at: int) -> bool:
        """Return whether *text* ends inside what may become a tag, from *at* on."""
        return self._any_token.could_begin(text, at)

    def could_begin_end(self, text: str, at: int) -> bool:
        """Return whether *text* ends inside the end of a call, of its section or of the turn."""
        last = self._last_end.match(text, at)
        if last is not None and self.skip_gap(text, last.end) == len(text):
            return True
        return self._any_end.could_begin(text, at)

    def begins_call(self, text: str, at: int) -> bool | None:
        """Return whether a call or a section begins at *at*; None if more text is needed."""
        tags = tuple(filter(None, (self.section, self.call_begin)))
        if any(tag.match(text, at) for tag in tags):
            return True
        return None if any(tag.could_begin(text, at) for tag in tags) else False

    def open_call(self, text: str, at: int = 0) -> FoundTag | None:
        """Return the opening tag of a call at *at*, if it has a valid name."""
        found = self.call.match(text, at)
        if found is None:
            return None
        if self.dialect.spelling.entities:
            return found if found.name else None
        return found if NAME.fullmatch(found.name) is not None else None

    def find_json_call(self, text: str, at: int) -> JSONCall | None:
        """Return the call at *at* that has JSON in the place of its name or of its parameters.

        Its bracket is -1 while more text may make it one.
        """
        begin = self.call_begin.match(text, at) if self.dialect.json in _JSON_CALLS else None
        if begin is None:
            return None
        if self.dialect.json == "as calls":
            bracket = self.skip_gap(text, begin.end)
            is_json = bracket is not None and text[bracket : bracket + 1] in ("{", "[")
            return JSONCall("", bracket) if is_json and bracket is not None else None
        found = _NAME_AND_JSON.match(text, begin.end)
        if found is not None and found["bracket"]:
            return JSONCall(found["name"], found.end() - 1)
        if found is None or found.end() != len(text):
            return None
        return JSONCall("", -1) if ">" in found[0] or "/" in found["name"] else None

    @property
    def ends(self) -> tuple[str, ...]:
        """The texts that may end a value; grammars for constrained decoding keep them out of it."""
        prefix = self.dialect.spelling.prefix
        if prefix:
            return (prefix,)
        tags = (self.dialect.parameter_end, self.dialect.parameter, self.dialect.call_end)
        return tuple(re.split("[>= ]", each)[0] for each in tags)

    def skip_gap(self, text: str, at: int) -> int | None:
        """Return the end of the white space at *at*; None if there is too much of it."""
        end = skip_match(self._gap, text, at)
        if self.dialect.spelling.escaped and text[end : end + 2] == "\\":
            return len(text)  # Half of an escaped newline: GLM writes backslash and n between tags.
        return None if end - at > MAX_GAP else end

    def ends_call(self, text: str, at: int, *, final: bool) -> bool | None:
        """Return whether what follows *at* can follow the end of a call; None if it is undecided.

        That is another call, the end of the section, of the turn or of the text. With *final* no
        more text comes, and a tag that has begun counts.
        """
        at_tag = self.skip_gap(text, at)
        if at_tag is None:
            return False
        if at_tag == len(text):
            return True if final else None  # What follows decides, so the closing tag waits.
        if self._after_call.find(text, at_tag) != -1:
            return True
        last = self._last_end.match(text, at_tag)
        if last is not None:
            is_last = self.skip_gap(text, last.end) == len(text)
            return is_last if final or not is_last else None
        is_begun = self._last_end.could_begin(text, at_tag)
        if is_begun or self._after_call.could_begin(text, at_tag):
            return True if final else None
        return False


@lru_cache(maxsize=128)
def compile_dialect(dialect: TagDialect) -> CompiledDialect:
    """Compile *dialect*, once."""
    return CompiledDialect(dialect)
