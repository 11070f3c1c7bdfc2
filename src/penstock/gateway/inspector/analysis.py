"""All that can be said about one stream, as the page shows it.

An analysis is made of events and of what was heard: of those of the log, of a reading of the log
with other options, or of a text that somebody pasted. How much of it is shown, `showing` says.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from penstock import apis
from penstock.errors import PenstockError, UsageError
from penstock.events import Done, Event, Failed
from penstock.formats import Parser
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.inspector import showing
from penstock.gateway.inspector.colouring import Coloured, Reread, colour
from penstock.gateway.inspector.complaints import complaints_about, remarks_on_complaints
from penstock.gateway.inspector.jobs import look_up
from penstock.gateway.inspector.recorded import Heard, events_of, heard_of, pieces_of, times_of
from penstock.gateway.inspector.remarks import MAX_REMARKS, Remark, remarks_on, remarks_on_notes
from penstock.gateway.inspector.showing import Truncated
from penstock.gateway.inspector.telling import GONE, Told, told_of
from penstock.gateway.replaying import check_replayable, folded, options_of, request_of
from penstock.messages import AssistantMessage
from penstock.store import RequestDetail

MAX_REREAD: Final = 200_000
"""Up to how many characters of a call are read again to colour them; longer ones are searched."""

MAX_REREADING: Final = 2.0
"""How many seconds calls are read again; the ones behind them are searched."""


class Reading(Struct, dict=True):
    """One reading of a stream: the *events*, and what of the model's text became what."""

    events: list[Event]
    coloured: Coloured
    message: AssistantMessage
    heard: Heard = field(default_factory=Heard)

    @cached_property
    def came(self) -> list[tuple[int, str]] | None:
        """The pieces in which the text came; None where that is unknown."""
        return pieces_of(self.coloured.text, self.heard) or None

    @cached_property
    def times(self) -> list[int] | None:
        """When each event came; None where that is unknown."""
        if self.came is None or not self.heard.is_timed:
            return None
        times = times_of(self.coloured.parts, self.came)
        if times and isinstance(self.events[-1], Done | Failed):
            times[-1] = max(times[-1], self.heard.end)  # an end comes with the last byte
        return times

    @property
    def pieces(self) -> list[tuple[int, str]]:
        """The text as it came, with times, or with numbers in place of them."""
        if self.came is None:
            return by_event(self.coloured)
        if self.times is None:
            return [(number, text) for number, (_, text) in enumerate(self.came)]
        return self.came


def by_event(coloured: Coloured) -> list[tuple[int, str]]:
    """Cut a text by the events that brought it, where nobody knows how it came."""
    pieces = []
    at = 0
    for number, size in enumerate(coloured.parts):
        if size:
            pieces.append((number, coloured.text[at : at + size]))
            at += size
    rest = coloured.text[at:]
    return [*pieces, (len(coloured.parts), rest)] if rest else pieces


def read(events: list[Event], heard: Heard, reread: Reread | None) -> Reading:
    """Make a reading of *events*; of a sequence that breaks their laws the message is empty."""
    try:
        message = folded(events)
    except UsageError:
        message = AssistantMessage()
    return Reading(events, colour(events, reread=reread), message, heard)


# --- a logged stream ---


def analyse(detail: RequestDetail, *, full: bool = False) -> dict[str, Any]:
    """Give the analysis of a logged request; all of it if *full*."""
    events, is_whole = events_of(detail)
    remarks = remarks_on_notes(detail.notes)
    if not is_whole:
        remarks.append(Remark(None, "error", "Not all events of the log can be read"))
    try:
        options = options_of(detail)
    except UsageError as exc:  # It was read in a format that is not known any more.
        remarks.append(Remark(None, "error", f"How it was read is not known today: {exc}"))
        options = ModelOptions(parse=False)
    noted = detail.notes.get("complaints")
    complaints = [str(why) for why in noted] if isinstance(noted, list) else []
    told = told_of(detail, events)
    return analyse_as(detail, events, options, complaints, told, remarks, full=full)


