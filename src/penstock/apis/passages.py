"""The blocks of an answer that still grow: text, thinking, and calls.

A decoder holds them under the provider's own keys and tells them what came; they tell the
transcript. What comes for one that has ended is dropped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock import _json, values
from penstock.apis.arguments import Wholeness, strict_object
from penstock.apis.reading import clean
from penstock.events import (
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallStart,
)
from penstock.messages import UNKNOWN, Text, Thinking, ToolCall

if TYPE_CHECKING:
    from penstock.apis.transcript import Transcript

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_REPEATED: Final = re.compile(r"took the last value of ")
"""Repairs of text that says two things: which of them was meant, nobody knows."""


class Passage:
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


class CallPassage:
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
        """End a call that was in doubt: mended, or as far as it had come."""
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
    """Join the halves of surrogate pairs in *text*; give it, and a half at its end that may wait.

    A half that has no other is U+FFFD: no encoding could carry it on.
    """
    if _SURROGATE.search(text) is None:
        return text, ""
    held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
    whole = text[: len(text) - len(held)].encode("utf-16-le", "surrogatepass")
    return whole.decode("utf-16-le", "replace"), held
