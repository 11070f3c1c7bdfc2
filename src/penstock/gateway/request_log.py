"""`RequestLog`: the record of one request and its response, for the store and the metrics.

The log is not in the path of the response: nothing here waits or raises. While a response streams,
its bytes and events are compressed; at its end one record goes to the store, which writes it when
it can. The start of a request is stored too, so that one interrupted by a crash can be marked.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from time import monotonic, thread_time
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import structs

from penstock import _json
from penstock.apis.errors import is_unparsed_output
from penstock.config.routes import ModelOptions
from penstock.errors import UsageError
from penstock.events import (
    CALL_EVENTS,
    ENDS,
    Event,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
)
from penstock.formats import detect, find_unread
from penstock.formats.unread import guess_format
from penstock.gateway.conversation import list_searched, summarize_response
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall
from penstock.models.base import Tap
from penstock.models.http.attempt import Report
from penstock.models.telemetry import find_telemetry
from penstock.parsing.state import BrokenCall
from penstock.redaction import Redactor
from penstock.store import MAX_SEARCHED_TEXT, MAX_WORDS, RequestEnded, RequestStarted, Store
from penstock.store.tables import compress
from penstock.tools import Tool

if TYPE_CHECKING:
    from penstock.gateway.model_router import ResolvedRoute
    from penstock.store.writer import Complete

# --- compressed buffers ---


MIN_BLOCK: Final = 1_024
"""The smallest block, in bytes: it must be long enough to contain repetitions."""

MAX_BLOCK: Final = 8_192
"""The largest block, in bytes: twice as much would save another tenth of the size."""

SHARE: Final = 4
"""A block is compressed when it has a fourth of the bytes received, within the limits above."""

MAX_KEPT: Final = 16 * 1024 * 1024
"""How many uncompressed bytes of one response are kept: more than the longest real ones have."""

MAX_PIECE: Final = 4 * 1024 * 1024
"""How many bytes may be added at once: compressing them takes about 30 ms."""


class CompressedBuffer:
    """Keeps bytes in compressed blocks, with secrets redacted.

    A gateway with hundreds of open streams cannot hold their text. Each block can be decompressed
    alone. Blocks grow with the response: small ones compress less but leave less uncompressed. The
    end of a block is kept for the next one if a secret may begin in it.
    """

    __slots__ = ("_blocks", "_ends", "_full", "_open", "_redactor", "is_cut", "size")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self.size = 0
        """How many bytes were added."""
        self.is_cut = False
        """Whether some of them were dropped."""
        self._blocks: list[bytes] = []
        self._ends = array("Q")  # of the blocks, in redacted bytes
        self._open = bytearray()  # A list of pieces would take far more memory than their bytes.
        self._full = MIN_BLOCK + redactor.overlap  # the length at which it becomes a block

    def add(self, data: bytes) -> None:
        """Add *data*; it is dropped if the limits are exceeded."""
        self.size += len(data)
        if self.size > MAX_KEPT or len(data) > MAX_PIECE:
            self.is_cut = True
            return
        self._open += data
        if len(self._open) >= self._full:
            self._compress(self._redactor.overlap)
            block = min(max(self.size // SHARE, MIN_BLOCK), MAX_BLOCK)
            self._full = block + self._redactor.overlap

    def read(self, start: int, limit: int) -> bytes:
        """Return up to about *limit* redacted bytes from *start* on, while more may be added.

        This is for lines that are added whole: a secret that continues in the next one is not
        found.
        """
        pieces: list[bytes] = []
        at = size = 0
        for block, end in zip(self._blocks, self._ends, strict=True):
            if end > start:
                pieces.append(zlib.decompress(block)[max(0, start - at) :])
                size += len(pieces[-1])
                if size >= limit:
                    return b"".join(pieces)
            at = end
        data = self._redactor.body(bytes(self._open))
        pieces.append(data[max(0, start - at) :])
        return b"".join(pieces)

    def blocks(self) -> list[bytes]:
        """Return the compressed blocks."""
        if self._open:
            self._compress(overlap=0)
        return self._blocks

    def _compress(self, overlap: int) -> None:
        data = self._redactor.body(bytes(self._open))
        end = max(0, len(data) - overlap)
        if end:
            self._blocks.append(compress(data[:end]))
            self._ends.append(end + (self._ends[-1] if self._ends else 0))
        self._open = bytearray(data[end:])


# --- statistics of calls ---


MAX_CALL_TEXT: Final = 2_000
"""How many characters of a call are kept to detect its format."""

MAX_HEADS: Final = 256
"""How many beginnings of calls are cached: those of all tools of a few agents."""

MAX_REPAIRS: Final = 1_000
"""How many repairs of one response are listed."""

NATIVE: Final = "native"
AUTO: Final = "auto"
BARE: Final = "bare_json"
_AFTER_NAME: Final = 16  # characters, which distinguish formats that begin alike
_formats_by_head: Final[dict[str, str]] = {}


class CallStats:
    """Counts the calls of one response by format; *format* is the one its text is parsed as.

    A native call consumed no text. The format of a call in text is detected from its first
    characters by parsing them in every format; of a call that is repaired or cut, its marker is
    enough. A later call of a section has no marker: it has the format of the call before it. A
    model writes its calls in the same way, so the result for a complete call is cached for calls
    that begin the same way.
    """

    __slots__ = ("_format", "_last", "_texts", "_tools", "formats", "repairs")

    def __init__(self, format: str, tools: Sequence[Tool]) -> None:  # noqa: A002 - the public word
        self.formats: Counter[tuple[str, bool]] = Counter()
        """The number of calls by format and completeness."""
        self.repairs: list[str] = []
        """What was repaired in the calls, at most `MAX_REPAIRS`."""
        self._format = format
        self._last = AUTO  # the format of the last call in text
        self._tools = tools
        self._texts: dict[int, str] = {}  # of open calls

    def add(self, batch: list[Event]) -> None:
        """Count the calls in *batch*."""
        for event in batch:
            if not isinstance(event, CALL_EVENTS):
                continue
            if event.raw and len(text := self._texts.get(event.index, "")) < MAX_CALL_TEXT:
                self._texts[event.index] = text + event.raw
            if isinstance(event, ToolCallEnd):
                format_ = self._find_format(event.call, self._texts.pop(event.index, ""))
                self.formats[format_, event.call.complete] += 1
                self.repairs += event.call.repairs[: MAX_REPAIRS - len(self.repairs)]

    def _find_format(self, call: ToolCall, text: str) -> str:
        if not text:
            return NATIVE
        if self._format != AUTO:
            return self._format
        is_plain = call.complete and not call.repairs  # Else its text is not quite in its format.
        named = re.search(rf"(?<!\w){re.escape(call.name)}(?!\w)", text) if is_plain else None
        head = text[: named.end() + _AFTER_NAME] if named else ""
        found = _formats_by_head.get(head) or self._detect(text)
        if found and head:  # A guess is not cached: a longer text might be detected.
            if len(_formats_by_head) >= MAX_HEADS:
                _formats_by_head.clear()
            _formats_by_head[head] = found
        found = found or self._guess(text, call.name)
        if found and (found != BARE or self._last == AUTO):  # Else a later call of a section.
            self._last = found
        return self._last

    def _detect(self, text: str) -> str:
        try:
            found = detect(text, self._tools)
        except UsageError:
            return ""
        return "" if found is None else found.name

    def _guess(self, text: str, name: str) -> str:
        try:
            return guess_format(text, name)
        except UsageError:
            return ""


# --- the log of one request ---


MAX_NOTES: Final = 50
"""How many complaints about one response are kept: the first ones show what is wrong."""

MAX_SEARCH_SECONDS: Final = 0.1
"""The processor time for finding calls that were not read: the log has to keep up.