def analyse_as(
    detail: RequestDetail,
    events: list[Event],
    options: ModelOptions,
    complaints: Sequence[str],
    told: Told,
    remarks: Sequence[Remark] = (),
    *,
    full: bool = False,
) -> dict[str, Any]:
    """Give the analysis of a logged request as if it were read as *events*, and *told* so."""
    reading = read(events, heard_of(detail), reread_of(detail, options))
    remarks = [
        *remarks_on(events, reading.coloured.spans),
        *_on_complaints(detail, options, complaints, reading.coloured.text),
        *remarks,
        *_on_answers(detail, reading),
    ]
    truncated: Truncated = {}
    shown = show(reading, remarks, truncated, full=full)
    shown["upstream"] |= showing.raw(detail.raw, reading.heard, truncated, full=full)
    bodies = ("request", "upstream_request", "response")
    return {
        "row": msgspec.to_builtins(detail.row),
        "notes": detail.notes,
        "replayable": why_not_replayable(detail),
        **shown,
        "client": showing.client(told, truncated, full=full),
        **{
            name: showing.body(getattr(detail, name), name, truncated, full=full) for name in bodies
        },
        "truncated": truncated,
    }


def show(
    reading: Reading, remarks: Sequence[Remark], truncated: Truncated, *, full: bool
) -> dict[str, Any]:
    """Show a reading: its text with its colours, its events, its message."""
    text = showing.text(reading.pieces, reading.coloured.spans, truncated, full=full)
    return {
        "timed": reading.times is not None,
        "upstream": text,
        "events": showing.events(reading.events, reading.times, truncated, full=full),
        "message": showing.message(reading.message, truncated, full=full),
        "usage": reading.message.usage,
        "remarks": remarks,
    }


def reread_of(detail: RequestDetail, options: ModelOptions) -> Reread | None:
    """Give what reads a call of *detail* again, as it would have come live."""
    if not options.parse:
        return None
    return rereader(options.format, request_of(detail).tools, options.repair)


def rereader(format_: str, tools: object, repair: bool) -> Reread:  # noqa: FBT001 - as it is set
    """Give what reads the text of one call of *format_* again, live, for as long as it may."""
    spent = 0.0

    def again(text: str) -> list[Event]:
        nonlocal spent
        look_up()
        if len(text) > MAX_REREAD or spent > MAX_REREADING:
            return []
        began = time.monotonic()
        try:
            # The text is one call already, wherever it was.
            parser = Parser(format_, tools, arguments="live", repair=repair, fenced="calls")
            return [*parser.feed(text), *parser.finish(cut=False)]
        except PenstockError:
            return []
        finally:
            spent += time.monotonic() - began

    return again


def is_text(detail: RequestDetail) -> bool:
    """Tell whether the raw bytes of *detail* are the model's text itself."""
    return bool(detail.raw) and detail.row.upstream_api not in apis.names()


def why_not_replayable(detail: RequestDetail) -> str:
    """Say why a request cannot be read again; nothing where it can."""
    if is_text(detail):
        return ""
    try:
        check_replayable(detail)
    except UsageError as exc:
        return str(exc)
    return ""


def _on_complaints(
    detail: RequestDetail, options: ModelOptions, complaints: Sequence[str], text: str
) -> list[Remark]:
    if not complaints:
        return []
    found = complaints_about(text, options, request_of(detail))
    return remarks_on_complaints(complaints[:MAX_REMARKS], found, text)


def _on_answers(detail: RequestDetail, reading: Reading) -> list[Remark]:
    found, answers = list[Remark](), reading.heard.answers
    if detail.row.status == GONE:
        spans = reading.coloured.spans
        found.append(Remark(spans[-1].end if spans else None, "cut", "The client left here"))
    if answers > 1:
        words = f"The upstream answered {answers} times: the client was told of the last one"
        found.append(Remark(None, "dropped", words))
    if "." in detail.row.id:
        first, _, number = detail.row.id.partition(".")
        words = f"This is choice {number} of several; the first is the request {first}"
        found.append(Remark(None, "dropped", words))
    return found
