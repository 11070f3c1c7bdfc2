"""The arguments of one call between tags: ``<arg name="k">v</arg>`` or ``<k>v</k>``.

Comments and text between arguments have no meaning; text where no argument is at all was meant as
the arguments, and breaks the call. How a value begins decides how it is read: piped content between
its markers or as written, a CDATA section, elements, or text. A string is written as it arrives,
any other value when it is closed. Tags other than ``arg``, and arguments that are lists, may come
again and are then one list, so all of them but strings are written when the call ends. After
``</arguments>`` everything up to the end of the call is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from msgspec import Struct

from penstock._json import SURROGATE
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import StreamingPart, ValueReader, Verdict, make_skipped_note
from penstock.parsing.call_sink import CallSink
from penstock.parsing.scanner import Scanner, markers
from penstock.readers.json_arguments import JSONArgumentReader
from penstock.readers.plausible import (
    REASONING,
    ends_with_loose_tag,
    fits,
    has_loose_tags,
    holds_turn_end,
    is_misspelled,
)
from penstock.readers.tagged import MAX_TAIL, Trim
from penstock.readers.tagged.damaged_tags import element_tags
from penstock.readers.tagged.endings import (
    Ending,
    EndMarkerEnding,
    StructuralTagEnding,
    read_value,
)
from penstock.readers.tagged.piped_tools import PipedTool, read_metadata
from penstock.readers.tagged.strings import CollectedText, OpenValue, StreamedText
from penstock.readers.tagged.tags import MAX_TAG
from penstock.readers.tagged.values import BRACKETS, find_key, read_markup
from penstock.values.control_tokens import without_turn_end
from penstock.values.rxml.elements import is_list
from penstock.values.rxml.markup import (
    CDATA,
    CDATA_END,
    COMMENT,
    MarkupTag,
    closing_at,
    may_become_markup,
    may_become_opening,
    opening_at,
    skip_space,
)
from penstock.values.schema import Schema

MAX_LEAD: Final = 256
"""How much white space may be before a start marker, and between simple arguments."""

_COMMENT_END: Final = "-->"
_ANY_TAG: Final = re.compile(r"</?\s{0,16}([\w.:-]{1,256})(?=[\s/>])")
_AROUND: Final = ("arg", "arguments", "tool")

_GAP: Final = rf"\s{{0,{MAX_LEAD}}}+"
_KEY: Final = r"\w[\w.:\-]{0,255}+"
_SIMPLE: Final = re.compile(
    rf"""{_GAP}<(?:arg name="(?P<key>{_KEY})"|(?P<tag>{_KEY}))>(?P<text>[^<&]++)"""
    r"""</(?(key)arg|(?P=tag))>"""
)
_BEGIN: Final = re.compile(rf"{_GAP}<arguments>")
_END: Final = re.compile(rf"{_GAP}</tool>")
_SECTION_END: Final = re.compile(rf"{_GAP}</arguments>{_GAP}</tool>")


class TagArgument(Struct, frozen=True):
    """An argument whose opening tag was read.

    *tag* is the name of the tag as written, *known* are the arguments that the tool is known to
    have, *missing* those of them that were not given yet. *repeats*: another one of the same name
    makes a list, whatever the schema says.
    """

    key: str
    tag: str
    schema: Schema | None
    tool: PipedTool
    known: Collection[str] | None
    missing: Collection[str]
    repeats: bool

    @property
    def is_piped(self) -> bool:
        """Whether this is the tool's content, which is passed on as written."""
        return self.key == self.tool.content != ""

    @property
    def is_string(self) -> bool:
        """Whether its schema allows a string and nothing else."""
        return self.schema is not None and self.schema.is_string

    @property
    def gathers(self) -> bool:
        """Whether all values of this name are one argument, a list where there are several."""
        if self.is_piped or self.is_string:
            return False
        return self.repeats or is_list(self.schema)

    @property
    def streams(self) -> bool:
        """Whether its text is written as it arrives."""
        if self.tool.find_metadata(self.key) is not None:
            return False
        is_free = self.schema is None or self.schema.free
        return self.is_string or (is_free and not self.repeats)

    def read(self, text: str, *, is_section: bool = False) -> Any:
        """Read *text*, all that is between the tags or in a CDATA section."""
        metadata = self.tool.find_metadata(self.key)
        if metadata is not None:
            return read_metadata(metadata, text)
        return text if is_section else read_markup(text, self.schema)


