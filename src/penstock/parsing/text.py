"""Text outside of calls: shown up to the next marker, as text or as thinking.

What may begin a marker is held back, and nothing else but white space that may turn out to belong
to one: before a first thought, and under `trim` next to a call and after a thought.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from penstock.parsing.call_sink import CallSink
from penstock.parsing.code_spans import FENCE, CodeSpans
from penstock.parsing.errors import ErrorReporter
from penstock.parsing.fast_path import TextRun
from penstock.parsing.marker_state import MarkerRole, MarkerState
from penstock.parsing.output import DELTAS, Kind, Output
from penstock.parsing.reasoning import Reasoning
from penstock.parsing.scanner import Markers, Scanner

MAX_BLANK: Final = 4096
"""How much white space is held back before a possible call, or a first thought."""

_LEADING_BLANK: Final = re.compile(r"\s*+")


class OpenedMarker(NamedTuple):
    """A marker that somebody has to read on after: where it stands, and what it is.

    The white space that `trim` takes along comes before it, from *start* on.
    """

    start: int
    end: int
    marker: str
    is_wrapper: bool = False  # of the answer: it says nothing where it is the last thing


class TextReader:
    """Reads text outside of calls."""

    __slots__ = ("_blank", "_calls", "_clear", "_code", "_lookout", "_newlines", "_output",
                 "_refusals", "_scanner", "_trim", "follows_call")  # fmt: skip

    def __init__(
        self,
        scanner: Scanner,
        output: Output,
        calls: CallSink,
        lookout: MarkerState,
        refusals: ErrorReporter,
        *,
        trim: bool,
        code: CodeSpans | None = None,
    ) -> None:
        self.follows_call = False  # or the end of a thought: white space here separates the two
        self._code = code  # follows code, in which no call begins; None where one does
        self._scanner = scanner
        self._output = output
        self._calls = calls
        self._lookout = lookout
        self._refusals = refusals
        self._trim = trim
        self._newlines = 0  # how many may still be dropped
        # White space is held back character by character: what is known of it is not looked at
        # again. Both are places in the whole answer.
        self._clear: tuple[Markers, int] | None = None  # up to here begins none of these
        self._blank = (0, 0)  # where white space begins and ends
        reasoning = lookout.reasoning
        output.preface = reasoning.preface if reasoning is not None else ""

    def read(self, *, final: bool) -> OpenedMarker | bool:
        """Show text up to the next marker and pass it.

        Returns what has to be read after it, or whether there was a marker at all.
        """
        scanner, lookout = self._scanner, self._lookout
        if self._trim and self.follows_call:
            self._skip_blank()
        if self._newlines:
            self._skip_newlines()
        if lookout.awaits_thought and lookout.reasoning is not None:
            has_begun = self._find_first_thought(lookout.reasoning, final=final)
            if has_begun is not False:
                return has_begun is True
        text, markers = scanner.text, lookout.markers
        start = scanner.at
        if self._clear is not None and self._clear[0] is markers:
            start = max(start, self._clear[1] - scanner.offset)
        found = markers.find(text, start)
        if found is None:
            end = len(text) if final else markers.find_held(text, start)
            self._clear = (markers, scanner.offset + end)
            self.show(end if final else self._before_blank(end))
            return False
        if not final and markers.may_grow(text, found.start()):
            self.show(self._before_blank(found.start()))
            return False
        if found[0] in lookout.leading and text[scanner.at : found.start()].strip():
            self.show(self._before_blank(found.start()))
            return True
        return self._pass(found, found[0].lower() if lookout.folds else found[0])

    def forget(self) -> None:
        """Let the answer begin here: what was read stood in the prompt."""
        self._calls.is_first = True
        self._output.preface = ""
        self._clear, self._blank = None, (0, 0)

    def show(self, end: int) -> None:
        """Show the text up to *end*."""
        scanner, lookout = self._scanner, self._lookout
        if end <= scanner.at:
            return
        self.follows_call = False
        text, kind = scanner.text[scanner.at : end], lookout.kind
        if self._refusals.is_open:
            self._refusals.add(text)
        self._output.show(end, kind)
        self._note(text, kind)

    def show_read(self) -> None:
        """Show what a reader has passed and no event has claimed: it is text after all."""
        scanner, output, kind = self._scanner, self._output, self._lookout.kind
        text = scanner.read_since_call()
        if not text:
            return
        self.follows_call = False
        if self._refusals.is_open:
            self._refusals.add(text)
        output.say(text, kind)
        scanner.forget()
        self._note(text, kind)

    def _note(self, text: str, kind: Kind) -> None:
        """Note that *text* was shown: nothing is the first thing any more."""
        lookout, calls = self._lookout, self._calls
        if not (lookout.is_fresh or calls.is_first) or text.isspace():
            return
        if kind == "text":
            calls.is_first = False
            lookout.leave_beginning()
        if lookout.is_fresh:
            lookout.begin()

    def run(self) -> TextRun | None:
        """Return the text as a run, if what comes next could go straight out."""
        output, lookout = self._output, self._lookout
        waits = lookout.is_fresh or self._refusals.is_open or self._newlines
        if output.pieces is None or self._scanner.has_raw or waits:
            return None
        if self._calls.is_first and output.kind == "text":  # What follows may be the first thing.
            return None
        trims = self._trim and lookout.may_call
        delta = DELTAS[output.kind]
        return TextRun(lookout.markers, output.pieces, output.index, delta, trims=trims)

    # --- markers ---

    def _pass(self, found: re.Match[str], marker: str) -> OpenedMarker | bool:
        role = self._lookout.role_of(marker)
        if role is MarkerRole.WRAPPER and self._lookout.is_quoted is not None:
            self.show(self._before_blank(found.start()))
            before = self._scanner.text[self._scanner.at : found.start()]
            if self._lookout.is_quoted(self._output.line() + before):
                self.show(found.end())
                return True
        if role is MarkerRole.CALL:
            if self._code is not None and self._is_in_code(self._code, found, marker):
                self.show(found.end())
                return True
            return OpenedMarker(self._before_blank(found.start()), found.end(), found[0])
        if role is MarkerRole.WRAPPER and self._lookout.place_of(marker) == "last":
            return OpenedMarker(found.start(), found.end(), found[0], is_wrapper=True)
        is_first = not self._scanner.text[self._scanner.at : found.start()].strip()
        is_data = role is MarkerRole.CHANNEL_START and not (self._lookout.is_fresh and is_first)
        if not is_data:
            self.show(found.start())
        if role is MarkerRole.WRAPPER and self._lookout.place_of(marker) == "first":
            is_data = not self._calls.is_first
        is_shown = role is MarkerRole.REFUSAL_END and marker != self._lookout.end
        if is_data or is_shown:
            self.show(found.end())
        else:
            self._skip(found.end())
        self._follow(role, marker)
        return True

    def _is_in_code(self, code: CodeSpans, found: re.Match[str], marker: str) -> bool:
        """Return whether the start marker that was *found* is in code: then it is text."""
        lookout, output = self._lookout, self._output
        if len(marker) == 1 or marker == FENCE or marker.startswith("</"):
            return False  # The reader after it knows fences, or it opens no call.
        if lookout.has_headers and lookout.kind != "text":
            return (
                False  # It may be the header of the next message, and reasoning end as they like.
            )
        self.show(self._before_blank(found.start()))
        code.note(output.pieces if output.kind == lookout.kind else None, lookout.channel)
        gap = self._scanner.text[self._scanner.at : found.start()]
        return code.protects(marker, gap, only_fences=lookout.has_headers)

    def _skip(self, end: int) -> None:
        """Pass the text up to *end*: it is not shown, and yet part of a segment that is open."""
        scanner = self._scanner
        if self._refusals.is_open:
            self._refusals.add(scanner.text[scanner.at : end])
        scanner.at = end

    def _follow(self, role: MarkerRole, marker: str) -> None:
        """Let a marker that was passed change what to look out for."""
        lookout = self._lookout
        match role:
            case MarkerRole.REFUSAL_END:
                if marker == lookout.end:
                    lookout.drop(marker)
                self.end_refusal()
            case MarkerRole.STRAY:
                lookout.drop(marker)
            case MarkerRole.CHANNEL_END if lookout.channel is not None:
                self._newlines = lookout.channel.newlines
                self.follows_call = True
                lookout.enter(None)
            case MarkerRole.THOUGHT if lookout.reasoning is not None:
                lookout.think(lookout.reasoning.channel)
            case MarkerRole.WRAPPER if lookout.reasoning is not None:
                self._newlines = lookout.reasoning.newlines
            case _:
                pass

    def end_refusal(self) -> None:
        """Tell of the call that broke, now that its segment has ended."""
        if self._refusals.is_open:
            self._refusals.close()
            self._lookout.expect_refusal_end("")

    def _find_first_thought(self, reasoning: Reasoning, *, final: bool) -> bool | None:
        """Begin the thought that is the first thing of the answer; None where text will tell.

        White space before it is nobody's.
        """
        scanner = self._scanner
        at = self._find_blank_end()
        longest = max(map(len, reasoning.starts), default=0)
        begin = scanner.text[at : at + longest]
        start = next((start for start in reasoning.starts if begin.startswith(start)), None)
        may_come = any(start.startswith(begin) for start in reasoning.starts)
        if start is None and may_come and not final and at - scanner.at <= MAX_BLANK:
            return None
        self._lookout.awaits_thought = False
        if start is not None:
            self._skip(at + len(start))
            self._lookout.think(self._lookout.opened_by(start))
        return start is not None

    # --- white space ---

    def _before_blank(self, end: int) -> int:
        """Where the white space begins that `trim` keeps for a call that may follow."""
        if not self._trim or not self._lookout.may_call:
            return end
        scanner = self._scanner
        at, offset = scanner.at, scanner.offset
        start, seen = (place - offset for place in self._blank)
        if not (at <= start <= seen <= end) or scanner.text[seen:end].strip():
            start = at + len(scanner.text[at:end].rstrip())
        self._blank = (offset + start, offset + end)
        return start if end - start <= MAX_BLANK else end

    def _skip_newlines(self) -> None:
        """Drop the newlines that belong to a marker; the first other character ends that."""
        scanner = self._scanner
        while self._newlines and scanner.text.startswith("\n", scanner.at):
            self._skip(scanner.at + 1)
            self._newlines -= 1
        if scanner.at < len(scanner.text):
            self._newlines = 0

    def _skip_blank(self) -> None:
        self._skip(self._find_blank_end())

    def _find_blank_end(self) -> int:
        scanner = self._scanner
        at, offset = scanner.at, scanner.offset
        start, seen = (place - offset for place in self._blank)
        found = _LEADING_BLANK.match(scanner.text, seen if at == start <= seen else at)
        end = found.end() if found else at
        self._blank = (offset + at, offset + end)
        return end
