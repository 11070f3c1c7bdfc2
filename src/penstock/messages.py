"""A model's response: the message, its blocks, its usage and its error.

These are plain mutable values that can be written as JSON. `MessageBuilder` fills them from events;
the message of a stream that has not ended has no `stop_reason`, and an open call in it has
``complete=False``.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from msgspec import Struct, field

from penstock import values
from penstock.errors import JSONParseError, UsageError

StopReason = Literal["stop", "length", "tool_use", "error", "aborted"]
"""Why a message ended, in one vocabulary for all providers."""

ErrorKind = Literal[
    "provider", "transport", "truncated", "malformed", "refusal", "filter", "aborted"
]
"""What failed. `refusal` and `filter` are decisions of the provider; the others are failures."""


UNKNOWN: Final = "unknown"
"""The name of a call without one: it is emitted, never complete, and cannot be run."""


def _name(value: object) -> str:
    return type(value).__name__


class Block(Struct):
    """A part of a message; `type` is its wire name, a `Literal` in each class."""

    type: ClassVar[str]


class Text(Block, tag="text"):
    """Text for the user."""

    type: ClassVar[Literal["text"]] = "text"
    text: str = ""
    signature: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise UsageError(f"`text` of a text block must be a string, not {_name(self.text)}")


class Thinking(Block, tag="thinking"):
    """The model's reasoning; its signature must be sent back with it."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    text: str = ""
    signature: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise UsageError(f"`text` of reasoning must be a string, not {_name(self.text)}")


class ToolCall(Block, tag="tool_call"):
    """One call of one tool.

    Only a call with ``complete=True`` may be executed. `repairs` lists what was repaired in the
    model's text.
    """

    type: ClassVar[Literal["tool_call"]] = "tool_call"
    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    complete: bool = True
    repairs: list[str] = field(default_factory=list)
    signature: str = ""

    @classmethod
    def from_text(
        cls,
        id: str,  # noqa: A002 - the field's name
        name: str,
        text: str,
        *,
        complete: bool = True,
        signature: str = "",
    ) -> ToolCall:
        """Return the call whose arguments are the JSON *text*, repaired if need be.

        Empty text, white space and ``null`` mean no arguments. A call that was cut
        (``complete=False``) has what has arrived. Text that is not an object, or that only a guess
        could repair, makes the call incomplete: running a tool with other arguments than the model
        meant is worse than not running it.
        """
        arguments: object
        repairs: list[str] = []
        if not complete:
            arguments = _parse_incomplete(text)
        else:
            arguments, repairs, complete = _read_arguments(text)
        if not isinstance(arguments, dict):
            return cls(id, name, {}, complete=False, repairs=repairs, signature=signature)
        return cls(id, name, arguments, complete=complete, repairs=repairs, signature=signature)


class ToolResult(Struct, tag="tool", tag_field="role"):
    """The result of a call: *content* is text, a list of blocks or any JSON value.

    *id* and *name* are those of the call; *is_error* is whether it failed.
    """

    id: str
    name: str
    content: Any = ""
    is_error: bool = False


def mark_failed(content: Any) -> Any:
    """Return the *content* of a result with a mark that the call failed.

    Text gets the prefix ``Error: ``, and any other value is put under the key ``error``. Text that
    starts with "error" and an object with that key are returned unchanged.
    """
    if isinstance(content, str):
        # Most APIs have no field for a failed call, so the model can see it only in the text.
        is_marked = content.lstrip().lower().startswith("error")
        return content if is_marked else (f"Error: {content}" if content.strip() else "Error")
    is_marked = isinstance(content, dict) and "error" in content
    return content if is_marked else {"error": content}


class Opaque(Block, tag="opaque"):
    """A block that only its provider understands, kept to be sent back."""

    type: ClassVar[Literal["opaque"]] = "opaque"
    provider: str
    data: Any = None


Content = Text | Thinking | ToolCall | Opaque
"""One block of a message."""

_BLOCKS: Final = (Text, Thinking, ToolCall, Opaque)


