"""What an agent does, told on a page: its events in, lines out.

Blocks of an answer may come side by side (parallel calls), and with eager tools so may what tools
give back; people read one thing after the other. So one block at a time has the floor, and what
comes of others meanwhile waits until it is over.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.agent import events as agent_events
from penstock.agent.events import AgentEvent
from penstock.apis.history import text_of
from penstock.cli.chat.arguments import CallView
from penstock.cli.chat.page import Page
from penstock.errors import UsageError
from penstock.events import (
    Event,
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
from penstock.messages import AssistantMessage, ErrorInfo, ToolResult
from penstock.request import Message, UserMessage

THOUGHT_ROWS: Final = 5
"""How many lines of a thought are shown while it comes."""

THOUGHT_CHARACTERS: Final = 1_000
"""How much of a thought these lines are taken from."""

THOUGHT_PIECES: Final = 200
"""The same in pieces, which are a few characters each."""

OUTPUT_ROWS: Final = 8
"""How many lines of what a tool prints are shown while it runs."""

MAX_RESULT: Final = 12
"""How many lines of a result stay: more is the model's to read."""

MAX_DIFF: Final = 60
"""How many lines of a change to a file stay."""

MAX_RESULT_LINE: Final = 500
"""How long a line of a result may be: some programs print no line ends."""

_PROSE: Final = (TextStart, TextDelta, TextEnd)
_THOUGHTS: Final = (ThinkingStart, ThinkingDelta, ThinkingEnd)
_CALLS: Final = (ToolCallStart, ToolCallDelta, ToolCallEnd)
_STARTS: Final = (TextStart, ThinkingStart, ToolCallStart)
_ENDS: Final = (TextEnd, ThinkingEnd, ToolCallEnd)
_TOOLS: Final = (agent_events.ToolStarted, agent_events.ToolUpdated, agent_events.ToolEnded)


