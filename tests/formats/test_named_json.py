"""The formats with the name outside and JSON inside: what they render."""

# ruff: noqa: RUF001 - DeepSeek writes a wide bar
from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from laws import check_round_trip
from laws.strategies import ANY_TEXT, JSON_VALUES, NAMES
from penstock.errors import UsageError
from penstock.formats.base import Format
from penstock.formats.named_json import FORMATS, NamedCalls
from penstock.formats.round_trip import infer_schema
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool

Mode = Literal["whole", "live"]

BY_NAME = {fmt.name: fmt for fmt in FORMATS}

any_format = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("mistral_array", '[TOOL_CALLS][{"name": "f", "arguments": {"a": [1, null]}}]'),
        ("mistral_args", '[TOOL_CALLS]f[ARGS]{"a": [1, null]}'),
        ("magistral", '[TOOL_CALLS]f[ARGS]{"a": [1, null]}'),
        ("mistral_v11", '[TOOL_CALLS]f{"a": [1, null]}'),
        (
            "deepseek_v3",
            (
                "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
                '{"a": [1, null]}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'
            ),
        ),
        (
            "deepseek_v31",
            (
                '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": [1, null]}'
                "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
            ),
        ),
        (
            "kimi_k2",
            (
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
                '<|tool_call_argument_begin|>{"a": [1, null]}<|tool_call_end|>'
                "<|tool_calls_section_end|>"
            ),
        ),
        ("functionary_v3_1", '<function=f>{"a": [1, null]}</function>'),
    ],
)
def test_a_call_is_written_as_its_models_write_it(name: str, written: str) -> None:
    assert BY_NAME[name].render_call(ToolCall("call_1", "f", {"a": [1, None]})) == written


@pytest.mark.parametrize("name", ["mistral_array", "mistral_args", "magistral", "mistral_v11"])
def test_the_ids_that_mistral_takes_are_nine_letters_and_digits(name: str) -> None:
    calls = BY_NAME[name].calls
    assert isinstance(calls, NamedCalls)
    new_id = calls.syntax([]).make_ids()
    assert new_id is not None
    made = [new_id() for _ in range(12)]
    assert len(set(made)) == 12
    assert all(len(id_) == 9 and id_.isalnum() for id_ in made)
    assert made[0] in BY_NAME["mistral_array"].render_call(ToolCall(made[0], "f", {}))


def test_an_id_is_written_only_if_the_models_know_ids_like_it() -> None:
    array, kimi = BY_NAME["mistral_array"], BY_NAME["kimi_k2"]
    assert '"id": "abc123XYZ"' in array.render_call(ToolCall("abc123XYZ", "f"))
    assert '"id"' not in array.render_call(ToolCall("call_12345", "f"))
    assert ">functions.f:7<" in kimi.render_call(ToolCall("functions.f:7", "f"))
    assert ">functions.f:0<" in kimi.render_call(ToolCall("functions.g:7", "f"))


@settings(max_examples=150)
@given(
    fmt=st.sampled_from(FORMATS),
    name=NAMES,
    arguments=st.dictionaries(NAMES | ANY_TEXT, JSON_VALUES | ANY_TEXT, max_size=3),
)
def test_what_can_be_written_reads_back(fmt: Format, name: str, arguments: dict[str, Any]) -> None:
    id_ = f"functions.{name}:0" if fmt.name == "kimi_k2" else "call_1"

    def read_back(text: str) -> ToolCall:
        message = fmt.parse(text, [Tool(name, parameters=infer_schema(arguments))])
        assert message.text == ""
        (call,) = message.tool_calls
        return call if id_ in text else structs.replace(call, id=id_)

    check_round_trip(fmt.render_call, read_back, ToolCall(id_, name, arguments))


@any_format
def test_what_would_not_read_back_is_refused(fmt: Format) -> None:
    for name, arguments in (
        ('f"', {}),
        ("n" * 300, {"a": float("nan")}),
        ("f", {"a": float("nan")}),
        ("f", {"a": "\ud83d\ude00"}),
    ):
        with pytest.raises(UsageError):
            fmt.render_call(ToolCall("", name, arguments))


@any_format
def test_strings_full_of_markup_read_back(fmt: Format) -> None:
    marks = [*fmt.calls.dialect.openers, *fmt.calls.dialect.closers]  # type: ignore[attr-defined]
    text = "".join(marks) + '"}]} ``` \n```\n [ARGS]{ \\" \r\n\t\x00 \u2028 </s> 日本 😀'
    (call,) = fmt.parse(fmt.render_call(ToolCall("", "f", {"a": text})), [Tool("f")]).tool_calls
    assert call.arguments == {"a": text}


@any_format
def test_the_prompt_shows_a_call_that_reads_back(fmt: Format) -> None:
    tool = Tool("tide_at", "", {"properties": {"port": {"type": "string"}}, "required": ["port"]})
    prompt = fmt.render_tools([tool])
    example = fmt.render_call(ToolCall("", "tide_at", {"port": "some text"}))
    assert f"\n\n{example}\n\n" in prompt


def test_a_result_stands_in_the_markers_that_its_models_know() -> None:
    def rendered(id_: str, content: Any) -> dict[str, str]:
        result = ToolResult(id_, "f", content)
        return {fmt.name: fmt.render_result(result) for fmt in FORMATS}

    plain, with_id = rendered("call_1", "4 m"), rendered("abc123XYZ", {"tide": 4})
    assert plain["mistral_array"] == '[TOOL_RESULTS]{"content": "4 m"}[/TOOL_RESULTS]'
    assert with_id["mistral_array"] == (
        '[TOOL_RESULTS]{"content": {"tide": 4}, "call_id": "abc123XYZ"}[/TOOL_RESULTS]'
    )
    assert plain["mistral_v11"] == plain["mistral_args"] == "[TOOL_RESULTS]4 m[/TOOL_RESULTS]"
    assert with_id["mistral_args"] == '[TOOL_RESULTS]{"tide": 4}[/TOOL_RESULTS]'
    assert with_id["mistral_v11"] == (
        '[TOOL_RESULTS]abc123XYZ[TOOL_CONTENT]{"tide": 4}[/TOOL_RESULTS]'
    )
    output = "<｜tool▁output▁begin｜>4 m<｜tool▁output▁end｜>"
    assert plain["deepseek_v31"] == output
    assert plain["deepseek_v3"] == f"<｜tool▁outputs▁begin｜>{output}<｜tool▁outputs▁end｜>"
    assert plain["kimi_k2"] == "## Return of functions.f:0\n4 m"
    assert plain["functionary_v3_1"] == "4 m"


@any_format
def test_a_token_that_ends_the_turn_is_no_content(fmt: Format) -> None:
    call = fmt.render_call(ToolCall("", "f", {}))
    for token in ("<|im_end|>", "<|eom_id|>", "<｜end▁of▁sentence｜>", "</s>"):
        message = fmt.parse(f"Hi.{call}{token}", [Tool("f")])
        assert (message.text, len(message.tool_calls)) == ("Hi.", 1)


@any_format
def test_a_call_inside_reasoning_is_a_call_if_the_format_says_so(fmt: Format) -> None:
    call = fmt.render_call(ToolCall("", "f", {}))
    style = fmt.usual_reasoning
    assert style is not None
    message = fmt.parse(f"{style.starts[0]}So{call}{style.ends[0]}Done.", [Tool("f")])
    is_call = fmt.name in {"kimi_k2", "plamo3"}
    assert len(message.tool_calls) == is_call
    assert message.thinking == ("So" if is_call else f"So{call}")
    assert message.text == "Done."
