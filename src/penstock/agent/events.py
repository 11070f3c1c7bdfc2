"""The events of an agent: those of its model's responses, and what happens around them.

The events of a run have this order::

    agent_start turn* agent_end
    turn     := turn_start message* response* tool* result* turn_end
    message  := message_start message_end                    of users, rules and guards
    response := message_start (message_update | output_update)* message_end
                                                             again after a retry or a finding
    tool     := [approval] tool_execution_start tool_execution_update* tool_execution_end
    result   := message_start message_end                    in the order of the calls

Tools run in parallel, so their events may be interleaved, and with `eager` they may come between
the updates of the response. Each carries the id of its call, which is also the id of its segment.
Findings, retries and compactions come between responses.

`message_update` carries the stream's own event unchanged. Its `message` is the one live message,
which grows while the response arrives: no event has a copy of the text so far. It is not part of
the event's JSON.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Protocol

from msgspec import Struct, field

from penstock import _json
from penstock.errors import UsageError
from penstock.events import Event
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, ToolResult
from penstock.request import Message
from penstock.values.incremental_state import Change

# --- the run and its turns ---


# `type` is a class variable and the tag of the struct: it is not stored in an instance, and narrows
# the union for type checkers.
class AgentStarted(Struct, frozen=True, tag="agent_start"):
    """The agent starts to work on a prompt."""

    type: ClassVar[Literal["agent_start"]] = "agent_start"


class AgentEnded(Struct, frozen=True, tag="agent_end"):
    """The run has ended: *messages* are new, *deferred* are the calls that wait for a decision."""

    type: ClassVar[Literal["agent_end"]] = "agent_end"
    messages: list[Message] = field(default_factory=list)
    deferred: list[ToolCall] = field(default_factory=list)
    error: ErrorInfo | None = None


class TurnStarted(Struct, frozen=True, tag="turn_start"):
    """A turn starts: a response, and the tools that it calls."""

    type: ClassVar[Literal["turn_start"]] = "turn_start"
    turn: int


class TurnEnded(Struct, frozen=True, tag="turn_end"):
    """A turn has ended, with its response and the results of its tools."""

    type: ClassVar[Literal["turn_end"]] = "turn_end"
    turn: int
    message: AssistantMessage
    results: list[ToolResult] = field(default_factory=list)


# --- messages ---


class MessageStarted(Struct, frozen=True, tag="message_start"):
    """A message starts; a response is empty at its start."""

    type: ClassVar[Literal["message_start"]] = "message_start"
    message: Message


class LiveMessage(Protocol):
    """Holds the message that a stream has built so far."""

    @property
    def message(self) -> AssistantMessage:
        """The message so far; the same object every time."""


class MessageUpdated(Struct, frozen=True, tag="message_update"):
    """The response continues with *event*; *live* holds all that has arrived."""

    type: ClassVar[Literal["message_update"]] = "message_update"
    event: Event
    live: LiveMessage | None = None

    @property
    def message(self) -> AssistantMessage:
        """All that has arrived of the response by now.

        It is built when it is read, from the events since the last time, so the cost of an event
        does not depend on the length of the response. Raises `UsageError` for an event from JSON:
        `MessageBuilder` folds events into a message.
        """
        if self.live is None:
            raise UsageError("an event from JSON has no live message: use MessageBuilder")
        return self.live.message


class MessageEnded(Struct, frozen=True, tag="message_end"):
    """A message is final; one that is not *kept* is not part of the conversation."""

    type: ClassVar[Literal["message_end"]] = "message_end"
    message: Message
    kept: bool = True


class LiveOutput(Protocol):
    """Holds the typed output that a response has written so far."""

    @property
    def partial(self) -> Any:
        """A copy of the output so far, as JSON; None if nothing of it has arrived."""


class OutputUpdated(Struct, frozen=True, tag="output_update"):
    """The typed output of the response has grown by *changes*; *live* holds all of it.

    The output of a later response replaces that of an earlier one.
    """

    type: ClassVar[Literal["output_update"]] = "output_update"
    changes: list[Change]
    live: LiveOutput | None = None

    @property
    def partial(self) -> Any:
        """A copy of the output so far, as JSON: its strings and lists may still grow.

        The copy is made when it is read, so the cost of an event does not depend on the length of
        the output. Raises `UsageError` for an event from JSON.
        """
        if self.live is None:
            raise UsageError("an event from JSON has no live output: apply its changes")
        return self.live.partial


# --- tools ---


class ToolStarted(Struct, frozen=True, tag="tool_execution_start"):
    """A tool starts, or its call is refused; then the arguments are those of the model."""

    type: ClassVar[Literal["tool_execution_start"]] = "tool_execution_start"
    id: str
    name: str
    arguments: dict[str, Any]


class ToolUpdated(Struct, frozen=True, tag="tool_execution_update"):
    """A tool shows its progress: *partial* is all of its result so far."""

    type: ClassVar[Literal["tool_execution_update"]] = "tool_execution_update"
    id: str
    name: str
    partial: Any


class ToolEnded(Struct, frozen=True, tag="tool_execution_end"):
    """A tool has ended, or its call was refused; *details* are for people, not for the model."""

    type: ClassVar[Literal["tool_execution_end"]] = "tool_execution_end"
    id: str
    name: str
    result: ToolResult
    details: Any = None


class ApprovalRequested(Struct, frozen=True, tag="tool_approval_requested"):
    """The approver is asked about a call."""

    type: ClassVar[Literal["tool_approval_requested"]] = "tool_approval_requested"
    id: str
    name: str
    arguments: dict[str, Any]


class CallApproved(Struct, frozen=True, tag="tool_approved"):
    """A call was approved, with these arguments: the approver may have changed them."""

    type: ClassVar[Literal["tool_approved"]] = "tool_approved"
    id: str
    name: str
    arguments: dict[str, Any]


class CallDenied(Struct, frozen=True, tag="tool_denied"):
    """A call was denied; *reason* is sent to the model."""

    type: ClassVar[Literal["tool_denied"]] = "tool_denied"
    id: str
    name: str
    reason: str = ""


# --- findings, retries, compactions, errors ---


class FindingMade(Struct, frozen=True, tag="finding"):
    """A rule or a guard found something; if it *interrupts*, the response was stopped."""

    type: ClassVar[Literal["finding"]] = "finding"
    source: Literal["rule", "guard"]
    names: list[str]
    text: str
    interrupts: bool


class RetryStarted(Struct, frozen=True, tag="auto_retry_start"):
    """A response failed and is requested again in *delay* seconds."""

    type: ClassVar[Literal["auto_retry_start"]] = "auto_retry_start"
    attempt: int
    attempts: int
    delay: float
    error: ErrorInfo


class RetryEnded(Struct, frozen=True, tag="auto_retry_end"):
    """The retries succeeded, or no more are made."""

    type: ClassVar[Literal["auto_retry_end"]] = "auto_retry_end"
    success: bool
    attempt: int
    error: ErrorInfo | None = None


class FallbackStarted(Struct, frozen=True, tag="fallback"):
    """A model failed with *error*, and *model* responds instead, up to the end of the run."""

    type: ClassVar[Literal["fallback"]] = "fallback"
    model: str
    error: ErrorInfo


class CompactionStarted(Struct, frozen=True, tag="auto_compaction_start"):
    """The conversation has become too long and is being summarized."""

    type: ClassVar[Literal["auto_compaction_start"]] = "auto_compaction_start"
    reason: Literal["threshold", "overflow", "asked"]
    tokens: int


class CompactionEnded(Struct, frozen=True, tag="auto_compaction_end"):
    """All but the last *kept* messages were summarized; or none were, because of *error*."""

    type: ClassVar[Literal["auto_compaction_end"]] = "auto_compaction_end"
    summary: str = ""
    kept: int = 0
    error: ErrorInfo | None = None


class ExtensionErrorEvent(Struct, frozen=True, tag="extension_error"):
    """A hook, a guard, an approver or a recorder failed, and the run continues."""

    type: ClassVar[Literal["extension_error"]] = "extension_error"
    source: str
    message: str


AgentEvent = (
    AgentStarted
    | AgentEnded
    | TurnStarted
    | TurnEnded
    | MessageStarted
    | MessageUpdated
    | MessageEnded
    | OutputUpdated
    | ToolStarted
    | ToolUpdated
    | ToolEnded
    | ApprovalRequested
    | CallApproved
    | CallDenied
    | FindingMade
    | RetryStarted
    | RetryEnded
    | FallbackStarted
    | CompactionStarted
    | CompactionEnded
    | ExtensionErrorEvent
)
"""Any event of an agent."""


def to_json(event: AgentEvent) -> bytes:
    """Write *event* as one line of JSON that `from_json` reads back equal."""
    # The live message is not written: each event would contain all of the response so far.
    if isinstance(event, MessageUpdated):
        event = MessageUpdated(event.event)
    elif isinstance(event, OutputUpdated):
        event = OutputUpdated(event.changes)
    return _json.encode(event)


def from_json(data: bytes | str) -> AgentEvent:
    """Read an event that `to_json` wrote; raise `JSONParseError` for anything else."""
    event: AgentEvent = _json.decode_as(data, AgentEvent)
    return event
