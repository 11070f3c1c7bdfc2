"""Valid events from a provider's stream, in whatever order the provider sends it.

A decoder opens blocks on the transcript: text, reasoning and calls grow and end, and the response
is done or has failed. The transcript numbers the blocks, keeps the message, and ends every block
before the one terminal event. A decoder keeps the blocks that it opened under the provider's own
keys; data for a block that has ended is dropped and counted.

Text, calls or lists of them in a form that the API does not have (a number as text) are lost
content: the response fails as ``malformed`` (`Transcript.lose`). What a client does not act on,
such as reasoning, is only counted (`Transcript.skipped`).

A call is complete only if its arguments are a whole JSON object. Other arguments stay in doubt
until it is known what follows: if the response continues or ends normally, nothing is missing, and
they are repaired; if the limit or the connection cut the response, it cut the call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal

from msgspec import structs

from penstock import _json, values
from penstock.apis.encoder import ObjectCheck, encode_arguments, parse_object
from penstock.apis.fields import clean, has_content, short_repr
from penstock.errors import PenstockError
from penstock.events import (
    DELTAS,
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
    INCOMPLETE_CALL,
    UNKNOWN,
    AssistantMessage,
    CallIds,
    Content,
    ErrorInfo,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
)

# Repairs of arguments with a repeated key: it is not known which value was meant.
_REPEATED: Final = re.compile(r"took the last value of ")


class LostContentError(PenstockError):
    """Content of the response is in a form that cannot be read: the response has failed."""


class TextBlock:
    """An open block of text or reasoning."""

    __slots__ = (
        "_block", "_delta", "_held", "_parts", "_transcript", "index", "is_open", "signature",
    )  # fmt: skip

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
    def pieces(self) -> int:
        """How many pieces of text were added."""
        return len(self._parts)

    def text_from(self, piece: int) -> str:
        """Return the text from number *piece* on."""
        return "".join(self._parts[piece:])

    @property
    def last(self) -> str:
        """The piece of text that was added last."""
        return self._parts[-1]

    @property
    def is_text(self) -> bool:
        """Whether this is text, not reasoning."""
        return self._delta is TextDelta

    def add(self, text: str) -> None:
        """Add *text*; half of a surrogate pair at its end waits for the other half."""
        if self._held or not text.isascii():
            text, self._held = split_half(self._held + text)
        if self._held or not text:
            self._transcript.muted += 1
        if text and self.is_open:
            self._parts.append(text)
            self._transcript.emit(self._delta(self.index, text))
            self._transcript.last_text = self._transcript.grown = self
        elif text:
            self._transcript.skipped += 1

    def close(self, signature: str = "") -> None:
        """End the block; *signature* must be sent back with it."""
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
        """End the block where the response was cut."""
        self.close()


class CallBlock:
    """An open call: its name, then its arguments as JSON text."""

    __slots__ = (
        "_check", "_held", "_id", "_is_free", "_name", "_parts", "_transcript", "index",
        "is_damaged", "is_open", "signature", "wanted_id",
    )  # fmt: skip

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
        self._check: ObjectCheck | None = None

    @property
    def arguments(self) -> str:
        """The text of the arguments so far."""
        return "".join(self._parts)

    @property
    def last(self) -> str:
        """The piece of the arguments that was added last."""
        return self._parts[-1] if self._parts else ""

    @property
    def is_named(self) -> bool:
        """Whether the call has a name, and so has started."""
        return self.index >= 0

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are a JSON object."""
        if self._check is None:
            self._check = ObjectCheck()
        return self._check.is_object(self._parts)

    def sign(self, signature: str) -> None:
        """Set the *signature* that must be sent back; it may arrive after the end of the call."""
        self.signature = signature
        self._transcript.sign_call(self.index, signature)

    def add_id(self, id: str) -> None:  # noqa: A002 - the field's name
        """Set an id that arrived late; an id that was already emitted stays."""
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
        """Add a piece of the arguments; without a name yet, it is held."""
        self._transcript.grown = None
        if self._held or not arguments.isascii():
            arguments, self._held = split_half(self._held + arguments)
        if self._held or not arguments or self.index < 0:
            self._transcript.muted += 1
        if arguments and self.is_open:
            self._parts.append(arguments)
            if self.index >= 0:
                self._transcript.emit(ToolCallDelta(self.index, arguments))

    def add_value(self, arguments: object) -> None:
        """Add arguments as text or as an object; with any other value, the call is damaged."""
        if isinstance(arguments, str):
            self.add(arguments)
        elif isinstance(arguments, dict):
            self.add(encode_arguments(arguments))
        elif has_content(arguments):
            self.is_damaged = True

    def grow(self, arguments: str) -> None:
        """Add a piece of the arguments from a frame that contains nothing else.

        A later frame that differs only in this piece can be read by its template: see
        `FrameTemplate`.
        """
        self.add(arguments)
        self._transcript.grown = self

    def add_free_text(self, text: str) -> None:
        """Add to the text of a call of a free-text tool: its arguments are ``{"input": text}``."""
        if not self._is_free:
            self._is_free = True
            self.add('{"input": "')
        text, self._held = split_half(self._held + text)
        held, self._held = self._held, ""
        self.add(_json.encode(text)[1:-1].decode())
        self._held = held

    def close(self, arguments: str = "") -> None:
        """End the call; *arguments*, if the provider repeats them whole, are authoritative."""
        if not self.is_open:
            return
        self.show_name()
        if self._is_free:
            self._held = ""
            self.add('"}')
        streamed = self.arguments
        if arguments and arguments != streamed:
            if arguments.startswith(streamed):
                self.add(arguments[len(streamed) :])
            else:
                self._contradict(arguments)
                return
        value = None if self.is_damaged else parse_object(self.arguments)
        self.is_open = False
        if value is None:
            self._transcript.doubt(self)
        else:
            self._transcript.forget(self)
            self._end(ToolCall(self._id, self._name, value))

    def settle(self, *, cut: bool) -> None:
        """End a call that was in doubt: repaired, or as far as it arrived."""
        self._end(self._parse(self.arguments, cut=cut))

    def _parse(self, text: str, *, cut: bool) -> ToolCall:
        """Parse *text*, repaired if need be; if the repair had to add an end, the call was cut."""
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
        """End the call where the response was cut: it is incomplete."""
        if self._name or self._parts:
            self.show_name()
        self.is_open = False
        self._transcript.forget(self)
        if self._name:
            self._end(ToolCall.from_text(self._id, self._name, self.arguments, complete=False))

    def _contradict(self, arguments: str) -> None:
        self.is_open = False
        self._transcript.forget(self)
        call = self._parse(arguments, cut=False)
        call.repairs.append("the final arguments differ from what was streamed")
        self._end(call)

    def show_name(self) -> None:
        """Start a call that never got a name, so that it is visible; it cannot be run."""
        if self.index < 0:
            self.add_name(UNKNOWN)
            self.is_damaged = True

    def _end(self, call: ToolCall) -> None:
        call.signature = self.signature
        self._transcript.end_call(self.index, call)


