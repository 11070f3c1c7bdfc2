"""The loop over real HTTP: what an agent does with what its model says."""

from __future__ import annotations

import asyncio
import pickle

import pytest

from agent.scenes import calls, of, talk, talking, text, types, watched
from models.loopback_servers import Reply, stream_of
from penstock import Request
from penstock.agent import (
    Agent,
    AgentBusyError,
    AgentRetry,
    AgentRunError,
    ToolContext,
    ToolOutput,
    tool,
)
from penstock.agent.events import (
    AgentEnded,
    MessageUpdated,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from penstock.errors import ToolError, UsageError
from penstock.events import TextDelta
from penstock.messages import AssistantMessage, ErrorInfo, ToolCall, ToolResult
from penstock.request import Message, ToolChoice, UserMessage
from penstock.testing import ScriptedModel

SWIFT = AgentRetry(base=0.0)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def shout(words: str) -> str:
    """Say it louder."""
    return words.upper()


def results(messages: list[Message]) -> list[ToolResult]:
    return [message for message in messages if isinstance(message, ToolResult)]


async def test_a_prompt_is_answered_and_every_event_of_the_answer_passed_on() -> None:
    async with talking(text("High water at six.")) as (model, upstream):
        agent = Agent(model, system="Be brief.")
        events = await talk(agent, "When?")
        assert types(events) == [
            "agent_start",
            "turn_start",
            "message_start",
            "message_end",
            "message_start",
            "message_end",
            "turn_end",
            "agent_end",
        ]
        deltas = [one.event for one in of(MessageUpdated, events)]
        said = "".join(one.text for one in deltas if isinstance(one, TextDelta))
        assert said == "High water at six."
        assert upstream.seen[0].json["messages"][0]["content"] == "Be brief."
        assert [type(message) for message in agent.messages] == [UserMessage, AssistantMessage]
        assert events[-1] == AgentEnded(agent.messages)
        assert agent.usage.total == 13


async def test_calls_are_run_and_their_results_shown_to_the_model_in_order() -> None:
    first = calls(("add", {"a": 2, "b": 3}), ("shout", {"words": "hi"}))
    async with talking(first, text("Done.")) as (model, upstream):
        agent = Agent(model, [add, shout])
        events = await talk(agent, "Go.")
        assert [one.arguments for one in of(ToolStarted, events)] == [
            {"a": 2, "b": 3},
            {"words": "hi"},
        ]
        shown = upstream.seen[1].json["messages"][-2:]
        assert [one["content"] for one in shown] == ["5", "HI"]
        assert [one["tool_call_id"] for one in shown] == ["c1", "c2"]
        assert [one.turn for one in of(TurnEnded, events)] == [1, 2]
        assert [one.content for one in results(agent.messages)] == [5, "HI"]


async def test_arguments_are_coerced_and_what_does_not_fit_is_told_to_the_model() -> None:
    asked = calls(
        ("add", {"a": "2", "b": 3}), ("add", {"a": "two", "b": 3}), ("gone", {}), ("add", {})
    )
    async with talking(asked, text("Oh.")) as (model, _):
        agent = Agent(model, [add])
        events = await talk(agent, "Go.")
        given = results(agent.messages)
        assert [one.is_error for one in given] == [False, True, True, True]
        assert given[0].content == 5
        assert "a" in given[1].content
        assert given[2].content == "Tool gone not found. The tools are: add."
        assert len(of(ToolEnded, events)) == 4


async def test_an_exception_of_a_tool_is_a_result_that_says_so() -> None:
    async def wrong() -> str:
        raise ToolError("the shop is shut")

    def broken() -> str:
        raise ZeroDivisionError("division by zero")

    async with talking(calls(("wrong", {}), ("broken", {})), text("Oh.")) as (model, _):
        agent = Agent(model, [wrong, broken])
        await talk(agent, "Go.")
        assert [(one.content, one.is_error) for one in results(agent.messages)] == [
            ("the shop is shut", True),
            ("Tool broken failed: ZeroDivisionError: division by zero", True),
        ]


async def test_shared_tools_run_side_by_side_and_exclusive_ones_alone() -> None:
    log: list[str] = []
    met = asyncio.Event()

    async def left() -> str:
        log.append("left")
        await met.wait()
        return "left"

    async def right() -> str:
        met.set()
        log.append("right")
        return "right"

    @tool(exclusive=True)
    async def alone() -> str:
        log.append("alone begins")
        await asyncio.sleep(0)
        log.append("alone ends")
        return "alone"

    asked = calls(("left", {}), ("right", {}), ("alone", {}), ("right", {}))
    async with talking(asked, text("Done.")) as (model, _):
        agent = Agent(model, [left, right, alone])
        events = await talk(agent, "Go.")
        assert log == ["left", "right", "alone begins", "alone ends", "right"]
        ended = [one.id for one in of(ToolEnded, events)]
        assert ended[:2] == ["c2", "c1"]
        order = [one.content for one in results(agent.messages)]
        assert order == ["left", "right", "alone", "right"]


async def test_a_tool_tells_how_far_it_is_also_from_a_thread() -> None:
    async def steps(context: ToolContext) -> ToolOutput:
        context.update("half")
        return ToolOutput("all", details={"took": 1})

    def threaded(context: ToolContext) -> str:
        context.update("a third")
        return "all"

    async with talking(calls(("steps", {}), ("threaded", {})), text("Done.")) as (model, _):
        events = await talk(Agent(model, [steps, threaded]), "Go.")
        assert {one.partial for one in of(ToolUpdated, events)} == {"half", "a third"}
        details = {one.id: one.details for one in of(ToolEnded, events)}
        assert details == {"c1": {"took": 1}, "c2": None}


async def test_a_call_that_the_limit_cut_is_never_run() -> None:
    async with talking(Reply([CUT_CALL]), text("Again.")) as (model, _):
        agent = Agent(model, [add])
        await talk(agent, "Go.")
        (result,) = results(agent.messages)
        assert result.is_error
        assert "cut off" in result.content


async def test_a_tool_may_start_while_the_model_still_speaks() -> None:
    begun = asyncio.Event()

    async def early() -> str:
        begun.set()
        return "early"

    asked = calls(("early", {}), ("add", {"a": 1, "b": 1}))
    data = stream_of("openai-chat", asked)
    # The second call begins, so the first is complete; then the server waits to be told.
    at = data.index(b"\n\n", data.index(b'"add"')) + 2
    async with talking(Reply([data[:at], 0.2, data[at:]]), text("Done.")) as (model, _):
        agent = Agent(model, [early, add], eager=True)
        seen: list[str] = []
        async for event in agent.run("Go."):
            seen.append(event.type)
            if event.type == "message_end" and begun.is_set():
                break
        assert "tool_execution_end" in seen
        assert seen.index("tool_execution_start") < len(seen) - 1
        await agent.abort()


async def test_a_demanded_call_is_demanded_once() -> None:
    async with talking(calls(("add", {"a": 1, "b": 1})), text("Two.")) as (model, upstream):
        agent = Agent(model, [add], request=Request(tool_choice=ToolChoice("required")))
        await talk(agent, "Go.")
        assert upstream.seen[0].json["tool_choice"] == "required"
        assert "tool_choice" not in upstream.seen[1].json


async def test_a_model_that_only_calls_tools_ends_some_day() -> None:
    async with talking(calls(("add", {"a": 1, "b": 1}))) as (model, upstream):
        agent = Agent(model, [add], max_turns=3)
        events = await talk(agent, "Go.")
        end = events[-1]
        assert isinstance(end, AgentEnded)
        assert end.error is not None
        assert end.error.message == "the agent stopped after 3 turns"
        assert len(upstream.seen) == 3


async def test_a_run_says_why_it_did_not_end_by_itself() -> None:
    @tool
    async def stop() -> str:
        await agents[0].abort()
        return "stopped"

    agents: list[Agent] = []
    broken = AssistantMessage("m", "m", [], "error", error=ErrorInfo("no such model", status=404))
    ends = {
        "turns": (calls(("add", {"a": 1, "b": 1})), "turns", 2),
        "error": (broken, "", 1),
        "abort": (calls(("stop", {})), "", 3),
        "well": (text("Done."), None, 2),
    }

    async def check(answer: AssistantMessage, kind: str | None, new: int) -> None:
        async with talking(answer) as (model, _):
            agents[:] = [Agent(model, [add, stop], max_turns=1, retry=AgentRetry(attempts=0))]
            going = agents[0].run("Go.")
            early = going.error  # it has not ended yet
            assert early is None
            messages = await going.result()
            error = going.error
            if kind is None or error is None:
                assert kind is None
                assert error is None
                assert await going.result(check=True) is messages
                return
            assert error.type == kind or not kind
            with pytest.raises(AgentRunError) as caught:
                await going.result(check=True)
            assert caught.value.info is error
            assert caught.value.messages is messages
            assert len(messages) >= new
            assert pickle.loads(pickle.dumps(caught.value)).info == error  # noqa: S301

    for answer, kind, new in ends.values():
        await check(answer, kind, new)


async def test_one_run_at_a_time_and_nothing_changes_under_it() -> None:
    async with talking(text("One."), text("Two.")) as (model, _):
        agent = Agent(model)
        first = agent.run("Go.")
        was_busy = agent.busy
        assert was_busy
        with pytest.raises(AgentBusyError):
            agent.run("Go!")
        with pytest.raises(AgentBusyError):
            agent.messages = []
        await first.result()
        assert not agent.busy
        assert [type(one) for one in await agent.run("Go!").result()] == [
            UserMessage,
            AssistantMessage,
        ]
        assert len(agent.messages) == 4


async def test_there_is_nothing_to_proceed_from_where_the_model_had_the_last_word() -> None:
    async with talking(text("One."), text("Two.")) as (model, _):
        agent = Agent(model)
        with pytest.raises(UsageError):
            agent.resume()
        with pytest.raises(UsageError):
            agent.run([])
        await agent.run("Go.").result()
        with pytest.raises(UsageError):
            agent.resume()
        agent.follow_up("And?")
        await watched(agent.resume())
        assert [one.text for one in agent.messages if isinstance(one, UserMessage)] == [
            "Go.",
            "And?",
        ]
        agent.messages = agent.messages[:-1]
        await watched(agent.resume())
        assert isinstance(agent.messages[-1], AssistantMessage)


CALL = (
    b'{"index":0,"id":"c1","type":"function","function":{"name":"add","arguments":"{\\"a\\": 1, "}}'
)
CUT_CALL = (
    b'data: {"id":"x","model":"m","choices":[{"index":0,"delta":{"tool_calls":['
    + CALL
    + b']}}]}\n\ndata: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
    + b"data: [DONE]\n\n"
)
"""A call whose arguments the limit cut."""


@pytest.mark.parametrize("eager", [False, True])
async def test_two_calls_with_one_id_are_both_run(*, eager: bool) -> None:
    twice = [ToolCall("same", "add", {"a": 1, "b": number}) for number in (1, 2)]
    model = ScriptedModel([AssistantMessage(content=[*twice], stop_reason="tool_use"), "Done."])
    result = await Agent(model, [add], eager=eager).run("Add.")
    assert [(one.id, one.content) for one in results(result.messages)] == [
        ("same", 2),
        ("same-2", 3),
    ]
    response = result.messages[1]
    assert isinstance(response, AssistantMessage)
    assert [one.id for one in response.tool_calls] == ["same", "same-2"]