The first search of a process needs up to 85 ms; with 50 ms, calls were missed.
"""

MAX_TIMES: Final = 100_000
"""Of how many chunks the time of arrival is kept, in 800 kB."""

_TEXTS: Final = (TextDelta, ThinkingDelta)
_TEXT_ENDS: Final = (TextEnd, ThinkingEnd)
_CONTENT: Final = (*_TEXTS, *CALL_EVENTS)
_encode_lines: Final = msgspec.json.Encoder().encode_lines


class RequestLog(Tap):
    """Records one response; without a *store* only what the metrics need.

    *options* and *tools* are those that its text is parsed with. *bodies* switches the recording
    of bytes and events.
    """

    __slots__ = ("_began", "_completed", "_events", "_keeps", "_options", "_raw",
                 "_skipped_before", "_store", "_timeline", "_tools", "_upstream_request",
                 "_upstream_starts", "adapted", "asked", "call_stats", "chunks", "complaints",
                 "falls_back", "first_byte", "first_token",
                 "handled", "omitted_here", "redactor", "report", "response_repairs",
                 "route", "started", "trace_headers")  # fmt: skip

    is_redacting = True  # in whole blocks, which is cheaper than in each chunk

    def __init__(
        self,
        started: RequestStarted,
        options: ModelOptions,
        tools: Sequence[Tool],
        store: Store | None,
        redactor: Redactor,
        *,
        bodies: bool,
    ) -> None:
        self.started = structs.replace(started, request=b"")  # The store keeps the large body.
        self.redactor = redactor
        self._options = options
        self._tools = tools
        self.call_stats = CallStats(options.format, tools)
        self.report: Report | None = None
        self.route: ResolvedRoute | None = None
        self._skipped_before = 0  # in the upstream responses before that of `report`
        self.chunks = 0
        self.first_byte: float | None = None
        self.first_token: float | None = None
        self.complaints: list[str] = []
        self.asked = ""
        """What the new messages of the request are found by."""
        self.response_repairs: list[str] = []
        """Repairs that concern the whole response."""
        self.falls_back = False
        """Whether the request is sent without native tools if the upstream cannot parse."""
        self.omitted_here: list[str] = []
        """The parts of the request that the gateway itself dropped."""
        self.adapted: list[str] = []
        """Descriptions of the parts of the request that are sent in another place or form."""
        self.handled: frozenset[str] = frozenset()
        """Fields that the upstream cannot express and the gateway implements itself."""
        self.trace_headers: Mapping[str, str] = {}
        """The headers of the request; those of OpenTelemetry name the trace of the client."""
        self._began = monotonic()
        self._completed = 0.0
        self._store = store
        self._keeps = store is not None and bodies
        self._raw = CompressedBuffer(redactor)
        self._events = CompressedBuffer(redactor)
        self._timeline = array("I")  # for each chunk its time in milliseconds and its length
        self._upstream_starts: list[int] = []  # where in the raw bytes each upstream response is
        self._upstream_request = b""
        if store is not None:
            store.begin(started)

    # --- while the response streams ---

    def sent(self, body: bytes) -> None:
        """Record a request to the upstream."""
        if self._keeps:
            self._upstream_request = self.redactor.body(body)
            # Retries and the fallback send further requests, and a replay reads each response
            # apart.
            if len(self._upstream_starts) < MAX_NOTES:
                self._upstream_starts.append(self._raw.size)

    def received(self, data: bytes) -> None:
        """Record a chunk from the upstream."""
        elapsed = monotonic() - self._began
        if self.first_byte is None:
            self.first_byte = elapsed
        self.chunks += 1
        if self._keeps:
            self._raw.add(data)
            if self.chunks <= MAX_TIMES:
                self._timeline.extend((int(elapsed * 1000), len(data)))

    def reported(self, report: Report) -> None:
        """Keep the report of the model, which is filled in while the response streams."""
        self._skipped_before = self.skipped
        self.report = report

    def add_events(self, batch: list[Event]) -> None:
        """Record the events that are sent to the client."""
        if self.first_token is None and any(isinstance(event, _CONTENT) for event in batch):
            self.first_token = self.elapsed()
        # Nearly all events are plain deltas: nothing is counted, and they are never too large.
        others: list[Event] = []
        for event in batch:
            kind = type(event)
            is_text = kind is TextDelta or kind is ThinkingDelta
            if not is_text and (kind is not ToolCallDelta or event.raw):
                others.append(event)
        if others:
            self.call_stats.add(others)
            if _measure_ends(others) > MAX_PIECE:
                self._events.is_cut = self._keeps
                return
        if self._keeps:
            self._events.add(_encode_events(batch))

    def may_retry(self, error: ErrorInfo) -> bool:
        """Return whether the same request may be sent again: not if there is another way."""
        return not (self.falls_back and is_unparsed_output(error))

    def add_repair(self, repair: str) -> None:
        """Record a repair that concerns the whole response."""
        if len(self.response_repairs) < MAX_NOTES:
            self.response_repairs.append(repair)

    @property
    def repairs(self) -> list[str]:
        """The repairs of the response and of its calls so far, each once per call."""
        of_calls = self.call_stats.repairs
        return [*(one for one in self.response_repairs if one not in of_calls), *of_calls]

    def add_complaint(self, reason: str, segment: BrokenCall) -> None:
        """Record a call that could not be parsed; the `on_error` of parsers."""
        if len(self.complaints) < MAX_NOTES:
            name = f" ({segment.tool_name})" if segment.tool_name else ""
            self.complaints.append(f"{reason}{name}")

    def read_events(self, start: int, limit: int) -> bytes:
        """Return lines of events from byte *start* on; the last one may be incomplete."""
        return self._events.read(start, limit)

    def read_chunks(self, start: int) -> list[tuple[int, int]]:
        """Return the time in milliseconds and the length of each chunk from number *start* on."""
        flat = self._timeline[2 * start :]
        return list(zip(flat[::2], flat[1::2], strict=True))

    @property
    def skipped(self) -> int:
        """How many frames of the upstream were not readable, in all attempts."""
        return self._skipped_before + (0 if self.report is None else self.report.skipped)

    @property
    def omitted(self) -> list[str]:
        """The names of the request fields that do not reach the model."""
        reported = self.report.omitted_fields if self.report is not None else []
        names = dict.fromkeys([*self.omitted_here, *reported])
        return [name for name in names if name not in self.handled]

    def elapsed(self) -> float:
        """Return the seconds from the request to now, or to the end of the response."""
        return (self._completed or monotonic()) - self._began

    def complete(self) -> None:
        """Record that the response was sent: what is done afterwards is not part of its time."""
        self._completed = self._completed or monotonic()

    # --- the end ---

    def end(
        self,
        message: AssistantMessage,
        *,
        state: Literal["done", "failed", "aborted"],
        status: int,
        response: Callable[[], dict[str, Any]] | None = None,
        session: str = "",
    ) -> None:
        """Pass the record to the store; *response* returns the whole response, if there is one.

        The recorded data is freed: a parser that reported an error may hold this object for longer.
        """
        self.complete()
        # Also without a store: OpenTelemetry does not depend on the log.
        if (telemetry := find_telemetry()) is not None:
            telemetry.record_served(
                message,
                request_model=self.started.model,
                api=self.started.upstream_api,
                seconds=self.elapsed(),
                first_token=self.first_token,
                format_name=self.started.format,
                repairs=self.repairs,
                headers=self.trace_headers,
            )
        if self._store is None:
            return
        error = message.error or ErrorInfo("", "provider")
        usage, calls = message.usage, message.tool_calls
        is_short = _measure_text(message) <= MAX_PIECE
        report_session = self.report.session.get("id", "") if self.report is not None else ""
        ended = RequestEnded(
            id=self.started.id,
            state=state,
            finish=message.stop_reason or "",
            error_kind=error.kind if message.error else "",
            error_type=error.type,
            error_message=self.redactor.text(error.message),
            status=status,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_tokens=usage.cache_read,
            reasoning_tokens=usage.reasoning,
            first_byte=self.first_byte,
            first_token=self.first_token,
            duration=self.elapsed(),
            chunks=self.chunks,
            calls=len(calls),
            incomplete=sum(not call.complete for call in calls),
            repairs=self.repairs,
            summary=self.redactor.text(summarize_response(message)),
            found=", ".join(sorted({format_ for format_, _ in self.call_stats.formats})),
            text=self.redactor.text(message.text[:MAX_SEARCHED_TEXT]),
            search=self._make_search(message),
            session=session or report_session,
            upstream_request=self._upstream_request,
            raw=self._raw.blocks(),
            timeline=self._timeline.tobytes(),
            events=self._events.blocks(),
            response=self._encode_response(response) if self._keeps and is_short else b"",
            notes=self._make_notes(),
        )
        self._store.end(ended, self._make_search_for_unread(message), _measure_text(message))
        self._raw, self._events = CompressedBuffer(self.redactor), CompressedBuffer(self.redactor)
        self._timeline, self._upstream_request = array("I"), b""

    def _make_search(self, message: AssistantMessage) -> str:
        """Return what the request is found by; what comes first is not truncated."""
        started, error = self.started, message.error
        names = f"{started.model} {started.upstream_model}"
        parts = (names, self.asked, "" if error is None else error.message)
        found = "\n".join((*parts, *list_searched(message), message.text[:MAX_SEARCHED_TEXT]))
        return self.redactor.text(found[:MAX_WORDS])

    def _encode_response(self, response: Callable[[], dict[str, Any]] | None) -> bytes:
        try:
            data = b"" if response is None else _json.encode_wire(response())
        except UsageError:  # The API cannot express it.
            return b""
        return self.redactor.body(data)

    def _make_notes(self) -> dict[str, Any]:
        notes: dict[str, Any] = {"options": msgspec.to_builtins(self._options)}
        optional: dict[str, Any] = {
            "formats": sorted({format_ for format_, _ in self.call_stats.formats}),
            "complaints": self.complaints,
            "omitted_fields": self.omitted,
            "adapted": self.adapted,
            "cut": self._raw.is_cut or self._events.is_cut,
            "response_starts": self._upstream_starts if len(self._upstream_starts) > 1 else [],
        }
        if (report := self.report) is not None:
            optional |= {
                "attempts": report.attempts,
                "request_id": report.request_id,
                "failures": [failure.message for failure in report.failures],
                "skipped": self.skipped,
            }
        return notes | {name: value for name, value in optional.items() if value}

    def _make_search_for_unread(self, message: AssistantMessage) -> Complete | None:
        """Return what adds to a record what looks like a call in *message* and is not one.

        It runs on the thread of the writer, and does not hold this object.
        """
        if not self._options.parse or not self._tools:
            return None
        format_, tools, redactor = self._options.format, self._tools, self.redactor
        keeps, complaints = self._keeps, self.complaints

        def add_unread(record: RequestEnded) -> RequestEnded:
            end = thread_time() + MAX_SEARCH_SECONDS
            found = find_unread(
                message,
                format_,
                tools,
                complaints=complaints,
                should_stop=lambda: thread_time() > end,
            )
            if not found or not keeps:
                return structs.replace(record, unread=len(found))
            notes = [msgspec.to_builtins(one) | {"description": one.description} for one in found]
            for note in notes:
                texts = {key: value for key, value in note.items() if isinstance(value, str)}
                note.update({key: redactor.text(value) for key, value in texts.items()})
            return structs.replace(
                record,
                unread=len(found),
                unread_reason=notes[0]["description"],
                notes=record.notes | {"unread": notes},
            )

        return add_unread


def _measure_ends(batch: list[Event]) -> int:
    """Return about how many characters the ends in *batch* have; deltas are never that large."""
    size = 0
    for event in batch:
        if isinstance(event, _TEXT_ENDS):
            size += len(event.text)
        elif isinstance(event, ENDS):
            size += _measure_text(event.message)
    return size


def _measure_text(message: AssistantMessage) -> int:
    return sum(len(block.text) for block in message.content if isinstance(block, Text | Thinking))


def _encode_events(batch: list[Event]) -> bytes:
    try:
        return _encode_lines(batch)
    # msgspec refuses lone surrogates and very large integers, and models write both.
    except (UnicodeEncodeError, ValueError, OverflowError, RecursionError):
        return b"".join(_json.encode(event) + b"\n" for event in batch)
