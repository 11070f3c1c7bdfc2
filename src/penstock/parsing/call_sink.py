"""The call that is being read: the interface that body readers write to, in either argument mode.

A body reader reports what it finds (`open`, arguments, `close`) and does not know the mode. `live`
emits everything as it comes; `whole` keeps it until the call is complete, so that a call that
breaks or is cut can be handed back as text. A call beyond the allowed number is
read as in `whole` and never emitted: its text is shown when its body ends.

A call that is quoted from untrusted input is text: its text is shown where its events would be. In
`live` a call is held back for as long as all of it so far occurs in the input. Once it does not, it
never will again, so the result does not depend on when that is checked: after a `feed`, and when a
reader needs to know whether the call has `started`.

A syntax may read calls of known tools only (`Syntax.only_known_tools`). Readers do not know that: a
call of an unknown tool is muted, and each event that it would have emitted shows its text instead.
So the good calls of a list are still emitted, and no call of an unknown tool ever starts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from penstock.errors import ParseError
from penstock.events import ToolCallEnd
from penstock.messages import ToolCall
from penstock.parsing.arguments import ArgumentWriter, can_write, find_damaged_key
from penstock.parsing.body import BodyReader, Kind, Verdict
from penstock.parsing.quotations import Quotation, Untrusted
from penstock.parsing.scanner import Scanner
from penstock.parsing.state import (
    EngineState,
    add_arguments,
    current_line,
    emit_read,
    end_call,
    expect_first,
    hold_raw,
    report,
    start_call,
)
from penstock.parsing.text import current_kind, show_read
from penstock.tools import clean_name
from penstock.values.coercion import coerce, describe_change
from penstock.values.schema import Schema

QUOTED_FROM: Final = "quoted from "
"""How the report of a call that is quoted begins; the description of the source follows."""


class NoCallError(Exception):
    """The text cannot be a call, although its grammar may be valid."""


class UnclearCallError(NoCallError):
    """It is not clear what the model meant: all of the call's text is text."""


class RepairedCall(NamedTuple):
    """A call that was made of broken text; *repairs* describes what was repaired.

    If it was read from JSON, *written* is the JSON text; `keeps_keys` checks that none of it was
    lost. *rest* is the end of the text, if that is not part of the call.
    """

    name: str
    arguments: dict[str, Any]
    repairs: list[str]
    id: str = ""
    written: str = ""
    rest: str = ""


Shown = tuple[list[str] | None, int]
"""The pieces of the block of text that is open, if one is, and how many there are."""

_CHECK_EVERY: Final = 32
"""How many characters a held call grows by, at least, before it is compared again."""

_IN_NO_NAME: Final = re.compile(r"""[\n\r<>={}\[\]"'|]""")


