"""Lawful events out of what a provider says, in whatever order it says it.

A decoder tells the transcript what happened: a passage of text or thinking begins, grows and ends,
a call is named, gets arguments and ends, the answer is done or has failed. The transcript numbers
the blocks, keeps the message, and sees to it that every block is closed before the one terminal
event. A decoder holds the passages and calls that it opened under the provider's own keys; what
comes for one that has ended is dropped.

A call ends as complete only when its arguments are a whole JSON object. Text that is not one stays
in doubt until it is known what followed: if the answer went on or ended well, the model meant it
so, and it is repaired; if the limit or the connection cut the answer, it cut the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import Final, Literal

from msgspec import structs

from penstock import _json, values
from penstock.apis.encoder import INCOMPLETE_CALL, Wholeness, strict_object
from penstock.apis.fields import clean
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
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

# The blocks of an answer that still grow: text, thinking, and calls.
#
# A decoder holds them under the provider's own keys and tells them what came; they tell the
# transcript. What comes for one that has ended is dropped.


_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPEATED: Final = re.compile(r"took the last value of ")
"""Repairs of text that says two things: which of them was meant, nobody knows."""


class TextBlock:
    """A passage of text or thinking that grows."""

    __slots__ = (
        "_block",
        "_delta",
        "_held",
        "_parts",
        "_transcript",
        "index",
        "is_open",
        "signature",
    )

    def __init__(self, transcript: Transcript, index: int, block: Text | Thinking) -> None:
        self.index = index
        self.is_open = True
        self.signature = ""
        self._transcript = transcript
        self._block = block
        self._delta: type[TextDelta | ThinkingDelta] = (
            TextDelta if isinstance(block, Text) else ThinkingDelta
        )
        self._parts: list[str] = []
        self._held = ""

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._parts)

    @property
    def last(self) -> str:
        """The text that it grew by last."""
        return self._parts[-1]

    @property
    def is_text(self) -> bool:
        """Whether this is text and no thinking."""
        return self._delta is TextDelta

    def add(self, text: str) -> None:
        """Add *text*; half a surrogate pair waits for the other half."""
        if self._held or not text.isascii():
            text, self._held = joined(self._held + text)
        if self._held or not text:
            self._transcript.muted += 1
        if text and self.is_open:
            self._parts.append(text)
            self._transcript.emit(self._delta(self.index, text))
            self._transcript.speaker = self._transcript.grown = self

    def close(self, signature: str = "") -> None:
        """End the passage; *signature* is what the provider wants back with it."""
        if not self.is_open:
            return
        if self._held:
            self._held = ""
            self.add("\ufffd")
        self.is_open = False
        block = self._block
        block.text = "".join(self._parts)
        block.signature = signature or self.signature
        self._transcript.forget(self)
        end = TextEnd if isinstance(block, Text) else ThinkingEnd
        self._transcript.emit(end(self.index, block.text, block.signature))

    def cut(self) -> None:
        """End the passage where the answer was cut."""
        self.close()


class CallBlock:
    """A call that grows: its name, then its arguments as JSON text."""

    __slots__ = (
        "_held",
        "_id",
        "_is_free",
        "_name",
        "_parts",
        "_transcript",
        "_wholeness",
        "index",
        "is_damaged",
        "is_open",
        "signature",
        "wanted_id",
    )

    def __init__(self, transcript: Transcript, id: str) -> None:  # noqa: A002 - the field's name
        self.index = -1
        self.is_open = True
        self.is_damaged = False
        self.signature = ""
        self._transcript = transcript
        self.wanted_id = id
        self._id = clean(id)
        self._name = ""
        self._parts: list[str] = []
        self._held = ""
        self._is_free = False
        self._wholeness: Wholeness | None = None

    @property
    def arguments(self) -> str:
        """The text of the arguments so far."""
        return "".join(self._parts)

    @property
    def last(self) -> str:
        """The text that the arguments grew by last."""
        return self._parts[-1] if self._parts else ""

    @property
    def is_named(self) -> bool:
        """Whether the call has a name, and so has started."""
        return self.index >= 0

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are a JSON object."""
        if self._wholeness is None:
            self._wholeness = Wholeness()
        return self._wholeness.of(self._parts)

    def sign(self, signature: str) -> None:
        """Take the *signature* that the provider wants back; one may come when the call is over."""
        self.signature = signature
        self._transcript.sign_call(self.index, signature)

    def add_id(self, id: str) -> None:  # noqa: A002 - the field's name
        """Take the id that came late; one that is in use already stays."""
        self.wanted_id = self.wanted_id or id
        if self.index < 0:
            self._id = self._id or clean(id)

    def add_name(self, name: str) -> None:
        """Name the call, which starts it; a call that has a name keeps it."""
        name = clean(name)
        if not name or self.index >= 0 or not self.is_open:
            return
        transcript = self._transcript
        self._name = name
        self._id = transcript.new_id(self._id)
        self.index = transcript.next_index(ToolCall(self._id, name, complete=False))
        transcript.emit(ToolCallStart(self.index, self._id, name))
        if self._parts:
            transcript.emit(ToolCallDelta(self.index, self.arguments))

    def add(self, arguments: str) -> None:
        """Add a piece of the arguments; before the name is known it waits."""
        self._transcript.grown = None
        if self._held or not arguments.isascii():
            arguments, self._held = joined(self._held + arguments)
        if self._held or not arguments or self.index < 0:
            self._transcript.muted += 1
        if arguments and self.is_open:
            self._parts.append(arguments)
            if self.index >= 0:
                self._transcript.emit(ToolCallDelta(self.index, arguments))

    def grow(self, arguments: str) -> None:
        """Add a piece of the arguments out of a frame that says nothing else.

        A frame that is the same but for this piece means the same for another: see `Shape`.
        """
        self.add(arguments)
        self._transcript.grown = self

    def add_free_text(self, text: str) -> None:
        """Add to the text of a call that takes no JSON: its arguments are ``{"input": text}``."""
        if not self._is_free:
            self._is_free = True
            self.add('{"input": "')
        text, self._held = joined(self._held + text)
        held, self._held = self._held, ""
        self.add(_json.encode(text)[1:-1].decode())
        self._held = held

    def close_free_text(self, text: str = "") -> None:
        """End the text of such a call; *text* is all of it, where the provider repeats it."""
        self.close(_json.encode({"input": text}).decode() if text and not self._is_free else "")

    def close(self, arguments: str = "") -> None:
        """End the call; *arguments*, where the provider repeats them whole, have the last word."""
        if not self.is_open:
            return
        self.show_name()
        if self._is_free:
            self._held = ""
            self.add('"}')
        said = self.arguments
        if arguments and arguments != said:
            if arguments.startswith(said):
                self.add(arguments[len(said) :])
            else:
                self._contradict(arguments)
                return
        value = None if self.is_damaged else strict_object(self.arguments)
        self.is_open = False
        if value is None:
            self._transcript.doubt(self)
        else:
            self._transcript.forget(self)
            self._end(ToolCall(self._id, self._name, value))

    def settle(self, *, cut: bool) -> None:
        """End a call that was in doubt: repaired, or as far as it had come."""
        self._end(self._understood(self.arguments, cut=cut))

    def _understood(self, text: str, *, cut: bool) -> ToolCall:
        """Read *text* as well as it can be; where an end had to be made up, it was cut."""
        if not cut and not self.is_damaged:
            call = ToolCall.from_text(self._id, self._name, text)
            if not _json.is_finite(call.arguments):
                call.complete = False
                call.repairs.append("a number is too large for JSON")
            if any(map(_REPEATED.match, call.repairs)):
                call.complete = False
            if not values.rjson.closes_text(call.repairs):
                return call
        return ToolCall.from_text(self._id, self._name, text, complete=False)

    def cut(self) -> None:
        """End the call where the answer was cut: it is not complete."""
        if self._name or self._parts:
            self.show_name()
        self.is_open = False
        self._transcript.forget(self)
        if self._name:
            self._end(ToolCall.from_text(self._id, self._name, self.arguments, complete=False))

    def _contradict(self, arguments: str) -> None:
        self.is_open = False
        self._transcript.forget(self)
        call = self._understood(arguments, cut=False)
        call.repairs.append("the final arguments differ from what was streamed")
        self._end(call)

    def show_name(self) -> None:
        """Start a call that never got a name, so that it can be seen; nobody will run it."""
        if self.index < 0:
            self.add_name(UNKNOWN)
            self.is_damaged = True

    def _end(self, call: ToolCall) -> None:
        call.signature = self.signature
        self._transcript.end_call(self.index, call)


