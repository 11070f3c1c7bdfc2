"""The conversation of an agent: its messages, its recorder and its subscribers.

A message is recorded before its `message_end` is emitted. A record that fails is reported as an
`extension_error`, and the run continues; only a call whose start cannot be recorded is not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from penstock.agent.approval import Approval
from penstock.agent.cancellation import is_cancelled
from penstock.agent.events import AgentEvent, ExtensionErrorEvent, MessageEnded, MessageStarted
from penstock.agent.hooks import Finding
from penstock.agent.subscribers import EventQueue, Subscriber, Subscription
from penstock.agent.tokens import Purpose, Spending
from penstock.errors import describe_exception
from penstock.messages import AssistantMessage, ToolCall, ToolResult, Usage
from penstock.request import Message


class Recorder:
    """Records a conversation as it becomes final; override the methods you need.

    The agent waits for each method. `Session` is a recorder.
    """

    async def message(self, message: Message, *, kept: bool = True) -> None:
        """Record a final message; one that is not *kept* is not part of the context."""

    async def finding(self, finding: Finding) -> None:
        """Record which rules fired; their text follows as a message."""

    async def compacted(self, summary: str, kept: int, tokens: int) -> None:
        """Record that *summary* replaces all but the last *kept* messages of the context.

        *tokens* is the length of the context before.
        """

    async def call_started(self, call: ToolCall, approval: Approval) -> None:
        """Record that *call* is about to run with its arguments; *approval* is the reason.

        An exception keeps the call from running. With this record, no call runs twice by accident
        after a crash.
        """

    async def call_ended(self, result: ToolResult) -> None:
        """Record the result of a call as soon as it is known; it follows as a message later."""


class Conversation:
    """The messages of an agent, and everything that has to know about them."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.messages = list(messages)
        self.recorder: Recorder | None = None
        self.spending = Spending()
        self.interrupted: list[ToolCall] = []
        """Calls of the last response that were running when their process ended."""
        self.new: list[Message] = []
        """The messages that the current run has added."""
        self.spent: list[tuple[str, Usage]] = []
        """The tokens of each response of the current run, and the name of its model."""
        self.queue: EventQueue | None = None
        """The events of the current run."""
        self._subscriptions: list[Subscription] = []

    # --- events ---

    def emit(self, event: AgentEvent) -> None:
        """Pass *event* to the run and to all subscribers."""
        if self.queue is not None:
            self.queue.put(event)
        for subscription in self._subscriptions:
            subscription.put(event)

    def report_error(self, source: str, message: str) -> None:
        """Emit an `extension_error`."""
        self.emit(ExtensionErrorEvent(source, message))

    def subscribe(self, receive: Subscriber) -> Subscription:
        """Pass every event from now on to *receive*."""
        subscription = Subscription(receive)
        self._subscriptions = [*self._subscriptions, subscription]
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """End *subscription*."""
        subscription.end()
        self._subscriptions = [one for one in self._subscriptions if one is not subscription]

    async def drain(self) -> None:
        """Wait until the subscribers have received all events so far."""
        for subscription in self._subscriptions:
            await subscription.drain()

    # --- messages ---

    async def add(self, message: Message) -> None:
        """Add a message that is complete."""
        self.emit(MessageStarted(message))
        await self.finish(message)

    async def finish(self, message: Message, *, kept: bool = True) -> None:
        """Add a message that has become final; one that is not *kept* is only recorded."""
        if isinstance(message, AssistantMessage):
            self.spend(message.model, message.usage, "answer" if kept else "failure")
        if kept:
            self.messages.append(message)
            self.new.append(message)
            if isinstance(message, ToolResult):
                self.interrupted = [one for one in self.interrupted if one.id != message.id]
        # First the record, then the event: a consumer of `message_end` can rely on the record.
        if self.recorder is not None:
            await self._record(self.recorder.message(message, kept=kept))
        self.emit(MessageEnded(message, kept))

    def spend(self, model: str, usage: Usage, purpose: Purpose = "answer") -> None:
        """Count the tokens of a response of *model*."""
        self.spending.add(usage, purpose)
        self.spent.append((model, usage))

    async def record_finding(self, finding: Finding) -> None:
        """Record that a guard fired."""
        if self.recorder is not None:
            await self._record(self.recorder.finding(finding))

    async def compact(self, shorter: list[Message], summary: str, kept: int, tokens: int) -> None:
        """Replace the messages with *shorter*: *summary*, and the last *kept* messages."""
        self.messages[:] = shorter
        if self.recorder is not None:
            await self._record(self.recorder.compacted(summary, kept, tokens))

    # --- calls ---

    async def start_call(self, call: ToolCall, approval: Approval) -> str:
        """Record that *call* starts; return why it could not be recorded, or the empty string."""
        if self.recorder is None:
            return ""
        return await self._record(self.recorder.call_started(call, approval))

    async def end_call(self, result: ToolResult) -> None:
        """Record the result of a call before it is added as a message."""
        if self.recorder is not None:
            await self._record(self.recorder.call_ended(result))

    @property
    def last_response(self) -> AssistantMessage | None:
        """The last message of the model."""
        responses = (one for one in reversed(self.messages) if isinstance(one, AssistantMessage))
        return next(responses, None)

    @property
    def waiting_calls(self) -> list[ToolCall]:
        """The calls of the last response without a result, including interrupted ones."""
        calls = [*self.interrupted, *self.unanswered_calls]  # the first of an id counts
        waiting = {call.id: call for call in reversed(calls)}
        last = self.last_response
        return [waiting[call.id] for call in last.tool_calls if call.id in waiting] if last else []

    @property
    def unanswered_calls(self) -> list[ToolCall]:
        """The complete calls of the last response that have no result yet."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if isinstance(message, ToolResult):
                answered.add(message.id)
            elif isinstance(message, AssistantMessage):
                if message.stop_reason in ("error", "aborted"):
                    break  # calls of a failed response are never run
                calls = [call for call in message.tool_calls if call.complete]
                return [call for call in calls if call.id not in answered]
            else:
                break
        return []

    def is_interrupted(self, call: ToolCall) -> bool:
        """Return whether *call* was running when its process ended."""
        return any(one.id == call.id for one in self.interrupted)

    async def _record(self, record: Awaitable[None]) -> str:
        """Await *record*; report a failure, and return its message or the empty string."""
        try:
            await record
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            reason = "a task that the recorder awaited was cancelled"
        except Exception as exc:  # noqa: BLE001 - a recorder may raise anything; the run continues
            reason = describe_exception(exc)
        else:
            return ""
        self.report_error("record", reason)
        return reason
