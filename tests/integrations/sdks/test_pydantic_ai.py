"""pydantic-ai with a client of ours: its agent runs the tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integrations.printing_server import CITY, RESULT, PrintingServer, anthropic_library, serve
from penstock.integrations.httpx import async_penstock_client

pytest.importorskip("pydantic_ai", reason="`make sdks` installs it")

import anthropic
import openai
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.leaves_files]


@pytest.fixture
def server() -> Iterator[PrintingServer]:
    with serve() as found:
        yield found


def make_agent(server: PrintingServer, kind: str) -> tuple[Any, list[str]]:
    if kind == "messages":
        if anthropic_library() == "httpx2":
            pytest.skip("it does not support anthropic 1 and newer itself")
        messages = anthropic.AsyncAnthropic(
            base_url=server.root,
            api_key="x",
            http_client=async_penstock_client(library=anthropic_library()),
        )
        model: Any = AnthropicModel("m", provider=AnthropicProvider(anthropic_client=messages))
    else:
        client = openai.AsyncOpenAI(
            base_url=server.url, api_key="x", http_client=async_penstock_client()
        )
        made = OpenAIResponsesModel if kind == "responses" else OpenAIChatModel
        model = made("m", provider=OpenAIProvider(openai_client=client))
    agent = Agent(model)
    cities: list[str] = []

    @agent.tool_plain
    def weather(city: str) -> str:
        cities.append(city)
        return RESULT

    return agent, cities


@pytest.mark.parametrize("kind", ["chat", "responses", "messages"])
async def test_an_agent_runs_the_tool_whole_and_streamed(server: PrintingServer, kind: str) -> None:
    agent, cities = make_agent(server, kind)
    found = await agent.run("Weather?")
    assert (found.output, cities) == ("It is 7 degrees.", [CITY])
    agent, cities = make_agent(server, kind)
    async with agent.run_stream_events("Weather?") as events:
        kinds = [type(event).__name__ async for event in events]
    assert "FunctionToolCallEvent" in kinds
    assert cities == [CITY]
