"""Read recorded streams: those of the log, and those of files.

The log keeps the bytes of the upstream with the times at which they arrived, and the events that
the client received, without their times. `read_upstream` decodes the bytes again. What they say
joins to the same text that the events consumed, so each event gets the time of the chunk that
brought its last character (`align`, `event_times`). Where the two texts differ, the times are
unknown, and the numbers of chunks and events are used instead. A model in the process sends no
bytes; if its log has some, they are its text.

`make_recording` makes of a file the records that the log would have, so that the same page shows
it. The API of a file is detected: each decoder reads the beginning of the file, and the one that
finds most text wins. If none finds any, the file is the text of a model. Files hold no times.
"""

from __future__ import annotations

import codecs
import re
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from penstock import _json, apis
from penstock.config.routes import ModelOptions
from penstock.errors import JSONParseError, UsageError
from penstock.events import ENDS, Done, Event, Failed, MessageStart
from penstock.formats import find_unread, make_event_parser
from penstock.formats.base import build_message, stop_reason_for
from penstock.gateway.conversation import summarize_response
from penstock.gateway.inspector.spans import spoken_text
from penstock.gateway.replay import (
    TextReading,
    fold_events,
    read_text,
    read_timeline,
    split_responses,
)
from penstock.gateway.request_log import MAX_KEPT
from penstock.messages import AssistantMessage
from penstock.store import MAX_SEARCHED_TEXT, RequestDetail, RequestEnded, RequestStarted
from penstock.tools import Tool

UNTIMED: Final = "untimed"
"""The note of a record whose timeline holds the order of the chunks only."""

_EVENT: Final[msgspec.json.Decoder[Event]] = msgspec.json.Decoder(Event)  # slow to make


class Upstream(Struct, frozen=True):
    """What an upstream sent: *pieces* of text with their milliseconds, of all its *responses*.

    *timeline* is that of the bytes. Unless it *is_timed*, the milliseconds are numbers of chunks.
    """

    pieces: list[tuple[int, str]] = field(default_factory=list)
    timeline: list[tuple[int, int]] = field(default_factory=list)
    responses: int = 0
    is_timed: bool = False

    @property
    def text(self) -> str:
        """All text of the model."""
        return "".join(text for _, text in self.pieces)

    @property
    def end(self) -> int:
        """When the last byte arrived."""
        return self.timeline[-1][0] if self.timeline else 0


def read_upstream(detail: RequestDetail) -> Upstream:
    """Decode what the upstream of *detail* sent."""
    timeline = read_timeline(detail)
    is_timed = bool(timeline) and not detail.notes.get(UNTIMED)
    if detail.row.upstream_api not in apis.names():
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        texts = [(ms, decode(data)) for ms, data in _add_times([detail.raw], detail.raw, timeline)]
        return Upstream([one for one in texts if one[1]], timeline, 1 if texts else 0, is_timed)
    api = apis.get(detail.row.upstream_api)
    responses = [response for response in split_responses(detail, api) if response]
    pieces: list[tuple[int, str]] = []
    start = 0
    for response in responses:
        whole = b"".join(response)
        # What failed attempts sent is between the responses in the raw bytes.
        start = max(start, detail.raw.find(whole, start))
        pieces += _decode_pieces(api.decoder(), _add_times(response, whole, timeline, start))
        start += len(whole)
    return Upstream(pieces, timeline, len(responses), is_timed)


