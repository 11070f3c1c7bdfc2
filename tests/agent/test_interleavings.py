"""Whatever comes when: steering, follow-ups, aborts and the timing of tools, at random.

The machine holds the model's words and the ends of its tools back and lets them go one by one, so
every order of things can happen. After each run its events obey the order law, nothing runs any
more, and every message that was given to the agent has been said once or still waits.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from agent.order import Order
from async_runner import VirtualLoop
from penstock import EventStream, Request
from penstock.agent import (
    Agent,
    AgentRetry,
    AgentRun,
    AgentTool,
    Allow,
    Compaction,
    Decision,
    Defer,
    Deny,
    Finding,
    Guard,
    Recorder,
    ToolContext,
    tool,
)
from penstock.builder import message_events
from penstock.errors import ToolError
from penstock.events import Event, Failed
from penstock.messages import (
    AssistantMessage,
    Content,
    ErrorInfo,
    Text,
    ToolCall,
    ToolResult,
)
from penstock.models.base import Batches, Model, Tap
from penstock.request import Message, UserMessage

EXAMPLES = int(os.environ.get("INTERLEAVINGS", "100"))
"""How many interleavings are tried: a thousand in `make e2e`."""

TICK = 0.001
"""How far the clock moves in a turn. It is not the real one: a busy machine would change what a
replayed interleaving does."""

DECISIONS = st.sampled_from([Allow(), Deny("no"), Defer()])
TOOLS = ("shared", "exclusive", "firm", "careful")


class Mood(Guard):
    """A watch that finds something when it is told to."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def check(self, event: Event) -> Finding | None:
        return self.findings.pop() if self.findings and event.type.endswith("_end") else None


class Slow(Recorder):
    """A record that takes its time."""

    async def message(self, message: Message, *, kept: bool = True) -> None:
        del message, kept
        await asyncio.sleep(0)

    async def finding(self, finding: Finding) -> None:
        del finding
        await asyncio.sleep(0)

    async def compacted(self, summary: str, kept: int, tokens: int) -> None:
        del summary, kept, tokens
        await asyncio.sleep(0)


class HeldModel(Model):
    """Says what it is told to, one event for each that is let go."""

    name = "held"

    def __init__(self) -> None:
        self.answers: list[AssistantMessage] = []
        self.held = asyncio.Semaphore(0)
        self.open = 0
        self._ids = iter(range(10**6))

    async def _events(self, message: AssistantMessage) -> AsyncGenerator[list[Event], None]:
        self.open += 1
        try:
            for event in message_events(message):
                await self.held.acquire()
                if isinstance(event, Failed):
                    raise ConnectionError("gone")
                yield [event]
        finally:
            self.open -= 1

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        del request, tap
        message = self.answers.pop(0) if self.answers else _say("All done.")
        for call in message.tool_calls:
            call.id = f"c{next(self._ids)}"
        return self._events(message)

    def stream(self, request: Request) -> EventStream:
        raise NotImplementedError

    async def complete(self, request: Request) -> AssistantMessage:
        del request
        return _say("In short.")

    async def close(self) -> None:
        pass


def _say(words: str, *names: str) -> AssistantMessage:
    content: list[Content] = [Text(words)]
    content += [ToolCall("", name, {}) for name in names]
    return AssistantMessage("m", "held", content, "tool_use" if names else "stop")


