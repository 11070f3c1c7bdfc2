"""The same conversation over every API: with tools of the upstream's own, and with middleware.

The upstream is the scripted model behind a server that speaks the API, at the transport seam: every
request and every answer is bytes on the way.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from models.upstreams import PARIS, answer_of, asking
from penstock import DemoModel, HTTPModel, ToolMiddleware, apis
from penstock.apis import Api
from penstock.messages import ToolResult
from penstock.models import Model
from penstock.models.http.transport import HTTPCall
from penstock.requests import ToolChoice

APIS = ["openai-chat", "openai-responses", "anthropic", "gemini", "ollama"]


class Body:
    """An answer of the server, as it is encoded."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, api: Api, model: Model, body: bytes) -> None:
        if api.name == "ollama":
            self.headers = {"content-type": "application/x-ndjson"}
        self._api, self._model = api, model
        self._request = api.read_request(json.loads(body))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        encoder = self._api.encoder(model=self._model.name)
        async for event in self._model.stream(self._request):
            yield encoder.encode(event)
        yield encoder.finish()

    async def aclose(self) -> None:
        """Close nothing."""


class Server:
    """Stands for the network, with *model* at its other end; keeps the bodies that were sent."""

    def __init__(self, api: str, model: Model) -> None:
        self.sent: list[dict[str, Any]] = []
        self._api, self._model = apis.get(api), model

    async def send(self, call: HTTPCall) -> Body:
        self.sent.append(json.loads(call.body))
        return Body(self._api, self._model, call.body)

    async def close(self) -> None:
        """Close nothing."""


def over(api: str, server: Server) -> HTTPModel:
    return HTTPModel(api, "http://here", "penstock-demo", "key", transport=server, environ={})


@pytest.mark.parametrize("api", APIS)
def test_a_conversation_is_the_same_with_and_without_middleware(api: str) -> None:
    told, native = Server(api, DemoModel("qwen3_coder")), Server(api, DemoModel("native"))
    seen = []
    for model in (ToolMiddleware(over(api, told)), over(api, native)):
        request = asking("How is the weather in Paris for 3 days?")
        called = answer_of(model, request)
        assert called.error is None
        results = [ToolResult(call.id, call.name, "sunny") for call in called.tool_calls]
        request.messages += [called, *results]
        answered = answer_of(model, request)
        calls = [(call.name, call.arguments) for call in called.tool_calls]
        seen.append((calls, called.stop_reason, called.text, answered.text, answered.stop_reason))
    assert seen[0] == seen[1]
    assert seen[0][0] == [("get_weather", PARIS)]
    assert seen[0][3].startswith("get_weather says: sunny")
    assert all(not body.get("tools") for body in told.sent)
    assert native.sent[0]["tools"]


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
