"""An agent that is called from its own tools, hooks and subscribers, or at a bad moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agent.scenes import calls, of, talk, talking, text, watched
from laws import check_linear
from models.loopback_servers import STALL, Reply
from penstock import EventStream, Request
from penstock.agent import (
    Agent,
    AgentRetry,
    AgentTool,
    Allow,
    Cancel,
    Decision,
    Deny,
    Edit,
    Finding,
    Guard,
    Recorder,
    tool,
)
from penstock.agent.events import (
    AgentEnded,
    CompactionEnded,
    ExtensionErrorEvent,
    RetryEnded,
    RetryStarted,
    ToolEnded,
)
from penstock.agent.hooks import HookName
from penstock.builder import message_events
from penstock.events import TextDelta
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult
from penstock.models.base import Batches, Model, Tap
from penstock.request import Message, ToolChoice, UserMessage


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = calls(("add", {"a": 1, "b": 2}))


def given(agent: Agent) -> list[Any]:
    return [one.content for one in agent.messages if isinstance(one, ToolResult)]


def said(agent: Agent) -> list[str]:
    return [one.text for one in agent.messages if isinstance(one, UserMessage)]


# --- a call that stops its own run ---


async def test_a_tool_that_steers_its_own_run_keeps_its_result() -> None:
    async with talking(calls(("turn", {})), text("As you like.")) as (model, _):

        async def turn() -> str:
            agent.steer("Other way.")
            return "turned"

        agent = Agent(model, [turn])
        await talk(agent, "Go.")
        assert given(agent) == ["turned"]
        assert said(agent) == ["Go.", "Other way."]


async def test_who_aborts_in_place_of_approving_runs_nothing() -> None:
    ran: list[str] = []
    async with talking(calls(("touch", {}))) as (model, _):

        async def touch() -> str:
            ran.append("touched")
            return "touched"

        async def approve(_call: ToolCall, _tool: AgentTool) -> Decision:
            await agent.abort()
            return Allow()

        agent = Agent(model, [touch], approve=approve)
        events = await talk(agent, "Go.")
        assert ran == []
        assert given(agent) == ["Tool execution was aborted."]
        assert isinstance(events[-1], AgentEnded)


async def test_a_sub_agent_is_gone_when_its_parent_was_aborted() -> None:
    states: list[str] = []
    async with (
        talking(calls(("slow", {}))) as (inner, _),
        talking(calls(("ask", {}))) as (outer, _),
    ):

        async def slow() -> str:
            states.append("began")
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.01)
                states.append("ended")
            return ""

        child = Agent(inner, [slow])

        async def ask() -> str:
            await child.run("Sub.").result()
            return ""

        parent = Agent(outer, [ask])
        going = parent.run("Go.")
        while not states:  # noqa: ASYNC110 - it is the child's tool that tells
            await asyncio.sleep(0.001)
        await parent.abort()
        assert states == ["began", "ended"]
        assert not child.busy
        await watched(going)


# --- a second abort, and hooks that hang ---


async def test_a_second_abort_waits_like_the_first() -> None:
    began = asyncio.Event()

    async def lingers(_value: object) -> None:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)

    async with talking(text("Never.")) as (model, _):
        agent = Agent(model)
        agent.hooks.add("context", lingers)
        going = agent.run("Go.")
        await began.wait()
        first = asyncio.ensure_future(agent.abort())
        await asyncio.sleep(0.005)
        await agent.abort()
        assert not agent.busy
        await first
        await watched(going)


@pytest.mark.parametrize("hook", ["tool_result", "session_compact", "session_before_compact"])
async def test_an_abort_does_not_wait_for_a_hook(hook: HookName) -> None:
    began = asyncio.Event()

    async def hangs(_value: object) -> None:
        began.set()
        await asyncio.sleep(60)

    async with talking(ADD, text("Short.")) as (model, _):
        agent = Agent(model, [add])
        agent.hooks.add(hook, hangs)
        if hook == "tool_result":
            work: asyncio.Future[Any] = asyncio.ensure_future(agent.run("Go.").result())
        else:
            agent.messages = [user("One."), answer("Two."), user("Three."), answer("Four.")]
            work = asyncio.ensure_future(agent.compact())
        await began.wait()
        assert agent.busy
        await agent.abort()
        await work
        if hook == "tool_result":
            assert given(agent) == ["Tool execution was aborted."], "a hook may hide things"


def user(words: str) -> UserMessage:
    return UserMessage([Text(words)])


def answer(words: str) -> AssistantMessage:
    return AssistantMessage(content=[Text(words)], stop_reason="stop")


async def test_a_compaction_is_work_like_any_other() -> None:
    async with talking(Reply([STALL])) as (model, upstream):
        history: list[Message] = [user("One."), answer("Two."), user("Three.")]
        agent = Agent(model, messages=history)
        told: list[Any] = []
        stop = agent.subscribe(told.append)
        work = asyncio.ensure_future(agent.compact())
        await upstream.arrived.wait()
        with pytest.raises(Exception, match="busy"):
            agent.run("Go.")
        await agent.abort()
        assert not await work
        assert agent.messages == history
        await agent.drain()
        stop()
        (ended,) = of(CompactionEnded, told)
        assert ended.error is not None


# --- messages that wait ---


async def test_a_prompt_is_said_even_if_its_run_was_aborted_at_once() -> None:
    async with talking(text("Never.")) as (model, upstream):
        agent = Agent(model)
        going = agent.run("Hello.")
        await agent.abort()
        await watched(going)
        assert said(agent) == ["Hello."]
        assert upstream.seen == []


async def test_a_message_that_a_run_did_not_come_to_stays() -> None:
    async with talking(text("One.")) as (model, _):
        agent = Agent(model, max_turns=1)
        agent.follow_up("Later.")
        await talk(agent, "Go.")
        assert agent.queued == 1
        going = agent.resume()
        await agent.abort()
        await watched(going)
        assert agent.queued == 1
        await watched(agent.resume())
        assert agent.queued == 0
        assert said(agent) == ["Go.", "Later."]


# --- findings and retries ---


class Spotter(Guard):
    """Stops an answer at a word, or only reminds."""

    def __init__(self, word: str, **options: Any) -> None:
        self.finding = Finding("rule", ["spot"], f"Not {word}.", **options)
        self.word = word

    def check(self, event: Any) -> Finding | None:
        is_text = event.type == "text_delta" and self.word in event.text
        is_call = event.type == "toolcall_end" and self.word == event.call.name
        return self.finding if is_text or is_call else None


class Aborting(Recorder):
    """A record that aborts the run when a rule has spoken."""

    agent: Agent

    async def finding(self, finding: Finding) -> None:
        assert finding.names == ["spot"]
        await self.agent.abort()


@pytest.mark.parametrize("keep", [True, False])
async def test_an_abort_while_a_finding_is_heeded_doubles_no_result(keep: bool) -> None:  # noqa: FBT001
    async with talking(ADD) as (model, _):
        agent = Agent(model, [add], guards=[Spotter("add", keep=keep)])
        agent.recorder = recorder = Aborting()
        recorder.agent = agent
        await talk(agent, "Go.")
        assert given(agent) == (["Stopped by spot."] if keep else [])


async def test_reminders_come_after_their_turn_also_between_tools() -> None:
    magic = calls(("add", {"a": 1, "b": 2}), words="It is magic.")
    async with talking(magic, text("Done.")) as (model, upstream):
        agent = Agent(model, [add], guards=[Spotter("magic", interrupts=False)])
        await talk(agent, "Go.")
        assert [one["content"] for one in upstream.seen[1].json["messages"]][-2:] == [
            "3",
            "Not magic.",
        ]


async def test_a_guard_that_raises_is_an_extension_error() -> None:
    class Broken(Spotter):
        def __getattribute__(self, name: str) -> Any:
            if name in ("prompt_started", "turn_started", "see", "tool_ended", "turn_ended"):
                raise ValueError(name)
            return super().__getattribute__(name)

    async with talking(ADD, text("Done.")) as (model, _):
        agent = Agent(model, [add], guards=[Broken("x"), Spotter("y")])
        events = await talk(agent, "Go.")
        assert given(agent) == [3]
        assert len(of(ExtensionErrorEvent, events)) > 5


async def test_findings_are_no_failures_and_a_demanded_call_stays_demanded() -> None:
    cut = Reply([b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n'])
    script = (text("magic"), text("magic"), cut, ADD, text("Done."))
    async with talking(*script) as (model, upstream):
        agent = Agent(
            model,
            [add],
            guards=[Spotter("magic")],
            retry=AgentRetry(attempts=1, base=0.0),
            request=Request(tool_choice=ToolChoice("required")),
        )
        events = await talk(agent, "Go.")
        assert len(of(RetryStarted, events)) == 1
        assert of(RetryEnded, events) == [RetryEnded(True, 1)]
        demanded = [seen.json.get("tool_choice") for seen in upstream.seen]
        assert demanded == ["required"] * 4 + [None]


# --- decisions of hooks ---


@pytest.mark.parametrize("word", [Cancel("no"), False, "deny", Deny("no")])
async def test_a_check_that_does_not_say_yes_has_said_no(word: object) -> None:
    async with talking(ADD, text("Done.")) as (model, _):
        agent = Agent(model, [add])
        agent.hooks.add("tool_call", lambda _: word)
        await talk(agent, "Go.")
        assert "denied" in given(agent)[0]


async def test_every_check_is_asked_and_sees_what_others_changed() -> None:
    seen: list[Any] = []
    async with talking(ADD, text("Done.")) as (model, _):
        agent = Agent(model, [add])
        agent.hooks.add("tool_call", lambda _: Allow())
        agent.hooks.add("tool_call", lambda _: Edit({"a": 7, "b": 7}))
        agent.hooks.add("tool_call", lambda call: seen.append(call.arguments))
        await talk(agent, "Go.")
        assert seen == [{"a": 7, "b": 7}]
        assert given(agent) == [14]


# --- foreign cancellations ---


async def test_a_cancellation_of_something_else_does_not_end_the_run_untold() -> None:
    async def waits_for_nothing(_value: object = None) -> str:
        gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        gone.cancel()
        return await gone

    class Own(BaseException):
        pass

    async def raises() -> str:
        raise Own("mine")

    async def nothing() -> str:
        return await waits_for_nothing()

    nothing.__name__ = "waits_for_nothing"
    asked = calls(("waits_for_nothing", {}), ("raises", {}), ("add", {"a": 1, "b": 1}))
    async with talking(asked, text("Done.")) as (model, _):
        agent = Agent(model, [tool(nothing), raises, add])
        agent.hooks.add("context", waits_for_nothing)
        events = await talk(agent, "Go.")
        assert [one.result.is_error for one in of(ToolEnded, events)].count(True) == 2
        assert given(agent)[-1] == 2
        assert given(agent)[1] == "Tool raises failed: Own: mine"


# --- cost ---


class Babbling(Model):
    """Says one word very often."""

    name = "babbling"

    def __init__(self, count: int) -> None:
        self._message = AssistantMessage("m", "b", [Text("word " * count)], "stop")
        self.count = count

    async def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        del request, tap
        start, opened, _, *rest = message_events(self._message)
        yield [start, opened]
        for _ in range(self.count):
            yield [TextDelta(0, "word ")]
        yield rest

    def stream(self, request: Request) -> EventStream:
        raise NotImplementedError

    async def complete(self, request: Request) -> AssistantMessage:
        raise NotImplementedError

    async def close(self) -> None: ...


def test_a_delta_costs_the_same_however_long_the_answer_is() -> None:
    async def read(count: int) -> None:
        async for _ in Agent(Babbling(count)).run("Go."):
            pass

    asyncio.run(read(1_000))
    check_linear(lambda count: asyncio.run(read(count)), 4_000, 40_000, at_most=3)
