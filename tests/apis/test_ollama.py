"""Ollama's lines: calls that come whole, ends without words, and requests."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.checks import read
from laws.strategies import ARGUMENTS, NAMES, TEXT
from penstock import MessageBuilder, UsageError, apis
from penstock.apis.ollama import format_time
from penstock.events import Done, Event, TextDelta, TextEnd, TextStart, ToolCallEnd, ToolCallStart
from penstock.messages import (
    AssistantMessage,
    ErrorInfo,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from penstock.request import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    ResponseFormat,
    SystemMessage,
    ToolChoice,
    UserMessage,
)
from penstock.tools import Tool

API = apis.get("ollama")


def line(message: dict[str, Any] | None = None, *, done: bool = False, **more: Any) -> bytes:
    said = {"role": "assistant", "content": "", **(message or {})}
    return json.dumps({"model": "m", "message": said, "done": done, **more}).encode() + b"\n"


def call(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}, **more}]}


END = line(done=True, done_reason="stop", prompt_eval_count=7, eval_count=3)


def message_of(*lines: bytes) -> AssistantMessage:
    builder = MessageBuilder()
    for event in read(API.decoder(), [b"".join(lines)]):
        builder.add(event)
    return builder.message


def test_text_and_thoughts_are_told_apart() -> None:
    message = message_of(line({"thinking": "Hm"}), line({"content": "Yes"}), END)
    assert message.content == [Thinking("Hm"), Text("Yes")]
    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "stop")
    assert (message.usage.input, message.usage.output, message.usage.total) == (7, 3, 10)


def test_calls_come_whole_without_ids_and_each_gets_one() -> None:
    message = message_of(line(call("f", {"a": 1})), line(call("g", {})), END)
    one, two = message.tool_calls
    assert (one.arguments, two.arguments, message.stop_reason) == ({"a": 1}, {}, "tool_use")
    assert one.id != two.id


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}'])
def test_arguments_may_be_text(arguments: object) -> None:
    assert message_of(line(call("f", arguments)), END).tool_calls[0].arguments == {"a": 1}


def test_arguments_that_are_no_object_are_never_run() -> None:
    message = message_of(line(call("f", [1])), END)
    assert not message.tool_calls[0].complete
    assert message.stop_reason == "error"


def test_the_limit_is_a_length() -> None:
    end = line(done=True, done_reason="length")
    assert message_of(line({"content": "a"}), end).stop_reason == "length"


def test_a_load_is_an_empty_answer() -> None:
    message = message_of(line(done=True, done_reason="load"))
    assert (message.content, message.stop_reason, message.raw_stop_reason) == ([], "stop", "load")


def test_an_error_ends_the_answer_with_what_had_arrived() -> None:
    message = message_of(line({"content": "a"}), b'{"error": "model not found"}\n')
    assert message.error is not None
    assert (message.text, message.error.message) == ("a", "model not found")


def test_lines_that_stop_without_an_end_were_cut() -> None:
    message = message_of(line({"content": "a"}))
    assert message.error is not None
    assert message.error.kind == "truncated"


def test_the_older_generate_is_read_too() -> None:
    data = b'{"model":"m","response":"Hi","done":false}\n{"response":"","done":true}\n'
    assert message_of(data).text == "Hi"


def test_a_whole_answer_is_one_line() -> None:
    message = AssistantMessage(
        "",
        "m",
        [Thinking("Hm"), Text("Hi"), ToolCall("c", "f", {"a": 1})],
        "tool_use",
        "stop",
        Usage(5, 3, total=8),
    )
    body = API.write_response(message, created=1_763_200_000)
    assert body["created_at"] == "2025-11-15T09:46:40Z"
    found = API.read_response(body)
    found.usage.raw = None
    assert found == message


def test_an_answer_that_failed_has_no_whole_form() -> None:
    with pytest.raises(UsageError, match="failed response"):
        API.write_response(AssistantMessage(stop_reason="error", error=ErrorInfo("no")))


@given(seconds=st.integers(0, 253_402_300_799))
def test_the_time_is_that_of_the_calendar(seconds: int) -> None:
    expected = datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%SZ")
    moment = datetime.fromtimestamp(seconds, UTC)
    assert format_time(seconds) == f"{moment.date().isoformat()}T{expected}"


def test_a_call_goes_out_whole_when_it_ends() -> None:
    encoder = API.encoder(model="m")
    done = ToolCall("c", "f", {"a": 1})
    events: list[Event] = [
        TextStart(0), TextDelta(0, "Hi"), TextEnd(0, "Hi"),
        ToolCallStart(1, "c", "f"), ToolCallEnd(1, done),
        Done("tool_use", AssistantMessage(stop_reason="tool_use")),
    ]  # fmt: skip
    lines = [json.loads(data) for event in events if (data := encoder.encode(event))]
    assert [item["message"]["content"] for item in lines] == ["Hi", "", ""]
    assert lines[1]["message"]["tool_calls"][0]["function"] == {"name": "f", "arguments": {"a": 1}}
    assert (lines[2]["done"], lines[2]["done_reason"]) == (True, "stop")


TURN = st.builds(
    lambda text, name, arguments, result: [
        AssistantMessage(
            content=[
                Thinking("Hm"),
                *([Text(text)] if text else []),
                ToolCall("c1", name, arguments),
                ToolCall("c2", name, {}),
            ]
        ),
        ToolResult("c1", name, result),
        ToolResult("c2", name, "two"),
    ],
    TEXT,
    NAMES,
    ARGUMENTS,
    TEXT,
)
USER = st.builds(
    lambda text, images: UserMessage([*([Text(text)] if text else []), *images]),
    TEXT,
    st.lists(st.just(Image(data="aGk=")), max_size=2),
)
REQUESTS = st.builds(
    Request,
    model=st.just("m"),
    system=TEXT,
    messages=st.tuples(st.lists(USER, min_size=1, max_size=2), TURN).map(
        lambda parts: [*parts[0], *parts[1], SystemMessage("s")]
    ),
    tools=st.just([Tool("f", "d", {"type": "object", "properties": {}})]),
    max_tokens=st.none() | st.integers(1, 99),
    temperature=st.none() | st.floats(0, 2),
    stop=st.lists(TEXT, max_size=2),
    response_format=st.sampled_from([None, ResponseFormat("json"), ResponseFormat("schema", {})]),
    reasoning=st.sampled_from([None, ReasoningOptions("low"), ReasoningOptions("none")]),
    stream=st.booleans(),
    include_usage=st.just(True),
    source=st.just("ollama"),
    extra=st.just({"keep_alive": "5m", "options": {"num_ctx": 4096}}),
)


@given(request=REQUESTS)
def test_a_request_reads_back_as_it_was_written(request: Request) -> None:
    request.system_messages = "keep"
    found = API.read_request(json.loads(json.dumps(API.write_request(request))))
    found.raw, found.system_messages = None, "keep"
    assert found == request


def test_results_without_ids_answer_the_calls_of_their_name_in_order() -> None:
    calls = [{"function": {"name": "f", "arguments": {"n": n}}} for n in (1, 2)]
    messages = [
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "tool_name": "f", "content": "one"},
        {"role": "tool", "tool_name": "f", "content": "two"},
    ]
    asked, one, two = API.read_request({"model": "m", "messages": messages}).messages
    assert isinstance(asked, AssistantMessage)
    assert isinstance(one, ToolResult)
    assert isinstance(two, ToolResult)
    assert [call.id for call in asked.tool_calls] == [one.id, two.id]


def test_a_picture_that_is_elsewhere_is_named() -> None:
    messages: list[Message] = [UserMessage([Text("See"), Image(url="https://e.test/a.png")])]
    body = API.write_request(Request("m", messages=messages))
    assert body["messages"][0]["content"] == "See\n[image: https://e.test/a.png]"


def test_what_the_api_has_no_word_for_is_named() -> None:
    request = Request("m", tool_choice=ToolChoice("required"), user="u", extra={"logit_bias": {}})
    assert API.omitted_fields(request) == ["tool_choice", "user", "logit_bias"]


@pytest.mark.parametrize("body", [{}, {"messages": [1]}, {"messages": [{"role": "x"}]}])
def test_what_is_no_request_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        API.read_request(body)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (line({"content": "a"}), "there is no last line"),
        (b"[1]\n", "a frame is not a JSON object"),
        (line(call("f", "{}")), "arguments that are not an object"),
        (b'{"error": {}}\n', "an error is not text"),
    ],
)
def test_the_checker_sees_what_a_client_would_stumble_over(data: bytes, complaint: str) -> None:
    assert any(complaint in found for found in API.check(data))


def test_a_refusal_of_the_server_is_read() -> None:
    error = API.read_error(404, {}, b'{"error": "model \\"x\\" not found"}')
    assert (error.message, error.status, error.retryable) == ('model "x" not found', 404, False)
    assert API.write_error(error) == (404, {"error": 'model "x" not found'})


def test_pictures_that_a_tool_gave_back_are_shown_by_the_user() -> None:
    calls = AssistantMessage(content=[ToolCall("a", "f"), ToolCall("b", "g")])
    picture = ToolResult("a", "f", [Text("here"), Image(data="aGk=")])
    request = Request(messages=[calls, picture, ToolResult("b", "g", "text")])
    _, one, two, shown = API.write_request(request)["messages"]
    assert [one["content"], two["content"]] == ["here", "text"]
    assert (shown["role"], shown["images"]) == ("user", ["aGk="])


def test_a_document_of_another_api_is_named_as_left_out() -> None:
    request = Request(messages=[UserMessage([Opaque("anthropic", {"type": "document"})])])
    assert API.omitted_fields(request) == ["content: document"]
