"""How the value of a tagged argument begins, and so how it is read and what ends it.

A piped argument is content exactly as it stands, between its markers where it begins with one. Any
other value is trimmed; it is a CDATA section, elements or text by how it begins. A string field is
text whatever it begins with, but for a section.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from penstock.errors import JSONParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.readers.base import OpenString
from penstock.parsing.readers.tagged.strings import (
    Closer,
    MarkerCloser,
    OpenValue,
    PlainString,
    SectionCloser,
    StrictCloser,
    TrimmedString,
)
from penstock.parsing.readers.tagged.tags import MAX_TAG, attributes_of_opening_tags
from penstock.parsing.scanner import Scanner
from penstock.values import rjson
from penstock.values.coercion import decode_entities
from penstock.values.json_grammar import MAX_DEPTH
from penstock.values.rxml.elements import empty_value, is_list, is_string_field
from penstock.values.rxml.markup import (
    CDATA,
    COMMENT,
    MarkupTag,
    closing_at,
    may_become_opening,
    opening_at,
    skip_space,
)
from penstock.values.schema import Schema

# Tools whose one long argument is piped: a file, a patch, a command, and what is said about it.
#
# They differ in a few words, so each is a value of one struct. A tool without a content
# argument is any other tool: its arguments are read by their schema.


class PipedTool(Struct, frozen=True):
    """A tool whose argument *content* is passed on exactly as it stands, while it comes.

    Between *start_marker* and *end_marker*, where a model writes them, even a closing tag is
    content. The arguments *metadata* say something about it; they may stand on the tag, too.
    """

    content: str = ""
    start_marker: str = ""
    end_marker: str = ""
    metadata: tuple[str, ...] = ()

    def metadata_name(self, name: str) -> str | None:
        """Return the metadata that *name* is, by itself or as an alias."""
        name = _ALIASES.get(name.lower(), name)
        return name if name in self.metadata else None

    def read_attributes(self, attributes: dict[str, str]) -> dict[str, str | bool | int]:
        """Read the metadata that stands on a tag; what cannot be read is omitted."""
        found: dict[str, str | bool | int] = {}
        for name, text in attributes.items():
            known = self.metadata_name(name)
            value = None if known is None else read_metadata(known, text)
            if known is not None and value is not None:
                found.setdefault(known, value)
        return found


GENERIC: Final = PipedTool()
"""Any tool: no argument of it is special."""

WRITE_FILE: Final = PipedTool("content", "__START_CONTENT__", "__END_CONTENT__", ("path",))
EDIT_FILE: Final = PipedTool("patch", "__START_PATCH__", "__END_PATCH__", ("path",))
RUN_BASH: Final = PipedTool("command", metadata=("background", "timeout_seconds"))

_ALIASES: Final = {"timeoutseconds": "timeout_seconds"}
_FLAGS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_COUNT: Final = re.compile(r"\+?([0-9]{1,18})(?![0-9])")


def read_metadata(name: str, text: str) -> str | bool | int | None:
    """Read the metadata *name*, which is a flag, a count or text; None for what says nothing."""
    text = text.strip()
    match name:
        case "background":
            return _FLAGS.get(text.lower())
        case "timeout_seconds":
            found = _COUNT.match(text)
            return (int(found[1]) or None) if found else None
        case _:
            return text or None


# The value of an argument whose text is whole: a text, or an object or list of elements.
#
# Without a schema all texts stay texts; the writer coerces by the schema where there is one.
# Text between tags is trimmed; its entities are decoded once, unless it holds a ``<`` and so
# was never escaped; a text that is one CDATA section is what stands inside. Elements make an
# object, equal ones a list under their name, ``<item>`` elements a list. Where text stands
# beside elements, or tags do not match, the value is not a tree of elements but text.


SECTION_END: Final = "]]>"

_ITEM: Final = "item"


def value_of(text: str, schema: Schema | None) -> Any:
    """Return the value that *text*, all that is between an argument's tags, says."""
    if not text.strip():
        return empty_value(schema)
    if not is_string_field(schema) and opening_at(text, skip_space(text, 0)) is not None:
        tree = _Tree(text, schema).read()
        if tree is not _NO_TREE:
            return tree
    return _read_beside_string(text_of(text), schema)


def text_of(text: str) -> str:
    """Return the text that is between two tags."""
    text = text.strip()
    if text.startswith(CDATA) and text.endswith(SECTION_END):
        return text[len(CDATA) : -len(SECTION_END)]
    return decode_entities(text)


def _read_beside_string(text: str, schema: Schema | None) -> Any:
    """Read text where the schema allows a string and more: null, an object or a list may be meant.

    Coercion would leave it alone: it is a string, and that is allowed.
    """
    if schema is None or schema.free or schema.members is not None or "string" not in schema.types:
        return text
    if text == "null" and schema.nullable:
        return None
    if text[:1] in ("{", "["):
        with suppress(JSONParseError):
            value = rjson.loads(text, duplicates="last")
            if ("object" if isinstance(value, dict) else "array") in schema.types:
                return value
    return text


