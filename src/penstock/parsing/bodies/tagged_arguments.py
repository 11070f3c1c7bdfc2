"""Arguments between tags: ``<arg name="k">v</arg>`` or ``<k>v</k>``, or one JSON object.

Between values stand tags, white space, comments and what else a model writes there, which says
nothing; but where nothing else stands it was meant as the arguments, and is none. How a value
begins tells how it is read: a CDATA section, elements, or text. A string goes out as it comes; any
other value is written when it is closed. Children without ``arg``, and any argument that is a list,
may come again and are one list then, so all of them but strings wait until the call ends. Behind
the arguments everything up to the end of the call is passed over.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.errors import ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.bodies.base import Run, Verdict
from penstock.parsing.bodies.closers import CallCloser, MarkerCloser, StrictCloser
from penstock.parsing.bodies.json_arguments import JSONArgumentReader
from penstock.parsing.bodies.open_strings import read_value
from penstock.parsing.bodies.opening_tags import MAX_TAG, attributes_of
from penstock.parsing.bodies.piped_tools import PipedTool
from penstock.parsing.bodies.plausible import fits, has_loose_tags
from penstock.parsing.bodies.rereading import skipped_text
from penstock.parsing.bodies.tagged_values import key_of
from penstock.parsing.bodies.value_beginnings import Argument, Value, begin
from penstock.parsing.calls import Calls
from penstock.parsing.scanner import Scanner, markers
from penstock.values.rxml.markup import (
    COMMENT,
    Tag,
    closing_at,
    may_become_markup,
    opening_at,
    skip_space,
)
from penstock.values.schema import Schema

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
        self._argument: Argument | None = None  # opened; how its value begins is not known
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

    def read(self, scanner: Scanner, calls: Calls) -> Verdict:
        """Read on; `DONE` tells that the end tag of the call has been read."""
        while scanner.at < len(scanner.text):
            verdict = self._step(scanner, calls)
            if verdict is not None:
                return verdict
        return Verdict.MORE

    def close(self, calls: Calls) -> None:
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

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        if self._json is not None:
            return self._json.run()
        return None if self._value is None else self._value.string.run()

    def gone_out(self) -> str | None:
        """Give what has gone out of the string that streams just now."""
        if self._json is not None:
            return self._json.open_text()
        return None if self._value is None else self._value.string.gone_out()

    def _step(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Take one step; None tells to go on."""
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

    def _enter(self, tag: Tag, scanner: Scanner) -> Verdict | None:
        name = tag.name.lower()
        if name == "tool" and "name" in attributes_of(tag):
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

    def _open(self, tag: Tag) -> None:
        """Open the argument that *tag* names."""
        owner, key = self._owner, key_of(tag)
        known = set(owner.schema.properties) if owner.schema is not None else set()
        known |= {*owner.tool.metadata, owner.tool.content} - {""}
        repeats = tag.name.lower() != "arg" or "name" not in attributes_of(tag)
        argument = Argument(
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

    def _begin_value(self, argument: Argument, scanner: Scanner, *, final: bool = False) -> bool:
        """Look how the value begins and open it; tell whether that is known."""
        value = begin(argument, scanner, self._writer, final=final)
        if value is not None:
            self._value, self._argument = value, None
        return value is not None

    def _read_value(self, value: Value, scanner: Scanner, *, final: bool = False) -> bool:
        """Read on in the open value; tell whether it has ended."""
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

    def _put(self, argument: Argument, value: Any) -> None:
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
        self, json: JSONArgumentReader, scanner: Scanner, calls: Calls
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
