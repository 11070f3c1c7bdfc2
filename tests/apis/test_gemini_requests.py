"""What Gemini's clients ask, both ways: turns, tools, and how to answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws.strategies import ARGUMENTS, JSON_VALUES, NAMES, TEXT
from penstock import UsageError, apis
from penstock.apis.gemini.read_request import fits
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult
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

API = apis.get("gemini")
PLAIN = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
STANDARD = {"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}, "$defs": {"b": {}}}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def messages_of(*contents: Any) -> list[Message]:
    return API.read_request({"contents": list(contents)}).messages


def contents_of(*messages: Message, name: str = "", source: str = "") -> list[dict[str, Any]]:
    contents = API.write_request(Request(name, messages=[*messages], source=source))["contents"]
    assert isinstance(contents, list)
    return contents


# --- round trips ---


SIGNATURES = st.sampled_from(["", "AAEC", "+/8="])
TURN = st.builds(
    lambda thought, text, signature, name, arguments, results: [
        AssistantMessage(
            content=[
                *([Thinking(thought, "AAEC")] if thought else []),
                *([Text(text, signature)] if text else []),
                ToolCall("c1", name, arguments, signature=signature),
                ToolCall("c2", name, {}),
                Opaque("gemini", {"executableCode": {"code": "1"}}),
            ]
        ),
        ToolResult("c1", name, results[0]),
        ToolResult("c2", name, results[1], is_error=True),
    ],
    TEXT,
    TEXT,
    SIGNATURES,
    NAMES,
    ARGUMENTS,
    st.tuples(TEXT | JSON_VALUES, TEXT | ARGUMENTS),
)
USER = st.builds(
    lambda text, rest: UserMessage([*([Text(text)] if text else []), *rest]),
    TEXT,
    st.lists(
        st.sampled_from(
            [
                Image("image/png", "aGk="),
                Image("image/webp", url="https://e.test/a.webp", detail="low"),
                Opaque("gemini", {"fileData": {"fileUri": "https://youtu.be/x"}}),
                Text("more"),
            ]
        ),
        min_size=1,
        max_size=3,
    ),
)
CHOICES = st.sampled_from(
    [None, ToolChoice("auto"), ToolChoice("none"), ToolChoice("required"), ToolChoice("tool", "f")]
)
REQUESTS = st.builds(
    Request,
    system=TEXT,
    messages=st.tuples(st.lists(USER, min_size=1, max_size=2), TURN, USER).map(
        lambda parts: [*parts[0], *parts[1], parts[2]]
    ),
    tools=st.sampled_from([[], [Tool("f", "d", PLAIN), Tool("g", "", STANDARD), Tool("h")]]),
    tool_choice=CHOICES,
    max_tokens=st.none() | st.integers(1, 99),
    temperature=st.none() | st.floats(0, 2),
    top_p=st.none() | st.floats(0, 1),
    top_k=st.none() | st.integers(1, 40),
    seed=st.none() | st.integers(0, 9),
    presence_penalty=st.none() | st.floats(0, 1),
    frequency_penalty=st.none() | st.floats(0, 1),
    stop=st.lists(TEXT, max_size=2),
    n=st.none() | st.integers(1, 3),
    response_format=st.sampled_from(
        [
            None,
            ResponseFormat("text"),
            ResponseFormat("json"),
            ResponseFormat("schema", PLAIN),
            ResponseFormat("schema", STANDARD),
        ]
    ),
    reasoning=st.sampled_from(
        [
            None,
            ReasoningOptions("low"),
            ReasoningOptions("high", summary="auto"),
            ReasoningOptions(budget=0),
            ReasoningOptions(budget=512, summary="auto"),
            ReasoningOptions(summary="auto"),
        ]
    ),
    include_usage=st.just(True),
    source=st.just("gemini"),
    extra=st.just(
        {
            "safetySettings": [{"category": "x"}],
            "cachedContent": "c",
            "generationConfig": {"responseModalities": ["TEXT"]},
            "tools": [{"googleSearch": {}}],
            "toolConfig": {"retrievalConfig": {"languageCode": "de"}},
        }
    ),
)


@given(request=REQUESTS)
def test_a_request_reads_back_as_it_was_written(request: Request) -> None:
    found = API.read_request(json.loads(json.dumps(API.write_request(request))))
    found.raw = None
    assert found == request


# --- turns ---


def test_names_may_be_written_with_underscores() -> None:
    request = API.read_request(
        {
            "model": "models/gemini-x",
            "system_instruction": {"parts": [{"text": "Be brief."}]},
            "contents": [
                user({"inline_data": {"mime_type": "image/png", "data": "_-8="}}),
                model({"function_call": {"name": "f"}, "thought_signature": "_-8="}),
                user({"function_response": {"name": "f", "response": {"output": "x"}}}),
            ],
            "tools": [{"function_declarations": [{"name": "f"}], "code_execution": {}}],
            "tool_config": {"function_calling_config": {"mode": "any"}},
            "generation_config": {"max_output_tokens": 9, "top_p": 0.5},
            "stream": True,
        }
    )
    assert request.messages == [
        UserMessage([Image("image/png", "/+8=")]),
        AssistantMessage(content=[ToolCall("call_1", "f", signature="/+8=")]),
        ToolResult("call_1", "f", "x"),
    ]
    assert (request.model, request.system, request.stream) == ("gemini-x", "Be brief.", True)
    assert (request.max_tokens, request.top_p) == (9, 0.5)
    assert request.tool_choice == ToolChoice("required")
    assert request.tools == [Tool("f")]
    assert request.extra == {"tools": [{"codeExecution": {}}]}


HI = {"text": "Hi"}


@pytest.mark.parametrize(
    "contents", ["Hi", ["Hi"], {"parts": [HI]}, [{"parts": HI}], [{"parts": ["Hi", 1]}], [HI]]
)
def test_a_turn_may_be_written_shortly(contents: Any) -> None:
    assert API.read_request({"contents": contents}).messages == [UserMessage([Text("Hi")])]


def test_the_chunks_of_an_answer_are_one_message() -> None:
    answer = [
        model({"text": "Let ", "thought": True}),
        model({"text": "me see", "thought": True, "thoughtSignature": "AAEC"}),
        model({"text": "He"}),
        model({"text": "llo"}),
        model({"text": "", "thoughtSignature": "+/8="}),
        model({"text": ""}),
        model({"functionCall": {"name": "f"}}),
        model({"text": ""}),
    ]
    assert messages_of(user({"text": "Hi"}), *answer)[1:] == [
        AssistantMessage(
            content=[Thinking("Let me see", "AAEC"), Text("Hello", "+/8="), ToolCall("call_1", "f")]
        )
    ]


def test_results_answer_the_calls_of_their_id_or_else_of_their_name_in_order() -> None:
    calls = [
        {"functionCall": {"name": "f", "id": "x"}},
        {"functionCall": {"name": "g"}},
        {"functionCall": {"name": "f", "id": "x"}},
        {"functionCall": {"name": "g"}},
    ]
    results = [
        {"functionResponse": {"name": "g", "response": {"result": 1}}},
        {"functionResponse": {"name": "f", "id": "x", "response": {"result": 2}}},
        {"functionResponse": {"name": "g", "response": {"a": 3, "b": 4}}},
        {"functionResponse": {"name": "f", "id": "x", "response": {"error": "no"}}},
        {"functionResponse": {"name": "k", "response": {}}},
        {"text": "So?"},
    ]
    answer, *found, said = messages_of(model(*calls), user(*results))
    assert isinstance(answer, AssistantMessage)
    one, two, three, four = [call.id for call in answer.tool_calls]
    assert len({one, two, three, four}) == 4
    assert found == [
        ToolResult(two, "g", 1),
        ToolResult(one, "f", 2),
        ToolResult(four, "g", {"a": 3, "b": 4}),
        ToolResult(three, "f", "no", is_error=True),
        ToolResult("k", "k", {}),
    ]
    assert said == UserMessage([Text("So?")])


def test_results_of_parallel_calls_are_one_turn_and_missing_ones_are_made() -> None:
    calls = AssistantMessage(content=[ToolCall("a", "f"), ToolCall("b", "g")])
    _, results = contents_of(calls, ToolResult("b", "g", "two"))
    assert [part["functionResponse"] for part in results["parts"]] == [
        {"id": "a", "name": "f", "response": {"error": "No result provided"}},
        {"id": "b", "name": "g", "response": {"output": "two"}},
    ]


@pytest.mark.parametrize(
    ("name", "roles"),
    [("gemini-3-pro", ["model", "user"]), ("gemini-2.5-pro", ["model", "user", "user"])],
)
def test_pictures_of_a_tool_go_where_the_model_can_see_them(name: str, roles: list[str]) -> None:
    picture = Image(data="iVBORw==")
    call = AssistantMessage(content=[ToolCall("a", "f", signature="AAEC")])
    contents = contents_of(call, ToolResult("a", "f", [Text("See"), picture]), name=name)
    assert [content["role"] for content in contents] == roles
    written = {"inlineData": {"mimeType": "image/png", "data": "iVBORw=="}}
    function = contents[1]["parts"][0]["functionResponse"]
    assert function["response"] == {"output": "See"}
    assert written in (function.get("parts") or contents[-1]["parts"])
    if name == "gemini-3-pro":
        (_, result) = messages_of(*contents)
        assert result == ToolResult("a", "f", [Text("See"), Image("image/png", "iVBORw==")])


def test_a_picture_whose_type_is_not_known_gets_one() -> None:
    pictures = [Image(url="https://e.test/a.JPG?x=1"), Image(data="UklGRg"), Image(data="xx")]
    (content,) = contents_of(UserMessage([*pictures]))
    kinds = [next(iter(part.values()))["mimeType"] for part in content["parts"]]
    assert kinds == ["image/jpeg", "image/webp", "image/png"]


def test_turns_that_say_nothing_are_left_out() -> None:
    nothing: list[Message] = [UserMessage(), AssistantMessage(), SystemMessage("")]
    assert contents_of(*nothing, SystemMessage("Mind."), UserMessage([Text("")])) == [
        user({"text": "Mind."})
    ]


def test_signatures_go_back_to_the_model_that_made_them_alone() -> None:
    message = AssistantMessage(
        "",
        "gemini-2.5-pro",
        [Thinking("Hm", "AAEC"), Text("Hi", "AAEC"), ToolCall("a", "f", signature="AAEC")],
        "tool_use",
    )
    own, _ = contents_of(message, name="gemini-2.5-pro")
    assert [part["thoughtSignature"] for part in own["parts"]] == ["AAEC"] * 3
    other, _ = contents_of(message, name="gemini-2.0-flash")
    assert other["parts"] == [
        {"text": "Hm"},
        {"text": "Hi"},
        {"functionCall": {"id": "a", "name": "f", "args": {}}},
    ]


def test_what_is_no_signature_of_this_api_is_not_sent() -> None:
    thought = AssistantMessage(content=[Thinking("Hm", '{"type":"reasoning"}'), Text("a\ud800")])
    (content,) = contents_of(thought)
    assert content["parts"] == [{"text": "Hm", "thought": True}, {"text": "a"}]


def test_a_call_of_another_model_passes_a_model_that_wants_signatures() -> None:
    message = AssistantMessage("", "claude", [ToolCall("a", "f"), ToolCall("b", "g")])
    contents = contents_of(message, name="gemini-3-flash")
    signatures = [part.get("thoughtSignature") for part in contents[0]["parts"]]
    assert signatures == ["skip_thought_signature_validator", None]
    answer = messages_of(*contents)[0]
    assert isinstance(answer, AssistantMessage)
    assert [call.signature for call in answer.tool_calls] == ["", ""]


# --- tools and how to answer ---


@pytest.mark.parametrize(
    ("schema", "is_plain"),
    [
        (PLAIN, True),
        ({"type": "object", "properties": {"a": {"type": "array", "items": PLAIN}}}, True),
        ({"type": "object", "properties": {"a": {"anyOf": [{"type": "null"}, PLAIN]}}}, True),
        ({"type": "object", "properties": {"a": {"type": "string", "enum": ["b"]}}}, True),
        ({"type": "object", "properties": {"a": {"type": "integer", "format": "int32"}}}, True),
        (STANDARD, False),
        ({**PLAIN, "additionalProperties": False}, False),
        ({"type": "object", "properties": {}}, False),
        ({"type": "string"}, False),
        ({"type": "object", "properties": {"a": True}}, False),
        ({"type": "object", "properties": {"a": {}}}, False),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}, False),
        ({"type": "object", "properties": {"a": {"type": "integer", "enum": [1]}}}, False),
        ({"type": "object", "properties": {"a": {"type": "string", "format": "uri"}}}, False),
        ({"type": "object", "properties": {"a": {"type": "array"}}}, False),
    ],
)
def test_a_schema_goes_where_all_of_it_can_be_said(schema: dict[str, Any], is_plain: bool) -> None:  # noqa: FBT001
    assert fits(schema) is is_plain
    (written,) = API.write_request(Request(tools=[Tool("f", "", schema)]))["tools"]
    (declared,) = written["functionDeclarations"]
    assert ("parameters" in declared, "parametersJsonSchema" in declared) == (
        is_plain,
        not is_plain,
    )
    assert API.read_request({"contents": [], "tools": [written]}).tools == [Tool("f", "", schema)]
    if is_plain:
        assert declared["parameters"]["type"] == "OBJECT"


def test_a_schema_that_nests_without_end_is_not_followed() -> None:
    schema: dict[str, Any] = dict(PLAIN)
    for _ in range(40):
        schema = {"type": "object", "properties": {"a": schema}}
    assert not fits(schema)


@pytest.mark.parametrize(
    ("calling", "choice"),
    [
        ({"mode": "VALIDATED", "allowedFunctionNames": ["f"]}, ToolChoice("auto")),
        ({"mode": "ANY", "allowedFunctionNames": ["f", "g"]}, ToolChoice("required")),
        ({"mode": "AUTO", "streamFunctionCallArguments": True}, ToolChoice("auto")),
        ({"mode": "ANY", "allowedFunctionNames": ["f"]}, ToolChoice("tool", "f")),
        ({"mode": "MODE_UNSPECIFIED"}, None),
    ],
)
def test_a_choice_that_we_have_no_word_for_stays_the_clients(
    calling: dict[str, Any], choice: ToolChoice | None
) -> None:
    body = {"contents": [], "toolConfig": {"functionCallingConfig": calling}}
    request = API.read_request(body)
    assert request.tool_choice == choice
    written = API.write_request(request)
    assert written.get("toolConfig", {}) == (body["toolConfig"] if choice else {})
    request.tool_choice = ToolChoice("none")
    changed = API.write_request(request)["toolConfig"]["functionCallingConfig"]
    assert changed["mode"] == "NONE"
    assert "allowedFunctionNames" not in changed


@pytest.mark.parametrize(
    ("name", "wanted", "written"),
    [
        ("gemini-3-pro", ReasoningOptions("high"), {"thinkingLevel": "HIGH"}),
        ("gemini-3-pro", ReasoningOptions("minimal"), {"thinkingLevel": "LOW"}),
        ("gemini-3-flash", ReasoningOptions("none"), {"thinkingLevel": "MINIMAL"}),
        ("gemini-2.5-flash", ReasoningOptions("none"), {"thinkingBudget": 0}),
        ("gemini-2.5-pro", ReasoningOptions("none"), {"thinkingBudget": 128}),
        ("gemini-2.5-flash", ReasoningOptions("medium"), {"thinkingBudget": 8192}),
        ("gemini-3-pro", ReasoningOptions("low", 512), {"thinkingBudget": 512}),
        ("", ReasoningOptions("max"), {"thinkingLevel": "HIGH"}),
    ],
)
def test_effort_is_said_in_the_words_of_the_model(
    name: str, wanted: ReasoningOptions, written: dict[str, Any]
) -> None:
    shown = {} if wanted.effort == "none" else {"includeThoughts": True}
    config = API.write_request(Request(name, reasoning=wanted))["generationConfig"]
    assert config["thinkingConfig"] == {**written, **shown}


def test_a_budget_that_is_the_models_choice_stays_the_clients() -> None:
    config = {"thinkingConfig": {"thinkingBudget": -1, "includeThoughts": True}}
    request = API.read_request({"contents": [], "generationConfig": config})
    assert request.reasoning == ReasoningOptions(summary="auto")
    assert API.write_request(request)["generationConfig"] == config


def test_a_format_that_we_have_no_word_for_stays_the_clients() -> None:
    config = {"responseMimeType": "text/x.enum", "responseSchema": {"type": "STRING"}}
    request = API.read_request({"contents": [], "generationConfig": config})
    assert request.response_format is None
    assert API.write_request(request)["generationConfig"] == config


def test_no_choice_is_made_among_tools_that_are_not_there() -> None:
    request = Request("m", tool_choice=ToolChoice("tool", "web_search"), source="anthropic")
    assert API.write_request(request) == {"contents": []}
    assert API.omitted_fields(request) == ["tool_choice"]
    request.tools, request.tool_choice = [Tool("f")], ToolChoice("tool", "f")
    config = API.write_request(request)["toolConfig"]["functionCallingConfig"]
    assert config == {"mode": "ANY", "allowedFunctionNames": ["f"]}


def test_a_user_who_begins_without_a_word_still_begins() -> None:
    answer = AssistantMessage(content=[Text("Yes?")])
    first, second = contents_of(UserMessage(), answer)
    assert first["role"] == "user"
    assert first["parts"][0]["text"]
    assert second == model({"text": "Yes?"})
    assert len(contents_of(UserMessage([Text("")]))) == 1


def test_what_the_api_has_no_word_for_is_named() -> None:
    request = Request("m", parallel_tool_calls=False, user="u", extra={"logit_bias": {}})
    assert API.omitted_fields(request) == ["parallel_tool_calls", "user", "logit_bias"]
    assert API.omitted_fields(API.read_request({"contents": [], "labels": {"a": "b"}})) == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"contents": 1},
        {"contents": [1]},
        {"contents": [{"role": "x", "parts": []}]},
        {"contents": [], "generationConfig": {"temperature": "hot"}},
    ],
)
def test_what_is_no_request_is_refused(body: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        API.read_request(body)


@given(
    body=st.fixed_dictionaries(
        {"contents": st.lists(st.fixed_dictionaries({"parts": JSON_VALUES}), max_size=2)},
        optional=dict.fromkeys(("systemInstruction", "tools", "toolConfig", "labels"), JSON_VALUES),
    )
)
def test_odd_fields_never_break_the_reader(body: dict[str, Any]) -> None:
    API.write_request(API.read_request(body))
