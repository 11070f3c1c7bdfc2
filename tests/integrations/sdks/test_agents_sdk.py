"""openai-agents with a client of ours: its runner runs the tool."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import openai
import pytest

from integrations.printing_server import CITY, RESULT, PrintingServer, serve
from penstock.integrations.httpx import async_penstock_client

pytest.importorskip("agents.run", reason="`make sdks` installs openai-agents")

agents: Any = import_module("agents")  # `docs/agents` is no module, but mypy takes it for one

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.leaves_files]


@pytest.fixture
def server() -> Iterator[PrintingServer]:
    agents.set_tracing_disabled(disabled=True)
    with serve() as found:
        yield found


def make_agent(server: PrintingServer, kind: str) -> tuple[Any, list[str]]:
    cities: list[str] = []

    @agents.function_tool
    def weather(city: str) -> str:
        """Return the weather."""
        cities.append(city)
        return RESULT

    client = openai.AsyncOpenAI(
        base_url=server.url, api_key="x", http_client=async_penstock_client()
    )
    made: Any = (
        agents.OpenAIResponsesModel if kind == "responses" else agents.OpenAIChatCompletionsModel
    )
    model = made(model="m", openai_client=client)
    return agents.Agent(name="a", model=model, tools=[weather]), cities


@pytest.mark.parametrize("kind", ["chat", "responses"])
async def test_a_runner_runs_the_tool_whole_and_streamed(server: PrintingServer, kind: str) -> None:
    agent, cities = make_agent(server, kind)
    found = await agents.Runner.run(agent, "Weather?")
    assert (found.final_output, cities) == ("It is 7 degrees.", [CITY])
    agent, cities = make_agent(server, kind)
    streamed = agents.Runner.run_streamed(agent, "Weather?")
    async for _ in streamed.stream_events():
        pass
    assert (streamed.final_output, cities) == ("It is 7 degrees.", [CITY])
