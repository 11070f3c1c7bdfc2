"""What clients of the messages API ask, read and written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws.strategies import ARGUMENTS, NAMES
from penstock import apis
from penstock.errors import UsageError
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
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

API = apis.get("anthropic")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = Tool("weather", "Tells it.", SCHEMA)


def ask(*messages: dict[str, Any], **fields: Any) -> Request:
    return API.read_request(
        {"model": "claude", "max_tokens": 9, "messages": list(messages)} | fields
    )


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def body(*messages: Message, **fields: Any) -> dict[str, Any]:
    return API.write_request(Request(**{"model": "claude-x", "messages": list(messages)} | fields))


def turns(*messages: Message, **fields: Any) -> list[Any]:
    written: list[Any] = body(*messages, **fields)["messages"]
    return written


USER = {"role": "user", "content": "Hi"}
HI = UserMessage([Text("Hi")])
CALL = ToolCall("toolu_1", "weather", {"city": "Brest"})
USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Brest"}}


# --- reading ---


def test_the_plain_fields_are_read() -> None:
    request = ask(
        USER,
        system="Be kind.",
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        stop_sequences=["END"],
        stream=True,
        metadata={"user_id": "u1"},
    )
    assert (request.model, request.system, request.max_tokens) == ("claude", "Be kind.", 9)
    assert request.messages == [HI]
    assert (request.temperature, request.top_p, request.top_k) == (0.5, 0.9, 5)
    assert (request.stop, request.stream, request.user) == (["END"], True, "u1")
    assert (request.source, request.extra) == ("anthropic", {})


def test_a_system_prompt_in_blocks_is_read_and_goes_back_in_its_blocks() -> None:
    marked = {**said("Be kind."), "cache_control": {"type": "ephemeral"}}
    request = ask(USER, system=[said("You are C."), marked])
    assert request.system == "You are C.\n\nBe kind."
    assert API.write_request(request)["system"] == [said("You are C."), marked]
    request.system = "Another."
    assert API.write_request(request)["system"] == "Another."


def test_instructions_among_the_messages_are_read_where_they_are() -> None:
    late = {"role": "system", "content": [said("Now in French.")]}
    request = ask({"role": "system", "content": "First."}, USER, late, system="Zeroth.")
    assert request.system == "Zeroth.\n\nFirst."
    assert request.messages == [HI, SystemMessage("Now in French.")]
    assert API.write_request(request)["messages"][1] == {
        "role": "system",
        "content": "Now in French.",
    }


def test_pictures_are_read_both_ways() -> None:
    data = {"type": "base64", "media_type": "image/png", "data": "aGk="}
    url = {"type": "url", "url": "https://example.com/a.png"}
    blocks = [{"type": "image", "source": data}, {"type": "image", "source": url}]
    request = ask(user(*blocks))
    assert request.messages == [
        UserMessage([Image("image/png", "aGk="), Image(url="https://example.com/a.png")])
    ]
    assert API.write_request(request)["messages"] == [user(*blocks)]


def test_a_document_is_kept_whole() -> None:
    document = {"type": "document", "source": {"type": "text", "data": "…"}, "title": "T"}
    request = ask(user(document, said("What is it?")))
    assert request.messages == [UserMessage([Opaque("anthropic", document), Text("What is it?")])]
    assert API.write_request(request)["messages"] == [user(document, said("What is it?"))]


def test_results_come_before_what_the_user_says_and_know_their_name() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain"}
    request = ask(USER, assistant(USE), user(said("And?"), result))
    assert request.messages == [
        HI,
        AssistantMessage(content=[CALL]),
        ToolResult("toolu_1", "weather", "Rain"),
        UserMessage([Text("And?")]),
    ]
    assert API.write_request(request)["messages"][2] == user(result, said("And?"))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Rain", "Rain"),
        (None, ""),
        ([], ""),
        ([said("a"), said("b")], "a\nb"),
        ({"odd": 1}, {"odd": 1}),
        (
            [said("a"), {"type": "image", "source": {"type": "url", "url": "u"}}],
            [Text("a"), Image(url="u")],
        ),
        ([{"type": "odd", "x": 1}], [Opaque("anthropic", {"type": "odd", "x": 1})]),
    ],
)
def test_a_result_is_text_or_blocks(content: Any, expected: Any) -> None:
    block = {"type": "tool_result", "tool_use_id": "t", "content": content, "is_error": True}
    assert ask(user(block)).messages == [ToolResult("t", "", expected, is_error=True)]


def test_what_the_assistant_said_is_read_block_by_block() -> None:
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    cited = {**said("So."), "citations": [{"type": "page_location"}]}
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}, hidden, cited, USE]
    request = ask(USER, assistant(*blocks))
    assert request.messages[1] == AssistantMessage(
        content=[
            Thinking("hm", "s"),
            Opaque("anthropic", hidden),
            Text("So."),
            Opaque("anthropic", {"citations": [{"type": "page_location"}]}),
            CALL,
        ]
    )
    assert API.write_request(request)["messages"][1] == assistant(*blocks)


def test_tools_are_read_and_those_the_server_runs_are_kept_aside() -> None:
    search = {"type": "web_search_20250305", "name": "web_search"}
    mine = {"name": "weather", "description": "Tells it.", "input_schema": SCHEMA}
    eager = {**mine, "type": "custom", "eager_input_streaming": True}
    request = ask(USER, tools=[eager, search])
    assert request.tools == [WEATHER]
    assert request.extra == {"tools": [search]}
    assert API.write_request(request)["tools"] == [eager, search]


@pytest.mark.parametrize(
    ("choice", "expected", "parallel"),
    [
        ({"type": "auto"}, ToolChoice("auto"), None),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice("required"), False),
        ({"type": "tool", "name": "f"}, ToolChoice("tool", "f"), None),
        ({"type": "none"}, ToolChoice("none"), None),
        ("any", ToolChoice("required"), None),
        ({"type": "odd"}, None, None),
        (None, None, None),
    ],
)
def test_the_choice_of_tools_is_read(choice: Any, expected: Any, parallel: Any) -> None:
    request = ask(USER, tool_choice=choice)
    assert (request.tool_choice, request.parallel_tool_calls) == (expected, parallel)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, ReasoningOptions(budget=4096)),
        ({"thinking": {"type": "disabled"}}, ReasoningOptions("none")),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, ReasoningOptions()),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high", "new": 1}},
            ReasoningOptions("high"),
        ),
        ({"output_config": {"effort": "low"}}, ReasoningOptions("low")),
        ({"thinking": {"type": "between_tools"}}, None),
    ],
)
def test_how_much_to_think_is_read_and_goes_back(fields: Any, expected: Any) -> None:
    request = ask(USER, **fields)
    assert request.reasoning == expected
    written = API.write_request(request)
    assert {key: written[key] for key in ("thinking", "output_config") if key in written} == fields


def test_a_schema_for_the_answer_is_read() -> None:
    wanted = {"type": "json_schema", "schema": SCHEMA}
    for fields in ({"output_config": {"format": wanted}}, {"output_format": wanted}):
        request = ask(USER, **fields)
        assert request.response_format == ResponseFormat("schema", SCHEMA)
        assert API.write_request(request)["output_config"] == {"format": wanted}


def test_unknown_fields_are_kept_aside_and_go_back_to_this_api_alone() -> None:
    extra = {"context_management": {"edits": []}, "service_tier": "auto"}
    request = ask(USER, **extra, betas=["x"], anthropic_beta=["y"])
    assert request.extra == extra
    assert extra.items() <= API.write_request(request).items()
    request.source = "openai-chat"
    assert not extra.keys() & API.write_request(request).keys()
    assert API.omitted_fields(request) == sorted(extra)


def test_marks_of_the_cache_and_callers_stay_on_their_blocks() -> None:
    mark, caller = {"cache_control": {"type": "ephemeral"}}, {"type": "direct"}
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {}, "caller": caller, **mark}
    inner = [{**said("a"), **mark}, said("b")]
    result = {"type": "tool_result", "tool_use_id": "t1", "content": inner, **mark}
    messages = [
        user({**said("Hi"), **mark}, said("you")),
        assistant({**said("I look."), **mark}, use),
        user(result, {**said("And?"), **mark}),
    ]
    request = ask(*messages, container="c1")
    body = API.write_request(request)
    assert body["messages"] == messages
    assert "cache_control" not in body
    assert body["container"] == "c1"
    request.messages[-1] = UserMessage([Text("Another.")])
    assert API.write_request(request)["messages"][-1]["content"][-1] == said("Another.")


def test_a_mark_on_messages_that_have_changed_becomes_one_for_the_request() -> None:
    mark = {"type": "ephemeral"}
    request = ask(user({**said("Hi"), "cache_control": mark}))
    request.messages = [UserMessage([Text("Bye")])]
    assert API.write_request(request)["cache_control"] == mark


def test_a_body_for_counting_tokens_is_a_request() -> None:
    assert API.read_request({"model": "claude", "messages": [USER]}).max_tokens is None


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"messages": "Hi"},
        {"messages": ["Hi"]},
        {"messages": [{"role": "robot", "content": "Hi"}]},
        {"messages": [USER], "max_tokens": "many"},
        {"messages": [assistant({"type": "tool_use", "name": "f", "input": {}})]},
    ],
)
def test_what_is_no_request_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        API.read_request(data)


@pytest.mark.parametrize(
    "data",
    [
        {"messages": [{"role": "user", "content": None}], "tools": None, "metadata": None},
        {"messages": [user("text", {"type": "image"}, {})], "system": None, "tools": [{}]},
        {"messages": [], "thinking": "yes", "output_config": [], "tool_choice": 4},
        {"messages": [assistant({"type": "text"}, {"type": "thinking"}, {"type": []})]},
        {"messages": [], "tools": [{"name": ["x"]}], "stop_sequences": 5},
    ],
)
def test_fields_of_an_odd_type_do_no_harm(data: dict[str, Any]) -> None:
    API.write_request(API.read_request(data))


# --- writing ---


def test_a_request_always_has_a_limit() -> None:
    assert body(HI)["max_tokens"] > 0
    assert body(HI, max_tokens=0)["max_tokens"] == 0
    assert body(HI, reasoning=ReasoningOptions(budget=50_000))["max_tokens"] > 50_000


def test_messages_of_the_user_in_a_row_become_one_with_the_results_first() -> None:
    calls = AssistantMessage(content=[CALL, ToolCall("toolu_2", "tide")])
    answers: list[Message] = [
        ToolResult("toolu_2", "tide", "High"),
        HI,
        ToolResult("toolu_1", "weather", "Rain"),
    ]
    *_, last = turns(HI, calls, *answers, UserMessage([Text("And?")]))
    assert [block["type"] for block in last["content"]] == [
        "tool_result",
        "tool_result",
        "text",
        "text",
    ]
    assert [block["tool_use_id"] for block in last["content"][:2]] == ["toolu_1", "toolu_2"]


def test_a_missing_result_is_supplied() -> None:
    *_, last = turns(HI, AssistantMessage(content=[CALL]), HI)
    assert last["content"][0] == {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": "No result provided",
        "is_error": True,
    }


def test_a_result_that_answers_no_call_is_said_as_text() -> None:
    (turn,) = turns(HI, ToolResult("lost", "f", "Rain"))
    assert turn["content"][0] == said("Hi")
    assert "Rain" in turn["content"][1]["text"]


def test_ids_that_the_api_refuses_are_changed_in_calls_and_results_alike() -> None:
    made = [ToolCall("call.1|fc_2", "f"), ToolCall("call.1|fc_3", "g"), ToolCall("ü", "h")]
    results = [ToolResult(call.id, call.name, call.name) for call in made]
    calls, answers = turns(AssistantMessage(content=[*made]), *results)
    ids = [block["id"] for block in calls["content"]]
    assert ids[0] == "call_1"
    assert len({*ids}) == 3
    assert [(b["tool_use_id"], b["content"]) for b in answers["content"]] == [
        *zip(ids, "fgh", strict=True)
    ]


def test_what_is_empty_is_left_out() -> None:
    empty = AssistantMessage(content=[Text(" \n")])
    assert turns(UserMessage([Text("a")]), empty, UserMessage([]), UserMessage([Text("b")])) == [
        user(said("a"), said("b"))
    ]


def test_a_failure_without_a_word_says_that_it_is_one() -> None:
    failure = ToolResult("toolu_1", "weather", "", is_error=True)
    *_, last = turns(HI, AssistantMessage(content=[CALL]), failure)
    assert last["content"][0]["content"] == "The tool failed."


def test_a_result_that_is_a_value_is_json_text() -> None:
    result = ToolResult("toolu_1", "weather", {"mm": 3})
    *_, last = turns(HI, AssistantMessage(content=[CALL]), result)
    assert last["content"][0]["content"] == '{"mm":3}'


def test_thinking_goes_back_signed_to_its_model_and_else_as_text() -> None:
    thought = AssistantMessage(model="claude-x", content=[Thinking("hm", "sig"), Text("So.")])
    signed = {"type": "thinking", "thinking": "hm", "signature": "sig"}
    assert turns(HI, thought)[1] == assistant(signed, said("So."))
    assert turns(HI, thought, model="claude-y")[1] == assistant(said("hm"), said("So."))
    unsigned: list[Content] = [Thinking("hm"), Thinking("ah", '{"type":"reasoning"}')]
    assert turns(HI, AssistantMessage(content=unsigned))[1] == assistant(said("hm"), said("ah"))


def test_blocks_of_other_providers_are_left_out() -> None:
    foreign = Opaque("gemini", {"executableCode": {}})
    (turn,) = turns(UserMessage([Text("Hi"), foreign]))
    assert [part["text"] for part in turn["content"]] == ["Hi", "[executableCode omitted]"]


def test_late_instructions_are_the_users_unless_the_model_takes_them() -> None:
    late = SystemMessage("In French.")
    assert turns(HI, late) == [user(said("Hi"), said("In French."))]
    assert turns(HI, late, model="claude-opus-4-8")[1]["role"] == "system"
    assert turns(late, HI, model="claude-opus-5")[0]["role"] == "user"


def test_a_picture_that_is_its_own_address_is_sent_as_data() -> None:
    ((turn),) = turns(UserMessage([Image(url="data:image/gif;base64,aGk=")]))
    assert turn["content"][0]["source"] == {
        "type": "base64",
        "media_type": "image/gif",
        "data": "aGk=",
    }


def test_tools_have_a_schema_of_an_object() -> None:
    tools = body(HI, tools=[Tool("clock"), WEATHER])["tools"]
    assert tools[0] == {"name": "clock", "input_schema": {"type": "object"}}
    assert tools[1] == {"name": "weather", "description": "Tells it.", "input_schema": SCHEMA}


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        (ToolChoice("required"), None, {"type": "any"}),
        (ToolChoice("tool", "weather"), None, {"type": "tool", "name": "weather"}),
        (ToolChoice("tool", "other"), None, None),
        (ToolChoice("tool", "other"), True, {"type": "auto", "disable_parallel_tool_use": False}),
        (ToolChoice("none"), False, {"type": "none"}),
        (None, False, {"type": "auto", "disable_parallel_tool_use": True}),
        (ToolChoice("auto"), True, {"type": "auto", "disable_parallel_tool_use": False}),
    ],
)
def test_the_choice_of_tools_is_written(choice: Any, parallel: Any, expected: Any) -> None:
    fields = {"tool_choice": choice, "parallel_tool_calls": parallel}
    assert body(HI, tools=[WEATHER], **fields).get("tool_choice") == expected
    assert "tool_choice" not in body(HI, **fields)


@pytest.mark.parametrize(
    ("model", "reasoning", "expected"),
    [
        ("claude-sonnet-4-5", ReasoningOptions("low"), {"type": "enabled", "budget_tokens": 2048}),
        (
            "claude-sonnet-4-20250514",
            ReasoningOptions("high"),
            {"type": "enabled", "budget_tokens": 16384},
        ),
        (
            "claude-3-7-sonnet",
            ReasoningOptions(budget=10),
            {"type": "enabled", "budget_tokens": 1024},
        ),
        ("glm-4.6", ReasoningOptions(budget=-1), {"type": "enabled", "budget_tokens": 8192}),
        ("claude-opus-4-6", ReasoningOptions("low"), {"type": "adaptive"}),
        ("anthropic/claude-opus-4.7", ReasoningOptions(budget=4096), {"type": "adaptive"}),
        ("claude-sonnet-5", ReasoningOptions("none"), {"type": "disabled"}),
        ("claude-sonnet-4-5", ReasoningOptions("none"), None),
    ],
)
def test_how_much_to_think_is_said_as_the_model_takes_it(
    model: str, reasoning: ReasoningOptions, expected: Any
) -> None:
    assert body(HI, model=model, reasoning=reasoning).get("thinking") == expected


def test_an_effort_goes_to_models_that_take_one() -> None:
    low = ReasoningOptions("minimal")
    assert body(HI, model="claude-opus-4-6", reasoning=low)["output_config"] == {"effort": "low"}
    assert "output_config" not in body(HI, model="claude-sonnet-4-5", reasoning=low)


def test_a_budget_leaves_room_for_the_answer_or_is_left_out() -> None:
    high = ReasoningOptions("high")
    assert body(HI, reasoning=high, max_tokens=4096)["thinking"]["budget_tokens"] == 2048
    assert "thinking" not in body(HI, reasoning=high, max_tokens=1000)


def test_nobody_thinks_beside_a_forced_call_or_amid_calls_made_without_thinking() -> None:
    low = ReasoningOptions("low")
    forced = Request(
        "claude-x",
        messages=[HI],
        tools=[WEATHER],
        tool_choice=ToolChoice("required"),
        reasoning=low,
    )
    assert "thinking" not in API.write_request(forced)
    assert API.omitted_fields(forced) == ["reasoning"]
    result = ToolResult("toolu_1", "weather", "Rain")
    thought = AssistantMessage(content=[Thinking("hm", "s"), CALL])
    assert "thinking" not in body(HI, AssistantMessage(content=[CALL]), result, reasoning=low)
    assert "thinking" in body(HI, thought, result, reasoning=low)


def test_sampling_is_what_the_api_takes() -> None:
    assert body(HI, temperature=1.5, top_p=0.5)["temperature"] == 1.0
    assert "top_p" not in body(HI, temperature=0.5, top_p=0.5)
    assert body(HI, top_p=0.5)["top_p"] == 0.5
    assert "temperature" not in body(HI, temperature=0.5, reasoning=ReasoningOptions("low"))


def test_what_has_no_place_is_named() -> None:
    request = Request(
        "claude-x",
        messages=[HI],
        seed=1,
        n=2,
        presence_penalty=0.1,
        tool_choice=ToolChoice("auto"),
        response_format=ResponseFormat("json"),
        metadata={"a": "b"},
    )
    named = ["seed", "presence_penalty", "n", "tool_choice", "response_format", "metadata"]
    assert API.omitted_fields(request) == named


def test_a_choice_of_a_tool_that_is_not_there_is_named() -> None:
    request = Request(
        "claude-x",
        messages=[HI],
        tools=[WEATHER],
        tool_choice=ToolChoice("tool", "other"),
        parallel_tool_calls=False,
    )
    assert API.omitted_fields(request) == ["tool_choice"]


def test_a_user_who_begins_without_a_word_still_begins() -> None:
    answer = AssistantMessage(content=[Text("Yes?")])
    first, second = turns(UserMessage(), answer)
    assert first["role"] == "user"
    assert first["content"]
    assert second == assistant(said("Yes?")) | {"content": "Yes?"}
    assert len(turns(UserMessage([Text(" ")]))) == 1


def test_stops_of_white_space_are_left_out() -> None:
    assert body(HI, stop=["\n", "END"])["stop_sequences"] == ["END"]


def test_halves_of_surrogate_pairs_are_left_out_everywhere() -> None:
    call = ToolCall("t", "f", {"\ud83dk": ["a\udc00", "\\ud83d", "\ud83d\ude00"]})
    result = ToolResult("t", "f", "x\ud800")
    calls, answers = turns(AssistantMessage(content=[call]), result, system="é\udfff")
    assert calls["content"][0]["input"] == {"k": ["a", "\\ud83d", "😀"]}
    assert answers["content"][0]["content"] == "x"


# --- there and back ---

WORDS = st.text(min_size=1, max_size=12).filter(lambda text: text.strip() != "")
IDS = st.from_regex(r"[a-zA-Z0-9_-]{1,12}", fullmatch=True)
IMAGES = st.builds(Image, st.just("image/png"), st.just("aGk=")) | st.builds(
    Image, url=st.just("https://e/a")
)
DOCUMENTS = st.builds(lambda text: Opaque("anthropic", {"type": "document", "title": text}), WORDS)
USERS = st.builds(
    UserMessage, st.lists(st.builds(Text, WORDS) | IMAGES | DOCUMENTS, min_size=1, max_size=3)
)
SPEECH = st.builds(Text, WORDS) | st.builds(Thinking, WORDS, IDS)


@st.composite
def exchanges(draw: st.DrawFn, number: int) -> list[Message]:
    """What a user says, what the assistant answers, and what its calls give back."""
    content: list[Content] = draw(st.lists(SPEECH, min_size=1, max_size=2))
    calls = [
        ToolCall(f"id_{number}_{place}", draw(NAMES), draw(ARGUMENTS))
        for place in range(draw(st.integers(0, 2)))
    ]
    results = [ToolResult(c.id, c.name, draw(WORDS), draw(st.booleans())) for c in calls]
    return [draw(USERS), AssistantMessage(content=[*content, *calls]), *results]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """A request that the API has words for."""
    messages: list[Message] = []
    for number in range(draw(st.integers(0, 3))):
        messages += draw(exchanges(number))
        if isinstance(messages[-1], ToolResult):
            messages.append(AssistantMessage(content=[Text(draw(WORDS))]))
    tools = draw(
        st.lists(st.builds(Tool, NAMES, WORDS, st.just(SCHEMA)), unique_by=lambda t: t.name)
    )
    modes = st.sampled_from([ToolChoice("auto"), ToolChoice("none")])
    is_stream = draw(st.booleans())
    efforts = st.sampled_from(["", "low", "max"])
    return Request(
        model=draw(WORDS),
        system=draw(st.just("") | WORDS),
        messages=[*messages, draw(USERS)],
        tools=tools,
        tool_choice=draw(st.none() | modes) if tools else None,
        max_tokens=draw(st.integers(1, 99_999)),
        temperature=draw(st.none() | st.floats(0, 1)),
        top_p=draw(st.none() | st.floats(0, 1)),
        top_k=draw(st.none() | st.integers(0, 99)),
        stop=draw(st.lists(WORDS, max_size=2)),
        response_format=draw(st.none() | st.just(ResponseFormat("schema", SCHEMA))),
        reasoning=draw(
            st.none() | st.builds(ReasoningOptions, efforts, st.none() | st.integers(1024))
        ),
        stream=is_stream,
        include_usage=is_stream,
        user=draw(st.just("") | WORDS),
        source="anthropic",
        extra=draw(
            st.just({}) | st.just({"context_management": {}, "tools": [{"type": "bash_9"}]})
        ),
    )


@given(requests())
@settings(max_examples=60)
def test_a_request_is_read_as_it_was_written(request: Request) -> None:
    back = API.read_request(API.write_request(request))
    back.raw = None
    assert back == request