class Interleavings(RuleBasedStateMachine):
    """An agent, and everybody who can do something to it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.model = HeldModel()
        self.running: dict[asyncio.Future[bool], str] = {}
        self.crowded = False
        self.given: list[str] = []
        self.number = 0
        self.run: AgentRun | None = None
        self.order = Order()
        self.mood = Mood()
        self.decision: Decision = Allow()

    @initialize(
        eager=st.booleans(),
        steering=st.sampled_from(["now", "later"]),
        order=st.sampled_from(["one", "all"]),
        small=st.booleans(),
        decision=DECISIONS,
    )
    def make(
        self,
        eager: bool,  # noqa: FBT001
        steering: Any,
        order: Any,
        small: bool,  # noqa: FBT001
        decision: Decision,
    ) -> None:
        self.decision = decision
        self.agent = Agent(
            self.model,
            list(self._tools()),
            eager=eager,
            steering=steering,
            order=order,
            retry=AgentRetry(base=1.5 * TICK, jitter=0),
            compaction=Compaction(window=200) if small else None,
            approve=self._approve,
            guards=[self.mood],
        )
        self.agent.recorder = Slow()

    def _approve(self, _call: ToolCall, _tool: AgentTool) -> Decision:
        return self.decision

    def _tools(self) -> Iterator[AgentTool]:
        async def wait(context: ToolContext) -> str:
            ends: asyncio.Future[bool] = self.loop.create_future()
            self.running[ends] = context.name
            self.crowded |= len(self.running) > 1 and "exclusive" in self.running.values()
            try:
                if not await ends:
                    raise ToolError("it failed")
            finally:
                del self.running[ends]
            return "done"

        yield tool(wait, name="shared", needs_approval=False)
        yield tool(wait, name="exclusive", exclusive=True, needs_approval=False)
        yield tool(wait, name="firm", abortable=False, needs_approval=False)
        yield tool(wait, name="careful")

    def _turn(self) -> None:
        """Let everything happen that can, and look at what was told."""
        self.loop.run_until_complete(self._settle())

    async def _settle(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)
        await asyncio.sleep(TICK)
        while self.run is not None and self.run._queue:
            self.order.add(await anext(self.run))

    def _message(self) -> str:
        self.number += 1
        self.given.append(f"message {self.number}")
        return self.given[-1]

    # --- what can happen ---

    @precondition(lambda self: not self.agent.busy)
    @rule(answers=st.lists(st.lists(st.sampled_from((*TOOLS, "gone")), max_size=3), max_size=3))
    def begin(self, answers: list[list[str]]) -> None:
        self.model.answers = [_say("Well.", *names) for names in answers]
        self._start(lambda: self.agent.run(self._message()))
        self._turn()

    @precondition(lambda self: not self.agent.busy and (self.agent.deferred or self.agent.queued))
    @rule(decision=DECISIONS)
    def resume(self, decision: Decision) -> None:
        decisions = {call.id: decision for call in self.agent.deferred}
        self._start(lambda: self.agent.resume(decisions))
        self._turn()

    @precondition(lambda self: not self.agent.busy)
    @rule()
    def begin_and_abort(self) -> None:
        async def begin() -> AgentRun:
            going = self.agent.run(self._message())
            await self.agent.abort()
            return going

        self.order = Order()
        self.run = self.loop.run_until_complete(begin())
        self._turn()

    def _start(self, begin: Callable[[], AgentRun]) -> None:
        async def start() -> AgentRun:
            return begin()

        self.order = Order()
        self.run = self.loop.run_until_complete(start())

    @rule(decision=DECISIONS)
    def decide(self, decision: Decision) -> None:
        self.decision = decision

    @rule(keep=st.booleans(), interrupts=st.booleans())
    def find(self, keep: bool, interrupts: bool) -> None:  # noqa: FBT001
        self.mood.findings = [Finding("rule", ["mood"], "Hm.", interrupts, keep)]

    @rule(count=st.sampled_from([1, 2, 5, 40]))
    def speak(self, count: int) -> None:
        self._let_speak(count)
        self._turn()
        self.model.held = asyncio.Semaphore(0) if not self.model.open else self.model.held

    def _let_speak(self, count: int) -> None:
        for _ in range(count):
            self.model.held.release()

    @precondition(lambda self: self.agent.busy)
    @rule(count=st.sampled_from([1, 2, 5, 40]), turns=st.integers(0, 40))
    def speak_and_abort(self, count: int, turns: int) -> None:
        async def wait() -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        self._let_speak(count)
        self.loop.run_until_complete(wait())
        self.abort()

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 5), works=st.booleans())
    def finish(self, which: int, works: bool) -> None:  # noqa: FBT001
        ends = list(self.running)[which % len(self.running)]
        if not ends.done():
            ends.set_result(works)
        self._turn()

    @precondition(lambda self: self.agent.busy)
    @rule()
    def fail(self) -> None:
        self.model.answers.insert(0, _broken())

    @rule()
    def steer(self) -> None:
        async def steer() -> None:
            self.agent.steer(self._message())

        self.loop.run_until_complete(steer())
        self._turn()

    @rule()
    def follow_up(self) -> None:
        self.agent.follow_up(self._message())

    @rule()
    def abort(self) -> None:
        async def abort() -> None:
            stopping = asyncio.ensure_future(self.agent.abort())
            await asyncio.sleep(0)
            for ends in list(self.running):  # those that may not be aborted end by themselves
                if not ends.done():
                    ends.set_result(True)
            await asyncio.wait_for(stopping, 10)

        self.loop.run_until_complete(abort())
        self._turn()
        assert not self.agent.busy
        assert not self.running, "a tool runs on"
        assert not self.model.open, "the model speaks on"

    # --- what always holds ---

    @invariant()
    def no_message_is_lost(self) -> None:
        if not hasattr(self, "agent"):
            return
        told = Counter(
            message.text
            for message in self.agent.messages
            if isinstance(message, UserMessage) and message.text.startswith("message ")
        )
        assert max(told.values(), default=0) <= 1, "a message was said twice"
        if not self.agent.busy and self.agent._settings.compaction is None:
            assert len(told) + self.agent.queued == len(self.given)

    @invariant()
    def who_is_exclusive_is_alone(self) -> None:
        assert not self.crowded

    @invariant()
    def every_call_has_its_result(self) -> None:
        if not hasattr(self, "agent") or self.agent.busy:
            return
        asked = [
            call.id
            for message in self.agent.messages
            if isinstance(message, AssistantMessage)
            for call in message.tool_calls
        ]
        answered = [one.id for one in self.agent.messages if isinstance(one, ToolResult)]
        assert sorted(asked) == sorted([*answered, *(call.id for call in self.agent.deferred)])
        assert self.run is None or self.order.has_ended

    def teardown(self) -> None:
        if hasattr(self, "agent"):
            self.abort()
        tasks = asyncio.all_tasks(self.loop)
        self.loop.close()
        assert not tasks, f"left behind: {tasks}"
        assert not self.loop.reports, self.loop.reports


def _broken() -> AssistantMessage:
    message = _say("Well, I", "shared")
    message.stop_reason = "error"
    message.error = ErrorInfo("gone", "transport", retryable=True)
    return message


def test_no_interleaving_breaks_a_law_or_loses_a_message() -> None:
    run_state_machine_as_test(
        Interleavings,
        settings=settings(max_examples=EXAMPLES, stateful_step_count=15, deadline=None),
    )
