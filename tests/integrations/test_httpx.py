"""The SDKs with a client of ours: printed calls arrive as tool calls."""

from __future__ import annotations

import asyncio
import gc
import gzip
import importlib
import json
from typing import Any

import anthropic
import openai
import pytest

from integrations.printed_calls import PRINTED, SCHEMA, encode, make_body, make_message
from integrations.printing_server import anthropic_library, serve
from penstock import apis
from penstock.errors import UsageError
from penstock.integrations.httpx import async_penstock_client, attach, penstock_client
from penstock.messages import Text

TOOL = {"name": "weather", "parameters": SCHEMA}
MESSAGE = make_message(Text(f"Let me look.\n{PRINTED}"))


class Upstream:
    """A server that prints a call, in the API of the request."""

    def __init__(self, library: str) -> None:
        self.httpx: Any = importlib.import_module(library)
        self.requests: list[Any] = []

    def __call__(self, request: Any) -> Any:
        self.requests.append(request)
        path = request.url.path
        if path.endswith("/models"):
            return self.httpx.Response(200, json={"object": "list", "data": []})
        api = {"ons": "openai-chat", "ses": "openai-responses", "ges": "anthropic"}[path[-3:]]
        asked = json.loads(request.content)
        if asked.get("model") == "broken":
            error = {"error": {"message": "no such model", "type": "not_found_error"}}
            return self.httpx.Response(404, json=error)
        if asked.get("stream"):
            headers = {"content-type": "text/event-stream; charset=utf-8"}
            return self.httpx.Response(200, headers=headers, content=encode(api, MESSAGE))
        return self.httpx.Response(200, json=apis.get(api).write_response(MESSAGE))


@pytest.fixture
def upstream() -> Upstream:
    return Upstream("httpx2")


def make_client(upstream: Upstream, **options: Any) -> Any:
    transport = upstream.httpx.MockTransport(upstream)
    return penstock_client(library=upstream.httpx.__name__, transport=transport, **options)


def make_async_client(upstream: Upstream) -> Any:
    return async_penstock_client(transport=upstream.httpx.MockTransport(upstream))


def test_openai_chat(upstream: Upstream) -> None:
    client = openai.OpenAI(api_key="x", http_client=make_client(upstream))
    ask: Any = {
        "model": "m",
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"type": "function", "function": TOOL}],
    }
    choice: Any = client.chat.completions.create(**ask).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me look.\n"
    assert json.loads(choice.message.tool_calls[0].function.arguments) == {"city": "Os<lo"}
    with client.chat.completions.stream(**ask) as stream:
        final: Any = stream.get_final_completion().choices[0]
    assert final.finish_reason == "tool_calls"
    assert final.message.tool_calls[0].function.name == "weather"


def test_openai_responses(upstream: Upstream) -> None:
    client = openai.OpenAI(api_key="x", http_client=make_client(upstream))
    ask: Any = {"model": "m", "input": "Weather?", "tools": [{"type": "function", **TOOL}]}
    found: Any = client.responses.create(**ask)
    assert [item.type for item in found.output] == ["message", "function_call"]
    with client.responses.stream(**ask) as stream:
        final: Any = stream.get_final_response()
    assert [item.type for item in final.output] == ["message", "function_call"]
    assert json.loads(final.output[1].arguments) == {"city": "Os<lo"}


def test_anthropic(upstream: Upstream) -> None:
    client = anthropic.Anthropic(api_key="x", http_client=make_client(upstream))
    ask = make_messages_request()
    found: Any = client.messages.create(**ask)
    assert found.stop_reason == "tool_use"
    assert found.content[1].input == {"city": "Os<lo"}
    with client.messages.stream(**ask) as stream:
        final: Any = stream.get_final_message()
    assert final.stop_reason == "tool_use"
    assert final.content[1].input == {"city": "Os<lo"}


async def test_asynchronous_clients(upstream: Upstream) -> None:
    client = openai.AsyncOpenAI(api_key="x", http_client=make_async_client(upstream))
    whole, streamed = await ask_twice(client)
    assert whole.choices[0].message.tool_calls[0].function.name == "weather"
    assert streamed.choices[0].message.tool_calls[0].function.name == "weather"
    await client.close()
    gc.collect()
    await asyncio.sleep(0)
    while others := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(others)  # The SDK leaves its generators to the loop.


