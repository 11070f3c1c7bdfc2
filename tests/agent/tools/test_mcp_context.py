"""Resources, prompts, sampling and elicitation, with the official package over stdio and HTTP."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.scenes import text
from agent.tools.contexts import Heard
from agent.tools.watching import until
from penstock.agent.tools import Elicitation, MCPResource, MCPServer, ToolOutput
from penstock.agent.tools.mcp_context import MAX_SAMPLE_TOKENS, MAX_SAMPLES, MCPArgument, Sampler
from penstock.errors import ProviderError, ToolError, UsageError
from penstock.messages import AssistantMessage, ErrorInfo, Text, Usage
from penstock.models.base import Model
from penstock.request import Image, Request, UserMessage
from penstock.streams import EventStream

HERE = Path(__file__).parent


class OneAnswer(Model):
    """Responds with *message*, and keeps the requests."""

    name = "small"

    def __init__(self, message: AssistantMessage) -> None:
        self.message = message
        self.seen: list[Request] = []

    async def complete(self, request: Any) -> AssistantMessage:
        self.seen.append(request)
        return self.message

    def stream(self, request: Request) -> EventStream:
        raise NotImplementedError


def answer(**fields: Any) -> AssistantMessage:
    return AssistantMessage("a", "small-1", [Text("high at six")], **fields)


@asynccontextmanager
async def over_stdio(**options: Any) -> AsyncIterator[MCPServer]:
    script = str(HERE / "mcp_asking.py")
    async with MCPServer.stdio(sys.executable, [script], needs_approval=False, **options) as server:
        yield server


@asynccontextmanager
async def over_http(url: str, **options: Any) -> AsyncIterator[MCPServer]:
    async with MCPServer.http(url, needs_approval=False, **options) as client:
        yield client


@pytest.fixture(scope="module")
def http_server() -> Iterator[str]:
    """Run the server once for all tests, since it keeps nothing; the value is its URL."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    # A process of its own: the package leaves a task behind in the loop of a server.
    process = subprocess.Popen([sys.executable, str(HERE / "mcp_asking.py"), str(port)])  # noqa: S603
    try:
        asyncio.run(until(lambda: is_listening(port)))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.fixture(params=["over_stdio", "over_http"])
def connect(request: pytest.FixtureRequest) -> Any:
    if request.param == "over_stdio":
        return over_stdio
    return partial(over_http, request.getfixturevalue("http_server"))


