"""The life of an encoder: events in, bytes of one API's stream out.

An API says by its `_write_…` methods how its wire says each event. All else is the same everywhere:
the answer begins once, has one end, and nothing follows it; a sequence that stops without its end
is one that was cut. `OneByOne` serves the APIs in which one block has to end before another begins.

How an answer ends is decided here for all (`ending`): an incomplete call never ends in anything
that would make a client run it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Final, Literal

from msgspec import structs

from penstock import _json
from penstock.errors import JSONParseError, UsageError
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
from penstock.values import IncrementalJSON

# The arguments of a call: when they are whole, and what of them may leave before that.
#
# Nobody should be able to run a call that is not complete.
#
# Clients run a call when its arguments are JSON, and some take no arguments at all for ``{}``.
# So what leaves is always the beginning of one JSON object, and its last brace waits until the
# call is known to be complete. Arguments that readers of JSON do not read alike are not
# complete: a key that is there twice, a number that is too large (``1e999`` is infinity to some
# and an error to others). Half a surrogate pair leaves as U+FFFD, also where it is an escape.


_HALF: Final = re.compile(
    r"(\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_TAIL: Final = re.compile(
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u(?:[dD][0-9a-fA-F]{0,2})?)?)?\Z"
)
_NO_NUMBER: Final = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*")|NaN|-?Infinity')

MAX_HELD: Final = 1_000
"""How much white space may follow the brace that waits: more of it is inside of something."""


class GuardedArguments:
    """The arguments of one call: pieces in, what may leave out."""

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "odd"] = "before"
        self._held = ""
        self._cut = ""  # an escape that may continue in the next piece

    def add(self, piece: str) -> str:
        """Take one more piece; return what may leave."""
        if self._state == "before":
            piece = piece.lstrip()
            if piece:
                self._state = "inside" if piece[0] == "{" else "odd"
        if self._state != "inside":
            return ""
        if self._cut or "\\" in piece:
            piece, self._cut = _split_escape(self._cut + piece)
            piece = with_whole_pairs(piece)
        return self._all_but_last_brace(self._held + piece)

    def end(self, call: ToolCall) -> str:
        """Return the rest: all of a complete call, otherwise only what shows that it is incomplete.

        Arguments that did not begin like an object (none at all, ``null``, text around it) are
        written as they were understood.
        """
        if self._state == "inside":
            return self._held + self._cut if call.complete else ""
        return _json.encode_wire(call.arguments).decode() if call.complete else "{"

    def _all_but_last_brace(self, text: str) -> str:
        said = text.rstrip()
        if not said.endswith("}") or len(text) - len(said) > MAX_HELD:
            self._held = ""
            return text
        self._held = text[len(said) - 1 :]
        return said[:-1]


class Wholeness:
    """Whether the pieces of one call's arguments are a JSON object by now.

    Each piece is read once, however often one asks.
    """

    def __init__(self) -> None:
        self._reader = IncrementalJSON()
        self._read = 0  # how many pieces were
        self._is_broken = False
        self._is_object: bool | None = None  # once it is complete

    def of(self, pieces: list[str]) -> bool:
        """Read what was added to *pieces*, and return whether all of them are an object."""
        new, self._read = pieces[self._read :], len(pieces)
        if not self._is_broken:
            self._add("".join(new))
        if self._is_broken or not self._reader.complete:
            return False
        if self._is_object is None:
            self._is_object = strict_object("".join(pieces)) is not None
        return self._is_object

    def _add(self, text: str) -> None:
        try:
            self._reader.feed(text)
        except JSONParseError:
            self._is_broken = True


def with_whole_pairs(text: str) -> str:
    """Return the piece of JSON *text* with U+FFFD for each escape of half a surrogate pair."""
    if "\\u" not in text:
        return text
    return _HALF.sub(lambda match: match[1] or "\\ufffd", text)


def object_text(value: object) -> str:
    """Write arguments that came as a value; what has no number in JSON is one that is too large."""
    text = _json.encode(value).decode()
    if _json.is_finite(value):
        return text
    return _NO_NUMBER.sub(lambda match: match[1] or "1e999", text)


def _split_escape(text: str) -> tuple[str, str]:
    """Split off an escape at the end of *text* that is cut, or may be the first half of a pair."""
    tail = _TAIL.search(text)
    start = tail.start() if tail else len(text)
    before = text[:start]
    is_escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return (text, "") if is_escaped else (before, text[start:])


def strict_object(text: str) -> dict[str, object] | None:
    """Read *text* as an object that any reader of JSON accepts; return nothing if it is not one."""
    try:
        value = _json.decode_strict(text)
    except JSONParseError:
        return None
    return value if isinstance(value, dict) else None


# Ids of calls that a client can rely on: none empty, no two the same.


_ANY: Final = re.compile(r"(?s).+")
_MISTRAL: Final = re.compile(r"(?i)[sx]tral")
"""The family by its names: Mistral, Mixtral, Codestral, Devstral, Magistral, Pixtral, Voxtral …"""

_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")
"""What Mistral's tokenizer takes for an id, whichever server runs it after whichever API."""


