"""The events of an agent for tests: a recorder, and a check of their order.

`check_order` raises `AssertionError` for events that no run may emit: an update outside of its
response, a result without its tool, a turn that does not end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from penstock.agent import Agent, AgentRun
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
    FallbackStarted,
    FindingMade,
    MessageEnded,
    MessageStarted,
    MessageUpdated,
    OutputUpdated,
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
Note = (
    FindingMade | RetryStarted | RetryEnded | FallbackStarted | CompactionStarted | CompactionEnded
)


class RunOrder:
    """Follows the events of one run; an event that may not come there fails the test."""

    def __init__(self) -> None:
        self._is_running = False
        self.has_ended = False
        self._turn: int | None = None
        self._turns = 0
        self._response: AssistantMessage | None = None  # the one that is open
        self._open_message: Message | None = None  # one that is not a response
        self._builder = MessageBuilder()
        self._running: set[str] = set()
        self._results: list[ToolResult] = []  # of tools that ended in this turn
        self._reported: list[ToolResult] = []  # as messages of this turn
        self._kept: list[Message] = []
        self._compacting = False
        self._open_calls: list[str] = []  # of responses that were kept

    def add(self, event: AgentEvent) -> None:
        """Check the next *event*."""
        assert not self.has_ended, f"{event.type} after the end"
        _check_json(event)
        if isinstance(event, ExtensionErrorEvent):
            return
        if isinstance(event, AgentStarted):
            assert not self._is_running
            self._is_running = True
            return
        assert self._is_running, f"{event.type} before the start"
        match event:
            case AgentEnded():
                self._end(event)
            case TurnStarted():
                self._begin_turn(event)
            case TurnEnded():
                self._end_turn(event)
            case MessageStarted() | MessageUpdated() | MessageEnded():
                self._follow_message(event)
            case OutputUpdated():
                assert self._response is not None, "an output outside of a response"
                assert event.changes
            case ToolStarted() | ToolUpdated() | ToolEnded():
                self._follow_tool(event)
            case ApprovalRequested() | CallApproved() | CallDenied():
                assert self._turn is not None
                assert event.id not in self._running, "approval of a call that runs"
            case _:
                self._note(event)

    def _end(self, event: AgentEnded) -> None:
        assert self._turn is None, "a turn is open"
        assert not self._running
        assert not self._compacting
        assert all(message in event.messages for message in self._kept)
        deferred = sorted(call.id for call in event.deferred)
        assert sorted(self._open_calls) == deferred or not self._has_response
        self.has_ended = True

    @property
    def _has_response(self) -> bool:
        """Whether the run has a response: before, calls of an earlier one may wait."""
        return any(isinstance(message, AssistantMessage) for message in self._kept)

    def _begin_turn(self, event: TurnStarted) -> None:
        assert self._turn is None
        self._turns += 1
        assert event.turn == self._turns
        self._turn = event.turn
        self._results, self._reported = [], []

    def _end_turn(self, event: TurnEnded) -> None:
        assert self._turn == event.turn
        assert self._response is None
        assert self._open_message is None
        assert not self._running, f"{self._running} still run"
        assert event.results == self._reported[len(self._reported) - len(event.results) :]
        ended = [result for result in event.results if result in self._results]
        assert ended == event.results, "a result without a tool that ended"
        asked = [call.id for call in event.message.tool_calls]
        given = [result.id for result in event.results]
        # Tools may end in any order; providers want their results in the order of the calls.
        assert given == [id_ for id_ in asked if id_ in given], "results out of order"
        self._turn = None

    def _follow_message(self, event: MessageStarted | MessageUpdated | MessageEnded) -> None:
        assert self._turn is not None, f"{event.type} outside of a turn"
        match event:
            case MessageStarted():
                assert self._response is None, "two messages at once"
                assert self._open_message is None, "two messages at once"
                if isinstance(event.message, AssistantMessage):
                    self._response = event.message
                    self._builder = MessageBuilder()
                else:
                    self._open_message = event.message
            case MessageUpdated():
                assert event.message is self._response, "an update of another message"
                self._builder.add(event.event)  # raises for an invalid sequence
            case MessageEnded():
                self._close(event)

    def _close(self, event: MessageEnded) -> None:
        if isinstance(event.message, AssistantMessage):
            assert self._response is not None
            assert event.message.stop_reason is not None
            assert self._builder.message.content == event.message.content
            self._response = None
        else:
            assert self._open_message == event.message
            self._open_message = None
            if isinstance(event.message, ToolResult):
                self._reported.append(event.message)
                self._settle(event.message)
            else:
                assert isinstance(event.message, UserMessage)
        if event.kept:
            self._kept.append(event.message)
            if isinstance(event.message, AssistantMessage):
                self._open_calls += [call.id for call in event.message.tool_calls]

    def _settle(self, result: ToolResult) -> None:
        assert result.id in self._open_calls or not self._has_response, "a result without a call"
        if result.id in self._open_calls:
            self._open_calls.remove(result.id)

    def _follow_tool(self, event: ToolStarted | ToolUpdated | ToolEnded) -> None:
        assert self._turn is not None, f"{event.type} outside of a turn"
        if isinstance(event, ToolStarted):
            assert event.id not in self._running
            self._running.add(event.id)
            return
        assert event.id in self._running, f"{event.type} of a call that does not run"
        if isinstance(event, ToolEnded):
            self._running.remove(event.id)
            self._results.append(event.result)

    def _note(self, event: Note) -> None:
        assert self._response is None, f"{event.type} within a response"
        assert self._open_message is None
        if isinstance(event, CompactionStarted):
            assert not self._compacting
            self._compacting = True
        elif isinstance(event, CompactionEnded):
            assert self._compacting
            self._compacting = False


def _check_json(event: AgentEvent) -> None:
    """Fail for an event that is not the same after it was written and read."""
    # The message of an update is the live object, which is not written.
    expected: AgentEvent = (
        MessageUpdated(event.event) if isinstance(event, MessageUpdated) else event
    )
    if not isinstance(event, MessageStarted):
        if isinstance(event, OutputUpdated):
            expected = OutputUpdated(event.changes)
        assert from_json(to_json(event)) == expected


def check_order(events: Iterable[AgentEvent]) -> RunOrder:
    """Raise `AssertionError` if *events* are not those of one whole run, in their order."""
    order = RunOrder()
    for event in events:
        order.add(event)
    assert order.has_ended, "the events do not reach the end of the run"
    return order


# --- recording ---

E = TypeVar("E")


class EventRecorder:
    """Records every event of *agent* from now on, of all its runs.

    After a run, ``await agent.drain()`` waits for the last events; `Agent.run_sync` does so.
    """

    def __init__(self, agent: Agent[Any]) -> None:
        self.events: list[AgentEvent] = []
        self.stop = agent.subscribe(self._add)
        """Stops the recording."""

    async def _add(self, event: AgentEvent) -> None:
        self.events.append(event)

    @property
    def types(self) -> list[str]:
        """The types of the events in their order, without updates of messages and outputs."""
        updates = ("message_update", "output_update")
        return [event.type for event in self.events if event.type not in updates]

    @property
    def tools(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls that were run or refused, in their order: name and arguments."""
        return [(event.name, event.arguments) for event in self.of(ToolStarted)]

    def of(self, kind: type[E]) -> list[E]:
        """Return the events of one class."""
        return [event for event in self.events if isinstance(event, kind)]


async def record_run(run: AgentRun[Any]) -> list[AgentEvent]:
    """Read *run* to its end and return its events.

    Raises `AssertionError` if they violate the order that `penstock.agent.events` documents.
    """
    events = [event async for event in run]
    check_order(events)
    return events
