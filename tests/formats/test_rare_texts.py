"""Texts for branches of the readers that no vector takes, in both modes and at every cut."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import pytest

from laws import Ending, check_readings
from penstock import Parser
from penstock.formats.base import build_message
from penstock.parsing import Arguments
from penstock.tools import Tool

TEXT: Final = {"a": {"type": "string"}}
TEXTS: Final = {"a": {"type": "string"}, "b": {"type": "string"}}
CODE: Final = {"code": {"type": "string"}}
OBJECT: Final = {"a": {"type": "object"}}
ARRAY: Final = {"a": {"type": "array"}}

COFL: Final = (
    '<cofl:tool_calls><cofl:tool_call id="0" name="f">{}</cofl:tool_call></cofl:tool_calls>'
)
CALL: Final = "<tool_call>\n<function=g>\n</tool_call>\n</function>"
KIMI: Final = (
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    '{"a": "x"}, and<|tool_call_end|><|tool_calls_section_end|>'
)
JSON: Final = '{"name": "f", "arguments": {"a": "x"}}'

# Each case: its name, the format, the properties of the tool `f`, the text, and the arguments of
# its complete calls; None means that there is no call and all of it is text.
CASES: Final[tuple[tuple[str, str, dict[str, Any], str, list[dict[str, Any]] | None], ...]] = (
    (
        "an end tag that is indented like its block ends the response",
        "yaml_xml",
        TEXT,
        "<f>\na: |\n  x\n  </f>",
        [{"a": "x\n"}],
    ),
    (
        "an end tag that is indented like its block is data before more of it",
        "yaml_xml",
        TEXT,
        "<f>\na: |\n  x\n  </f>\n  y\n</f>",
        [{"a": "x\n</f>\ny\n"}],
    ),
    ("a self-closing tag ends a response", "yaml_xml", TEXT, "<f/>", [{}]),
    (
        "a comment line in a YAML mapping has no meaning",
        "yaml_xml",
        TEXTS,
        "<f>\na: x\n# and\nb: y\n</f>",
        [{"a": "x", "b": "y"}],
    ),
    (
        "JSON in a section of tags needs no end tag",
        "dots",
        TEXT,
        f"<dots_function_call>{JSON}",
        [{"a": "x"}],
    ),
    (
        "an empty argument is an empty string",
        "tool_tag",
        TEXT,
        '<tool name="f"><a/></tool>',
        [{"a": ""}],
    ),
    (
        "an argument tag without a name is in doubt",
        "tool_tag",
        TEXT,
        '<tool name="f"><arg>x</arg></tool>',
        None,
    ),
    (
        "a list where a string or a list may be",
        "tool_tag",
        {"a": {"type": ["string", "array"]}},
        '<tool name="f"><a>[1, 2]</a></tool>',
        [{"a": [1, 2]}],
    ),
    (
        "an object where a string or a list may be is text",
        "tool_tag",
        {"a": {"type": ["string", "array"]}},
        '<tool name="f"><a>{"b": 1}</a></tool>',
        [{"a": '{"b": 1}'}],
    ),
    (
        "an item that is a CDATA section",
        "tool_tag",
        {"a": {"type": "array", "items": {"type": "string"}}},
        '<tool name="f"><a><item><![CDATA[x<y]]></item></a></tool>',
        [{"a": ["x<y"]}],
    ),
    (
        "a comment in an argument that never ends",
        "tool_tag",
        OBJECT,
        '<tool name="f"><a><b>1</b><!-- x</a></tool>',
        None,
    ),
    (
        "a JSON value that is not one",
        "cohere_command5",
        ARRAY,
        COFL.format('<cofl:value name="a" type="json">[1,</cofl:value>'),
        None,
    ),
    (
        "a value without content",
        "cohere_command5",
        TEXT,
        COFL.format('<cofl:value name="a" type="raw"/>'),
        [{"a": ""}],
    ),
    (
        "a dict without content",
        "cohere_command5",
        OBJECT,
        COFL.format('<cofl:value name="a" type="dict"/>'),
        [{"a": {}}],
    ),
    (
        "a call without content",
        "cohere_command5",
        TEXT,
        '<cofl:tool_calls><cofl:tool_call id="0" name="f"/></cofl:tool_calls>',
        [{}],
    ),
    (
        "a member that comes twice",
        "cohere_command5",
        OBJECT,
        COFL.format(
            '<cofl:value name="a" type="dict"><cofl:value name="b" type="raw">1</cofl:value>'
            '<cofl:value name="b" type="raw">2</cofl:value></cofl:value>'
        ),
        None,
    ),
    (
        "more white space between two tags than a call has",
        "cohere_command5",
        TEXT,
        "<cofl:tool_calls>" + " " * 300 + '<cofl:tool_call id="0" name="f"/></cofl:tool_calls>',
        None,
    ),
    (
        "a CDATA section whose closing tag is missing before the next parameter",
        "minicpm5",
        TEXTS,
        '<function name="f"><param name="a"><![CDATA[x]]><param name="b">y</param></function>',
        [{"a": "x", "b": "y"}],
    ),
    (
        "a CDATA section whose closing tag is missing before the end",
        "minicpm5",
        TEXTS,
        '<function name="f"><param name="a"><![CDATA[x]]></function>',
        [{"a": "x"}],
    ),
    (
        "a declaration between elements",
        "morph_xml",
        TEXT,
        "<f><!DOCTYPE x><a>1</a></f>",
        [{"a": "1"}],
    ),
    (
        "a carriage return that is all of a value",
        "qwen3_coder",
        TEXT,
        "<tool_call>\n<function=f>\n<parameter=a>\n\r</parameter>\n</function>\n</tool_call>",
        [{"a": "\r"}],
    ),
    (
        "a section in a value, which a call inside it ends",
        "qwen3_coder",
        TEXT,
        f"<tool_call>\n<function=f>\n<parameter=a>\n{CALL}\n</parameter>\n</function>\n</tool_call>",
        [{"a": CALL}],
    ),
    (
        "a damaged closing tag without its first sign",
        "cohere_command5",
        TEXT,
        COFL.format('<cofl:value name="a" type="raw">x/cofl:value></cofl:value>'),
        None,
    ),
    (
        "arguments that are a JSON Schema define a tool",
        "hermes",
        TEXT,
        '<tool_call>{"name": "f", "arguments": {"type": "object", "properties": {}}}</tool_call>',
        None,
    ),
    (
        "a member after the object of a call",
        "hermes",
        TEXT,
        f'<tool_call>{JSON}, "b": 1}}</tool_call>',
        None,
    ),
    (
        "a fence that hid a call ends without a newline",
        "bare_json",
        TEXT,
        f"```json\n{JSON}\nwords\n```",
        [{"a": "x"}],
    ),
    (
        "a comma after arguments ends the call",
        "kimi_k2",
        TEXT,
        KIMI,
        [{"a": "x"}],
    ),
    (
        "a bracket after a list of calls",
        "mistral_array",
        TEXT,
        f"[TOOL_CALLS][{JSON}] [ see",
        [{"a": "x"}],
    ),
    (
        "an empty item of a list",
        "gemma4",
        ARRAY,
        "<|tool_call>call:f{a:[1,,2]}<tool_call|>",
        None,
    ),
    (
        "the end of a turn after a program is not part of it",
        "functionary_v3_1",
        CODE,
        "<|python_tag|>print(1)</s>",
        [{"code": "print(1)"}],
    ),
    (
        "the end of a turn inside a program is HTML",
        "functionary_v3_1",
        CODE,
        '<|python_tag|>print("</s>")<|eot_id|>',
        [{"code": 'print("</s>")'}],
    ),
    (
        "a program that is not a string",
        "functionary_v3_1",
        {"code": {"type": "integer"}},
        "<|python_tag|>5<|eot_id|>",
        [{"code": 5}],
    ),
    ("a marker without a program", "functionary_v3_1", CODE, "<|python_tag|><|eot_id|>", []),
)

# The same with repair.
REPAIRED: Final[tuple[tuple[str, str, dict[str, Any], str, list[dict[str, Any]] | None], ...]] = (
    (
        "an argument inside of another one",
        "hermes",
        {"o": {"type": "object", "properties": {"x": {"type": "integer"}}}, "b": {}},
        '<tool_call>{"name": "f", "arguments": {"o": {"x": 1, "b": "t"}}</tool_call>',
        None,
    ),
    (
        "a member of an argument beside it",
        "hermes",
        {"o": {"type": "object", "properties": {"x": {}, "y": {}}}, "b": {}},
        '<tool_call>{"name": "f", "arguments": {"o": {"x": 1}, "y": "t"}</tool_call>',
        None,
    ),
    (
        "zeros before a negative number",
        "lfm2",
        {"a": {"type": "integer"}},
        "<|tool_call_start|>[f(a=-007)]<|tool_call_end|>",
        [{"a": -7}],
    ),
    (
        "a quote in a string with an argument that the tool has not",
        "lfm2",
        TEXT,
        "<|tool_call_start|>[f(c='it's')]<|tool_call_end|>",
        None,
    ),
    (
        "a call that was cut in JSON",
        "dots",
        TEXT,
        f"<dots_function_call>{JSON[:-1]}",
        [{"a": "x"}],
    ),
)


def make(name: str, tools: list[Tool], mode: Arguments, *, repair: bool) -> Ending:
    return Ending(Parser(name, tools, arguments=mode, repair=repair), cut=False)


@pytest.mark.parametrize("mode", ["whole", "live"])
@pytest.mark.parametrize(
    ("name", "properties", "text", "expected", "repair"),
    [
        *(pytest.param(*case, False, id=id_) for id_, *case in CASES),
        *(pytest.param(*case, True, id=id_) for id_, *case in REPAIRED),
    ],
)
def test_a_rare_text_is_read_as_meant_or_not_at_all(
    name: str,
    properties: dict[str, Any],
    text: str,
    expected: list[dict[str, Any]] | None,
    repair: bool,  # noqa: FBT001 - a parameter of the test
    mode: Arguments,
) -> None:
    parameters = {"type": "object", "properties": properties}
    tools = [Tool("python" if "code" in properties else "f", parameters=parameters)]
    make_parser = partial(make, name, tools, mode, repair=repair)
    message = build_message(check_readings(make_parser, text))
    complete = [call.arguments for call in message.tool_calls if call.complete]
    assert complete == (expected or [])
    if expected is None and mode == "whole":
        assert message.text == text
