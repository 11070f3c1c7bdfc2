"""Encoders: events in, bytes of one API's stream out.

An API implements `_write_start`, `_write` and `_write_end`. The life cycle is the same for all: the
response starts once, has one end, and nothing follows it; a sequence that stops without a terminal
event was truncated. `BlockSequencer` is for APIs in which a block must end before the next starts.

How a response ends is decided here for all APIs (`find_ending`): an incomplete call never ends in a
stop reason that would make a client run it.
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
from penstock.apis.errors import truncated_error
from penstock.errors import JSONParseError, UsageError
from penstock.events import (
    BLOCK_ENDS,
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
from penstock.messages import INCOMPLETE_CALL, AssistantMessage, ErrorInfo, StopReason, ToolCall
from penstock.values import IncrementalJSON

# --- arguments ---
#
# Clients run a call as soon as its arguments are valid JSON, and some take missing arguments for
# ``{}``. So only the beginning of one JSON object is sent, and its last brace is held until the
# call is known to be complete. Arguments that parsers interpret differently are incomplete: a
# repeated key, or a number such as ``1e999``, which is infinity to some parsers and an error to
# others. Half of a surrogate pair is sent as U+FFFD, also if it is an escape.

_LONE_ESCAPE: Final = re.compile(
    r"(\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
)
_TAIL: Final = re.compile(
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2})?(?:\\(?:u(?:[dD][0-9a-fA-F]{0,2})?)?)?\Z"
)
# NaN and infinity, which `_json.encode` writes outside of strings.
_NO_NUMBER: Final = re.compile(r'("[^"\\]*+(?:\\.[^"\\]*+)*")|NaN|-?Infinity')

MAX_HELD: Final = 1_000
"""How much white space may follow the held brace: with more, it is assumed to be in a string."""


class GuardedArguments:
    """The arguments of one call: pieces in, what may be sent out."""

    def __init__(self) -> None:
        self._state: Literal["before", "inside", "odd"] = "before"
        self._held = ""
        self._cut = ""  # an escape that may continue in the next piece

    def add(self, piece: str) -> str:
        """Add a piece; return what may be sent."""
        if self._state == "inside" and not self._held and not self._cut:  # nearly all pieces
            if "\\" not in piece and "}" not in piece:
                return piece
        elif self._state == "before":
            piece = piece.lstrip()
            if piece:
                self._state = "inside" if piece[0] == "{" else "odd"
        if self._state != "inside":
            return ""
        if self._cut or "\\" in piece:
            piece, self._cut = _split_escape(self._cut + piece)
            piece = replace_lone_escapes(piece)
        return self._all_but_last_brace(self._held + piece)

    def end(self, call: ToolCall) -> str:
        """Return the rest: all of a complete call, otherwise just enough to show it is incomplete.

        Arguments that did not start like an object (empty, ``null``, text around an object) are
        written as they were parsed.
        """
        if self._state == "inside":
            return self._held + self._cut if call.complete else ""
        return _json.encode_wire(call.arguments).decode() if call.complete else "{"

    def _all_but_last_brace(self, text: str) -> str:
        stripped = text.rstrip()
        if not stripped.endswith("}") or len(text) - len(stripped) > MAX_HELD:
            self._held = ""
            return text
        self._held = text[len(stripped) - 1 :]
        return stripped[:-1]


class ObjectCheck:
    """Tracks whether the pieces of a call's arguments form a JSON object; reads each piece once."""

    def __init__(self) -> None:
        self._reader = IncrementalJSON()
        self._read = 0  # how many pieces
        self._is_broken = False
        self._is_object: bool | None = None  # once it is complete

    def is_object(self, pieces: list[str]) -> bool:
        """Read what was added to *pieces*; return whether all of them form an object."""
        new, self._read = pieces[self._read :], len(pieces)
        if not self._is_broken:
            try:
                self._reader.feed("".join(new))
            except JSONParseError:
                self._is_broken = True
        if self._is_broken or not self._reader.complete:
            return False
        if self._is_object is None:
            self._is_object = parse_object("".join(pieces)) is not None
        return self._is_object


def replace_lone_escapes(text: str) -> str:
    """Return the JSON *text* with U+FFFD for each escape of half of a surrogate pair."""
    if "\\u" not in text:
        return text
    return _LONE_ESCAPE.sub(lambda match: match[1] or "\\ufffd", text)


def encode_arguments(value: object) -> str:
    """Return arguments that arrived as a value as JSON text; NaN and infinity become ``1e999``."""
    text = _json.encode(value).decode()
    if _json.is_finite(value):
        return text
    return _NO_NUMBER.sub(lambda match: match[1] or "1e999", text)


