"""Render the events of an agent as lines of text.

Nothing in this file knows a terminal. `EventRenderer` writes to a `LineBuffer`; the terminal shows
the buffer above its prompt, and `script` prints it without one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from msgspec import Struct, field

from penstock import _json
from penstock.agent import events as agent_events
from penstock.agent.events import AgentEvent
from penstock.apis.history import content_text
from penstock.cli.chat.mentions import describe_files, prompt_text
from penstock.debug import escape_controls
from penstock.errors import UsageError, shorten
from penstock.events import (
    BLOCK_ENDS,
    CALL_EVENTS,
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
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
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, ToolResult
from penstock.request import Message, UserMessage
from penstock.values import IncrementalJSON
from penstock.values.incremental_state import Change

# --- text ---

TAB: Final = "    "
"""The replacement of a tab: where a tab stops depends on the terminal."""


def escape_text(text: str) -> str:
    """Return *text* with tabs as spaces, and control characters as visible escapes."""
    # A model or a file can contain escape sequences that move the cursor, change the title or
    # answer for the user.
    return escape_controls(text.replace("\t", TAB))


def shorten_lines(lines: list[str], limit: int) -> list[str]:
    """Return at most *limit* lines: the first and the last, and how many are missing."""
    if len(lines) <= limit:
        return lines
    tail = limit // 3
    head = limit - tail - 1
    return [*lines[:head], f"… {len(lines) - head - tail} lines …", *lines[-tail:]]


def shorten_value(text: str) -> str:
    """Return the first `MAX_VALUE` characters of *text*."""
    return shorten(text, MAX_VALUE)


# --- lines ---

MAX_LINE: Final = 100_000
"""The characters of a line before it is broken: a model may never write a line end."""

_BARS: Final = ("│", "┆")


class StyledText(Struct, frozen=True):
    """Text in one style: words such as ``bold``, ``dim`` or the name of a colour."""

    text: str
    style: str = ""


class OutputLine(Struct):
    """A line of any length, which begins with *lead*.

    An *auxiliary* line is not part of the model's response: a call, a result, a note.
    """

    lead: StyledText
    spans: list[StyledText] = field(default_factory=list)
    auxiliary: bool = False

    @property
    def text(self) -> str:
        """The line without styles."""
        return self.lead.text + "".join(span.text for span in self.spans)

    @property
    def continuation(self) -> StyledText:
        """The lead of further rows: a bar is repeated, other marks are not."""
        lead = self.lead.text
        return StyledText(lead if lead.strip() in _BARS else " " * len(lead), self.lead.style)


class LineBuffer:
    """Collects text in pieces of any size, and returns it as lines."""

    def __init__(self) -> None:
        self.finished: deque[OutputLine] = deque()
        """Lines that do not change any more and have not been taken."""
        self.open: OutputLine | None = None
        """The line that is being written."""
        self.draft: list[OutputLine] = []
        """Lines after it that may still change; the first continues the open line, if any."""
        self.preview: list[OutputLine] = []
        """Temporary lines: the end of the reasoning, or of the output of a running tool."""
        self._lead = StyledText("")
        self._auxiliary = False
        self._length = 0
        self._return = ""  # a carriage return that may be the first half of a line end

    def begin(self, lead: str = "", style: str = "", *, auxiliary: bool = False) -> None:
        """Begin a block whose lines all begin with *lead*."""
        self.end()
        self._lead = StyledText(lead, style)
        self._auxiliary = auxiliary

    def add(self, text: str, style: str = "") -> None:
        """Append *text* to the block."""
        text = self._return + text
        # The line feed of a CRLF may be in the next delta.
        self._return = "\r" if text.endswith("\r") else ""
        first, *rest = text.removesuffix("\r").replace("\r\n", "\n").split("\n")
        self._append(first, style)
        for piece in rest:
            self._open_line()
            self._finish_line()
            self._append(piece, style)

    def end(self) -> None:
        """End the block, and its open line."""
        if self._return:
            self._return = ""
            self._append("\r", "")
        self._finish_line()
        self._lead = StyledText("")
        self._auxiliary = False

    def write(self, text: str, style: str = "", lead: str = "") -> None:
        """End the open block, then add *text* as an auxiliary block."""
        self.end()
        self.note(text, style, lead)

    def note(self, text: str, style: str = "", lead: str = "") -> None:
        """Add *text* as an auxiliary block before the open line, which stays open."""
        start = StyledText(lead, style)
        for each in text.replace("\r\n", "\n").split("\n"):
            line = OutputLine(start, [StyledText(escape_text(each), style)], auxiliary=True)
            self.finished.append(line)
            start = line.continuation

    def warn(self, text: str) -> None:
        """Add a warning as a note."""
        self.note(text, "yellow", "! ")

    def show_preview(self, lines: Iterable[str], style: str = "dim", lead: str = "  ┆ ") -> None:
        """Replace the preview with *lines*."""
        self.preview = [
            OutputLine(StyledText(lead, style), [StyledText(escape_text(line), style)])
            for line in lines
        ]

    def take_finished(self) -> list[OutputLine]:
        """Remove and return the finished lines."""
        taken = list(self.finished)
        self.finished.clear()
        return taken

    def _append(self, text: str, style: str) -> None:
        for at in range(0, len(text), MAX_LINE):
            if self._length >= MAX_LINE:
                self._finish_line()
            piece = text[at : at + MAX_LINE]
            self._open_line().spans.append(StyledText(escape_text(piece), style))
            self._length += len(piece)

    def _open_line(self) -> OutputLine:
        if self.open is None:
            self.open = OutputLine(self._lead, auxiliary=self._auxiliary)
        return self.open

    def _finish_line(self) -> None:
        if self.open is not None:
            self.finished.append(self.open)
        self.open = None
        self._length = 0


# --- tool calls ---

SHORT: Final = 60
"""The longest value that is shown on the line of the tool's name."""

