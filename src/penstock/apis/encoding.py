"""The life of an encoder: events in, bytes of one API's stream out.

An API says by its `_write_…` methods how its wire says each event. All else is the same everywhere:
the answer begins once, has one end, and nothing follows it; a sequence that stops without its end
is one that was cut. `OneByOne` serves the APIs in which one block has to end before another begins.

How an answer ends is decided here for all (`ending`): an incomplete call never ends in anything
that would make a client run it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from typing import Final, Literal

from msgspec import structs

from penstock import _json
from penstock.apis.arguments import strict_object, with_whole_pairs
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
from penstock.messages import AssistantMessage, ErrorInfo, StopReason, ToolCall

BlockEvent = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Part
)
"""An event of a block."""

Ending = Literal["stop", "length", "tool_use", "refusal", "filter"]
"""How an answer ends, where it does not end in an error."""

INCOMPLETE_CALL: Final = "incomplete_call"
"""The type of the error of an answer that ended well, but holds a call that is not complete."""

_ENDS = (TextEnd, ThinkingEnd, ToolCallEnd, Part)


class StreamEncoder(ABC):
    """Events of one answer in, bytes out; `finish` after the last."""

    def __init__(self) -> None:
        self._begun = False
        self._ended = False
        self._finished = False
        self._calls: list[bool] = []  # whether each is complete
        self._said: dict[int, list[str]] = {}  # the arguments of open calls

    def encode(self, event: Event) -> bytes:
        """Write what *event* means to a client; nothing is written after the terminal event."""
        if self._finished:
            raise UsageError("the stream is finished: make a new encoder for a new one")
        if self._ended:
            return b""
        match event:
            case MessageStart():
                return self._begin(event)
            case Done() | Failed():
                return self._end(event)
            case _:
                if isinstance(event, ToolCallEnd):
                    event = self._checked(event)
                    self._calls.append(event.call.complete)
                elif isinstance(event, ToolCallDelta):
                    self._said.setdefault(event.index, []).append(event.arguments)
                head = b"" if self._begun else self._begin(MessageStart())
                return head + self._write(event)

    def finish(self) -> bytes:
        """End the stream; without a terminal event before, it ends as one that was cut."""
        data = b""
        if not self._ended:
            cut = ErrorInfo("the stream ended before the answer did", "truncated", retryable=True)
            data = self.encode(Failed("error", cut, AssistantMessage()))
        self._finished = True
        return data

    def keep_alive(self) -> bytes:
        """Write a sign of life that means nothing to a client."""
        return b": keep-alive\n\n"

    def _begin(self, event: MessageStart) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._write_start(event)

    def _end(self, event: Done | Failed) -> bytes:
        head = (
            b"" if self._begun else self._begin(MessageStart(event.message.id, event.message.model))
        )
        self._ended = True
        return head + self._write_end(event, self._ending(event))

    def _ending(self, event: Done | Failed) -> Ending | ErrorInfo:
        """Say how the answer ends: a word of the model's side, or an error.

        An incomplete call ends at the limit, if the limit cut it, and else in an error.
        """
        error = event.error if isinstance(event, Failed) else None
        return _ending(event.reason, error, self._calls)

    streams_arguments = True
    """Whether arguments go out as they come; if not, what was understood has the last word."""

    def _checked(self, event: ToolCallEnd) -> ToolCallEnd:
        """Return the end of a call; one whose arguments a client cannot read is not complete."""
        said = "".join(self._said.pop(event.index, ())).lstrip()
        if not event.call.complete or self._is_sound(event.call, said):
            return event
        return structs.replace(event, call=structs.replace(event.call, complete=False))

    def _is_sound(self, call: ToolCall, said: str) -> bool:
        """Return whether every client reads the arguments alike.

        Some were mended after they had gone, some cannot be written at all. What does not begin
        like an object has not gone: see `ArgumentsOut`.
        """
        if not _json.is_finite(call.arguments):
            return False
        if not said.startswith("{") or not self.streams_arguments:
            return True
        return strict_object(with_whole_pairs(said)) is not None

    @abstractmethod
    def _write_start(self, event: MessageStart) -> bytes:
        """Write the beginning of the answer."""

    @abstractmethod
    def _write(self, event: BlockEvent) -> bytes:
        """Write an event of a block."""

    @abstractmethod
    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        """Write the end of the answer, which is *ending*."""


def ending_of(message: AssistantMessage) -> Ending | ErrorInfo:
    """Say how a whole *message* ended, by the same rules."""
    calls = [call.complete for call in writable(message).tool_calls]
    return _ending(message.stop_reason, message.error, calls)


def failure_of(message: AssistantMessage) -> ErrorInfo | None:
    """Return why *message* has no whole form; nothing if it has one.

    An answer that ended well and holds a call that is not complete has one, if it says anything
    else: what a model said is not lost for a call that cannot be read.
    """
    ending = ending_of(message)
    if not isinstance(ending, ErrorInfo):
        return None
    says_more = bool(message.text.strip()) or any(c.complete for c in writable(message).tool_calls)
    return None if ending.type == INCOMPLETE_CALL and says_more else ending


def whole_ending_of(message: AssistantMessage) -> tuple[Ending, ErrorInfo | None]:
    """Say how a whole answer ends, and what is wrong with it; raise `UsageError` for a failed one.

    With a call that is not complete it ends as one that was cut at the limit, the one word of all
    APIs for an answer of which something is missing.
    """
    failure, ending = failure_of(message), ending_of(message)
    if failure is not None:
        raise UsageError(f"an answer that failed has no whole form: {failure.message}")
    return ("length", ending) if isinstance(ending, ErrorInfo) else (ending, None)


def writable(message: AssistantMessage) -> AssistantMessage:
    """Return *message* as it can be written: a call that JSON has no words for is not complete."""
    if all(_json.is_finite(call.arguments) for call in message.tool_calls):
        return message
    content = [
        structs.replace(block, complete=False)
        if isinstance(block, ToolCall) and not _json.is_finite(block.arguments)
        else block
        for block in message.content
    ]
    return structs.replace(message, content=content)


def _ending(
    reason: StopReason | None, error: ErrorInfo | None, calls: list[bool]
) -> Ending | ErrorInfo:
    if error is not None and error.kind in ("refusal", "filter"):
        return "refusal" if error.kind == "refusal" else "filter"
    if reason not in ("stop", "length", "tool_use"):
        return error or ErrorInfo("the answer has no end", "truncated", retryable=True)
    if reason == "length":
        return reason
    if not all(calls):
        return ErrorInfo(
            "the answer holds a call that is not complete", "malformed", INCOMPLETE_CALL
        )
    return "tool_use" if calls else "stop"


class OneByOne:
    """Puts the events of blocks that are open side by side into an order of one block at a time.

    The block that opened first goes on; what comes for the others waits until it ends. `current` is
    the block whose turn it is.
    """

    def __init__(self) -> None:
        self.current: int | None = None
        self._waiting: dict[int, deque[BlockEvent]] = {}

    def put(self, event: BlockEvent) -> Iterator[BlockEvent]:
        """Take one more event; give those whose turn it is."""
        if self.current is None:
            self.current = event.index
        if event.index != self.current:
            self._waiting.setdefault(event.index, deque()).append(event)
            return
        yield event
        while isinstance(event, _ENDS):
            if not self._waiting:
                self.current = None
                return
            self.current = min(self._waiting)
            waiting = self._waiting.pop(self.current)
            while waiting:
                event = waiting.popleft()
                yield event
