"""Models for tests of agents: scripted in every way, replayed, and their events in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cli.logged import logging_to
from models.loopback_servers import stream_of
from penstock import ToolMiddleware, formats
from penstock.agent import Agent, tool
from penstock.agent.events import MessageUpdated, ToolEnded
from penstock.agent.settings import AgentRetry
from penstock.errors import UsageError
from penstock.events import TextDelta, ThinkingDelta
from penstock.messages import AssistantMessage, Text, ToolCall, Usage
from penstock.request import Request
from penstock.testing import (
    EventRecorder,
    ReplayModel,
    ScriptedModel,
    call,
    check_order,
    cut,
    fail,
    record_run,
    think,
    wait,
)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_a_list_of_responses_is_sent_in_its_order() -> None:
    model = ScriptedModel([[think("A sum."), call("add", a=1, b=2)], "It is 3."], chunk=2)
    agent = Agent(model, [add])
    events = await record_run(run := agent.run("1 + 2?"))
    assert (await run).text == "It is 3."
    ended = [event for event in events if isinstance(event, ToolEnded)]
    assert [one.result.content for one in ended] == [3]
    deltas = [event.event for event in events if isinstance(event, MessageUpdated)]
    assert [d.text for d in deltas if isinstance(d, ThinkingDelta)] == ["A ", "su", "m."]
    assert [d.text for d in deltas if isinstance(d, TextDelta)] == ["It", " i", "s ", "3."]
    assert len(model.requests) == 2
    assert model.requests[0].messages[-1] == agent.messages[0]
    model.check_finished()
    assert (await run).usage.output > 0


@pytest.mark.parametrize("name", ["hermes", "qwen3_coder", "glm45", "mistral", "bare_json"])
async def test_calls_are_printed_in_every_format(name: str) -> None:
    model = ScriptedModel([[think("A sum."), call("add", a=1, b=2)], "It is 3."], format=name)
    agent = Agent(ToolMiddleware(model, name), [add])
    result = await agent.run("1 + 2?")
    assert result.text == "It is 3."
    response = result.messages[1]
    assert isinstance(response, AssistantMessage)
    assert response.tool_calls[0].arguments == {"a": 1, "b": 2}
    bare = await ScriptedModel([call("add", a=1, b=2)], format=name).complete(Request())
    assert not bare.tool_calls
    assert bare.text == formats.get(name).render_call(ToolCall("", "add", {"a": 1, "b": 2}))


async def test_a_function_responds_to_the_request() -> None:
    def echo(request: Request) -> str:
        return f"{len(request.messages)} messages"

    async def later(request: Request) -> list[str]:
        await asyncio.sleep(0)
        return [echo(request)]

    for respond in (echo, later):
        agent = Agent(ScriptedModel(respond))
        assert (await agent.run("a")).text == "1 messages"
        assert (await agent.run("b")).text == "3 messages"


@pytest.mark.virtual_time
async def test_failures_pauses_and_cuts_are_part_of_a_script() -> None:
    loop = asyncio.get_running_loop()
    model = ScriptedModel(
        [
            fail("overloaded", status=529),
            ["Hal", cut()],
            [ConnectionResetError("the cable was pulled")],
            ["Half ", wait(30), "done."],
        ]
    )
    agent = Agent(model, retry=AgentRetry(attempts=3, base=1, jitter=0))
    began = loop.time()
    result = await agent.run("Go.")
    assert result.text == "Half done."
    assert loop.time() - began == pytest.approx(1 + 2 + 4 + 30)
    model.check_finished()


async def test_a_script_that_ends_too_early_or_too_late_is_reported() -> None:
    model = ScriptedModel(["One.", "Two."])
    agent = Agent(model, retry=AgentRetry(attempts=0))
    await agent.run("a")
    with pytest.raises(AssertionError, match="1 of 2 responses were not requested"):
        model.check_finished()
    await agent.run("b")
    result = await agent.run("c")
    assert result.error is not None
    assert result.error.message == "the script has 2 responses, and this is request 3"


async def test_a_whole_message_is_sent_as_it_is() -> None:
    message = AssistantMessage("m1", "m", [Text("Hi.")], "length", usage=Usage(1, 2, total=3))
    assert await ScriptedModel([message]).complete(Request(messages="Hi")) == message


def test_a_script_that_is_not_one_is_refused() -> None:
    with pytest.raises(UsageError, match="a list of responses"):
        ScriptedModel("Hello")
    with pytest.raises(UsageError, match="chunk"):
        ScriptedModel([], chunk=0)


# --- recordings ---


@pytest.mark.parametrize(
    "api", ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"]
)
async def test_recorded_streams_are_replayed(api: str, tmp_path: Path) -> None:
    calling = AssistantMessage("m1", "m", [ToolCall("c1", "add", {"a": 1, "b": 2})], "tool_use")
    file = tmp_path / "stream"
    file.write_bytes(stream_of(api, calling))
    said = stream_of(api, AssistantMessage("m2", "m", [Text("It is 3.")], "stop"))
    model = ReplayModel(file, said, api=api)
    agent = Agent(model, [add], retry=AgentRetry(attempts=0))
    assert (await agent.run("1 + 2?")).text == "It is 3."
    assert model.api_name == api
    result = await agent.run("More?")
    assert result.error is not None
    assert "no recording for request 3" in result.error.message


async def test_a_recording_that_was_cut_fails() -> None:
    data = stream_of("openai-chat", AssistantMessage("m2", "m", [Text("It is 3.")], "stop"))
    agent = Agent(ReplayModel(data[:-40]), retry=AgentRetry(attempts=0))
    result = await agent.run("1 + 2?")
    assert result.error is not None
    assert result.error.kind == "truncated"


# --- events ---


def test_a_recorder_has_the_events_of_all_runs() -> None:
    agent = Agent(ScriptedModel([call("add", a=1, b=2), "3.", "Bye."]), [add])
    recorder = EventRecorder(agent)
    agent.run_sync("1 + 2?")
    assert recorder.tools == [("add", {"a": 1, "b": 2})]
    assert recorder.types[0] == "agent_start"
    assert recorder.types[-1] == "agent_end"
    check_order(recorder.events)
    count = len(recorder.events)
    agent.run_sync("Bye.")
    assert len(recorder.events) > count
    recorder.stop()


async def test_events_out_of_order_are_found() -> None:
    events = await record_run(Agent(ScriptedModel(["Hi."])).run("Hi."))
    for wrong in (events[1:], events[:-1], events[::-1], [*events, events[-1]]):
        with pytest.raises(AssertionError):
            check_order(wrong)


def test_a_request_of_the_log_is_replayed(tmp_path: Path) -> None:
    with logging_to(tmp_path) as log:
        id_ = log.add("High water at six.")

        async def replay() -> str:
            model = await ReplayModel.from_log(f"sqlite:///{log.database}", id_)
            return (await Agent(model).run("When?")).text

        assert asyncio.run(replay()) == "High water at six."

        async def miss() -> None:
            await ReplayModel.from_log(f"sqlite:///{log.database}", "none")

        with pytest.raises(UsageError, match="the log has no request none"):
            asyncio.run(miss())
