"""Several call styles read together: the earliest marker wins, and a tie goes to the first style.

Where the marker of one style begins another's (``[`` of JSON, ``[[SEG_START``) only the shorter one
is looked for, since no cut of the text may change what is found; the styles then take turns at what
follows. A style that finds no call there leaves the place to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from penstock.errors import ParseError, UsageError
from penstock.formats.base import CallStyle, Format, Outlined, render_together
from penstock.formats.grammar import Outline
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import BodyReader, CallSink, Channel, OpenString, Scanner, Syntax, Verdict
from penstock.tools import Tool

MAX_TURN: Final = 1024
"""How much text a style may have read and still leave it to the next: more is its own."""


class MixedCalls(Struct, frozen=True):
    """Calls in any of *styles*; the first one is also how they are written."""

    styles: tuple[CallStyle, ...]

    def syntax(self, tools: Iterable[Tool]) -> MixedSyntax:
        """Return the syntax of calls of *tools*, in all styles."""
        tools = tuple(tools)
        return MixedSyntax([style.syntax(tools) for style in self.styles])

    def render_call(self, call: ToolCall) -> str:
        """Write *call* in the first style that can."""
        return self._first(lambda style: style.render_call(call))

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """Write *calls* in the first style that can write all of them, or each in its own."""
        try:
            return self._first(lambda style: render_together(style, calls))
        except UsageError:
            return "\n".join(map(self.render_call, calls))

    def outline(self, tool: Tool) -> Outline:
        """Return the outline of a call of *tool*."""
        for style in self.styles:
            if isinstance(style, Outlined):
                return style.outline(tool)
        raise UsageError("there is no style to write a call in")

    def render_result(self, result: ToolResult) -> str:
        """Write a result in the first style."""
        return self.styles[0].render_result(result)

    def _first(self, write: Callable[[CallStyle], str]) -> str:
        """Return what *write* writes in the first style that does not refuse."""
        refusal = UsageError("there is no style to write a call in")
        for style in self.styles:
            try:
                return write(style)
            except UsageError as exc:
                refusal = exc
        raise refusal


def mixed(name: str, *formats: Format) -> Format:
    """Make the format that reads the calls of all *formats*, and writes those of the first."""
    if not formats:
        raise UsageError("a mix needs a format")
    first = formats[0]
    styles = tuple(one.calls for one in formats)
    calls = MixedCalls(styles)
    return Format(name, calls, first.prompt, first.models, first.reasoning, tools=first.tools)


class _Candidate(Struct, frozen=True):
    """A syntax that may have a call where its own *start* stands."""

    syntax: Syntax
    start: str

    def begins(self, text: str) -> bool | None:
        """Return whether *text* begins with the start; None where only more text can tell."""
        # Beyond ASCII `lower` may change a letter into one of ours.
        said = text.lower() if self.syntax.folds and text.isascii() else text
        if said.startswith(self.start):
            return True
        return None if self.start.startswith(said) else False


class MixedSyntax:
    """The starts of several syntaxes, and for each the syntaxes that may have a call there."""

    def __init__(self, syntaxes: Sequence[Syntax]) -> None:
        self.folds = any(syntax.folds for syntax in syntaxes)
        own = [_Candidate(syntax, start) for syntax in syntaxes for start in syntax.starts]
        folded = {self._folded(candidate.start) for candidate in own}
        shortest = [
            start
            for start in dict.fromkeys(self._folded(candidate.start) for candidate in own)
            if not any(start != other and start.startswith(other) for other in folded)
        ]
        self.starts = tuple(shortest)
        self._candidates = {
            start: [one for one in own if self._folded(one.start).startswith(start)]
            for start in shortest
        }

    def body(self, marker: str) -> BodyReader:
        """Return a reader for what follows *marker*.

        That of the one syntax that has it, or turns.
        """
        candidates = self._candidates[self._folded(marker)]
        if len(candidates) == 1 and candidates[0].begins(marker):
            return candidates[0].syntax.body(marker)
        return Turns(marker, candidates)

    def _folded(self, text: str) -> str:
        return text.lower() if self.folds else text


class Turns:
    """Lets several readers try what follows one marker, each where the one before found no call."""

    def __init__(self, marker: str, candidates: Sequence[_Candidate]) -> None:
        self.error: str | ParseError = ""
        self.end = ""
        self._marker = marker
        self._candidates = candidates
        self._turn = 0
        self._body: BodyReader | None = None  # whose turn it is
        self._refusal = Verdict.NOT_A_CALL  # the gravest so far

    @property
    def enters(self) -> Channel | None:
        """The channel that the reader opened whose turn it is."""
        return getattr(self._body, "enters", None)

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Let the readers read, one after the other, until one continues or has a call."""
        while self._turn < len(self._candidates):
            verdict = self._read_turn(scanner, calls)
            if verdict is not None:
                return verdict
        return self._refusal

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended, to every reader that still has its turn."""
        while True:
            body = self._body
            last = Verdict.NOT_A_CALL if body is None else body.finish(scanner, calls)
            verdict = self._judged(last, scanner, calls) or self.read(scanner, calls)
            if verdict is not Verdict.MORE:
                return verdict

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return None if self._body is None else self._body.run()

    def open_text(self) -> str | None:
        """Return what has gone out of the string that streams just now."""
        give: Callable[[], str | None] | None = getattr(self._body, "open_text", None)
        return None if give is None else give()

    def _read_turn(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Let the reader whose turn it is read on; None tells that it had its turn."""
        if self._body is None:
            candidate = self._candidates[self._turn]
            longest = len(candidate.start) - len(self._marker)
            start = self._marker + scanner.text[scanner.at : scanner.at + longest]
            begins = candidate.begins(start)
            if begins is None:
                return Verdict.MORE
            if not begins:
                return self._judged(Verdict.NOT_A_CALL, scanner, calls)
            scanner.at += longest
            self._body = candidate.syntax.body(start)
        return self._judged(self._body.read(scanner, calls), scanner, calls)

    def _judged(self, verdict: Verdict, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Pass on a verdict, or give the next reader its turn and None."""
        if self._body is not None and not self._body.end.startswith(self._marker):
            # A later end marker that begins as a call does could not be told from one.
            self.end = self._body.end
        if verdict not in _REFUSALS:
            return verdict
        if verdict is not Verdict.NOT_A_CALL:
            self._refusal = verdict
            self.error = self._body.error if self._body is not None else ""
        read = scanner.read_since_call()
        is_last = self._turn == len(self._candidates) - 1
        if is_last or calls.started or not read.startswith(self._marker) or len(read) > MAX_TURN:
            self._turn = len(self._candidates)
            return self._refusal
        calls.drop()
        scanner.give_back()
        scanner.begin_call()
        scanner.at += len(self._marker)
        self._turn += 1
        self._body = None
        return None


_REFUSALS: Final = (Verdict.BROKEN, Verdict.GIVE_UP, Verdict.NOT_A_CALL)
