"""Responses that fail: retried, compacted, or given up."""

from __future__ import annotations

from agent.scenes import calls, of, talk, talking, text
from models.loopback_servers import CUT, Reply, refusal, stream_of
from penstock.agent import Agent, AgentRetry, Cancel, Compaction, tool
from penstock.agent.events import (
    AgentEnded,
    CompactionEnded,
    CompactionStarted,
    MessageEnded,
    RetryEnded,
    RetryStarted,
)
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.request import Message, UserMessage

SWIFT = AgentRetry(base=0.0)
OVERLOADED = refusal(529, {"error": {"message": "Overloaded", "type": "overloaded_error"}})
TOO_LONG = refusal(
    400,
    {
        "error": {
            "message": "This model's maximum context length is 100 tokens.",
            "code": "context_length_exceeded",
        }
    },
)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def user(words: str) -> UserMessage:
    return UserMessage([Text(words)])


def said(words: str) -> AssistantMessage:
    return AssistantMessage(content=[Text(words)], stop_reason="stop")


async def test_a_failure_that_passes_is_told_and_tried_again() -> None:
    async with talking(OVERLOADED, OVERLOADED, text("Here.")) as (model, upstream):
        agent = Agent(model, retry=SWIFT)
        events = await talk(agent, "Go.")
        assert [one.attempt for one in of(RetryStarted, events)] == [1, 2]
        assert of(RetryEnded, events) == [RetryEnded(True, 2)]
        assert len(upstream.seen) == 3, "the model's own retries are off"
        assert [type(one) for one in agent.messages] == [UserMessage, AssistantMessage]
        dropped = [one for one in of(MessageEnded, events) if not one.kept]
        assert len(dropped) == 2


async def test_an_answer_that_broke_off_is_asked_for_again_as_a_whole() -> None:
    data = stream_of("openai-chat", text("Half of it, and more."))
    async with talking(Reply([data[: len(data) // 2], CUT]), text("All.")) as (model, _):
        agent = Agent(model, retry=SWIFT)
        await talk(agent, "Go.")
        (answer,) = [one for one in agent.messages if isinstance(one, AssistantMessage)]
        assert answer.text == "All."


async def test_tries_run_out_and_the_failure_is_the_result() -> None:
    async with talking(OVERLOADED) as (model, upstream):
        agent = Agent(model, retry=AgentRetry(attempts=1, base=0.0))
        events = await talk(agent, "Go.")
        assert len(upstream.seen) == 2
        (ended,) = of(RetryEnded, events)
        assert not ended.success
        end = events[-1]
        assert isinstance(end, AgentEnded)
        assert end.error is not None
        assert end.error.status == 529
        last = end.messages[-1]
        assert isinstance(last, AssistantMessage)
        assert last.stop_reason == "error"


async def test_what_will_not_pass_is_not_tried_again() -> None:
    denied = refusal(401, {"error": {"message": "no such key", "code": "invalid_api_key"}})
    async with talking(denied) as (model, upstream):
        events = await talk(Agent(model, retry=SWIFT), "Go.")
        assert len(upstream.seen) == 1
        assert not of(RetryStarted, events)


async def test_nothing_is_tried_again_once_a_tool_has_run_for_the_answer() -> None:
    asked = calls(("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}))
    data = stream_of("openai-chat", asked)
    at = data.index(b"\n\n", data.index(b'"c2"')) + 2
    async with talking(Reply([data[:at], CUT]), text("No.")) as (model, upstream):
        agent = Agent(model, [add], retry=SWIFT, eager=True)
        events = await talk(agent, "Go.")
        assert len(upstream.seen) == 1
        assert not of(RetryStarted, events)
        given = [one for one in agent.messages if isinstance(one, ToolResult)]
        assert [one.id for one in given] == ["c1", "c2"]
        assert given[1].is_error


async def test_an_answer_of_nothing_is_asked_for_once_more() -> None:
    async with talking(text(""), text(""), text("Late.")) as (model, upstream):
        await talk(Agent(model, retry=SWIFT), "Go.")
        assert len(upstream.seen) == 2


async def test_a_conversation_that_is_too_long_is_summed_up_and_asked_again() -> None:
    async with talking(text("One."), TOO_LONG, text("They spoke of one."), text("Two.")) as (
        model,
        upstream,
    ):
        agent = Agent(model, compaction=Compaction(), retry=SWIFT)
        await talk(agent, "First?")
        events = await talk(agent, "Second?")
        (started,) = of(CompactionStarted, events)
        assert started.reason == "overflow"
        (ended,) = of(CompactionEnded, events)
        assert ended.summary == "They spoke of one."
        assert len(upstream.seen) == 4
        first = agent.messages[0]
        assert isinstance(first, UserMessage)
        assert "They spoke of one." in first.text
        last = agent.messages[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == "Two."


async def test_an_overflow_that_a_summary_does_not_cure_is_given_up() -> None:
    async with talking(text("One."), TOO_LONG, text("Short."), TOO_LONG) as (model, upstream):
        agent = Agent(model, compaction=Compaction(), retry=SWIFT)
        await talk(agent, "First?")
        events = await talk(agent, "Second?")
        end = events[-1]
        assert isinstance(end, AgentEnded)
        assert end.error is not None
        assert len(upstream.seen) == 4


async def test_a_conversation_that_nears_its_window_is_summed_up_before_the_next_turn() -> None:
    history: list[Message] = [user("Tell."), said("word " * 400), user("Short?"), said("Yes.")]
    async with talking(text("Summed."), calls(("add", {"a": 1, "b": 1})), text("Done.")) as (
        model,
        upstream,
    ):
        small = Compaction(window=300, prune=False)
        agent = Agent(model, [add], compaction=small, messages=history)
        events = await talk(agent, "Go on.")
        (started,) = of(CompactionStarted, events)
        assert started.reason == "threshold"
        assert of(CompactionEnded, events) == [CompactionEnded("Summed.", 2)]
        assert len(upstream.seen) == 3
        assert agent.usage.total == 39


async def test_a_hook_can_forbid_a_compaction() -> None:
    async with talking(text("One."), text("Summed.")) as (model, upstream):
        agent = Agent(model)
        await talk(agent, "Go.")
        remove = agent.hooks.add("session_before_compact", lambda _: Cancel("not now"))
        assert not await agent.compact()
        assert len(upstream.seen) == 1
        remove()
        assert await agent.compact()
        assert len(upstream.seen) == 2