def _split_escape(text: str) -> tuple[str, str]:
    """Split off an escape at the end of *text* that is cut or may be the first half of a pair."""
    tail = _TAIL.search(text)
    start = tail.start() if tail else len(text)
    before = text[:start]
    is_escaped = (len(before) - len(before.rstrip("\\"))) % 2 == 1
    return (text, "") if is_escaped else (before, text[start:])


def parse_object(text: str) -> dict[str, object] | None:
    """Parse *text* as an object that every JSON parser accepts; return None if it is not one."""
    try:
        value = _json.decode_strict(text)
    except JSONParseError:
        return None
    return value if isinstance(value, dict) else None


# --- ids ---
#
# Ids that a client can rely on: none is empty, and no two are the same.

_ANY: Final = re.compile(r"(?s).+")
# Names of the family: Mistral, Mixtral, Codestral, Devstral, Magistral, Pixtral, Voxtral, …
_MISTRAL: Final = re.compile(r"(?i)[sx]tral")

# The only ids that Mistral's tokenizer accepts, on any server and with any API.
_MISTRAL_ID: Final = re.compile(r"[A-Za-z0-9]{9}")


def is_mistral(model: str) -> bool:
    """Return whether the name *model* is of the Mistral family."""
    return _MISTRAL.search(model) is not None


class IdMaker:
    """Makes ids of calls that an API allows, unique within one response or one conversation.

    *allowed* is the pattern of valid ids. New ids have *prefix* and at least *digits* digits.
    *taken* are ids in use; `make` adds to them. Of an id of the Responses API
    (``call_id|item_id``) the first half is used.
    """

    def __init__(
        self,
        allowed: re.Pattern[str] = _ANY,
        prefix: str = "call_",
        digits: int = 1,
        taken: set[str] | None = None,
    ) -> None:
        self._allowed = allowed
        self._prefix = prefix
        self._digits = digits
        self._taken = set() if taken is None else taken
        self._numbers = count(1)

    def make(self, wanted: str) -> str:
        """Return *wanted* if the API allows it and it is not in use, otherwise a new id."""
        id_ = wanted.partition("|")[0]  # ``call_id|item_id`` of the Responses API
        if not self._allowed.fullmatch(id_):
            id_ = re.sub(r"[^A-Za-z0-9_-]", "_", id_)
        while not id_ or id_ in self._taken or not self._allowed.fullmatch(id_):
            id_ = f"{self._prefix}{next(self._numbers):0{self._digits}}"
        self._taken.add(id_)
        return id_


class ConversationIds:
    """Makes the ids of calls and results of a conversation, each pair its own.

    A call with the id of an earlier call gets another one. If two calls with one id are open, the
    first result belongs to the first.
    """

    def __init__(
        self, allowed: re.Pattern[str] = _ANY, prefix: str = "call_", digits: int = 1
    ) -> None:
        self._ids = IdMaker(allowed, prefix, digits)
        self._open: dict[str, deque[str]] = {}

    @classmethod
    def for_model(
        cls, model: str, allowed: re.Pattern[str] = _ANY, prefix: str = "call_"
    ) -> ConversationIds:
        """Return ids for a conversation with *model*; *allowed* and *prefix* are the API's.

        Mistral's models accept only their own form of ids.
        """
        if is_mistral(model):
            return cls(_MISTRAL_ID, "call", 5)
        return cls(allowed, prefix)

    def call_id(self, id: str) -> str:  # noqa: A002 - the field's name
        """Return the id to send for a call."""
        sent = self._ids.make(id)
        self._open.setdefault(id, deque()).append(sent)
        return sent

    def result_id(self, id: str) -> str:  # noqa: A002 - the field's name
        """Return the id to send for a result."""
        waiting = self._open.get(id)
        return waiting.popleft() if waiting else self._ids.make(id)


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
"""How a response ends if not in an error."""

_ENDS: Final = (*BLOCK_ENDS, Part)


