"""Debug traces of model responses: incoming text, outgoing events and the final summary.

`penstock.debug.Traced` wraps a parser, where every event follows from the text that was just fed.
In a model the two are decoupled: bytes arrive when the network delivers them, and an event may
follow much later or without any. A `ResponseTrace` therefore records input and output separately.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, runtime_checkable

from penstock import debug
from penstock.events import ENDS, Event, TextDelta, TextEnd
from penstock.formats import AnyFormat, EventParser
from penstock.parsing import BrokenCall, OnError
from penstock.tools import Tool

Write = Callable[[str], object]
"""Receives one line of the trace."""

ReadEvent = Callable[[Event], list[Event]]
"""Turns an upstream event into the events parsed from it."""


@runtime_checkable
class CallSegmenter(Protocol):
    """A format that finds the text of calls; built-in formats do, and custom ones may."""

    def call_segments(self, text: str, tools: list[Tool], /) -> list[str]:
        """Return the pieces of *text* that are read as calls."""


class Tracer:
    """Trace settings of a model: the mode, the line writer and the receiver of the summary.

    *mode* is a mode of `penstock.debug`; None reads it from *environ*.
    """

    def __init__(
        self,
        mode: str | debug.DebugSettings | None,
        write: Write | None,
        on_summary: Callable[[debug.Summary], object] | None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        if mode is None:
            self._settings = debug.settings(os.environ if environ is None else environ)
        elif isinstance(mode, str):
            self._settings = debug.settings({"PENSTOCK_DEBUG": mode})
        else:
            self._settings = mode
        self._write, self._on_summary = write, on_summary
        self.is_on = self._settings.mode != "off" or on_summary is not None

    def start(
        self,
        format_line: Callable[[str], str] = str,
        call_segments: Callable[[str], list[str]] | None = None,
    ) -> ResponseTrace:
        """Start the trace of one response; *format_line* is applied to each line."""
        write = self._write or _write_to_stderr
        return ResponseTrace(
            _NoParser(),
            self._settings,
            lambda line: write(format_line(line)),
            # A function of the application's may write to a file, where escape sequences are noise.
            colour=self._write is None and sys.stderr.isatty(),
            call_segments=call_segments,
            on_summary=self._on_summary,
        )


class ResponseTrace(debug.Traced):
    """The trace of one response; call `finish` at its end."""

    def add_input(self, text: str) -> None:
        """Record text that arrived."""
        if text:
            self.feed(text)

    def add_output(self, events: Iterable[Event]) -> None:
        """Record events that are passed on."""
        self.trace_events(list(events))


class _NoParser:
    """A parser without output: the events of a `ResponseTrace` come from elsewhere."""

    def feed(self, text: str, /) -> list[Event]:
        del text
        return []

    def finish(self) -> list[Event]:
        return []


def make_reader(
    make: Callable[[OnError | None], EventParser],
    tracer: Tracer,
    format: AnyFormat,  # noqa: A002 - the public name of this option
    tools: list[Tool],
    on_error: OnError | None = None,
) -> ReadEvent:
    """Return a function that feeds events to the parser from *make*, traced if *tracer* is on.

    *make* receives the handler for text that looked like a call and was not accepted as one: it
    calls *on_error* and adds a note to the trace.
    """
    if not tracer.is_on:
        return make(on_error).add
    segments = format.call_segments if isinstance(format, CallSegmenter) else None
    trace = tracer.start(
        call_segments=None if segments is None else lambda text: segments(text, tools)
    )
    streamed: set[int] = set()

    def report(why: str, segment: BrokenCall) -> None:
        trace.note(why, segment)
        if on_error is not None:
            on_error(why, segment)

    parser = make(report)

    def read(event: Event) -> list[Event]:
        trace.add_input(_find_text(event, streamed))
        events = parser.add(event)
        trace.add_output(events)
        if isinstance(event, ENDS):
            trace.finish()
        return events

    return read


def _find_text(event: Event, streamed: set[int]) -> str:
    """Return the new text in *event*; *streamed* collects the blocks whose text came in deltas."""
    if isinstance(event, TextDelta):
        streamed.add(event.index)
        return event.text
    if isinstance(event, TextEnd) and event.index not in streamed:
        return event.text  # Some providers send a text block only once it is complete.
    return ""


def _write_to_stderr(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - the trace was switched on to be seen
