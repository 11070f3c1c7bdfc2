"""What is between the sentinels of a call: one string, or the arguments of a tool.

A string is all text up to the end marker, in any case of its letters. How arguments begin tells
what they are. JSON ends by its own grammar, so an end marker inside a JSON string is data: one
object is read as it comes, a list, or an object that has to name the tool, when it is whole.
Anything else is elements, which end at the first end marker and are read then.
"""

from __future__ import annotations

import re
from typing import Final, Protocol

from penstock.errors import JSONParseError, ParseError
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.call_sink import CallSink, NoCallError
from penstock.parsing.readers.base import OpenString, Verdict
from penstock.parsing.readers.envelope import JSONArgumentReader, find_calls
from penstock.parsing.readers.json_steps import error_at
from penstock.parsing.readers.tagged.strings import PlainString
from penstock.parsing.readers.tagged.tool_tag import Owner, TaggedArguments
from penstock.parsing.readers.tagged.tool_tag_values import GENERIC
from penstock.parsing.scanner import Scanner, markers
from penstock.values.incremental import IncrementalJSON

END: Final = "[[seg_end]]"
"""What ends a segment, in any case."""

HALF_END: Final = END.removesuffix("]]")
"""What a damaged end marker leaves before the whole one."""

END_MARKERS: Final = markers(END, fold=True)

MAX_BLANK: Final = 256
"""How much white space may stand around JSON, or in place of a command."""

_BEHIND: Final = re.compile(rf"[ \t\r\n}}\]]{{0,{MAX_BLANK}}}")  # surplus brackets say nothing
_ALL_BLANK: Final = re.compile(r"[ \t\r\n]*+")

CUT: Final = "the segment was cut"
"""What is wrong with a segment after which the answer ends."""


class Inside(Protocol):
    """Reads the body of a segment, its end marker included, into the call that is open."""

    error: str | ParseError

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended; return whether what was read stands."""

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""

    def open_text(self) -> str | None:
        """Return what has gone out of that string."""


class Skipped:
    """A body that says nothing: the arguments were in the header."""

    error: str | ParseError = ""  # why it is broken; so far it is not

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Pass all text up to the end marker."""
        found = END_MARKERS.find(scanner.text, scanner.at)
        if found is None:
            scanner.at = END_MARKERS.find_held(scanner.text, scanner.at)
            return Verdict.MORE
        scanner.at = found.end()
        calls.close()
        return Verdict.DONE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: the segment has not."""
        del calls
        scanner.at = len(scanner.text)
        self.error = CUT
        return Verdict.GIVE_UP

    def run(self) -> None:
        """Give nothing: no string streams."""

    def open_text(self) -> None:
        """Give nothing: no string streams."""


class StringInside:
    """All text up to the end marker, as the string *key*.

    With *instead*, which may be empty, white space alone is not a string: *instead* is.
    """

    def __init__(self, key: str, instead: str | None = None) -> None:
        self.error: str | ParseError = ""
        self._key = key
        self._instead = instead
        self._begun = False
        self._string: PlainString | None = None  # goes out as it comes
        self._pieces: list[str] = []  # of a string that coercion may change: it waits

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on, up to and after the end marker."""
        text, at = scanner.text, scanner.at
        found = END_MARKERS.find(text, at)
        end = found.start() if found else END_MARKERS.find_held(text, at)
        if self._begun or self._begins(text[at:end]):
            self._add(scanner, end, calls)
        if found is None:
            return Verdict.MORE
        self._end(calls)
        if self._text.rstrip("] \r\n").lower().endswith(HALF_END):
            calls.doubt("it is not clear where the content ends")
        scanner.at = found.end()
        calls.close()
        return Verdict.DONE

    @property
    def _text(self) -> str:
        return "".join(self._pieces) if self._string is None else self._string.gone_out()

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: the string takes what was held back."""
        self._add(scanner, len(scanner.text), calls)
        self.error = CUT
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the string, if it streams."""
        return None if self._string is None else self._string.run()

    def open_text(self) -> str | None:
        """Return what has gone out of the string."""
        return None if self._string is None else self._string.gone_out()

    def _begins(self, text: str) -> bool:
        """Return whether the string begins with *text*, or more has to come."""
        return self._instead is None or len(text) > MAX_BLANK or bool(text.strip())

    def _add(self, scanner: Scanner, end: int, calls: CallSink) -> None:
        if not self._begun:
            self._begun = True
            writer = _writer_of(calls)
            if writer.streams(self._key):
                writer.open_text(self._key)
                self._string = PlainString(END_MARKERS, writer)
        piece = scanner.text[scanner.at : end]
        scanner.at = end
        if self._string is None:
            self._pieces.append(piece)
        elif piece:
            self._string.add(piece)

    def _end(self, calls: CallSink) -> None:
        if self._string is not None:
            self._string.close(END)
        elif self._begun:
            _writer_of(calls).put(self._key, "".join(self._pieces))
        elif self._instead:
            _writer_of(calls).put(self._key, self._instead)


