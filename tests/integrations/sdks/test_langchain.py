"""LangChain's models with a client of ours, and LangChain's own agent loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from integrations.printing_server import CITY, RESULT, PrintingServer, serve
from penstock.integrations.httpx import async_penstock_client, attach, penstock_client

pytest.importorskip("langchain_openai", reason="`make sdks` installs it")

from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.leaves_files]


@tool
def weather(city: str) -> str:
    """Return the weather."""
    assert city == CITY
    return RESULT


@pytest.fixture
def server() -> Iterator[PrintingServer]:
    with serve() as found:
        yield found


def make_model(server: PrintingServer, kind: str) -> Any:
    if kind == "messages":
        model = ChatAnthropic(model="m", base_url=server.root, api_key="x", max_tokens=100)
        return attach(model)
    return ChatOpenAI(
        model="m",
        base_url=server.url,
        api_key="x",
        use_responses_api=kind == "responses",
        http_client=penstock_client(),
        http_async_client=async_penstock_client(),
    )


def check(message: Any) -> None:
    assert [(call["name"], call["args"]) for call in message.tool_calls] == [
        ("weather", {"city": CITY})
    ]
    assert message.invalid_tool_calls == []
    assert "<tool_call>" not in str(message.content)


KINDS = ["chat", "responses", "messages"]


@pytest.mark.parametrize("kind", KINDS)
def test_synchronous_models(server: PrintingServer, kind: str) -> None:
    model = make_model(server, kind).bind_tools([weather])
    check(model.invoke("Weather?"))
    whole: Any = None
    for chunk in model.stream("Weather?"):
        whole = chunk if whole is None else whole + chunk
    check(whole)


@pytest.mark.parametrize("kind", KINDS)
async def test_asynchronous_models(server: PrintingServer, kind: str) -> None:
    model = make_model(server, kind).bind_tools([weather])
    check(await model.ainvoke("Weather?"))
    whole: Any = None
    async for chunk in model.astream("Weather?"):
        whole = chunk if whole is None else whole + chunk
    check(whole)


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_runs_the_tool_and_responds(server: PrintingServer, kind: str) -> None:
    agent = create_react_agent(make_model(server, kind), [weather])
    found = agent.invoke({"messages": [("user", "Weather?")]})["messages"]
    assert [one.type for one in found] == ["human", "ai", "tool", "ai"]
    assert found[2].content == RESULT
    assert "7 degrees" in str(found[3].content)


def test_models_that_share_a_client_are_not_changed(server: PrintingServer) -> None:
    model = make_model(server, "messages").bind_tools([weather])
    other = ChatAnthropic(model="m", base_url=server.root, api_key="x", max_tokens=100)
    check(model.invoke("Weather?"))
    assert "<tool_call>" in str(other.bind_tools([weather]).invoke("Weather?").content)
