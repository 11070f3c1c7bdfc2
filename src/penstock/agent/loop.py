"""One run of an agent: turns of responses and tools, until there is nothing left to do.

::

    messages ─► response ─► tools ─► results ─┐
       ▲                                      │ calls, steering messages or reminders
       └──────────────────────────────────────┘ otherwise follow-ups; otherwise the end

An abort stops every wait of the run, but messages that are final are recorded first, and the events
of the turn are complete. A prompt is added in any case. Queued messages leave their queue only when
they are added, so the next run gets those that this one did not reach.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Literal

from msgspec import structs

from penstock.agent.approval import Resolutions
from penstock.agent.cancellation import CancelToken, RunCancelledError, is_cancelled
from penstock.agent.conversation import Conversation
from penstock.agent.events import AgentEnded, AgentStarted, FindingMade, TurnEnded, TurnStarted
from penstock.agent.hooks import Briefing, Cancel, GuardSet
from penstock.agent.output.task import OutputTask
from penstock.agent.run import RunResult
from penstock.agent.settings import AgentSettings, PriceList
from penstock.agent.tool_calls import (
    CALL_ABORTED,
    CUT_OFF,
    INTERRUPTED,
    SKIPPED,
    ToolCallBatch,
    ToolPolicy,
)
from penstock.agent.turn import RESPONSE_ABORTED, Turn
from penstock.apis.errors import error_from_exception
from penstock.messages import AssistantMessage, ErrorInfo, ToolResult, sum_usage
from penstock.request import Message, UserMessage

UNDECIDED: Final = "No decision was made about the call, so it was not run."

Order = Literal["one", "all"]
"""Whether queued messages are added one per turn, or all at once."""


class MessageQueue:
    """Messages for a later turn; those that are not taken wait for the next run."""

    def __init__(self, order: Order = "one") -> None:
        self.order = order
        self._waiting: deque[UserMessage] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: UserMessage) -> None:
        """Add *message*."""
        self._waiting.append(message)

    def take(self) -> list[UserMessage]:
        """Remove and return the messages for the next turn."""
        count = min(1, len(self)) if self.order == "one" else len(self)
        return [self._waiting.popleft() for _ in range(count)]

    def clear(self) -> list[UserMessage]:
        """Remove and return all messages."""
        return [self._waiting.popleft() for _ in range(len(self))]


class Loop:
    """Works on one prompt, or resumes where a run ended."""

    def __init__(
        self,
        settings: AgentSettings,
        conversation: Conversation,
        steering: MessageQueue,
        follow_ups: MessageQueue,
        deps: object = None,
    ) -> None:
        self.cancel = CancelToken()
        self._settings = settings
        self._conversation = conversation
        self._emit = conversation.emit
        self._steering = steering
        self._follow_ups = follow_ups
        tools = {tool.name: tool for tool in settings.tools}
        self._output: OutputTask | None = None
        if settings.output is not None:
            self._output = OutputTask(
                settings.output,
                settings.model,
                has_tools=bool(tools),
                refused=settings.refused_modes,
            )
            tools[settings.output.name] = self._output.tool
        self._guards = GuardSet(settings.guards, conversation.report_error)
        deps = settings.deps if deps is None else deps
        self._policy = ToolPolicy(
            tools, settings.approve, settings.hooks, conversation, deps, settings.telemetry
        )
        self._prices = PriceList(settings.catalog, settings.model.name)
        self._limits = settings.limits
        if self._limits.turns is None:
            self._limits = structs.replace(self._limits, turns=settings.max_turns)
        self._is_late = False
        self._turn = Turn(
            settings, conversation, self.cancel, self._policy, self._guards, self._output
        )
        self._turns = 0

    # Fire the token first: whatever ends now must see that nothing may follow it.
    def stop(self) -> None:
        """Abort the run: the response, the tools, and whatever else it waits for."""
        self.cancel.fire()
        self._turn.calls.stop(CALL_ABORTED, hard=True)

    def _stop_late(self) -> None:
        """Abort the run because its time is over."""
        self._is_late = True
        self.stop()

    def steer(self) -> None:
        """Handle a steering message: running tools are stopped unless ``steering="later"``."""
        if self._settings.steering == "now":
            self._turn.calls.stop(SKIPPED)

    async def run(
        self, prompts: Sequence[UserMessage], decisions: Resolutions | None = None
    ) -> RunResult[Any]:
        """Work until there is nothing left to do."""
        with self._settings.telemetry.start_run(self._settings.model) as span:
            result = await self._run(prompts, decisions)
            span.finish(sum_usage(usage for _, usage in self._conversation.spent), result.error)
            return result

    async def _run(
        self, prompts: Sequence[UserMessage], decisions: Resolutions | None
    ) -> RunResult[Any]:
        self._conversation.new, self._conversation.spent = [], []
        self._emit(AgentStarted())
        timer = None
        if self._limits.seconds is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._limits.seconds, self._stop_late)
        self._guards.call(lambda guard: guard.prompt_started())
        error = None
        try:
            error = await self._work(prompts, decisions)
        # Whatever happens, `agent_end` is emitted, so that consumers never wait for it in vain.
        except RunCancelledError:
            error = ErrorInfo(RESPONSE_ABORTED, "aborted")
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            error = ErrorInfo("a task that the run awaited was cancelled", "transport")
        except Exception as exc:  # noqa: BLE001 - whatever it is, the run ends with its event
            error = error_from_exception(exc)
        finally:
            if timer is not None:
                timer.cancel()
        if self._is_late and error is not None and error.kind == "aborted":
            reason = f"the agent stopped after {self._limits.seconds:g} seconds"
            error = ErrorInfo(reason, "aborted", "time")
        new, paid = self._conversation.new, self._prices.sum(self._conversation.spent)
        self._emit(AgentEnded(new, self._turn.calls.deferred, error))
        if self._output is not None:
            has_value = error is None and self._output.has_value
            value = self._output.value if has_value else None
            return RunResult(new, error, value, has_value, paid)
        result: RunResult[Any] = RunResult(new, error)
        has_text = error is None and not self._turn.calls.deferred
        return RunResult(new, error, result.text, has_text, paid)

    # --- turns ---

    async def _work(
        self, prompts: Sequence[UserMessage], decisions: Resolutions | None
    ) -> ErrorInfo | None:
        messages = await self._prepare_prompts(prompts, is_new=decisions is None)
        if prompts and not messages:
            return None  # a hook cancelled the prompt
        response = None if decisions is None else await self._resume_calls(decisions)
        while response is None or self._may_continue(response):
            is_prompt = bool(messages)
            if not is_prompt:
                self.cancel.check()
                queued = self._steering or self._turn.reminders or self._follow_ups
                if not (queued or self._needs_response(response)):
                    return None
            if error := self._limits.find_excess(
                self._turns, self._conversation.spent, self._prices
            ):
                return error
            # Before the new messages are added: a summary must not contain what the model has not
            # seen.
            await self._turn.compactor.compact_if_due()
            messages += await self._take_reminders()
            messages += self._steering.take()
            # Steering comes before follow-ups: a follow-up is for when the run would otherwise end.
            if not messages and not self._needs_response(response):
                messages += self._follow_ups.take()
            response = await self._take_turn(messages)
            messages = self._check_output(response)
            if self._output is not None and self._output.error is not None:
                return self._output.error
        self.cancel.check()
        return response.error

    async def _take_turn(self, messages: Sequence[Message]) -> AssistantMessage:
        self._start_turn()
        for message in messages:
            await self._conversation.add(message)
        response, calls = await self._turn.respond(), self._turn.calls
        if response.stop_reason in ("error", "aborted"):
            results = await self._turn.settle(response, _explain_failure(response))
        else:
            # The message arrived during the response, when no tool was running yet.
            if self._steering and self._settings.steering == "now":
                calls.stop(SKIPPED)
            if self.cancel.fired:
                calls.stop(CALL_ABORTED, hard=True)
            for call in response.tool_calls:
                if not call.complete:
                    calls.refuse(call, CUT_OFF)
                elif not calls.has(call):
                    calls.start(call)
            results = await self._turn.collect(response)
        self._end_turn(response, results)
        return response

    def _start_turn(self) -> None:
        self._turns += 1
        self._emit(TurnStarted(self._turns))
        self._guards.call(lambda guard: guard.turn_started())

    def _end_turn(self, response: AssistantMessage, results: list[ToolResult]) -> None:
        self._guards.call(lambda guard: guard.turn_ended())
        self._emit(TurnEnded(self._turns, response, results))

    # --- the start of a run ---

    async def _prepare_prompts(
        self, prompts: Sequence[UserMessage], *, is_new: bool
    ) -> list[Message]:
        """Pass the prompts through the hooks; return the messages to add.

        A prompt instead of decisions about calls that wait denies them.
        """
        messages: list[Message] = list(prompts)
        try:
            async with self.cancel.guard():
                messages = await self._apply_prompt_hooks(prompts)
        except RunCancelledError:
            pass
        # Most APIs reject a conversation in which a call has no result.
        undecided: list[Message] = []
        if messages and is_new:
            for call in self._conversation.waiting_calls:
                is_interrupted = self._conversation.is_interrupted(call)
                reason = INTERRUPTED if is_interrupted else UNDECIDED
                undecided.append(ToolResult(call.id, call.name, reason, is_error=True))
        return [*undecided, *messages]

    async def _apply_prompt_hooks(self, prompts: Sequence[UserMessage]) -> list[Message]:
        hooks, report = self._settings.hooks, self._conversation.report_error
        messages: list[Message] = []
        for prompt in prompts:
            changed = await hooks.run("input", prompt, report)
            if not isinstance(changed, Cancel):
                messages.append(changed if isinstance(changed, Message) else prompt)
        briefing = Briefing(self._turn.system, messages)
        changed = await hooks.run("before_agent_start", briefing, report)
        if isinstance(changed, Briefing):
            self._turn.system, messages = changed.system, changed.messages
        return messages

    async def _resume_calls(self, decisions: Resolutions) -> AssistantMessage | None:
        """Run the calls that waited for a decision, as a turn of their own."""
        conversation = self._conversation
        waiting, response = conversation.waiting_calls, conversation.last_response
        if not waiting or response is None:
            return None
        self._start_turn()
        calls = self._turn.calls = ToolCallBatch(self._policy, decisions)
        if self.cancel.fired:
            calls.stop(CALL_ABORTED, hard=True)
        for call in waiting:
            calls.resume(call, interrupted=conversation.is_interrupted(call))
        results = await self._turn.collect(structs.replace(response, content=list(waiting)))
        self._end_turn(response, results)
        # The calls are settled, so an error of the response does not matter any more.
        return structs.replace(response, stop_reason="tool_use", error=None)

    # --- the next turn ---

    def _may_continue(self, response: AssistantMessage) -> bool:
        failed = response.stop_reason in ("error", "aborted")
        return not (failed or self.cancel.fired or self._turn.calls.deferred)

    def _needs_response(self, response: AssistantMessage | None) -> bool:
        """Return whether the model has to respond: to results of its calls, or to a message."""
        if response is not None:
            is_final = self._output is not None and self._output.has_value
            return bool(response.tool_calls) and not is_final
        messages = self._conversation.messages
        return bool(messages) and not isinstance(messages[-1], AssistantMessage)

    def _check_output(self, response: AssistantMessage) -> list[Message]:
        """Read the typed output of *response*; return the message that sends it back, if any."""
        if self._output is None or not self._may_continue(response):
            return []
        queued = self._steering or self._turn.reminders or self._follow_ups
        complaint = self._output.check(response, is_last=not queued)
        return [UserMessage(complaint, "output")] if complaint else []

    async def _take_reminders(self) -> list[Message]:
        """Return the findings that stopped no response as messages, one per source."""
        reminders, self._turn.reminders = self._turn.reminders, []
        for finding in reminders:
            self._emit(FindingMade(finding.source, finding.names, finding.text, False))
            await self._conversation.record_finding(finding)
        messages: list[Message] = []
        # One message per source: the source of a message is recorded and shown.
        for source in ("rule", "guard"):
            texts = [finding.text for finding in reminders if finding.source == source]
            if any(texts):
                messages.append(UserMessage("\n\n".join(texts), source))
        return messages


def _explain_failure(response: AssistantMessage) -> str:
    is_aborted = response.stop_reason == "aborted"
    reason = f"Tool execution {'was aborted' if is_aborted else 'failed due to an error'}"
    details = response.error.message if response.error is not None else ""
    return f"{reason}: {details}" if details else f"{reason}."
