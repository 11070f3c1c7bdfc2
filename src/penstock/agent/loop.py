"""One run of an agent: turns of answers and tools, until there is nothing left to do.

::

    said ─► answer ─► tools ─► results ─┐
      ▲                                 │ calls, or somebody steered, or a watch reminds
      └─────────────────────────────────┘ else follow-ups; else the end

A run that is aborted stops whatever it waits for, but what is final is written down first, and its
turn is told to its end. A prompt is said in any case; messages that wait leave their queue only to
be said, so those that a run did not come to are there for the next.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import structs

from penstock.agent.approval import Resolutions
from penstock.agent.cancellation import CancelToken, RunCancelledError, is_cancelled
from penstock.agent.conversation import Conversation
from penstock.agent.events import AgentEnded, AgentStarted, FindingMade, TurnEnded, TurnStarted
from penstock.agent.hooks import Briefing, Cancel
from penstock.agent.run import Outcome
from penstock.agent.settings import AgentSettings
from penstock.agent.tool_calls import (
    CALL_ABORTED,
    CUT,
    INTERRUPTED,
    SKIPPED,
    ToolCallBatch,
    ToolPolicy,
)
from penstock.agent.turn import ANSWER_ABORTED, Turn
from penstock.agent.watch import Watches
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, ToolResult
from penstock.request import Message, UserMessage
from penstock.streams.errors import error_of

# Messages that wait for their moment: what steers a run, and what follows it.


Order = Literal["one", "all"]
"""Whether waiting messages are said one a turn, or all at once."""


class MessageQueue:
    """Messages in the order in which they came; what is not taken stays for the next run."""

    def __init__(self, order: Order = "one") -> None:
        self.order = order
        self._waiting: deque[UserMessage] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: UserMessage) -> None:
        """Let *message* wait."""
        self._waiting.append(message)

    def take(self) -> list[UserMessage]:
        """Take what is to be said next; nothing where nothing waits."""
        count = min(1, len(self)) if self.order == "one" else len(self)
        return [self._waiting.popleft() for _ in range(count)]

    def clear(self) -> list[UserMessage]:
        """Take everything, to be shown or edited instead of said."""
        return [self._waiting.popleft() for _ in range(len(self))]


UNDECIDED: Final = "Nobody decided about the call, so it was not run."


class Loop:
    """Works on one prompt, or continues where a run ended."""

    def __init__(
        self,
        setup: AgentSettings,
        conversation: Conversation,
        steering: MessageQueue,
        follow_ups: MessageQueue,
    ) -> None:
        self.interrupt = CancelToken()
        self._setup = setup
        self._conversation = conversation
        self._emit = conversation.emit
        self._steering = steering
        self._follow_ups = follow_ups
        complain = conversation.complain
        tools = {tool.name: tool for tool in setup.tools}
        self._watches = Watches(setup.guards, complain)
        self._policy = ToolPolicy(tools, setup.approve, setup.hooks, conversation)
        self._asking = Turn(setup, conversation, self.interrupt, self._policy, self._watches)
        self._turn = 0

    # --- from outside ---

    def stop(self) -> None:
        """End the run: the answer, the tools, whatever it waits for."""
        self.interrupt.fire()
        self._asking.calls.stop(CALL_ABORTED, hard=True)

    def steer(self) -> None:
        """See that somebody steers: tools that run may be stopped for it."""
        if self._setup.steering == "now":
            self._asking.calls.stop(SKIPPED)

    async def run(
        self, prompts: Sequence[UserMessage], decisions: Resolutions | None = None
    ) -> Outcome:
        """Work until there is nothing left to do; say how that ended."""
        self._conversation.begin()
        self._emit(AgentStarted())
        self._watches.each(lambda watch: watch.prompt_started())
        error = None
        try:
            error = await self._work(prompts, decisions)
        except RunCancelledError:
            error = ErrorInfo(ANSWER_ABORTED, "aborted")
        except asyncio.CancelledError:
            if is_cancelled():
                raise
            error = ErrorInfo("what the run waited for was cancelled", "transport")
        except Exception as exc:  # noqa: BLE001 - whatever it is, the run is told to its end
            error = error_of(exc)
        deferred = self._asking.calls.deferred
        self._emit(AgentEnded(self._conversation.new, deferred, error))
        return Outcome(self._conversation.new, error)

    # --- turns ---

    async def _work(
        self, prompts: Sequence[UserMessage], decisions: Resolutions | None
    ) -> ErrorInfo | None:
        said = await self._brief(prompts, is_new=decisions is None)
        if prompts and not said:
            return None  # a hook has dealt with it
        answer = None if decisions is None else await self._resume(decisions)
        while answer is None or self._goes_on(answer):
            if not said:
                self.interrupt.check()
                if not self._has_more(answer):
                    return None
            if self._turn == self._setup.max_turns:
                return _out_of_turns(self._turn)
            await self._asking.compacting.compact_if_due()
            answer = await self._take_turn([*said, *await self._next(answer, is_prompt=bool(said))])
            said = []
        self.interrupt.check()
        return answer.error

    async def _take_turn(self, said: Sequence[Message]) -> AssistantMessage:
        self._begin_turn()
        for message in said:
            await self._conversation.say(message)
        answer = await self._asking.answer()
        if answer.stop_reason in ("error", "aborted"):
            results = await self._asking.settle(answer, _broken(answer))
        else:
            if self._steering and self._setup.steering == "now":
                self._asking.calls.stop(SKIPPED)
            results = await self._run_tools(answer, self._asking.calls)
        self._end_turn(answer, results)
        return answer

    def _begin_turn(self) -> None:
        self._turn += 1
        self._emit(TurnStarted(self._turn))
        self._watches.each(lambda watch: watch.turn_started())

    def _end_turn(self, answer: AssistantMessage, results: list[ToolResult]) -> None:
        self._watches.each(lambda watch: watch.turn_ended())
        self._emit(TurnEnded(self._turn, answer, results))

    async def _run_tools(self, answer: AssistantMessage, calls: ToolCallBatch) -> list[ToolResult]:
        if self.interrupt.fired:
            calls.stop(CALL_ABORTED, hard=True)
        for call in answer.tool_calls:
            if not call.complete:
                calls.refuse(call, CUT)
            elif not calls.has(call):
                calls.start(call)
        return await self._asking.collect(answer)

    # --- what comes first ---

    async def _brief(self, prompts: Sequence[UserMessage], *, is_new: bool) -> list[Message]:
        """Show the prompts to the hooks; return what is to be said.

        A prompt in place of decisions about calls that wait is a no to them.
        """
        said: list[Message] = list(prompts)
        try:
            async with self.interrupt.guard():
                said = await self._briefed(prompts)
        except RunCancelledError:
            pass
        waiting = self._conversation.waiting if said and is_new else []
        return [*map(self._undecided, waiting), *said]

    def _undecided(self, call: ToolCall) -> ToolResult:
        """Return the result of a call that a prompt takes the place of a decision about."""
        reason = INTERRUPTED if self._conversation.is_interrupted(call) else UNDECIDED
        return ToolResult(call.id, call.name, reason, is_error=True)

    async def _briefed(self, prompts: Sequence[UserMessage]) -> list[Message]:
        hooks, complain = self._setup.hooks, self._conversation.complain
        said: list[Message] = []
        for prompt in prompts:
            given = await hooks.ask("input", prompt, complain)
            if not isinstance(given, Cancel):
                said.append(given if isinstance(given, Message) else prompt)
        briefing = Briefing(self._asking.system, said)
        changed = await hooks.ask("before_agent_start", briefing, complain)
        if isinstance(changed, Briefing):
            self._asking.system, said = changed.system, changed.messages
        return said

    async def _resume(self, decisions: Resolutions) -> AssistantMessage | None:
        """Run the calls that waited for a decision, as a turn of their own."""
        conversation = self._conversation
        waiting, answer = conversation.waiting, conversation.last_answer
        if not waiting or answer is None:
            return None
        self._begin_turn()
        calls = self._asking.calls = ToolCallBatch(self._policy, decisions)
        if self.interrupt.fired:
            calls.stop(CALL_ABORTED, hard=True)
        for call in waiting:
            calls.resume(call, interrupted=conversation.is_interrupted(call))
        results = await self._asking.collect(structs.replace(answer, content=list(waiting)))
        self._end_turn(answer, results)
        # What the answer broke by is over: its calls are settled, and the model continues from
        # there.
        return structs.replace(answer, stop_reason="tool_use", error=None)

    # --- what comes next ---

    def _goes_on(self, answer: AssistantMessage) -> bool:
        failed = answer.stop_reason in ("error", "aborted")
        return not (failed or self.interrupt.fired or self._asking.calls.deferred)

    def _has_more(self, answer: AssistantMessage | None) -> bool:
        """Return whether there is a reason to ask the model again."""
        return (
            self._is_waiting(answer)
            or bool(self._steering)
            or bool(self._asking.reminders)
            or bool(self._follow_ups)
        )

    def _is_waiting(self, answer: AssistantMessage | None) -> bool:
        """Return whether the model has something to answer: the results of its calls, or us."""
        if answer is not None:
            return bool(answer.tool_calls)
        messages = self._conversation.messages
        return bool(messages) and not isinstance(messages[-1], AssistantMessage)

    async def _next(self, answer: AssistantMessage | None, *, is_prompt: bool) -> Sequence[Message]:
        """Take what is to be said in this turn beside a prompt; there may be nothing."""
        said: list[Message] = [*await self._reminded(), *self._steering.take()]
        if said or is_prompt or self._is_waiting(answer):
            return said
        return self._follow_ups.take()

    async def _reminded(self) -> list[Message]:
        """Return what watches found and did not stop an answer for."""
        reminders, self._asking.reminders = self._asking.reminders, []
        for finding in reminders:
            self._emit(FindingMade(finding.source, finding.names, finding.text, False))
            await self._conversation.note(finding)
        said: list[Message] = []
        for source in ("rule", "guard"):  # each by itself, for nobody says what another found
            texts = [finding.text for finding in reminders if finding.source == source]
            if any(texts):
                said.append(UserMessage("\n\n".join(texts), source))
        return said


def _out_of_turns(turns: int) -> ErrorInfo:
    return ErrorInfo(f"the agent stopped after {turns} turns", "aborted", "turns")


def _broken(answer: AssistantMessage) -> str:
    was_aborted = answer.stop_reason == "aborted"
    why = "was aborted" if was_aborted else "failed due to an error"
    told = answer.error.message if answer.error is not None else ""
    return f"Tool execution {why}: {told}" if told else f"Tool execution {why}."
