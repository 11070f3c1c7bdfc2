"""The formats that write calls in Python: what they render."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import check_round_trip
from laws.strategies import ANY_TEXT, JSON_VALUES, NAMES
from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.pythonic import FORMATS
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool

Mode = Literal["whole", "live"]

BY_NAME = {fmt.name: fmt for fmt in FORMATS}

any_format = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("pythonic", """[f(a="it's", b=True, c={"d": [1, None]})]"""),
        (
            "llama4_pythonic",
            """<|python_start|>[f(a="it's", b=True, c={"d": [1, None]})]<|python_end|>""",
        ),
        (
            "olmo3",
            """<function_calls>f(a="it's", b=true, c={"d": [1, null]})</function_calls>""",
        ),
        (
            "lfm2",
            r"""<|tool_call_start|>[f(a='it\'s', b=True, c={'d': [1, None]})]<|tool_call_end|>""",
        ),
    ],
)
def test_a_call_is_written_as_its_models_write_it(name: str, written: str) -> None:
    call = ToolCall("", "f", {"a": "it's", "b": True, "c": {"d": [1, None]}})
    assert BY_NAME[name].render_call(call) == written


@given(
    fmt=st.sampled_from(FORMATS),
    name=NAMES,
    arguments=st.dictionaries(NAMES | ANY_TEXT, JSON_VALUES | ANY_TEXT, max_size=3),
)
def test_what_can_be_written_reads_back(fmt: Format, name: str, arguments: dict[str, Any]) -> None:
    def read_back(text: str) -> ToolCall:
        message = fmt.parse(text, [Tool(name)])
        assert message.text == ""
        (call,) = message.tool_calls
        return call

    call = ToolCall("call_1", name, arguments)
    check_round_trip(fmt.render_call, read_back, call)


@any_format
def test_what_no_call_in_python_can_say_is_refused(fmt: Format) -> None:
    for name, arguments in (
        ("a tool", {}),
        ("f", {"a key": 1}),
        ("f", {"": 1}),
        ("f", {"a=1, b": 1}),
        ("f", {"a": float("nan")}),
        ("f", {"a": "\ud83d\ude00"}),
        ("n" * 300, {}),
    ):
        with pytest.raises(UsageError):
            fmt.render_call(ToolCall("", name, arguments))


@any_format
def test_strings_full_of_markup_read_back(fmt: Format) -> None:
    text = "</function_calls><|tool_call_end|>]) ''' \"\"\" \\' \\n \r\n\t\x00 \u2028 # 日本 😀"
    (call,) = fmt.parse(fmt.render_call(ToolCall("", "f", {"a": text})), [Tool("f")]).tool_calls
    assert call.arguments == {"a": text}


@any_format
def test_the_prompt_shows_a_call_that_reads_back(fmt: Format) -> None:
    tool = Tool("tide_at", "", {"properties": {"port": {"type": "string"}}, "required": ["port"]})
    prompt = fmt.render_tools([tool])
    example = fmt.render_call(ToolCall("", "tide_at", {"port": "some text"}))
    assert f"\n\n{example}\n\n" in prompt


def test_a_result_is_text_or_json_in_the_markers_that_its_models_know() -> None:
    rendered = {
        fmt.name: (
            fmt.render_result(ToolResult("", "f", "4 m")),
            fmt.render_result(ToolResult("", "f", {"tide": 4})),
        )
        for fmt in FORMATS
    }
    marked = "<|tool_response_start|>{}<|tool_response_end|>"
    assert rendered["lfm2"] == (marked.format("4 m"), marked.format('{"tide": 4}'))
    for name in ("pythonic", "llama4_pythonic", "olmo3"):
        assert rendered[name] == ("4 m", '{"tide": 4}')


@any_format
def test_reasoning_before_a_call_is_reasoning(fmt: Format) -> None:
    text = f"<think>[f()]</think>\n{fmt.render_call(ToolCall('', 'f', {}))}"
    message = fmt.parse(text, [Tool("f")])
    assert message.thinking == "[f()]"
    assert [call.name for call in message.tool_calls] == ["f"]
