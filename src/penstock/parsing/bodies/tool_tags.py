"""Calls as ``<tool name="…"> … </tool>``: the tag, its tool, and who reads what is inside.

The tag counts only with the name of a known tool on it, exactly or but for case; anything else is
prose. The call begins with the first character behind the tag. A reader of one's own, registered
for a tool, may take over there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from penstock.errors import JSONParseError, ParseError, UsageError
from penstock.messages import ToolCall
from penstock.parsing.bodies.base import Body, Mendable, Run, Verdict
from penstock.parsing.bodies.opening_tags import attributes_of, known_name, take_opening
from penstock.parsing.bodies.piped_tools import GENERIC, PipedTool
from penstock.parsing.bodies.rereading import read_call, without_begun
from penstock.parsing.bodies.tagged_arguments import Owner, TaggedArguments
from penstock.parsing.bodies.turn_ends import without_turn_end
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner
from penstock.values import rjson
from penstock.values.rxml.markup import opening_at, skip_space
from penstock.values.schema import Schema

MakeBody = Callable[[str, Mapping[str, str]], Body]
"""Makes a reader for what follows the tag of a call; told the tool's name and the attributes."""

ToolReader = PipedTool | MakeBody
"""How the calls of one tool are read."""

_END: Final = "</tool>"
_ENDS: Final = ("</arguments>", _END)


class ToolTagReader:
    """Reads what follows *marker*, ``<tool``, up to the end of the call.

    *find_reader* gives the reader for a tool's name.
    """

    def __init__(self, marker: str, find_reader: Callable[[str], ToolReader]) -> None:
        self.error: str | ParseError = ""
        self.end = _END
        self._marker = marker
        self._find_reader = find_reader
        self._name = ""
        self._attributes: dict[str, str] = {}
        self._schemas: Mapping[str, Schema] = {}
        self._arguments: TaggedArguments | None = None
        self._body: Body | None = None  # of the tool's own

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if not self._name:
            verdict = self._read_tag(scanner, calls)
            if verdict is not None:
                return verdict
        if scanner.at == len(scanner.text):
            return Verdict.MORE
        if self._body is None and self._arguments is None:
            self._begin(calls)
        if self._body is not None:
            return self._delegated(self._body, self._body.read(scanner, calls))
        return self._read_arguments(scanner, calls)

    def finish(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Say that the text has ended: the call has not."""
        if self._body is not None:
            return self._delegated(self._body, self._body.finish(scanner, calls))
        if not self._name:
            return Verdict.PROSE
        if self._arguments is not None:
            self._arguments.cut(scanner)
            if self._read_arguments(scanner, calls) is Verdict.DONE:
                return Verdict.DONE
        scanner.at = len(scanner.text)
        self.error = "the call was cut"
        return Verdict.TEXT

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        reader = self._body or self._arguments
        return None if reader is None else reader.run()

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now, decoded."""
        if self._body is not None:
            return self._body.open_text() if isinstance(self._body, Mendable) else None
        return None if self._arguments is None else self._arguments.gone_out()

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make the call of *text*: close what was left open, or mend its JSON."""
        if self._body is not None:
            if not isinstance(self._body, Mendable):
                return []
            return self._body.mend(text[self._tag_end(text) :], ended=ended)
        return self._mend_json(text) or self._mend_tags(text)

    # --- the call ---

    def _read_tag(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Read the opening tag; None tells that it names a tool and that its inside follows."""
        tag = take_opening(self._marker, scanner)
        if isinstance(tag, Verdict):
            return tag
        attributes = attributes_of(tag)
        name = known_name(attributes.get("name", ""), calls.schemas)
        if name is None:
            return Verdict.PROSE
        self._name = calls.name = name
        self._attributes = attributes
        self._schemas = calls.schemas
        if not tag.empty:
            return None
        reader = self._find_reader(name)
        self._open(reader if isinstance(reader, PipedTool) else GENERIC, calls)
        calls.close()
        return Verdict.DONE

    def _begin(self, calls: Calls) -> None:
        reader = self._find_reader(self._name)
        if isinstance(reader, PipedTool):
            self._arguments = self._open(reader, calls)
        else:
            self._body = reader(self._name, self._attributes)

    def _open(self, tool: PipedTool, calls: Calls) -> TaggedArguments:
        writer = calls.open(self._name)
        given = tool.read_attributes(self._attributes)
        for key, value in given.items():
            writer.put(key, value)
        return TaggedArguments(Owner(self._name, self._schemas[self._name], tool, given), writer)

    def _read_arguments(self, scanner: Scanner, calls: Calls) -> Verdict:
        arguments = self._arguments
        assert arguments is not None  # noqa: S101 - the tag was read
        verdict = arguments.read(scanner, calls)
        self.error = arguments.error
        if verdict is Verdict.DONE:
            arguments.close(calls)
        return verdict

    def _delegated(self, body: Body, verdict: Verdict) -> Verdict:
        self.error, self.end = body.error, body.end
        return verdict

    # --- mending ---

    def _tag_end(self, text: str) -> int:
        tag = opening_at(self._marker + text, 0)
        return 0 if tag is None else tag.end - len(self._marker)

    def _mend_tags(self, text: str) -> list[Mended]:
        """Add what ends the value that is open, if need be, and the end tag of the call."""
        text = without_turn_end(text)
        ending = "" if self._arguments is None else self._arguments.ending
        if ending and self._arguments is not None and self._arguments.is_empty:
            return []  # The value may have been cut.
        bare = next(
            filter(text.__ne__, (without_begun(text, end) for end in (ending, *_ENDS))), text
        )
        for closing in dict.fromkeys(("", ending)):
            call = self._reread(bare + closing + _END)
            if call is not None:
                return [Mended(call.name, call.arguments, ["closed the call"])]
        return []

    def _mend_json(self, text: str) -> list[Mended]:
        """Mend the object that the arguments are, if they are one."""
        head = self._tag_end(text)
        tag = opening_at(text, skip_space(text, head))
        if tag is not None and tag.name.lower() == "arguments":
            head = tag.end
        inside = text[head:]
        if not inside.lstrip().startswith("{"):
            return []
        with suppress(JSONParseError, UsageError):
            repaired = rjson.repair(inside)
            call = self._reread(text[:head] + rjson.dumps(repaired.value) + _END)
            if call is not None:
                return [Mended(call.name, call.arguments, [*repaired.repairs])]
        return []

    def _reread(self, text: str) -> ToolCall | None:
        return read_call(ToolTagReader(self._marker, self._find_reader), text, self._schemas)