class Usage(Struct):
    """Token counts: `input` excludes the cache, `output` includes the reasoning.

    `raw` is what the provider sent.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    total: int = 0
    raw: dict[str, Any] | None = None


def sum_usage(usages: Iterable[Usage]) -> Usage:
    """Add up the token counts of several responses; `raw` is not summed."""
    each = list(usages)
    return Usage(
        input=sum(usage.input for usage in each),
        output=sum(usage.output for usage in each),
        cache_read=sum(usage.cache_read for usage in each),
        cache_write=sum(usage.cache_write for usage in each),
        reasoning=sum(usage.reasoning for usage in each),
        total=sum(usage.total for usage in each),
    )


INCOMPLETE_CALL: Final = "incomplete_call"
"""`ErrorInfo.type` of a response that ended normally, but contains a call that is not complete."""


class ErrorInfo(Struct):
    """An error, for people and for retry logic.

    `type` is the provider's own value, `retry_after` is in seconds.
    """

    message: str
    kind: ErrorKind = "provider"
    type: str = ""
    status: int | None = None
    retry_after: float | None = None
    retryable: bool = False


class AssistantMessage(Struct, tag="assistant", tag_field="role"):
    """A whole response, or as much of it as has arrived.

    *content* may be a string, which is one text block; raises `UsageError` if it is neither a
    string nor a list of blocks.
    """

    id: str = ""
    model: str = ""
    content: list[Content] = field(default_factory=list)
    stop_reason: StopReason | None = None
    raw_stop_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    error: ErrorInfo | None = None

    if TYPE_CHECKING:  # the accepted types; msgspec generates the method

        def __init__(
            self,
            id: str = "",  # noqa: A002 - the field's name
            model: str = "",
            content: str | Iterable[Content] = (),
            stop_reason: StopReason | None = None,
            raw_stop_reason: str = "",
            usage: Usage = ...,
            error: ErrorInfo | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        content: object = self.content
        if isinstance(content, str):
            self.content = [Text(content)]
        elif not isinstance(content, list | tuple):
            raise UsageError(f"`content` must be text or a list of blocks, not {_name(content)}")
        else:
            for block in content:
                if not isinstance(block, _BLOCKS):
                    raise UsageError(
                        f"a block must be Text, Thinking, ToolCall or Opaque, not {_name(block)}"
                    )

    @property
    def text(self) -> str:
        """The text of all text blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def thinking(self) -> str:
        """The text of all reasoning blocks, joined."""
        return "".join(block.text for block in self.content if isinstance(block, Thinking))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """All calls in order, including incomplete ones."""
        return [block for block in self.content if isinstance(block, ToolCall)]


# --- ids ---


class CallIds:
    """Makes ids for calls that have none: ``call_1``, ``call_2`` and so on.

    Ids in *taken* are skipped; a caller may add to `taken`.
    """

    __slots__ = ("_numbers", "taken")

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.taken = set(taken)
        self._numbers = count(1)

    def __call__(self) -> str:
        """Return the next id."""
        id_ = f"call_{next(self._numbers)}"
        while id_ in self.taken:
            id_ = f"call_{next(self._numbers)}"
        return id_


class UniqueIds:
    """Keeps ids unique: an id that is in use gets the next number, as in ``call-2``."""

    __slots__ = ("_taken",)

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}  # an id, and the last number that was added to it

    def claim(self, wanted: str) -> str:
        """Return *wanted*, with a number added if it is in use."""
        number, claimed = self._taken.get(wanted, 1), wanted
        while claimed in self._taken:
            number += 1
            claimed = f"{wanted}-{number}"
        self._taken[wanted] = number
        self._taken.setdefault(claimed, 1)
        return claimed


# --- arguments ---


def _read_arguments(text: str) -> tuple[object, list[str], bool]:
    """Parse arguments; return the value, what was repaired, and whether that is certain.

    A value that is not an object has the reason among the repairs.
    """
    if not text or text.isspace():
        return {}, [], True
    doubt: list[str] = []
    try:
        try:
            repaired = values.rjson.repair(text, guess=False)
        except JSONParseError as refusal:
            doubt = [refusal.reason]
            repaired = values.rjson.repair(text)
    except JSONParseError as refusal:
        return None, [f"the arguments cannot be parsed: {refusal}"], False
    if repaired.value is None:
        return {}, repaired.repairs, True
    is_object = isinstance(repaired.value, dict)
    reason = [] if is_object else ["the arguments are not a JSON object"]
    return repaired.value, [*repaired.repairs, *reason, *doubt], not doubt


def _parse_incomplete(text: str) -> object:
    reader = values.IncrementalJSON(recover=True)
    reader.feed(text)
    return reader.value if isinstance(reader.value, dict) else {}
