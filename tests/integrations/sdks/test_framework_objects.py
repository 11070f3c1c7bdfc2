"""The objects for LangChain, pydantic-ai and openai-agents: models that are no HTTP clients."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import openai
import pytest

from integrations.printed_calls import PRINTED
from integrations.printing_server import CITY, RESULT, PrintingServer, serve

pytest.importorskip("langgraph", reason="`make sdks` installs it")

from langchain_core.language_models import FakeMessagesListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from penstock.integrations.langchain import PenstockChatModel, PenstockOutputParser
from penstock.integrations.openai_agents import PenstockModel
from penstock.integrations.pydantic_ai import PenstockWrapperModel

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.leaves_files]

agents: Any = import_module("agents")


@pytest.fixture
def server() -> Iterator[PrintingServer]:
    agents.set_tracing_disabled(disabled=True)
    with serve() as found:
        yield found


@tool
def weather(city: str) -> str:
    """Return the weather."""
    assert city == CITY
    return RESULT


def make_langchain(server: PrintingServer, tools_in: Any) -> Any:
    plain = ChatOpenAI(model="m", base_url=server.url, api_key="x")
    return PenstockChatModel(model=plain, tools_in=tools_in, options={"format": "hermes"})


def check(message: Any) -> None:
    assert [(one["name"], one["args"]) for one in message.tool_calls] == [
        ("weather", {"city": CITY})
    ]
    assert message.text == "Let me look.\n"


def test_a_langchain_model_that_does_not_stream_is_streamed_whole() -> None:
    call = f'<tool_call>{{"name": "weather", "arguments": {{"city": "{CITY}"}}}}</tool_call>'
    text = f"<think>A tool has it.</think>{call}"
    plain = FakeMessagesListChatModel(responses=[AIMessage(text)])
    model = PenstockChatModel(model=plain, tools_in="prompt", options={"format": "hermes"})
    (message,) = model.bind_tools([weather]).stream("How is the weather?")
    assert [one["args"] for one in message.tool_calls] == [{"city": CITY}]
    assert message.additional_kwargs["reasoning_content"] == "A tool has it."


@pytest.mark.parametrize("tools_in", ["request", "prompt"])
async def test_langchain(server: PrintingServer, tools_in: str) -> None:
    model = make_langchain(server, tools_in).bind_tools([weather])
    check(model.invoke("Weather?"))
    check(await model.ainvoke("Weather?"))
    whole: Any = None
    for chunk in model.stream("Weather?"):
        whole = chunk if whole is None else whole + chunk
    check(whole)
    whole = None
    async for chunk in model.astream("Weather?"):
        whole = chunk if whole is None else whole + chunk
    check(whole)
    assert all(("tools" in one) == (tools_in == "request") for one in server.requests)


@pytest.mark.parametrize("tools_in", ["request", "prompt"])
def test_a_langchain_agent(server: PrintingServer, tools_in: str) -> None:
    agent = create_react_agent(make_langchain(server, tools_in), [weather])
    found = agent.invoke({"messages": [("user", "Weather?")]})["messages"]
    assert [one.type for one in found] == ["human", "ai", "tool", "ai"]
    assert found[3].text == "It is 7 degrees."


def test_a_cut_call_is_not_executed() -> None:
    cut = AIMessage(PRINTED[:-25], response_metadata={"finish_reason": "length"})
    model = PenstockChatModel(model=GenericFakeChatModel(messages=iter([cut])), tools_in="prompt")
    found = model.bind_tools([weather]).invoke("Weather?")
    assert found.tool_calls == []
    assert found.text == PRINTED[:-25]


def test_an_output_parser_for_any_chain() -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage(f"So: {PRINTED}"), AIMessage("Hi.")]))
    chain = model | PenstockOutputParser(tools=[weather])
    found = chain.invoke("Weather?")
    assert [(one["name"], one["args"]) for one in found.tool_calls] == [("weather", {"city": CITY})]
    assert found.text == "So: "
    assert chain.invoke("Hello").text == "Hi."


def make_pydantic(server: PrintingServer) -> tuple[Any, list[str]]:
    client = openai.AsyncOpenAI(base_url=server.url, api_key="x")
    inner = OpenAIChatModel("m", provider=OpenAIProvider(openai_client=client))
    agent = Agent(PenstockWrapperModel(inner, format="hermes"))
    cities: list[str] = []

    @agent.tool_plain
    def weather(city: str) -> str:
        cities.append(city)
        return RESULT

    return agent, cities


async def test_pydantic_ai(server: PrintingServer) -> None:
    agent, cities = make_pydantic(server)
    found = await agent.run("Weather?")
    assert (found.output, cities) == ("It is 7 degrees.", [CITY])
    agent, cities = make_pydantic(server)
    async with agent.run_stream_events("Weather?") as events:
        seen = [event async for event in events]
    assert seen[-1].result.output == "It is 7 degrees."
    assert cities == [CITY]
    assert seen[-1].result.usage.output_tokens == 14


async def test_pydantic_ai_without_http() -> None:
    def respond(messages: Any, _: Any) -> Any:
        text = "Done." if len(messages) > 1 else PRINTED
        return ModelResponse(parts=[TextPart(text)])

    agent = Agent(PenstockWrapperModel(FunctionModel(respond)))

    @agent.tool_plain
    def weather(city: str) -> str:
        return f"{city}: {RESULT}"

    found = await agent.run("Weather?")
    assert found.output == "Done."
    assert f"{CITY}: {RESULT}" in str(found.all_messages())


@pytest.mark.parametrize("tools", ["auto", "prompt"])
@pytest.mark.parametrize("kind", ["OpenAIChatCompletionsModel", "OpenAIResponsesModel"])
async def test_openai_agents(server: PrintingServer, kind: str, tools: str) -> None:
    cities: list[str] = []

    @agents.function_tool
    def weather(city: str) -> str:
        """Return the weather."""
        cities.append(city)
        return RESULT

    client = openai.AsyncOpenAI(base_url=server.url, api_key="x")
    inner = vars(agents)[kind](model="m", openai_client=client)
    model = PenstockModel(inner, tools=tools, format="hermes")
    agent = agents.Agent(name="a", instructions="Help.", model=model, tools=[weather])
    found = await agents.Runner.run(agent, "Weather?")
    assert (found.final_output, cities) == ("It is 7 degrees.", [CITY])
    streamed = agents.Runner.run_streamed(agent, "Weather?")
    async for _ in streamed.stream_events():
        pass
    assert (streamed.final_output, cities) == ("It is 7 degrees.", [CITY, CITY])
    assert all(bool(one.get("tools")) == (tools == "auto") for one in server.requests)
