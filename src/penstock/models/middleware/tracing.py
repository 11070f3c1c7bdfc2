"""What the middleware reads out of what: the trace of `penstock.debug`, over events.

A trace stands for a parser of text; an `EventParser` takes events. So each event goes through the
trace as the text that it brings, and the answer's end as the end of that text.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from penstock import debug
from penstock.events import Done, Event, Failed, TextDelta, TextEnd
from penstock.formats import AnyFormat, EventParser
from penstock.tools import Tool

Write = Callable[[str], object]
"""Takes a line of the trace."""


class Trace:
    """How answers are traced: what is written, where to, and who gets the summary.

    *mode* is a mode of `penstock.debug`, or None to ask the environment.
    """

    def __init__(
        self,
        mode: str | debug.Settings | None,
        write: Write | None,
        on_summary: Callable[[debug.Summary], object] | None,
    ) -> None:
        if mode is None:
            self._settings = debug.settings(os.environ)
        elif isinstance(mode, str):
            self._settings = debug.settings({"PENSTOCK_DEBUG": mode})
        else:
            self._settings = mode
        self._write, self._on_summary = write, on_summary
        self.is_on = self._settings.mode != "off" or on_summary is not None

    def reader(
        self,
        parser: EventParser,
        format: AnyFormat,  # noqa: A002
        tools: list[Tool],
    ) -> Callable[[Event], list[Event]]:
        """Give what reads events: *parser* itself, or the trace of it."""
        if not self.is_on:
            return parser.add
        segments = getattr(format, "call_segments", None)
        traced = debug.Traced(
            source := _Source(parser),
            self._settings,
            self._write or _to_stderr,
            colour=self._write is None and sys.stderr.isatty(),
            call_segments=None if segments is None else lambda text: segments(text, tools),
            on_summary=self._on_summary,
        )
        return lambda event: source.read(event, traced)


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - who switches the trace on wants to see it


class _Source:
    """Stands for a parser of text, and gives *parser* the event that the text came in."""

    def __init__(self, parser: EventParser) -> None:
        self._parser = parser
        self._event: Event | None = None
        self._heard: set[int] = set()

    def read(self, event: Event, traced: debug.Traced) -> list[Event]:
        self._event = event
        if isinstance(event, Done | Failed):
            return traced.finish()
        return traced.feed(self._text_of(event))

    def feed(self, text: str) -> list[Event]:
        del text
        return [] if self._event is None else self._parser.add(self._event)

    def finish(self) -> list[Event]:
        return self.feed("")

    def _text_of(self, event: Event) -> str:
        if isinstance(event, TextDelta):
            self._heard.add(event.index)
            return event.text
        if isinstance(event, TextEnd) and event.index not in self._heard:
            return event.text  # some providers say a text only once it is whole
        return ""