def key_of(tag: MarkupTag) -> str:
    """Return the name of what *tag* opens: ``<arg name="k">`` is the same as ``<k>``."""
    return (
        attributes_of_opening_tags(tag).get("name", tag.name)
        if tag.name.lower() == "arg"
        else tag.name
    )


_NO_TREE: Final = object()


class _Element:
    """An element whose end has not been seen yet."""

    __slots__ = ("children", "has_text", "key", "name", "schema", "start")

    def __init__(self, name: str, key: str, schema: Schema | None, start: int) -> None:
        self.name = name
        self.key = key
        self.schema = schema
        self.start = start
        self.children: list[tuple[str, Any]] = []
        self.has_text = False

    def schema_of(self, key: str) -> Schema | None:
        if self.schema is None:
            return None
        return (
            self.schema.item(len(self.children))
            if is_list(self.schema)
            else (self.schema.property(key))
        )

    def value(self, inside: str) -> Any:
        if not self.children or self.has_text or is_string_field(self.schema):
            return text_of(inside)
        if all(key.lower() == _ITEM for key, _ in self.children):
            return [value for _, value in self.children]
        groups: dict[str, list[Any]] = {}
        for key, value in self.children:
            groups.setdefault(key, []).append(value)
        return {key: values[0] if len(values) == 1 else values for key, values in groups.items()}


class _Tree:
    """Reads elements with a stack: no depth of the text is a depth of the reader."""

    def __init__(self, text: str, schema: Schema | None) -> None:
        self._text = text
        self._open = [_Element("", "", schema, 0)]
        self._far_ends = {CDATA: SECTION_END, COMMENT: "-->"}

    def read(self) -> Any:
        """Return the value of all elements, or say that this is not a tree."""
        text, at = self._text, 0
        while (found := text.find("<", at)) != -1:
            if text[at:found].strip():
                self._open[-1].has_text = True
            at = self._step(found)
            if at == -1:
                return _NO_TREE
        (root, *unclosed) = self._open
        if unclosed or root.has_text or text[at:].strip():
            return _NO_TREE
        return root.value(text)

    def _step(self, at: int) -> int:
        """Take what begins with the ``<`` at *at*; return where it ends, -1 for no tree."""
        closing = closing_at(self._text, at)
        if closing is not None:
            return closing[1] if self._close(closing[0], at) else -1
        tag = opening_at(self._text, at)
        if tag is not None:
            return self._enter(tag)
        return self._skip(at)

    def _enter(self, tag: MarkupTag) -> int:
        """Open an element; a string, whatever markup it holds, reaches to its closing tag."""
        parent, key = self._open[-1], key_of(tag)
        if tag.empty:
            parent.children.append((key, ""))
            return tag.end
        element = _Element(tag.name, key, parent.schema_of(key), tag.end)
        self._open.append(element)
        if is_string_field(element.schema):
            found = re.compile(rf"(?ai:</{re.escape(tag.name)})\s*+>").search(self._text, tag.end)
            return found.start() if found else -1
        return tag.end if len(self._open) <= MAX_DEPTH else -1

    def _close(self, name: str, at: int) -> bool:
        element = self._open.pop()
        if not self._open or name.lower() != element.name.lower():
            return False
        value = element.value(self._text[element.start : at])
        self._open[-1].children.append((element.key, value))
        return True

    def _skip(self, at: int) -> int:
        """Skip a comment or a CDATA section; any other ``<`` is text."""
        for begin, end in self._far_ends.items():
            if self._text.startswith(begin, at):
                self._open[-1].has_text |= begin == CDATA
                found = self._text.find(end, at)
                if found == -1:
                    del self._far_ends[begin]  # not to be searched for in vain again
                    break
                return found + len(end)
        self._open[-1].has_text = True
        return at + 1


MAX_LEAD: Final = 256
"""How much white space may stand before a start marker."""


class TagArgument(Struct, frozen=True):
    """An argument whose opening tag was read.

    *tag* is its name as it stands, *known* are the arguments that the tool is known to have, and
    *repeats* says that another of the same name makes a list, whatever the schema says.
    """

    key: str
    tag: str
    schema: Schema | None
    tool: PipedTool
    known: Collection[str] | None
    repeats: bool

    @property
    def is_piped(self) -> bool:
        """Whether this is the tool's content, which is passed on as it stands."""
        return self.key == self.tool.content != ""

    @property
    def is_string(self) -> bool:
        """Whether the schema says that this is a string and nothing else."""
        return self.schema is not None and self.schema.is_string

    @property
    def gathers(self) -> bool:
        """Whether all values of this name are one argument, a list where there are several."""
        if self.is_piped or self.is_string:
            return False
        return self.repeats or is_list(self.schema)

    @property
    def streams(self) -> bool:
        """Whether a text for it goes out as it comes."""
        if self.tool.metadata_name(self.key) is not None:
            return False
        is_free = self.schema is None or self.schema.free
        return self.is_string or (is_free and not self.repeats)

    def value_of(self, text: str, *, is_section: bool = False) -> Any:
        """Return the value that *text* says: all between the tags, or all of a CDATA section."""
        metadata = self.tool.metadata_name(self.key)
        if metadata is not None:
            return read_metadata(metadata, text)
        return text if is_section else value_of(text, self.schema)


