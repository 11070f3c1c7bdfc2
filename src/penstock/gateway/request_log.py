"""The account of one answer: what was asked, what passed, what went out, for the log.

Everything here stands beside the answer and never in its way: nothing waits, nothing raises. While
an answer streams, what passes is squeezed into spools; at its end one record goes to the store,
which writes it when it can. A request is known to the store from its beginning, so that one which a
crash interrupted is seen as that.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any, Final, Literal

import msgspec
from msgspec import structs

from penstock import _json
from penstock.errors import UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats import detect
from penstock.gateway.config.routes import ModelOptions
from penstock.gateway.redaction import LogRedactor
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall
from penstock.models.base import Tap
from penstock.models.http.attempt import Report
from penstock.parsing.errors import BrokenCall
from penstock.store import RequestEnded, RequestStarted, Store
from penstock.store.compression import squeeze
from penstock.tools import Tool

# What passed in one answer, kept small while it passes.
#
# A gateway with hundreds of streams open cannot hold the text of all of them. So what is to be
# logged is squeezed block by block as it comes: each block can be undone alone, and what waits
# for the next one is never more than a block. Secrets are hidden first; the end of a block
# waits for the next one where a secret may begin in it.
#
# Blocks grow with the answer. Small ones hold little open, but are squeezed less; so a short
# answer is held in small ones, and of a long one the last block is still a small part.


MIN_BLOCK: Final = 1_024
"""How many bytes are squeezed at a time, at least: enough to find repetitions in."""

MAX_BLOCK: Final = 8_192
"""And at most: twice as many would save another tenth of what is kept."""

SHARE: Final = 4
"""What part of an answer its open block may be: one in so many."""

MAX_KEPT: Final = 16 * 1024 * 1024
"""How many bytes of one answer are kept, before they are squeezed: the longest real ones."""


MAX_PIECE: Final = 4 * 1024 * 1024
"""How many bytes may come at once to be kept: squeezing them takes some 30 ms."""


class CompressedBuffer:
    """Takes bytes, gives squeezed blocks."""

    __slots__ = ("_blocks", "_open", "_secrets", "is_cut", "size")

    def __init__(self, secrets: LogRedactor) -> None:
        self._secrets = secrets
        self.size = 0
        """How many bytes came in."""
        self.is_cut = False
        """Whether some of them were too many to keep."""
        self._blocks: list[bytes] = []
        self._open = bytearray()  # the pieces themselves would take far more than they hold

    def add(self, data: bytes) -> None:
        """Keep *data*, unless there is too much of it already."""
        self.size += len(data)
        if self.size > MAX_KEPT or len(data) > MAX_PIECE:
            self.is_cut = True
            return
        self._open += data
        block = min(max(self.size // SHARE, MIN_BLOCK), MAX_BLOCK)
        if len(self._open) >= block + self._secrets.overlap:
            self._squeeze(self._secrets.overlap)

    def blocks(self) -> list[bytes]:
        """Return what was kept, in blocks that each can be undone alone."""
        if self._open:
            self._squeeze(overlap=0)
        return self._blocks

    def _squeeze(self, overlap: int) -> None:
        data = self._secrets.body(bytes(self._open))
        end = max(0, len(data) - overlap)
        if end:
            self._blocks.append(squeeze(data[:end]))
        self._open = bytearray(data[end:])


# Which calls an answer brought, and in which format each was written.
#
# A call that a server made natively consumed no text; one that was read out of text consumed
# it, and its first characters tell the format. Only those are kept of a call, whatever its
# length.
#
# Telling a format means to read the call once more, in all of them. A model writes its calls
# alike, so what was told of a complete call holds for the next one that begins so.


MAX_CALLS_KEPT: Final = 2_000
"""How many characters of a call are looked at to tell its format."""

MAX_HEADS: Final = 256
"""How many beginnings of calls are remembered: those of all tools of a few agents."""

NATIVE: Final = "native"
AUTO: Final = "auto"
_CALLS: Final = (ToolCallStart, ToolCallDelta, ToolCallEnd)
_BEHIND_NAME: Final = 16  # characters, which tell formats apart that begin alike
_told: Final[dict[str, str]] = {}  # the formats of complete calls, by their beginnings


class CallStats:
    """Counts the calls of one answer; *format* is the one that its text is read as."""

    __slots__ = ("_format", "_texts", "_tools", "formats", "repaired")

    def __init__(self, format: str, tools: Sequence[Tool]) -> None:  # noqa: A002 - the word for it
        self.formats: Counter[tuple[str, bool]] = Counter()
        """How many calls there were of each format, complete or not."""
        self.repaired = 0
        self._format = format
        self._tools = tools
        self._texts: dict[int, str] = {}  # of open calls

    def see(self, batch: list[Event]) -> None:
        """Look at what passes."""
        for event in batch:
            if not isinstance(event, _CALLS):
                continue
            if event.raw and len(text := self._texts.get(event.index, "")) < MAX_CALLS_KEPT:
                self._texts[event.index] = text + event.raw
            if isinstance(event, ToolCallEnd):
                self._count(event.call, self._texts.pop(event.index, ""))

    def _count(self, call: ToolCall, text: str) -> None:
        self.formats[self._name(call, text), call.complete] += 1
        self.repaired += bool(call.repairs)

    def _name(self, call: ToolCall, text: str) -> str:
        if not text:
            return NATIVE
        if self._format != AUTO:
            return self._format
        if not call.complete or call.repairs:  # Not all of it is as its format has it.
            return self._detected(text)
        return self._remembered(call.name, text)

    def _remembered(self, name: str, text: str) -> str:
        """Name the format of a complete call, by one before it where they begin alike."""
        named = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text)
        head = text[: named.end() + _BEHIND_NAME] if named else ""
        found = _told.get(head)
        if found is None:
            found = self._detected(text)
            if head and found != AUTO:  # Of a longer piece the format might have been told.
                _remember(head, found)
        return found

    def _detected(self, text: str) -> str:
        try:
            found = detect(text, self._tools)
        except UsageError:
            return AUTO
        return AUTO if found is None else found.name


def _remember(head: str, format_: str) -> None:
    if len(_told) >= MAX_HEADS:
        _told.clear()
    _told[head] = format_


MAX_TEXT: Final = 20_000
"""How many characters of an answer can be searched for."""

MAX_NOTES: Final = 50
"""How many complaints about one answer are kept: the first ones say what is wrong."""

MAX_PIECES: Final = 100_000
"""Of how many pieces it is kept when they came: those of the longest real answers, in 800 kB."""

_SAID: Final = (TextDelta, ThinkingDelta, ToolCallStart, ToolCallDelta, ToolCallEnd)
_encode_lines: Final = msgspec.json.Encoder().encode_lines


class RequestLog(Tap):
    """Notes what passes in one answer; without a *store* only what the metrics want."""

    __slots__ = ("_answers", "_began", "_events", "_keeps", "_options", "_raw", "_skipped_before",
                 "_store", "_timeline", "_upstream_request", "chunks", "complaints", "first_byte",
                 "first_token", "report", "secrets", "started", "tally")  # fmt: skip

    hides_keys = True  # in whole blocks, which is cheaper than piece by piece

    def __init__(
        self,
        started: RequestStarted,
        way: tuple[ModelOptions, Sequence[Tool]],
        store: Store | None,
        secrets: LogRedactor,
        *,
        bodies: bool,
    ) -> None:
        self.started = structs.replace(started, request=b"")  # which is large, and not ours to keep
        self.secrets = secrets
        self._options, tools = way
        self.tally = CallStats(self._options.format, tools)
        self.report: Report | None = None
        self._skipped_before = 0  # in the responses before the one that `report` is about
        self.chunks = 0
        self.first_byte: float | None = None
        self.first_token: float | None = None
        self.complaints: list[str] = []
        self.omitted: list[str] = []
        """What of the request goes no further than the gateway."""
        self.adapted: list[str] = []
        """What of the request is written in another place or form, in words."""
        self.handled: frozenset[str] = frozenset()
        """The fields that the upstream has no word for and the gateway does itself."""
        self._began = monotonic()
        self._store = store
        self._keeps = store is not None and bodies
        self._raw = CompressedBuffer(secrets)
        self._events = CompressedBuffer(secrets)
        self._timeline = array("I")  # when a piece came, in milliseconds, and how long it was
        self._answers: list[int] = []  # where in the raw bytes each answer of the upstream begins
        self._upstream_request = b""
        if store is not None:
            store.begin(started)

    # --- what passes ---

    def sent(self, body: bytes) -> None:
        """Note what goes to the upstream; what it answers begins here."""
        if self._keeps:
            self._upstream_request = self.secrets.body(body)
            if len(self._answers) < MAX_NOTES:
                self._answers.append(self._raw.size)

    def received(self, data: bytes) -> None:
        """Note what comes from the upstream."""
        passed = monotonic() - self._began
        if self.first_byte is None:
            self.first_byte = passed
        self.chunks += 1
        if self._keeps:
            self._raw.add(data)
            if self.chunks <= MAX_PIECES:
                self._timeline.append(int(passed * 1000))
                self._timeline.append(len(data))

    def reported(self, report: Report) -> None:
        """Keep the report of the model, which fills as the answer comes."""
        self._skipped_before = self.skipped
        self.report = report

    @property
    def skipped(self) -> int:
        """How many frames of the upstream could not be read, however often it was asked."""
        return self._skipped_before + (0 if self.report is None else self.report.skipped)

    def events(self, batch: list[Event]) -> None:
        """Note the events that the client is told of."""
        if self.first_token is None and any(isinstance(event, _SAID) for event in batch):
            self.first_token = self.passed()
        self.tally.see(batch)
        if self._keeps and _size_of(batch) <= MAX_PIECE:
            self._events.add(_lines(batch))
        elif self._keeps:
            self._events.is_cut = True

    def complain(self, why: str, segment: BrokenCall) -> None:
        """Note a call that could not be read; the `on_error` of parsers."""
        if len(self.complaints) < MAX_NOTES:
            name = f" ({segment.tool_name})" if segment.tool_name else ""
            self.complaints.append(f"{why}{name}")

    @property
    def left_out(self) -> list[str]:
        """What of the request does not reach the model, by name."""
        reported = self.report.left_out if self.report is not None else []
        names = dict.fromkeys([*self.omitted, *reported])
        return [name for name in names if name not in self.handled]

    def passed(self) -> float:
        """Return the seconds since the request came."""
        return monotonic() - self._began

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
        """Hand the account to the store; *response* writes the whole answer, where there is one.

        What is handed over is held no longer: whoever complained may hold the journal for a while.
        """
        if self._store is None:
            return
        error = message.error or ErrorInfo("", "provider")
        usage, calls = message.usage, message.tool_calls
        is_short = _length_of(message) <= MAX_PIECE
        ended = RequestEnded(
            id=self.started.id,
            state=state,
            finish=message.stop_reason or "",
            error_kind=error.kind if message.error else "",
            error_type=error.type,
            error_message=self.secrets.text(error.message),
            status=status,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cached_tokens=usage.cache_read,
            reasoning_tokens=usage.reasoning,
            first_byte=self.first_byte,
            first_token=self.first_token,
            duration=self.passed(),
            chunks=self.chunks,
            calls=len(calls),
            repairs=[repair for call in calls for repair in call.repairs],
            text=self.secrets.text(message.text[:MAX_TEXT]),
            session=session or self._session(),
            upstream_request=self._upstream_request,
            raw=self._raw.blocks(),
            timeline=self._timeline.tobytes(),
            events=self._events.blocks(),
            response=self.secrets.body(_written(response)) if self._keeps and is_short else b"",
            notes=self._notes(),
        )
        self._store.end(ended)
        self._raw, self._events = CompressedBuffer(self.secrets), CompressedBuffer(self.secrets)
        self._timeline, self._upstream_request = array("I"), b""

    def _session(self) -> str:
        """Name the conversation that the upstream keeps, if it is one that does."""
        return self.report.session.get("id", "") if self.report is not None else ""

    def _notes(self) -> dict[str, Any]:
        notes: dict[str, Any] = {"options": msgspec.to_builtins(self._options)}
        if self.tally.formats:
            notes["formats"] = sorted({format_ for format_, _ in self.tally.formats})
        if self.complaints:
            notes["complaints"] = self.complaints
        if self.left_out:
            notes["left_out"] = self.left_out
        if self.adapted:
            notes["adapted"] = self.adapted
        if self._raw.is_cut or self._events.is_cut:
            notes["cut"] = True
        if len(self._answers) > 1:
            notes["answers"] = self._answers
        report = self.report
        if report is not None:
            told = {
                "attempts": report.attempts,
                "request_id": report.request_id,
                "failures": [failure.message for failure in report.failures],
                "skipped": self.skipped,
            }
            notes |= {name: value for name, value in told.items() if value}
        return notes


def _size_of(batch: list[Event]) -> int:
    """Return about how much the ends in *batch* say; a delta never is that large."""
    size = 0
    for event in batch:
        if isinstance(event, TextEnd | ThinkingEnd):
            size += len(event.text)
        elif isinstance(event, Done | Failed):
            size += _length_of(event.message)
    return size


def _length_of(message: AssistantMessage) -> int:
    return sum(len(block.text) for block in message.content if isinstance(block, Text | Thinking))


def _lines(batch: list[Event]) -> bytes:
    try:
        return _encode_lines(batch)
    except (UnicodeEncodeError, ValueError, OverflowError, RecursionError):
        return b"".join(_json.encode(event) + b"\n" for event in batch)


def _written(response: Callable[[], dict[str, Any]] | None) -> bytes:
    """Write the whole answer; one that its API has no words for is omitted."""
    try:
        return b"" if response is None else _json.encode_wire(response())
    except UsageError:
        return b""