MAX_VALUE: Final = 300
"""The characters that are shown of a list, an object, or the arguments of an interrupted call."""


class BlockStyle(Struct, frozen=True):
    """The beginning of each line of a long text, and its style."""

    lead: str
    style: str = ""


BLOCKS: Final = {
    "content": BlockStyle("  │ "),
    "command": BlockStyle("  $ "),
    "diff": BlockStyle("  │ "),
    "patch": BlockStyle("  │ "),
    "old": BlockStyle("  - ", "red"),
    "new": BlockStyle("  + ", "green"),
}
"""Arguments that are always shown as a block; other strings are when they become long."""

_DEFAULT_BLOCK: Final = BlockStyle("  │ ")


PREVIEWED: Final = ("edit_file", "apply_patch")
"""Tools whose arguments are shown as a diff with context, once the call is complete."""

PREVIEW_ROWS: Final = 12
"""The lines of their arguments that are shown while they arrive."""

PreviewCall = Callable[[ToolCall], str]
"""Returns what a call would change as a diff; empty if that is unknown."""


class CallRenderer:
    """Renders one tool call while the model writes it, from its name to its last argument.

    Strings are shown decoded: a file that is being written appears line by line, not as JSON. With
    *preview*, the arguments of tools that edit files are replaced by the diff that it returns.
    """

    def __init__(self, lines: LineBuffer, name: str, preview: PreviewCall | None = None) -> None:
        self._shown = lines
        self._preview = preview if name in PREVIEWED else None
        self._lines = lines = lines if self._preview is None else LineBuffer()
        self._reader = IncrementalJSON(recover=True)
        self._held: list[str] = []  # a string that may turn out to be short
        self._held_length = 0
        self._block: str | None = None  # the argument whose block is open
        self._on_first_line = True
        self._has_arguments = False
        lines.begin("● ", "cyan", auxiliary=True)
        lines.add(name, "bold")

    def add(self, piece: str) -> None:
        """Render one more piece of the arguments' JSON."""
        self._has_arguments = True
        for change in self._reader.feed(piece):
            match change.path:
                case (str() as name,):  # deeper changes are shown when the argument is complete
                    self._render_change(name, change)
        if self._preview is not None:
            rows = [*self._lines.finished, self._lines.open]
            self._shown.preview = [row for row in rows[-PREVIEW_ROWS:] if row is not None]

    def close(self, call: ToolCall) -> str:
        """End the call; add a line if it was cut off, or repaired into other arguments.

        Returns the diff that was shown.
        """
        if not self._has_arguments and call.arguments:  # they came whole, without deltas
            self.add(_json.encode(call.arguments).decode())
        self._close_block()
        self._lines.end()
        if not call.complete:
            self._lines.write("the call was cut off", "yellow", "  ! ")
        # A repaired or coerced call runs with other arguments than the user has seen.
        elif call.arguments and self._reader.value != call.arguments:
            repaired = shorten_value(_json.encode(call.arguments).decode())
            self._lines.write(f"read as {repaired}", "dim", "  ")
        if self._preview is None:
            return ""
        self._shown.preview = []
        diff = self._preview(call) if call.complete else ""
        lines = self._lines.take_finished()
        self._shown.finished.extend(lines[:1] if diff else lines)
        write_diff(self._shown, diff)
        return diff

    def _render_change(self, name: str, change: Change) -> None:
        if change.kind == "string":
            self._add_text(name, change.text)
        elif change.kind == "value" and isinstance(change.value, str):
            if self._block == name:
                self._close_block()
            else:
                self._add_short_value(name, self._take_held())
        elif change.kind in ("value", "end"):
            self._add_short_value(name, change.value)

    def _add_text(self, name: str, text: str) -> None:
        look = BLOCKS.get(name, _DEFAULT_BLOCK)
        if self._block == name:
            self._lines.add(text, look.style)
            return
        self._held.append(text)
        self._held_length += len(text)
        if name not in BLOCKS and self._held_length <= SHORT and "\n" not in text:
            return
        self._close_block()
        self._on_first_line = False
        if name not in BLOCKS:
            self._lines.write(f"{name}:", "dim", "  ")
        self._lines.begin(look.lead, look.style or "dim", auxiliary=True)
        self._block = name
        self._lines.add(self._take_held(), look.style)

    def _close_block(self) -> None:
        if self._block is not None:
            self._lines.end()
        self._block = None

    def _take_held(self) -> str:
        text = "".join(self._held)
        self._held.clear()
        self._held_length = 0
        return text

    def _add_short_value(self, name: str, value: Any) -> None:
        text = value if isinstance(value, str) else _json.encode(value).decode()
        labelled = text if name == "path" else f"{name}={shorten_value(text)}"
        if self._on_first_line:
            self._lines.add(f" {labelled}")
        else:
            self._lines.write(labelled, "dim", "  ")


