"""A call that has come whole is read at once, and one that comes in pieces in steps: both agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import check_chunk_free, check_linear, check_lossless, effort, one_by_one
from penstock import Parser, ToolCallDelta
from penstock.tools import Tool

TEXT = {"type": "string"}
TOOLS = [
    Tool("write", "", {"properties": {"path": TEXT, "count": {"type": "integer"}, "name": TEXT}}),
    Tool("list", "", {}),
]
FRAMES = {
    "hermes": "<tool_call>{}</tool_call>",
    "mistral_array": "[TOOL_CALLS]{}",
    "command_r_plus": "Action: ```json\n{}\n```",
    "granite_20b_fc": "<function_call> {}",
    "jamba": "<tool_calls>{}</tool_calls>",
    "apertus": "<|tools_prefix|>{}<|tools_suffix|>",
    "deepseek_v31": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write<｜tool▁sep｜>{}"  # noqa: RUF001
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",  # noqa: RUF001
    "harmony": "<|start|>assistant<|channel|>commentary to=functions.write<|message|>{}<|call|>",
    "functionary_v3_1": "<function=write>{}</function>",
}
ODD = (
    '{"name": "write", "arguments": {"path": "a", "path": "b"}}',
    '{"name": "write", "arguments": {"path": "\\ud83d"}}',
    '{"name": "write", "arguments": {"count": 1e999}}',
    '{"name": "write", "arguments": {"count": NaN}}',
    '{"arguments": {"path": "a"}, "name": "write"}',
    '{"name": "write", "arguments": {"path": "a"}, "id": "late"}',
    '{"name": "write", "arguments": "{\\"path\\": \\"a\\"}"}',
    '{"name": "write", "name": "list", "arguments": {}}',
    '{"name": "write", "arguments": {"name": "x"}, "parameters": {"path": "y"}}',
    '[{"name": "write", "arguments": {}}, 3]',
    '[{"name": "write", "arguments": {"path": "a"}}, {"name": "list", "arguments": {}}]',
    '{"name": "write", "arguments": {"path": "a"}}}',
    '{"name": "write", "arguments": {"path": "</tool_call>"}} ',
    '{"write": {"path": "a"}}',
    '[{"write": {"path": "a"}}, {"list": {}}]',
    '{"path": "a", "count": "3"}',
    '{"name": "write", "arguments": {"path": "a"}}\n{"name": "list", "arguments": {}}',
    "[]",
    "{}",
    '{"name": "write", "arguments": {"path": ' + "[" * 600 + "1" + "]" * 600 + "}}",
)
TOO_DEEP = '{"name": "write", "arguments": ' + '{"a":' * 600 + "1" + "}" * 600 + "}"

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
keys = st.sampled_from(["path", "count", "name", "x", "arguments"])
names = st.sampled_from(["write", "list", "WRITE", "unknown", ""])
members = st.dictionaries(keys, values, max_size=3)
fields = st.fixed_dictionaries(
    {}, optional={"id": st.text(max_size=3), "name": names, "arguments": members | values}
)
bodies = members | fields | st.lists(fields, max_size=3) | st.dictionaries(names, members)


def check(name: str, body: str, **options: Any) -> None:
    """Check that the response is read alike as one piece and by characters."""
    check_text(name, f"Ok.\n{FRAMES[name].replace('{}', body)} Done.", TOOLS, **options)


def check_text(name: str, text: str, tools: list[Tool], **options: Any) -> None:
    """Check that *text* is read alike as one piece and by characters."""

    def make() -> Parser:
        return Parser(name, tools, **options)

    check_chunk_free(make, one_by_one(text))
    check_lossless(make, [text])


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("body", ODD)
def test_odd_bodies_are_read_alike_as_one_piece_and_by_characters(name: str, body: str) -> None:
    check(name, body)
    check(name, body, repair=True)


@pytest.mark.parametrize("name", ["hermes", "mistral_array", "deepseek_v31"])
def test_objects_that_are_too_deep_are_read_alike_in_every_way(name: str) -> None:
    check(name, TOO_DEEP)


@pytest.mark.parametrize("name", FRAMES)
@given(body=bodies, indent=st.sampled_from([None, 1]))
@settings(max_examples=effort.examples(40))
def test_any_body_is_read_alike_as_one_piece_and_by_characters(
    name: str, body: object, indent: int | None
) -> None:
    check(name, json.dumps(body, indent=indent))


@pytest.mark.parametrize(
    "unit", ['<tool_call>{"name": "write", "arguments": {', '<tool_call>{"', "<tool_call>{}"]
)
def test_a_flood_of_calls_that_break_costs_the_same_however_long_it_is(unit: str) -> None:
    def parse(size: int) -> None:
        parser = Parser("hermes", TOOLS)
        parser.feed(unit * size)
        parser.finish()

    check_linear(parse, 250, 4_000, at_most=1.6)


# --- elements ---

EDIT = Tool(
    "edit",
    "",
    {
        "type": "object",
        "properties": {
            "path": TEXT,
            "old": TEXT,
            "mode": {"type": "string", "enum": ["replace", "append"]},
            "count": {"type": "integer"},
            "tags": {"type": "array", "items": TEXT},
            "options": {"type": "object", "properties": {"depth": {"type": "integer"}}},
            "note": {"type": ["string", "null"]},
            "any": {},
        },
        "required": ["path"],
    },
)
NAMES = (*EDIT.parameters["properties"], "unknown", "think", "item")
VALUES = (
    *("a.txt", "\nline\n", "\n", "", " ", "\r\na\r\n", "a > b", "/path>", "path>", "&lt;b&gt;"),
    *("3", " 3 ", "3.0", "three", "1e999", "null", "true", "APPEND", "replace", "a, b", "1, 2"),
    *('["a", "b"]', '["a"', "[1] and more", '{"depth": "2"}', '{"depth": ', '{"a": 1, "a": 2}'),
    *("a < b", "<b>x</b>", "<|im_end|>", "</s>", "[/INST]", "\ud83d", "\ud83d\ude00", "it's"),
    *(" " * 300 + "3", "x" + " " * 5000, "<path>b</path>", "</old>", "</old", "<old>", "]]>"),
)
GAPS = ("", "\n", "\n  ", " " * 300, " " * 5000, "and ", "<!-- so -->")


@st.composite
def element_bodies(draw: st.DrawFn) -> str:
    """Draw the inside of a call, most of whose elements are plain."""
    fields = draw(
        st.lists(
            st.tuples(
                st.one_of(st.just(""), st.sampled_from(GAPS)),
                st.sampled_from(NAMES),
                st.one_of(st.sampled_from(VALUES[:11]), st.sampled_from(VALUES)),
            ),
            max_size=4,
        )
    )
    return "".join(f"{gap}<{name}>{value}</{name}>" for gap, name, value in fields)


@pytest.mark.parametrize("name", ["morph_xml", "qwen_web", "auto"])
@pytest.mark.parametrize("options", [{}, {"repair": True}], ids=["strict", "repaired"])
@given(body=element_bodies(), cut=st.integers(0, 40))
@settings(max_examples=effort.examples(60))
def test_any_elements_are_read_alike_as_one_piece_and_by_characters(
    name: str, options: dict[str, Any], body: str, cut: int
) -> None:
    text = f"Ok.\n<edit>{body}</edit> Done."
    check_text(name, text, [EDIT], **options)
    check_text(name, text[: len(text) - cut], [EDIT], **options)


@st.composite
def tag_bodies(draw: st.DrawFn) -> str:
    """Draw the inside of a call of tool_tag, in one of its forms or in a mix of them."""
    forms = st.sampled_from(['<arg name="{0}">{1}</arg>', "<{0}>{1}</{0}>"])
    form = draw(st.none() | forms)
    fields = draw(
        st.lists(
            st.tuples(
                st.just("") | st.sampled_from(GAPS),
                forms,
                st.sampled_from(NAMES),
                st.sampled_from(VALUES[:11]) | st.sampled_from(VALUES),
            ),
            max_size=4,
        )
    )
    body = "".join(gap + (form or own).format(key, value) for gap, own, key, value in fields)
    frames = (
        "<arguments>{}</arguments>",
        "\n<arguments>{}\n</arguments>\n",
        "{}",
        "{}</arguments>",
    )
    return draw(st.sampled_from(frames)).replace("{}", body)


@pytest.mark.parametrize("name", ["tool_tag", "auto"])
@pytest.mark.parametrize("options", [{}, {"repair": True}], ids=["strict", "repaired"])
@given(body=tag_bodies(), cut=st.integers(0, 40))
@settings(max_examples=effort.examples(60))
def test_any_tagged_arguments_are_read_alike_as_one_piece_and_by_characters(
    name: str, options: dict[str, Any], body: str, cut: int
) -> None:
    text = f'Ok.\n<tool name="edit">{body}</tool> Done.'
    check_text(name, text, [EDIT], **options)
    check_text(name, text[: len(text) - cut], [EDIT], **options)


@pytest.mark.parametrize("tags", ['<arg name="{0}">{1}</arg>', "<{0}>{1}</{0}>"])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", NAMES)
def test_an_argument_of_any_value_is_read_alike_as_one_piece_and_by_characters(
    tags: str, key: str, value: str
) -> None:
    fields = tags.format(key, value)
    check_text("tool_tag", f'<tool name="edit">{fields}</tool>', [EDIT])


@pytest.mark.parametrize("name", ["morph_xml", "qwen_web"])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", NAMES)
def test_a_field_of_any_value_is_read_alike_as_one_piece_and_by_characters(
    name: str, key: str, value: str
) -> None:
    fields = (
        f"<path>b.txt</path><{key}>{value}</{key}>" if key != "path" else f"<path>{value}</path>"
    )
    check_text(name, f"<edit>{fields}</edit>", [EDIT])


def test_strings_come_before_other_values_however_the_call_has_come() -> None:
    text = '<edit><count>3</count><path>a.txt</path><tags>["x"]</tags><old>b</old></edit>'
    parser = Parser("morph_xml", [EDIT])
    events = [*parser.feed(text), *parser.finish(cut=False)]
    (written,) = [event.arguments for event in events if isinstance(event, ToolCallDelta)]
    assert written == '{"path":"a.txt","old":"b","count":3,"tags":["x"]}'
