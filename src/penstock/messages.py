"""What a model answered: the message, its blocks, its usage and its error.

These are plain mutable values that read and write themselves as JSON. `MessageBuilder` fills them
from events; a message of a stream that still runs has no `stop_reason` yet, and an open call in it
has ``complete=False``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct, field

from penstock import values
from penstock.errors import JSONParseError, UsageError

StopReason = Literal["stop", "length", "tool_use", "error", "aborted"]
"""Why a message ended, in the one vocabulary for all providers."""

ErrorKind = Literal[
    "provider", "transport", "truncated", "malformed", "refusal", "filter", "aborted"
]
"""What failed. `refusal` and `filter` were the model's side's choice; the others are failures."""


UNKNOWN: Final = "unknown"
"""The name of a call that has none: it is shown, never complete, and nobody runs it."""


class Block(Struct):
    """A part of a message; `type` is its wire name."""

    @property
    def type(self) -> str:
        """The wire name, such as ``text`` or ``tool_call``."""
        return str(self.__struct_config__.tag)


class Text(Block, tag="text"):
    """Text for the user."""

    text: str = ""
    signature: str = ""


class Thinking(Block, tag="thinking"):
    """The model's reasoning; its signature goes back with it."""

    text: str = ""
    signature: str = ""


class ToolCall(Block, tag="tool_call"):
    """One call of one tool.

    Only a call with ``complete=True`` may be executed. `repairs` says in words what was repaired on
    the way from the model's text to `arguments`.
    """

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
        """Make the call whose arguments are the JSON *text*, repaired where it needs to be.

        No text, white space and ``null`` are not arguments. A call that was cut
        (``complete=False``) shows what had arrived. Text that holds no object, or of which a part
        would have to be guessed, leaves the call incomplete: running a tool with something else
        than what the model meant is worse than not running it.
        """
        arguments: object
        repairs: list[str] = []
        if not complete:
            arguments = _arrived(text)
        else:
            arguments, repairs, complete = _read_arguments(text)
        if not isinstance(arguments, dict):
            return cls(id, name, {}, complete=False, repairs=repairs, signature=signature)
        return cls(id, name, arguments, complete=complete, repairs=repairs, signature=signature)


class ToolResult(Struct, tag="tool", tag_field="role"):
    """What a call gave back: *content* is text, a list of blocks or any JSON value.

    *id* and *name* are those of the call; *is_error* says that it failed.
    """

    id: str
    name: str
    content: Any = ""
    is_error: bool = False


def failed_content(content: Any) -> Any:
    """Return the *content* of a result in such words that it says that the call failed.

    Text begins with ``Error: ``, and any other value is under the key ``error``. What says so
    itself, text that begins with "error" or an object with that key, stays as it is.
    """
    if isinstance(content, str):
        is_said = content.lstrip().lower().startswith("error")
        return content if is_said else (f"Error: {content}" if content.strip() else "Error")
    is_said = isinstance(content, dict) and "error" in content
    return content if is_said else {"error": content}


class Opaque(Block, tag="opaque"):
    """A block that only its provider understands, kept whole for the way back."""

    provider: str
    data: Any = None


Content = Text | Thinking | ToolCall | Opaque
"""One block of a message."""

_BLOCKS: Final = (Text, Thinking, ToolCall, Opaque)


class Usage(Struct):
    """Tokens, counted once: `input` without the cache, `output` with the reasoning.

    `raw` is what the provider sent.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    total: int = 0
    raw: dict[str, Any] | None = None


def summed(usages: Iterable[Usage]) -> Usage:
    """Add up what several answers took; what their providers sent stays with each."""
    each = list(usages)
    return Usage(
        input=sum(usage.input for usage in each),
        output=sum(usage.output for usage in each),
        cache_read=sum(usage.cache_read for usage in each),
        cache_write=sum(usage.cache_write for usage in each),
        reasoning=sum(usage.reasoning for usage in each),
        total=sum(usage.total for usage in each),
    )


class ErrorInfo(Struct):
    """What went wrong, for people and for retry logic.

    `type` is the provider's own word, `retry_after` is in seconds.
    """

    message: str
    kind: ErrorKind = "provider"
    type: str = ""
    status: int | None = None
    retry_after: float | None = None
    retryable: bool = False


class AssistantMessage(Struct, tag="assistant", tag_field="role"):
    """A whole answer, or as much of it as has arrived.

    Content that is text is one block of text; raises `UsageError` for what is not a list of blocks.
    """

    id: str = ""
    model: str = ""
    content: list[Content] = field(default_factory=list)
    stop_reason: StopReason | None = None
    raw_stop_reason: str = ""
    usage: Usage = field(default_factory=Usage)
    error: ErrorInfo | None = None

    if TYPE_CHECKING:  # what it may be given as; msgspec makes the rest

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
            raise UsageError(f"an answer is text or a list of blocks, not {type(content).__name__}")
        else:
            for block in content:
                if not isinstance(block, _BLOCKS):
                    kind = type(block).__name__
                    raise UsageError(f"a block is Text, Thinking, ToolCall or Opaque, not {kind}")

    @property
    def text(self) -> str:
        """All text blocks, joined with nothing between."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def thinking(self) -> str:
        """All thinking blocks, joined with nothing between."""
        return "".join(block.text for block in self.content if isinstance(block, Thinking))

    @property
    def tool_calls(self) -> list[ToolCall]:
        """All calls in order, incomplete ones too."""
        return [block for block in self.content if isinstance(block, ToolCall)]


def _read_arguments(text: str) -> tuple[object, list[str], bool]:
    """Read argument text; return the value, what was repaired, and whether that is certain.

    The value is an object, or something else with the reason in words.
    """
    if not text or text.isspace():
        return {}, [], True
    doubt: list[str] = []
    try:
        try:
            mended = values.rjson.repair(text, guess=False)
        except JSONParseError as refusal:
            doubt = [refusal.reason]
            mended = values.rjson.repair(text)
    except JSONParseError as refusal:
        return None, [f"the arguments cannot be read: {refusal}"], False
    if mended.value is None:
        return {}, mended.repairs, True
    is_object = isinstance(mended.value, dict)
    reason = [] if is_object else ["the arguments are no JSON object"]
    return mended.value, [*mended.repairs, *reason, *doubt], not doubt


def _arrived(text: str) -> object:
    reader = values.IncrementalJSON(recover=True)
    reader.feed(text)
    return reader.value if isinstance(reader.value, dict) else {}