def split_half(text: str) -> tuple[str, str]:
    """Split off the first half of a surrogate pair at the end of *text*, and join all others.

    Other lone halves become U+FFFD: no encoding can represent them.
    """
    held = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
    return _json.join_surrogates(text[: len(text) - len(held)], lone="replace"), held


class Transcript:
    """The events of one response, as they become certain.

    *ids* makes an id for a call that has none, or the id of another call.
    """

    def __init__(self, ids: Callable[[], str] | None = None) -> None:
        self.usage = Usage()
        self.raw_stop_reason = ""
        self.ended = False
        self._ids = ids or CallIds()
        self._given: set[str] = set()
        self._events: list[Event] = []
        self.message = AssistantMessage()
        self._begun = False
        self._content: list[Content] = []
        self._open: list[TextBlock | CallBlock] = []
        self.last_text: TextBlock | None = None  # the text block that grew last
        self.grown: TextBlock | CallBlock | None = None  # the block that got the last piece
        self.muted = 0  # pieces since the last `take` that caused no event, or a changed one
        self.skipped = 0
        """How many frames, lines of frames, or fields could not be read."""
        self._doubtful: list[CallBlock] = []

    def take(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._events, self.muted = self._events, [], 0
        return events

    @property
    def mark(self) -> tuple[int, int]:
        """The number of events not taken yet, and of pieces that caused none."""
        return len(self._events), self.muted

    def grown_since(self, mark: tuple[int, int] = (0, 0)) -> TextBlock | CallBlock | None:
        """Return the block if one delta for it is all that happened since *mark* or `take`.

        A piece that caused no event counts as well: arguments of a call without a name yet, half
        of a surrogate pair.
        """
        pending, muted = mark
        if (
            len(self._events) == pending + 1
            and self.muted == muted
            and type(self._events[-1]) in DELTAS
        ):
            return self.grown
        return None

    def begin(self, id: str = "", model: str = "") -> None:  # noqa: A002 - the field's name
        """Start the response, once; a block starts it too, without id and model."""
        if not self._begun:
            self._begun = True
            self.message.id, self.message.model = clean(id), clean(model)
            self._events.append(MessageStart(self.message.id, self.message.model))

    @property
    def blocks(self) -> int:
        """How many blocks have started; a call without a name yet is one of them."""
        return len(self._content) + len(self._open)

    @property
    def calls(self) -> list[ToolCall]:
        """The calls that have ended."""
        return [block for block in self._content if isinstance(block, ToolCall)]

    # --- blocks ---

    def text(self) -> TextBlock:
        """Start a text block."""
        return self._start_text(Text())

    def thinking(self) -> TextBlock:
        """Start a reasoning block."""
        return self._start_text(Thinking())

    def call(self, name: str = "", id: str = "") -> CallBlock:  # noqa: A002 - the field's name
        """Start a call; its start event is emitted when its name is known."""
        call = CallBlock(self, id)
        self._open.append(call)
        call.add_name(name)
        return call

    def part(self, provider: str, data: object) -> None:
        """Add a block that only *provider* understands."""
        part = Opaque(provider, data)
        self._events.append(Part(self.next_index(part), part))

    def read_objects(self, data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
        """Return the objects of the list at *key*, or the one object that is there instead."""
        value = data.get(key)
        found: list[Mapping[str, Any]] = []
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping):
                found.append(item)
            else:
                self.lose(key, item)
        return found

    def read_object(self, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """Return the object at *key*, or an empty one."""
        value = data.get(key)
        if isinstance(value, Mapping):
            return value
        self.lose(key, value)
        return {}

    def lose(self, field: str, value: object) -> None:
        """Raise `LostContentError` if *value*, that of *field*, has content that cannot be read."""
        if has_content(value):
            message = f"the field `{field}` of the response is damaged: {short_repr(value)}"
            raise LostContentError(message)

    def damage(self) -> None:
        """Note that data was lost: no call that is open now can be complete."""
        for block in self._open:
            if isinstance(block, CallBlock):
                block.is_damaged = True

    def _start_text(self, content: Text | Thinking) -> TextBlock:
        block = TextBlock(self, self.next_index(content), content)
        self._open.append(block)
        start = TextStart if isinstance(content, Text) else ThinkingStart
        self._events.append(start(block.index))
        return block

    def next_index(self, block: Content) -> int:
        """Return the index of a new block; the response continues, so calls in doubt are whole."""
        self.begin()
        self._settle(cut=False)
        self._content.append(block)
        return len(self._content) - 1

    def emit(self, event: Event) -> None:
        """Add an event of an open block."""
        self._events.append(event)

    def forget(self, block: TextBlock | CallBlock) -> None:
        """Note that *block* has ended."""
        self._open.remove(block)

    def doubt(self, call: CallBlock) -> None:
        """Keep *call*, which has ended, until it is known whether it was cut."""
        self._open.remove(call)
        self._doubtful.append(call)

    def end_call(self, index: int, call: ToolCall) -> None:
        """Put the finished *call* into the message."""
        self._content[index] = call
        self._events.append(ToolCallEnd(index, call))

    def sign_call(self, index: int, signature: str) -> None:
        """Set the signature of the call at *index*, which is part of the final message."""
        block = self._content[index] if index >= 0 else None
        if isinstance(block, ToolCall):
            block.signature = signature

    def new_id(self, wanted: str) -> str:
        """Return *wanted*, or a new id if that is empty or in use."""
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
        """End the response normally or at its limit.

        With calls it ends in ``tool_use``, whatever the provider calls it. A call whose arguments
        cannot be parsed makes it fail.
        """
        if self.ended:
            return
        self.raw_stop_reason = raw_reason or self.raw_stop_reason
        self._close(cut=reason == "length")
        calls = self.calls
        broken = [call.name for call in calls if not call.complete]
        if reason == "length":  # An incomplete call at the limit is expected, not an error.
            self._end(Done("length", self._final("length")))
        elif broken:
            message = f"the arguments of the call of {broken[0]} cannot be parsed"
            self.fail(ErrorInfo(message, "malformed", INCOMPLETE_CALL, retryable=True))
        else:
            end: Literal["stop", "tool_use"] = "tool_use" if calls else "stop"
            self._end(Done(end, self._final(end)))

    def fail(self, error: ErrorInfo, raw_reason: str = "") -> None:
        """End the response in *error*; open blocks end, and open calls are incomplete."""
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
                block.show_name()  # This may start a block, which settles calls in doubt.
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
        self.last_text = self.grown = None  # Break the reference cycles with the blocks.
        self._events.append(event)


class ImplicitBlock:
    """Text and reasoning of a provider that marks no blocks: one open block at a time.

    Text of the other kind ends the open block and starts a new one.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._transcript = transcript
        self._block: TextBlock | None = None

    def add_text(self, text: object, field: str = "content") -> None:
        """Add *text*, the value of *field*, to the response."""
        if not isinstance(text, str):
            self._transcript.lose(field, text)
        elif text:
            self._open(is_text=True).add(text)

    def add_reasoning(self, text: object) -> None:
        """Add *text* to the reasoning; other values are flags, or are counted."""
        if isinstance(text, str) and text:
            self._open(is_text=False).add(text)
        elif has_content(text) and text is not True:
            self._transcript.skipped += 1

    def sign(self, signature: object, *, is_text: bool) -> None:
        """Set the signature of the open block, if it is of this kind; the last one counts."""
        block = self._block
        if isinstance(signature, str) and signature and block and block.is_text == is_text:
            block.signature = signature

    def close(self) -> None:
        """End the open block."""
        if self._block is not None:
            self._block.close()
            self._block = None

    @property
    def is_open(self) -> bool:
        """Whether a block is open."""
        return self._block is not None

    def _open(self, *, is_text: bool) -> TextBlock:
        block = self._block
        if block is None or block.is_text != is_text:
            self.close()
            make = self._transcript.text if is_text else self._transcript.thinking
            block = self._block = make()
        return block
