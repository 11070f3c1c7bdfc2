"""What has passed, as a message, and how to end it lawfully from wherever it stands.

A decoder closes what it opens. A source that dies, is aborted or breaks the contract of `events`
does not: then the record closes the open blocks with what had arrived (a call that was cut is not
complete and is never executed) and ends in `Failed`.
"""

from __future__ import annotations

from penstock.builder import MessageBuilder
from penstock.events import (
    Event,
    Failed,
    TextEnd,
    TextStart,
    ThinkingEnd,
    ThinkingStart,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import AssistantMessage, Content, ErrorInfo, Text, Thinking, ToolCall


class Record:
    """Folds what a source gives into one message, up to exactly one terminal event."""

    def __init__(self) -> None:
        self._builder = MessageBuilder()
        self._open: set[int] = set()
        self.add_delta = self._builder.add
        """Fold a delta; raise `UsageError` where its block is not open."""

    @property
    def message(self) -> AssistantMessage:
        """The message so far; the same object every time."""
        return self._builder.message

    @property
    def ended(self) -> bool:
        """Whether the terminal event has passed."""
        return self._builder.ended

    def add(self, event: Event) -> list[Event]:
        """Fold *event*; give it, behind the ends of the blocks that a failure left open.

        Raises `UsageError` for an event that may not come here; the message stays as it was.
        """
        before = self._close_blocks() if isinstance(event, Failed) else []
        self._builder.add(event)
        match event:
            case TextStart() | ThinkingStart() | ToolCallStart():
                self._open.add(event.index)
            case TextEnd() | ThinkingEnd() | ToolCallEnd():
                self._open.discard(event.index)
        return [*before, event]

    def fail(self, error: ErrorInfo) -> list[Event]:
        """End with *error*; give the ends of the open blocks and the terminal event."""
        was_aborted = error.kind == "aborted"
        return self.add(Failed("aborted" if was_aborted else "error", error, self.message))

    def _close_blocks(self) -> list[Event]:
        content = self.message.content
        ends = [_end_of(index, content[index]) for index in sorted(self._open)]
        for end in ends:
            self._builder.add(end)
        self._open.clear()
        return ends


def _end_of(index: int, block: Content) -> Event:
    match block:
        case Text():
            return TextEnd(index, block.text)
        case Thinking():
            return ThinkingEnd(index, block.text)
        case ToolCall():
            return ToolCallEnd(index, block)
        case _:
            raise AssertionError(f"a block of type {block.type} is never open")
