"""Runs that are stopped by an abort or a steering message, and what remains of them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from agent.order import check_order
from agent.scenes import calls, of, reply, talk, talking, text, watched
from async_runner import run
from models.loopback_servers import CUT, STALL, Reply, stream_of
from penstock.agent import Agent, AgentRetry, AgentRun, AgentTool, Defer, ToolContext, tool
from penstock.agent.events import AgentEnded, AgentEvent, ToolEnded, TurnEnded
from penstock.messages import AssistantMessage, ToolResult
from penstock.request import UserMessage


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def stalled(message: AssistantMessage, share: float = 0.5) -> Reply:
    data = stream_of("openai-chat", message)
    at = data.index(b"\n\n", int(len(data) * share)) + 2
    return Reply([data[:at], STALL])


async def test_an_abort_keeps_what_had_arrived_and_closes_the_connection() -> None:
    async with talking(stalled(text("Once upon a time there was"))) as (model, upstream):
        agent = Agent(model)
        going = agent.run("Go.")
        await upstream.stalls.wait()
        await agent.abort()
        await upstream.left.wait()
        events = await watched(going)
        end = events[-1]
        assert isinstance(end, AgentEnded)
        assert end.error is not None
        assert end.error.kind == "aborted"
        answer = agent.messages[-1]
        assert isinstance(answer, AssistantMessage)
        assert answer.stop_reason == "aborted"
        assert answer.error is not None
        assert answer.error.message == "Request was aborted"


async def test_an_abort_before_the_first_byte_is_an_empty_aborted_answer() -> None:
    async with talking(Reply([STALL])) as (model, upstream):
        agent = Agent(model)
        going = agent.run("Go.")
        await upstream.arrived.wait()
        await agent.abort()
        events = await watched(going)
        (turn,) = of(TurnEnded, events)
        assert turn.message.stop_reason == "aborted"
        assert turn.message.content == []


async def test_calls_of_an_aborted_answer_have_results_that_say_so() -> None:
    asked = calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}))
    data = stream_of("openai-chat", asked)
    at = data.index(b"\n\n", data.index(b'"c2"')) + 2
    async with talking(Reply([data[:at], STALL])) as (model, upstream):
        agent = Agent(model, [add])
        going = agent.run("Go.")
        await upstream.stalls.wait()
        async for event in going:
            if event.type == "message_update" and "c2" in str(event):
                break
        await agent.abort()
        given = [one for one in agent.messages if isinstance(one, ToolResult)]
        assert [one.id for one in given] == ["c1", "c2"]
        assert all("Tool execution was aborted" in one.content for one in given)


async def test_nothing_runs_after_abort_returned() -> None:
    states: list[str] = []

    async def patient() -> str:
        states.append("waits")
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            states.append("let go")
        return ""

    def threaded(context: ToolContext) -> str:
        states.append("turns")
        while not context.cancelled:
            time.sleep(0.001)
        states.append("saw it")
        return "half"

    async def child() -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import time; time.sleep(60)", stdout=subprocess.DEVNULL
        )
        states.append("lives")
        try:
            await process.wait()
        finally:
            process.kill()
            await process.wait()
            states.append("killed")
        return ""

    asked = calls(("patient", {}), ("threaded", {}), ("child", {}))
    async with talking(asked) as (model, _):
        agent = Agent(model, [patient, threaded, child])
        going = agent.run("Go.")
        while len(states) < 3:  # noqa: ASYNC110 - one of them is a thread
            await asyncio.sleep(0.001)
        await agent.abort()
        assert sorted(states[3:]) == ["killed", "let go", "saw it"]
        assert going.ended
        assert not agent.busy


async def test_a_tool_that_may_not_be_aborted_is_waited_for_and_its_result_kept() -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    @tool(abortable=False)
    async def commit() -> str:
        begun.set()
        await free.wait()
        return "written"

    async with talking(calls(("commit", {}))) as (model, _):
        agent = Agent(model, [commit])
        going = agent.run("Go.")
        await begun.wait()
        stopping = asyncio.ensure_future(agent.abort())
        await asyncio.sleep(0.01)
        assert not stopping.done()
        free.set()
        await stopping
        (result,) = [one for one in agent.messages if isinstance(one, ToolResult)]
        assert result.content == "written"
        assert going.ended


async def test_a_tool_may_abort_the_run_that_it_is_part_of() -> None:
    async with talking(calls(("enough", {})), text("More.")) as (model, upstream):

        async def enough() -> str:
            await agent.abort()
            await asyncio.sleep(10)
            return "never"

        agent = Agent(model, [enough])
        events = await talk(agent, "Go.")
        end = events[-1]
        assert isinstance(end, AgentEnded)
        assert end.error is not None
        assert len(upstream.seen) == 1


async def test_who_is_cancelled_while_waiting_for_a_run_aborts_it() -> None:
    async with talking(stalled(text("Once upon a time"))) as (model, upstream):
        agent = Agent(model)
        going = agent.run("Go.")
        await upstream.stalls.wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(going.result(), 0.01)
        await upstream.left.wait()
        await watched(going)


async def test_leaving_a_run_aborts_it_and_looking_away_does_not() -> None:
    async with talking(text("One."), stalled(text("Two, and more."))) as (model, upstream):
        agent = Agent(model)
        going = agent.run("Go.")
        async for _ in going:
            break
        await going.result()
        assert isinstance(agent.messages[-1], AssistantMessage)
        async with agent.run("Go!"):
            await upstream.stalls.wait()
        assert not agent.busy
        await upstream.left.wait()


async def test_a_steering_message_stops_the_tools_that_are_left_and_keeps_results() -> None:
    begun = asyncio.Event()

    async def quick() -> str:
        return "quick"

    async def slow() -> str:
        begun.set()
        await asyncio.sleep(60)
        return "slow"

    @tool(exclusive=True)
    async def last() -> str:
        return "last"

    asked = calls(("quick", {}), ("slow", {}), ("last", {}))
    async with talking(asked, text("As you like.")) as (model, upstream):
        agent = Agent(model, [quick, slow, last])
        going = agent.run("Go.")
        await begun.wait()
        agent.steer("Stop, do this.")
        await watched(going)
        given = [one.content for one in agent.messages if isinstance(one, ToolResult)]
        skipped = "Skipped due to queued user message."
        assert given == ["quick", skipped, skipped]
        assert upstream.seen[1].json["messages"][-1]["content"] == "Stop, do this."


async def test_a_steering_message_may_wait_for_the_tools() -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def slow() -> str:
        begun.set()
        await free.wait()
        return "slow"

    async with talking(calls(("slow", {})), text("As you like.")) as (model, _):
        agent = Agent(model, [slow], steering="later")
        going = agent.run("Go.")
        await begun.wait()
        agent.steer("And then this.")
        free.set()
        await watched(going)
        given = [one.content for one in agent.messages if isinstance(one, ToolResult)]
        assert given == ["slow"]
        said = [one.text for one in agent.messages if isinstance(one, UserMessage)]
        assert said == ["Go.", "And then this."]


async def test_follow_ups_wait_until_the_run_would_end_and_are_said_one_by_one() -> None:
    async with talking(calls(("add", {"a": 1, "b": 1})), text("Two.")) as (model, upstream):
        agent = Agent(model, [add])
        agent.follow_up("First.")
        agent.follow_up("Second.")
        events = await talk(agent, "Go.")
        assert len(of(TurnEnded, events)) == 4
        last = [seen.json["messages"][-1]["content"] for seen in upstream.seen]
        assert last == ["Go.", "2", "First.", "Second."]
        assert agent.queued == 0


async def test_messages_that_were_not_said_stay_for_the_next_run() -> None:
    async with talking(stalled(text("Once upon a time")), text("Yes.")) as (model, upstream):
        agent = Agent(model, order="all")
        agent.run("Go.")
        await upstream.stalls.wait()
        agent.steer("Steer.")
        agent.follow_up("Follow.")
        await agent.abort()
        assert agent.queued == 2
        await watched(agent.resume())
        said = [one.text for one in agent.messages if isinstance(one, UserMessage)]
        assert said == ["Go.", "Steer.", "Follow."]


def long_run() -> tuple[list[AgentTool], list[AssistantMessage]]:
    """Two turns of tools, an answer, and a follow-up."""

    @tool(exclusive=True)
    async def wait() -> str:
        await asyncio.sleep(0.001)
        return "waited"

    def threaded(context: ToolContext) -> str:
        context.update("half")
        return "threaded"

    script = [
        calls(("wait", {}), ("add", {"a": 1, "b": 2}), ("threaded", {})),
        calls(("wait", {}), ("wait", {})),
        text("All is done."),
        text("Really."),
    ]
    return [wait, add, tool(threaded)], script


def test_an_abort_at_every_event_leaves_no_task_and_no_socket() -> None:
    tools, script = long_run()

    async def count(stop: Callable[[int], bool], *, eager: bool = False) -> int:
        async with talking(*map(reply, script)) as (model, _):
            agent = Agent(model, tools, eager=eager)
            agent.follow_up("Really?")
            going = agent.run("Go.")
            seen: list[AgentEvent] = []
            async for event in going:
                seen.append(event)
                if stop(len(seen)):
                    await agent.abort()
                    assert going.ended
            check_order(seen)
            unanswered = agent.deferred
            assert not unanswered
            return len(seen)

    total = run(count(lambda _: False))
    assert total > 50
    for at in range(1, total):
        run(count(lambda n, at=at: n == at, eager=at % 2 == 1))  # type: ignore[misc]


async def test_a_call_that_was_cut_keeps_its_place_among_eager_ones() -> None:
    whole = calls(*[("add", {"a": n, "b": n}) for n in (1, 2, 3)])
    broken = stream_of("openai-chat", whole).replace(rb"{\"a\":1", rb"[\"a\",1")
    at = broken.index(b"\n\n", broken.index(b'"c3"')) + 2  # the second call is complete
    async with talking(Reply([broken[:at], STALL])) as (model, _):
        agent = Agent(model, [add], eager=True)
        going = agent.run("Go.")
        async for event in going:
            if isinstance(event, ToolEnded):
                break
        await agent.abort()
        given = [one for one in agent.messages if isinstance(one, ToolResult)]
        assert [one.id for one in given] == ["c1", "c2", "c3"]
        assert [one.is_error for one in given] == [True, False, True]


async def test_calls_of_a_dropped_answer_have_no_results() -> None:
    data = stream_of("openai-chat", calls(("add", {"a": 1, "b": 1})))
    at = data.index(b"\n\n", data.index(b'"c1"')) + 2
    async with talking(Reply([data[:at], CUT])) as (model, _):
        agent = Agent(model, [add], retry=AgentRetry(base=60.0))
        going = agent.run("Go.")
        async for event in going:
            if event.type == "auto_retry_start":
                break
        await agent.abort()
        assert [type(one).__name__ for one in agent.messages] == ["UserMessage"]
        assert not await watched_rest(going)


async def watched_rest(going: AgentRun) -> list[AgentEvent]:
    """Give the results that are told in what is left of a run."""
    rest = [event async for event in going]
    return [event for event in rest if event.type.startswith("tool_")]


async def test_a_deferred_call_is_answered_when_its_answer_is_stopped() -> None:
    data = stream_of("openai-chat", calls(("add", {"a": 1, "b": 1}), ("look", {})))
    at = data.index(b"\n\n", data.index(b'"look"')) + 2
    async with talking(Reply([data[:at], STALL])) as (model, upstream):
        agent = Agent(model, [add], eager=True, approve=lambda _call, _tool: Defer())
        going = agent.run("Go.")
        await upstream.stalls.wait()
        async for event in going:
            if event.type == "tool_approval_requested":
                break
        await agent.abort()
        assert not agent.deferred
        given = [one.id for one in agent.messages if isinstance(one, ToolResult)]
        assert given == ["c1", "c2"]
