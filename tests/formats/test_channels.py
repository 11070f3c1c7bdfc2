"""The formats in messages with headers: their vectors, and what they write reads back."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_readings, check_round_trip
from laws.strategies import ARGUMENTS, NAMES
from parsing.channel_samples import MODES, Mode
from penstock.errors import UsageError
from penstock.formats import Format
from penstock.formats.base import build_message
from penstock.formats.channels import (
    FORMATS,
    FUNCTIONARY_V3_2,
    HARMONY,
    INKLING,
    KIMI_K3,
    MUSE_GLIMMER,
)
from penstock.formats.round_trip import infer_schema
from penstock.messages import ToolCall, ToolResult
from penstock.parsing import Engine
from penstock.tools import Tool, read_tools

_VECTORS = Path(__file__).parents[1] / "vectors"
TOOLSETS = {
    name: read_tools(tools)
    for name, tools in json.loads((_VECTORS / "toolsets.json").read_text()).items()
}
BY_NAME = {fmt.name: fmt for fmt in FORMATS}
VECTORS = [  # of reasoning; `test_vectors` reads those of calls
    vector
    for line in (_VECTORS / "reasoning.jsonl").read_text().splitlines()
    if (vector := json.loads(line))["format"] in BY_NAME
]

EVERY = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
READ_ALONE = [fmt for fmt in FORMATS if fmt is not FUNCTIONARY_V3_2]


def folded(text: str | None) -> str:
    return "".join((text or "").split())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: f"{vector['id']}: {vector['why']}")
def test_a_vector_reads_the_same_whole_by_characters_and_at_every_cut(
    vector: dict[str, Any], mode: Mode
) -> None:
    style: Any = BY_NAME[vector["format"]].calls
    tools = TOOLSETS[vector["tools"]] if vector["tools"] else []
    prompt = vector.get("options", {}).get("prompt_suffix", "")
    make = partial(Engine, style, tools, arguments=mode, prompt_suffix=prompt)
    expect = vector["expect"]
    message = build_message(check_readings(make, vector["text"]))
    calls = [(call.name, call.arguments) for call in message.tool_calls if call.complete]
    assert calls == [(call["name"], call["arguments"]) for call in expect["calls"]]
    assert folded(message.thinking) == folded(expect["reasoning"])
    if mode == "whole" or expect["calls"] or not message.tool_calls:
        assert folded(message.text) == folded(expect["content"])


def test_each_format_has_vectors_but_the_one_that_nobody_else_reads() -> None:
    elsewhere = {"beam"}  # its vectors are in formats_2026.jsonl
    assert {vector["format"] for vector in VECTORS} == {fmt.name for fmt in READ_ALONE} - elsewhere


def test_calls_are_written_as_the_models_write_them() -> None:
    call = ToolCall("c", "f", {"a": "x\ny", "b": [1, None], "c": True})
    written = '{"a": "x\\ny", "b": [1, null], "c": true}'
    assert HARMONY.render_call(call) == (
        f"<|start|>assistant to=functions.f<|channel|>commentary json<|message|>{written}<|call|>"
    )
    assert INKLING.render_call(call) == (
        "<|message_model|>f<|content_invoke_tool_json|>"
        f'{{"name": "f", "args": {written}}}<|end_message|>'
    )
    assert KIMI_K3.render_call(call) == (
        '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
        '<|open|>argument key="a" type="string"<|sep|>x\ny<|close|>argument<|sep|>'
        '<|open|>argument key="b" type="array"<|sep|>[1, null]<|close|>argument<|sep|>'
        '<|open|>argument key="c" type="boolean"<|sep|>true<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|>"
    )
    assert MUSE_GLIMMER.render_call(call) == (
        "<|start|>assistant to=f<|message|><atem:function_calls>\n"
        '<atem:invoke name="f">\n'
        '<atem:parameter name="a">x\ny</atem:parameter>\n'
        '<atem:parameter name="b">[1, null]</atem:parameter>\n'
        '<atem:parameter name="c">true</atem:parameter>\n'
        "</atem:invoke>\n</atem:function_calls><|eot|>"
    )
    assert FUNCTIONARY_V3_2.render_call(call) == f">>>f\n{written}"


def test_results_are_written_as_the_models_read_them() -> None:
    result = ToolResult("c", "f", {"depth": 2.5})
    assert HARMONY.render_result(result) == (
        '<|start|>functions.f to=assistant<|channel|>commentary<|message|>{"depth": 2.5}<|end|>'
    )
    assert HARMONY.render_result(ToolResult("c", "f", "wet")).endswith('<|message|>"wet"<|end|>')
    assert INKLING.render_result(result) == (
        '<|message_tool|>f<|content_text|>{"depth": 2.5}<|end_message|>'
    )
    assert "<|content_tool_error|>" in INKLING.render_result(
        ToolResult("c", "f", "no", is_error=True)
    )
    assert KIMI_K3.render_result(result) == (
        '<|open|>message role="tool" tool="f" index="1"<|sep|>{"depth": 2.5}<|close|>message<|sep|>'
    )
    assert MUSE_GLIMMER.render_result(result) == (
        '<|start|>tool f<|message|><tool_output name="f">\n{"depth": 2.5}\n</tool_output><|eot|>'
    )
    assert FUNCTIONARY_V3_2.render_result(result) == (
        '<|start_header_id|>tool<|end_header_id|>\n\n{"depth": 2.5}<|eot_id|>'
    )


@EVERY
@settings(max_examples=40)
@given(name=NAMES, arguments=ARGUMENTS, around=st.sampled_from(["", "a ", "\n"]))
def test_a_rendered_call_reads_back_equal(
    fmt: Format, name: str, arguments: dict[str, Any], around: str
) -> None:
    tool = Tool(name, parameters=infer_schema(arguments))

    def read_back(text: str) -> ToolCall:
        message = fmt.parse(around + text + around, [tool])
        assert folded(message.text) == folded(around + around)
        (call,) = message.tool_calls
        return call

    check_round_trip(fmt.render_call, read_back, ToolCall("call_1", name, arguments))


@pytest.mark.parametrize("fmt", [HARMONY, INKLING, KIMI_K3], ids=lambda fmt: fmt.name)
@settings(max_examples=40)
@given(name=NAMES, arguments=ARGUMENTS)
def test_a_call_that_says_what_its_values_are_reads_back_without_any_tools(
    fmt: Format, name: str, arguments: dict[str, Any]
) -> None:
    def read_back(text: str) -> ToolCall:
        (call,) = fmt.parse(text).tool_calls
        return call

    check_round_trip(fmt.render_call, read_back, ToolCall("call_1", name, arguments))


WRITTEN = {
    "texts that look like other values": {"a": "5", "b": "null", "c": "[1]", "d": "{}", "e": " x "},
    "texts with end markers": {"a": "<|call|><|end|>", "b": "<|eom|>", "c": "<|end_message|>"},
    "texts with end tags": {"a": "</atem:parameter>", "b": "<|close|>argument<|sep|>x"},
    "texts with headers": {"a": "<|start|>assistant<|channel|>final<|message|>", "b": ">>>all\n"},
    "names of an envelope": {"name": "f", "arguments": {"a": 1}, "args": {}, "id": "x"},
    "numbers": {"a": 10**30, "b": -0.5, "c": 1e300},
    "empty containers": {"a": [], "b": {}, "c": ""},
}


TOKENS = {
    "beam": ("<|call|>", "<|start|>"),
    "kimi_k3": ("<|close|>",),
    "muse_glimmer": ("<|eom|>", "<|start|>", "</atem:"),
}
"""Special tokens beside which values are raw: no value has one."""


@EVERY
@pytest.mark.parametrize("arguments", WRITTEN.values(), ids=WRITTEN)
def test_what_might_be_mistaken_reads_back_equal_or_is_refused(
    fmt: Format, arguments: dict[str, Any]
) -> None:
    texts = [value for value in arguments.values() if isinstance(value, str)]
    if any(token in text for token in TOKENS.get(fmt.name, ()) for text in texts):
        with pytest.raises(UsageError, match="cannot express"):
            fmt.render_call(ToolCall("c", "f", arguments))
        return
    tool = Tool("f", parameters=infer_schema(arguments))
    (call,) = fmt.parse(fmt.render_call(ToolCall("c", "f", arguments)), [tool]).tool_calls
    assert (call.arguments, call.complete) == (arguments, True)


REFUSED = {
    "a name that is none": ((HARMONY, INKLING, MUSE_GLIMMER), ToolCall("c", "a b", {})),
    "a name with a new line": (
        tuple(fmt for fmt in FORMATS if fmt is not KIMI_K3),
        ToolCall("c", "a\nb", {}),
    ),
    "a number that JSON has not": (FORMATS, ToolCall("c", "f", {"a": float("nan")})),
    "no value at all": (FORMATS, ToolCall("c", "f", {"a": object()})),
    "the recipient of text": ((FUNCTIONARY_V3_2,), ToolCall("c", "all", {})),
    "somebody who is no tool": ((HARMONY, MUSE_GLIMMER), ToolCall("c", "user", {})),
    "a text that ends its value": (
        (MUSE_GLIMMER,),
        ToolCall("c", "f", {"a": "</atem:parameter></atem:invoke>"}),
    ),
    "a text that ends its argument": (
        (KIMI_K3,),
        ToolCall("c", "f", {"a": "<|close|>argument<|sep|><|close|>call<|sep|>"}),
    ),
    "a key that ends its tag": ((MUSE_GLIMMER,), ToolCall("c", "f", {'a">': "x"})),
    "a key that is too long": ((MUSE_GLIMMER, KIMI_K3), ToolCall("c", "f", {"a" * 2000: "x"})),
}


@pytest.mark.parametrize(
    ("fmt", "call"),
    [
        pytest.param(fmt, call, id=f"{fmt.name}: {why}")
        for why, (formats, call) in REFUSED.items()
        for fmt in formats
    ],
)
def test_what_cannot_be_written_is_refused(fmt: Format, call: ToolCall) -> None:
    with pytest.raises(UsageError):
        fmt.render_call(call)


@EVERY
def test_the_prompt_shows_a_call_that_reads_back(fmt: Format) -> None:
    tool = Tool("save", "Keep it", {"properties": {"note": {"type": "string"}}})
    prompt = fmt.render_tools([tool])
    (call,) = fmt.parse(prompt, [tool]).tool_calls
    assert (call.name, call.arguments) == ("save", {"note": "some text"})


@EVERY
def test_the_segments_of_calls_are_the_exact_pieces_of_the_text(fmt: Format) -> None:
    tool = Tool("f", parameters={"properties": {"a": {"type": "string"}}})
    written = fmt.render_call(ToolCall("c", "f", {"a": "x"}))
    assert fmt.call_segments(f"so {written} and {written}", [tool]) == [written, written]


@pytest.mark.parametrize("fmt", READ_ALONE, ids=lambda fmt: fmt.name)
def test_these_formats_read_thoughts_themselves(fmt: Format) -> None:
    assert fmt.reasoning is None
