"""A format that is prepared once parses like any other, and its spans cover the text."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock
from penstock import AssistantMessage, Text, Thinking, Tool, ToolCall, UsageError, formats
from penstock.formats.parser import Span
from penstock.formats.registry import BUILT_IN
from penstock.tools import read_tools

TEXT = {"type": "string"}
TOOL = Tool("write_file", "", {"properties": {"path": TEXT, "content": TEXT}})
CALL = ToolCall("call_1", "write_file", {"path": "a.py", "content": "x = 1"})


@pytest.mark.parametrize("name", [one.name for one in BUILT_IN if one.name != "none"])
def test_a_compiled_format_parses_like_the_format(name: str) -> None:
    compiled = penstock.compile(name, [TOOL])
    try:
        text = formats.get(name).render_call(CALL)
    except UsageError:
        pytest.skip("the format has no such tool")
    for response in (text, f"Before.\n{text}", text):  # nothing is kept between responses
        assert compiled.parse(response) == penstock.parse(response, name, [TOOL])
        spans = compiled.spans(response)
        assert "".join(response[span.start : span.end] for span in spans) == response


@pytest.mark.parametrize("name", [one.name for one in BUILT_IN if one.name != "none"])
def test_a_long_call_reads_the_same_whole_and_in_pieces(name: str) -> None:
    call = ToolCall("call_1", "write_file", {"path": "a.py", "content": "x = 1\n" * 400 + "y"})
    try:
        text = formats.get(name).render_call(call)
    except UsageError:
        pytest.skip("the format has no such tool")
    for chunks in ([text], [text[at : at + 16] for at in range(0, len(text), 16)]):
        parser = penstock.Parser(name, [TOOL])
        builder = penstock.MessageBuilder()
        for event in (*(each for chunk in chunks for each in parser.feed(chunk)), *parser.finish()):
            builder.add(event)
        (found,) = builder.message.tool_calls
        assert (found.name, found.arguments, found.complete) == (call.name, call.arguments, True)


def test_several_responses_are_parsed_at_once() -> None:
    compiled = penstock.compile("hermes", [TOOL])
    texts = ["one", formats.get("hermes").render_call(CALL)]
    assert [len(message.tool_calls) for message in compiled.parse_many(texts)] == [0, 1]
    assert compiled.tools == [TOOL]


def test_options_apply_to_every_response_and_each_may_have_more() -> None:
    compiled = penstock.compile("hermes", reasoning="none", trim=True)
    assert compiled.parse("<think>a</think>b").text == "<think>a</think>b"
    assert compiled.parse("<think>a</think>b", reasoning="think").thinking == "a"
    parser = compiled.parser(arguments="live")
    assert [event.type for event in parser.feed('<tool_call>{"name": "ls", "arguments": {"a"')] == [
        "toolcall_start"
    ]


def test_spans_have_the_kind_and_the_number_of_their_block() -> None:
    text = '<think>Hm.</think>Here:<tool_call>{"name": "ls"}</tool_call>\n'
    spans = penstock.compile("hermes").spans(text)
    assert [(span.kind, span.block, text[span.start : span.end]) for span in spans] == [
        ("thinking", 0, "<think>Hm.</think>"),
        ("text", 1, "Here:"),
        ("tool_call", 2, '<tool_call>{"name": "ls"}</tool_call>'),
        ("text", 3, "\n"),
    ]


def test_spans_count_tokens_where_their_offsets_are_given() -> None:
    text = 'ok<tool_call>{"name": "ls"}</tool_call>'
    offsets = [(0, 0), (0, 1), (1, 4), (4, 13), (13, 27), (27, 39), (39, 39)]
    spans = penstock.compile("hermes").spans(text, offsets)
    assert [tuple(span) for span in spans] == [
        ("other", 0, 0, 1),
        ("text", 0, 1, 3),
        ("tool_call", 1, 3, 7),
    ]


def test_a_custom_format_can_be_compiled() -> None:
    class Shouting:
        name = "shouting"

        def render_tools(self, tools: list[Tool]) -> str:
            return str(len(tools))

        def render_call(self, call: ToolCall) -> str:
            return call.name

        def render_result(self, result: penstock.ToolResult) -> str:
            return str(result.content)

        def parse(self, text: str, tools: list[Tool]) -> penstock.AssistantMessage:
            del tools
            return penstock.parse(text, "none")

        def parser(self, tools: list[Tool]) -> penstock.Parser:
            assert tools == [TOOL]
            return penstock.Parser("none")

    formats.register(Shouting)
    try:
        assert penstock.compile("shouting", [TOOL]).parse("HELLO").text == "HELLO"
    finally:
        formats.unregister("shouting")


# --- spans of every format ---

HERE = Path(__file__).parents[1] / "vectors"
TOOLSETS = {
    name: read_tools(tools)
    for name, tools in json.loads((HERE / "toolsets.json").read_text("utf-8")).items()
}
VECTORS = [
    json.loads(line)
    for name in ("formats", "formats_2026")
    for line in (HERE / f"{name}.jsonl").read_text("utf-8").splitlines()
]
KINDS = {Text: "text", Thinking: "thinking", ToolCall: "tool_call"}


def check_spans(spans: list[Span], message: AssistantMessage, size: int) -> None:
    """Check that *spans* cover *size* characters once, and have the blocks of *message*."""
    assert [span.start for span in spans] == [0, *(span.end for span in spans)][: len(spans)]
    assert sum(span.end - span.start for span in spans) == size
    assert all(span.start < span.end for span in spans)
    blocks = [(span.kind, span.block) for span in spans if span.kind != "other"]
    expected = [(KINDS[type(block)], number) for number, block in enumerate(message.content)]
    assert blocks == (expected if size else [])


@pytest.mark.parametrize(
    "vector", [pytest.param(one, id=f"{one['id']}: {one['why']}") for one in VECTORS]
)
def test_the_spans_of_a_vector_cover_its_text_once(vector: dict[str, Any]) -> None:
    text, tools = vector["text"], TOOLSETS.get(vector["tools"], [])
    prompt = vector.get("options", {}).get("prompt_suffix", "")
    for name in (vector["format"], "auto"):
        compiled = penstock.compile(name, tools, prompt_suffix=prompt)
        spans, message = compiled.spans(text), compiled.parse(text)
        check_spans(spans, message, len(text))
        for span in spans:
            block = message.content[span.block] if message.content else None
            if isinstance(block, ToolCall):
                assert block.name in text[span.start : span.end]


@settings(max_examples=10)  # of each format
@given(data=st.data())
@pytest.mark.parametrize("name", [one.name for one in BUILT_IN])
def test_spans_cover_any_text_and_any_tokens_once(name: str, data: st.DataObject) -> None:
    try:
        call = formats.get(name).render_call(CALL)
    except UsageError:
        call = "<write_file>"
    pieces = ["Hm. ", "\n", "<think>", "</think>", "<|im_end|>", call, call[:-3], call[:9], "é🐟"]
    text = "".join(data.draw(st.lists(st.sampled_from(pieces), max_size=6)))
    compiled = penstock.compile(name, [TOOL])
    spans = compiled.spans(text)
    check_spans(spans, compiled.parse(text), len(text))
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=9).map(sorted))
    offsets = list(pairwise([0, *places, len(text)]))  # some of these tokens are empty
    tokens = compiled.spans(text, offsets)
    assert [span.start for span in tokens] == [0, *(span.end for span in tokens)][: len(tokens)]
    assert sum(span.end - span.start for span in tokens) == len(offsets)
    for span in tokens:
        for start, end in offsets[span.start : span.end]:
            owner = next((one for one in spans if one.start <= start < one.end), None)
            assert start == end or owner is None or owner[:2] == span[:2]


def test_text_that_a_custom_format_does_not_account_for_is_covered_too() -> None:
    class Quiet:
        name = "quiet"
        render_tools = render_call = render_result = staticmethod(str)

        def parse(self, text: str, tools: list[Tool]) -> AssistantMessage:
            del tools
            return AssistantMessage(content=[Text(text)])

        def parser(self, tools: list[Tool]) -> Quiet:
            del tools
            return self

        def feed(self, text: str) -> list[penstock.Event]:
            return [penstock.TextStart(0), penstock.TextDelta(0, text), penstock.TextEnd(0, text)]

        def finish(self) -> list[penstock.Event]:
            return []

    spans = penstock.compile(Quiet(), [TOOL]).spans("hush")
    assert [tuple(span) for span in spans] == [("other", 0, 0, 4)]
