"""The state of an engine: everything that changes while one response is read.

It is one structure because the parts of the engine depend on each other's facts: whether a marker
counts depends on the channel, on the last call and on the text so far. The parts themselves are
functions, or an object, on this state and have no state of their own. Only the modules in the table
assign a field (`tests/parsing/test_state.py` compares the table with the code); `state` is this
module, with its sections output and errors.

| fields | written by | read by |
|---|---|---|
| `syntax` … `marker_sets`: the options | `engine`, `text` | all |
| `scanner` | its own methods | all |
| `events` … `is_first`: what was emitted | `state`, `engine` | `text`, `call_sink`, `engine` |
| `channel` … `markers`: which markers count | `text` | `text`, `call_sink`, `engine` |
| `follows_call` … `has_broken`: what came before | `text`, `engine` | `text`, `frames` |
| `newlines`: how many may still be dropped | `text`, `frames` | `text` |
| `clear` … `blank`: text that is held back | `text` | `text` |
| `live` … `written_at`: the open call | `call_sink` | `text`, `engine` |
| `segment_is_open` … `segment_pieces`: a broken call, until it ends | `state` | `text`, `engine` |
| `body` … `read_again`: the body that is being read | `engine`, `frames` | `engine`, `frames` |

Output: blocks in order, each event with the text that it consumed.

Errors: reports of text that was meant to be a call and is not one. The exact segment is reported:
from the start marker to the first end marker, to the next start marker or to the end of the
response. A call breaks before all of its segment has come, and its text is emitted at once; only
the report waits. Where a section breaks with its first call, both markers open one segment, which
is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from penstock.errors import ParseError
from penstock.events import (
    Event,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import ToolCall
from penstock.parsing.arguments import ArgumentWriter
from penstock.parsing.body import BodyReader, Channel, Kind, Place, Reasoning, Syntax
from penstock.parsing.quotations import CodeSpans, Quotation, Trail, Untrusted
from penstock.parsing.scanner import Markers, Scanner, markers
from penstock.values.schema import Schema

_STARTS: Final[dict[Kind, type[TextStart | ThinkingStart]]] = {
    "text": TextStart,
    "thinking": ThinkingStart,
}
DELTAS: Final[dict[Kind, type[TextDelta | ThinkingDelta]]] = {
    "text": TextDelta,
    "thinking": ThinkingDelta,
}
_ENDS: Final[dict[Kind, type[TextEnd | ThinkingEnd]]] = {
    "text": TextEnd,
    "thinking": ThinkingEnd,
}

MAX_LINE: Final = 256
"""How much of the text before a marker is kept, to decide whether the marker begins its line."""

_NO_SYNTAX: Final = Syntax()
_NO_MARKERS: Final = markers()
_NO_ERROR: Final = ParseError("")


Places = tuple[Mapping[str, Place], tuple[str, ...], tuple[str, ...]]
"""Where each wrapper is dropped, and which of those before calls are listed apart."""


class MarkerSets:
    """What the responses of one format share, by what it depends on beside the format.

    `sets` has markers, and those of them that open a body; `places` has the wrappers.
    """

    __slots__ = ("places", "sets")

    def __init__(self) -> None:
        self.places: dict[tuple[object, ...], Places] = {}
        self.sets: dict[tuple[object, ...], tuple[Markers, frozenset[str]]] = {}


class EngineState:
    """The state of one engine; the table above names the writer of each field."""

    __slots__ = (  # noqa: RUF023 - in the order of the table
        # options
        "syntax", "schemas", "reasoning", "wrappers", "make_id", "on_error", "untrusted", "code",
        "only_known", "trim", "answers_reasoning", "prompt_channel", "strays", "marker_sets",
        # input
        "scanner",
        # output
        "events", "index", "kind", "pieces", "started_calls", "held_raw", "preface", "line",
        "line_seen", "is_first",
        # markers
        "channel", "is_fresh", "awaits_reasoning", "may_reason", "starts", "leading", "call_end",
        "sections", "others", "broken_end", "reasoning_ends", "openers", "markers",
        # text
        "follows_call", "after_block", "has_broken", "newlines", "clear", "blank",
        # the open call
        "live", "calls_left", "completed_calls", "name", "id", "writer", "deltas", "has_started",
        "repairs", "notes", "doubt", "is_muted", "refused", "quotations", "was_quoted", "trail",
        "call_offset", "opened_at", "checked_at", "written_at",
        # the segment of a broken call
        "segment_is_open", "segment_error", "segment_name", "segment_opener", "segment_pieces",
        # the body
        "body", "repairing", "marker", "start", "calls_before", "end_before", "call_start",
        "read_again",
    )  # fmt: skip

    def __init__(  # noqa: PLR0915 - one statement per field
        self,
        scanner: Scanner,
        schemas: Mapping[str, Schema],
        make_id: Callable[[], str],
        *,
        live: bool = False,
        max_calls: int | None = None,
        marker_sets: MarkerSets | None = None,
    ) -> None:
        # --- options ---
        self.syntax = _NO_SYNTAX
        self.schemas = schemas
        self.reasoning: Reasoning | None = None
        self.wrappers: Mapping[str, Place] = {}  # markers without content
        self.make_id = make_id
        self.on_error: OnError | None = None
        self.untrusted: Untrusted | None = None  # text that calls may be quoted from
        self.code: CodeSpans | None = None  # None where calls in code are calls
        self.only_known = False  # a call of a tool without a schema is text
        self.trim = False
        self.answers_reasoning = False  # reasoning that is all of a response is text, too
        self.prompt_channel: Channel | None = None  # that the prompt has opened
        self.strays: tuple[str, ...] = ()  # ends of reasoning whose beginning was not seen
        self.marker_sets = MarkerSets() if marker_sets is None else marker_sets

        self.scanner = scanner

        # --- output ---
        self.events: list[Event] = []  # of this `feed`
        self.index = 0  # of the open block, or of the next one
        self.kind: Kind = "text"  # of the open block
        self.pieces: list[str] | None = None  # of the open block of text or reasoning
        self.started_calls = 0
        self.held_raw = ""  # text that the next event of the open call claims
        self.preface = ""  # text that the response lacks, before its first text
        self.line = ""  # the last line of the open text
        self.line_seen = 0  # how many of `pieces` were searched for it
        self.is_first = True  # no call was emitted yet, and no text but white space

        # --- markers ---
        self.channel: Channel | None = None
        self.is_fresh = False  # only white space was emitted in the channel
        self.awaits_reasoning = False  # nothing came yet, and reasoning may come first
        self.may_reason = False  # a marker may open reasoning
        self.starts: tuple[str, ...] = ()  # that open a call here
        self.leading: tuple[str, ...] = ()  # those of `starts` that must be the first thing
        self.sections: tuple[str, ...] = ()  # wrappers that begin like a start marker
        self.others: tuple[str, ...] = ()  # other wrappers before calls, without special tokens
        self.call_end = ""  # the end marker that may still follow the last call
        self.broken_end = ""  # the end marker of the broken call whose segment is open
        self.reasoning_ends: tuple[str, ...] = ()  # of reasoning that a call has ended
        self.openers: frozenset[str] = frozenset()  # that open a body here
        self.markers: Markers = _NO_MARKERS  # all that count now

        # --- text ---
        self.follows_call = False  # or reasoning: white space here separates the two
        self.after_block = False  # a call or reasoning ended, and only white space came since
        self.has_broken = False  # text since the last call may be part of a broken one
        self.newlines = 0  # how many may still be dropped
        # White space may be held back over many chunks. These remember what was scanned, so that it
        # is not scanned again; positions count from the beginning of the response.
        self.clear: tuple[Markers, int] | None = None  # none of these markers begins before this
        self.blank = (0, 0)  # where white space begins and ends

        # --- the open call ---
        self.live = live and max_calls != 0
        self.calls_left = max_calls  # None means no limit
        self.completed_calls = 0
        self.name = ""  # of the call that is open, or that the text may be
        self.id = ""
        self.writer: ArgumentWriter | None = None
        self.deltas: list[str] = []  # of its arguments, while none of it was emitted
        self.has_started = False  # its start was emitted
        self.repairs: list[str] = []
        self.notes: dict[str, None] = {}  # what was tolerated in it
        self.doubt = ""  # why it cannot be complete
        self.is_muted = False  # its tool is unknown, so it is text
        self.refused = ""  # the name of a complete call beyond `max_calls`
        self.quotations: list[Quotation] = []  # quoted calls since the body began
        self.was_quoted = False  # the last call is quoted, so it is text
        self.trail: Trail | None = None  # of a call that is held back because it may be quoted
        self.call_offset = 0  # where it begins in the text since the last call
        self.opened_at = self.checked_at = 0  # where it was opened, and last compared
        self.written_at = 0  # where the last of its arguments ended

        # --- the segment of a broken call ---
        self.segment_is_open = False
        self.segment_error = _NO_ERROR
        self.segment_name = ""
        self.segment_opener = ""  # the marker that began it, or several in a row
        self.segment_pieces: list[str] = []

        # --- the body ---
        self.body: BodyReader | None = None
        self.repairing = False  # broken calls are repaired
        self.marker = ""  # opened the body; with `trim`, with the white space before it
        self.start = ""  # the last start marker in it
        self.calls_before = 0  # how many had started when the body was opened
        self.end_before = ""  # the end marker that was expected then
        self.call_start = 0  # where in the response the open call begins
        self.read_again = 0  # how often text was not a call and was read again


# --- output ---


def take_events(state: EngineState) -> list[Event]:
    """Return the events since the last call of this function."""
    events, state.events = state.events, []
    return events


def discard_output(state: EngineState) -> None:
    """Discard all events and the open block: what was read is part of the prompt."""
    state.events = []
    state.pieces = None
    state.index = 0
    state.preface = ""
    state.is_first = True


def expect_first(state: EngineState) -> None:
    """Treat what comes next as the first thing of the response."""
    state.is_first = True


# --- output: text and reasoning ---


def emit_text(state: EngineState, end: int, kind: Kind) -> None:
    """Read the text up to *end* in the scanner and emit it in a block of *kind*."""
    scanner = state.scanner
    pieces = _open_text(state, kind, claims=True)
    text = scanner.take_to(end)
    pieces.append(text)
    state.events.append(DELTAS[kind](state.index, text, scanner.take_raw()))
    if state.is_first and kind == "text" and not text.isspace():
        state.is_first = False


def emit_read(state: EngineState, text: str, kind: Kind) -> None:
    """Emit *text* in a block of *kind*; it claims all text that was read and not claimed."""
    _open_text(state, kind, claims=False).append(text)
    state.events.append(DELTAS[kind](state.index, text, state.scanner.take_raw()))
    if state.is_first and kind == "text" and text.strip():
        state.is_first = False


def _open_text(state: EngineState, kind: Kind, *, claims: bool) -> list[str]:
    """Return the pieces of the open block of *kind*, or of a new one, which may claim text."""
    if state.kind != kind:
        close_text(state)
        state.kind = kind
    if state.pieces is None:
        state.pieces = []
        state.line, state.line_seen = "", 0
        preface = ""
        if kind == "text":
            preface, state.preface = state.preface, ""
        raw = state.scanner.take_raw() if claims and not preface else ""
        state.events.append(_STARTS[kind](state.index, raw))
        if preface:
            state.pieces.append(preface)
            state.events.append(TextDelta(state.index, preface))
    return state.pieces


def repeat_reasoning(state: EngineState) -> None:
    """Emit reasoning as text, too, if it is all of a response and only the prompt has opened it.

    Such a response is an answer whose model forgot to end its reasoning, or has none. What was
    emitted is never taken back, so the reasoning stays.
    """
    is_open = state.channel is not None and state.channel is state.prompt_channel
    if not is_open or state.kind != "thinking" or state.pieces is None or state.index:
        return
    text = "".join(state.pieces).lstrip("\n")
    close_text(state)
    if text.strip():
        state.kind = "text"
        state.events += [TextStart(state.index), TextDelta(state.index, text)]
        state.pieces = [text]


def close_text(state: EngineState) -> None:
    """Close the open block of text or reasoning."""
    if state.pieces is None:
        return
    state.events.append(_ENDS[state.kind](state.index, "".join(state.pieces)))
    state.pieces = None
    state.line, state.line_seen = "", 0
    state.index += 1


def current_line(state: EngineState) -> str:
    """Return the last line of the open text, or the last `MAX_LINE` characters of it."""
    if state.kind != "text":
        return ""
    pieces = state.pieces or []
    for piece in pieces[state.line_seen :]:
        _, newline, end = piece.rpartition("\n")
        state.line = (end if newline else state.line + end)[-MAX_LINE:]
    state.line_seen = len(pieces)
    return state.line


# --- output: calls ---


def start_call(state: EngineState, id: str, name: str, *, ahead: int = 0) -> None:  # noqa: A002 - the field's name
    """Open a call, after the text; its start does not claim the last *ahead* characters."""
    close_text(state)
    state.started_calls += 1
    raw = state.scanner.take_raw_except(ahead) if ahead else state.scanner.take_raw()
    state.events.append(ToolCallStart(state.index, id, name, raw))


def add_arguments(state: EngineState, piece: str, *, claims: bool = True) -> None:
    """Emit more of the open call's arguments; unless it *claims* text, a later event does."""
    raw = _take_raw(state) if claims else ""
    state.events.append(ToolCallDelta(state.index, piece, raw))


