"""Requests and whole answers of the Responses API, both ways."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from laws.strategies import ARGUMENTS, NAMES, TEXT
from penstock import apis
from penstock.errors import UsageError
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

API = apis.get("openai-responses")
NAME = "openai-responses"


def read(**fields: Any) -> Request:
    return API.read_request({"model": "m", **fields})


def sent(*messages: Message, model: str = "m", **fields: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = API.write_request(Request(model, messages=[*messages], **fields))[
        "input"
    ]
    return items


# --- reading ---


def test_input_is_text_or_items_or_nothing() -> None:
    assert read(input="Hi").messages == [UserMessage([Text("Hi")])]
    assert read(input=[{"role": "user", "content": "Hi"}]).messages == [UserMessage([Text("Hi")])]
    assert read(prompt={"id": "pmpt_1"}).messages == []


@pytest.mark.parametrize("wrong", [7, {"role": "user"}, [7], [{"role": "judge", "content": ""}]])
def test_what_makes_no_sense_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        read(input=wrong)


def test_instructions_and_what_instructs_in_front_are_the_system_prompt() -> None:
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Two"}]},
        {"role": "user", "content": "Hi"},
        {"role": "system", "content": "Three"},
    ]
    request = read(instructions="One", input=items)
    assert request.system == "One\n\nTwo"
    assert request.messages[1] == SystemMessage("Three")


def test_images_and_files_are_content() -> None:
    file = {"type": "input_file", "file_id": "file_1"}
    parts = [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBO", "detail": "auto"},
        {"type": "input_image", "image_url": "https://a.example/x.png", "detail": "high"},
        {"type": "input_image", "file_id": "file_2"},
        file,
    ]
    (message,) = read(input=[{"type": "message", "role": "user", "content": parts}]).messages
    assert message == UserMessage(
        [
            Text("See"),
            Image("image/png", "iVBO"),
            Image(url="https://a.example/x.png", detail="high"),
            Opaque(NAME, parts[3]),
            Opaque(NAME, file),
        ]
    )


def test_what_the_model_made_is_one_message_until_a_result_comes() -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": t} for t in ("One", "Two")],
        "encrypted_content": "gAAA",
    }
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    items = [
        reasoning,
        {"type": "message", "id": "msg_1", "role": "assistant", "phase": "commentary",
         "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}]},
        search,
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c2", "name": "p", "input": "x"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [
            {"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"type": "function_call_output", "call_id": "other", "output": [
            {"type": "input_image", "image_url": "https://a.example/x.png"}]},
        {"id": "msg_7"},
    ]  # fmt: skip
    answer, *results, last = read(input=items).messages
    assert isinstance(answer, AssistantMessage)
    thinking, *others = answer.content
    assert isinstance(thinking, Thinking)
    assert thinking.text == "One\n\nTwo"
    assert json.loads(thinking.signature) == reasoning
    assert others == [
        Text("Let me see.", "msg_1|commentary"),
        Opaque(NAME, search),
        ToolCall("c1|fc_1", "f", {}),
        ToolCall("c2|ctc_1", "p", {"input": "x"}),
    ]
    assert results == [
        ToolResult("c1|fc_1", "f", "ok"),
        ToolResult("c2|ctc_1", "p", "a\nb"),
        ToolResult("other", "", [Image(url="https://a.example/x.png")]),
    ]
    assert last == AssistantMessage(
        content=[Opaque(NAME, {"type": "item_reference", "id": "msg_7"})]
    )


def test_tools_are_flat_and_those_of_the_provider_are_kept_aside() -> None:
    function = {
        "type": "function",
        "name": "f",
        "description": "Does.",
        "parameters": {"type": "object"},
        "strict": True,
    }
    grammar = {"type": "custom", "name": "p", "format": {"type": "grammar", "definition": "x"}}
    search = {"type": "web_search", "filters": None}
    tools = [function, grammar, search]
    request = read(input="Hi", tools=tools, tool_choice={"type": "custom", "name": "p"})
    assert [tool.name for tool in request.tools] == ["f", "p"]
    assert request.tools[0] == Tool("f", "Does.", {"type": "object"})
    assert request.extra["tools"] == [search]
    body = API.write_request(request)
    assert body["tools"] == tools
    assert body["tool_choice"] == {"type": "custom", "name": "p"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", ToolChoice("auto")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "f"}, ToolChoice("tool", "f")),
        ({"type": "allowed_tools", "mode": "required", "tools": []}, ToolChoice("required")),
        ({"type": "web_search_preview"}, None),
        ({"type": "mcp", "server_label": "x", "name": "y"}, None),
    ],
)
def test_a_choice_of_tools_is_read_and_goes_back_as_it_was(
    choice: Any, expected: ToolChoice | None
) -> None:
    request = read(input="Hi", tool_choice=choice)
    assert request.tool_choice == expected
    assert API.write_request(request)["tool_choice"] == choice


def test_what_has_no_place_in_a_request_goes_back_to_this_api_alone() -> None:
    body = {
        "model": "m",
        "input": [{"type": "message", "role": "user", "content": "Hi"}],
        "previous_response_id": "resp_0",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "text": {
            "verbosity": "low",
            "format": {"type": "json_schema", "name": "n", "schema": {}, "description": "d"},
        },
        "reasoning": {"effort": "high", "summary": "auto", "context": "all_turns"},
        "stream_options": {"include_obfuscation": False},
        "stream": True,
        "top_k": 5,
        "seed": 0,
        "max_output_tokens": 10,
        "metadata": {"a": "b"},
        "user": "u",
        "brand_new": 1,
    }
    request = API.read_request(body)
    assert request.reasoning == ReasoningOptions("high", None, "auto")
    assert request.response_format == ResponseFormat("schema", {}, "n")
    assert (request.top_k, request.seed, request.include_usage) == (5, 0, True)
    assert API.write_request(request) == body
    assert API.omitted_fields(request) == []
    request.source = "openai-chat"
    written = API.write_request(request)
    assert not {"brand_new", "store", "top_k", "seed"} & written.keys()
    assert {"brand_new", "store", "top_k", "seed"} <= {*API.omitted_fields(request)}


# --- writing ---


def reasoned(text: str = "Hm") -> Thinking:
    return Thinking(text, json.dumps({"type": "reasoning", "id": "rs_1", "summary": []}))


def test_reasoning_and_ids_go_back_to_the_model_that_made_them_alone() -> None:
    content: list[Any] = [reasoned(), Text("Hi", "msg_1|final_answer"), ToolCall("c|fc_1", "f", {})]
    own, text, call, result = sent(AssistantMessage("r", "m", [*content], "tool_use"))
    assert own == {"type": "reasoning", "id": "rs_1", "summary": []}
    assert (text["id"], text["phase"]) == ("msg_1", "final_answer")
    assert (call["id"], call["call_id"]) == ("fc_1", "c")
    assert result == {
        "type": "function_call_output",
        "call_id": "c",
        "output": "No result provided",
    }
    other = sent(AssistantMessage("r", "m", [*content], "tool_use"), model="another")
    assert [item["type"] for item in other[:3]] == ["message", "message", "function_call"]
    assert not any("id" in item for item in other)
    failed = sent(AssistantMessage("r", "m", [*content], "error"))
    assert [item["type"] for item in failed[:2]] == ["message", "function_call"]
    assert not any("id" in item for item in failed)


def test_thoughts_that_are_no_item_of_this_api_are_left_out_and_ids_with_them() -> None:
    foreign = Thinking("Hm", "signed by somebody else")
    (call, _) = sent(AssistantMessage(content=[foreign, ToolCall("c|fc_1", "f", {})]))
    assert call == {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}


def test_ids_are_cut_to_what_the_api_takes_and_stay_in_pairs() -> None:
    long, same = "x" * 90, "y"
    items = sent(
        AssistantMessage(content=[ToolCall(long, "f", {}), ToolCall(same, "f", {})]),
        ToolResult(same, "f", "2"),
        ToolResult(long, "f", "1"),
        AssistantMessage(content=[ToolCall(same, "f", {})]),
    )
    ids = [item["call_id"] for item in items]
    assert ids[:2] == ids[2:4]
    assert ids[4] == ids[5] != ids[1]
    assert all(len(id_) <= 64 for id_ in ids)
    assert [item["output"] for item in items[2:4]] == ["1", "2"]


def test_custom_calls_go_back_as_such_with_their_results() -> None:
    items = sent(
        AssistantMessage(content=[ToolCall("c|ctc_1", "p", {"input": "x"})]),
        ToolResult("c|ctc_1", "p", "ok"),
    )
    assert items == [
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c", "name": "p", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
    ]


def test_annotations_go_back_on_their_text() -> None:
    notes = Opaque(NAME, {"type": "annotations", "annotations": [{"type": "file_path"}]})
    (item,) = sent(AssistantMessage(content=[Text("Hi"), notes]))
    assert item["content"][0]["annotations"] == [{"type": "file_path"}]


def test_what_cannot_be_said_is_left_out() -> None:
    request = Request("m", n=2, seed=1, reasoning=ReasoningOptions(budget=100), stop=["x"])
    assert API.omitted_fields(request) == ["n", "seed", "stop"]
    effort = {"effort": "low"}
    assert API.write_request(request) == {"model": "m", "input": [], "reasoning": effort}


def test_lone_surrogates_leave_no_trace_and_foreign_blocks_their_name() -> None:
    content: list[Any] = [Text("a\ud83d"), Opaque("other", {"type": "x"}), Text("b")]
    (item,) = sent(UserMessage(content))
    assert [part["text"] for part in item["content"]] == ["a", "[x omitted]", "b"]


def test_results_may_hold_pictures_or_any_value() -> None:
    _, _, *items = sent(
        AssistantMessage(content=[ToolCall("a", "f"), ToolCall("b", "f")]),
        ToolResult("a", "f", [Text("see"), Image("image/png", "iVBO")]),
        ToolResult("b", "f", {"k": 1}),
    )
    assert items[0]["output"][1] == {
        "type": "input_image",
        "image_url": "data:image/png;base64,iVBO",
        "detail": "auto",
    }
    assert items[1]["output"] == '{"k":1}'


def test_no_choice_is_made_among_tools_that_are_not_there() -> None:
    forced = ToolChoice("tool", "web_search")
    request = Request("m", tool_choice=forced, parallel_tool_calls=False, source="anthropic")
    assert API.write_request(request) == {"model": "m", "input": []}
    assert API.omitted_fields(request) == ["tool_choice", "parallel_tool_calls"]
    request.tools = [Tool("f")]
    assert "tool_choice" not in API.write_request(request)
    request.tool_choice = ToolChoice("tool", "f")
    assert API.write_request(request)["tool_choice"] == {"type": "function", "name": "f"}


@pytest.mark.parametrize(
    ("budget", "effort"), [(0, "none"), (1_024, "low"), (8_192, "medium"), (31_999, "high")]
)
def test_a_budget_is_said_as_an_effort(budget: int, effort: str) -> None:
    request = Request("m", reasoning=ReasoningOptions(budget=budget))
    assert API.write_request(request)["reasoning"] == {"effort": effort}


def test_lone_surrogates_leave_no_trace_in_tools_and_names() -> None:
    tool = Tool("f", "d\ud83d", {"type": "object", "title": "t\ud83d"})
    body = API.write_request(Request("m\ud83d", tools=[tool], user="u\udc00"))
    assert "\\ud" not in json.dumps(body)
    assert (body["model"], body["tools"][0]["description"], body["user"]) == ("m", "d", "u")


def test_tools_of_others_are_not_made_strict() -> None:
    (tool,) = API.write_request(Request("m", tools=[Tool("f")]))["tools"]
    assert tool["strict"] is False
    assert tool["parameters"] == {"type": "object", "properties": {}}


# --- what can be said is read back ---

SAID = st.text(min_size=1, max_size=20)
SCHEMA = st.fixed_dictionaries({"type": st.just("object"), "properties": st.just({})})
IMAGES = st.builds(
    Image, st.just("image/png"), st.just("iVBO"), detail=st.sampled_from(["", "low"])
)
LINKS = st.builds(Image, url=SAID.map(lambda text: f"https://a.example/{text}"))
USERS = st.builds(
    UserMessage, st.lists(st.builds(Text, SAID) | IMAGES | LINKS, min_size=1, max_size=3)
)


@st.composite
def turns(draw: DrawFn) -> list[Message]:
    """One answer of a model with its results, and what the user says next."""
    number = draw(st.uuids()).hex[:12]
    count = draw(st.integers(0, 3))
    blocks: list[Any] = draw(
        st.lists(
            st.builds(Text, SAID, st.sampled_from(["", "msg_1", "msg_2|commentary"]))
            | st.just(reasoned("")).map(lambda t: Thinking("", json_compact(t.signature)))
            | st.just(Opaque(NAME, {"type": "web_search_call", "id": "ws_1"})),
            min_size=0 if count else 1,
            max_size=3,
        )
    )
    calls = [
        ToolCall(draw(st.sampled_from([id_, f"{id_}|fc_{id_}"])), draw(NAMES), draw(ARGUMENTS))
        for id_ in (f"call_{number}_{at}" for at in range(count))
    ]
    results: list[Message] = [ToolResult(call.id, call.name, draw(TEXT)) for call in calls]
    return [AssistantMessage(content=[*blocks, *calls]), *results, draw(USERS)]


def json_compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))


CONVERSATIONS = st.builds(
    lambda first, rounds: [first, *[message for turn in rounds for message in turn]],
    USERS,
    st.lists(turns(), max_size=2),
)
REQUESTS = st.builds(
    Request,
    model=TEXT,
    system=TEXT,
    messages=CONVERSATIONS,
    tools=st.lists(st.builds(Tool, NAMES, TEXT, SCHEMA), max_size=2, unique_by=lambda t: t.name),
    tool_choice=st.none() | st.sampled_from([ToolChoice("none"), ToolChoice("tool", "f")]),
    parallel_tool_calls=st.none() | st.booleans(),
    max_tokens=st.none() | st.integers(1, 99),
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    response_format=st.none()
    | st.sampled_from([ResponseFormat("json"), ResponseFormat("schema", {}, "n", strict=True)]),
    reasoning=st.none() | st.sampled_from([ReasoningOptions("low", None, "auto")]),
    metadata=st.dictionaries(TEXT, TEXT, max_size=2),
    user=TEXT,
    source=st.just(NAME),
)


@given(REQUESTS)
@settings(max_examples=60)
def test_what_is_written_is_read_back(request: Request) -> None:
    again = API.read_request(API.write_request(request))
    again.raw = None
    assert again == request


@given(
    st.lists(
        st.builds(Text, TEXT) | st.builds(Thinking, TEXT, TEXT) | st.builds(
            ToolCall, st.uuids().map(str), NAMES, ARGUMENTS, signature=TEXT
        ),
        max_size=4,
    ),
    st.sampled_from(["stop", "length"]),
    st.builds(Usage, *[st.integers(0, 99)] * 5),
)  # fmt: skip
@settings(max_examples=60)
def test_a_whole_answer_is_read_back(content: list[Any], stop: Any, usage: Usage) -> None:
    message = AssistantMessage("resp_1", "m", content, stop, usage=usage)
    data = json.loads(json.dumps(API.write_response(message)))
    again = API.read_response(data)
    assert [_plain(block) for block in again.content] == [_plain(block) for block in content]
    expected = "length" if stop == "length" else "tool_use" if message.tool_calls else "stop"
    assert again.stop_reason == expected
    assert (again.usage.input, again.usage.reasoning) == (usage.input, usage.reasoning)


def _plain(block: Any) -> Any:
    if isinstance(block, ToolCall):
        return (block.id.partition("|")[0], block.name, block.arguments, block.signature)
    return (block.text, block.signature) if isinstance(block, Thinking) else block.text


def test_an_answer_that_failed_has_no_whole_form() -> None:
    with pytest.raises(UsageError):
        API.write_response(AssistantMessage(stop_reason="error", error=ErrorInfo("no")))


def test_a_whole_answer_may_have_failed() -> None:
    error = {"code": "server_error", "message": "Oops"}
    message = API.read_response({"object": "response", "status": "failed", "error": error})
    assert message.error is not None
    assert (message.stop_reason, message.error.message) == ("error", "Oops")


def test_refusals_of_the_server_are_read_and_written() -> None:
    body = b'{"error": {"message": "Slow", "type": "tokens", "code": "rate_limit_exceeded"}}'
    error = API.read_error(429, {"Retry-After": "2"}, body)
    assert (error.type, error.status, error.retry_after) == ("rate_limit_exceeded", 429, 2.0)
    assert error.message == "Slow retry-after-ms=2000"
    page = b"<html><title>Bad gateway</title></html>"
    assert "Bad gateway" in API.read_error(502, {}, page).message
    status, written = API.write_error(ErrorInfo("no", "transport"))
    assert (status, written["error"]["code"]) == (502, "connection_error")