def is_mistral(model: str) -> bool:
    """Return whether *model* is one of Mistral's family, by its name."""
    return _MISTRAL.search(model) is not None


class IdMaker:
    """Gives each call of one answer or one conversation an id that its API allows.

    *allowed* is what an id may look like, *prefix* begins those that are made here, and *digits*
    is how many follow it at least. *given* are ids that are taken; those that are given join them.
    Of an id of the Responses API (``call_id|item_id``) the first half is the call's.
    """

    def __init__(
        self,
        allowed: re.Pattern[str] = _ANY,
        prefix: str = "call_",
        digits: int = 1,
        given: set[str] | None = None,
    ) -> None:
        self._allowed = allowed
        self._prefix = prefix
        self._digits = digits
        self._given = set() if given is None else given
        self._numbers = count(1)

    def give(self, wanted: str) -> str:
        """Return *wanted* if the API allows it and nobody has it yet, else one of our own."""
        id_ = wanted.partition("|")[0]
        if not self._allowed.fullmatch(id_):
            id_ = re.sub(r"[^A-Za-z0-9_-]", "_", id_)
        while not id_ or id_ in self._given or not self._allowed.fullmatch(id_):
            id_ = f"{self._prefix}{next(self._numbers):0{self._digits}}"
        self._given.add(id_)
        return id_


class SentIds:
    """Gives the calls and the results of a conversation ids that an API allows, each pair its own.

    A call that has the id of an earlier one gets another; of two that are open under one id, the
    first result is the first call's.
    """

    def __init__(
        self, allowed: re.Pattern[str] = _ANY, prefix: str = "call_", digits: int = 1
    ) -> None:
        self._ids = IdMaker(allowed, prefix, digits)
        self._open: dict[str, deque[str]] = {}

    @classmethod
    def for_model(
        cls, model: str, allowed: re.Pattern[str] = _ANY, prefix: str = "call_"
    ) -> SentIds:
        """Return ids for a conversation with *model*, whose family may want a shape of its own.

        *allowed* and *prefix* are the API's.
        """
        if is_mistral(model):
            return cls(_MISTRAL_ID, "call", 5)
        return cls(allowed, prefix)

    def of_call(self, id: str) -> str:  # noqa: A002 - the field's name
        """Return the id under which a call is sent."""
        sent = self._ids.give(id)
        self._open.setdefault(id, deque()).append(sent)
        return sent

    def of_result(self, id: str) -> str:  # noqa: A002 - the field's name
        """Return the id under which the call's result is sent."""
        waiting = self._open.get(id)
        return waiting.popleft() if waiting else self._ids.give(id)


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

        Some were repaired after they had gone, some cannot be written at all. What does not begin
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


class BlockSequencer:
    """Puts the events of blocks that are open side by side into an order of one block at a time.

    The block that opened first continues; what comes for the others waits until it ends. `current`
    is the block whose turn it is.
    """

    def __init__(self) -> None:
        self.current: int | None = None
        self._waiting: dict[int, deque[BlockEvent]] = {}

    def put(self, event: BlockEvent) -> Iterator[BlockEvent]:
        """Take one more event; return those whose turn it is."""
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
