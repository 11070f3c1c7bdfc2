"""Ollama's own client reads what we write, and we read what it sends, over loopback HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from apis.loopback import Server, serving
from penstock import apis
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall, Usage
from penstock.request import ReasoningOptions

ollama = pytest.importorskip("ollama")

CALLS = [ToolCall("c1", "f", {"a": "é😀"}), ToolCall("c2", "g", {})]
ANSWER = AssistantMessage(
    "", "m", [Thinking("Hm"), Text("Hello"), *CALLS], "tool_use", "", Usage(7, 3, total=10)
)
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(apis.get("ollama")) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Any:
    return ollama.Client(host=server.url)


def test_an_answer_streams_to_the_client(server: Server, client: Any) -> None:
    server.message = ANSWER
    parts = list(client.chat(**ASKED, stream=True))
    assert "".join(part.message.content for part in parts) == "Hello"
    assert "".join(part.message.thinking or "" for part in parts) == "Hm"
    calls = [call.function for part in parts for call in part.message.tool_calls or []]
    assert [(call.name, call.arguments) for call in calls] == [("f", {"a": "é😀"}), ("g", {})]
    assert (parts[-1].done, parts[-1].done_reason, parts[-1].eval_count) == (True, "stop", 3)


def test_a_whole_answer_reaches_the_client(server: Server, client: Any) -> None:
    server.message = ANSWER
    found = client.chat(**ASKED)
    assert (found.message.content, found.message.thinking) == ("Hello", "Hm")
    assert len(found.message.tool_calls) == 2


def test_the_limit_and_an_error_reach_the_client(server: Server, client: Any) -> None:
    server.message = AssistantMessage("", "m", [Text("a")], "length")
    assert client.chat(**ASKED).done_reason == "length"
    error = ErrorInfo("no such model", status=404)
    server.message = AssistantMessage("", "m", [Text("a")], "error", error=error)
    with pytest.raises(ollama.ResponseError, match="no such model"):
        list(client.chat(**ASKED, stream=True))
    with pytest.raises(ollama.ResponseError, match="no such model"):
        client.chat(**ASKED)


def test_what_the_client_sends_is_read(server: Server, client: Any) -> None:
    server.message = ANSWER
    tool = {"type": "function", "function": {"name": "f", "description": "d"}}
    client.chat(**ASKED, tools=[tool], think=True, options={"temperature": 0.5, "num_ctx": 99})
    request = apis.get("ollama").read_request(server.asked[-1])
    assert (request.model, request.temperature) == ("m", 0.5)
    assert [t.name for t in request.tools] == ["f"]
    assert request.reasoning == ReasoningOptions("medium")
    assert request.extra["options"] == {"num_ctx": 99}
