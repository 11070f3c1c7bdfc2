"""Fold events into a message, at the cost of the delta.

The builder keeps what arrives as parts and puts the message together when somebody looks at it:
adding a delta is one append, whatever came before, and a look at `message` pays only for the open
blocks that grew since the last. On the way it holds the sequence to the contract of `events`; what
breaks it is the producer's fault and raises `UsageError`, naming the law.
"""

from __future__ import annotations

from typing import NoReturn, assert_never

from penstock import _json, values
from penstock.errors import UsageError
from penstock.events import (
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
from penstock.messages import UNKNOWN, AssistantMessage, Text, Thinking, ToolCall

_START_FIRST = "`start` comes once and first"
_NUMBERED = "blocks are numbered from zero in the order in which they start"
_OPEN = "a delta or an end belongs to an open block of its own kind"
_MONOTONE = "what was emitted is never taken back (law 3)"
_HONEST = "an end is honest (law 7)"
_LAST = "one terminal event comes last, after every block has closed"

_OF_TEXT = (TextDelta, TextEnd)  # made once: a union would be made again for every delta


class MessageBuilder:
    """Folds a valid sequence of events into an `AssistantMessage`.

    Takes whole sequences (``start`` … ``done``) and bare blocks as a parser gives them. `message`
    is one live object: it grows as events are added, and an open call in it shows the arguments
    that have arrived. Unlawful events raise `UsageError` and leave the message as it was.
    """

    def __init__(self) -> None:
        self._message = AssistantMessage()
        self._open: dict[int, _OpenText | _OpenCall] = {}
        self._begun = False
        self._ended = False

    @property
    def message(self) -> AssistantMessage:
        """The message so far; the same object every time, brought up to date."""
        for block in self._open.values():
            block.refresh()
        return self._message

    @property
    def ended(self) -> bool:
        """Whether the terminal event has come."""
        return self._ended

    def add(self, event: Event) -> None:
        """Fold one more event into the message."""
        if self._ended:
            _refuse(_LAST, f"`{event.type}` came after the end")
        match event:
            case TextDelta() | ThinkingDelta():
                self._open_text(event).parts.append(event.text)
            case ToolCallDelta():
                self._open_call(event).parts.append(event.arguments)
            case TextStart() | ThinkingStart() | ToolCallStart():
                self._start(event)
            case TextEnd() | ThinkingEnd():
                self._end_text(event)
            case ToolCallEnd():
                self._end_call(event)
            case Part():
                self._check_next(event)
                self._message.content.append(event.part)
            case MessageStart():
                self._begin(event)
            case Done() | Failed():
                self._end(event)
            case _:
                assert_never(event)
        self._begun = True

    # --- the message ---

    def _begin(self, event: MessageStart) -> None:
        if self._begun:
            _refuse(_START_FIRST, "this one came later")
        self._message.id, self._message.model = event.id, event.model

    def _end(self, event: Done | Failed) -> None:
        if self._open:
            _refuse(_LAST, f"`{event.type}` came while block {min(self._open)} was open")
        if isinstance(event, Done):
            self._check_honest(event)
        self._ended = True
        self._adopt(event.message)
        self._message.stop_reason = event.reason
        if isinstance(event, Failed):
            self._message.error = event.error

    def _check_honest(self, event: Done) -> None:
        if event.reason != "tool_use":
            return
        calls = self._message.tool_calls or event.message.tool_calls
        # A choice of a tool that cannot be read is a call of `unknown`, which nobody can run.
        cut = [call.name for call in calls if not call.complete and call.name != UNKNOWN]
        if cut:
            _refuse(_HONEST, f"`tool_use` with an incomplete call of `{cut[0]}`")

    def _adopt(self, final: AssistantMessage) -> None:
        """Take over what only the terminal event knows; blocks stay as they were folded."""
        message = self._message
        message.id = message.id or final.id
        message.model = message.model or final.model
        message.content = message.content or final.content
        message.raw_stop_reason = final.raw_stop_reason
        message.usage = final.usage
        message.error = final.error

    # --- blocks ---

    def _check_next(self, event: TextStart | ThinkingStart | ToolCallStart | Part) -> None:
        expected = len(self._message.content)
        if event.index != expected:
            _refuse(_NUMBERED, f"`{event.type}` has index {event.index}, expected {expected}")

    def _start(self, event: TextStart | ThinkingStart | ToolCallStart) -> None:
        self._check_next(event)
        block: Text | Thinking | ToolCall
        if isinstance(event, ToolCallStart):
            block = ToolCall(event.id, event.name, complete=False)
            self._open[event.index] = _OpenCall(block)
        else:
            block = Text() if isinstance(event, TextStart) else Thinking()
            self._open[event.index] = _OpenText(block)
        self._message.content.append(block)

    def _end_text(self, event: TextEnd | ThinkingEnd) -> None:
        opened = self._open_text(event)
        opened.refresh()
        if opened.block.text != event.text:
            _refuse(_MONOTONE, f"`{event.type}` of block {event.index} differs from its deltas")
        opened.block.signature = event.signature
        del self._open[event.index]

    def _end_call(self, event: ToolCallEnd) -> None:
        opened = self._open_call(event)
        call, begun = event.call, opened.call
        if (call.id, call.name) != (begun.id, begun.name):
            _refuse(_MONOTONE, f"call {begun.id!r} of `{begun.name}` ended under another name")
        if call.complete and not call.repairs and opened.contradicts(call):
            _refuse(_MONOTONE, f"the arguments of `{call.name}` differ from their deltas")
        self._message.content[event.index] = call
        del self._open[event.index]

    def _open_text(self, event: TextDelta | TextEnd | ThinkingDelta | ThinkingEnd) -> _OpenText:
        opened = self._open.get(event.index)
        kind = Text if isinstance(event, _OF_TEXT) else Thinking
        if not isinstance(opened, _OpenText) or type(opened.block) is not kind:
            _refuse(_OPEN, f"`{event.type}` for block {event.index}")
        return opened

    def _open_call(self, event: ToolCallDelta | ToolCallEnd) -> _OpenCall:
        opened = self._open.get(event.index)
        if not isinstance(opened, _OpenCall):
            _refuse(_OPEN, f"`{event.type}` for block {event.index}")
        return opened


class _OpenText:
    """A text or thinking block that still grows."""

    __slots__ = ("block", "parts")

    def __init__(self, block: Text | Thinking) -> None:
        self.block = block
        self.parts: list[str] = []

    def refresh(self) -> None:
        if self.parts:
            self.block.text += "".join(self.parts)
            self.parts.clear()


class _OpenCall:
    """A call whose arguments still arrive; they are read when somebody looks."""

    __slots__ = ("call", "parts", "reader")

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.parts: list[str] = []
        self.reader = values.IncrementalJSON(recover=True)

    def refresh(self) -> None:
        if self.parts:
            self.reader.feed("".join(self.parts))
            self.parts.clear()
            value = self.reader.value
            if isinstance(value, dict):
                self.call.arguments = value

    def contradicts(self, final: ToolCall) -> bool:
        """Return whether the deltas were a sound, whole object that said something else."""
        self.refresh()
        reader = self.reader
        is_sound = reader.complete and not reader.problems and isinstance(reader.value, dict)
        if not is_sound or reader.value == final.arguments:
            return False
        # In JSON text two halves of a surrogate pair are one character, whoever wrote them.
        return bool(reader.value != _json.decode(_json.encode(final.arguments)))


def _refuse(law: str, what: str) -> NoReturn:
    raise UsageError(f"unlawful event: {what}; {law}")
