"""A JSON value that holds calls: one object, a list of them, or an object around that list.

The value is read in steps; each change goes to the envelope of the call that it stands in, once the
scanner stands right behind the text that made it. Arguments that are JSON inside a string are read
by a reader of their own, step by step too: what broke in there, broke the call at that place.
"""

from __future__ import annotations

from penstock.errors import ParseError
from penstock.parsing.bodies.base import NoCallError, Run, Verdict
from penstock.parsing.bodies.envelope import CALL, Envelope, Shape
from penstock.parsing.bodies.json_mending import Check, mended_calls
from penstock.parsing.bodies.json_steps import (
    BrokenArgumentsError,
    BrokenJSONError,
    Flow,
    JSONSteps,
    error_at,
)
from penstock.parsing.calls import Calls, Mended
from penstock.parsing.scanner import Scanner
from penstock.values.incremental import Change

_LISTED = 2  # how deep calls stand in a list that is a member of the value


class JSONValueReader:
    """Reads values that hold calls of *shape*; what stands around them is for its subclasses."""

    _steps: JSONSteps  # made when a value begins: most brackets of an answer begin none

    def __init__(self, end: str, shape: Shape = CALL) -> None:
        self.error: str | ParseError = ""
        self.end = end
        self._shape = shape
        self._envelope: Envelope | None = None  # of the call that is open
        self._base = 0  # how deep calls stand in the value
        self._list = ""  # the key of the list that they stand in
        self._depth = 0  # how many brackets of the value are open
        self._held = ""  # the end of the last piece of arguments in a string: a cut escape
        self._closed = 0  # how many calls of this body are complete
        self._closed_before = 0  # how many of them came before the value
        self._start = -1  # where in the answer the body begins
        self._check: Check | None = None  # what mended objects have to pass

    def run(self) -> Run | None:
        """Give the string that streams just now, if there is one."""
        envelope = self._envelope
        if envelope is None or not envelope.is_streaming or self._held:
            return None
        if envelope.inner is None:
            return self._steps.run()
        return self._steps.run_inside(envelope.inner)

    def open_text(self) -> str | None:
        """Give what has gone out of the string that streams just now, decoded."""
        envelope = self._envelope
        if envelope is None or not envelope.is_streaming:
            return None
        return "".join((envelope.inner or self._steps).pieces)

    def mend(self, text: str, *, ended: bool) -> list[Mended]:
        """Make calls of *text*, which holds JSON that is broken, or not whole."""
        del ended
        if self._closed:
            # Those went out with their text; what is left goes on where the next one begins.
            text = "[" + text.lstrip(" \t\r\n,;")
        calls = mended_calls(text, self._shape, self._check, self.end)
        envelope = self._envelope
        if calls and envelope is not None and not envelope.agrees_with(calls[0], self.open_text()):
            return []
        return calls

    # --- for subclasses ---

    def _new_envelope(self, calls: Calls) -> Envelope:
        return Envelope(calls, self._base, self._shape)

    def _begin_value(self) -> None:
        self._steps = JSONSteps()
        self._closed_before = self._closed
        self._envelope = None
        self._base = self._depth = 0
        self._list = self._held = ""

    def _read_value(self, scanner: Scanner, calls: Calls) -> Verdict | None:
        """Read up to the next change; None tells to go on. Raises `NoCallError`."""
        begin = scanner.at
        changes, scanner.at = self._steps.step(scanner.text, begin, self._flow)
        self._follow(changes, begin, scanner, calls)
        is_stuck = scanner.at == begin and not changes
        return Verdict.MORE if is_stuck and not self._steps.complete else None

    def _note_error(self, exc: ParseError | NoCallError, scanner: Scanner) -> None:
        """Keep what is wrong, and where in the body."""
        if isinstance(exc, BrokenJSONError):
            place = scanner.offset + exc.place - max(self._start, 0)
            self.error = error_at(str(exc), place)
        else:
            self.error = exc if isinstance(exc, ParseError) else str(exc)

    # --- inside the value ---

    @property
    def _flow(self) -> Flow:
        envelope = self._envelope
        if envelope is None:
            return Flow.WAITS
        if envelope.inner is not None:
            return Flow.NESTS
        return Flow.STREAMS if envelope.is_streaming else Flow.WAITS

    def _follow(self, changes: list[Change], begin: int, scanner: Scanner, calls: Calls) -> None:
        for change in changes:
            envelope = self._find_envelope(change, calls)
            if envelope is None:
                continue
            if envelope.inner is not None and change.kind == "value":
                if not envelope.inner.awaits:
                    self._read_inner(envelope, "\n", scanner.at, scanner)  # that ends a word
                calls.note(*envelope.inner.take_relaxed())
                envelope.end_inner()
                self._held = ""
            if change.kind == "end" and len(change.path) == self._base:
                calls.note(*self._steps.take_relaxed())
            envelope.follow(change)
            if envelope.inner is not None and change.kind == "string":
                self._read_inner(envelope, change.text, begin, scanner)
            if change.kind == "end" and len(change.path) == self._base:
                self._closed += 1
                self._envelope = None

    def _find_envelope(self, change: Change, calls: Calls) -> Envelope | None:
        """Give the envelope of the call that *change* is part of; None where it is in none."""
        path, kind = change.path, change.kind
        self._depth += (kind in ("object", "array")) - (kind == "end")
        if not path and kind != "end":
            self._base = int(kind == "array")
            if kind not in ("array", "object"):
                raise NoCallError("a value that is no object")
        elif len(path) == 1 and kind == "array" and self._begins_list(path[0]):
            self._base, self._list, self._envelope = _LISTED, str(path[0]), None
        if len(path) < self._base or (self._list and path[0] != self._list):
            is_list = kind == "end" and len(path) == self._base - 1
            if is_list and self._closed == self._closed_before:
                raise NoCallError("a list without calls")
            return None
        if len(path) == self._base and kind != "end":
            if kind != "object":
                raise NoCallError("a list of something else than objects")
            self._envelope = self._new_envelope(calls)
        return self._envelope

    def _begins_list(self, key: str | int) -> bool:
        is_unnamed = self._envelope is not None and not self._envelope.name
        return self._base == 0 and key in self._shape.lists and is_unnamed

    # --- inside a string that holds JSON ---

    def _read_inner(self, envelope: Envelope, piece: str, begin: int, scanner: Scanner) -> None:
        """Read more of the arguments; *piece* is what the text from *begin* on says.

        The scanner stands behind it. Where the text is plain it is moved to and fro, so that each
        event claims what it was made of.
        """
        inner, end = envelope.inner, scanner.at
        assert inner is not None  # noqa: S101 - it was asked for
        is_plain = end - begin == len(piece)
        text, at = self._held + piece, 0

        def move(at: int) -> None:
            scanner.at = max(begin, end - (len(text) - at)) if is_plain else end

        try:
            while at < len(text) and not inner.complete:
                before = at
                flow = Flow.STREAMS if envelope.is_streaming else Flow.WAITS
                changes, at = inner.step(text, before, flow)
                move(at)
                for change in changes:
                    envelope.follow_inner(change)
                if at == before and not changes:
                    break
        except BrokenJSONError as exc:
            move(exc.at)
            place = scanner.at + (min(exc.place - exc.at, 0) if is_plain else 0)
            raise BrokenArgumentsError(str(exc), scanner.at, place) from exc
        behind = text[at:].lstrip() if inner.complete else ""
        if behind:
            move(len(text) - len(behind))
            raise BrokenArgumentsError("text behind the arguments", scanner.at)
        self._held = "" if inner.complete else text[at:]
        scanner.at = end