def _writer_of(calls: CallSink) -> ArgumentWriter:
    assert calls.writer is not None  # noqa: S101 - the header has opened the call
    return calls.writer


class ToolInside:
    """The arguments of the tool *name*, in whatever way the body has them.

    Without a name the body has to be JSON that brings one.
    """

    def __init__(self, name: str) -> None:
        self.error: str | ParseError = ""
        self._name = name
        self._inside: Inside | None = None  # none while white space comes before it

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Look at how the body begins; then let its reader read."""
        if self._inside is None:
            blank = _ALL_BLANK.match(scanner.text, scanner.at)
            scanner.at = blank.end() if blank else scanner.at
            window = scanner.text[scanner.at : scanner.at + len(END)].lower()
            if END.startswith(window) and window != END:
                return Verdict.MORE
            self._inside = self._begin(window, calls)
            if self._inside is None:
                self.error = "a call without a name"
                return Verdict.BROKEN
        verdict = self._inside.read(scanner, calls)
        self.error = self._inside.error
        return verdict

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended; arguments in JSON may be whole."""
        if self._inside is None:
            self._inside = Skipped()
        verdict = self._inside.finish(scanner, calls)
        self.error = self._inside.error
        return verdict

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return self._inside.run() if self._inside is not None else None

    def open_text(self) -> str | None:
        """Return what has gone out of that string."""
        return self._inside.open_text() if self._inside is not None else None

    def _begin(self, window: str, calls: CallSink) -> Inside | None:
        """Return from how the body begins who reads it; None where it cannot be a call."""
        if window == END or window[0] not in "{[":
            return TaggedInside(self._name) if self._name else None
        if not self._name:
            return JSONInside(SentinelNamedCalls())
        schema = calls.schemas[self._name]
        return JSONInside(JSONArgumentReader(self._name, schema, several=True))


class TaggedInside(Skipped):
    """Arguments of the tool *name* as elements, which are read when the segment has ended."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pieces: list[str] = []

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Pass all text up to the end marker; then read it."""
        text, at = scanner.text, scanner.at
        found = END_MARKERS.find(text, at)
        scanner.at = found.start() if found else END_MARKERS.find_held(text, at)
        self._pieces.append(text[at : scanner.at])
        if found is None:
            return Verdict.MORE
        owner = Owner(self._name, calls.schemas[self._name], GENERIC, {})
        arguments = TaggedArguments(owner, _writer_of(calls))
        inside = Scanner()
        inside.push("".join(self._pieces) + "</tool>")
        if arguments.read(inside, calls) is not Verdict.DONE:
            self.error = arguments.error or "arguments that do not end"
            return Verdict.BROKEN
        scanner.at = found.end()
        arguments.close(calls)
        return Verdict.DONE


