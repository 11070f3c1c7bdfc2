"""Which format a text is in."""

from __future__ import annotations

import pytest

from penstock import formats
from penstock.formats.detect import find_enforceable
from penstock.messages import ToolCall
from penstock.tools import Tool

CALL = ToolCall("c", "f", {"a": "x"})
TOOLS = [Tool("f", parameters={"properties": {"a": {"type": "string"}}})]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", 'So: <tool_call>{"name": "f", "arguments": {}}</tool_call>'),
        ("qwen3_coder", "<tool_call>\n<function=f>\n</function>\n</tool_call>"),
        ("glm45", "<tool_call>f\n</tool_call>"),
        ("hy_v3", "<tool_calls><tool_call>f<tool_sep></tool_call></tool_calls>"),
        ("jamba", '<tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>'),
        ("mistral_array", '[TOOL_CALLS] [{"name": "f", "arguments": {}}]'),
        ("mistral_args", "[TOOL_CALLS]f[ARGS]{}"),
        ("mistral_v11", "[TOOL_CALLS]f{}"),
        ("deepseek_v3", formats.get("deepseek_v3").render_call(CALL)),
        ("deepseek_v31", formats.get("deepseek_v31").render_call(CALL)),
        ("functionary_v3_1", '<function=f>{"a": "x"}</function>'),
        ("minicpm5", '<function name="f"></function>'),
        ("pythonic", '[f(a="x")]'),
        ("bare_json", '{"name": "f", "arguments": {}}'),
        ("morph_xml", "<f><a>x</a></f>"),
        ("harmony", "<|channel|>commentary to=functions.f<|message|>{}<|call|>"),
    ],
)
def test_a_format_is_detected_by_its_first_call(name: str, text: str) -> None:
    found = formats.detect(text, TOOLS)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "text",
    ["", "No call.", '<tool_call>{"name": "nobody", "arguments": {}}</tool_call>', "`<f></f>`"],
)
def test_a_text_without_a_call_is_in_none(text: str) -> None:
    assert formats.detect(text, TOOLS) is None


def test_the_first_call_counts() -> None:
    text = '<function=f>\n</function>\n<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    found = formats.detect(text, TOOLS)
    assert found is formats.get("qwen3_coder")


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("glm47", "", "glm47"),
        ("auto", "Qwen/Qwen3-8B", "qwen25"),
        ("auto", "a model of nobody", None),
        ("none", "Qwen/Qwen3-8B", None),
        ("file_tags", "", None),
    ],
)
def test_calls_are_enforced_in_formats_with_a_grammar(
    name: str, model: str, expected: str | None
) -> None:
    found = find_enforceable(name, model)
    assert (None if found is None else found.name) == expected
