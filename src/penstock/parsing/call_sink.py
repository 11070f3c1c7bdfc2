"""The call that is being read: what body readers write to, in either argument mode.

A body reader says what it found (`open`, arguments, `close`) and does not know the mode. `live`
passes everything on as it comes; `whole` keeps it until the call is complete, so that a call that
breaks or is cut can be given back as the text that it was. A call beyond the number that is allowed
is read as in `whole` and never put out: its text is shown when its body ends.

A call that is quoted from untrusted input is text: its text is shown where its events would be. In
`live` such a call is held back for as long as all of it so far occurs in the input. Whether it does
only ever changes from yes to no, so it does not matter when it is checked: after a `feed`, and
whenever it is asked whether the call has `started`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.errors import ParseError
from penstock.messages import ToolCall
from penstock.parsing.arguments import ArgumentWriter, can_write
from penstock.parsing.output import Kind, Output
from penstock.parsing.quotations import Trail, Untrusted
from penstock.values.coercion import coerce, describe_change
from penstock.values.schema import Schema


class NoCallError(Exception):
    """The text can be no call, for a reason that its grammar does not know."""


class UnclearCallError(NoCallError):
    """It is not clear what the model meant: all of the call's text is text."""


class Quotation(NamedTuple):
    """A call of the tool *name* that was shown as text, and *why*."""

    why: str
    name: str
    text: str


_CHECK_EVERY: Final = 32
"""How many characters a held call grows by, at least, before it is compared again."""


class RepairedCall(NamedTuple):
    """A call that was made of broken text; *repairs* says in words what was repaired.

    Where it was read out of JSON, *written* is the text of that: `repairing` looks whether anything
    of it was lost.
    *rest* is the end of the text that is not a part of the call.
    """

    name: str
    arguments: dict[str, Any]
    repairs: list[str]
    id: str = ""
    written: str = ""
    rest: str = ""