def joined(text: str) -> tuple[str, str]:
    """Join the halves of surrogate pairs in *text*; return it, and a half at its end that may wait.

    A half that has no other is U+FFFD: no encoding could carry it on.
    """
    if _SURROGATE.search(text) is None:
        return text, ""
    held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    whole = text[: len(text) - len(held)].encode("utf-16-le", "surrogatepass")
    return whole.decode("utf-16-le", "replace"), held


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
        self._open: list[TextBlock | CallBlock] = []
        self.speaker: TextBlock | None = None  # the passage that grew last
        self.grown: TextBlock | CallBlock | None = None  # what grew last, and by a piece alone
        self.muted = 0  # pieces since the last `take` that made no event, or not as they were
        self._doubtful: list[CallBlock] = []

    def take(self) -> list[Event]:
        """Take the events since the last time."""
        events, self._events, self.muted = self._events, [], 0
        return events

    @property
    def mark(self) -> tuple[int, int]:
        """The moment: how many events nobody has taken, and how many pieces made none."""
        return len(self._events), self.muted

    def spoke_since(self, mark: tuple[int, int] = (0, 0)) -> TextBlock | CallBlock | None:
        """Return the passage whose growth is all that was said since *mark*, or the last `take`.

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

    def text(self) -> TextBlock:
        """Begin a passage of text."""
        return self._passage(Text())

    def thinking(self) -> TextBlock:
        """Begin a passage of thinking."""
        return self._passage(Thinking())

    def call(self, name: str = "", id: str = "") -> CallBlock:  # noqa: A002 - the field's name
        """Begin a call; it starts to show when its name is known."""
        call = CallBlock(self, id)
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
            if isinstance(block, CallBlock):
                block.is_damaged = True

    def _passage(self, block: Text | Thinking) -> TextBlock:
        passage = TextBlock(self, self.next_index(block), block)
        self._open.append(passage)
        start = TextStart if isinstance(block, Text) else ThinkingStart
        self._events.append(start(passage.index))
        return passage

    def next_index(self, block: Content) -> int:
        """Return the next block its number; the answer went on, so calls in doubt are whole."""
        self.begin()
        self._settle(cut=False)
        self._content.append(block)
        return len(self._content) - 1

    def emit(self, event: Event) -> None:
        """Add an event of a block that is open."""
        self._events.append(event)

    def forget(self, block: TextBlock | CallBlock) -> None:
        """Note that *block* has ended."""
        self._open.remove(block)

    def doubt(self, call: CallBlock) -> None:
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
        """Return *wanted*, or an id of our own where that is empty or another call's."""
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
            if isinstance(block, CallBlock):
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


