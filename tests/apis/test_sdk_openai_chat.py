"""OpenAI's own client reads what we write, and we read what it sends, over loopback HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apis.loopback import Server, serving
from penstock import apis
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall, Usage
from penstock.request import Image, ReasoningOptions, ResponseFormat, ToolChoice, UserMessage

openai = pytest.importorskip("openai")

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
CALLS = [ToolCall("c1", "f", {"a": "é😀"}), ToolCall("c2", "g", {})]
ANSWER = AssistantMessage(
    "id", "m", [Thinking("Hm"), Text("Hello"), *CALLS], "tool_use", "", Usage(7, 3, total=10)
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(apis.get("openai-chat")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def streamed(server: Server, client: Any, message: AssistantMessage) -> Any:
    server.message = message
    usage = {"include_usage": True}
    with client.chat.completions.stream(**ASKED, stream_options=usage) as stream:
        return stream.get_final_completion()


def whole(server: Server, client: Any, message: AssistantMessage) -> Any:
    server.message = message
    return client.chat.completions.create(**ASKED)


@pytest.mark.parametrize("ask", [streamed, whole])
def test_text_thoughts_and_parallel_calls_arrive(server: Server, client: Any, ask: Any) -> None:
    found = ask(server, client, ANSWER)
    (choice,) = found.choices
    assert (choice.message.content, choice.finish_reason) == ("Hello", "tool_calls")
    assert choice.message.reasoning_content == "Hm"
    calls = [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls]
    assert calls == [("c1", "f", '{"a":"é😀"}'), ("c2", "g", "{}")]
    assert (found.usage.prompt_tokens, found.usage.total_tokens) == (7, 10)


@pytest.mark.parametrize("ask", [streamed, whole])
@pytest.mark.parametrize(
    ("message", "finish"),
    [
        (AssistantMessage("i", "m", [Text("a")], "stop"), "stop"),
        (
            AssistantMessage("i", "m", [Text("a")], "error", error=ErrorInfo("no", "refusal")),
            "content_filter",
        ),
    ],
)
def test_ends_have_the_words_of_the_api(
    server: Server, client: Any, ask: Any, message: AssistantMessage, finish: str
) -> None:
    if finish == "content_filter" and ask is streamed:
        with pytest.raises(openai.ContentFilterFinishReasonError):  # The helper's own way.
            ask(server, client, message)
    else:
        assert ask(server, client, message).choices[0].finish_reason == finish


def test_the_limit_is_the_clients_own_error(server: Server, client: Any) -> None:
    message = AssistantMessage("i", "m", [Text("a")], "length")
    assert whole(server, client, message).choices[0].finish_reason == "length"
    with pytest.raises(openai.LengthFinishReasonError):
        streamed(server, client, message)


def test_an_error_is_raised_by_the_client(server: Server, client: Any) -> None:
    error = ErrorInfo("slow down", "provider", "rate_limit_exceeded", 429)
    message = AssistantMessage("i", "m", [Text("a")], "error", error=error)
    with pytest.raises(openai.APIError, match="slow down"):
        streamed(server, client, message)
    with pytest.raises(openai.RateLimitError, match="slow down"):
        whole(server, client, message)


def test_what_the_client_sends_is_read(server: Server, client: Any) -> None:
    server.message = ANSWER
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    client.chat.completions.create(
        model="m",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Look"}, image]},
        ],
        tools=[tool],
        tool_choice="required",
        max_completion_tokens=5,
        reasoning_effort="low",
        response_format={"type": "json_object"},
        logit_bias={"1": 2},
    )
    request = apis.get("openai-chat").read_request(server.asked[-1])
    assert request.system == "Be brief."
    assert request.messages == [UserMessage([Text("Look"), Image("image/png", "aGk=")])]
    assert [t.name for t in request.tools] == ["f"]
    assert request.tool_choice == ToolChoice("required")
    assert (request.max_tokens, request.reasoning) == (5, ReasoningOptions("low"))
    assert request.response_format == ResponseFormat("json")
    assert request.extra == {"logit_bias": {"1": 2}}
