"""Fold events into a message, and replay a message as events.

The builder keeps the pieces that arrive and assembles the message on demand: adding a delta is one
append, whatever came before, and reading `message` costs only the pieces since the last time. It
also checks the sequence against the contract of `events`: a violation is the producer's error and
raises `UsageError` with the rule that was broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NoReturn, assert_never

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
from penstock.messages import (
    UNKNOWN,
    AssistantMessage,
    Content,
    ErrorInfo,
    Text,
    Thinking,
    ToolCall,
)

# The rules of `check_order`, each as the end of an error message.
_START_FIRST: Final = "`start` comes once and first"
_NUMBERED: Final = "blocks are numbered from zero in the order in which they start"
_OPEN: Final = "a delta or an end belongs to an open block of its own kind"
_MONOTONE: Final = "an emitted event is never retracted (law 3)"
_HONEST: Final = "an incomplete call does not end in `tool_use` (law 7)"
_LAST: Final = "one terminal event comes last, after every block has ended"

_OF_TEXT: Final = (TextDelta, TextEnd)  # A union would be built again for every delta.


class MessageBuilder:
    """Folds a valid sequence of events into an `AssistantMessage`.

    Accepts whole sequences (``start`` … ``done``) and bare blocks, as a parser emits them.
    `message` is one live object: it grows as events are added, and an open call in it has the
    arguments that have arrived. Invalid events raise `UsageError` and do not change the message.
    """

    def __init__(self) -> None:
        self._message = AssistantMessage()
        self._open: dict[int, _OpenText | _OpenCall] = {}
        self._begun = False
        self._ended = False

    @property
    def message(self) -> AssistantMessage:
        """The message so far; the same object every time."""
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
        if isinstance(event, Done):  # Law 7: no client runs a call that is not complete.
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
        # A call without a readable name is a call of `unknown`, which no tool can be.
        cut = [call.name for call in calls if not call.complete and call.name != UNKNOWN]
        if cut:
            _refuse(_HONEST, f"`tool_use` with an incomplete call of `{cut[0]}`")

    def _adopt(self, final: AssistantMessage) -> None:
        """Copy what only the terminal event has; the blocks stay as they were folded."""
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
        # A repaired call differs from the text that the model wrote, which the deltas are.
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
    """An open text or reasoning block."""

    __slots__ = ("block", "parts")

    def __init__(self, block: Text | Thinking) -> None:
        self.block = block
        self.parts: list[str] = []

    def refresh(self) -> None:
        if self.parts:
            self.block.text += "".join(self.parts)
            self.parts.clear()


class _OpenCall:
    """An open call; its arguments are parsed when the message is read."""

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
        """Return whether the deltas are a valid object that differs from *final*'s arguments."""
        self.refresh()
        reader = self.reader
        is_sound = reader.complete and not reader.problems and isinstance(reader.value, dict)
        if not is_sound or reader.value == final.arguments:
            return False
        # JSON text joins the halves of a surrogate pair, even if they came from two deltas.
        return bool(reader.value != _json.decode(_json.encode(final.arguments)))


def _refuse(rule: str, what: str) -> NoReturn:
    raise UsageError(f"invalid event: {what}; {rule}")


def message_events(message: AssistantMessage) -> Iterator[Event]:
    """Yield the events of *message*, each block in one piece, and the terminal event."""
    yield MessageStart(message.id, message.model)
    for index, block in enumerate(message.content):
        yield from _block_events(index, block)
    if message.stop_reason in ("stop", "length", "tool_use"):
        yield Done(message.stop_reason, message)
    else:
        error = message.error or ErrorInfo("the message has no stop reason", "truncated")
        yield Failed("aborted" if message.stop_reason == "aborted" else "error", error, message)


def _block_events(index: int, block: Content) -> Iterator[Event]:
    if isinstance(block, Text):
        yield TextStart(index)
        if block.text:
            yield TextDelta(index, block.text)
        yield TextEnd(index, block.text, block.signature)
    elif isinstance(block, Thinking):
        yield ThinkingStart(index)
        if block.text:
            yield ThinkingDelta(index, block.text)
        yield ThinkingEnd(index, block.text, block.signature)
    elif isinstance(block, ToolCall):
        yield ToolCallStart(index, block.id, block.name)
        arguments = _json.encode_wire(block.arguments).decode()
        yield ToolCallDelta(index, arguments if block.complete else arguments[:-1])
        yield ToolCallEnd(index, block)
    else:
        yield Part(index, block)
