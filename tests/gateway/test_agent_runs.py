"""Agents whose model is behind a real gateway: every run says how it ended."""

from __future__ import annotations

import asyncio

import pytest

from gateway.serving import CLIENTS, Actor, Served, Stage, upstream_table
from models.loopback_servers import CUT, STALL, Reply, stream_of
from penstock import HTTPModel
from penstock.agent import Agent, AgentRetry, AgentRun, AgentRunError, tool
from penstock.messages import AssistantMessage, Text, ToolResult, Usage

PRINTED = '<tool_call>{"name": "add", "arguments": {"a": 1, "b": 2}}</tool_call>'
MODELS = """
[models.m]
upstream = "openai-chat"
"""


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = upstream_table(actor, retries=0) + MODELS
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


def message(text: str) -> AssistantMessage:
    return AssistantMessage("m1", "m", [Text(text)], "stop", "", Usage(input=9, output=5, total=14))


def model_of(served: Served, client: str) -> HTTPModel:
    root = f"http://127.0.0.1:{served.port}"
    base = root if client == "anthropic" else f"{root}/v1"
    return HTTPModel(client, base, "m", "key", interval=0)


async def check_error(going: AgentRun) -> AgentRunError:
    """Wait for a run that fails; return its error, which each of its ways to ask tells."""
    result = await going
    assert going.error is not None
    assert result.error == going.error
    assert await going.result() == result.messages
    with pytest.raises(AgentRunError) as raised:
        await going.result(check=True)
    assert raised.value.info == going.error
    return raised.value


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_run_that_finishes_has_no_error(served: Served, actor: Actor, client: str) -> None:
    actor.say(message(PRINTED), message("It is 3."))
    async with model_of(served, client) as model:
        going = Agent(model, [add]).run("Add 1 and 2.")
        messages = await going.result(check=True)
        assert going.error is None
        assert [one.content for one in messages if isinstance(one, ToolResult)] == [3]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_run_that_ends_at_max_turns_says_so(
    served: Served, actor: Actor, client: str
) -> None:
    actor.say(message(PRINTED))
    async with model_of(served, client) as model:
        error = await check_error(Agent(model, [add], max_turns=2).run("Add 1 and 2."))
        assert error.info.type == "turns"


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_run_that_ends_by_an_error_of_the_upstream_says_so(
    served: Served, actor: Actor, client: str
) -> None:
    refused = b'{"error": {"message": "the tide is out", "type": "server_error"}}'
    data = stream_of("openai-chat", message("Once upon a time there was a lighthouse."))
    for failing in (Reply([refused], status=500), Reply([data[: len(data) // 2], CUT])):
        actor.play(failing)
        async with model_of(served, client) as model:
            agent = Agent(model, [add], retry=AgentRetry(attempts=0))
            error = await check_error(agent.run("Go."))
            assert error.info.kind in ("provider", "transport", "truncated")


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_run_that_is_aborted_says_so(served: Served, actor: Actor, client: str) -> None:
    data = stream_of("openai-chat", message("Once upon a time there was a lighthouse."))
    begun = data.index(b"\n\n", len(data) // 2) + 2
    actor.play(Reply([data[:begun], STALL]))
    async with model_of(served, client) as model:
        going = Agent(model, [add]).run("Go.")
        async with asyncio.timeout(20):
            async for event in going:
                if event.type == "message_update":
                    await going.abort()
        error = await check_error(going)
        assert error.info.kind == "aborted"
