"""The answer of a turn: asked for until there is one, or until it is clear that there is not one.

An answer is retried when it failed in passing, when a watch stopped it, and once a prompt when the
conversation was too long for its model. Nothing of it is played twice: what was told of a failed
answer ends with its `message_end`, and is not a part of the conversation any more. Once a tool has
run for an answer, that answer stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final

from msgspec import Struct, field, structs

from penstock.agent.cancellation import CancelToken, RunCancelledError, is_cancelled
from penstock.agent.compactor import Compacting
from penstock.agent.conversation import Conversation
from penstock.agent.events import (
    FindingMade,
    MessageStarted,
    MessageUpdated,
    RetryEnded,
    RetryStarted,
)
from penstock.agent.recovery import empty_answer, is_empty, overflowed
from penstock.agent.settings import MAX_INTERRUPTIONS, AgentSettings
from penstock.agent.tool_calls import Emit, ToolCallBatch, ToolPolicy
from penstock.agent.watch import Finding, Watch, Watches
from penstock.events import Done, Event, Failed, MessageStart, ToolCallEnd
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, ToolResult
from penstock.models.base import Model
from penstock.request import Message, Request, UserMessage
from penstock.streams.errors import error_of, truncated
from penstock.streams.pump import Record

# One answer of the model: asked for, passed on as it comes, and stopped where it has to be.
#
# Every event of the stream is shown to the watches, folded into the one live message and told.
# The answer ends with its terminal event, with an abort, or with a finding; in each case the
# message is valid: open blocks are closed, a call that was cut is incomplete.


ANSWER_ABORTED: Final = "Request was aborted"

OnCall = Callable[[ToolCall], None]
"""Is told of a call as soon as it is complete."""


class ModelResponse(Struct):
    """What came: the final message, the finding that stopped it, and those that stopped nothing."""

    message: AssistantMessage
    finding: Finding | None = None
    reminders: list[Finding] = field(default_factory=list)


class TurnReader:
    """Reads the answers of one run."""

    def __init__(self, watches: Watches, interrupt: CancelToken, emit: Emit) -> None:
        self._watches = watches
        self._interrupt = interrupt
        self._emit = emit
        self._reminders: list[Finding] = []
        self.may_stop = True
        """Whether a finding may stop an answer; one that may not is told after the turn."""

    async def read(self, model: Model, request: Request, on_call: OnCall) -> ModelResponse:
        """Ask *model*; return its answer, whatever became of it."""
        self._watches.each(lambda watch: watch.answer_started())
        self._reminders = []
        passing = _Passing(self._emit)
        finding = None
        try:
            async with self._interrupt.guard():
                finding = await self._pass_on(model, request, passing, on_call)
        except RunCancelledError:
            pass
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            passing.fail(ErrorInfo("what the model waited for was cancelled", "transport"))
        except Exception as exc:  # noqa: BLE001 - whatever it is, the answer failed
            passing.fail(error_of(exc))
        passing.fail(self._why(finding))
        return ModelResponse(passing.record.message, finding, self._reminders)

    def _why(self, finding: Finding | None) -> ErrorInfo:
        if finding is not None:
            return ErrorInfo(f"stopped by {', '.join(finding.names)}", "aborted", finding.source)
        return ErrorInfo(ANSWER_ABORTED, "aborted") if self._interrupt.fired else truncated()

    async def _pass_on(
        self, model: Model, request: Request, passing: _Passing, on_call: OnCall
    ) -> Finding | None:
        async with aclosing(model.batches(request)) as incoming:
            async for batch in incoming:
                for event in batch:
                    self._interrupt.check()
                    finding = self._watch(event)
                    passing.add(event)
                    if finding is not None:
                        return finding
                    if isinstance(event, ToolCallEnd) and event.call.complete:
                        on_call(event.call)
        return None

    def _watch(self, event: Event) -> Finding | None:
        """Show *event* to the watches; return the finding that stops the answer."""
        stops = self.may_stop and not isinstance(event, Done | Failed)
        for finding in self._watches.see(event):
            if finding.interrupts and stops:
                return finding
            self._reminders.append(finding)
        return None


class _Passing:
    """Folds events and tells them."""

    def __init__(self, emit: Emit) -> None:
        self.record = Record()
        self._emit = emit
        self._is_started = False

    def add(self, event: Event) -> None:
        """Fold *event* and tell it; the end of the message is told by whoever closes it."""
        for passed in self.record.add(event):
            self._tell(passed)

    def fail(self, error: ErrorInfo) -> None:
        """End what is not ended."""
        if not self.record.ended:
            for passed in self.record.fail(error):
                self._tell(passed)

    def _tell(self, event: Event) -> None:
        if not self._is_started:
            self._is_started = True
            self._emit(MessageStarted(self.record.message))
        if not isinstance(event, MessageStart | Done | Failed):
            self._emit(MessageUpdated(event, self.record))


Remedy = Callable[[], Awaitable[bool]]
"""What is done before an answer is retried; tells whether it shall be."""


class Turn:
    """Asks the model of one run, and answers the calls of what it says."""

    def __init__(
        self,
        setup: AgentSettings,
        conversation: Conversation,
        interrupt: CancelToken,
        policy: ToolPolicy,
        watches: Watches,
    ) -> None:
        self.system = setup.system
        self.reminders: list[Finding] = []
        """Findings that stopped nothing; the model is told of them after the turn."""
        self.calls = ToolCallBatch(policy)
        """The calls of the answer that came last."""
        self.compacting = Compacting(setup, conversation, interrupt)
        self._setup = setup
        self._conversation = conversation
        self._interrupt = interrupt
        self._policy = policy
        self._watches = watches
        self._model = setup.model.without_retries()  # the run itself tries again, and says so
        self._reader = TurnReader(watches, interrupt, conversation.emit)
        self._is_open = False  # the calls of that answer are still to be answered
        self._has_answered = False  # in this run
        self._findings = 0
        self._failures = 0  # of this turn
        self._retries = 0

    async def answer(self) -> AssistantMessage:
        """Return the answer of a turn, final and written down; it may have failed."""
        self._failures = self._retries = 0
        while True:
            answer = await self._ask()
            message = answer.message
            if answer.finding is not None:
                await self._heed(answer.finding, message)
                if not self._interrupt.fired:
                    continue
            elif await self._is_to_be_asked_again(answer):
                continue
            self._tell_end(message)
            return message

    # --- one try ---

    async def _ask(self) -> ModelResponse:
        self.calls = calls = ToolCallBatch(self._policy)
        try:
            async with self._interrupt.guard():
                request = await self._request()
        except RunCancelledError:
            request = self._setup.request  # which is not sent: the reader sees the abort first
        on_call = calls.start if self._setup.eager else _ignore
        return await self._reader.read(self._model, request, on_call)

    async def _request(self) -> Request:
        hooks, complain = self._setup.hooks, self._conversation.complain
        shown = await hooks.ask("context", list(self._conversation.messages), complain)
        template = self._setup.request
        request = structs.replace(
            template,
            model=template.model or self._setup.model.name,
            system=self.system,
            messages=_messages(shown, self._conversation),
            tools=[tool.tool for tool in self._setup.tools],
            # A call that is demanded is demanded once: else the agent could never end.
            tool_choice=None if self._has_answered else template.tool_choice,
            stream=True,
            include_usage=True,
        )
        changed = await hooks.ask("before_provider_request", request, complain)
        return changed if isinstance(changed, Request) else request

    # --- findings ---

    async def _heed(self, finding: Finding, message: AssistantMessage) -> None:
        """Drop or keep what had come, tell the model what was found, and let it try again."""
        conversation = self._conversation
        self._is_open = finding.keep or self.calls.started  # what tools did cannot be undone
        await conversation.close(message, kept=self._is_open)
        await self.settle(message, f"Stopped by {', '.join(finding.names)}.")
        conversation.emit(FindingMade(finding.source, finding.names, finding.text, True))
        await conversation.note(finding)
        await conversation.say(UserMessage(finding.text, finding.source))
        self._findings += 1
        if self._findings >= MAX_INTERRUPTIONS:
            self._reader.may_stop = False

    # --- calls ---

    async def settle(self, message: AssistantMessage, reason: str) -> list[ToolResult]:
        """Answer every call of *message* that has not run with *reason*; say all results.

        Of an answer that was dropped, or settled before, there is nothing to say.
        """
        if not self._is_open:
            return []
        return await self._say(await self.calls.settle(message, reason))

    async def collect(self, message: AssistantMessage) -> list[ToolResult]:
        """Wait for the calls of *message*; say their results, in the order of the calls."""
        return await self._say(await self.calls.results(message))

    async def _say(self, results: list[ToolResult]) -> list[ToolResult]:
        self._is_open = False
        for result in results:
            await self._conversation.say(result)
            self._watches.each(partial(_tell_result, result))
        return results

    # --- failures ---

    async def _is_to_be_asked_again(self, answer: ModelResponse) -> bool:
        """Close an answer, and do what makes it worth to ask for another, if anything does."""
        message = answer.message
        remedy = self._remedy(message)
        self._is_open = remedy is None
        await self._conversation.close(message, kept=self._is_open)
        if remedy is None:
            self._has_answered = True
            self.reminders += answer.reminders
            return False
        if await remedy():
            return True
        self._conversation.new.append(message)  # not kept, but what the run came to
        return False

    def _remedy(self, message: AssistantMessage) -> Remedy | None:
        """Find what makes it worth to ask again; there is nothing for an answer that stands."""
        error = _fault(message)
        if error is None or self._interrupt.fired or self.calls.started:
            return None
        if overflowed(message):
            return self.compacting.remedy()
        self._failures += 1
        delay = self._setup.retry.delay(self._failures, error, self._setup.chance())
        return None if delay is None else partial(self._wait, delay, error)

    async def _wait(self, delay: float, error: ErrorInfo) -> bool:
        self._retries += 1
        attempts = self._setup.retry.attempts
        self._conversation.emit(RetryStarted(self._retries, attempts, delay, error))
        try:
            async with self._interrupt.guard():
                await asyncio.sleep(delay)
        except RunCancelledError:
            return False
        return True

    def _tell_end(self, message: AssistantMessage) -> None:
        """Tell how it ended, where something was tried again."""
        if self._retries:
            fault = message.error if message.stop_reason == "aborted" else _fault(message)
            self._conversation.emit(RetryEnded(fault is None, self._retries, fault))


def _fault(message: AssistantMessage) -> ErrorInfo | None:
    """Say what is wrong with an answer that nobody stopped."""
    if message.stop_reason == "error":
        return message.error or ErrorInfo("the answer failed, and nobody said why")
    return empty_answer() if is_empty(message) else None


def _tell_result(result: ToolResult, watch: Watch) -> None:
    watch.tool_ended(result)


def _ignore(call: ToolCall) -> None:
    """Let *call* wait until the answer is whole."""


def _messages(shown: object, conversation: Conversation) -> list[Message]:
    if isinstance(shown, Sequence) and not isinstance(shown, str):
        return list(shown)
    return list(conversation.messages)