def write_diff(lines: LineBuffer, diff: str) -> None:
    """Write a unified diff without the two lines that name the file."""
    rows = diff.split("\n")
    rows = [row for at, row in enumerate(rows) if not (at < 2 and row.startswith(("---", "+++")))]  # noqa: PLR2004 - the two lines
    for row in shorten_lines(rows, MAX_DIFF) if diff else ():
        lines.write(shorten(row, MAX_RESULT_LINE), _DIFF_STYLES.get(row[:1], "dim"), "    ")


# --- events ---

REASONING_ROWS: Final = 5
"""The lines of reasoning that are shown while it arrives."""

REASONING_CHARACTERS: Final = 1_000
"""The end of the reasoning that those lines are taken from."""

REASONING_PIECES: Final = 200
"""The deltas that hold this many characters: models send a few characters in each."""

OUTPUT_ROWS: Final = 8
"""The lines of a tool's output that are shown while it runs."""

MAX_RESULT: Final = 12
"""The lines of a result that are shown: the model receives all of it."""

MAX_DIFF: Final = 60
"""The lines of a diff that are shown."""

MAX_RESULT_LINE: Final = 500
"""The characters of a line of a result that are shown: some programs print no line ends."""


class TextWriter(Protocol):
    """Writes the text of a response to the lines, as it arrives."""

    def add(self, text: str) -> None:
        """Write one more piece."""

    def end(self) -> None:
        """Write the rest; the text has ended."""


def write_plain(lines: LineBuffer) -> TextWriter:
    """Return a writer that writes text as it is."""
    lines.begin()
    return lines


