"""Calls as ``<tool name="…"> … </tool>``.

The tag is a call only with the name of a known tool, exactly or in another case; anything else is
prose. The call begins with the first character after the tag. A reader that was registered for a
tool reads the inside of its calls. Otherwise there are arguments between tags, which
`tag_arguments` reads, or one JSON object.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from penstock.errors import JSONParseError, UsageError
from penstock.messages import ToolCall
from penstock.parsing.body import CALL_CUT, BodyReader, StreamingPart, Verdict, without_begun
from penstock.parsing.call_shape import find_name
from penstock.parsing.call_sink import CallSink, RepairedCall, read_call
from penstock.parsing.scanner import Scanner
from penstock.readers.tagged.piped_tools import GENERIC, PipedTool
from penstock.readers.tagged.tag_arguments import (
    Owner,
    TaggedArguments,
    find_simple_arguments,
)
from penstock.readers.tagged.tags import MAX_TAG, take_opening
from penstock.values import rjson
from penstock.values.control_tokens import without_turn_end
from penstock.values.rxml.markup import (
    opening_at,
    skip_space,
)
from penstock.values.schema import Schema

_LAST_TAG: Final = re.compile(r"</[\w.:-]{1,256}\s{0,16}>\Z")

MakeBody = Callable[[str, Mapping[str, str]], BodyReader]
"""Makes the reader of what follows the tag of a call, from the tool's name and the attributes."""

ToolReader = PipedTool | MakeBody
"""How the calls of one tool are read."""

_END: Final = "</tool>"
_ENDS: Final = ("</arguments>", _END)


