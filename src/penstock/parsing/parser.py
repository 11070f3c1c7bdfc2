"""The parser: text in, blocks out.

Outside calls it shows text up to the next marker and holds back what may begin one; behind a start
marker a body reader takes over and says where the call ends. A body that turns out to be no call is
given back: its marker is text, and reading goes on behind it, so later calls are still found. What
is given back is read again a limited number of times an answer; then it is text.

One fast path serves most deltas: while a run is open (text, or a string that streams) and
nothing is held, text without any first character of a marker goes straight out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, Literal, Protocol

from msgspec import Struct

from penstock.errors import ParseError, UsageError
from penstock.events import Event, TextDelta, ToolCallDelta
from penstock.parsing.bodies.base import Body, Run, Verdict
from penstock.parsing.calls import Calls
from penstock.parsing.output import Output
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.tools import Tool
from penstock.values.schema import Schema

MAX_READ_AGAIN: Final = 16
"""How often text that was no call is read again in one answer: broken answers stay linear."""

MAX_CALL: Final = 16 * 1024 * 1024
"""How many characters a call may have: any file that a model writes, and no flood."""

MAX_BLANK: Final = 4096
"""How much white space `trim` holds back before a possible call."""

_LEADING_BLANK: Final = re.compile(r"\s*+")


class Segment(Struct, frozen=True):
    """A piece of model text that was meant to be a call and is none."""

    text: str
    tool_name: str = ""
    error: ParseError | None = None


OnError = Callable[[str, Segment], object]


class Syntax(Protocol):
    """How calls look in one format: what opens one, and who reads what follows."""

    @property
    def starts(self) -> tuple[str, ...]:
        """The markers that open a call, or several."""

    def body(self, marker: str) -> Body:
        """Give a fresh reader for what follows *marker*."""


class _TextRun:
    """Text that goes on: what holds no beginning of a marker goes straight out."""

    __slots__ = ("_gate", "_index", "_pieces")

    held = ""
    size = 0

    def __init__(self, gate: Callable[[str], object], pieces: list[str], index: int) -> None:
        self._gate = gate
        self._pieces = pieces
        self._index = index

    def take(self, text: str) -> list[Event] | None:
        """Take *text* if all of it belongs to the run; None tells that it has to be read."""
        if self._gate(text) is None:
            self._pieces.append(text)
            return [TextDelta(self._index, text, text)]
        return None


class _CallRun:
    """A string that streams: what is plain, or easily written, goes straight out.

    In a call that is kept until it is whole it goes to *copies*: written, and as it came.
    """

    __slots__ = ("_copies", "_gate", "_index", "_pieces", "_room", "_translate", "held", "size")

    def __init__(
        self, run: Run, index: int, room: int, copies: tuple[list[str], list[str]] | None
    ) -> None:
        self.held = ""  # the end of the last piece, if only more text tells what it says
        self.size = 0  # of what was taken
        self._gate = run.gate.search
        self._pieces = run.pieces
        self._translate = run.translate
        self._index = index
        self._room = room  # how much longer the call may get
        self._copies = copies

    def take(self, text: str) -> list[Event] | None:
        """Take *text* if all of it belongs to the run.

        None tells that it has to be read, behind what is `held`.
        """
        if self.size + len(text) >= self._room:
            return None
        if not self.held and self._gate(text) is None:
            self._pieces.append(text)
            written = text
        elif self._translate is None:
            return None
        else:
            whole = self.held + text
            translated = self._translate(whole)
            if translated is None:
                return None
            value, written, size = translated
            text, self.held = whole[:size], whole[size:]
            if not text:
                return []
            self._pieces.append(value)
        self.size += len(text)
        if self._copies is None:
            return [ToolCallDelta(self._index, written, text)]
        self._copies[0].append(written)
        self._copies[1].append(text)
        return []


class Parser:
    """Reads one answer of a model in one format of calls.

    *arguments* is `whole`, where a call comes out when it is complete and anything else is text, or
    `live`, where it comes out as it arrives and may turn out incomplete. With *trim*, white space
    that touches a call is no text. *on_error* is told of text that was meant to be a call; *ids*
    gives an id to a call that brings none. After `finish`, `rest` is text that no event claimed.
    """

    def __init__(
        self,
        syntax: Syntax,
        tools: Iterable[Tool] = (),
        *,
        arguments: Literal["whole", "live"] = "whole",
        trim: bool = False,
        on_error: OnError | None = None,
        ids: Callable[[], str] | None = None,
    ) -> None:
        self.rest = ""
        self._syntax = syntax
        self._starts = syntax.starts
        self._scanner = Scanner()
        self._output = Output(self._scanner)
        schemas = {tool.name: Schema(tool.parameters) for tool in tools}
        self._calls = Calls(self._output, schemas, ids or _counted(), live=arguments == "live")
        self._trim = trim
        self._on_error = on_error
        self._body: Body | None = None
        self._marker = ""  # that opened the body, with the white space that `trim` took along
        self._end = ""  # the end marker that still belongs to the last call
        self._follows_call = False
        self._read_again = 0
        self._call_limit = 0  # where in the answer the open call is too long
        self._finished = False
        self._markers = markers(*self._starts)
        self._run: _TextRun | _CallRun | None = None

    def feed(self, text: str) -> list[Event]:
        """Read more text; give the events that it makes certain."""
        if self._run is not None and text:
            events = self._run.take(text)
            if events is not None:
                return events
            self._scanner.offset += self._run.size
            text = self._run.held + text
        elif self._finished:
            raise UsageError("the parser has finished: make a new one for a new answer")
        elif not text:
            return []
        self._run = None
        self._scanner.push(text)
        self._read(final=False)
        self._run = self._open_run()
        return self._output.take()

    def finish(self) -> list[Event]:
        """End the answer; give what was held back."""
        if self._finished:
            raise UsageError("the parser has finished already")
        if self._run is not None:
            self._scanner.offset += self._run.size
        self._scanner.push("" if self._run is None else self._run.held)
        self._run = None
        self._finished = True
        self._read(final=True)
        self._output.close_text()
        self.rest = self._scanner.take_raw()
        return self._output.take()

    # --- the loop ---

    def _read(self, *, final: bool) -> None:
        goes_on = True
        while goes_on:
            goes_on = (
                self._read_text(final=final)
                if self._body is None
                else self._read_body(self._body, final=final)
            )

    def _read_text(self, *, final: bool) -> bool:
        """Show text up to the next marker and pass it; tell whether there was one."""
        scanner = self._scanner
        text = scanner.text
        if self._trim and self._follows_call:
            self._skip_blank()
        found = self._markers.find(text, scanner.at)
        if found is None:
            end = len(text) if final else self._markers.find_held(text, scanner.at)
            self._show(end if final else self._before_blank(end))
            return False
        if found[0] not in self._starts:
            self._show(found.start())
            scanner.at = found.end()
            self._expect_end("")
            return True
        start = self._before_blank(found.start())
        self._show(start)
        scanner.begin_call()
        self._marker = text[start : found.end()]
        self._body = self._syntax.body(found[0])
        self._call_limit = scanner.offset + start + MAX_CALL
        scanner.at = found.end()
        return True

    def _show(self, end: int) -> None:
        if end > self._scanner.at:
            self._follows_call = False
            self._output.show(end)

    def _before_blank(self, end: int) -> int:
        """Where the white space begins that `trim` keeps for a call that may follow."""
        if not self._trim:
            return end
        at = self._scanner.at
        blank = end - len(self._scanner.text[at:end].rstrip()) - at
        return end - blank if blank <= MAX_BLANK else end

    def _skip_blank(self) -> None:
        found = _LEADING_BLANK.match(self._scanner.text, self._scanner.at)
        if found:
            self._scanner.at = found.end()

    def _read_body(self, body: Body, *, final: bool) -> bool:
        """Let the body read on; tell whether it has come to an end."""
        verdict = self._read_within_limit(body)
        if verdict is Verdict.MORE:
            if not final:
                return False
            verdict = body.finish(self._scanner, self._calls)
        self._body = None
        if verdict in (Verdict.BROKEN, Verdict.TEXT):
            self._give_up(body, looks_again=verdict is Verdict.BROKEN)
        else:
            self._follows_call = True
            self._expect_end(body.end if verdict is Verdict.STANDS else "")
        return True

    def _read_within_limit(self, body: Body) -> Verdict:
        """Let the body see no more of the text than a call may have: limits count characters."""
        scanner = self._scanner
        limit = self._call_limit - scanner.offset
        beyond = scanner.text[limit:]
        if not beyond:
            return body.read(scanner, self._calls)
        scanner.text = scanner.text[:limit]
        verdict = body.read(scanner, self._calls)
        scanner.text += beyond
        if verdict is not Verdict.MORE:
            return verdict
        body.error = f"a call of more than {MAX_CALL} characters"
        return Verdict.TEXT

    def _give_up(self, body: Body, *, looks_again: bool) -> None:
        """Handle a body that is no call: as text, or as a call that is not complete.

        *looks_again* tells that there may be calls in what was read.
        """
        scanner, calls = self._scanner, self._calls
        text = scanner.read_since_call()
        self._tell(body.error, text)
        has_started = calls.started
        if looks_again or not has_started:
            scanner.give_back()
        calls.drop()
        if has_started:
            self._follows_call = True
            self._expect_end(body.end)
        self._read_again += looks_again
        if not looks_again:
            shown = 0 if has_started else len(text)
        elif self._read_again > MAX_READ_AGAIN:
            shown = len(text)
        else:  # The marker has had its chance; behind it there may be another.
            shown = len(self._marker) if text.startswith(self._marker) else 0
        self._show(scanner.at + shown)

    def _tell(self, why: str | ParseError, text: str) -> None:
        if self._on_error is None:
            return
        error = why if isinstance(why, ParseError) else ParseError(why)
        segment = Segment(text, self._calls.name, error)
        with suppress(Exception):  # a handler that fails must not end the stream
            self._on_error(f"text that was meant to be a call is none: {why}", segment)

    def _expect_end(self, end: str) -> None:
        """Let the marker *end*, if it comes next, belong to the last call."""
        if end != self._end:
            self._end = end
            self._markers = markers(*self._starts, *([end] if end else []))

    # --- the fast path ---

    def _open_run(self) -> _TextRun | _CallRun | None:
        """Give the run that is open, if the next text could go straight to it."""
        scanner, output, calls = self._scanner, self._output, self._calls
        if scanner.at < len(scanner.text):
            return None
        if self._body is not None:
            run = self._body.run()
            if run is None or (calls.live and scanner.has_raw):
                return None
            scanner.pass_all()
            room = self._call_limit - scanner.offset - scanner.at
            copies = None if calls.live else (calls.deltas, scanner.passed)
            return _CallRun(run, output.index, room, copies)
        if output.pieces is None or scanner.has_raw:
            return None
        gate = _trimming_gate(self._markers) if self._trim else self._markers.gate
        return _TextRun(gate, output.pieces, output.index)


def _counted() -> Callable[[], str]:
    numbers = iter(range(1, 1 << 62))
    return lambda: f"call_{next(numbers)}"


def _trimming_gate(of: Markers) -> Callable[[str], object]:
    return lambda text: of.gate(text) or text[-1:].isspace() or None