class Teller:
    """Tells the events of runs on *page*."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.thoughts: list[str] = []
        """Every thought of the conversation, whole: on the page they are folded."""
        self._floor: int | None = None
        self._waiting: list[AgentEvent] = []
        self._call: CallView | None = None
        self._thought: list[str] = []
        self._has_spoken = False

    def tell(self, event: AgentEvent) -> None:
        """Tell *event*, now or when it is its turn."""
        if self._has_to_wait(event):
            self._waiting.append(event)
            return
        self._tell(event)
        if self._floor is None and self._waiting:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                self.tell(each)

    def _has_to_wait(self, event: AgentEvent) -> bool:
        if self._floor is None:
            return False
        if isinstance(event, agent_events.MessageUpdated):
            return event.event.type != "start" and getattr(event.event, "index", -1) != self._floor
        return isinstance(event, _TOOLS)

    def _tell(self, event: AgentEvent) -> None:
        match event:
            case agent_events.MessageUpdated(event=inner):
                self._tell_block(inner)
            case agent_events.MessageStarted(message=UserMessage() as said):
                self._tell_said(said)
            case agent_events.MessageEnded(message=message, kept=kept):
                self._tell_end(message, kept=kept)
            case agent_events.ToolUpdated(partial=partial):
                self.page.show_live(map(_cut_line, _lines(partial)[-OUTPUT_ROWS:]))
            case agent_events.ToolEnded(result=result, details=details):
                self._tell_result(result, details)
            case agent_events.AgentEnded(error=error):
                self._tell_failure(error)
            case _:
                self._tell_note(event)

    # --- answers ---

    def _tell_block(self, event: Event) -> None:
        if isinstance(event, _STARTS):
            self._floor = event.index
        if isinstance(event, _PROSE):
            self._tell_prose(event)
        elif isinstance(event, _THOUGHTS):
            self._tell_thought(event)
        elif isinstance(event, _CALLS):
            self._tell_call(event)
        elif isinstance(event, Part):
            self.page.line(f"({event.part.provider} sent something of its own)", "dim", "  ")
        if isinstance(event, _ENDS):
            self._floor = None

    def _tell_prose(self, event: TextStart | TextDelta | TextEnd) -> None:
        if isinstance(event, TextStart):
            self.page.begin()
        elif isinstance(event, TextDelta):
            self.page.add(event.text)
        else:
            self.page.end()

    def _tell_thought(self, event: ThinkingStart | ThinkingDelta | ThinkingEnd) -> None:
        if isinstance(event, ThinkingDelta):
            self._thought.append(event.text)
            # Only the end is looked at, so a long thought costs no more than a short one.
            end = _lines("".join(self._thought[-THOUGHT_PIECES:])[-THOUGHT_CHARACTERS:])
            self.page.show_live(end[-THOUGHT_ROWS:], "dim italic", "┆ ")
        elif isinstance(event, ThinkingEnd):
            self._thought.clear()
            self.page.live = []
            if event.text.strip():
                self.thoughts.append(event.text)
                words = len(event.text.split())
                self.page.line(f"thought, {words} word{'s' * (words != 1)}", "dim italic", "┆ ")

    def _tell_call(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> None:
        if isinstance(event, ToolCallStart):
            self._call = CallView(self.page, event.name)
        elif self._call is None:
            return
        elif isinstance(event, ToolCallDelta):
            self._call.add(event.arguments)
        else:
            self._call.close(event.call)
            self._call = None

    # --- messages ---

    def _tell_said(self, said: UserMessage) -> None:
        if said.source:  # it was told as what was found
            return
        if self._has_spoken:
            self.page.line("")
        self._has_spoken = True
        self.page.line(said.text, "bold", "> ")

    def _tell_end(self, message: Message, *, kept: bool) -> None:
        self._settle()
        if not isinstance(message, AssistantMessage):
            return
        if message.stop_reason == "length":
            self.page.line("the answer was cut at its length limit", "yellow", "! ")
        if not kept and message.content:
            self.page.line("(this answer does not count)", "dim", "  ")

    def _settle(self) -> None:
        """Close what an answer left open, and tell what waited for it."""
        self.page.end()
        self._floor = self._call = None
        self._thought.clear()
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            self._tell(each)
        self.page.end()
        self._floor = self._call = None

    # --- tools ---

    def _tell_result(self, result: ToolResult, details: Any) -> None:
        self.page.live = []
        style = "red" if result.is_error else "dim"
        lines = shortened(_lines(result.content), MAX_RESULT)
        for number, line in enumerate(lines):
            self.page.line(_cut_line(line), style, "  → " if not number else "    ")
        if isinstance(details, str):
            for line in shortened(_lines(details)[2:], MAX_DIFF):
                self.page.line(_cut_line(line), _DIFF_STYLES.get(line[:1], "dim"), "    ")

    # --- notes ---

    def _tell_note(self, event: AgentEvent) -> None:
        match event:
            case agent_events.FindingMade():
                self._tell_finding(event)
            case agent_events.RetryStarted(delay=delay, error=error):
                again = f"again in {delay:.1f} s ({event.attempt} of {event.attempts})"
                self._warn(f"{error.message}: {again}")
            case agent_events.CompactionStarted(tokens=tokens):
                self._note(f"summing up {tokens:,} tokens …")
            case agent_events.CompactionEnded(error=None):
                self._note(f"summed up; the last {event.kept} messages stay as they are")
            case agent_events.CompactionEnded(error=ErrorInfo(message=why)):
                self._warn(f"nothing was summed up: {why}")
            case agent_events.ExtensionErrorEvent(source=source, message=why):
                self._warn(f"{source}: {why}")
            case _:
                pass  # where runs, turns and tools begin is seen anyway

    def _tell_finding(self, finding: agent_events.FindingMade) -> None:
        done = "stopped the answer" if finding.interrupts else "speaks"
        self._warn(f"{finding.source} {', '.join(finding.names)} {done}")
        for line in shortened(_lines(finding.text), MAX_RESULT):
            self.page.line(line, "dim", "    ")

    def _tell_failure(self, error: ErrorInfo | None) -> None:
        self._settle()
        self.page.live = []
        if error is not None and error.kind == "aborted" and not error.type:
            self.page.line("stopped", "yellow", "■ ")
        elif error is not None:
            self.page.line(error.message, "red", "! ")

    def _warn(self, text: str) -> None:
        self.page.line(text, "yellow", "! ")

    def _note(self, text: str) -> None:
        self.page.line(text, "dim", "  ")


_DIFF_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


def shortened(lines: list[str], most: int) -> list[str]:
    """Give the first and the last of *lines*, and how many are missing between them."""
    if len(lines) <= most:
        return lines
    tail = most // 3
    head = most - tail - 1
    return [*lines[:head], f"… {len(lines) - head - tail} lines …", *lines[-tail:]]


def _lines(value: object) -> list[str]:
    """Give what a tool told as lines; it may be anything."""
    try:
        text = text_of(value)
    except UsageError:
        text = str(value)
    return text.removesuffix("\n").split("\n")


def _cut_line(line: str) -> str:
    return line if len(line) <= MAX_RESULT_LINE else f"{line[:MAX_RESULT_LINE]}…"
