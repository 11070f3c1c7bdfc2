"""LlamaIndex with a client of ours: its agent runs the tool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integrations.printing_server import CITY, RESULT, PrintingServer, anthropic_library, serve
from penstock.integrations.httpx import async_penstock_client, attach, penstock_client

pytest.importorskip("llama_index.llms.openai", reason="`make sdks` installs it")

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.anthropic import Anthropic
from llama_index.llms.openai import OpenAI, OpenAIResponses

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.leaves_files]

MODEL = "gpt-4.1"  # LlamaIndex knows the context size of known models only.


@pytest.fixture
def server() -> Iterator[PrintingServer]:
    with serve() as found:
        yield found


def make_model(server: PrintingServer, kind: str) -> Any:
    if kind == "messages":
        if anthropic_library() == "httpx2":
            pytest.skip("it does not support anthropic 1 and newer itself")
        return attach(Anthropic(model="claude-sonnet-4-0", base_url=server.root, api_key="x"))
    made: Any = OpenAIResponses if kind == "responses" else OpenAI
    return made(
        model=MODEL,
        api_base=server.url,
        api_key="x",
        http_client=penstock_client(),
        async_http_client=async_penstock_client(),
    )


def make_tool() -> tuple[Any, list[str]]:
    cities: list[str] = []

    def weather(city: str) -> str:
        """Return the weather."""
        cities.append(city)
        return RESULT

    return FunctionTool.from_defaults(weather), cities


KINDS = ["chat", "responses", "messages"]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_whole_and_streamed(server: PrintingServer, kind: str) -> None:
    model = make_model(server, kind)
    tool, _ = make_tool()
    whole = model.chat_with_tools([tool], user_msg="Weather?")
    *_, last = model.stream_chat_with_tools([tool], user_msg="Weather?")
    for found in (whole, last):
        calls = model.get_tool_calls_from_response(found)
        assert [(one.tool_name, one.tool_kwargs) for one in calls] == [("weather", {"city": CITY})]


@pytest.mark.parametrize("kind", KINDS)
async def test_an_agent_runs_the_tool(server: PrintingServer, kind: str) -> None:
    tool, cities = make_tool()
    agent = FunctionAgent(tools=[tool], llm=make_model(server, kind))
    found = await agent.run("Weather?")
    assert "7 degrees" in str(found)
    assert cities == [CITY]
