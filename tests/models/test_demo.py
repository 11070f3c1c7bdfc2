"""The scripted model: what it says, how it calls, and how it streams."""

from __future__ import annotations

import ast
import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_monotone
from models.upstreams import TOOLS, answer_of, asking, events_of
from penstock import DemoModel, Request, Tool, ToolCall, ToolMiddleware, UsageError, formats
from penstock.events import Event, TextDelta, ToolCallDelta
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.models.demo import choose_tool, find_tools, make_arguments
from penstock.request import Message, ResponseFormat, ToolChoice, UserMessage
from penstock.values.schema import Schema

pytestmark = pytest.mark.virtual_time


def tool(name: str, description: str = "", /, **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return Tool(name, description, schema)


# --- talk ---


def test_it_says_that_it_is_scripted() -> None:
    answer = answer_of(DemoModel(), asking("Hello there", tools=[]))
    assert "scripted" in answer.text
    assert "Hello there" in answer.text
    assert answer.model == "penstock-demo"
    assert answer.stop_reason == "stop"


def test_the_same_request_gets_the_same_events() -> None:
    request = asking("Weather in Oslo?")
    assert events_of(DemoModel(), request) == events_of(DemoModel(), request)
    assert answer_of(DemoModel(), request).id != answer_of(DemoModel(), asking("Else?")).id


def test_words_that_fit_no_tool_call_none() -> None:
    answer = answer_of(DemoModel("native"), asking("Sing a song!"))
    assert answer.tool_calls == []
    assert "get_weather, take_note" in answer.text


def test_a_request_without_words_is_answered_too() -> None:
    assert "scripted" in answer_of(DemoModel(), Request()).text


# --- streams ---


def test_text_comes_in_pieces_of_about_a_token_at_the_pace_that_was_set() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    model = DemoModel(pace=0.02, sleep=sleep)
    deltas = [e for e in events_of(model, asking("Hi")) if isinstance(e, TextDelta)]
    assert waited == [0.02] * len(deltas)
    assert max(len(delta.text) for delta in deltas) <= 6
    assert len(deltas) > 20


async def test_the_pace_is_that_of_the_clock() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    async for _ in DemoModel(pace=0.5).stream(asking("Hi")):
        pass
    assert (loop.time() - began) > 10  # of virtual time


def test_a_pace_below_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="0 or more seconds"):
        DemoModel(pace=-1)
    with pytest.raises(UsageError, match="unknown format"):
        DemoModel("nonsense")


def test_the_limit_and_stop_strings_are_kept() -> None:
    cut = answer_of(DemoModel(), asking("Hi", max_tokens=3))
    assert cut.stop_reason == "length"
    assert cut.usage.output == 3
    stopped = answer_of(DemoModel(), asking("Hi", stop=["scripted"]))
    assert stopped.text == "I am penstock-demo, a "
    assert stopped.stop_reason == "stop"


def test_usage_is_counted() -> None:
    usage = answer_of(DemoModel(), asking("Hi")).usage
    assert usage.input > 0
    assert usage.total == usage.input + usage.output


# --- calls ---


def test_native_calls_come_as_events() -> None:
    events = events_of(DemoModel("native"), asking("Weather in Paris?"))
    check_monotone(events)
    arguments = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta))
    assert arguments == '{"city":"Paris"}'


@pytest.mark.parametrize("name", ["hermes", "morph_xml", "llama3_json", "qwen3_coder", "pythonic"])
def test_a_call_is_text_of_the_chosen_format(name: str) -> None:
    answer = answer_of(DemoModel(name), asking("Weather in Paris?"))
    assert answer.tool_calls == []
    written = formats.get(name).render_call(ToolCall("call_1", "get_weather", {"city": "Paris"}))
    assert written in answer.text


def test_a_call_that_the_format_cannot_write_is_told_in_words() -> None:
    answer = answer_of(DemoModel("file_tags"), asking("Weather in Paris?"))
    assert "I cannot write a call of get_weather in file_tags" in answer.text


def test_a_result_is_told_back() -> None:
    request = asking("Weather in Paris?")
    model = DemoModel("native")
    called = answer_of(model, request)
    request.messages += [called, ToolResult(called.tool_calls[0].id, "", {"sky": "blue"})]
    assert 'get_weather says: {"sky":"blue"}' in answer_of(model, request).text


def test_two_results_are_told_back_in_their_order() -> None:
    calls = [ToolCall("a", "get_weather", {"city": "x"}), ToolCall("b", "take_note", {"text": "y"})]
    messages: list[Message] = [
        UserMessage([Text("Both!")]),
        AssistantMessage(content=[*calls]),
        ToolResult("a", "get_weather", "sunny"),
        ToolResult("b", "take_note", "kept"),
    ]
    for model in (DemoModel("native"), ToolMiddleware(DemoModel("hermes"))):
        answer = answer_of(model, Request(messages=list(messages), tools=TOOLS))
        assert answer.text.startswith("get_weather says: sunny\ntake_note says: kept\n")