class OpenArgument(NamedTuple):
    """An argument whose value is open, what ends it, and the text that closes it."""

    argument: TagArgument
    value: OpenValue
    ending: Ending
    closing: str
    is_section: bool = False


def begin_argument(
    argument: TagArgument,
    scanner: Scanner,
    writer: ArgumentWriter,
    tools: Collection[str],
    *,
    final: bool,
    repairs: bool = False,
) -> OpenArgument | None:
    """Open the value that begins here; None if only more text shows how it is read.

    *tools* are the tools whose calls may follow, *final* that no more text comes. With *repairs*
    the text was refused.
    """
    if scanner.is_at_end:
        return None
    tag, known, closing = argument.tag, argument.known, f"</{argument.tag}>"
    if argument.is_piped:
        start, end = argument.tool.start_marker, argument.tool.end_marker
        window = scanner.peek(MAX_LEAD + len(start))
        bare = window.lstrip()
        blank = len(window) - len(bare)
        is_marked = bool(start) and bare.startswith(start)
        if start and not is_marked and not final and start.startswith(bare) and blank <= MAX_LEAD:
            return None
        piped_ending: Ending = StructuralTagEnding(tag, known, tools)
        if is_marked:
            scanner.skip(blank + len(start))
            piped_ending, closing = EndMarkerEnding(tag, end), end + closing
        writer.open_text(argument.key)
        content = StreamedText(piped_ending.marks, writer, is_marked=is_marked)
        return OpenArgument(argument, content, piped_ending, closing)
    scanner.advance_to(skip_space(scanner.text, scanner.at))
    window = scanner.peek(MAX_TAG)
    is_section = window.startswith(CDATA)
    holds_element = False
    if is_section:
        scanner.skip(len(CDATA))
        closing = CDATA_END + closing
    elif not final and CDATA.startswith(window):
        return None
    elif not argument.is_string:
        holds_element = opening_at(window, 0) is not None
        is_begun = len(window) < MAX_TAG and may_become_opening(window, 0)
        if not holds_element and not final and is_begun:
            return None
    nests = not is_section and (holds_element or argument.repeats)
    ending = StructuralTagEnding(
        tag,
        known,
        tools,
        nests=nests,
        cdata=is_section,
        missing=argument.missing,
        repairs=repairs,
    )
    if not argument.streams or holds_element:
        value = CollectedText(marks=ending.marks)
        return OpenArgument(argument, value, ending, closing, is_section)
    writer.open_text(argument.key)
    trim: Trim = "exact" if is_section else "blanks"
    text = StreamedText(ending.marks, writer, trim, entities=not is_section)
    return OpenArgument(argument, text, ending, closing, is_section)


class SimpleArguments(NamedTuple):
    """All arguments of a call, in the order in which they are written, and the end of the call.

    *texts* are the names of those that are written as they are; others are fitted to the schema.
    """

    values: dict[str, Any]
    texts: Collection[str]
    end: int


def find_simple_arguments(text: str, at: int, schema: Schema) -> SimpleArguments | None:
    """Return the arguments after the tag of a call, if nothing in them needs judgement.

    All of the call has come, and it holds nothing but arguments that the tool has, with text and no
    markup in them. Most calls do, and `TaggedArguments` takes three times as long for a short one.
    """
    begin = _BEGIN.match(text, at)
    at = at if begin is None else begin.end()
    properties = schema.properties
    values: dict[str, Any] = {}
    last: dict[str, Any] = {}  # what may come again is written when the call ends
    texts: list[str] = []
    while (found := _SIMPLE.match(text, at)) is not None:
        key, value, is_named = found["key"] or found["tag"], found["text"], found["tag"] is None
        child = properties.get(key)
        if child is None or key in values or key in last or not _is_plain(found):
            return None
        if child.is_string or (child.free and is_named):
            values[key] = value.strip()
            texts.append(key)
        else:
            read = read_markup(value, child)
            if isinstance(read, str) and not fits(value, child):
                return None
            (values if is_named and not is_list(child) else last)[key] = read
        at = found.end()
    end = (_END if begin is None else _SECTION_END).match(text, at)
    if end is None or not (values or last):
        return None
    return SimpleArguments(values | last, texts, end.end())


