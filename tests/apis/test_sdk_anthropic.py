"""Anthropic's own client reads what we write, and we read what it sends, over loopback HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from apis.anthropic_cases import API, call, done, failed, text, written
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
)
from penstock.messages import AssistantMessage, Content, ErrorInfo, Opaque, Text, ToolCall, Usage
from penstock.request import Image, ReasoningOptions, Request, ToolChoice, UserMessage

anthropic = pytest.importorskip("anthropic")

USAGE = Usage(input=10, output=5, cache_read=3, cache_write=2, reasoning=4, total=20)
THINKING: list[Event] = [ThinkingStart(0), ThinkingDelta(0, "hm"), ThinkingEnd(0, "hm", "sig")]


class Server(ThreadingHTTPServer):
    """Answers every request with the events it was given, streamed or whole as it is asked."""

    events: list[Event]
    requests: list[dict[str, Any]]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up."""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        data = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append(data)
        if data.get("stream"):
            events = written(MessageStart("msg_5", "claude"), *self.server.events)
            self.answer(200, API.encoder().keep_alive() + events, "event-stream")
            return
        end = self.server.events[-1]
        assert isinstance(end, Done | Failed)
        if end.message.error is not None and end.message.error.kind != "refusal":
            status, body = API.write_error(end.message.error)
        else:
            status, body = 200, API.write_response(end.message)
        self.answer(status, json.dumps(body).encode(), "json")

    def answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", f"{'text' if 'stream' in kind else 'application'}/{kind}")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    server.requests = []
    url = f"http://127.0.0.1:{server.server_port}"
    with anthropic.Anthropic(base_url=url, api_key="none", max_retries=0) as client:
        yield client


ASKED: dict[str, Any] = {
    "model": "claude",
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "Hi"}],
}


def streamed(server: Server, client: Any, *events: Event) -> Any:
    server.events = list(events)
    with client.messages.stream(**ASKED) as stream:
        return stream.get_final_message()


def whole(server: Server, client: Any, message: AssistantMessage) -> Any:
    server.events = [Done("stop", message)]
    return client.messages.create(**ASKED)


def test_text_and_thinking_arrive_with_their_usage(server: Server, client: Any) -> None:
    found = streamed(server, client, *THINKING, *text(1, "Hel", "lo 😀"), done(usage=USAGE))
    thinking, said = found.content
    assert (thinking.thinking, thinking.signature, said.text) == ("hm", "sig", "Hello 😀")
    assert (found.id, found.model, found.stop_reason) == ("msg_5", "claude", "end_turn")
    usage = found.usage
    assert (usage.input_tokens, usage.output_tokens) == (10, 5)
    assert (usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (3, 2)


def test_parallel_calls_arrive_with_their_arguments(server: Server, client: Any) -> None:
    first, second = call(0, "f", '{"a":', " 1}"), call(1, "g")
    mixed = [first[0], second[0], first[1], *second[1:], *first[2:]]
    found = streamed(server, client, *mixed, done("tool_use"))
    assert [(b.name, b.input) for b in found.content] == [("f", {"a": 1}), ("g", {})]
    assert found.stop_reason == "tool_use"


def test_parts_and_citations_arrive(server: Server, client: Any) -> None:
    use = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    cited = {
        "type": "char_location",
        "cited_text": "so",
        "document_index": 0,
        "document_title": None,
        "start_char_index": 0,
        "end_char_index": 2,
    }
    parts = [Opaque("anthropic", use), Opaque("anthropic", {"citations": [cited]})]
    found = streamed(server, client, Part(0, parts[0]), *text(1, "so"), Part(2, parts[1]), done())
    search, said = found.content
    assert search.input == {"query": "x"}
    assert said.citations[0].cited_text == "so"


def test_a_call_that_the_limit_cut_arrives_as_far_as_it_came(server: Server, client: Any) -> None:
    found = streamed(server, client, *call(0, "f", '{"a": 1}', complete=False), done("length"))
    assert (found.stop_reason, found.content[0].input) == ("max_tokens", {"a": 1})
    assert (
        streamed(server, client, *call(0, "f", complete=False), done("length")).content[0].input
        == {}
    )


def test_a_refusal_arrives_with_its_reason(server: Server, client: Any) -> None:
    error = ErrorInfo("refusal (bio): No.", "refusal")
    found = streamed(server, client, *text(0, "I"), failed(error))
    assert (found.stop_reason, found.stop_details.category) == ("refusal", "bio")
    message = AssistantMessage(content=[Text("I")], stop_reason="error", error=error)
    assert whole(server, client, message).stop_details.explanation == "No."


def test_an_error_in_the_stream_is_raised(server: Server, client: Any) -> None:
    error = ErrorInfo("Busy", type="overloaded_error")
    with pytest.raises(anthropic.APIStatusError, match="Busy"):
        streamed(server, client, *text(0, "a"), failed(error))


def test_an_error_as_an_answer_is_raised_by_its_status(server: Server, client: Any) -> None:
    error = ErrorInfo("Slow down", type="rate_limit_error")
    with pytest.raises(anthropic.RateLimitError, match="Slow down"):
        whole(server, client, AssistantMessage(stop_reason="error", error=error))


def test_whole_answers_arrive(server: Server, client: Any) -> None:
    content: list[Content] = [Text("Hi"), ToolCall("t", "f", {"a": 1})]
    message = AssistantMessage("m", "claude", content, "tool_use", usage=USAGE)
    found = whole(server, client, message)
    assert (found.content[0].text, found.content[1].input) == ("Hi", {"a": 1})
    assert (found.stop_reason, found.usage.input_tokens) == ("tool_use", 10)


def test_what_the_client_sends_is_read(server: Server, client: Any) -> None:
    server.events = [*text(0, "a"), done()]
    picture = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    client.messages.create(
        **ASKED
        | {"messages": [{"role": "user", "content": [{"type": "image", "source": picture}]}]},
        stream=True,
        system=[{"type": "text", "text": "Be kind."}],
        tools=[{"name": "f", "description": "F.", "input_schema": {"type": "object"}}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        thinking={"type": "enabled", "budget_tokens": 2048},
        stop_sequences=["END"],
        metadata={"user_id": "u"},
    ).close()
    request: Request = API.read_request(server.requests[0])
    assert request.messages == [UserMessage([Image("image/png", "aGk=")])]
    assert (request.system, request.stop, request.user) == ("Be kind.", ["END"], "u")
    assert (request.tool_choice, request.parallel_tool_calls) == (ToolChoice("required"), False)
    assert request.reasoning == ReasoningOptions(budget=2048)
    assert (request.stream, request.tools[0].name, request.extra) == (True, "f", {})