class CallSink:
    """Makes calls of what body readers find and emits them."""

    __slots__ = ("_state",)

    def __init__(self, state: EngineState) -> None:
        self._state = state

    @classmethod
    def detached(cls, scanner: Scanner, schemas: Mapping[str, Schema]) -> CallSink:
        """Return a sink without an engine, to try whether a reader accepts a text; see `calls`."""
        return cls(EngineState(scanner, schemas, str))

    # --- what readers may ask ---

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The schemas of the declared tools, by name."""
        return self._state.schemas

    def resolve_name(self, name: str) -> str:
        """Return the declared tool that *name* means (``functions.X``), or *name* itself.

        The case matters only where a call of an unknown tool is text.
        """
        state = self._state
        schemas = state.schemas
        return name if name in schemas else clean_name(name, schemas, folds=not state.only_known)

    def find_schema(self, name: str) -> Schema | None:
        """Return the schema of the tool whose call `open` opens for *name*, if it is declared."""
        schemas = self._state.schemas
        known = schemas.get(name)
        return schemas.get(self.resolve_name(name)) if known is None else known

    @property
    def writer(self) -> ArgumentWriter | None:
        """The writer of the open call's arguments; None where no call is open."""
        return self._state.writer

    @property
    def name(self) -> str:
        """The tool of the open call, or of the call that the text may become."""
        return self._state.name

    @name.setter
    def name(self, name: str) -> None:
        self._state.name = name

    @property
    def is_first(self) -> bool:
        """Whether nothing was emitted yet: no call, and no text but white space."""
        return self._state.is_first

    @property
    def started(self) -> bool:
        """Whether events of the open call were emitted."""
        if self._state.trail is not None:
            self._check()
        return self._state.has_started

    @property
    def is_repairing(self) -> bool:
        """Whether a call that breaks is repaired."""
        return self._state.repairing

    @property
    def is_whole(self) -> bool:
        """Whether calls are emitted only when complete, so that a reader may read one in one go."""
        return not self._state.live

    @property
    def is_muted(self) -> bool:
        """Whether the last call that was opened is text, because its tool is unknown."""
        return self._state.is_muted

    @property
    def was_quoted(self) -> bool:
        """Whether the last call is text, because it is quoted."""
        return self._state.was_quoted

    @property
    def completed(self) -> int:
        """How many calls are complete."""
        return self._state.completed_calls

    @property
    def kind(self) -> Kind:
        """The kind of text around the call."""
        return current_kind(self._state)

    @property
    def recognises_reasoning(self) -> bool:
        """Whether a start marker decides which style of reasoning follows."""
        reasoning = self._state.reasoning
        return reasoning is not None and reasoning.depends_on_start

    @property
    def shown(self) -> Shown:
        """What was emitted so far of the open block of text."""
        pieces = self._state.pieces
        return pieces, 0 if pieces is None else len(pieces)

    def line(self) -> str:
        """Return the text before the start marker on its line, or the end of it."""
        return current_line(self._state)

    def calls(self) -> list[ToolCall]:
        """Return the calls that were emitted; for a sink without an engine."""
        return [event.call for event in self._state.events if isinstance(event, ToolCallEnd)]

    # --- what readers report ---

    def say(self, text: str) -> None:
        """Emit *text*, which claims all text that was read; it is not a call."""
        emit_read(self._state, text, "text")

    def restart(self) -> None:
        """Treat what follows as the first thing of the response."""
        expect_first(self._state)

    def open(self, name: str, id: str = "") -> ArgumentWriter:  # noqa: A002 - the field's name
        """Open the call of *name*; return the writer of its arguments."""
        state = self._state
        schema = state.schemas.get(name)
        if schema is None:
            written, name = name, self.resolve_name(name)
            if name != written:
                self.note(f"renamed {written!r} to {name!r}")
            schema = state.schemas.get(name)
        if schema is None and _IN_NO_NAME.search(name):
            self.doubt("a sign in the name of the tool that no name has")
        state.name = name
        state.is_muted = state.only_known and schema is None
        if state.is_muted:
            state.has_started = True  # The text that was emitted is not taken back.
            state.writer = ArgumentWriter(None, self._write)
            show_read(state)
            return state.writer
        state.id = id or state.make_id()
        state.deltas = []
        state.writer = ArgumentWriter(schema, self._write)
        state.was_quoted = False
        if state.untrusted is not None:
            self._hold_if_quoted(state.untrusted)
        if state.live and state.trail is None:
            self._start()
        return state.writer

    def write(self, name: str, arguments: Mapping[str, Any], *notes: str) -> None:
        """Write a whole call of *name*, with what was tolerated in it."""
        writer = self.open(name)
        self.note(*notes)
        for key, value in arguments.items():
            writer.put_typed(key, value)
        self.close()

    def note(self, *notes: str) -> None:
        """Note what was tolerated in the open call: each is listed once, in `repairs`."""
        self._state.notes.update(dict.fromkeys(notes))

    def doubt(self, reason: str) -> None:
        """Note that the open call is not what the model meant: it will not be complete."""
        self._state.doubt = self._state.doubt or reason

    def report(self, why: str | ParseError) -> None:
        """Report what is wrong with the open call, which is emitted nevertheless."""
        state = self._state
        text = state.scanner.read_since_call()
        report(state, why, state.name, text, state.marker.strip())

    def close(self) -> None:
        """End the open call: it is complete, if its meaning is clear and JSON can express it.

        JSON cannot if a number has no JSON form, or in `live` if an argument came again and differs
        from the value that was emitted. Then, and if its meaning is in doubt, the call is
        incomplete in `live`; in `whole` it is not a call, and `NoCallError` is raised.
        """
        state = self._state
        if state.is_muted:
            self.drop()
            return
        writer = state.writer
        assert writer is not None  # noqa: S101 - readers open before they close
        if state.calls_left == 0:
            state.refused = state.name
            state.completed_calls += 1
            self._reset()
            return
        quote = writer.take_quote()
        if state.untrusted is not None and self._show_if_quoted(state.untrusted, writer.arguments):
            self._reset()
            return
        repeated = ""
        if writer.conflicts:
            repeated = ", ".join(repr(key[:99]) for key in writer.conflicts)
        flaw = writer.flaw or writer.find_damaged_key()
        if not flaw and state.notes:
            flaw = self._find_gap(writer)
        doubt = state.doubt or flaw
        if state.live and (repeated or doubt):
            self.report(doubt or f"several values for one argument: {repeated}")
            self.drop()
            state.completed_calls += 1
            return
        if state.doubt:
            raise UnclearCallError(state.doubt)
        if flaw:
            raise NoCallError(flaw)
        self._complete(writer, quote, repeated)

    def _find_gap(self, writer: ArgumentWriter) -> str:
        """Return which argument is missing from the open call, in which something was tolerated.

        It may be in the text that was skipped, or in another argument. Values that were fitted to
        the schema, and a name in another case, do not count.
        """
        schema = self._state.schemas.get(self._state.name)
        if schema is None or all(note.startswith("renamed ") for note in self._state.notes):
            return ""
        missing = next((key for key in schema.required if key not in writer.arguments), None)
        return "" if missing is None else f"the argument {missing[:99]!r} is missing"

    def _complete(self, writer: ArgumentWriter, quote: str, repeated: str) -> None:
        """Emit the end of the open call, in `whole` all of it; *repeated* came more than once."""
        state = self._state
        repairs = state.repairs
        if repeated:
            note = f"several values for one argument, of which the last counts: {repeated}"
            repairs = [*repairs, note]
        if state.notes or writer.notes:
            repairs = list(dict.fromkeys([*state.notes, *writer.notes, *repairs]))  # each once
        closing = quote + writer.closing
        if state.live:
            # The end event claims the text after the last argument, including the end tag.
            add_arguments(state, closing, claims=False)
        else:
            start_call(state, state.id, state.name)
            add_arguments(state, writer.text if repeated else "".join(state.deltas) + closing)
        end_call(state, ToolCall(state.id, state.name, writer.arguments, repairs=repairs))
        state.completed_calls += 1
        self._reset()
        if state.calls_left is not None:
            state.calls_left -= 1
            state.live = state.live and state.calls_left > 0

    def drop(self, open_text: str | None = None) -> None:
        """End the open call as incomplete, if any of it was emitted; forget it otherwise.

        *open_text* was emitted of a string that is not closed: the call keeps it. A muted call is
        text up to here.
        """
        state = self._state
        writer = state.writer
        if writer is not None and state.is_muted:
            show_read(state)
        elif writer is not None and self.started:
            arguments = writer.cut_arguments(open_text)
            end_call(state, ToolCall(state.id, state.name, arguments, complete=False))
        self._reset()

    def end_muted(self) -> None:
        """Show the rest of a muted call, after its body has ended."""
        state = self._state
        if state.is_muted:
            state.is_muted = False
            show_read(state)
            self._reset()

    def take_refused(self) -> str:
        """Return the name of the call in this body that exceeded `max_calls`, if there was one."""
        name, self._state.refused = self._state.refused, ""
        return name

    def take_quotations(self) -> list[Quotation]:
        """Return the quoted calls of the body."""
        quotations, self._state.quotations = self._state.quotations, []
        return quotations

    # --- repair ---

    def can_repair(self, call: RepairedCall, open_text: str | None) -> bool:
        """Return whether *call*, made of broken text, may be emitted as the open or as a new call.

        The tool has to be known, its schema satisfied, and nothing that was emitted taken back:
        *open_text* was emitted of a string that is not closed yet.
        """
        state = self._state
        name = self.resolve_name(call.name)
        schema = state.schemas.get(name)
        if schema is None:
            return False
        arguments = coerce(call.arguments, schema, typed=True)
        is_object = isinstance(arguments, dict)  # A tool may demand a list.
        if not is_object or not schema.accepts(arguments) or not can_write(arguments):
            return False
        if find_damaged_key(arguments, schema) is not None:
            return False
        if not self.started or state.writer is None:
            return True
        return name == state.name and state.writer.agrees_with(arguments, open_text)

    def repair(self, call: RepairedCall, open_text: str | None) -> None:
        """Emit *call*, or the part of it that was not emitted before it broke."""
        state = self._state
        writer = state.writer if self.started else None
        if writer is None:  # In `whole` the open call has an id, but none of it was emitted.
            writer = self.open(call.name, call.id or state.id)
        fitted = coerce(call.arguments, state.schemas[self.resolve_name(call.name)], typed=True)
        if call.written:  # Only JSON values have a type before they are coerced.
            writer.notes = [
                describe_change(key, call.arguments[key], value)
                for key, value in fitted.items()
                if key in call.arguments and value is not call.arguments[key]
            ]
        writer.complete(fitted, open_text)
        state.repairs = [*state.repairs, *call.repairs]
        state.doubt = ""  # The repaired text was read again, and is clear.
        self.close()

    # --- quoted calls ---

    def check_held(self) -> None:
        """Emit a held call if it is not quoted; it is compared only if it has grown enough."""
        state = self._state
        position = state.scanner.position
        # Comparing takes all of the call so far: an eighth more each time keeps that linear.
        if position - state.checked_at >= max(_CHECK_EVERY, (position - state.opened_at) // 8):
            self._check()

    def settle_held(self) -> None:
        """Emit a held call, which broke here, if it is not quoted."""
        if self._state.trail is not None:
            self._check()

    def _hold_if_quoted(self, untrusted: Untrusted) -> None:
        """Note where the open call begins; hold it back where it may be quoted.

        A section may have begun before it, or another call: its own text begins with the last tag
        before the tool's name, if there is one.
        """
        state = self._state
        text = state.scanner.read_since_call()
        tag = text.rfind("<", 0, max(text.find(state.name), 0))
        state.call_offset = tag if tag != -1 else len(text) - len(text.lstrip(" \t\r\n,;"))
        if state.live:
            state.trail = untrusted.follow(text[state.call_offset :], state.name)
            state.opened_at = state.checked_at = state.written_at = state.scanner.position

    def _check(self) -> None:
        """Emit the held call if its text so far occurs in no untrusted input."""
        state = self._state
        state.checked_at = state.scanner.position
        text = state.scanner.read_since_call()[state.call_offset :]
        if state.trail is not None and not state.trail.continues_with(text):
            self._start()

    def _show_if_quoted(self, untrusted: Untrusted, arguments: dict[str, Any]) -> bool:
        """Show the open call as text if it is quoted; emit it if it was held and is not."""
        state = self._state
        if self.started:
            return False
        text = state.scanner.read_since_call()
        source = untrusted.find_source(text[state.call_offset :], state.name, arguments)
        if not source:
            if state.trail is not None:
                self._start()
            return False
        why = f"{QUOTED_FROM}{source}: text, not a call"
        state.quotations.append(Quotation(why, state.name, text))
        state.was_quoted = True
        show_read(state)
        return True

    # --- the open call ---

    def _write(self, piece: str) -> None:
        state = self._state
        if state.is_muted:
            show_read(state)
        elif not state.live or state.trail is not None:
            state.deltas.append(piece)
            state.written_at = state.scanner.position
        elif piece:
            add_arguments(state, piece)
        else:
            hold_raw(state)

    def _start(self) -> None:
        """Emit the start of the open call, and the arguments that have come meanwhile.

        What was read after these may not belong to the call: if it breaks, that is read again.
        """
        state = self._state
        ahead = 0 if state.trail is None else state.scanner.position - state.written_at
        state.trail = None
        state.has_started = True
        start_call(state, state.id, state.name, ahead=ahead)
        if state.deltas:
            add_arguments(state, "".join(state.deltas), claims=not ahead)
            state.deltas = []

    def _reset(self) -> None:
        state = self._state
        state.writer = None
        state.name = state.id = ""
        state.has_started = False
        state.trail = None
        state.deltas = []
        state.repairs = []
        state.doubt = ""
        if state.notes:
            state.notes = {}


def read_call(body: BodyReader, text: str, schemas: Mapping[str, Schema]) -> ToolCall | None:
    """Return the call that *body*, a new reader, makes of *text*, if it ends with the text."""
    scanner = Scanner()
    sink = CallSink.detached(scanner, schemas)
    scanner.push(text)
    try:
        if body.read(scanner, sink) is not Verdict.DONE or scanner.unread:
            return None
    except NoCallError:
        return None
    calls = sink.calls()
    return calls[0] if len(calls) == 1 else None