def _is_plain(found: re.Match[str]) -> bool:
    """Return whether there is no sign of markup in the value of the argument *found*."""
    text, tag = found["text"], found["tag"] or "arg"
    if text[-MAX_TAIL:].isspace() or not (text.isascii() or SURROGATE.search(text) is None):
        return False
    if found["tag"] is not None and tag.lower() in _AROUND:
        return False
    if ">" not in text:
        return True
    return not (_has_half_section(text) or element_tags(tag, *_AROUND).are_in(text))


class Owner(Struct, frozen=True):
    """The tool whose arguments are read, its schema, and how its content is read.

    *given* is the metadata in the attributes of the call's tag.
    """

    name: str
    schema: Schema | None
    tool: PipedTool
    given: Mapping[str, str | bool | int]


class TaggedArguments(ValueReader):
    """Reads the arguments of one call, up to its end tag.

    With *repairs*, the text was refused: a closing tag that was forgotten is added.
    """

    def __init__(self, owner: Owner, writer: ArgumentWriter, *, repairs: bool = False) -> None:
        self.doubt = ""  # why the call cannot be what the model meant
        self.skipped: list[str] = []  # text between arguments
        self.notes: list[str] = []  # what was tolerated
        self._owner = owner
        self._writer = writer
        self._repairs = repairs
        self._names: set[str] = set(owner.given)  # of the arguments that have come
        self._begins = True  # nothing has come but white space and `<arguments>`
        self._has_ended = False  # the arguments have ended
        self._is_text = False  # text has come, and no argument
        self._has_arguments = False
        self._in_comment = False
        self._json: JSONArgumentReader | None = None
        self._whole: JSONArgumentReader | None = None  # has read all of its value
        self._tools: Collection[str] = ()  # whose calls may follow
        self._argument: TagArgument | None = None  # opened; how its value begins is not known
        self._open: OpenArgument | None = None
        self._children: dict[str, list[Any]] = {}  # values of arguments that may come again

    @property
    def closing(self) -> str:
        """The text that closes the open value; empty without one."""
        if self._open is not None:
            return self._open.closing
        return "" if self._argument is None else f"</{self._argument.tag}>"

    @property
    def is_empty(self) -> bool:
        """Whether a value is open that has no text yet."""
        if self._open is None:
            return self._argument is not None
        return not without_turn_end(self._open.value.text).strip()

    @property
    def holds_tags(self) -> bool:
        """Whether a value is open that holds a tag of the call, so that it may have ended."""
        if self._open is None:
            return False
        names = {*_AROUND, self._open.argument.tag.lower(), *map(str.lower, self._known)}
        text = self._open.value.text
        return _find_tag(text, names) or ends_with_loose_tag(text)

    @property
    def _known(self) -> set[str]:
        """The arguments that the tool is known to have."""
        owner = self._owner
        known = set(owner.schema.properties) if owner.schema is not None else set()
        return known | ({*owner.tool.metadata, owner.tool.content} - {""})

    @property
    def is_in_content(self) -> bool:
        """Whether a value is open that only its own end marker ends."""
        return self._open is not None and isinstance(self._open.ending, EndMarkerEnding)

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text; after `DONE` the end tag of the call was read."""
        while not scanner.is_at_end:
            verdict = self._step(scanner, calls)
            if verdict is not None:
                return verdict
        return Verdict.MORE

    def close(self, calls: CallSink) -> None:
        """Close the call, whose end tag was read, and emit those that follow it in a JSON list."""
        if self._writer.conflicts:
            self.doubt = "an argument came twice, with different values"
        skipped = "".join(self.skipped)
        if not BRACKETS.isdisjoint(skipped) or '="' in skipped:
            self.doubt = "the text between arguments may be a value without its tags"
        if self.doubt:
            calls.doubt(self.doubt)
        calls.note(*self.notes)
        if skipped:
            calls.note(make_skipped_note(skipped))
        if self._whole is not None:
            self._whole.close(calls)
        else:
            calls.close()

    def cut(self, scanner: Scanner) -> None:
        """Handle the end of the text: an open string takes what was held back."""
        if self._argument is not None:
            self._begin_value(self._argument, scanner, final=True)
        if self._open is not None and not self._read_value(self._open, scanner, final=True):
            self._open.value.flush()
            scanner.skip_all()

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        if self._json is not None:
            return self._json
        return None if self._open is None else self._open.value

    def _step(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take one step; return None to continue."""
        if self._open is not None:
            return None if self._read_value(self._open, scanner) else Verdict.MORE
        if self._argument is not None:
            self._tools = calls.schemas
            is_decided = self._begin_value(self._argument, scanner)
            return None if is_decided else Verdict.MORE
        if self._json is not None:
            return self._read_json(self._json, scanner, calls)
        if self._in_comment:
            return self._skip_comment(scanner)
        return self._read_between(scanner)

    # --- between values ---

    def _read_between(self, scanner: Scanner) -> Verdict | None:
        """Skip white space and text up to a tag, and take the tag."""
        text = scanner.text
        at = skip_space(text, scanner.at)
        if at > scanner.at and self.skipped:
            self.skipped.append(" ")
        if at == len(text):
            scanner.advance_to(at)
            return Verdict.MORE
        # The arguments may be one JSON object, or a list of calls.
        if self._begins and text[at] in "{[":
            scanner.advance_to(at)
            owner = self._owner
            self._json = JSONArgumentReader(owner.name, owner.schema, several=True)
            return None
        found = text.find("<", at)
        if found != at:
            self._pass_text(text[at : found if found != -1 else len(text)])
        scanner.advance_to(found if found != -1 else len(text))
        return self._read_markup(scanner) if found != -1 else Verdict.MORE

    def _read_markup(self, scanner: Scanner) -> Verdict | None:
        at = scanner.at
        window = scanner.text[at : at + MAX_TAG]
        closing = closing_at(window, 0)
        if closing is not None:
            verdict = self._leave(closing[0].lower())
            if verdict is not Verdict.BROKEN:
                scanner.skip(closing[1])
            return verdict
        tag = opening_at(window, 0)
        if tag is not None:
            return self._enter(tag, scanner)
        if window.startswith(COMMENT):
            self._in_comment = True
            scanner.advance_to(at + len(COMMENT))
        elif len(window) < MAX_TAG and may_become_markup(window):
            return Verdict.MORE
        else:
            self._pass_text("<")
            scanner.advance_to(at + 1)
        return None

    def _pass_text(self, text: str) -> None:
        self.skipped.append(text)
        self._begins = False
        self._is_text = not self._has_arguments and (self._is_text or not self._has_ended)

    def _leave(self, name: str) -> Verdict | None:
        self._begins = False
        # Prose in the place of the arguments does not make a call without arguments.
        if name == "tool" and self._is_text:
            self.error = "the arguments are neither JSON nor elements"
            return Verdict.BROKEN
        if name == "tool":
            return self._end()
        if name != "arguments":
            self.doubt = self.doubt or f"`</{name}>` closes nothing"
        self._has_ended = self._has_ended or name == "arguments"
        return None

    def _end(self) -> Verdict:
        """End the call: write what may have come again."""
        for key, values in self._children.items():
            self._writer.put(key, values[0] if len(values) == 1 else values)
        return Verdict.DONE

    @property
    def _may_end(self) -> bool:
        """Whether the call is complete without its end tag, if another call follows."""
        schema = self._owner.schema
        required = schema.required if schema is not None else ()
        has_text = any(map(str.strip, self.skipped))
        return self._has_arguments and not has_text and self._names.issuperset(required)

    def _enter(self, tag: MarkupTag, scanner: Scanner) -> Verdict | None:
        name = tag.name.lower()
        if name == "tool" and "name" in tag.quoted_attributes:
            if self._may_end:
                self.notes.append("closed the call before the next one")
                return self._end()
            self.error = "another call begins inside the call"
            return Verdict.BROKEN
        scanner.skip(tag.end)
        if self._has_ended or name == "arguments":
            self._has_ended = self._has_ended or tag.empty
            return None
        self._begins = self._is_text = False
        self._has_arguments = True
        self._open_argument(tag)
        return None

    def _open_argument(self, tag: MarkupTag) -> None:
        """Open the argument that *tag* names."""
        owner, key = self._owner, find_key(tag)
        known = self._known
        if key.lower() == "arg" and key not in known:
            self.doubt = "an argument without a name"
        if tag.name.lower() in REASONING and known and key not in known:
            self.doubt = "reasoning between the arguments"
        if key not in known and is_misspelled(key, owner.schema, self._names):
            self.doubt = f"the name {key[:99]!r} of an argument is damaged"
        if self._repairs and known and key not in known:
            self.doubt = f"the tool has no argument {key[:99]!r}"
        self._names.add(key)
        repeats = tag.name.lower() != "arg" or "name" not in tag.quoted_attributes
        argument = TagArgument(
            key=key,
            tag=tag.name,
            schema=self._writer.child(key),
            tool=owner.tool,
            known=None if repeats else frozenset(known) or None,
            missing=frozenset(known - self._names),
            repeats=repeats,
        )
        if tag.empty:
            self._put(argument, argument.read(""))
        else:
            self._argument = argument

    # --- inside ---

    def _begin_value(self, argument: TagArgument, scanner: Scanner, *, final: bool = False) -> bool:
        """Open the value if it is known how it begins; return whether it is."""
        self._open = begin_argument(
            argument, scanner, self._writer, self._tools, final=final, repairs=self._repairs
        )
        if self._open is not None:
            self._argument = None
        return self._open is not None

    def _read_value(self, opened: OpenArgument, scanner: Scanner, *, final: bool = False) -> bool:
        """Continue reading the open value; return whether it has ended."""
        argument, value = opened.argument, opened.value
        if not read_value(value, opened.ending, scanner, final=final):
            return False
        self._open = None
        if opened.ending.is_forgotten and isinstance(opened.ending, StructuralTagEnding):
            self.notes.append(f"closed the value of {argument.key!r}")
        text, found = value.text, None
        is_collected = isinstance(value, CollectedText)
        if is_collected:
            found = argument.read(text, is_section=opened.is_section)
        # The rest of another argument is not a value: loose tags, or text that does not fit.
        if not opened.is_section and not isinstance(opened.ending, EndMarkerEnding):
            is_misfit = isinstance(found, str) and not fits(text, argument.schema)
            is_loose = has_loose_tags(text, {argument.tag.lower(), *_AROUND})
            is_loose = is_loose or holds_turn_end(text) or _has_half_section(text)
            if is_misfit or is_loose or element_tags(argument.tag, *_AROUND).are_in(text):
                self.doubt = f"it is not clear where `{argument.key}` ends"
        if is_collected:
            self._put(argument, found)
        return True

    def _put(self, argument: TagArgument, value: Any) -> None:
        """Write a whole value, or keep it if another one of its name may follow."""
        name = argument.tool.find_metadata(argument.key)
        if name is not None:
            if value is not None and name not in self._owner.given:
                self._writer.put(name, value)
        elif argument.gathers:
            self._children.setdefault(argument.key, []).append(value)
        else:
            self._writer.put(argument.key, value)

    def _read_json(
        self, json: JSONArgumentReader, scanner: Scanner, calls: CallSink
    ) -> Verdict | None:
        verdict = json.read(scanner, calls)
        if verdict is not Verdict.DONE:
            self.error = json.error
            return verdict
        self._json, self._whole = None, json
        self._begins, self._has_ended = False, True
        return None

    def _skip_comment(self, scanner: Scanner) -> Verdict | None:
        end = scanner.text.find(_COMMENT_END, scanner.at)
        if end == -1:
            scanner.advance_to(markers(_COMMENT_END).find_held(scanner.text, scanner.at))
            return Verdict.MORE
        self._in_comment = False
        scanner.advance_to(end + len(_COMMENT_END))
        return None


_SECTION_BEGINS: Final = re.compile(r"\s*+<{1,2}[!\[\]]{0,4}C{0,2}DATA")


def _has_half_section(text: str) -> bool:
    """Return whether *text* has only one of the markers of a CDATA section, perhaps damaged."""
    stripped = text.strip()
    begins, ends = stripped.startswith("<![CDATA["), stripped.endswith("]]>")
    return begins != ends or (not begins and _SECTION_BEGINS.match(text) is not None)


def _find_tag(text: str, names: Collection[str]) -> bool:
    """Return whether *text* has a tag of one of *names*, which are in lower case."""
    return any(found[1].lower() in names for found in _ANY_TAG.finditer(text))