class StreamEncoder(ABC):
    """Events of one response in, bytes out; call `finish` after the last event."""

    def __init__(self) -> None:
        self._begun = False
        self._ended = False
        self._finished = False
        self._calls: list[bool] = []  # whether each is complete
        self._arguments_text: dict[int, list[str]] = {}  # of open calls, by index

    def encode(self, event: Event) -> bytes:
        """Return the bytes of *event*; nothing is written after the terminal event."""
        if self._finished:
            raise UsageError("the encoder is finished: use a new one for each response")
        if self._ended:
            return b""
        match event:
            case MessageStart():
                return self._begin(event)
            case Done() | Failed():
                return self._end(event)
            case _:
                if isinstance(event, ToolCallEnd):
                    event = self._check_arguments(event)
                    self._calls.append(event.call.complete)
                elif isinstance(event, ToolCallDelta):
                    self._note_arguments(event)
                head = b"" if self._begun else self._begin(MessageStart())
                return head + self._write(event)

    def _note_arguments(self, event: ToolCallDelta) -> None:
        """Keep the arguments of an open call, for the check at its end."""
        pieces = self._arguments_text.get(event.index)
        if pieces is None:
            self._arguments_text[event.index] = [event.arguments]
        else:
            pieces.append(event.arguments)

    def finish(self) -> bytes:
        """End the stream; without a terminal event it ends as truncated."""
        data = b""
        if not self._ended:
            data = self.encode(Failed("error", truncated_error(), AssistantMessage()))
        self._finished = True
        return data

    def keep_alive(self) -> bytes:
        """Return bytes that keep the connection open and that clients ignore."""
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
        """Return how the response ends.

        An incomplete call ends in ``length`` if the limit cut it, otherwise in an error.
        """
        error = event.error if isinstance(event, Failed) else None
        return _ending(event.reason, error, self._calls)

    streams_arguments = True
    """Whether arguments are sent as they arrive; if not, the parsed arguments are sent."""

    def _check_arguments(self, event: ToolCallEnd) -> ToolCallEnd:
        """Return *event*; a call whose arguments a client could not parse becomes incomplete."""
        sent = "".join(self._arguments_text.pop(event.index, ())).lstrip()
        if not event.call.complete or self._is_sound(event.call, sent):
            return event
        return structs.replace(event, call=structs.replace(event.call, complete=False))

    def _is_sound(self, call: ToolCall, sent: str) -> bool:
        """Return whether every client parses the arguments in the same way.

        Arguments may have been repaired after they were sent, or contain NaN. Arguments that do
        not start like an object have not been sent: see `GuardedArguments`.
        """
        if not _json.is_finite(call.arguments):
            return False
        if not sent.startswith("{") or not self.streams_arguments:
            return True
        return parse_object(replace_lone_escapes(sent)) is not None

    @abstractmethod
    def _write_start(self, event: MessageStart) -> bytes:
        """Return the start of the response."""

    @abstractmethod
    def _write(self, event: BlockEvent) -> bytes:
        """Return the bytes of an event of a block."""

    @abstractmethod
    def _write_end(self, event: Done | Failed, ending: Ending | ErrorInfo) -> bytes:
        """Return the end of the response, which is *ending*."""


def find_ending(message: AssistantMessage) -> Ending | ErrorInfo:
    """Return how a whole *message* ends, by the rules of the stream."""
    calls = [call.complete for call in with_writable_calls(message).tool_calls]
    return _ending(message.stop_reason, message.error, calls)


def find_failure(message: AssistantMessage) -> ErrorInfo | None:
    """Return the error of a *message* that cannot be written as a whole response, or None.

    A message that ended normally with an incomplete call can be written if it has other content:
    the text of a model is not lost because of a call that cannot be parsed.
    """
    ending = find_ending(message)
    if not isinstance(ending, ErrorInfo):
        return None
    has_more = bool(message.text.strip()) or any(
        c.complete for c in with_writable_calls(message).tool_calls
    )
    return None if ending.type == INCOMPLETE_CALL and has_more else ending


def find_whole_ending(message: AssistantMessage) -> tuple[Ending, ErrorInfo | None]:
    """Return how a whole response ends and its error; raise `UsageError` for a failed one.

    With an incomplete call it ends in ``length``, the stop reason that every API has for an
    incomplete response.
    """
    failure, ending = find_failure(message), find_ending(message)
    if failure is not None:
        raise UsageError(f"a failed response has no body: {failure.message}; use `write_error`")
    return ("length", ending) if isinstance(ending, ErrorInfo) else (ending, None)


def with_writable_calls(message: AssistantMessage) -> AssistantMessage:
    """Return *message* with calls marked incomplete whose arguments JSON cannot express (NaN)."""
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
        return error or ErrorInfo("the response has no stop reason", "truncated", retryable=True)
    if reason == "length":
        return reason
    if not all(calls):
        return ErrorInfo("the response contains an incomplete call", "malformed", INCOMPLETE_CALL)
    return "tool_use" if calls else "stop"


class BlockSequencer:
    """Orders the events of blocks that are open at the same time into one block at a time.

    The block that started first continues; events of the others wait until it ends. `current` is
    the index of the block whose events pass.
    """

    def __init__(self) -> None:
        self.current: int | None = None
        self._waiting: dict[int, deque[BlockEvent]] = {}

    def put(self, event: BlockEvent) -> Iterator[BlockEvent]:
        """Add an event; yield those that may be written now."""
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
