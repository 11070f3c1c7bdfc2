"""One run of an agent: turns of answers and tools, until there is nothing left to do.

::

    said ─► answer ─► tools ─► results ─┐
      ▲                                 │ calls, or somebody steered
      └─────────────────────────────────┘ else reminders, follow-ups; else the end

A run that is aborted stops whatever it waits for, but what is final is written down first, and its
turn is told to its end. Messages that wait and were not said stay where they are, for the next run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import structs

from penstock.agent.answering import ABORTED
from penstock.agent.approval import Decision
from penstock.agent.asking import Asking
from penstock.agent.calls import CUT, SKIPPED, Calls
from penstock.agent.conversation import Conversation
from penstock.agent.events import AgentEnded, AgentStarted, FindingMade, TurnEnded, TurnStarted
from penstock.agent.executing import ABORTED as TOOL_ABORTED
from penstock.agent.executing import Policy
from penstock.agent.hooks import Briefing, Cancel
from penstock.agent.interrupting import Interrupt, Interrupted
from penstock.agent.queues import Queue
from penstock.agent.setup import Setup
from penstock.messages import AssistantMessage, ErrorInfo, Text, ToolCall, ToolResult
from penstock.requests import Message, UserMessage
from penstock.streams.failures import error_of

UNDECIDED: Final = "Nobody decided about the call, so it was not run."


class Loop:
    """Works on one prompt, or goes on where a run ended."""

    def __init__(
        self, setup: Setup, conversation: Conversation, steering: Queue, follow_ups: Queue
    ) -> None:
        self.interrupt = Interrupt()
        self._setup = setup
        self._conversation = conversation
        self._emit = conversation.emit
        self._steering = steering
        self._follow_ups = follow_ups
        tools = {tool.name: tool for tool in setup.tools}
        self._policy = Policy(
            tools, setup.approve, setup.hooks, conversation.emit, conversation.complain
        )
        self._asking = Asking(setup, conversation, self.interrupt, self._policy)
        self._turn = 0

    # --- from outside ---

    def stop(self) -> None:
        """End the run: the answer, the tools, whatever it waits for."""
        self.interrupt.fire()
        self._asking.calls.stop(TOOL_ABORTED)

    def steer(self) -> None:
        """See that somebody steers: tools that run may be stopped for it."""
        if self._setup.steering == "now":
            self._asking.calls.stop(SKIPPED)

    async def run(
        self, prompts: Sequence[UserMessage], decisions: Mapping[str, Decision] | None = None
    ) -> list[Message]:
        """Work until there is nothing left to do; give the messages that are new."""
        self._conversation.begin()
        self._emit(AgentStarted())
        for watch in self._setup.watches:
            watch.prompt_started()
        error = None
        try:
            error = await self._work(prompts, decisions)
        except Interrupted:
            error = ErrorInfo(ABORTED, "aborted")
        except Exception as exc:  # noqa: BLE001 - whatever it is, the run is told to its end
            error = error_of(exc)
        deferred = self._asking.calls.deferred
        self._emit(AgentEnded(self._conversation.new, deferred, error))
        return self._conversation.new

    # --- turns ---

    async def _work(
        self, prompts: Sequence[UserMessage], decisions: Mapping[str, Decision] | None
    ) -> ErrorInfo | None:
        said: Sequence[Message] = await self._brief(prompts)
        if prompts and not said:
            return None  # a hook has dealt with it
        if said:
            said = [*said, *self._steering.take()]
        answer = await self._resume(decisions) if decisions is not None else None
        while answer is None or self._goes_on(answer):
            said = said or await self._next(answer)
            if not said and not self._calls_answered(answer):
                return None
            await self._asking.compacting.compact_if_due()
            if self._turn == self._setup.max_turns:
                return ErrorInfo(f"the agent stopped after {self._turn} turns", "aborted", "turns")
            answer = await self._take_turn(said)
            said = ()
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
            results = await self._run_tools(answer, self._asking.calls)
        self._end_turn(answer, results)
        return answer

    def _begin_turn(self) -> None:
        self._turn += 1
        self._emit(TurnStarted(self._turn))
        for watch in self._setup.watches:
            watch.turn_started()

    def _end_turn(self, answer: AssistantMessage, results: list[ToolResult]) -> None:
        for watch in self._setup.watches:
            watch.turn_ended()
        self._emit(TurnEnded(self._turn, answer, results))

    async def _run_tools(self, answer: AssistantMessage, calls: Calls) -> list[ToolResult]:
        if self._steering and self._setup.steering == "now":
            calls.stop(SKIPPED)
        if self.interrupt.fired:
            calls.stop(TOOL_ABORTED)
        for call in answer.tool_calls:
            if not call.complete:
                calls.refuse(call, CUT)
            elif not calls.has(call):
                calls.start(call)
        return await self._asking.collect(answer)

    # --- what comes first, and next ---

    async def _brief(self, prompts: Sequence[UserMessage]) -> list[Message]:
        """Show the prompts to the hooks; give what is to be said."""
        hooks, complain = self._setup.hooks, self._conversation.complain
        said: list[Message] = []
        async with self.interrupt.guard():
            for prompt in prompts:
                given = await hooks.ask("input", prompt, complain)
                if not isinstance(given, Cancel):
                    said += [given] if isinstance(given, Message) else [prompt]
            briefing = await hooks.ask(
                "before_agent_start", Briefing(self._asking.system, said), complain
            )
        if isinstance(briefing, Briefing):
            self._asking.system, said = briefing.system, briefing.messages
        unanswered = self._conversation.unanswered if said else []
        results: list[Message] = [_undecided(call) for call in unanswered]
        return [*results, *said]

    async def _resume(self, decisions: Mapping[str, Decision]) -> AssistantMessage | None:
        """Run the calls that waited for a decision, as a turn of their own."""
        waiting, answer = self._conversation.unanswered, self._conversation.last_answer
        if not waiting or answer is None:
            return None
        self._begin_turn()
        calls = self._asking.calls = Calls(self._policy, decisions)
        rest = structs.replace(answer, content=list(waiting))
        results = await self._run_tools(rest, calls)
        self._end_turn(answer, results)
        return answer

    async def _next(self, answer: AssistantMessage | None) -> Sequence[Message]:
        """Take what is to be said in the next turn; nothing may be left."""
        if said := self._steering.take():
            return said
        if answer is None or self._calls_answered(answer):
            return ()
        return await self._reminded() or self._follow_ups.take()

    async def _reminded(self) -> list[Message]:
        """Give what watches found and did not stop an answer for."""
        reminders, self._asking.reminders[:] = list(self._asking.reminders), []
        for finding in reminders:
            self._emit(FindingMade(finding.source, finding.names, finding.text, False))
            await self._conversation.note(finding)
        text = "\n\n".join(finding.text for finding in reminders)
        return [UserMessage([Text(text)])] if text else []

    def _goes_on(self, answer: AssistantMessage) -> bool:
        failed = answer.stop_reason in ("error", "aborted")
        return not (failed or self.interrupt.fired or self._asking.calls.deferred)

    def _calls_answered(self, answer: AssistantMessage | None) -> bool:
        """Tell whether the model waits for nothing but to be asked again."""
        return answer is None or bool(answer.tool_calls)


def _broken(answer: AssistantMessage) -> str:
    was_aborted = answer.stop_reason == "aborted"
    why = "was aborted" if was_aborted else "failed due to an error"
    told = answer.error.message if answer.error is not None else ""
    return f"Tool execution {why}: {told}" if told else f"Tool execution {why}."


def _undecided(call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, UNDECIDED, is_error=True)