def test_a_choice_is_obeyed() -> None:
    none = answer_of(DemoModel("native"), asking(tool_choice=ToolChoice("none")))
    assert none.tool_calls == []
    named = asking("Weather?", tool_choice=ToolChoice("tool", "take_note"))
    assert [c.name for c in answer_of(DemoModel("native"), named).tool_calls] == ["take_note"]
    required = asking("Hm.", tool_choice=ToolChoice("required"))
    assert answer_of(DemoModel("native"), required).tool_calls


def test_json_is_answered_where_a_schema_is_asked_for() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    request = asking("Count to 7", response_format=ResponseFormat("schema", schema))
    assert answer_of(DemoModel(), request).text == '{"n":7}'


# --- tools in a prompt ---


@pytest.mark.parametrize("name", [n for n in formats.names() if n != "none"])
def test_tools_are_found_in_the_prompt_of_any_format(name: str) -> None:
    assert find_tools("Be kind.\n\n" + formats.get(name).render_tools(TOOLS)) == TOOLS


@pytest.mark.parametrize("system", ["", "{" * 5000, "[" * 100_000, '{"a": 1} [2] {"name": 3}'])
def test_a_prompt_without_tools_has_none(system: str) -> None:
    assert find_tools(system) == []


# --- words ---


@pytest.mark.parametrize(
    ("words", "schema", "expected"),
    [
        ("weather in New York", {"city": {"type": "string"}}, {"city": "New York"}),
        ("add 3 and 4.5", {"a": {"type": "integer"}, "b": {"type": "number"}}, {"a": 3, "b": 4.5}),
        ("read src/main.py", {"path": {"type": "string"}}, {"path": "src/main.py"}),
        ('note "buy milk"', {"text": {"type": "string"}}, {"text": "buy milk"}),
        ("anything", {"unit": {"enum": ["celsius", "kelvin"]}}, {"unit": "celsius"}),
        ("run something", {"command": {"type": "string"}}, {"command": "echo 'Hello, world!'"}),
        ("run something", {"command": {"type": "integer"}}, {"command": 1}),
    ],
)  # fmt: skip
def test_arguments_are_made_from_the_words(
    words: str, schema: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert make_arguments(tool("t", **schema), words) == expected


def test_what_the_words_do_not_say_is_filled_in_only_where_it_is_required() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    assert make_arguments(Tool("t", "", schema), "nothing") == {}
    needed = make_arguments(Tool("t", "", {**schema, "required": ["b"]}), "nothing")
    assert needed == {"b": 1}


def test_the_tool_is_picked_whose_words_are_nearest() -> None:
    tools = [tool("read_file", "Reads a file"), tool("search_web", "Searches the internet")]
    assert choose_tool("search the internet for penstocks", tools) == tools[1]
    assert choose_tool("read the file", tools) == tools[0]
    assert choose_tool("hm", tools) is None
    assert choose_tool("hm", tools, must=True) == tools[0]
    assert choose_tool("hm", [], must=True) is None


PATH_AND_CONTENT = {"path": {"type": "string"}, "content": {"type": "string"}}


def test_a_file_gets_content_that_fits_its_name() -> None:
    def content(words: str) -> str:
        return str(make_arguments(tool("write_file", **PATH_AND_CONTENT), words)["content"])

    ast.parse(content("write a file hello.py"))
    for name in ("a.py", "a.sh", "a.txt", "a.odd"):
        assert "script wrote" in content(f"write a file {name}")
    assert content('write a file a.py with "pass"') == "pass"


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"},
            {"enum": ["red", "green"]}, {"type": "integer", "minimum": 5, "examples": [6]}, {},
        ]
    ),
    lambda inner: st.builds(lambda item: {"type": "array", "items": item}, inner)
    | st.builds(
        lambda item: {"type": "object", "properties": {"x": item}, "required": ["x"]}, inner
    ),
    max_leaves=3,
)  # fmt: skip


@given(words=st.text(max_size=60) | st.sampled_from(['Say "x" 3 times in Oslo']), schema=SCHEMAS)
@settings(max_examples=80)
def test_any_words_make_arguments_that_the_schema_accepts(words: str, schema: Any) -> None:
    made = tool("t", value=schema)
    assert Schema(made.parameters).accepts(make_arguments(made, words))


@given(words=st.text(max_size=80), name=st.sampled_from(["native", "hermes", "gemma"]))
@settings(max_examples=40)
def test_whatever_is_said_the_events_are_lawful(words: str, name: str) -> None:
    events: list[Event] = events_of(DemoModel(name), asking(words))
    check_monotone(events)
    assert events[-1].type == "done"