def hold_raw(state: EngineState) -> None:
    """Keep the text that was read for the next event of the open call.

    It belongs to that call even if the text after it is handed back.
    """
    state.held_raw += state.scanner.take_raw()


def end_call(state: EngineState, call: ToolCall) -> None:
    """Close the open call."""
    state.events.append(ToolCallEnd(state.index, call, _take_raw(state)))
    state.scanner.forget()
    state.index += 1
    state.is_first = False


def _take_raw(state: EngineState) -> str:
    raw, state.held_raw = state.held_raw + state.scanner.take_raw(), ""
    return raw


# --- errors ---


class BrokenCall(Struct, frozen=True):
    """A piece of model text that was meant to be a call and is not one."""

    text: str
    tool_name: str = ""
    error: ParseError | None = None


OnError = Callable[[str, BrokenCall], object]
"""Receives what is wrong, in words, and the text that was meant to be a call."""


def continues_segment(state: EngineState, marker: str) -> bool:
    """Return whether *marker* opens the first call of the section whose segment is open."""
    opener = state.segment_opener
    if not state.segment_is_open or marker == opener:
        return False
    # Some markers end before their tag does.
    return "".join(state.segment_pieces).strip().rstrip(">") == opener.rstrip(">")


def begin_segment(
    state: EngineState, why: str | ParseError, name: str, text: str, marker: str
) -> None:
    """Begin a segment with *text*, which was claimed already, or continue that of a section."""
    if state.on_error is None:
        return
    state.segment_error = why if isinstance(why, ParseError) else ParseError(why)
    state.segment_name = name
    before = state.segment_pieces if continues_segment(state, marker) else []
    state.segment_opener = "".join(before).lstrip() + marker
    state.segment_pieces = [*before, text]
    state.segment_is_open = True


def extend_segment(state: EngineState, text: str) -> None:
    """Add *text* to the segment, if one is open."""
    if state.segment_is_open:
        state.segment_pieces.append(text)


def close_segment(state: EngineState) -> None:
    """Report the segment, if one is open."""
    if not state.segment_is_open:
        return
    state.segment_is_open = False
    error = state.segment_error
    segment = BrokenCall("".join(state.segment_pieces).lstrip(), state.segment_name, error)
    state.segment_pieces = []
    if state.on_error is not None:
        with suppress(Exception):  # a handler that fails must not end the stream
            state.on_error(str(error), segment)


def report(state: EngineState, why: str | ParseError, name: str, text: str, marker: str) -> None:
    """Report a segment that is complete, or the rest of a section's."""
    if not continues_segment(state, marker):
        close_segment(state)
    begin_segment(state, why, name, text, marker)
    close_segment(state)