class CallSink:
    """Makes calls of what body readers find and puts them out."""

    __slots__ = ("_begin", "_checked", "_doubt", "_id", "_ids", "_notes", "_opened", "_output",
                 "_repairs", "_started", "_trail", "deltas", "is_first", "left", "live", "name",
                 "quotations", "refused", "schemas", "show", "tell", "untrusted", "was_quoted",
                 "writer")  # fmt: skip

    def __init__(
        self,
        output: Output,
        schemas: Mapping[str, Schema],
        ids: Callable[[], str],
        tell: Callable[[str | ParseError], None],
        *,
        live: bool,
        most: int | None = None,
    ) -> None:
        self.schemas = schemas
        self.left = most
        """How many more calls may come out; None is any number."""
        self.refused = ""  # the name of a complete call that was one too many
        self.tell = tell
        """Says what is wrong with the call that is being read, and yet no reason to refuse it."""
        self.is_first = True  # nothing was said yet: no text but white space, and no call
        self.show: Callable[[], None] = _show_nothing
        """Shows what was read and not claimed as text."""
        self.untrusted: Untrusted | None = None  # what calls may be quoted from
        self.quotations: list[Quotation] = []  # the calls since the body began that are text
        self._begin = 0  # where the open call begins in the text since the last one
        self._trail: Trail | None = None  # of the open call, while it is held back
        self._opened = self._checked = 0  # where it was opened, and last compared
        self.was_quoted = False  # the last call was text
        self._started = False
        self.writer: ArgumentWriter | None = None  # of the open call
        self._output = output
        self._ids = ids
        self.live = live and most != 0
        self.name = ""  # of the call that is open, or that the text may be
        self._id = ""
        self._repairs: list[str] = []
        self._doubt = ""  # why the open call cannot be complete
        self._notes: dict[str, None] = {}  # what was tolerated in the open call, in words
        self.deltas: list[str] = []  # what `whole` keeps of the open call's arguments

    @property
    def started(self) -> bool:
        """Whether events of the open call went out."""
        if self._trail is not None:
            self._check()
        return self._started

    @started.setter
    def started(self, value: bool) -> None:
        self._started = value

    @property
    def is_held(self) -> bool:
        """Whether the open call waits, because it may be quoted."""
        return self._trail is not None

    def line(self) -> str:
        """Return the text that comes before the start marker on its line, or the end of it."""
        return self._output.line()

    def say(self, text: str) -> None:
        """Show *text*: it is not a call, but what the text that was read says to the user."""
        self._output.say(text)
        self.is_first = self.is_first and not text.strip()

    def open(self, name: str, id: str = "") -> ArgumentWriter:  # noqa: A002 - the field's name
        """Open the call of *name*; return the writer of its arguments."""
        self.name = name
        self._id = id or self._ids()
        self.deltas = []
        self.writer = ArgumentWriter(self.schemas.get(name), self._write)
        self.was_quoted = False
        if self.untrusted is not None:
            self._follow(self.untrusted)
        if self.live and self._trail is None:
            self._start()
        return self.writer

    def note(self, *notes: str) -> None:
        """Note what was tolerated in the open call: each is said once, in `repairs`."""
        self._notes.update(dict.fromkeys(notes))

    def doubt(self, reason: str) -> None:
        """Note that the open call is not what the model meant: it will not be complete."""
        self._doubt = self._doubt or reason

    def close(self) -> None:
        """End the open call: it is complete, if its meaning is clear and JSON can say it.

        It cannot if a number has no JSON form, or in `live` if an argument came again with another
        value than the one that went out. Then, and where its meaning is in doubt, the call is
        incomplete in `live`; in `whole` it is not one: raises `NoCallError`.
        """
        writer = self.writer
        assert writer is not None  # noqa: S101 - readers open before they close
        if self.left == 0:
            self.refused = self.name
            self._reset()
            return
        quote = writer.take_quote()
        if self.untrusted is not None and self._is_quoted(self.untrusted, writer.arguments):
            self._reset()
            return
        repeated = ", ".join(repr(key[:99]) for key in writer.conflicts)
        if self.live and (repeated or writer.flaw or self._doubt):
            reason = self._doubt or writer.flaw or f"several values for one argument: {repeated}"
            self.tell(reason)
            self.drop()
            return
        if self._doubt:
            raise UnclearCallError(self._doubt)
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
            repairs = list(dict.fromkeys([*self._notes, *writer.notes, *repairs]))  # each once
        call = ToolCall(self._id, self.name, writer.arguments, repairs=repairs)
        self._output.end_call(call)
        self.is_first = False
        self._reset()
        if self.left is not None:
            self.left -= 1
            self.live = self.live and self.left > 0

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

    def may_mend(self, call: RepairedCall, open_text: str | None) -> bool:
        """Return whether *call*, made of broken text, may go out as the open call, or as a new one.

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

    def mend(self, call: RepairedCall, open_text: str | None) -> None:
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
        self._repairs = [*self._repairs, *call.repairs]
        self._doubt = ""  # The repaired text was read again, and is clear.
        self.close()

    def _write(self, piece: str) -> None:
        if not self.live or self._trail is not None:
            self.deltas.append(piece)
        elif piece:
            self._output.add_arguments(piece)
        else:
            self._output.hold_raw()

    def _start(self) -> None:
        """Let the open call out; what has come of its arguments meanwhile, too."""
        self._trail = None
        self._started = True
        self._output.start_call(self._id, self.name)
        if self.deltas:
            self._output.add_arguments("".join(self.deltas))
            self.deltas = []

    # --- quoted calls ---

    def check_held(self) -> None:
        """Let a held call out that is not quoted after all, if it has grown enough to ask."""
        position = self._output.position
        # Comparing takes all of the call so far: an eighth more each time keeps that linear.
        if position - self._checked >= max(_CHECK_EVERY, (position - self._opened) // 8):
            self._check()

    def settle_held(self) -> None:
        """Let a held call out that is not quoted after all: it broke here."""
        if self._trail is not None:
            self._check()

    def _follow(self, untrusted: Untrusted) -> None:
        """Note where the open call begins; hold it back where it may be quoted.

        A section may have begun before it, or another call: its own text begins with the last tag
        before the tool's name, if there is one.
        """
        text = self._output.read_since_call()
        tag = text.rfind("<", 0, max(text.find(self.name), 0))
        self._begin = tag if tag != -1 else len(text) - len(text.lstrip(" \t\r\n,;"))
        if self.live:
            self._trail = untrusted.follow(text[self._begin :], self.name)
            self._opened = self._checked = self._output.position

    def _check(self) -> None:
        """Let the held call out if its text so far occurs in no untrusted input."""
        self._checked = self._output.position
        text = self._output.read_since_call()[self._begin :]
        if self._trail is not None and not self._trail.goes_on_with(text):
            self._start()

    def _is_quoted(self, untrusted: Untrusted, arguments: dict[str, Any]) -> bool:
        """Show the open call as text if it is quoted; let it out if it was held and is not."""
        if self.started:
            return False
        text = self._output.read_since_call()
        source = untrusted.find_source(text[self._begin :], self.name, arguments)
        if not source:
            if self._trail is not None:
                self._start()
            return False
        why = f"quoted from {source}: text, not a call"
        self.quotations.append(Quotation(why, self.name, text))
        self.was_quoted = True
        self.show()
        return True

    def _reset(self) -> None:
        self.writer = None
        self.name = self._id = ""
        self._started = False
        self._trail = None
        self.deltas = []
        self._repairs = []
        self._doubt = ""
        if self._notes:
            self._notes = {}


def _show_nothing() -> None:
    """Stand for what shows text, where no text can be shown."""


# Calls of known tools only: what calls any other tool is text, in whatever format it is.
#
# A reader does not know that. It opens a call and writes to it as ever; where nobody has the
# tool the call is mute, and each event that it would have made shows its text instead. So the
# good calls of a list still come, and no call of an unknown tool ever starts.


Shown = tuple[list[str] | None, int]
"""The pieces of the block of text that is open, if one is, and how many there are."""


class KnownToolSink(CallSink):
    """Makes calls of what readers find, if the tool is known, and text otherwise."""

    __slots__ = ("completed", "is_mute", "kind", "thinks")

    completed: int
    """How many calls are complete."""
    is_mute: bool
    """Whether the last call that was opened is not one."""
    kind: Callable[[], Kind]
    """Tells what text is where the call stands."""
    thinks: bool
    """Whether a marker may open a thought."""

    def begin(self, kind: Callable[[], Kind], *, thinks: bool) -> None:
        """Take what tells the *kind* of text, and whether a marker may open a thought."""
        self.thinks = thinks
        self.completed = 0
        self.is_mute = False
        self.kind = kind

    def shown(self) -> Shown:
        """Return what the open block of text has shown so far."""
        pieces = self._output.pieces
        return pieces, 0 if pieces is None else len(pieces)

    def open(self, name: str, id: str = "") -> ArgumentWriter:  # noqa: A002 - the field's name
        """Open the call of *name*, or a mute one."""
        self.is_mute = name not in self.schemas
        if not self.is_mute:
            return super().open(name, id)
        self.name = name
        self.started = True  # What was shown of it is not taken back.
        self.writer = ArgumentWriter(None, self._write)
        self.show()
        return self.writer

    def close(self) -> None:
        """End the open call: it is complete, or it is text."""
        if self.is_mute:
            self.drop()
        else:
            quoted = len(self.quotations)
            super().close()
            self.completed += len(self.quotations) == quoted

    def drop(self, open_text: str | None = None) -> None:
        """End the open call as incomplete; a mute one is text up to here."""
        if self.is_mute and self.writer is not None:
            self.show()
            self._reset()
        else:
            super().drop(open_text)

    def end_mute(self) -> bool:
        """Show what a mute call has left after; return whether there was one."""
        was_mute, self.is_mute = self.is_mute, False
        if was_mute:
            self.writer = None
            self.show()
            self._reset()
        return was_mute

    def _write(self, piece: str) -> None:
        if self.is_mute:
            self.show()
        else:
            super()._write(piece)
