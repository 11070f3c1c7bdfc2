"""Several call styles read together: the earliest marker wins, and a tie goes to the first style.

Where the marker of one style is a prefix of another's (``[`` of JSON, ``[[SEG_START``) only the
shorter one is looked for, so that the cut of the text does not matter; then the readers of these
styles are tried in turn.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import Struct

from penstock.errors import UsageError
from penstock.formats.base import CallStyle, Format, Outlined, render_together
from penstock.grammar import Outline
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import BodyReader, CallSink, Channel, Scanner, Syntax, Verdict
from penstock.parsing.body import StreamingPart
from penstock.tools import Tool

MAX_TURN: Final = 1024
"""How much text a reader may have read before it is too late to try the next one."""


class MixedCalls(Struct, frozen=True):
    """Calls in any of *styles*; they are written in the first."""

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
        """Return the result of *write* for the first style that does not refuse."""
        refusal = UsageError("there is no style to write a call in")
        for style in self.styles:
            try:
                return write(style)
            except UsageError as exc:
                refusal = exc
        raise refusal


def mixed(name: str, *formats: Format) -> Format:
    """Return a format that reads the calls of all *formats* and writes those of the first."""
    if not formats:
        raise UsageError("mixed() needs at least one format")
    first = formats[0]
    styles = tuple(one.calls for one in formats)
    calls = MixedCalls(styles)
    return Format(name, calls, first.prompt, first.models, first.reasoning, tools=first.tools)


class _Candidate(Struct, frozen=True):
    """A syntax, and its *start* that may be here."""

    syntax: Syntax
    start: str

    def begins(self, text: str) -> bool | None:
        """Return whether *text* begins with the start; None if more text is needed."""
        # Beyond ASCII `lower` may change a letter into an ASCII one.
        folded = text.lower() if self.syntax.folds and text.isascii() else text
        if folded.startswith(self.start):
            return True
        return None if self.start.startswith(folded) else False


class MixedSyntax(Syntax):
    """The starts of several syntaxes, and for each the syntaxes that have it."""

    folds: bool = False
    starts: tuple[str, ...] = ()

    def __init__(self, syntaxes: Sequence[Syntax]) -> None:
        self._syntaxes = syntaxes
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

    def copy(self) -> MixedSyntax:
        """Return a syntax for another response: itself, if no part of it has state."""
        copies = [syntax.copy() for syntax in self._syntaxes]
        is_same = all(map(operator.is_, copies, self._syntaxes))
        return self if is_same else MixedSyntax(copies)

    def body(self, marker: str) -> BodyReader:
        """Return the reader of the only syntax with *marker*, or one that tries several."""
        candidates = self._candidates[self._folded(marker)]
        if len(candidates) == 1 and candidates[0].begins(marker):
            return candidates[0].syntax.body(marker)
        return AlternatingReader(marker, candidates)

    def _folded(self, text: str) -> str:
        return text.lower() if self.folds else text


class AlternatingReader(BodyReader):
    """Tries several readers after one marker, each where the one before found no call."""

    def __init__(self, marker: str, candidates: Sequence[_Candidate]) -> None:
        self._marker = marker
        self._candidates = candidates
        self._turn = 0
        self._body: BodyReader | None = None  # that is being tried
        self._refusal = Verdict.NOT_A_CALL  # the worst so far

    @property
    def enters(self) -> Channel | None:
        """The channel that the current reader opens."""
        return None if self._body is None else self._body.enters

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Try the readers, one after the other, until one continues or has a call."""
        while self._turn < len(self._candidates):
            verdict = self._read_current(scanner, calls)
            if verdict is not None:
                return verdict
        return self._refusal

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Handle the end of the text, for every reader that is left."""
        while True:
            body = self._body
            last = Verdict.NOT_A_CALL if body is None else body.finish(scanner, calls)
            verdict = self._check_verdict(last, scanner, calls) or self.read(scanner, calls)
            if verdict is not Verdict.MORE:
                return verdict

    @property
    def open_part(self) -> StreamingPart | None:
        """The reader that is being tried."""
        return self._body

    def _read_current(self, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Continue the current reader; None means that it found no call."""
        if self._body is None:
            candidate = self._candidates[self._turn]
            longest = len(candidate.start) - len(self._marker)
            start = self._marker + scanner.peek(longest)
            begins = candidate.begins(start)
            if begins is None:
                return Verdict.MORE
            if not begins:
                return self._check_verdict(Verdict.NOT_A_CALL, scanner, calls)
            scanner.skip(longest)
            self._body = candidate.syntax.body(start)
        return self._check_verdict(self._body.read(scanner, calls), scanner, calls)

    def _check_verdict(self, verdict: Verdict, scanner: Scanner, calls: CallSink) -> Verdict | None:
        """Return the verdict, or None after switching to the next reader."""
        if self._body is not None and not self._body.end.startswith(self._marker):
            # A later end marker with the prefix of a start could not be distinguished from one.
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
        scanner.skip(len(self._marker))
        self._turn += 1
        self._body = None
        return None


_REFUSALS: Final = (Verdict.BROKEN, Verdict.GIVE_UP, Verdict.NOT_A_CALL)