def _add_times(
    pieces: Sequence[bytes], whole: bytes, timeline: list[tuple[int, int]], start: int = 0
) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of *whole*, which begin at *start*, in chunks with their times."""
    ends = [*accumulate(size for _, size in timeline)]
    if len(pieces) == 1 and ends:  # a text, or a body: it is split as the timeline says
        cuts = [end - start for end in ends if start < end < start + len(whole)]
        edges = [0, *cuts, len(whole)]
        pieces = [whole[one:other] for one, other in pairwise(edges)]
    at = start
    for number, piece in enumerate(pieces):
        at += len(piece)
        place = min(bisect_left(ends, at), len(ends) - 1)
        yield (timeline[place][0] if ends else number), piece


def _decode_pieces(decoder: Any, pieces: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    ms = 0
    for ms, data in pieces:
        events = decoder.feed(data)
        if text := "".join(map(spoken_text, events)):
            yield ms, text
        if events and isinstance(events[-1], ENDS):
            return
    if text := "".join(map(spoken_text, decoder.finish())):
        yield ms, text


# --- events and their times ---


def read_events(detail: RequestDetail) -> tuple[list[Event], bool]:
    """Return the events that the client received, and whether all of them could be read."""
    events: list[Event] = []
    for line in filter(None, detail.events.splitlines()):
        try:
            events.append(_EVENT.decode(line))
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            try:
                events.append(_json.decode_as(line, Event))  # which accepts unpaired surrogates
            except JSONParseError:
                return events, False
    return events, True


def align(text: str, upstream: Upstream) -> list[tuple[int, str]] | None:
    """Return the chunks in which *text* arrived; None if it is not what the *upstream* sent.

    A client that disconnected received the beginning of what the upstream sent. If the upstream was
    asked again, the client received the last response, which is the end of it.
    """
    whole = upstream.text
    if whole.startswith(text):
        start = 0
    elif whole.endswith(text):
        start = len(whole) - len(text)
    else:
        return None
    pieces: list[tuple[int, str]] = []
    at, end = 0, start + len(text)
    for ms, piece in upstream.pieces:
        if shown := piece[max(0, start - at) : max(0, end - at)]:
            pieces.append((ms, shown))
        at += len(piece)
    return pieces


def event_times(sizes: Sequence[int], pieces: Sequence[tuple[int, str]]) -> list[int]:
    """Return when each event came; *sizes* is how much of the text of *pieces* each brought."""
    ends = [*accumulate(len(piece) for _, piece in pieces)]
    times: list[int] = []
    for end in accumulate(sizes):
        place = min(bisect_left(ends, max(1, end)), len(ends) - 1)
        times.append(max(pieces[place][0], times[-1] if times else 0))
    return times


def make_response(reading: TextReading, name: str = "") -> list[Event]:
    """Return the events of *reading* as those of a whole response, with a start and an end."""
    try:
        message = build_message(reading.events)
    except UsageError:  # The parser broke the contract of events.
        message = AssistantMessage()
    message.id = message.model = name
    end = Done(stop_reason_for(message, "stop"), message, reading.rest)
    return [MessageStart(name, name), *reading.events, end]


# --- files ---

TEXT: Final = "text"
"""In place of an API: the bytes are the model's text."""

MAX_TEXT_FILE: Final = 1_000_000
"""How many bytes a file with the text of a model may have."""

MAX_DETECTED: Final = 65_536
"""How many bytes of a file are decoded to detect its API."""

_QWEN: Final = "qwen"
_QWEN_WORDS: Final = (b'"phase"', b'"response.created"')
_NAMED_FRAMES: Final = ("anthropic", "openai-responses")  # the APIs whose frames have names
_CLIENT: Final = "openai-chat"
_FRAME: Final = re.compile(rb".*?(?:\r?\n\r?\n|\Z)", re.DOTALL)
_LINE: Final = re.compile(rb"[^\n]*\n?")
_WORD: Final = re.compile(rb"\s*\S+|\s+")