class JSONInside:
    """JSON that *value* reads, and the end marker after it.

    Where something else stands there, the call is good all the same.
    """

    def __init__(self, value: JSONArgumentReader | SentinelNamedCalls) -> None:
        self.error: str | ParseError = ""
        self._value = value
        self._ended = False  # the value has

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on; consume text and write what it says to *calls*."""
        if not self._ended:
            verdict = self._value.read(scanner, calls)
            self.error = self._value.error
            if verdict is not Verdict.DONE:
                return verdict
            self._ended = True
        return self._read_end(scanner, calls)

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended: a value that is whole stands without its end marker."""
        is_whole = self._ended or self._value.finish(scanner, calls) is Verdict.DONE
        scanner.at = len(scanner.text)
        if is_whole:
            return self._close(calls, Verdict.DONE)
        self.error = CUT
        return Verdict.GIVE_UP

    def run(self) -> OpenString | None:
        """Return the string that streams just now, if there is one."""
        return None if self._ended else self._value.run()

    def open_text(self) -> str | None:
        """Return what has gone out of that string."""
        return None if self._ended else self._value.open_text()

    def _read_end(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Look for the end marker after the value."""
        behind = _BEHIND.match(scanner.text, scanner.at)
        between = behind[0] if behind else ""
        at = scanner.at + len(between)
        window = scanner.text[at : at + len(END)].lower()
        if window == END:
            scanner.at = at + len(END)
            return self._close(calls, Verdict.DONE)
        if END.startswith(window):
            return Verdict.MORE
        scanner.at += len(between.rstrip())
        return self._close(calls, Verdict.UNTERMINATED)

    def _close(self, calls: CallSink, verdict: Verdict) -> Verdict:
        try:
            self._value.close(calls)
        except (NoCallError, JSONParseError) as exc:
            self.error = exc if isinstance(exc, ParseError) else str(exc)
            return Verdict.BROKEN
        return verdict


class SentinelNamedCalls:
    """One call, or a list of calls, that say themselves what they are.

    They are read when the JSON is whole.
    """

    def __init__(self) -> None:
        self.error: str | ParseError = ""
        self._json = IncrementalJSON(lenient=True)
        self._start = -1  # where in the answer the JSON begins

    def read(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Read on, up to the end of the JSON."""
        del calls
        if self._start < 0:
            self._start = scanner.offset + scanner.at
        try:
            read_json(self._json, scanner, len(scanner.text), start=self._start)
        except JSONParseError as exc:
            self.error = exc
            return Verdict.BROKEN
        return Verdict.DONE if self._json.complete else Verdict.MORE

    def finish(self, scanner: Scanner, calls: CallSink) -> Verdict:
        """Say that the text has ended."""
        del scanner, calls
        return Verdict.DONE if self._json.complete else Verdict.GIVE_UP

    def close(self, calls: CallSink) -> None:
        """Write the calls; raise `NoCallError`, or `JSONParseError`, where there are not."""
        relaxed = self._json.take_relaxed()
        for name, arguments in find_calls(self._json.value, calls.schemas):
            writer = calls.open(name)
            calls.note(*relaxed)
            for key, value in arguments.items():
                writer.put_typed(key, value)
            calls.close()

    def run(self) -> None:
        """Give nothing: no string streams."""

    def open_text(self) -> None:
        """Give nothing: no string streams."""


def read_json(json: IncrementalJSON, scanner: Scanner, limit: int, *, start: int) -> None:
    """Let *json*, which begins at *start* in the answer, read the text before *limit*.

    Raises `JSONParseError`, which tells the place in the JSON.
    """
    text = scanner.text if len(scanner.text) <= limit else scanner.text[:limit]
    moves = True
    try:
        while moves and not json.complete:
            changes, end = json.advance(text, scanner.at)
            moves = end > scanner.at or bool(changes)
            scanner.at = end
    except JSONParseError as exc:
        scanner.at = max(scanner.at, exc.position)  # How far it came before depends on the cut.
        raise error_at(exc.reason, scanner.offset + exc.position - start) from exc
