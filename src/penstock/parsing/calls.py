"""The call that is being read: what body readers write to, in either argument mode.

A body reader says what it found (`open`, arguments, `close`) and does not know the mode. `live`
passes everything on as it comes; `whole` keeps it until the call is complete, so that a call that
breaks or is cut can be given back as the text that it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from penstock.errors import ParseError
from penstock.messages import ToolCall
from penstock.parsing.arguments import ArgumentWriter, can_write
from penstock.parsing.output import Output
from penstock.values.coercion import coerce, describe_change
from penstock.values.schema import Schema


class NoCallError(Exception):
    """The text can be no call, for a reason that its grammar does not know."""


class Mended(NamedTuple):
    """A call that was made of broken text; *repairs* says in words what was mended.

    Where it was read out of JSON, *written* is the text of that: `mending` looks whether anything
    of it was lost.
    """

    name: str
    arguments: dict[str, Any]
    repairs: list[str]
    id: str = ""
    written: str = ""


class Calls:
    """Makes calls of what body readers find and puts them out."""

    __slots__ = ("_id", "_ids", "_notes", "_output", "_repairs", "deltas", "is_first", "live",
                 "name", "schemas", "started", "tell", "writer")  # fmt: skip

    def __init__(
        self,
        output: Output,
        schemas: Mapping[str, Schema],
        ids: Callable[[], str],
        tell: Callable[[str | ParseError], None],
        *,
        live: bool,
    ) -> None:
        self.schemas = schemas
        self.tell = tell
        """Says what is wrong with the call that is being read, and yet no reason to refuse it."""
        self.is_first = True  # nothing was said yet: no text but white space, and no call
        self.started = False  # events of the open call went out
        self.writer: ArgumentWriter | None = None  # of the open call
        self._output = output
        self._ids = ids
        self.live = live
        self.name = ""  # of the call that is open, or that the text may be
        self._id = ""
        self._repairs: list[str] = []
        self._notes: dict[str, None] = {}  # what was tolerated in the open call, in words
        self.deltas: list[str] = []  # what `whole` keeps of the open call's arguments

    def line(self) -> str:
        """Give the text that stands before the start marker on its line, or the end of it."""
        return self._output.line()

    def say(self, text: str) -> None:
        """Show *text*: it is no call, but what the text that was read says to the user."""
        self._output.say(text)
        self.is_first = self.is_first and not text.strip()

    def open(self, name: str, id: str = "") -> ArgumentWriter:  # noqa: A002 - the field's name
        """Open the call of *name*; give the writer of its arguments."""
        self.name = name
        self._id = id or self._ids()
        self.deltas = []
        self.writer = ArgumentWriter(self.schemas.get(name), self._write)
        if self.live:
            self.started = True
            self._output.start_call(self._id, name)
        return self.writer

    def note(self, notes: Iterable[str]) -> None:
        """Note what was tolerated in the open call: each is said once, in `repairs`."""
        self._notes.update(dict.fromkeys(notes))

    def close(self) -> None:
        """End the open call: it is complete, if its arguments can be said in strict JSON.

        They cannot if a number has no JSON form, or in `live` if an argument came again with
        another value than the one that went out. Then the call is incomplete in `live`; in `whole`
        it is none: raises `NoCallError`.
        """
        writer = self.writer
        assert writer is not None  # noqa: S101 - readers open before they close
        quote = writer.take_quote()
        repeated = ", ".join(repr(key[:99]) for key in writer.conflicts)
        if self.live and (repeated or writer.flaw):
            self.tell(writer.flaw or f"several values for one argument: {repeated}")
            self.drop()
            return
        if writer.flaw:
            raise NoCallError(writer.flaw)
        if repeated:
            note = f"several values for one argument, of which the last counts: {repeated}"
            self._repairs = [*self._repairs, note]
        closing = quote + writer.closing
        if self.live:
            # The call's end claims what is unread by its last argument, its end tag too.
            self._output.add_arguments(closing, claims=False)
        else:
            self._output.start_call(self._id, self.name)
            said = writer.text if repeated else "".join(self.deltas) + closing
            self._output.add_arguments(said)
        repairs = self._repairs
        if self._notes or writer.notes:
            repairs = [*self._notes, *writer.notes, *repairs]
        call = ToolCall(self._id, self.name, writer.arguments, repairs=repairs)
        self._output.end_call(call)
        self.is_first = False
        self._reset()

    def drop(self, open_text: str | None = None) -> None:
        """End the open call as incomplete, if any of it went out; forget it otherwise.

        *open_text* is what went out of a string that is not closed: the call keeps it.
        """
        writer = self.writer
        if writer is not None and self.started:
            arguments = writer.cut_arguments(open_text)
            self._output.end_call(ToolCall(self._id, self.name, arguments, complete=False))
            self.is_first = False
        self._reset()

    def may_mend(self, call: Mended, open_text: str | None) -> bool:
        """Tell whether *call*, made of broken text, may go out as the open call, or as a new one.

        The tool has to be known, its schema satisfied, and nothing that went out taken back:
        *open_text* is what went out of a string that is not closed yet.
        """
        schema = self.schemas.get(call.name)
        if schema is None:
            return False
        arguments = coerce(call.arguments, schema, typed=True)
        if not schema.accepts(arguments) or not can_write(arguments):
            return False
        if not self.started or self.writer is None:
            return True
        return call.name == self.name and self.writer.agrees_with(arguments, open_text)

    def mend(self, call: Mended, open_text: str | None) -> None:
        """Put out *call*, or what of it did not go out before it broke."""
        writer = self.writer if self.started else None
        if writer is None:  # `whole` has given an id to the open call, but shown none of it.
            writer = self.open(call.name, call.id or self._id)
        fitted = coerce(call.arguments, self.schemas[call.name], typed=True)
        if call.written:  # Only there a value has a type before it is coerced.
            writer.notes = [
                describe_change(key, call.arguments[key], value)
                for key, value in fitted.items()
                if key in call.arguments and value is not call.arguments[key]
            ]
        writer.complete(fitted, open_text)
        self._repairs = call.repairs
        self.close()

    def _write(self, piece: str) -> None:
        if self.live and piece:
            self._output.add_arguments(piece)
        elif self.live:
            self._output.hold_raw()
        else:
            self.deltas.append(piece)

    def _reset(self) -> None:
        self.writer = None
        self.name = self._id = ""
        self.started = False
        self.deltas = []
        self._repairs = []
        if self._notes:
            self._notes = {}