# Text and thinking of a provider that marks no blocks: one passage at a time.
#
# What comes is more of the open passage if it is of the same kind; else that one ends and
# another begins.


class ImplicitBlock:
    """The passage that is open, if one is."""

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._passage: TextBlock | None = None

    def say(self, text: object) -> None:
        """Add *text* to the answer; what is not a text, or empty, says nothing."""
        if isinstance(text, str) and text:
            self._open(is_text=True).add(text)

    def think(self, text: object) -> None:
        """Add *text* to the reasoning; what is not a text, or empty, says nothing."""
        if isinstance(text, str) and text:
            self._open(is_text=False).add(text)

    def sign(self, signature: object, *, is_text: bool) -> None:
        """Sign the open passage, if it is of this kind; the last signature counts."""
        passage = self._passage
        if isinstance(signature, str) and signature and passage and passage.is_text == is_text:
            passage.signature = signature

    def close(self) -> None:
        """End the open passage."""
        if self._passage is not None:
            self._passage.close()
            self._passage = None

    @property
    def is_open(self) -> bool:
        """Whether a passage is open."""
        return self._passage is not None

    def _open(self, *, is_text: bool) -> TextBlock:
        passage = self._passage
        if passage is None or passage.is_text != is_text:
            self.close()
            make = self._transcript.text if is_text else self._transcript.thinking
            passage = self._passage = make()
        return passage