class Collected:
    """A value that is written when it is closed; *is_section* says that it began as a section."""

    def __init__(self, argument: TagArgument, *, is_section: bool = False) -> None:
        self.value: Any = None
        self._is_section = is_section
        self._argument = argument
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """What has come of it."""
        return "".join(self._pieces)

    def add(self, piece: str) -> None:
        """Take more of the text."""
        self._pieces.append(piece)

    def close(self, mark: str) -> None:
        """Read the text, which ended at *mark*."""
        del mark
        self.value = self._argument.value_of(self.text, is_section=self._is_section)

    def flush(self) -> None:
        """Write nothing: what a value says is not known before its end."""

    def gone_out(self) -> str | None:
        """Return nothing: it is not a string that streams."""
        return None

    def run(self) -> OpenString | None:
        """Return nothing: it is not a string that streams."""
        return None


class Value(Struct, frozen=True):
    """A value that is open: who takes its text, and what ends it."""

    argument: TagArgument
    string: OpenValue
    closer: Closer
    ending: str
    collected: Collected | None = None

    @property
    def text(self) -> str | None:
        """What has come of it."""
        return self.string.gone_out() if self.collected is None else self.collected.text


def begin(
    argument: TagArgument, scanner: Scanner, writer: ArgumentWriter, *, final: bool
) -> Value | None:
    """Open the value that begins here; None tells that only more text says how it is read."""
    if scanner.at == len(scanner.text):
        return None
    if argument.is_piped:
        return _begin_piped(argument, scanner, writer, final=final)
    scanner.at = skip_space(scanner.text, scanner.at)
    window = scanner.text[scanner.at : scanner.at + MAX_TAG]
    if window.startswith(CDATA):
        scanner.at += len(CDATA)
        return _begin_section(argument, writer)
    if not final and CDATA.startswith(window):
        return None
    if argument.is_string:
        return _begin_text(argument, writer)
    if opening_at(window, 0) is not None:
        return _begin_collected(argument)
    if not final and len(window) < MAX_TAG and may_become_opening(window, 0):
        return None
    return _begin_text(argument, writer)


def _begin_piped(
    argument: TagArgument, scanner: Scanner, writer: ArgumentWriter, *, final: bool
) -> Value | None:
    start, end = argument.tool.start_marker, argument.tool.end_marker
    window = scanner.text[scanner.at : scanner.at + MAX_LEAD + len(start)]
    begun = window.lstrip()
    if start and begun.startswith(start):
        scanner.at += len(window) - len(begun) + len(start)
        closer: Closer = MarkerCloser(argument.tag, end)
        string = PlainString(closer.marks, writer, skips=True, drops=True)
        ending = f"{end}</{argument.tag}>"
    elif start and not final and start.startswith(begun) and len(window) - len(begun) <= MAX_LEAD:
        return None
    else:
        closer = StrictCloser(argument.tag, argument.known)
        string = PlainString(closer.marks, writer)
        ending = f"</{argument.tag}>"
    writer.open_text(argument.key)
    return Value(argument, string, closer, ending)


def _begin_section(argument: TagArgument, writer: ArgumentWriter) -> Value:
    closer = SectionCloser(argument.tag, argument.known)
    ending = f"{SECTION_END}</{argument.tag}>"
    if argument.streams:
        writer.open_text(argument.key)
        return Value(argument, PlainString(closer.marks, writer), closer, ending)
    collected = Collected(argument, is_section=True)
    return Value(argument, collected, closer, ending, collected)


def _begin_text(argument: TagArgument, writer: ArgumentWriter) -> Value:
    if not argument.streams:
        return _begin_collected(argument, nests=argument.repeats)
    closer = StrictCloser(argument.tag, argument.known, nests=argument.repeats)
    writer.open_text(argument.key)
    string = TrimmedString(closer.marks, writer)
    return Value(argument, string, closer, f"</{argument.tag}>")


def _begin_collected(argument: TagArgument, *, nests: bool = True) -> Value:
    """Open a value that is read when it is whole."""
    closer = StrictCloser(argument.tag, argument.known, nests=nests)
    collected = Collected(argument)
    return Value(argument, collected, closer, f"</{argument.tag}>", collected)
