"""The order law: what every run of an agent tells, in the order in which it may be told."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.agent.events import (
    AgentEnded,
    AgentEvent,
    AgentStarted,
    ApprovalRequested,
    CallApproved,
    CallDenied,
    CompactionEnded,
    CompactionStarted,
    ExtensionErrorEvent,
    FindingMade,
    MessageEnded,
    MessageStarted,
    MessageUpdated,
    RetryEnded,
    RetryStarted,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
    TurnStarted,
    from_json,
    to_json,
)
from penstock.builder import MessageBuilder
from penstock.messages import AssistantMessage, ToolResult
from penstock.request import Message, UserMessage

Approval = ApprovalRequested | CallApproved | CallDenied
Note = FindingMade | RetryStarted | RetryEnded | CompactionStarted | CompactionEnded


class Order:
    """Follows the events of one run; what may not come there fails the test."""

    def __init__(self) -> None:
        self.is_running = False
        self.has_ended = False
        self.turn: int | None = None
        self.turns = 0
        self.answer: AssistantMessage | None = None  # the one that is open
        self.said: Message | None = None  # the message that is open and is no answer
        self.builder = MessageBuilder()
        self.running: set[str] = set()
        self.results: list[ToolResult] = []  # of tools that ended in this turn
        self.told: list[ToolResult] = []  # the messages of this turn
        self.kept: list[Message] = []
        self.compacting = False
        self.unanswered: list[str] = []  # calls of answers that were kept

    def add(self, event: AgentEvent) -> None:
        assert not self.has_ended, f"{event.type} after the end"
        check_json(event)
        if isinstance(event, ExtensionErrorEvent):
            return
        if isinstance(event, AgentStarted):
            assert not self.is_running
            self.is_running = True
            return
        assert self.is_running, f"{event.type} before the start"
        match event:
            case AgentEnded():
                self.end(event)
            case TurnStarted():
                self.begin_turn(event)
            case TurnEnded():
                self.end_turn(event)
            case MessageStarted() | MessageUpdated() | MessageEnded():
                self.hear(event)
            case ToolStarted() | ToolUpdated() | ToolEnded():
                self.follow(event)
            case ApprovalRequested() | CallApproved() | CallDenied():
                assert self.turn is not None
                assert event.id not in self.running, "asked about what runs"
            case _:
                self.note(event)

    def end(self, event: AgentEnded) -> None:
        assert self.turn is None, "a turn is open"
        assert not self.running
        assert not self.compacting
        assert all(message in event.messages for message in self.kept)
        deferred = sorted(call.id for call in event.deferred)
        assert sorted(self.unanswered) == deferred or not self.has_answered
        self.has_ended = True

    @property
    def has_answered(self) -> bool:
        """Whether the model has said something in this run: before, calls of the last may wait."""
        return any(isinstance(message, AssistantMessage) for message in self.kept)

    def begin_turn(self, event: TurnStarted) -> None:
        assert self.turn is None
        self.turns += 1
        assert event.turn == self.turns
        self.turn = event.turn
        self.results, self.told = [], []

    def end_turn(self, event: TurnEnded) -> None:
        assert self.turn == event.turn
        assert self.answer is None
        assert self.said is None
        assert not self.running, f"{self.running} still run"
        assert event.results == self.told[len(self.told) - len(event.results) :]
        ended = [result for result in event.results if result in self.results]
        assert ended == event.results, "a result without a tool that ended"
        asked = [call.id for call in event.message.tool_calls]
        given = [result.id for result in event.results]
        assert given == [id_ for id_ in asked if id_ in given], "results out of order"
        self.turn = None

    def hear(self, event: MessageStarted | MessageUpdated | MessageEnded) -> None:
        assert self.turn is not None, f"{event.type} outside of a turn"
        match event:
            case MessageStarted():
                assert self.answer is None, "two messages at once"
                assert self.said is None, "two messages at once"
                if isinstance(event.message, AssistantMessage):
                    self.answer = event.message
                    self.builder = MessageBuilder()
                else:
                    self.said = event.message
            case MessageUpdated():
                assert event.message is self.answer, "an update of another message"
                self.builder.add(event.event)  # raises for what is not lawful
            case MessageEnded():
                self.close(event)

    def close(self, event: MessageEnded) -> None:
        if isinstance(event.message, AssistantMessage):
            assert self.answer is not None
            assert event.message.stop_reason is not None
            assert self.builder.message.content == event.message.content
            self.answer = None
        else:
            assert self.said == event.message
            self.said = None
            if isinstance(event.message, ToolResult):
                self.told.append(event.message)
                self.answered(event.message)
            else:
                assert isinstance(event.message, UserMessage)
        if event.kept:
            self.kept.append(event.message)
            if isinstance(event.message, AssistantMessage):
                self.unanswered += [call.id for call in event.message.tool_calls]

    def answered(self, result: ToolResult) -> None:
        assert result.id in self.unanswered or not self.has_answered, "a result of no call"
        if result.id in self.unanswered:
            self.unanswered.remove(result.id)

    def follow(self, event: ToolStarted | ToolUpdated | ToolEnded) -> None:
        assert self.turn is not None, f"{event.type} outside of a turn"
        if isinstance(event, ToolStarted):
            assert event.id not in self.running
            self.running.add(event.id)
            return
        assert event.id in self.running, f"{event.type} of what does not run"
        if isinstance(event, ToolEnded):
            self.running.remove(event.id)
            self.results.append(event.result)

    def note(self, event: Note) -> None:
        assert self.answer is None, f"{event.type} within an answer"
        assert self.said is None
        if isinstance(event, CompactionStarted):
            assert not self.compacting
            self.compacting = True
        elif isinstance(event, CompactionEnded):
            assert self.compacting
            self.compacting = False


def check_json(event: AgentEvent) -> None:
    """Fail for an event that is another one once it was written and read."""
    told = MessageUpdated(event.event) if isinstance(event, MessageUpdated) else event
    if not isinstance(event, MessageStarted):
        assert from_json(to_json(event)) == told


def check_order(events: Iterable[AgentEvent]) -> Order:
    """Fail for what no run may tell; give what was seen."""
    order = Order()
    for event in events:
        order.add(event)
    assert order.has_ended, "the run was not told to its end"
    return order
