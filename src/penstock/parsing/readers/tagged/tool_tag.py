"""Calls as ``<tool name="…"> … </tool>``: the tag, its tool, and who reads what is inside.

The tag counts only with the name of a known tool on it, exactly or but for case; anything else is
prose. The call begins with the first character after the tag. A reader of one's own, registered
for a tool, may take over there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from penstock.errors import JSONParseError, ParseError, UsageError
from penstock.messages import ToolCall
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import CallSink, RepairedCall
from penstock.parsing.readers.base import (
    BodyReader,
    OpenString,
    Repairable,
    Verdict,
    read_call,
    skipped_text,
    without_begun,
)
from penstock.parsing.readers.envelope import JSONArgumentReader
from penstock.parsing.readers.plausible import fits, has_loose_tags, without_turn_end
from penstock.parsing.readers.tagged.strings import (
    CallCloser,
    MarkerCloser,
    StrictCloser,
    read_value,
)
from penstock.parsing.readers.tagged.tags import (
    MAX_TAG,
    attributes_of_opening_tags,
    known_name,
    take_opening,
)
from penstock.parsing.readers.tagged.tool_tag_values import (
    GENERIC,
    PipedTool,
    TagArgument,
    Value,
    begin,
    key_of,
)
from penstock.parsing.scanner import Scanner, markers
from penstock.values import rjson
from penstock.values.rxml.markup import (
    COMMENT,
    MarkupTag,
    closing_at,
    may_become_markup,
    opening_at,
    skip_space,
)
from penstock.values.schema import Schema

# Arguments between tags: ``<arg name="k">v</arg>`` or ``<k>v</k>``, or one JSON object.
#
# Between values stand tags, white space, comments and what else a model writes there, which
# says nothing; but where nothing else stands it was meant as the arguments, and is not one. How a
# value begins tells how it is read: a CDATA section, elements, or text. A string goes out as it
# comes; any other value is written when it is closed. Children without ``arg``, and any
# argument that is a list, may come again and are one list then, so all of them but strings wait
# until the call ends. After the arguments everything up to the end of the call is passed over.


_COMMENT_END: Final = "-->"
_AROUND: Final = ("arg", "arguments", "tool")


class Owner(Struct, frozen=True):
    """Whose arguments are read: the tool's *name* and *schema*, how it is read, what is *given*.

    *given* is the metadata that the call's own tag has said already.
    """

    name: str
    schema: Schema | None
    tool: PipedTool
    given: Mapping[str, str | bool | int]


class TaggedArguments:
    """Reads the arguments of one call, up to its end tag."""

    def __init__(self, owner: Owner, writer: ArgumentWriter) -> None:
        self.error: str | ParseError = ""
        self.doubt = ""  # why the call cannot be what the model meant
        self.skipped: list[str] = []  # text between arguments
        self._owner = owner
        self._writer = writer
        self._begins = True  # nothing has come but white space and `<arguments>`
        self._passes = False  # the arguments have ended
        self._is_text = False  # text has come, and no argument
        self._has_arguments = False
        self._in_comment = False
        self._json: JSONArgumentReader | None = None
        self._whole: JSONArgumentReader | None = None  # has read all of its value
        self._tools: Collection[str] = ()  # whose calls may follow
        self._argument: TagArgument | None = None  # opened; how its value begins is not known
        self._value: Value | None = None  # that is open
        self._children: dict[str, list[Any]] = {}

    @property
    def ending(self) -> str:
        """What ends the value that is open; empty where none is."""
        if self._value is not None:
            return self._value.ending
        return "" if self._argument is None else f"</{self._argument.tag}>"

    @property
    def is_empty(self) -> bool:
        """Whether a value is open and nothing of it has come."""
        if self._value is None:
            return self._argument is not None
        return not (self._value.text or "").strip()

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; `DONE` tells that the end tag of the call has been read."""
        while scanner.at < len(scanner.text):
            verdict = self._step(scanner, calls)
            if verdict is not None:
                return verdict
        return Verdict.MORE

    def close(self, calls: CallSink) -> None:
        """Close the call, whose end tag has been read, and put out those that came with it."""
        if self.doubt:
            calls.doubt(self.doubt)
        if self.skipped:
            calls.note(skipped_text("".join(self.skipped)))
        if self._whole is not None:
            self._whole.close(calls)
        else:
            calls.close()

    def cut(self, scanner: Scanner) -> None:
        """Say that the text has ended: an open string takes what was held back."""
        if self._argument is not None:
            self._begin_value(self._argument, scanner, final=True)
        if self._value is not None and not self._read_value(self._value, scanner, final=True):
            self._value.string.flush()
            scanner.at = len(scanner.text)

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        if self._json is not None:
            return self._json.run()
        return None if self._value is None else self._value.string.run()

    def gone_out(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        if self._json is not None:
            return self._json.open_text()
        return None if self._value is None else self._value.string.gone_out()

    def _step(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Take one step; None tells to continue."""
        if self._value is not None:
            return None if self._read_value(self._value, scanner) else Verdict.MORE
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
        """Pass what says nothing, up to a tag, and take the tag."""
        text = scanner.text
        at = skip_space(text, scanner.at)
        if at > scanner.at and self.skipped:
            self.skipped.append(" ")
        if at == len(text):
            scanner.at = at
            return Verdict.MORE
        if self._begins and text[at] in "{[":
            scanner.at = at
            owner = self._owner
            self._json = JSONArgumentReader(owner.name, owner.schema, several=True)
            return None
        found = text.find("<", at)
        if found != at:
            self._pass_text(text[at : found if found != -1 else len(text)])
        scanner.at = found if found != -1 else len(text)
        return self._read_markup(scanner) if found != -1 else Verdict.MORE

    def _read_markup(self, scanner: Scanner) -> Verdict | None:
        at = scanner.at
        window = scanner.text[at : at + MAX_TAG]
        closing = closing_at(window, 0)
        if closing is not None:
            verdict = self._leave(closing[0].lower())
            scanner.at += 0 if verdict is Verdict.BROKEN else closing[1]
            return verdict
        tag = opening_at(window, 0)
        if tag is not None:
            return self._enter(tag, scanner)
        if window.startswith(COMMENT):
            self._in_comment = True
            scanner.at = at + len(COMMENT)
        elif len(window) < MAX_TAG and may_become_markup(window):
            return Verdict.MORE
        else:
            self._pass_text("<")
            scanner.at = at + 1
        return None

    def _pass_text(self, text: str) -> None:
        self.skipped.append(text)
        self._begins = False
        self._is_text = not self._has_arguments and (self._is_text or not self._passes)

    def _leave(self, name: str) -> Verdict | None:
        self._begins = False
        if name == "tool" and self._is_text:
            self.error = "arguments that are neither JSON nor elements"
            return Verdict.BROKEN
        if name == "tool":
            for key, values in self._children.items():
                self._writer.put(key, values[0] if len(values) == 1 else values)
            return Verdict.DONE
        if name != "arguments":
            self.doubt = self.doubt or f"`</{name}>` closes nothing"
        self._passes = self._passes or name == "arguments"
        return None

    def _enter(self, tag: MarkupTag, scanner: Scanner) -> Verdict | None:
        name = tag.name.lower()
        if name == "tool" and "name" in attributes_of_opening_tags(tag):
            self.error = "another call begins inside"
            return Verdict.BROKEN
        scanner.at += tag.end
        if self._passes or name == "arguments":
            self._passes = self._passes or tag.empty
            return None
        self._begins = self._is_text = False
        self._has_arguments = True
        self._open(tag)
        return None

    def _open(self, tag: MarkupTag) -> None:
        """Open the argument that *tag* names."""
        owner, key = self._owner, key_of(tag)
        known = set(owner.schema.properties) if owner.schema is not None else set()
        known |= {*owner.tool.metadata, owner.tool.content} - {""}
        repeats = tag.name.lower() != "arg" or "name" not in attributes_of_opening_tags(tag)
        argument = TagArgument(
            key=key,
            tag=tag.name,
            schema=self._writer.child(key),
            tool=owner.tool,
            known=None if repeats else frozenset(known) or None,
            repeats=repeats,
        )
        if tag.empty:
            self._put(argument, argument.value_of(""))
        else:
            self._argument = argument

    # --- inside ---

    def _begin_value(self, argument: TagArgument, scanner: Scanner, *, final: bool = False) -> bool:
        """Look how the value begins and open it; return whether that is known."""
        value = begin(argument, scanner, self._writer, final=final)
        if value is not None:
            self._value, self._argument = value, None
        return value is not None

    def _read_value(self, value: Value, scanner: Scanner, *, final: bool = False) -> bool:
        """Read on in the open value; return whether it has ended."""
        closer = value.closer
        if not isinstance(closer, MarkerCloser):
            closer = CallCloser(closer, value.argument.tag, self._tools)
        if not read_value(value.string, closer, scanner, final=final):
            return False
        self._value = None
        if isinstance(value.closer, StrictCloser) and self._is_unclear(value, value.text or ""):
            self.doubt = f"it is not clear where `{value.argument.key}` ends"
        if value.collected is not None:
            self._put(value.argument, value.collected.value)
        return True

    def _is_unclear(self, value: Value, text: str) -> bool:
        """Return whether *text* holds what is left of other arguments rather than a value."""
        argument = value.argument
        if has_loose_tags(text, {argument.tag.lower(), *_AROUND}):
            return True
        if value.collected is None:
            return False
        return isinstance(value.collected.value, str) and not fits(text, argument.schema)

    def _put(self, argument: TagArgument, value: Any) -> None:
        """Write a value that is whole, or keep it where another one may follow."""
        name = argument.tool.metadata_name(argument.key)
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
        self._begins, self._passes = False, True
        return None

    def _skip_comment(self, scanner: Scanner) -> Verdict | None:
        end = scanner.text.find(_COMMENT_END, scanner.at)
        if end == -1:
            scanner.at = markers(_COMMENT_END).find_held(scanner.text, scanner.at)
            return Verdict.MORE
        self._in_comment = False
        scanner.at = end + len(_COMMENT_END)
        return None


MakeBody = Callable[[str, Mapping[str, str]], BodyReader]
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
        self._body: BodyReader | None = None  # of the tool's own

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
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

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: the call has not."""
        if self._body is not None:
            return self._delegated(self._body, self._body.finish(scanner, calls))
        if not self._name:
            return Verdict.NOT_A_CALL
        if self._arguments is not None:
            self._arguments.cut(scanner)
            if self._read_arguments(scanner, calls) is Verdict.DONE:
                return Verdict.DONE
        scanner.at = len(scanner.text)
        self.error = "the call was cut"
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        reader = self._body or self._arguments
        return None if reader is None else reader.run()

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now, decoded."""
        if self._body is not None:
            return self._body.open_text() if isinstance(self._body, Repairable) else None
        return None if self._arguments is None else self._arguments.gone_out()

    def mend(self, text: str, *, ended: bool) -> list[RepairedCall]:
        """Make the call of *text*: close what was left open, or repair its JSON."""
        if self._body is not None:
            if not isinstance(self._body, Repairable):
                return []
            return self._body.mend(text[self._tag_end(text) :], ended=ended)
        return self._mend_json(text) or self._mend_tags(text)

    # --- the call ---

    def _read_tag(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Read the opening tag; None tells that it names a tool and that its inside follows."""
        tag = take_opening(self._marker, scanner)
        if isinstance(tag, Verdict):
            return tag
        attributes = attributes_of_opening_tags(tag)
        name = known_name(attributes.get("name", ""), calls.schemas)
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

    def _begin(self, calls: CallSink) -> None:
        reader = self._find_reader(self._name)
        if isinstance(reader, PipedTool):
            self._arguments = self._open(reader, calls)
        else:
            self._body = reader(self._name, self._attributes)

    def _open(self, tool: PipedTool, calls: CallSink) -> TaggedArguments:
        writer = calls.open(self._name)
        given = tool.read_attributes(self._attributes)
        for key, value in given.items():
            writer.put(key, value)
        return TaggedArguments(Owner(self._name, self._schemas[self._name], tool, given), writer)

    def _read_arguments(self, scanner: Scanner, calls: CallSink) -> Verdict:
        arguments = self._arguments
        assert arguments is not None  # noqa: S101 - the tag was read
        verdict = arguments.read(scanner, calls)
        self.error = arguments.error
        if verdict is Verdict.DONE:
            arguments.close(calls)
        return verdict

    def _delegated(self, body: BodyReader, verdict: Verdict) -> Verdict:
        self.error, self.end = body.error, body.end
        return verdict

    # --- repairing ---

    def _tag_end(self, text: str) -> int:
        tag = opening_at(self._marker + text, 0)
        return 0 if tag is None else tag.end - len(self._marker)

    def _mend_tags(self, text: str) -> list[RepairedCall]:
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
                return [RepairedCall(call.name, call.arguments, ["closed the call"])]
        return []

    def _mend_json(self, text: str) -> list[RepairedCall]:
        """Repair the object that the arguments are, if they are one."""
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
                return [RepairedCall(call.name, call.arguments, [*repaired.repairs])]
        return []

    def _reread(self, text: str) -> ToolCall | None:
        return read_call(ToolTagReader(self._marker, self._find_reader), text, self._schemas)
