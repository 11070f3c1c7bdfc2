"""The same conversation over every API: with tools of the upstream's own, and with middleware.

The upstream is the scripted model behind a server that speaks the API, at the transport seam: every
request and every answer is bytes on the way.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from typing import Any

import pytest

from async_runner import run_in_virtual_time
from models.upstreams import PARIS, answer_of, asking
from penstock import DemoModel, HTTPModel, Request, ToolMiddleware, apis
from penstock.apis import Api
from penstock.messages import AssistantMessage, ToolCall, ToolResult
from penstock.models import Model
from penstock.models.base import collect_message
from penstock.models.http.transport import HTTPCall
from penstock.request import ToolChoice, UserMessage

APIS = apis.names()
WORDS = "How is the weather in Paris for 3 days?"
NEW_CHAT = b'{"success": true, "data": {"id": "chat-1"}}'


class Body:
    """An answer of the server, as it comes."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, data: AsyncIterator[bytes]) -> None:
        self._data = data

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._data

    async def aclose(self) -> None:
        """Close nothing."""


class Server:
    """Replaces the network, with *model* at its other end; records the bodies that were sent."""

    def __init__(self, api: str, model: Model) -> None:
        self.sent: list[dict[str, Any]] = []
        self._api, self._model = apis.get(api), model

    async def send(self, call: HTTPCall) -> Body:
        if call.url.endswith("/chats/new"):
            return Body(self._begin())
        self.sent.append(json.loads(call.body))
        return Body(self._answer(heard(self._api, self.sent[-1])))

    async def close(self) -> None:
        """Close nothing."""

    async def _begin(self) -> AsyncIterator[bytes]:
        yield NEW_CHAT

    async def _answer(self, request: Request) -> AsyncIterator[bytes]:
        encoder = self._api.encoder(model=self._model.name)
        async for event in self._model.stream(request):
            yield encoder.encode(event)
        yield encoder.finish()


def heard(api: Api, body: dict[str, Any]) -> Request:
    """Return what the server understands; chat.qwen.ai gets all of it in one text."""
    request = api.read_request(body)
    if api.name != "qwen":
        return request
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    assert WORDS in message.text
    request = asking(WORDS)
    if "sunny" in message.text:
        assert "get_weather" in message.text
        call = ToolCall("c1", "get_weather", PARIS)
        request.messages += [AssistantMessage(content=[call]), ToolResult("c1", call.name, "sunny")]
    return request


def over(api: str, server: Server) -> HTTPModel:
    return HTTPModel(api, "http://here", "penstock-demo", "key", transport=server, environ={})


async def batched(model: Model, request: Request) -> AssistantMessage:
    """Return the whole answer, as it comes in batches."""
    return await collect_message(model.batches(request))


async def streamed(model: Model, request: Request) -> AssistantMessage:
    """Return the whole answer, as it comes in a stream."""
    return await model.complete(request)


def shows_tools(api: str, body: dict[str, Any]) -> bool:
    """Return whether the model is shown the tools in words."""
    said = body["messages"][0]["content"] if api == "qwen" else json.dumps(body)
    return "Weather of a city" in said and not body.get("tools")


@pytest.mark.parametrize("ask", [streamed, batched])
@pytest.mark.parametrize("api", APIS)
def test_a_conversation_is_the_same_with_and_without_middleware(
    api: str, ask: Callable[[Model, Request], Coroutine[Any, Any, AssistantMessage]]
) -> None:
    told, native = Server(api, DemoModel("qwen3_coder")), Server(api, DemoModel("native"))
    seen = []
    for model in (ToolMiddleware(over(api, told)), over(api, native)):
        request = asking(WORDS)
        called = run_in_virtual_time(ask(model, request))
        assert called.error is None
        results = [ToolResult(call.id, call.name, "sunny") for call in called.tool_calls]
        request.messages += [called, *results]
        answered = run_in_virtual_time(ask(model, request))
        calls = [(call.name, call.arguments) for call in called.tool_calls]
        seen.append((calls, called.stop_reason, called.text, answered.text, answered.stop_reason))
    assert seen[0] == seen[1]
    assert seen[0][:2] == ([("get_weather", PARIS)], "tool_use")
    assert seen[0][3].startswith("get_weather says: sunny")
    assert seen[0][4] == "stop"
    assert all(shows_tools(api, body) for body in told.sent)
    assert len(told.sent) == len(native.sent) == 2
    assert not shows_tools(api, native.sent[0])
    assert bool(native.sent[0].get("tools")) == (api != "qwen"), "which has no word for them"


@pytest.mark.parametrize("api", ["openai-chat", "openai-responses", "gemini", "ollama"])
def test_a_forced_choice_reaches_the_upstream_as_a_schema(api: str) -> None:
    server = Server(api, DemoModel())
    model = ToolMiddleware(over(api, server), constrain="json_schema")
    answer = answer_of(model, asking("Hm.", tool_choice=ToolChoice("tool", "take_note")))
    assert [call.name for call in answer.tool_calls] == ["take_note"]
    assert answer.stop_reason == "tool_use"
    assert '"const": "take_note"' in json.dumps(server.sent[0])


def test_a_grammar_stands_in_the_body_of_a_chat_request() -> None:
    server = Server("openai-chat", DemoModel())
    model = ToolMiddleware(over("openai-chat", server), constrain="grammar")
    request = asking(tool_choice=ToolChoice("required"), source="anthropic")
    answer_of(model, request)
    assert server.sent[0]["grammar"].startswith("root ::=")


def test_a_structural_tag_stands_in_the_body_of_a_chat_request() -> None:
    server = Server("openai-chat", DemoModel())
    model = ToolMiddleware(over("openai-chat", server), constrain="structural_tag")
    answer_of(model, asking())
    assert server.sent[0]["response_format"]["type"] == "structural_tag"