async def test_asynchronous_responses_and_messages() -> None:
    with serve() as server:
        client = openai.AsyncOpenAI(
            base_url=server.url, api_key="x", http_client=async_penstock_client()
        )
        ask: Any = {"model": "m", "input": "?", "tools": [{"type": "function", **TOOL}]}
        async with client:
            found: Any = await client.responses.create(**ask)
            assert [one.type for one in found.output][-1] == "function_call"
            async with client.responses.stream(**ask) as stream:
                final: Any = await stream.get_final_response()
            assert json.loads(final.output[-1].arguments) == {"city": "Os<lo"}
        http = async_penstock_client(library=anthropic_library())
        other = anthropic.AsyncAnthropic(base_url=server.root, api_key="x", http_client=http)
        messages = make_messages_request()
        async with other:
            whole: Any = await other.messages.create(**messages)
            assert whole.content[-1].input == {"city": "Os<lo"}
            async with other.messages.stream(**messages) as streamed:
                last: Any = await streamed.get_final_message()
            assert last.content[-1].input == {"city": "Os<lo"}


def make_messages_request() -> Any:
    return {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"name": "weather", "input_schema": SCHEMA}],
    }


def test_an_sdk_that_exists_already() -> None:
    with serve() as server:
        with openai.OpenAI(base_url=server.url, api_key="x", max_retries=7) as plain:
            http = plain._client
            client = attach(plain, format="hermes")
            assert client is plain
            assert client._client.timeout == http.timeout
            assert isinstance(client._client, type(http))
            tools: Any = [{"type": "function", "function": TOOL}]
            found = client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "?"}], tools=tools
            )
            assert found.choices[0].finish_reason == "tool_calls"
        with attach(anthropic.Anthropic(base_url=server.root, api_key="x")) as messages:
            message: Any = messages.messages.create(**make_messages_request())
            assert message.content[-1].input == {"city": "Os<lo"}
            again: Any = attach(messages, tools="prompt")
            again.messages.create(**make_messages_request())
            assert "tools" not in server.requests[-1]
    with pytest.raises(UsageError, match="str holds no client"):
        attach("nothing")


async def ask_twice(client: openai.AsyncOpenAI) -> tuple[Any, Any]:
    """Return a whole response and one that was streamed."""
    ask: Any = {
        "model": "m",
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"type": "function", "function": TOOL}],
    }
    whole = await client.chat.completions.create(**ask)
    async with client.chat.completions.stream(**ask) as stream:
        return whole, await stream.get_final_completion()


def test_tools_in_the_prompt(upstream: Upstream) -> None:
    http = make_client(upstream, tools="prompt", format="hermes")
    client = openai.OpenAI(api_key="sk-secret", http_client=http)
    tools: Any = [{"type": "function", "function": TOOL}]
    messages: Any = [{"role": "user", "content": "Weather?"}]
    client.chat.completions.create(model="m", messages=messages, tools=tools)
    sent = upstream.requests[-1]
    body = json.loads(sent.content)
    assert "tools" not in body
    assert "weather" in body["messages"][0]["content"]
    assert sent.headers["authorization"] == "Bearer sk-secret"
    assert sent.headers["content-length"] == str(len(sent.content))


def test_errors_and_other_paths_pass_unchanged(upstream: Upstream) -> None:
    client = openai.OpenAI(api_key="x", http_client=make_client(upstream))
    with pytest.raises(openai.NotFoundError, match="no such model"):
        client.chat.completions.create(model="broken", messages=[])
    assert list(client.models.list()) == []


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_both_libraries_and_compressed_streams(library: str) -> None:
    upstream = Upstream(library)

    def compress(request: Any) -> Any:
        response = upstream(request)
        packed = gzip.compress(response.content)
        headers = {"content-type": "text/event-stream", "content-encoding": "gzip"}
        return upstream.httpx.Response(200, headers=headers, content=packed)

    transport = upstream.httpx.MockTransport(compress)
    with penstock_client(library=library, transport=transport) as client:
        assert isinstance(client, upstream.httpx.Client)
        body = make_body("openai-chat")
        response = client.post("https://example.test/v1/chat/completions", content=body)
        assert "content-encoding" not in response.headers
        assert '"finish_reason":"tool_calls"' in response.text
        with client.stream("POST", "https://example.test/v1/messages", content=b"{}") as streamed:
            assert streamed.status_code == 200
            assert streamed.read()


def test_wrong_options_are_named() -> None:
    with pytest.raises(UsageError, match="library must be"):
        penstock_client(library="requests")
    with pytest.raises(UsageError, match="tools must be"):
        penstock_client(tools="native")
    with pytest.raises(TypeError, match="frmat"):
        penstock_client(frmat="hermes")
