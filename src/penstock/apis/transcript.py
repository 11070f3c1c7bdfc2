"""Lawful events out of what a provider says, in whatever order it says it.

A decoder tells the transcript what happened: a passage of text or thinking begins, grows and ends,
a call is named, gets arguments and ends, the answer is done or has failed. The transcript numbers
the blocks, keeps the message, and sees to it that every block is closed before the one terminal
event. A decoder holds the passages and calls that it opened under the provider's own keys; what
comes for one that has ended is dropped.

A call ends as complete only when its arguments are a whole JSON object. Text that is none stays in
doubt until it is known what followed: if the answer went on or ended well, the model meant it so,
and it is mended; if the limit or the connection cut the answer, it cut the call.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Final, Literal

from msgspec import structs

from penstock.apis.encoding import INCOMPLETE_CALL
from penstock.apis.passages import CallPassage, Passage
from penstock.apis.reading import clean
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextStart,
    ThinkingDelta,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
)
from penstock.messages import (
    AssistantMessage,
    Content,
    ErrorInfo,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

_SPEECH: Final = (TextDelta, ThinkingDelta, ToolCallDelta)


class Transcript:
    """The events of one answer, as they become certain.

    *ids* gives an id to a call that brings none, or one that another call has.
    """

    def __init__(self, ids: Callable[[], str] | None = None) -> None:
        self.usage = Usage()
        self.raw_stop_reason = ""
        self.ended = False
        self._ids = ids or (f"call_{number}" for number in count(1)).__next__
        self._given: set[str] = set()
        self._events: list[Event] = []
        self.message = AssistantMessage()
        self._begun = False
        self._content: list[Content] = []
        self._open: list[Passage | CallPassage] = []
        self.speaker: Passage | None = None  # the passage that grew last
        self.grown: Passage | CallPassage | None = None  # what grew last, and by a piece alone
        self.muted = 0  # pieces since the last `take` that made no event, or not as they were
        self._doubtful: list[CallPassage] = []

    def take(self) -> list[Event]:
        """Take the events since the last time."""
        events, self._events, self.muted = self._events, [], 0
        return events

    @property
    def mark(self) -> tuple[int, int]:
        """The moment: how many events nobody has taken, and how many pieces made none."""
        return len(self._events), self.muted

    def spoke_since(self, mark: tuple[int, int] = (0, 0)) -> Passage | CallPassage | None:
        """Give the passage whose growth is all that was said since *mark*, or the last `take`.

        A piece that made no event was said too: the arguments of a call without a name yet, half
        a surrogate pair.
        """
        pending, muted = mark
        if (
            len(self._events) == pending + 1
            and self.muted == muted
            and type(self._events[-1]) in _SPEECH
        ):
            return self.grown
        return None

    def begin(self, id: str = "", model: str = "") -> None:  # noqa: A002 - the field's name
        """Begin the answer, once; whatever comes first begins it too, without a name."""
        if not self._begun:
            self._begun = True
            self.message.id, self.message.model = clean(id), clean(model)
            self._events.append(MessageStart(self.message.id, self.message.model))

    @property
    def blocks(self) -> int:
        """How many blocks have begun; a call without a name yet is one of them."""
        return len(self._content) + len(self._open)

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that have ended."""
        return [block for block in self._content if isinstance(block, ToolCall)]

    # --- blocks ---

    def text(self) -> Passage:
        """Begin a passage of text."""
        return self._passage(Text())

    def thinking(self) -> Passage:
        """Begin a passage of thinking."""
        return self._passage(Thinking())

    def call(self, name: str = "", id: str = "") -> CallPassage:  # noqa: A002 - the field's name
        """Begin a call; it starts to show when its name is known."""
        call = CallPassage(self, id)
        self._open.append(call)
        call.add_name(name)
        return call

    def part(self, provider: str, data: object) -> None:
        """Keep a block that only *provider* understands."""
        part = Opaque(provider, data)
        self._events.append(Part(self.next_index(part), part))

    def damage(self) -> None:
        """Note that something was lost: no call that is open now can be complete."""
        for block in self._open:
            if isinstance(block, CallPassage):
                block.is_damaged = True

    def _passage(self, block: Text | Thinking) -> Passage:
        passage = Passage(self, self.next_index(block), block)
        self._open.append(passage)
        start = TextStart if isinstance(block, Text) else ThinkingStart
        self._events.append(start(passage.index))
        return passage

    def next_index(self, block: Content) -> int:
        """Give the next block its number; the answer went on, so calls in doubt are whole."""
        self.begin()
        self._settle(cut=False)
        self._content.append(block)
        return len(self._content) - 1

    def emit(self, event: Event) -> None:
        """Add an event of a block that is open."""
        self._events.append(event)

    def forget(self, block: Passage | CallPassage) -> None:
        """Note that *block* has ended."""
        self._open.remove(block)

    def doubt(self, call: CallPassage) -> None:
        """Keep *call*, which has ended, until it is known whether it was cut."""
        self._open.remove(call)
        self._doubtful.append(call)

    def end_call(self, index: int, call: ToolCall) -> None:
        """Put the finished *call* in its place."""
        self._content[index] = call
        self._events.append(ToolCallEnd(index, call))

    def sign_call(self, index: int, signature: str) -> None:
        """Sign the call at *index*, if it is there: its message is still to come."""
        block = self._content[index] if index >= 0 else None
        if isinstance(block, ToolCall):
            block.signature = signature

    def new_id(self, wanted: str) -> str:
        """Give *wanted*, or an id of our own where that is empty or another call's."""
        while not wanted or wanted in self._given:
            wanted = self._ids()
        self._given.add(wanted)
        return wanted

    def _settle(self, *, cut: bool) -> None:
        doubtful, self._doubtful = self._doubtful, []
        for call in doubtful:
            call.settle(cut=cut)

    # --- the end ---

    def done(self, reason: Literal["stop", "length", "tool_use"], raw_reason: str = "") -> None:
        """End the answer as its model meant it, or at its limit.

        Calls make it end as ``tool_use`` whatever the provider calls that; a call whose arguments
        cannot be read makes it fail.
        """
        if self.ended:
            return
        self.raw_stop_reason = raw_reason or self.raw_stop_reason
        self._close(cut=reason == "length")
        calls = self.calls
        broken = [call.name for call in calls if not call.complete]
        if reason == "length":
            self._end(Done("length", self._final("length")))
        elif broken:
            message = f"the arguments of the call of {broken[0]} cannot be read"
            self.fail(ErrorInfo(message, "malformed", INCOMPLETE_CALL, retryable=True))
        else:
            end: Literal["stop", "tool_use"] = "tool_use" if calls else "stop"
            self._end(Done(end, self._final(end)))

    def fail(self, error: ErrorInfo, raw_reason: str = "") -> None:
        """End the answer in *error*; what was open is closed, and no open call is complete."""
        if self.ended:
            return
        error = structs.replace(error, message=clean(error.message), type=clean(error.type))
        self.raw_stop_reason = raw_reason or self.raw_stop_reason
        self._settle(cut=True)
        for block in [*self._open]:
            block.cut()
        reason: Literal["aborted", "error"] = "aborted" if error.kind == "aborted" else "error"
        message = self._final(reason)
        message.error = error
        self._end(Failed(reason, error, message))

    def _close(self, *, cut: bool) -> None:
        for block in [*self._open]:
            if isinstance(block, CallPassage):
                block.show_name()  # A new block settles what is in doubt: it must not come later.
        for block in [*self._open]:
            block.close()
        self._settle(cut=cut)

    def _final(
        self, reason: Literal["stop", "length", "tool_use", "aborted", "error"]
    ) -> AssistantMessage:
        message = self.message
        message.content = self._content
        message.stop_reason = reason
        message.raw_stop_reason = clean(self.raw_stop_reason)
        message.usage = self.usage
        return message

    def _end(self, event: Done | Failed) -> None:
        self.begin()
        self.ended = True
        self.speaker = self.grown = None  # Passages know us: both would stay until a collection.
        self._events.append(event)
