"""The real client of the Responses API reads what we write, and we read what it sends."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

openai = pytest.importorskip("openai")

import pydantic  # noqa: E402
from openai.lib.streaming.responses import _responses as streaming  # noqa: E402
from openai.types.responses import ResponseStreamEvent  # noqa: E402

from laws.sequences import sequences  # noqa: E402
from penstock import apis  # noqa: E402
from penstock.builder import message_events  # noqa: E402
from penstock.events import Event, MessageStart  # noqa: E402
from penstock.framing import sse  # noqa: E402
from penstock.messages import (  # noqa: E402
    AssistantMessage,
    ErrorInfo,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from penstock.request import Image, UserMessage  # noqa: E402

API = apis.get("openai-responses")
STREAM_EVENT: Any = pydantic.TypeAdapter(ResponseStreamEvent)
USAGE = Usage(input=7, output=5, cache_read=2, reasoning=1, total=14)


class Server:
    """Answers every request with *message*, and keeps what was asked."""

    def __init__(self) -> None:
        self.message = AssistantMessage()
        self.asked: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.asked.append(body)
                status, kind, data = server.answer(stream=bool(body.get("stream")))
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()

    def answer(self, *, stream: bool) -> tuple[int, str, bytes]:
        if stream:
            encoder = API.encoder(created=1)
            data = b"".join([encoder.encode(event) for event in message_events(self.message)])
            return 200, "text/event-stream", data + encoder.keep_alive() + encoder.finish()
        if self.message.error is not None and self.message.error.kind != "refusal":
            status, error = API.write_error(self.message.error)
            return status, "application/json", json.dumps(error).encode()
        body = API.write_response(self.message, created=1)
        return 200, "application/json", json.dumps(body).encode()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[Any]:
    with openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
        yield client


ANSWER = AssistantMessage(
    "resp_abc",
    "model-x",
    [
        Thinking("Let me see.\n\nYes.", "sealed"),
        Text("Größe: 5 🚲"),
        Opaque(
            "openai-responses",
            {
                "type": "annotations",
                "annotations": [
                    {
                        "type": "url_citation",
                        "start_index": 0,
                        "end_index": 2,
                        "title": "t",
                        "url": "https://a.example",
                    }
                ],
            },
        ),
        Opaque(
            "openai-responses",
            {
                "type": "web_search_call",
                "id": "ws_1",
                "status": "completed",
                "action": {"type": "search", "query": "x"},
            },
        ),
        ToolCall("call_a|fc_a", "search", {"q": "cats"}),
        ToolCall("call_b", "clock", {}),
        ToolCall("call_c|ctc_c", "patch", {"input": 'say "hi"\n'}),
    ],
    "tool_use",
    usage=USAGE,
)


def assert_is_answer(response: Any) -> None:
    assert response.status == "completed"
    assert response.output_text == "Größe: 5 🚲"
    thoughts, text, search, first, second, third = response.output
    assert thoughts.summary[0].text == "Let me see.\n\nYes."
    assert thoughts.encrypted_content == "penstock:sealed"
    assert text.content[0].annotations[0].url == "https://a.example"
    assert (search.type, search.id) == ("web_search_call", "ws_1")
    assert (first.id, first.call_id, first.name) == ("fc_a", "call_a", "search")
    assert json.loads(first.arguments) == {"q": "cats"}
    assert (second.call_id, second.name, second.arguments) == ("call_b", "clock", "{}")
    assert (third.type, third.input) == ("custom_tool_call", 'say "hi"\n')
    assert response.usage.input_tokens == 9
    assert response.usage.input_tokens_details.cached_tokens == 2
    assert response.usage.output_tokens_details.reasoning_tokens == 1


def test_its_helper_reads_a_stream_to_the_end(server: Server, client: Any) -> None:
    server.message = ANSWER
    with client.responses.stream(model="m", input="hi") as stream:
        events = list(stream)
        assert_is_answer(stream.get_final_response())
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == "Größe: 5 🚲"
    numbers = [event.sequence_number for event in events]
    assert numbers == list(range(len(numbers)))


def test_it_reads_a_whole_answer(server: Server, client: Any) -> None:
    server.message = ANSWER
    assert_is_answer(client.responses.create(model="m", input="hi"))


def test_a_refusal_is_a_refusal_in_both_forms(server: Server, client: Any) -> None:
    error = ErrorInfo("I cannot help with that.", "refusal")
    server.message = AssistantMessage("r", "m", [], "error", error=error)
    with client.responses.stream(model="m", input="hi") as stream:
        streamed = stream.get_final_response()
    for response in (streamed, client.responses.create(model="m", input="hi")):
        (message,) = response.output
        assert message.content[0].refusal == "I cannot help with that."


def test_an_answer_at_its_limit_is_incomplete_and_its_cut_call_never_done(
    server: Server, client: Any
) -> None:
    cut = ToolCall("call_a", "search", {"q": "ca"}, complete=False)
    server.message = AssistantMessage("r", "m", [Text("Half"), cut], "length", usage=USAGE)
    events = list(client.responses.create(model="m", input="hi", stream=True))
    assert events[-1].type == "response.incomplete"
    assert events[-1].response.incomplete_details.reason == "max_output_tokens"
    assert events[-1].response.usage.total_tokens == 14
    done = [event.item.type for event in events if event.type == "response.output_item.done"]
    assert done == ["message"]
    whole = client.responses.create(model="m", input="hi")
    assert (whole.status, whole.output[-1].status) == ("incomplete", "incomplete")


def test_an_error_ends_the_stream_as_failed_and_a_whole_answer_as_its_status(
    server: Server, client: Any
) -> None:
    error = ErrorInfo("slow down", "provider", "overloaded_error", 529)
    server.message = AssistantMessage("r", "m", [Text("Half")], "error", error=error)
    with client.responses.stream(model="m", input="hi") as stream:
        last = list(stream)[-1]
    assert last.type == "response.failed"
    assert (last.response.error.code, last.response.error.message) == ("server_error", "slow down")
    with pytest.raises(openai.APIStatusError) as caught:
        client.responses.create(model="m", input="hi")
    assert (caught.value.status_code, caught.value.code) == (529, "overloaded_error")


# --- ends ---

CUT_CALL = ToolCall("call_a", "search", {"q": "ca"}, complete=False)
WHOLE_CALL = ToolCall("call_b", "search", {"q": "cats"})
STRICT: Any = [
    {
        "type": "function",
        "name": "search",
        "strict": True,
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    }
]


def ended(reason: Any, *content: Any, error: ErrorInfo | None = None) -> AssistantMessage:
    return AssistantMessage("r", "m", [Text("Half"), *content], reason, usage=USAGE, error=error)


REFUSED = ErrorInfo("I cannot help.", "refusal")
FILTERED = ErrorInfo("the provider ended the response: SAFETY", "filter", "SAFETY")
ENDS = {
    "a stop": (ended("stop"), "completed"),
    "a call": (ended("tool_use", WHOLE_CALL), "completed"),
    "a refusal": (ended("error", error=REFUSED), "completed"),
    "a refusal behind a call": (ended("error", WHOLE_CALL, error=REFUSED), "incomplete"),
    "a filter": (ended("error", error=FILTERED), "incomplete"),
    "a limit": (ended("length"), "incomplete"),
    "a call that the limit cut": (ended("length", WHOLE_CALL, CUT_CALL), "incomplete"),
    "an incomplete call": (ended("stop", CUT_CALL), "failed"),
    "an incomplete call beside another": (ended("stop", WHOLE_CALL, CUT_CALL), "failed"),
    "an error": (ended("error", error=ErrorInfo("slow down", status=529)), "failed"),
    "an error in a call": (
        ended("error", CUT_CALL, error=ErrorInfo("cut", "truncated")),
        "failed",
    ),
    "a damaged stream": (ended("error", error=ErrorInfo("damaged", "malformed")), "failed"),
    "an abort": (ended("aborted", CUT_CALL, error=ErrorInfo("bye", "aborted")), "failed"),
}


@pytest.mark.parametrize(("message", "status"), ENDS.values(), ids=ENDS)
def test_every_stream_ends_in_a_response_that_it_reads(
    server: Server, client: Any, message: AssistantMessage, status: str
) -> None:
    """Of ends that are not complete its helper gives the event, and no final response."""
    server.message = message
    with client.responses.stream(model="m", input="hi", tools=STRICT) as stream:
        *_, last = list(stream)
    assert (last.type, last.response.status) == (f"response.{status}", status)
    assert last.response.output_text == "Half"
    assert last.response.usage.total_tokens == 14
    if status == "incomplete":
        assert last.response.incomplete_details.reason in ("max_output_tokens", "content_filter")
    if status == "failed":
        assert last.response.error.message
    openai.types.responses.Response.model_validate(last.response.to_dict())
    with client.responses.stream(model="m", input="hi", tools=STRICT) as stream:
        if status == "completed":
            assert stream.get_final_response().output_text == "Half"
        else:
            with pytest.raises(RuntimeError, match=r"response\.completed"):
                stream.get_final_response()


@pytest.mark.parametrize("events", [[], [MessageStart("r", "m")]], ids=["none", "a start"])
def test_a_stream_that_says_nothing_ends_in_a_failed_response(events: list[Event]) -> None:
    encoder = API.encoder(id="r")
    data = b"".join(map(encoder.encode, events)) + encoder.finish()
    assert read_by_the_sdk(data).type == "response.failed"


def read_by_the_sdk(data: bytes) -> Any:
    """Let the SDK's own accumulator read the stream *data*; give the last event."""
    state = streaming.ResponseStreamState(text_format=openai.NOT_GIVEN, input_tools=STRICT)
    last: Any = None
    for frame in sse.Decoder().feed(data):
        event = STREAM_EVENT.validate_json(frame.data)
        (last,) = state.handle_event(event)
    return last


