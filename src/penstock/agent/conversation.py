"""The conversation of an agent: what the model is shown, and everybody who is told of it.

A message is final when it has been written down: then it is told with `message_end`, and not
before. A record that fails is a complaint; the conversation continues in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Protocol, runtime_checkable

from penstock.agent.approval import Approval
from penstock.agent.cancellation import is_cancelled
from penstock.agent.events import AgentEvent, ExtensionErrorEvent, MessageEnded, MessageStarted
from penstock.agent.subscribers import EventQueue, Subscriber, Subscription
from penstock.agent.usage import Spending
from penstock.agent.watch import Finding
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.request import Message

# Who writes down what an agent's conversation consists of: a session is one.
#
# The agent waits for it: what was told with `message_end` has been written. A record that fails
# is told as a complaint, and the run continues; only a call whose beginning cannot be written is
# not run.


class Recorder(Protocol):
    """Writes down the conversation as it becomes final."""

    async def message(self, message: Message, *, kept: bool = True) -> None:
        """Write a final message; one that is not *kept* is not a part of the context."""

    async def finding(self, finding: Finding) -> None:
        """Write which rules have spoken; what they said comes as a message."""

    async def compacted(self, summary: str, kept: int, tokens: int) -> None:
        """Write that all but the last *kept* messages of the context are now *summary*.

        *tokens* is how long the context was before.
        """


@runtime_checkable
class CallRecorder(Recorder, Protocol):
    """A recorder that also writes down which calls began, so that none runs twice after a crash."""

    async def call_started(self, call: ToolCall, approval: Approval) -> None:
        """Write that *call* is about to run with the arguments that it has; why says *approval*.

        What this raises keeps the call from running.
        """

    async def call_ended(self, result: ToolResult) -> None:
        """Write what a call came to, as soon as that is known; it comes as a message later."""


class Conversation:
    """What was said, who writes it down, and who looks on."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.messages = list(messages)
        self.recorder: Recorder | None = None
        self.spending = Spending()
        self.interrupted: list[ToolCall] = []
        """Calls of the last answer that had begun when their process ended."""
        self.new: list[Message] = []
        """What the run that continues has added."""
        self.outlet: EventQueue | None = None  # of the run that continues
        self._subscriptions: list[Subscription] = []

    # --- who looks on ---

    def emit(self, event: AgentEvent) -> None:
        """Tell everybody who looks on."""
        if self.outlet is not None:
            self.outlet.put(event)
        for subscription in self._subscriptions:
            subscription.put(event)

    def complain(self, source: str, message: str) -> None:
        """Tell that something beside the run failed."""
        self.emit(ExtensionErrorEvent(source, message))

    def subscribe(self, tell: Subscriber) -> Subscription:
        """Return *tell* of everything from now on."""
        subscription = Subscription(tell)
        self._subscriptions = [*self._subscriptions, subscription]
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Tell no more."""
        subscription.end()
        self._subscriptions = [one for one in self._subscriptions if one is not subscription]

    async def drained(self) -> None:
        """Wait until every subscriber has been told everything."""
        for subscription in self._subscriptions:
            await subscription.drained()

    # --- what is said ---

    def begin(self) -> None:
        """Begin a run."""
        self.new = []

    async def say(self, message: Message) -> None:
        """Add a message that is there at once."""
        self.emit(MessageStarted(message))
        await self.close(message)

    async def close(self, message: Message, *, kept: bool = True) -> None:
        """Add a message that is final now; one that is not *kept* is only written down."""
        if isinstance(message, AssistantMessage):
            self.spending.add(message.usage, "answer" if kept else "failure")
        if kept:
            self.messages.append(message)
            self.new.append(message)
            if isinstance(message, ToolResult):
                self.interrupted = [one for one in self.interrupted if one.id != message.id]
        if self.recorder is not None:
            await self._record(self.recorder.message(message, kept=kept))
        self.emit(MessageEnded(message, kept))

    async def note(self, finding: Finding) -> None:
        """Write down that a watch has spoken."""
        if self.recorder is not None:
            await self._record(self.recorder.finding(finding))

    # --- calls ---

    async def start_call(self, call: ToolCall, approval: Approval) -> str:
        """Write down that *call* begins; return why it could not be, or nothing."""
        if not isinstance(self.recorder, CallRecorder):
            return ""
        return await self._record(self.recorder.call_started(call, approval))

    async def end_call(self, result: ToolResult) -> None:
        """Write down what a call came to, before it is said."""
        if isinstance(self.recorder, CallRecorder):
            await self._record(self.recorder.call_ended(result))

    @property
    def waiting(self) -> list[ToolCall]:
        """The calls of the last answer that have no result, those that were interrupted too."""
        calls = [*self.interrupted, *self.unanswered]
        found = {call.id: call for call in reversed(calls)}
        last = self.last_answer
        order = [call.id for call in last.tool_calls] if last is not None else []
        return [found[id_] for id_ in order if id_ in found]

    def is_interrupted(self, call: ToolCall) -> bool:
        """Return whether *call* had begun when its process ended."""
        return any(one.id == call.id for one in self.interrupted)

    async def compact(self, shorter: list[Message], summary: str, kept: int, tokens: int) -> None:
        """Go on with *shorter*: *summary*, and the last *kept* messages."""
        self.messages[:] = shorter
        if self.recorder is not None:
            await self._record(self.recorder.compacted(summary, kept, tokens))

    @property
    def last_answer(self) -> AssistantMessage | None:
        """What the model said last."""
        answers = (one for one in reversed(self.messages) if isinstance(one, AssistantMessage))
        return next(answers, None)

    @property
    def unanswered(self) -> list[ToolCall]:
        """The complete calls of the last answer that have no result yet, and may have one."""
        answered: set[str] = set()
        for message in reversed(self.messages):
            if isinstance(message, ToolResult):
                answered.add(message.id)
            elif isinstance(message, AssistantMessage):
                if message.stop_reason in ("error", "aborted"):
                    break  # calls of an answer that broke are never run
                calls = [call for call in message.tool_calls if call.complete]
                return [call for call in calls if call.id not in answered]
            else:
                break
        return []

    async def _record(self, writing: Awaitable[None]) -> str:
        """Wait until something is written; return why it could not be, which is a complaint."""
        try:
            await writing
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            why = "what it waited for was cancelled"
        except Exception as exc:  # noqa: BLE001 - whatever it is, the run goes on
            why = f"{type(exc).__name__}: {exc}"
        else:
            return ""
        self.complain("record", why)
        return why
