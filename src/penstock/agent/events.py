"""What an agent does, as events: the events of its model's answers, and what happens around them.

A run reads like this::

    agent_start turn* agent_end
    turn    := turn_start said* answer* tool* result* turn_end
    said    := message_start message_end                     what users and rules say
    answer  := message_start message_update* message_end     again after a retry or a finding
    tool    := [approval] tool_execution_start tool_execution_update* tool_execution_end
    result  := message_start message_end                     in the order of the calls

Tools run side by side, so what is told of one may stand between what is told of another, and with
`eager` tools between the updates of the answer that calls them; all carry the id of the call, which
is the id of its segment too. Notes (a finding, a retry, a compaction) stand between answers.

`message_update` carries the stream's own event, unchanged. Its `message` is the one live message:
it grows while the answer comes, so that no event holds a copy of what was said so far. It is no
part of the event's JSON.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from penstock import _json
from penstock.events import Event
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, ToolResult
from penstock.request import Message


class _AgentEvent(Struct, frozen=True):
    @property
    def type(self) -> str:
        """The wire name, such as ``turn_start``."""
        return str(self.__struct_config__.tag)


# --- the run and its turns ---


class AgentStarted(_AgentEvent, frozen=True, tag="agent_start"):
    """The agent begins to work on a prompt."""


class AgentEnded(_AgentEvent, frozen=True, tag="agent_end"):
    """The agent is done: *messages* are the new ones, *deferred* the calls that wait for a yes."""

    messages: list[Message] = field(default_factory=list)
    deferred: list[ToolCall] = field(default_factory=list)
    error: ErrorInfo | None = None


class TurnStarted(_AgentEvent, frozen=True, tag="turn_start"):
    """A turn begins: an answer, and the tools that it calls."""

    turn: int


class TurnEnded(_AgentEvent, frozen=True, tag="turn_end"):
    """A turn ends, with the answer and what its tools gave back."""

    turn: int
    message: AssistantMessage
    results: list[ToolResult] = field(default_factory=list)


# --- messages ---


class MessageStarted(_AgentEvent, frozen=True, tag="message_start"):
    """A message begins; an answer begins empty."""

    message: Message


class MessageUpdated(_AgentEvent, frozen=True, tag="message_update"):
    """The answer continues: *event* is the stream's; *live* is what knows all that has arrived."""

    event: Event
    live: Any = None

    @property
    def message(self) -> AssistantMessage:
        """All that has arrived of the answer, by now.

        Whoever looks pays for what came since somebody looked last, so an event costs the same
        however long the answer is. An event that was read from JSON knows no more than itself:
        `MessageBuilder` folds events into a message.
        """
        message: AssistantMessage = self.live.message
        return message


class MessageEnded(_AgentEvent, frozen=True, tag="message_end"):
    """A message is final; one that is not *kept* is not a part of what the model is shown again."""

    message: Message
    kept: bool = True


# --- tools ---


class ToolStarted(_AgentEvent, frozen=True, tag="tool_execution_start"):
    """A tool begins to run; of a call that is refused, the arguments are those that were given."""

    id: str
    name: str
    arguments: dict[str, Any]


class ToolUpdated(_AgentEvent, frozen=True, tag="tool_execution_update"):
    """A tool tells how far it is: *partial* is all of its result that there is."""

    id: str
    name: str
    partial: Any


class ToolEnded(_AgentEvent, frozen=True, tag="tool_execution_end"):
    """A tool has ended, or was refused; *details* are for people, not for the model."""

    id: str
    name: str
    result: ToolResult
    details: Any = None


class ApprovalRequested(_AgentEvent, frozen=True, tag="tool_approval_requested"):
    """Somebody is asked whether a call may run."""

    id: str
    name: str
    arguments: dict[str, Any]


class CallApproved(_AgentEvent, frozen=True, tag="tool_approved"):
    """A call may run, with these arguments: whoever approved may have changed them."""

    id: str
    name: str
    arguments: dict[str, Any]


class CallDenied(_AgentEvent, frozen=True, tag="tool_denied"):
    """A call may not run; the model is told *reason*."""

    id: str
    name: str
    reason: str = ""


# --- notes ---


class FindingMade(_AgentEvent, frozen=True, tag="finding"):
    """A rule or a guard found something; *interrupts* says that the answer was stopped for it."""

    source: Literal["rule", "guard"]
    names: list[str]
    text: str
    interrupts: bool


class RetryStarted(_AgentEvent, frozen=True, tag="auto_retry_start"):
    """An answer failed and is retried in *delay* seconds."""

    attempt: int
    attempts: int
    delay: float
    error: ErrorInfo


class RetryEnded(_AgentEvent, frozen=True, tag="auto_retry_end"):
    """The answer came at last, or it is given up."""

    success: bool
    attempt: int
    error: ErrorInfo | None = None


class CompactionStarted(_AgentEvent, frozen=True, tag="auto_compaction_start"):
    """The conversation has grown too long and is being summed up."""

    reason: Literal["threshold", "overflow", "asked"]
    tokens: int


class CompactionEnded(_AgentEvent, frozen=True, tag="auto_compaction_end"):
    """The conversation was summed up, all but its last *kept* messages; or it was not."""

    summary: str = ""
    kept: int = 0
    error: ErrorInfo | None = None


class ExtensionErrorEvent(_AgentEvent, frozen=True, tag="complaint"):
    """Something beside the run failed, and the run continues.

    A hook, or the record of a session.
    """

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
    | ToolStarted
    | ToolUpdated
    | ToolEnded
    | ApprovalRequested
    | CallApproved
    | CallDenied
    | FindingMade
    | RetryStarted
    | RetryEnded
    | CompactionStarted
    | CompactionEnded
    | ExtensionErrorEvent
)
"""Any event of an agent."""


def to_json(event: AgentEvent) -> bytes:
    """Write *event* as one line of JSON that `from_json` reads back equal."""
    if isinstance(event, MessageUpdated):
        event = MessageUpdated(event.event)
    return _json.encode(event)


def from_json(data: bytes | str) -> AgentEvent:
    """Read an event that `to_json` wrote; raise `JSONParseError` for anything else."""
    event: AgentEvent = _json.decode_as(data, AgentEvent)
    return event
