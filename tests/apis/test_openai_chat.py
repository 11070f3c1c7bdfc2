"""Chat completions: what servers and clients really send, and what ours are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.checks import read
from laws.strategies import ARGUMENTS, NAMES, TEXT
from penstock import MessageBuilder, UsageError, apis
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
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

API = apis.get("openai-chat")


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    data = {"id": "c1", "model": "m", "choices": [choice], **more}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def call(index: int | None, arguments: Any = "", **more: Any) -> dict[str, Any]:
    function = {"arguments": arguments} | ({"name": more.pop("name")} if "name" in more else {})
    at = {} if index is None else {"index": index}
    return {"tool_calls": [{**at, "function": function, **more}]}


DONE = b"data: [DONE]\n\n"


def message_of(*chunks: bytes) -> AssistantMessage:
    builder = MessageBuilder()
    for event in read(API.decoder(), [b"".join(chunks)]):
        builder.add(event)
    return builder.message


def calls_of(*chunks: bytes) -> list[tuple[str, dict[str, Any], bool]]:
    return [(c.name, c.arguments, c.complete) for c in message_of(*chunks).tool_calls]


# --- calls ---


def test_interleaved_calls_are_told_apart_by_their_index() -> None:
    found = calls_of(
        chunk(call(0, '{"a":', id="x", name="f")),
        chunk(call(1, '{"b":', id="y", name="g")),
        chunk(call(0, "1}")),
        chunk(call(1, "2}")),
        chunk(finish="tool_calls"),
        DONE,
    )
    assert found == [("f", {"a": 1}, True), ("g", {"b": 2}, True)]


def test_a_name_that_comes_late_is_waited_for() -> None:
    found = calls_of(
        chunk(call(0, '{"a"', id="x")),
        chunk(call(0, ": 1}", name="f")),
        chunk(finish="tool_calls"),
        DONE,
    )
    assert found == [("f", {"a": 1}, True)]


def test_names_and_ids_that_repeat_or_are_empty_later_change_nothing() -> None:
    message = message_of(
        chunk(call(0, "{", id="x", name="f")),
        chunk(call(0, '"a": 1', id="", name="")),
        chunk(call(0, "}", id="x", name="f")),
        chunk(finish="tool_calls"),
        DONE,
    )
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [("x", "f", {"a": 1})]


def test_calls_without_an_index_are_told_apart_by_their_ids() -> None:
    found = calls_of(
        chunk(call(None, '{"a": 1}', id="x", name="f")),
        chunk(call(None, '{"b": 2}', id="y", name="g")),
        chunk(finish="stop"),
        DONE,
    )
    assert found == [("f", {"a": 1}, True), ("g", {"b": 2}, True)]


def test_an_index_that_is_text_is_an_index() -> None:
    delta = {"tool_calls": [{"index": "1", "id": "x", "function": {"name": "f"}}]}
    assert calls_of(chunk(delta), chunk(finish="tool_calls"), DONE) == [("f", {}, True)]


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1}'])
def test_arguments_may_be_an_object(arguments: object) -> None:
    found = calls_of(chunk(call(0, arguments, id="x", name="f")), chunk(finish="tool_calls"), DONE)
    assert found == [("f", {"a": 1}, True)]


def test_arguments_that_begin_with_null_do_not_become_an_empty_object() -> None:
    found = calls_of(
        chunk(call(0, None, id="x", name="f")),
        chunk(call(0, '{"a": 1}')),
        chunk(finish="tool_calls"),
        DONE,
    )
    assert found == [("f", {"a": 1}, True)]


def test_two_calls_with_one_id_get_two() -> None:
    one, two = message_of(
        chunk(call(0, "{}", id="x", name="f")),
        chunk(call(1, "{}", id="x", name="g")),
        chunk(finish="tool_calls"),
        DONE,
    ).tool_calls
    assert one.id != two.id
    assert two.id


@pytest.mark.parametrize("index", [None, 0])
def test_calls_of_one_list_with_the_same_id_are_different_calls(index: int | None) -> None:
    asked = [
        {"id": "x", "function": {"name": "f", "arguments": f'{{"a": {n}}}'}}
        | ({} if index is None else {"index": index})
        for n in range(3)
    ]
    streamed = message_of(chunk({"tool_calls": asked}), chunk(finish="tool_calls"), DONE)
    choice = {"message": {"tool_calls": asked}, "finish_reason": "tool_calls"}
    whole = API.read_response({"choices": [choice]})
    for message in (streamed, whole):
        assert [one.arguments for one in message.tool_calls] == [{"a": 0}, {"a": 1}, {"a": 2}]
        assert all(one.complete for one in message.tool_calls)
        assert len({one.id for one in message.tool_calls}) == 3


def test_a_call_ends_when_it_is_whole_and_the_next_begins() -> None:
    decoder = API.decoder()
    decoder.feed(chunk(call(0, '{"a": 1}', id="x", name="f")))
    events = decoder.feed(chunk(call(1, "", id="y", name="g")))
    assert isinstance(events[0], ToolCallEnd)
    assert isinstance(events[1], ToolCallStart)


def test_the_old_function_call_is_a_call() -> None:
    found = calls_of(
        chunk({"function_call": {"name": "f", "arguments": '{"a"'}}),
        chunk({"function_call": {"arguments": ": 1}"}}),
        chunk(finish="function_call"),
        DONE,
    )
    assert found == [("f", {"a": 1}, True)]


def test_a_tool_that_takes_free_text_is_called_with_it() -> None:
    def custom(**fields: str) -> bytes:
        return chunk({"tool_calls": [{"index": 0, "id": "x", "type": "custom", "custom": fields}]})

    found = calls_of(
        custom(name="sql", input='SELECT "a"\n'),
        custom(input="\ud83d"),
        custom(input="\ude00"),
        chunk(finish="tool_calls"),
        DONE,
    )
    assert found == [("sql", {"input": 'SELECT "a"\n😀'}, True)]


def test_arguments_with_raw_newlines_are_mended_and_say_so() -> None:
    (found,) = message_of(
        chunk(call(0, '{"a": "x\ny"}', id="x", name="f")), chunk(finish="tool_calls"), DONE
    ).tool_calls
    assert (found.arguments, found.complete) == ({"a": "x\ny"}, True)
    assert found.repairs


@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
def test_arguments_that_stop_in_the_middle_are_never_whole(finish: str) -> None:
    message = message_of(
        chunk(call(0, '{"path": "a", "content": "half', id="x", name="f")), chunk(finish=finish)
    )
    assert [c.complete for c in message.tool_calls] == [False]
    assert message.error is not None
    assert message.error.kind == "malformed"


def test_a_call_that_the_limit_cut_ends_in_length() -> None:
    message = message_of(
        chunk(call(0, '{"a": "ha', id="x", name="f")), chunk(finish="length"), DONE
    )
    assert message.stop_reason == "length"
    assert [(c.arguments, c.complete) for c in message.tool_calls] == [({"a": "ha"}, False)]


def test_a_call_without_a_name_is_seen_and_never_run() -> None:
    message = message_of(chunk(call(0, '{"a": 1}', id="x")), chunk(finish="tool_calls"), DONE)
    assert [c.complete for c in message.tool_calls] == [False]
    assert message.stop_reason == "error"


def test_a_line_that_is_lost_leaves_the_open_call_incomplete() -> None:
    decoder = API.decoder()
    events = read(
        decoder,
        [
            chunk(call(0, '{"a": "x', id="x", name="f")),
            b"data: {garbage\n\n",
            chunk(call(0, '"}')),
            chunk(finish="tool_calls"),
        ],
    )
    end = events[-1]
    assert isinstance(end, Failed)
    assert not end.message.tool_calls[0].complete
    assert decoder.skipped == 1


# --- text, thinking and ends ---


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_thoughts_are_thinking_wherever_they_stand(field: str) -> None:
    message = message_of(
        chunk({field: "Hm", "content": ""}), chunk({"content": "Yes"}), chunk(finish="stop"), DONE
    )
    assert message.content == [Thinking("Hm"), Text("Yes")]


def test_content_in_parts_is_read() -> None:
    thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]
    message = message_of(
        chunk({"content": thoughts}),
        chunk({"content": [{"type": "text", "text": "Yes"}]}),
        chunk(finish="stop"),
    )
    assert message.content == [Thinking("Hm"), Text("Yes")]


def test_the_signature_of_a_call_comes_with_the_details_of_the_reasoning() -> None:
    details = [{"type": "reasoning.encrypted", "id": "x", "data": "secret"}]
    (found,) = message_of(
        chunk(call(0, "{}", id="x", name="f")),
        chunk({"reasoning_details": details}),
        chunk(finish="tool_calls"),
    ).tool_calls
    assert found.signature == "secret"


def test_half_an_emoji_waits_for_the_other_half() -> None:
    message = message_of(
        chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}), chunk(finish="stop")
    )
    assert message.text == "a😀b"


def test_half_an_emoji_that_stays_alone_is_shown_as_lost() -> None:
    assert message_of(chunk({"content": "a\ud83d"}), chunk(finish="stop")).text == "a\ufffd"


def test_only_the_first_choice_counts() -> None:
    other = {"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}
    own = {"index": 0, "delta": {"content": "yes"}, "finish_reason": "stop"}
    data = b"data: " + json.dumps({"choices": [other, own]}).encode() + b"\n\n"
    assert (message_of(data).text, message_of(data).stop_reason) == ("yes", "stop")


def test_an_empty_finish_reason_is_none() -> None:
    message = message_of(chunk({"content": "a"}, ""), chunk({"content": "b"}, "stop"), DONE)
    assert (message.text, message.stop_reason) == ("ab", "stop")


@pytest.mark.parametrize(
    ("finish", "reason", "kind"),
    [
        ("stop", "stop", None),
        ("end", "stop", None),
        ("STOP", "stop", None),
        ("length", "length", None),
        ("MAX_TOKENS", "length", None),
        ("content_filter", "error", "filter"),
        ("network_error", "error", "provider"),
        ("something_new", "error", "provider"),
    ],
)
def test_a_finish_reason_means_one_of_ours(finish: str, reason: str, kind: str | None) -> None:
    message = message_of(chunk({"content": "a"}), chunk(finish=finish), DONE)
    assert (message.stop_reason, message.raw_stop_reason) == (reason, finish)
    assert (message.error and message.error.kind) == kind


def test_the_mark_done_alone_is_a_good_end_and_the_end_of_the_bytes_alone_is_not() -> None:
    assert message_of(chunk({"content": "a"}), DONE).stop_reason == "stop"
    cut = message_of(chunk({"content": "a"}))
    assert cut.error is not None
    assert (cut.text, cut.error.kind, cut.error.retryable) == ("a", "truncated", True)


def test_frames_without_blank_lines_are_read_line_by_line() -> None:
    data = chunk({"content": "a"}) + chunk({"content": "b"}) + chunk(finish="stop") + DONE
    assert message_of(data.replace(b"\n\n", b"\n")).text == "ab"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error": {"message": "no", "type": "rate_limit_exceeded"}}', "provider"),
        (b"<html>Bad gateway</html>", "malformed"),
        (b"data: <html>\n\n", "malformed"),
        (b"", "truncated"),
    ],
)
def test_a_body_that_is_no_stream_fails_as_what_it_is(body: bytes, kind: str) -> None:
    error = message_of(body).error
    assert error is not None
    assert error.kind == kind


def test_a_whole_answer_in_place_of_a_stream_is_read() -> None:
    message = AssistantMessage("i", "m", [Text("Hi"), ToolCall("c", "f", {"a": 1})], "tool_use")
    body = json.dumps(API.write_response(message)).encode()
    found = message_of(body)
    assert (found.text, found.stop_reason) == ("Hi", "tool_use")
    assert [c.arguments for c in found.tool_calls] == [{"a": 1}]


def test_an_error_tells_its_type_and_whether_to_try_again() -> None:
    error = {"message": "slow down", "type": "rate_limit_exceeded", "code": 429}
    found = message_of(chunk({"content": "a"}), b"data: " + json.dumps({"error": error}).encode())
    assert found.error is not None
    assert (found.error.type, found.error.status) == ("rate_limit_exceeded", 429)
    assert found.error.retryable
    assert found.text == "a"


def test_a_refused_request_is_read_with_its_headers() -> None:
    body = b'{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}'
    error = API.read_error(429, {"Retry-After": "1.5"}, body)
    assert (error.status, error.retry_after, error.retryable) == (429, 1.5, True)
    assert error.message == "slow down retry-after-ms=1500"


# --- encoding ---


def encoded(*events: Event, **options: Any) -> list[Any]:
    encoder = API.encoder(**options)
    data = b"".join(map(encoder.encode, events)) + encoder.finish()
    assert API.check(data) == []
    lines = [line[6:] for line in data.decode().split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def test_the_usage_goes_out_alone_and_only_if_it_was_asked_for() -> None:
    message = AssistantMessage(stop_reason="stop", usage=Usage(7, 3, total=10))
    events: list[Event] = [MessageStart("i", "m"), Done("stop", message)]
    *_, usage, done = encoded(*events)
    assert (usage["choices"], usage["usage"]["prompt_tokens"], done) == ([], 7, "[DONE]")
    assert all("usage" not in chunk for chunk in encoded(*events, usage=False)[:-1])


def test_a_call_without_deltas_still_has_its_arguments() -> None:
    call = ToolCall("x", "f", {"a": 1})
    message = AssistantMessage(content=[call], stop_reason="tool_use")
    chunks = encoded(ToolCallStart(0, "x", "f"), ToolCallEnd(0, call), Done("tool_use", message))
    calls = [c["choices"][0]["delta"].get("tool_calls") for c in chunks[:-1] if c["choices"]]
    assert "".join(c[0]["function"]["arguments"] for c in calls if c) == '{"a":1}'
    assert chunks[-2]["choices"][0]["finish_reason"] == "tool_calls"


def test_the_id_of_a_responses_call_is_its_first_half() -> None:
    call = ToolCall("call_1|fc_2", "f")
    message = AssistantMessage(content=[call], stop_reason="tool_use")
    chunks = encoded(
        ToolCallStart(0, call.id, "f"), ToolCallEnd(0, call), Done("tool_use", message)
    )
    assert chunks[1]["choices"][0]["delta"]["tool_calls"][0]["id"] == "call_1"


def test_an_incomplete_call_ends_in_an_error_and_never_as_calls() -> None:
    call = ToolCall("x", "f", complete=False)
    message = AssistantMessage(content=[call], stop_reason="stop")
    *_, error, done = encoded(
        ToolCallStart(0, "x", "f"), ToolCallEnd(0, call), Done("stop", message)
    )
    assert "incomplete" in error["error"]["message"]
    assert done == "[DONE]"


def test_the_last_brace_of_the_arguments_waits_until_the_call_is_complete() -> None:
    encoder = API.encoder()
    encoder.encode(ToolCallStart(0, "x", "f"))
    assert b"}}" not in encoder.encode(ToolCallDelta(0, '{"a": {}} ')).replace(b"}}]}", b"")
    cut = ToolCall("x", "f", {"a": {}}, complete=False)
    assert encoder.encode(ToolCallEnd(0, cut)) == b""


@pytest.mark.parametrize("kind", ["refusal", "filter"])
def test_an_end_that_the_models_side_chose_is_a_finish_and_no_error(kind: Any) -> None:
    failed = Failed("error", ErrorInfo("no", kind), AssistantMessage())
    chunks = encoded(TextStart(0), TextDelta(0, "I"), TextEnd(0, "I"), failed)
    assert chunks[-2]["choices"][0]["finish_reason"] == "content_filter"


# --- requests and whole answers ---

TEXTS = st.builds(Text, TEXT.filter(bool))
IMAGES = st.builds(Image, media_type=st.just("image/png"), data=st.just("aGk="))
LINKS = st.builds(Image, url=st.just("https://e.test/a.png"), detail=st.sampled_from(["", "low"]))
TURNS = st.builds(
    lambda text, name, arguments, result: [
        UserMessage([Text("Go")]),
        AssistantMessage(
            content=[
                Thinking("Hm"),
                *([Text(text)] if text else []),
                ToolCall("c1", name, arguments),
            ]
        ),
        ToolResult("c1", name, result),
    ],
    TEXT,
    NAMES,
    ARGUMENTS,
    TEXT,
)
REQUESTS = st.builds(
    Request,
    model=st.just("m"),
    system=TEXT,
    messages=st.tuples(
        st.lists(st.builds(UserMessage, st.lists(TEXTS | IMAGES | LINKS, min_size=1)), max_size=2),
        TURNS,
        st.lists(st.builds(SystemMessage, TEXT), max_size=1),
    ).map(lambda parts: [message for part in parts for message in part]),
    tools=st.lists(
        st.builds(Tool, NAMES, TEXT, st.just({"type": "object", "properties": {}})),
        max_size=2,
        unique_by=lambda tool: tool.name,
    ),
    tool_choice=st.sampled_from([None, ToolChoice("auto"), ToolChoice("tool", "f")]),
    parallel_tool_calls=st.none() | st.booleans(),
    max_tokens=st.none() | st.integers(1, 99),
    temperature=st.none() | st.floats(0, 2),
    stop=st.lists(TEXT, max_size=2),
    response_format=st.sampled_from(
        [
            None,
            ResponseFormat("json"),
            ResponseFormat("schema", {"type": "object"}, "n", strict=True),
        ]
    ),
    reasoning=st.sampled_from([None, ReasoningOptions("low")]),
    stream=st.booleans(),
    metadata=st.just({"k": "v"}),
    user=st.sampled_from(["", "u"]),
    source=st.just("openai-chat"),
    extra=st.just({"logit_bias": {"1": 2}}),
)


@given(request=REQUESTS)
def test_a_request_reads_back_as_it_was_written(request: Request) -> None:
    if not request.tools:  # Then there is nothing to choose.
        request.tool_choice = request.parallel_tool_calls = None
    request.system_messages = "keep"
    body = json.loads(json.dumps(API.write_request(request)))
    found = API.read_request(body)
    found.raw, found.system_messages = None, "keep"
    assert found == request


def test_fields_that_nobody_knows_go_back_to_the_api_that_they_came_from() -> None:
    body = {"model": "m", "messages": [], "logit_bias": {}, "tools": [{"type": "web_search"}]}
    request = API.read_request(body)
    assert API.write_request(request) == body
    request.source = "anthropic"
    assert API.write_request(request) == {"model": "m", "messages": []}
    assert API.omitted_fields(request) == ["tools: web_search", "logit_bias"]


def test_a_call_without_a_result_is_sent_with_one() -> None:
    called = AssistantMessage(content=[ToolCall("c", "f")])
    messages: list[Message] = [UserMessage([Text("Go")]), called, UserMessage([Text("Well?")])]
    body = API.write_request(Request("m", messages=messages))
    assert [m["role"] for m in body["messages"]] == ["user", "assistant", "tool", "user"]
    assert body["messages"][2]["content"] == "No result provided"


def test_thoughts_of_another_model_are_sent_as_text() -> None:
    thought = AssistantMessage(model="other", content=[Thinking("Hm", "sig"), Opaque("x", {})])
    body = API.write_request(Request("m", messages=[thought]))
    assert body["messages"] == [{"role": "assistant", "content": "Hm"}]


def test_results_find_the_name_of_their_call() -> None:
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "ok"}]},
    ]
    request = API.read_request({"model": "m", "messages": messages})
    assert request.system == "Be brief."
    assert request.messages[1] == ToolResult("c", "f", "ok")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": "Hi"},
        {"messages": ["Hi"]},
        {"messages": [{"role": "ghost"}]},
        {"messages": [], "temperature": "hot"},
        {"messages": [], "max_tokens": 1.5},
    ],
)
def test_what_is_no_request_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        API.read_request(body)


def test_a_whole_answer_reads_back_as_it_was_written() -> None:
    message = AssistantMessage(
        "i",
        "m",
        [Thinking("Hm"), Text("Hi"), ToolCall("c", "f", {"a": 1}, signature="sig")],
        "tool_use",
        "tool_calls",
        Usage(5, 3, 2, 1, 1, 11),
    )
    found = API.read_response(API.write_response(message))
    found.usage.raw = None
    assert found == message


def test_an_answer_that_failed_has_no_whole_form() -> None:
    failed = AssistantMessage(stop_reason="error", error=ErrorInfo("no"))
    with pytest.raises(UsageError, match="failed response"):
        API.write_response(failed)


# --- the checker ---


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda data: data.replace(DONE, b""), "[DONE] is missing"),
        (lambda data: data + data, "something follows [DONE]"),
        (lambda data: data.replace(b'"name":"f",', b""), "has no name"),
        (lambda data: data.replace(b'"id":"x"', b'"id":""'), "a call has no id"),
        (lambda data: data.replace(b'"tool_calls"}', b'"stop"}'), "calls end in stop"),
        (lambda data: data.replace(b'{\\"a\\":1}', b"{"), "not a JSON object"),
        (lambda data: data.replace(b'"role":"assistant",', b""), "no role"),
        (lambda data: data.replace(b"data: {", b"data: {{", 1), "not a JSON object"),
    ],
)
def test_the_checker_sees_what_a_client_would_stumble_over(change: Any, complaint: str) -> None:
    call = ToolCall("x", "f", {"a": 1})
    message = AssistantMessage(content=[call], stop_reason="tool_use")
    encoder = API.encoder()
    end = Done("tool_use", message)
    events: list[Event] = [ToolCallStart(0, "x", "f"), ToolCallEnd(0, call), end]
    data = b"".join(map(encoder.encode, events)) + encoder.finish()
    assert any(complaint in found for found in API.check(change(data)))