_TEXT: Final = (TextStart, TextDelta, TextEnd)
_REASONING: Final = (ThinkingStart, ThinkingDelta, ThinkingEnd)
_STARTS: Final = (TextStart, ThinkingStart, ToolCallStart)
_TOOLS: Final = (agent_events.ToolStarted, agent_events.ToolUpdated, agent_events.ToolEnded)
_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


class EventRenderer:
    """Renders the events of runs to *lines*: text with *write_text*, edits with *preview*.

    *advise* returns what to do about the error of a run.

    Blocks of a response may arrive interleaved (parallel calls), and results of eager tools may
    arrive between them. They are shown one after the other: while one block is open, events of
    other blocks and of tools are deferred.
    """

    def __init__(
        self,
        lines: LineBuffer,
        write_text: Callable[[LineBuffer], TextWriter] = write_plain,
        preview: PreviewCall | None = None,
        advise: Callable[[ErrorInfo], str] = lambda _: "",
    ) -> None:
        self.lines = lines
        self._advise = advise
        self._preview = preview
        self._diffs: dict[str, str] = {}  # those that were shown with their calls
        self._write_text = write_text
        self._text: TextWriter | None = None
        self.reasoning: list[str] = []
        """All reasoning of the conversation in full; `lines` has only its number of words."""
        self._open_index: int | None = None
        self._deferred: list[AgentEvent] = []
        self._call: CallRenderer | None = None
        self._deltas: list[str] = []
        self._has_prompt = False

    def render(self, event: AgentEvent) -> None:
        """Render *event* now, or when the open block ends."""
        if self._must_wait(event):
            self._deferred.append(event)
            return
        self._render(event)
        if self._open_index is None and self._deferred:
            deferred, self._deferred = self._deferred, []
            for each in deferred:
                self.render(each)

    def _must_wait(self, event: AgentEvent) -> bool:
        if self._open_index is None:
            return False
        if not isinstance(event, agent_events.MessageUpdated):
            return isinstance(event, _TOOLS)
        match event.event:
            case MessageStart():
                return False
            case Done() | Failed():
                return True
            case inner:
                return inner.index != self._open_index

    def _render(self, event: AgentEvent) -> None:
        match event:
            case agent_events.MessageUpdated(event=inner):
                self._render_block(inner)
            case agent_events.MessageStarted(message=UserMessage(source="") as prompt):
                self._render_prompt(prompt)
            case agent_events.MessageEnded(message=message, kept=kept):
                self._render_message_end(message, kept=kept)
            case agent_events.ToolUpdated(partial=partial):
                rows = _split_lines(partial)[-OUTPUT_ROWS:]
                self.lines.show_preview(shorten(row, MAX_RESULT_LINE) for row in rows)
            case agent_events.ToolEnded(result=result, details=details):
                self._render_result(result, details)
            case agent_events.AgentEnded(error=error):
                self._settle()
                self.lines.preview = []
                if error is not None and error.kind == "aborted" and not error.type:
                    self.lines.write("stopped", "yellow", "■ ")
                elif error is not None:
                    self.lines.write(error.message, "red", "! ")
                    if advice := self._advise(error):
                        self.lines.write(advice, "dim", "  ")
            case _:
                self._render_notice(event)

    def _render_prompt(self, prompt: UserMessage) -> None:
        if self._has_prompt:
            self.lines.write("")
        self._has_prompt = True
        self.lines.write(prompt_text(prompt), "bold", "> ")
        for file in describe_files(prompt):
            self.lines.write(file, "dim", "  + ")

    def _render_block(self, event: Event) -> None:
        if isinstance(event, _STARTS):
            self._open_index = event.index
        if isinstance(event, _TEXT):
            self._render_text(event)
        elif isinstance(event, _REASONING):
            self._render_reasoning(event)
        elif isinstance(event, CALL_EVENTS):
            self._render_call(event)
        elif isinstance(event, Part):
            self.lines.write(f"({event.part.provider} sent provider-specific data)", "dim", "  ")
        if isinstance(event, BLOCK_ENDS):
            self._open_index = None

    def _render_text(self, event: TextStart | TextDelta | TextEnd) -> None:
        if isinstance(event, TextStart):
            self._text = self._write_text(self.lines)
        elif self._text is None:
            return
        elif isinstance(event, TextDelta):
            self._text.add(event.text)
        else:
            self._text.end()
            self._text = None

    def _render_reasoning(self, event: ThinkingStart | ThinkingDelta | ThinkingEnd) -> None:
        if isinstance(event, ThinkingDelta):
            self._deltas.append(event.text)
            # Only the end is split, so that the cost of a delta does not grow with the reasoning.
            end = "".join(self._deltas[-REASONING_PIECES:])[-REASONING_CHARACTERS:]
            self.lines.show_preview(_split_lines(end)[-REASONING_ROWS:], "dim italic", "┆ ")
        elif isinstance(event, ThinkingEnd):
            self._deltas.clear()
            self.lines.preview = []
            if event.text.strip():
                self.reasoning.append(event.text)
                words = len(event.text.split())
                self.lines.write(f"reasoning, {words} word{'s' * (words != 1)}", "dim italic", "┆ ")

    def _render_call(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> None:
        if isinstance(event, ToolCallStart):
            self._call = CallRenderer(self.lines, event.name, self._preview)
        elif self._call is None:
            return
        elif isinstance(event, ToolCallDelta):
            self._call.add(event.arguments)
        else:
            self._diffs[event.call.id] = self._call.close(event.call)
            self._call = None

    def _render_message_end(self, message: Message, *, kept: bool) -> None:
        self._settle()
        if not isinstance(message, AssistantMessage):
            return
        if message.stop_reason == "length":
            self.lines.write("the response was cut at its length limit", "yellow", "! ")
        if not kept and message.content:
            self.lines.write("(this response is not kept)", "dim", "  ")

    def _settle(self) -> None:
        """Close the blocks that a response left open, and render the deferred events."""
        self._close_block()
        self._deltas.clear()
        deferred, self._deferred = self._deferred, []
        for each in deferred:
            self._render(each)
        self._close_block()

    def _close_block(self) -> None:
        if self._text is not None:
            self._text.end()
        self.lines.end()
        self._open_index = self._call = self._text = None

    def _render_result(self, result: ToolResult, details: Any) -> None:
        self.lines.preview = []
        style = "red" if result.is_error else "dim"
        for number, line in enumerate(shorten_lines(_split_lines(result.content), MAX_RESULT)):
            self.lines.write(
                shorten(line, MAX_RESULT_LINE), style, "  → " if not number else "    "
            )
        shown = self._diffs.pop(result.id, "")
        if isinstance(details, str) and details != shown:  # a diff
            write_diff(self.lines, details)

    def _render_notice(self, event: AgentEvent) -> None:
        warning = notice = ""
        match event:
            case agent_events.FindingMade(source=source, names=names):
                outcome = "stopped the response" if event.interrupts else "reminds the model"
                warning = f"{source} {', '.join(names)} {outcome}"
            case agent_events.RetryStarted(delay=delay, error=error):
                number = f"{event.attempt} of {event.attempts}"
                warning = f"{error.message}: retry {number} in {delay:.1f} s"
            case agent_events.CompactionStarted(tokens=tokens):
                notice = f"summarizing {tokens:,} tokens …"
            case agent_events.CompactionEnded(error=None):
                notice = f"summarized; the last {event.kept} messages are unchanged"
            case agent_events.CompactionEnded(error=ErrorInfo(message=why)):
                warning = f"the conversation was not summarized: {why}"
            case agent_events.ExtensionErrorEvent(source=source, message=why):
                warning = f"{source}: {why}"
            case _:
                return  # the beginnings of runs, turns and tools can be seen without a line
        self.lines.write(warning or notice, *(("yellow", "! ") if warning else ("dim", "  ")))
        if isinstance(event, agent_events.FindingMade):
            for line in shorten_lines(_split_lines(event.text), MAX_RESULT):
                self.lines.write(line, "dim", "    ")


def _split_lines(value: object) -> list[str]:
    """Return the output of a tool, which may be any object, as lines."""
    try:
        text = content_text(value)
    except UsageError:
        text = str(value)
    return text.removesuffix("\n").split("\n")
