"""The formats of the newer Gemma models: what they write reads back."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laws import check_round_trip
from laws.strategies import ARGUMENTS, NAMES
from penstock.errors import UsageError
from penstock.formats import Format
from penstock.formats.gemma4 import FORMATS, FUNCTION_GEMMA, GEMMA4, DelimitedCalls
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

BY_NAME = {fmt.name: fmt for fmt in FORMATS}

EVERY = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)


def quote_of(fmt: Format) -> str:
    assert isinstance(fmt.calls, DelimitedCalls)
    return fmt.calls.quote


def test_calls_and_results_are_written_as_the_models_write_them() -> None:
    call = ToolCall("c", "f", {"a": "x\ny", "b": [1, None, {"two words": True}], "c": {}})
    assert GEMMA4.render_call(call) == (
        '<|tool_call>call:f{a:<|"|>x\ny<|"|>,'
        'b:[1,null,{<|"|>two words<|"|>:true}],c:{}}<tool_call|>'
    )
    assert FUNCTION_GEMMA.render_call(call) == (
        "<start_function_call>call:f{a:<escape>x\ny<escape>,"
        "b:[1,null,{<escape>two words<escape>:true}],c:{}}<end_function_call>"
    )
    assert GEMMA4.render_result(ToolResult("c", "f", {"depth": 2.5})) == (
        "<|tool_response>response:f{depth:2.5}<tool_response|>"
    )
    assert FUNCTION_GEMMA.render_result(ToolResult("c", "f", "wet")) == (
        "<start_function_response>response:f{value:<escape>wet<escape>}<end_function_response>"
    )


@EVERY
@given(name=NAMES, arguments=ARGUMENTS, around=st.sampled_from(["", "a ", "\n"]))
def test_a_rendered_call_reads_back_equal(
    fmt: Format, name: str, arguments: dict[str, Any], around: str
) -> None:
    def read_back(text: str) -> ToolCall:
        message = fmt.parse(around + text + around)
        assert message.text == around + around
        (call,) = message.tool_calls
        return call

    check_round_trip(fmt.render_call, read_back, ToolCall("call_1", name, arguments))


WRITTEN = {
    "texts that look like other values": {"a": "5", "b": "null", "c": "[1]", "d": "{}", "e": " x "},
    "texts with marks of calls": {
        "a": "<|tool_call>call:f{}<tool_call|>",
        "b": "<start_function_call>call:f{}<end_function_call>",
    },
    "texts with half a mark": {"a": '<|"|', "b": "<escape", "c": "<"},
    "quotes and backslashes": {"a": "it's", "b": 'C:\\ "x"', "c": "'", "d": '"'},
    "keys that need a mark": {"a:b": 1, "": 2, "it's": 3, "{": {"}": 4}, "<b>": 5, "x" * 300: 6},
    "numbers": {"a": 10**30, "b": -0.0, "c": 1e300, "d": 1.5e-7},
    "empty containers": {"a": [], "b": {}, "c": [[], {}], "d": ""},
    "half a character": {"a": "\ud83d", "\ude00": 1},
}  # fmt: skip


@EVERY
@pytest.mark.parametrize("arguments", WRITTEN.values(), ids=WRITTEN)
def test_what_might_be_mistaken_reads_back_equal(fmt: Format, arguments: dict[str, Any]) -> None:
    (call,) = fmt.parse(fmt.render_call(ToolCall("c", "f", arguments))).tool_calls
    assert (call.arguments, call.complete) == (arguments, True)


@EVERY
def test_a_text_that_holds_the_mark_is_refused(fmt: Format) -> None:
    text = f"a{quote_of(fmt)}b"
    for arguments in ({"a": text}, {"a": [{"b": text}]}, {text: 1}):
        with pytest.raises(UsageError, match="cannot be written"):
            fmt.render_call(ToolCall("c", "f", arguments))
        with pytest.raises(UsageError, match="cannot be written"):
            fmt.render_result(ToolResult("c", "f", arguments))


REFUSED = {
    "a name that is none": ToolCall("c", "a b", {}),
    "a number that JSON has not": ToolCall("c", "f", {"a": float("nan")}),
    "no value at all": ToolCall("c", "f", {"a": object()}),
    "a key that is no text": ToolCall("c", "f", {"a": {1: 2}}),
}


@EVERY
@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_written_is_refused(fmt: Format, call: ToolCall) -> None:
    with pytest.raises(UsageError):
        fmt.render_call(call)


@EVERY
def test_a_result_may_be_deep(fmt: Format) -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    assert fmt.render_result(ToolResult("c", "f", value)).count("[") == 5000


@EVERY
def test_the_prompt_shows_a_call_that_reads_back_and_the_mark(fmt: Format) -> None:
    tool = Tool("save", "Keep it", {"properties": {"note": {"type": "string"}}})
    prompt = fmt.render_tools([tool])
    (call,) = fmt.parse(prompt, [tool]).tool_calls
    assert (call.name, call.arguments) == ("save", {"note": "some text"})
    assert f"Put {quote_of(fmt)} directly before" in prompt
    assert "QUOTE" not in prompt


@EVERY
def test_the_segments_of_calls_are_the_exact_pieces_of_the_text(fmt: Format) -> None:
    written = fmt.render_call(ToolCall("c", "f", {"a": "x"}))
    assert fmt.call_segments(f"so {written} and {written}") == [written, written]
