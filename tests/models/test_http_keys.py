"""Keys from a function, responses that no server keeps, and prompts that are marked for a cache."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from models.loopback_servers import ANSWER, Reply, serving, stream_of
from penstock import HTTPModel, Request, Tool, _json, apis, open_model
from penstock.agent import Agent, tool
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Text, ToolCall, Usage
from penstock.models.http.policy import NO_RETRY

API = "openai-chat"


# --- keys ---


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_key_from_a_function_is_fresh_for_each_request(is_async: bool) -> None:  # noqa: FBT001
    numbers = itertools.count(1)

    def key() -> str:
        return f"token-{next(numbers)}"

    async def later() -> str:
        return key()

    source = later if is_async else key
    async with (
        serving(Reply([stream_of(API, ANSWER)])) as upstream,
        HTTPModel(API, upstream.url, "m", source) as model,
    ):
        for _ in range(2):
            assert (await model.complete(Request(messages="Hi"))).error is None
        sent = [seen.headers["authorization"] for seen in upstream.seen]
        assert sent == ["Bearer token-1", "Bearer token-2"]


async def test_a_key_from_a_function_is_redacted() -> None:
    echo = Reply(status=401, whole=b'{"error": {"message": "bad key secret-token-77"}}')
    async with (
        serving(echo) as upstream,
        HTTPModel(API, upstream.url, "m", lambda: "secret-token-77", retry=NO_RETRY) as model,
    ):
        message = await model.complete(Request(messages="Hi"))
        assert message.error is not None
        assert message.error.status == 401
        assert "secret-token-77" not in message.error.message


async def test_a_function_that_fails_is_a_failed_response() -> None:
    def broken() -> str:
        raise KeyError("vault")

    def wrong() -> Any:
        return 3

    for source, words in ((broken, "failed: KeyError: 'vault'"), (wrong, "returned int")):
        async with HTTPModel(API, "http://127.0.0.1:9", "m", source) as model:
            message = await model.complete(Request(messages="Hi"))
            assert message.error is not None
            assert words in message.error.message
            with pytest.raises(UsageError, match="api_key"):
                await model.names()


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:gpt-5.4", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("gemini:gemini-3", "GEMINI_API_KEY or GOOGLE_API_KEY"),
    ],
)
def test_a_missing_key_is_reported_at_once(name: str, variable: str) -> None:
    with pytest.raises(UsageError, match=f"missing API key.*set {variable}, or pass"):
        open_model(name, environ={})
    first = variable.partition(" ")[0]
    assert open_model(name, environ={first: "key"}).name
    assert open_model(name, environ={}, api_key=lambda: "key").name
    assert open_model(name, environ={}, base_url="http://127.0.0.1:9").name
    assert open_model("ollama:qwen3:8b", environ={}).name == "qwen3:8b"


# --- responses that the server does not keep ---


@tool
async def look() -> str:
    """Look."""
    return "nothing"


async def test_encrypted_reasoning_goes_back_to_the_responses_api() -> None:
    reasoning = {
        "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAA-sealed",
    }  # fmt: skip
    call = {
        "type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look",
        "arguments": "{}", "status": "completed",
    }  # fmt: skip
    response = {
        "id": "resp_1", "object": "response", "status": "completed", "model": "m",
        "output": [reasoning, call], "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip
    whole = Reply(
        whole=_json.encode(response),
        headers={"content-type": "application/json"},
    )
    end = Reply([stream_of("openai-responses", ANSWER)])
    async with (
        serving(whole, end) as upstream,
        HTTPModel("openai-responses", upstream.url, "m", "key") as model,
    ):
        agent = Agent(model, [look], request=Request(store=False))
        result = await agent.run("Look.")
        assert result.error is None
        first, second = (seen.json for seen in upstream.seen)
        for body in (first, second):
            assert body["store"] is False
            assert body["include"] == ["reasoning.encrypted_content"]
        sent = [item for item in second["input"] if item.get("type") == "reasoning"]
        assert [item["encrypted_content"] for item in sent] == ["gAAAA-sealed"]


def test_store_is_left_to_the_server_by_default() -> None:
    for api in ("openai-responses", "openai-chat"):
        body = apis.get(api).write_request(Request(messages="Hi"))
        assert "store" not in body
        assert "include" not in body
        assert apis.get(api).write_request(Request(messages="Hi", store=True))["store"] is True


# --- the cache of prompts ---


EPHEMERAL = {"type": "ephemeral"}


async def test_an_agent_marks_its_prompt_for_the_cache_of_anthropic() -> None:
    asked = AssistantMessage("m1", "m", [ToolCall("toolu_1", "look")], "tool_use")
    said = AssistantMessage(
        "m2", "m", [Text("Nothing.")], "stop",
        usage=Usage(input=5, output=7, cache_read=900, cache_write=40, total=952),
    )  # fmt: skip
    replies = [Reply([stream_of("anthropic", one)]) for one in (asked, said)]
    async with (
        serving(*replies) as upstream,
        HTTPModel("anthropic", upstream.url, "m", "key") as model,
    ):
        agent = Agent(model, [look], "Be brief.")
        result = await agent.run("Look.")
        for seen in upstream.seen:
            body = seen.json
            assert body["system"][-1]["cache_control"] == EPHEMERAL
            assert body["tools"][-1]["cache_control"] == EPHEMERAL
            assert body["messages"][-1]["role"] == "user"
            assert body["messages"][-1]["content"][-1]["cache_control"] == EPHEMERAL
            assert seen.body.count(b"cache_control") == 3, "the API allows four"
        assert (result.usage.cache_read, result.usage.cache_write) == (900, 40)


async def test_marks_can_be_switched_off() -> None:
    async with (
        serving(Reply([stream_of("anthropic", ANSWER)])) as upstream,
        HTTPModel("anthropic", upstream.url, "m", "key") as model,
    ):
        await Agent(model, request=Request(prompt_cache=False)).run("Hi.")
        assert b"cache_control" not in upstream.seen[0].body


def test_marks_are_for_anthropic_only_and_not_for_its_own_clients() -> None:
    tools = [Tool("look", "", {"type": "object"})]
    request = Request("m", "Be brief.", "Hi.", tools, prompt_cache=True)
    for api in apis.names():
        written = _json.encode(apis.get(api).write_request(request))
        assert (b"cache_control" in written) == (api == "anthropic")
    raw = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "Hi."}]}
    own = apis.get("anthropic").read_request(raw)
    own.prompt_cache = True
    assert b"cache_control" not in _json.encode(apis.get("anthropic").write_request(own))


CACHE_FIGURES: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "openai-chat": (
        {
            "prompt_tokens": 100,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 80},
        },
        (20, 80, 5),
    ),
    "openai-responses": (
        {"input_tokens": 100, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 80}},
        (20, 80, 5),
    ),
    "anthropic": (
        {"input_tokens": 20, "output_tokens": 5, "cache_read_input_tokens": 80},
        (20, 80, 5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("api", CACHE_FIGURES)
def test_cached_tokens_are_read(api: str) -> None:
    usage, expected = CACHE_FIGURES[api]
    bodies: dict[str, dict[str, Any]] = {
        "openai-chat": {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]},
        "openai-responses": {"object": "response", "status": "completed", "output": []},
        "anthropic": {"type": "message", "content": [], "stop_reason": "end_turn"},
    }
    read = apis.get(api).read_response({**bodies[api], "usage": usage}).usage
    assert (read.input, read.cache_read, read.output) == expected


def test_cached_tokens_of_gemini_are_read() -> None:
    counts = {"promptTokenCount": 100, "candidatesTokenCount": 5, "cachedContentTokenCount": 80}
    data = {"candidates": [{"finishReason": "STOP"}], "usageMetadata": counts}
    read = apis.get("gemini").read_response(data).usage
    assert (read.input, read.cache_read, read.output) == (20, 80, 5)