class Recording(Struct, frozen=True):
    """The content of a file: its bytes, their API, and the options to parse them with."""

    data: bytes
    api: str
    options: ModelOptions
    tools: Sequence[Tool] = ()
    name: str = ""

    def make_records(self, id_: str, created: float) -> tuple[RequestStarted, RequestEnded]:
        """Return the records that the log would have; raise `UsageError` if parsing fails."""
        complaints: list[str] = []
        events = self._parse(complaints)
        message = fold_events(events)
        model = message.model or self.name
        tools = [{"type": "function", "function": msgspec.to_builtins(tool)} for tool in self.tools]
        started = RequestStarted(
            id=id_,
            created=created,
            client_api=_CLIENT,
            path="/v1/chat/completions",
            model=model,
            upstream=self.name,
            upstream_api=self.api,
            upstream_model=model,
            format=self.options.format,
            mode=self.options.mode,
            stream=True,
            request=_json.encode_wire({"model": model, "messages": [], "tools": tools}),
        )
        return started, self._make_end(id_, events, message, complaints)

    def _make_end(
        self, id_: str, events: list[Event], message: AssistantMessage, complaints: list[str]
    ) -> RequestEnded:
        error, calls = message.error, message.tool_calls
        pieces = self._split()
        timeline = array("I")
        for number, piece in enumerate(pieces):
            timeline.extend((number, len(piece)))
        notes = {"options": msgspec.to_builtins(self.options), UNTIMED: True}
        unread = []
        if self.options.parse:
            unread = find_unread(message, self.options.format, self.tools, complaints=complaints)
        if unread:
            notes["unread"] = [
                msgspec.to_builtins(one) | {"description": one.description} for one in unread
            ]
        return RequestEnded(
            id=id_,
            state="done" if error is None else "failed",
            finish=message.stop_reason or "",
            error_kind="" if error is None else error.kind,
            error_message="" if error is None else error.message,
            input_tokens=message.usage.input,
            output_tokens=message.usage.output,
            chunks=len(pieces),
            calls=len(calls),
            incomplete=sum(not call.complete for call in calls),
            unread=len(unread),
            unread_reason=unread[0].description if unread else "",
            summary=summarize_response(message),
            repairs=[repair for call in calls for repair in call.repairs],
            text=message.text[:MAX_SEARCHED_TEXT],
            raw=[zlib.compress(self.data)],
            timeline=timeline.tobytes(),
            events=[zlib.compress(b"".join(_json.encode(event) + b"\n" for event in events))],
            notes={**notes, "complaints": complaints} if complaints else notes,
        )

    def _split(self) -> list[bytes]:
        """Split the bytes as they may have arrived: by frame, by line, or by word."""
        pattern = _WORD if self.api == TEXT else _FRAME if b"data:" in self.data[:4096] else _LINE
        return [piece for piece in pattern.findall(self.data) if piece]

    def _parse(self, complaints: list[str]) -> list[Event]:
        options = self.options
        if self.api == TEXT:
            reading = read_text([self.data.decode("utf-8", "replace")], options, self.tools)
            complaints += reading.reasons
            return make_response(reading, self.name)
        parser = make_event_parser(
            options.format,
            self.tools,
            **options.parser_options(),
            heal=options.heal,
            on_error=lambda why, _: complaints.append(why),
        )
        decoder = apis.get(self.api).decoder()
        decoded = [event for piece in self._split() for event in decoder.feed(piece)]
        return [out for event in [*decoded, *decoder.finish()] for out in parser.add(event)]


def make_recording(
    data: bytes, options: ModelOptions, tools: Sequence[Tool] = (), *, name: str = "", api: str = ""
) -> Recording:
    """Make a recording of *data*; the API is detected unless *api* names it.

    Raises `UsageError` for a file that is empty or too long.
    """
    found = api or detect_api(data)
    limit = MAX_TEXT_FILE if found == TEXT else MAX_KEPT
    if not data.strip():
        raise UsageError("the file is empty")
    if len(data) > limit:
        kind = "a text" if found == TEXT else "a recorded stream"
        raise UsageError(f"the file has {len(data):,} bytes, but {kind} may have at most {limit:,}")
    return Recording(data, found, options, tools, name)


def detect_api(data: bytes) -> str:
    """Return the API whose stream *data* is, or `TEXT`."""
    for head in dict.fromkeys((data[:MAX_DETECTED], data)):  # The first line may be a long one.
        # A stream of qwen is also readable as one of openai-chat.
        is_qwen = any(word in head for word in _QWEN_WORDS)
        sizes = {
            name: sum(len(spoken_text(event)) for event in _decode_all(name, head))
            for name in apis.names()
            if is_qwen or name != _QWEN
        }
        best = max(sizes, key=lambda name: (sizes[name], name == _QWEN))
        if sizes[best]:
            return best
    return _detect_error_api(data[:MAX_DETECTED])


def _detect_error_api(data: bytes) -> str:
    """Return the API whose frames hold an error and nothing else; `TEXT` if no API fits."""
    if b"data:" not in data:
        return TEXT
    names = _NAMED_FRAMES if b"event:" in data else [one for one in apis.names() if one != _QWEN]
    scores = {name: _score_error(_decode_all(name, data)) for name in names}
    best = max(scores, key=lambda name: scores[name])  # the first of several
    return best if scores[best] else TEXT


def _score_error(events: Iterable[Event]) -> int:
    """Return how well an error was read: 0 is not at all, 1 is its message, 2 is its type too."""
    errors = [one.error for one in events if isinstance(one, Failed)]
    found = [error for error in errors if error.kind == "provider"]
    return max((1 + (error.type not in ("", "error")) for error in found), default=0)


def _decode_all(api: str, data: bytes) -> list[Event]:
    decoder = apis.get(api).decoder()
    return [*decoder.feed(data), *decoder.finish()]
