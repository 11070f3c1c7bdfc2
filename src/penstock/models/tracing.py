"""The trace of `penstock.debug` over models: what came in, what went out, and the summary.

A trace of `penstock.debug` stands for a parser, whose events come out as its text goes in. On the
way through a model the two are told apart: bytes come when the network likes, and an event may come
long after them, or without any. So a `Flow` is told of each as it passes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping

from penstock import debug
from penstock.events import Event

Write = Callable[[str], object]
"""Takes a line of the trace."""

Words = Callable[[str], str]
"""Gives a line as it may be read."""


class Trace:
    """How answers are traced: what is written, where to, and who gets the summary.

    *mode* is a mode of `penstock.debug`, or None to ask *environ*.
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

    def flow(
        self, words: Words = str, call_segments: Callable[[str], list[str]] | None = None
    ) -> Flow:
        """Begin to trace one answer; each line is written in the *words* that are made of it."""
        write = self._write or _to_stderr
        return Flow(
            self._settings,
            lambda line: write(words(line)),
            colour=self._write is None and sys.stderr.isatty(),
            call_segments=call_segments,
            on_summary=self._on_summary,
        )


class Flow(debug.Traced):
    """The trace of one answer; `finish` when it has ended. The arguments are those of `Traced`."""

    def __init__(
        self,
        settings: debug.DebugSettings,
        write: Write,
        *,
        colour: bool = False,
        call_segments: Callable[[str], list[str]] | None = None,
        on_summary: Callable[[debug.Summary], object] | None = None,
    ) -> None:
        super().__init__(
            _Silent(),
            settings,
            write,
            colour=colour,
            call_segments=call_segments,
            on_summary=on_summary,
        )

    def heard(self, text: str) -> None:
        """Tell of a chunk that came in."""
        if text:
            self.feed(text)

    def told(self, events: Iterable[Event]) -> None:
        """Tell of events that go out."""
        self._noted(list(events))


class _Silent:
    """A parser that nothing comes out of: the events of a flow come from elsewhere."""

    def feed(self, text: str, /) -> list[Event]:
        del text
        return []

    def finish(self) -> list[Event]:
        return []


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201 - who switches the trace on wants to see it