class ToolTagReader(BodyReader):
    """Reads what follows *marker*, ``<tool``, up to the end of the call.

    *find_reader* returns the reader for a tool's name.
    """

    is_repairable = True

    def __init__(
        self, marker: str, find_reader: Callable[[str], ToolReader], *, repairs: bool = False
    ) -> None:
        self.end = _END
        self._repairs = repairs  # the text was refused
        self._marker = marker
        self._find_reader = find_reader
        self._name = ""
        self._attributes: dict[str, str] = {}
        self._schemas: Mapping[str, Schema] = {}
        self._arguments: TaggedArguments | None = None
        self._body: BodyReader | None = None  # of the tool's own

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Consume text and write its calls to *calls*."""
        if not self._name:
            verdict = self._read_tag(scanner, calls)
            if verdict is not None:
                return verdict
        if scanner.is_at_end:
            return Verdict.MORE
        if self._body is None and self._arguments is None and self._begin(scanner, calls):
            return Verdict.DONE
        if self._body is not None:
            return self._relay(self._body, self._body.read(scanner, calls), with_end=True)
        return self._read_arguments(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text: the call has no end tag."""
        if self._body is not None:
            return self._relay(self._body, self._body.finish(scanner, calls), with_end=True)
        if not self._name:
            return Verdict.NOT_A_CALL
        if self._arguments is not None:
            self._arguments.cut(scanner)
            if self._read_arguments(scanner, calls) is Verdict.DONE:
                return Verdict.DONE
        scanner.skip_all()
        self.error = CALL_CUT
        return Verdict.GIVE_UP

    @property
    def open_part(self) -> StreamingPart | None:
        """The part that is being read; a string in it may stream."""
        return self._body or self._arguments

    def repair(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make the call of *text*: close what was left open, or repair its JSON."""
        if self._body is not None:
            return self._body.repair(text[self._tag_end(text) :], ended=ended)
        return self._repair_json(text) or self._repair_tags(text)

    # --- the call ---

    def _read_tag(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the opening tag; return None if it names a tool and the inside follows."""
        tag = take_opening(self._marker, scanner)
        if isinstance(tag, Verdict):
            return tag
        attributes = tag.quoted_attributes
        name = find_name(attributes.get("name", ""), calls.schemas)
        if name is None:
            return Verdict.NOT_A_CALL
        self._name = calls.name = name
        self._attributes = attributes
        self._schemas = calls.schemas
        if not tag.empty:
            return None
        reader = self._find_reader(name)
        self._open(reader if isinstance(reader, PipedTool) else GENERIC, calls)
        calls.close()
        return Verdict.DONE

    def _begin(self, scanner: Scanner, calls: CallSink) -> bool:
        """Begin to read the inside; return whether all of the call was read."""
        reader = self._find_reader(self._name)
        if not isinstance(reader, PipedTool):
            self._body = reader(self._name, self._attributes)
            return False
        if reader is GENERIC and calls.is_whole and self._read_at_once(scanner, calls):
            return True
        self._arguments = self._open(reader, calls)
        return False

    def _read_at_once(self, scanner: Scanner, calls: CallSink) -> bool:
        """Read a call that is complete and has plain arguments alone; return whether it was."""
        found = find_simple_arguments(scanner.text, scanner.at, self._schemas[self._name])
        if found is None:
            return False
        writer = calls.open(self._name)
        scanner.advance_to(found.end)
        for key, value in found.values.items():
            if key in found.texts:
                writer.put_text(key, value)
            else:
                writer.put(key, value)
        calls.close()
        return True

    def _open(self, tool: PipedTool, calls: CallSink) -> TaggedArguments:
        writer = calls.open(self._name)
        given = tool.read_attributes(self._attributes)
        for key, value in given.items():
            writer.put(key, value)
        owner = Owner(self._name, self._schemas[self._name], tool, given)
        return TaggedArguments(owner, writer, repairs=self._repairs)

    def _read_arguments(self, scanner: Scanner, calls: CallSink) -> Verdict:
        arguments = self._arguments
        assert arguments is not None  # noqa: S101 - the tag was read
        verdict = arguments.read(scanner, calls)
        self.error = arguments.error
        if verdict is Verdict.DONE:
            arguments.close(calls)
        return verdict

    # --- repairing ---

    def _tag_end(self, text: str) -> int:
        tag = opening_at(self._marker + text, 0)
        return 0 if tag is None else tag.end - len(self._marker)

    def _repair_tags(self, text: str) -> list[RepairedCall]:
        """Add what ends the value that is open, if need be, and the end tag of the call."""
        written, text = text, without_turn_end(text)
        ending = "" if self._arguments is None else self._arguments.closing
        if self._arguments is not None and self._arguments.is_in_content:
            return []  # The end marker may still have come: a cut file is never written.
        repaired = self._repair_end(written, len(text))
        if repaired:
            return repaired
        if ending and self._arguments is not None and self._arguments.is_empty:
            return []  # The value may have been cut.
        bare = next(
            filter(text.__ne__, (without_begun(text, end) for end in (ending, *_ENDS))), text
        )
        is_cut = ending and self._arguments is not None and not self._arguments.holds_tags
        for closing in dict.fromkeys(("", ending if is_cut else "")):
            call = self._reread(bare + closing + _END)
            if call is not None:
                return [RepairedCall(call.name, call.arguments, [*call.repairs, "closed the call"])]
        return []

    def _repair_end(self, text: str, size: int) -> list[RepairedCall]:
        """End the call after the last closing tag of ``text[:size]``, if prose follows it."""
        end = text.rfind(">", 0, size) + 1
        prose = text[end:size].strip()
        is_prose = prose and not any(sign in prose for sign in "<[]{}")
        if not is_prose or _LAST_TAG.search(text, max(0, end - MAX_TAG), end) is None:
            return []
        call = self._reread(text[:end] + _END)
        if call is None:
            return []
        notes = [*call.repairs, "closed the call"]
        return [RepairedCall(call.name, call.arguments, notes, rest=text[end:])]

    def _repair_json(self, text: str) -> list[RepairedCall]:
        """Repair the object that the arguments are, if they are one."""
        head = self._tag_end(text)
        tag = opening_at(text, skip_space(text, head))
        if tag is not None and tag.name.lower() == "arguments":
            head = tag.end
        inside = text[head:]
        if not inside.lstrip().startswith("{"):
            return []
        with suppress(JSONParseError, UsageError):
            repaired = rjson.repair(inside, guess=False)
            call = self._reread(text[:head] + rjson.dumps(repaired.value) + _END)
            if call is not None:
                return [RepairedCall(call.name, call.arguments, [*call.repairs, *repaired.repairs])]
        return []

    def _reread(self, text: str) -> ToolCall | None:
        reader = ToolTagReader(self._marker, self._find_reader, repairs=True)
        return read_call(reader, text, self._schemas)