def is_listening(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


async def called(server: MCPServer, name: str, **arguments: Any) -> ToolOutput:
    (found,) = [one for one in server.tools if one.name == name]
    result = await found.run(arguments, Heard(name))
    assert isinstance(result, ToolOutput)
    return result


async def test_resources_and_prompts_are_listed_and_read(connect: Any) -> None:
    async with connect(prefix="x_") as server:
        listed = {one.uri: one for one in await server.list_resources()}
        assert set(listed) == {"tides://today", "map://harbour", "tides://{day}"}
        assert listed["tides://today"] == MCPResource(
            "tides", "tides://today", "The tides of today", "text/plain"
        )
        assert listed["tides://{day}"].template
        assert await server.read_resource("tides://today") == [Text("high at six")]
        assert await server.read_resource("tides://monday") == [Text("high at noon on monday")]
        (image,) = await server.read_resource("map://harbour")
        assert isinstance(image, Image)
        with pytest.raises(ProviderError, match="cannot use MCP server"):
            await server.read_resource("nothing://here")
        (prompt,) = await server.list_prompts()
        assert (prompt.name, prompt.description) == ("plan", "Plan a trip.")
        assert prompt.arguments == [MCPArgument("boat", "", True), MCPArgument("day", "", False)]
        assert await server.get_prompt("plan", {"boat": "Anna"}) == [
            UserMessage("Plan a trip with Anna for today.")
        ]
        with pytest.raises(ProviderError):
            await server.get_prompt("plan")
        listing, reading = server.resource_tools()
        assert (listing.name, reading.name) == ("x_list_resources", "x_read_resource")
        uris = [one["uri"] for one in await listing.run({}, Heard("l"))]
        assert "tides://today" in uris
        assert await reading.run({"uri": "tides://today"}, Heard("r")) == [Text("high at six")]
        with pytest.raises(ToolError):
            await reading.run({"uri": "nothing://here"}, Heard("r"))
    with pytest.raises(UsageError, match="is not open"):
        await server.list_prompts()


async def test_a_model_responds_to_the_server_within_the_limits(connect: Any) -> None:
    model = OneAnswer(answer(stop_reason="stop", usage=Usage(input=5, output=3)))
    async with connect(sampling=model, legacy=True) as server:
        said = await called(server, "summarize", text="The sea rises at six.")
        assert said == ToolOutput("small-1 says: high at six (endTurn)")
        (request,) = model.seen
        assert request.system == "Be brief."
        assert request.messages == [UserMessage("The sea rises at six.")]
        assert (request.max_tokens, request.temperature) == (MAX_SAMPLE_TOKENS, 0.5)
        assert server.sampling_usage == Usage(input=5, output=3)
        model.message = answer(stop_reason="error", error=ErrorInfo("no water", "provider"))
        with pytest.raises(ToolError, match="no water"):
            await called(server, "summarize", text="x")


async def test_without_a_model_and_a_user_the_server_is_refused() -> None:
    async with over_stdio(legacy=True) as server:
        asking: list[tuple[str, dict[str, str]]] = [("summarize", {"text": "x"}), ("book", {})]
        for name, arguments in [*asking, ("pay", {})]:
            with pytest.raises(ToolError, match="not supported"):
                await called(server, name, **arguments)
        assert server.sampling_usage == Usage()


async def test_the_user_answers_the_server(connect: Any) -> None:
    asked: list[Elicitation] = []
    answers: list[Any] = [
        {"place": "north", "metres": 12},
        None,
        {"place": "north", "metres": 0},
        ValueError("no window"),
        True,
        False,
    ]

    async def elicit(question: Elicitation) -> Any:
        asked.append(question)
        given = answers.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    async with connect(elicit=elicit, legacy=True) as server:
        assert (await called(server, "book")).content == "booked north with 12 m"
        assert asked[0].message == "Which berth?"
        assert asked[0].schema["properties"]["metres"]["type"] == "integer"
        assert asked[0].server == str(server.endpoint)
        assert (await called(server, "book")).content == "not booked: decline"
        with pytest.raises(ToolError, match="metres: expected at least 1"):
            await called(server, "book")
        with pytest.raises(ToolError, match="no window"):
            await called(server, "book")
        assert (await called(server, "pay")).content == "payment: accept"
        assert asked[-1].url == "https://pay.example/1"
        assert (await called(server, "pay")).content == "payment: decline"


async def test_newer_servers_ask_in_the_result_of_a_call(connect: Any) -> None:
    model = OneAnswer(answer(stop_reason="stop"))
    answers = [{"place": "north", "metres": 3}, {"place": "north"}]
    async with connect(sampling=model, elicit=lambda _: answers.pop(0)) as server:
        assert (await called(server, "moor")).content == "moored north with high at six"
        with pytest.raises(ToolError, match="metres"):
            await called(server, "moor")


async def test_the_number_of_samples_is_limited() -> None:
    from mcp.types import (  # noqa: PLC0415 - beside its use
        CreateMessageRequestParams,
        ErrorData,
        SamplingMessage,
        TextContent,
    )

    model = OneAnswer(text("x"))
    sampler = Sampler(model, lambda block: Text(block.text))
    message = SamplingMessage(role="assistant", content=TextContent(text="x"))
    params = CreateMessageRequestParams(messages=[message], max_tokens=1)
    for _ in range(MAX_SAMPLES):
        assert not isinstance(await sampler(None, params), ErrorData)
    assert isinstance(await sampler(None, params), ErrorData)
    assert len(model.seen) == MAX_SAMPLES