def test_its_accumulator_reads_any_answer_to_its_end() -> None:
    for events, _ in sequences(seed=7, number=80):
        encoder = API.encoder(model="m", id="r")
        data = b"".join(map(encoder.encode, events)) + encoder.finish()
        last = read_by_the_sdk(data)
        assert last.type in ("response.completed", "response.incomplete", "response.failed")


def test_what_it_sends_back_is_what_it_was_told(server: Server, client: Any) -> None:
    server.message = ANSWER
    tools: Any = [
        {"type": "function", "name": "search", "parameters": {"type": "object"}, "strict": False},
        {"type": "custom", "name": "patch"},
        {"type": "web_search"},
    ]
    first = client.responses.create(model="m", input="hi", tools=tools)
    picture = "data:image/png;base64,iVBO"
    client.responses.create(
        model="model-x",
        instructions="Be brief.",
        tools=tools,
        tool_choice={"type": "function", "name": "search"},
        max_output_tokens=99,
        reasoning={"effort": "low", "summary": "auto"},
        store=False,
        input=[
            {"role": "user", "content": [
                {"type": "input_text", "text": "hi"},
                {"type": "input_image", "image_url": picture, "detail": "low"},
            ]},
            *first.output,
            {"type": "function_call_output", "call_id": "call_a", "output": "found"},
            {"type": "function_call_output", "call_id": "call_b", "output": "noon"},
            {"type": "custom_tool_call_output", "call_id": "call_c", "output": "done"},
        ],
    )  # fmt: skip
    request = API.read_request(server.asked[-1])
    user, answer, *results = request.messages
    assert user == UserMessage([Text("hi"), Image("image/png", "iVBO", detail="low")])
    assert isinstance(answer, AssistantMessage)
    assert answer.thinking == "Let me see.\n\nYes."
    assert isinstance(answer.content[0], Thinking)
    assert answer.content[0].signature == "sealed"
    assert [(c.id, c.name, c.arguments) for c in answer.tool_calls][0::2] == [
        ("call_a|fc_a", "search", {"q": "cats"}),
        ("call_c|ctc_c", "patch", {"input": 'say "hi"\n'}),
    ]
    assert results[0] == ToolResult("call_a|fc_a", "search", "found")
    assert results[2] == ToolResult("call_c|ctc_c", "patch", "done")
    assert (request.system, request.max_tokens) == ("Be brief.", 99)
    assert request.extra["store"] is False
    written = API.write_request(request)
    assert written["tools"] == tools
    assert [item["type"] for item in written["input"]][-4:] == [
        "custom_tool_call",
        "function_call_output",
        "function_call_output",
        "custom_tool_call_output",
    ]
