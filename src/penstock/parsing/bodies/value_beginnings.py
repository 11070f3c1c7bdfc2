"""How the value of a tagged argument begins, and so how it is read and what ends it.

A piped argument is content exactly as it stands, between its markers where it begins with one. Any
other value is trimmed; it is a CDATA section, elements or text by how it begins. A string field is
text whatever it begins with, but for a section.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from msgspec import Struct

from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run
from penstock.parsing.bodies.closers import Closer, MarkerCloser, SectionCloser, StrictCloser
from penstock.parsing.bodies.open_strings import OpenValue, PlainString, TrimmedString
from penstock.parsing.bodies.opening_tags import MAX_TAG
from penstock.parsing.bodies.piped_tools import PipedTool, read_metadata
from penstock.parsing.bodies.tagged_values import SECTION_END, value_of
from penstock.parsing.scanner import Scanner
from penstock.values.rxml.fields import is_list
from penstock.values.rxml.markup import CDATA, may_become_opening, opening_at, skip_space
from penstock.values.schema import Schema

MAX_LEAD: Final = 256
"""How much white space may stand before a start marker."""


class Argument(Struct, frozen=True):
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
        """Give the value that *text* says: all between the tags, or all of a CDATA section."""
        metadata = self.tool.metadata_name(self.key)
        if metadata is not None:
            return read_metadata(metadata, text)
        return text if is_section else value_of(text, self.schema)


class Collected:
    """A value that is written when it is closed; *is_section* says that it began as a section."""

    def __init__(self, argument: Argument, *, is_section: bool = False) -> None:
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
        """Give nothing: it is no string that streams."""
        return None

    def run(self) -> Run | None:
        """Give nothing: it is no string that streams."""
        return None


class Value(Struct, frozen=True):
    """A value that is open: who takes its text, and what ends it."""

    argument: Argument
    string: OpenValue
    closer: Closer
    ending: str
    collected: Collected | None = None

    @property
    def text(self) -> str | None:
        """What has come of it."""
        return self.string.gone_out() if self.collected is None else self.collected.text


def begin(
    argument: Argument, scanner: Scanner, writer: ArgumentWriter, *, final: bool
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
    argument: Argument, scanner: Scanner, writer: ArgumentWriter, *, final: bool
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


def _begin_section(argument: Argument, writer: ArgumentWriter) -> Value:
    closer = SectionCloser(argument.tag, argument.known)
    ending = f"{SECTION_END}</{argument.tag}>"
    if argument.streams:
        writer.open_text(argument.key)
        return Value(argument, PlainString(closer.marks, writer), closer, ending)
    collected = Collected(argument, is_section=True)
    return Value(argument, collected, closer, ending, collected)


def _begin_text(argument: Argument, writer: ArgumentWriter) -> Value:
    if not argument.streams:
        return _begin_collected(argument, nests=argument.repeats)
    closer = StrictCloser(argument.tag, argument.known, nests=argument.repeats)
    writer.open_text(argument.key)
    string = TrimmedString(closer.marks, writer)
    return Value(argument, string, closer, f"</{argument.tag}>")


def _begin_collected(argument: Argument, *, nests: bool = True) -> Value:
    """Open a value that is read when it is whole."""
    closer = StrictCloser(argument.tag, argument.known, nests=nests)
    collected = Collected(argument)
    return Value(argument, collected, closer, f"</{argument.tag}>", collected)
