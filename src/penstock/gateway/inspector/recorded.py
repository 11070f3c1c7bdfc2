"""A logged stream taken apart: what the model said, piece by piece, and when each piece came.

The log keeps the bytes of the upstream and when they came, and the events that the client was told
of, without their times. Here the bytes are decoded again, each answer for itself, and what they say
joins to the same text as what the events claimed; so each event has the time of the piece that
brought its last character. Where the two texts disagree, the honest answer is that nobody knows:
then the numbers of pieces and events stand for times.

A model in the process has no bytes; where its log has some, they are its text.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from penstock import _json, apis
from penstock.errors import JSONParseError
from penstock.events import (
    Done,
    Event,
    Failed,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallStart,
)
from penstock.gateway.inspector.jobs import look_up
from penstock.gateway.logged_model import answers_of
from penstock.store import RequestDetail

UNTIMED: Final = "untimed"
"""The note of a record whose timeline has only the order of its pieces."""

_LINE: Final = 8  # bytes of the timeline for one piece
_EVENT: Final[msgspec.json.Decoder[Event]] = msgspec.json.Decoder(Event)  # made once: it is slow


class Heard(Struct, frozen=True):
    """What an upstream said: *pieces* with the milliseconds at which they came, of all *answers*.

    *timeline* is that of the bytes; where nothing *is_timed*, numbers stand for milliseconds.
    """

    pieces: list[tuple[int, str]] = field(default_factory=list)
    timeline: list[tuple[int, int]] = field(default_factory=list)
    answers: int = 0
    is_timed: bool = False

    @property
    def text(self) -> str:
        """All that was said."""
        return "".join(text for _, text in self.pieces)

    @property
    def end(self) -> int:
        """When the last byte came."""
        return self.timeline[-1][0] if self.timeline else 0


def heard_of(detail: RequestDetail) -> Heard:
    """Give what the upstream of *detail* said, and when."""
    timeline = timeline_of(detail)
    is_timed = bool(timeline) and not detail.notes.get(UNTIMED)
    if detail.row.upstream_api not in apis.names():
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        said = [(ms, decode(data)) for ms, data in _in_time([detail.raw], detail.raw, timeline)]
        return Heard([one for one in said if one[1]], timeline, 1 if said else 0, is_timed)
    api = apis.get(detail.row.upstream_api)
    answers = [answer for answer in answers_of(detail, api) if answer]
    pieces: list[tuple[int, str]] = []
    start = 0
    for answer in answers:
        whole = b"".join(answer)
        start = max(start, detail.raw.find(whole, start))
        pieces += _said_in(api.decoder(), _in_time(answer, whole, timeline, start))
        start += len(whole)
    return Heard(pieces, timeline, len(answers), is_timed)


def timeline_of(detail: RequestDetail) -> list[tuple[int, int]]:
    """Give when pieces came, in milliseconds, and how many bytes each had; it may end early."""
    whole = len(detail.timeline) - len(detail.timeline) % _LINE
    numbers = memoryview(detail.timeline[:whole]).cast("I").tolist() if whole else []
    timeline = list(zip(numbers[::2], numbers[1::2], strict=True))
    return timeline if sum(size for _, size in timeline) <= len(detail.raw) else []


def _in_time(
    pieces: Sequence[bytes], whole: bytes, timeline: list[tuple[int, int]], start: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Give the bytes of *whole*, which begin at *start*, as they came: each piece with its time."""
    ends = [*accumulate(size for _, size in timeline)]
    if len(pieces) == 1 and ends:  # a text, or a body: it is cut where the timeline says
        cuts = [end - start for end in ends if start < end < start + len(whole)]
        edges = [0, *cuts, len(whole)]
        pieces = [whole[one:other] for one, other in pairwise(edges)]
    at = start
    for number, piece in enumerate(pieces):
        at += len(piece)
        place = min(bisect_left(ends, at), len(ends) - 1)
        yield (timeline[place][0] if ends else number), piece


def _said_in(decoder: Any, pieces: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    ms = 0
    for ms, data in pieces:
        look_up()
        events = decoder.feed(data)
        if text := "".join(map(said_by, events)):
            yield ms, text
        if events and isinstance(events[-1], Done | Failed):
            return
    if text := "".join(map(said_by, decoder.finish())):
        yield ms, text


def said_by(event: Event) -> str:
    """Give what the model says in an *event* of a decoder."""
    match event:
        case TextDelta() | ThinkingDelta():
            return event.text
        case ToolCallDelta():
            return event.arguments
        case ToolCallStart():
            return event.name
        case _:
            return ""


# --- events, and when ---


def events_of(detail: RequestDetail) -> tuple[list[Event], bool]:
    """Give the events that the client was told of, and whether all of them could be read."""
    events: list[Event] = []
    for line in detail.events.splitlines():
        look_up()
        if not line:
            continue
        try:
            events.append(_event(line))
        except JSONParseError:
            return events, False
    return events, True


def _event(line: bytes) -> Event:
    try:
        return _EVENT.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        event: Event = _json.decode_as(line, Event)  # which reads half a surrogate pair too
        return event


def pieces_of(text: str, heard: Heard) -> list[tuple[int, str]] | None:
    """Give the pieces in which *text* came; None where it is not what was *heard*.

    A client that left was told the beginning alone, and one whose answer was asked for again was
    told the last one.
    """
    said = heard.text
    if said.startswith(text):
        start = 0
    elif said.endswith(text):
        start = len(said) - len(text)
    else:
        return None
    pieces: list[tuple[int, str]] = []
    at, end = 0, start + len(text)
    for ms, piece in heard.pieces:
        if shown := piece[max(0, start - at) : max(0, end - at)]:
            pieces.append((ms, shown))
        at += len(piece)
    return pieces


def times_of(parts: Sequence[int], pieces: Sequence[tuple[int, str]]) -> list[int]:
    """Give when each event came that brought so much of the text of *pieces* as *parts* says."""
    ends = [*accumulate(len(piece) for _, piece in pieces)]
    times: list[int] = []
    for end in accumulate(parts):
        place = min(bisect_left(ends, max(1, end)), len(ends) - 1)
        times.append(max(pieces[place][0], times[-1] if times else 0))
    return times
