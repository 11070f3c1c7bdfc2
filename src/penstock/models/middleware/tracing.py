"""What the middleware reads out of what: the text of the upstream, and the events made of it."""

from __future__ import annotations

from collections.abc import Callable

from penstock.events import Done, Event, Failed, TextDelta, TextEnd
from penstock.formats import AnyFormat, EventParser
from penstock.models.tracing import Trace
from penstock.parsing import BrokenCall, OnError
from penstock.tools import Tool

Read = Callable[[Event], list[Event]]
"""Takes an event of the upstream and gives those that it becomes."""


def reader(
    make: Callable[[OnError | None], EventParser],
    trace: Trace,
    format: AnyFormat,  # noqa: A002 - the word of the whole interface
    tools: list[Tool],
    on_error: OnError | None = None,
) -> Read:
    """Give what reads events: the parser that *make* makes, or one with a trace of it.

    *make* takes who is told of text that was meant to be a call: *on_error*, and the trace.
    """
    if not trace.is_on:
        return make(on_error).add
    segments = getattr(format, "call_segments", None)
    flow = trace.flow(
        call_segments=None if segments is None else lambda text: segments(text, tools)
    )
    heard: set[int] = set()

    def report(why: str, segment: BrokenCall) -> None:
        flow.note(why, segment)
        if on_error is not None:
            on_error(why, segment)

    parser = make(report)

    def read(event: Event) -> list[Event]:
        flow.heard(_text_of(event, heard))
        events = parser.add(event)
        flow.told(events)
        if isinstance(event, Done | Failed):
            flow.finish()
        return events

    return read


def _text_of(event: Event, heard: set[int]) -> str:
    """Give the text that *event* brings; *heard* are the blocks whose text came in deltas."""
    if isinstance(event, TextDelta):
        heard.add(event.index)
        return event.text
    if isinstance(event, TextEnd) and event.index not in heard:
        return event.text  # some providers say a text only once it is whole
    return ""
