"""Calls as elements, as formats: what is written, that it reads back, and the laws."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laws import (
    check_readings,
    check_round_trip,
    cut_at,
)
from laws.strategies import ANY_TEXT, ARGUMENTS, CUTS, JSON_VALUES, NAMES, soup
from parsing.element_samples import MODES, TOOLS, Mode
from parsing.samples import complete_calls, message_of
from penstock.errors import UsageError
from penstock.events import Event, ToolCallDelta
from penstock.formats import Format
from penstock.formats.morph_xml import MORPH_XML, QWEN_WEB, ElementStyle
from penstock.formats.round_trip import infer_schema
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool

FORMATS = [MORPH_XML, QWEN_WEB]
BY_NAME = pytest.mark.parametrize("format_", FORMATS, ids=lambda format_: format_.name)


# --- calls that are written ---


WRITTEN = {
    "no arguments": ({}, "<do></do>"),
    "a text": ({"a": "x"}, "<do><a>x</a></do>"),
    "numbers and booleans": (
        {"a": 1, "b": 2.5, "c": True},
        "<do><a>1</a><b>2.5</b><c>true</c></do>",
    ),
    "markup and entities": (
        {"a": "a < b && '</a>' ]]> \"&amp;\""},
        "<do><a>a &lt; b &amp;&amp; &apos;&lt;/a&gt;&apos; ]]&gt; &quot;&amp;amp;&quot;</a></do>",
    ),
    "a newline at either end": ({"a": "\nx\n"}, "<do><a>\nx\n</a></do>"),
    "control characters": ({"a": "\x00\r\n\x1b"}, "<do><a>\x00\r\n\x1b</a></do>"),
    "a list": ({"a": ["x", "y"]}, "<do><a>x</a><a>y</a></do>"),
    "a list of one": ({"a": ["x"]}, "<do><a>x</a></do>"),
    "a list of one that looks like several": (
        {"a": ["x, y"]},
        "<do><a><item>x, y</item></a></do>",
    ),
    "a list of none": ({"a": []}, "<do><a></a></do>"),
    "a list of an empty text": ({"a": [""]}, "<do><a><item></item></a></do>"),
    "lists in a list": (
        {"a": [[1, 2], [3]]},
        "<do><a><item>1</item><item>2</item></a><a><item>3</item></a></do>",
    ),
    "an empty list in a list": ({"a": [[1], []]}, "<do><a>[[1],[]]</a></do>"),
    "a list of many kinds": ({"a": [1, "<b>", None]}, '<do><a>[1,"\\u003cb\\u003e",null]</a></do>'),
    "objects in a list": (
        {"a": [{"b": "x"}, {"b": "y"}]},
        "<do><a><b>x</b></a><a><b>y</b></a></do>",
    ),
    "an object": ({"a": {"b": "x", "c": 1}}, "<do><a><b>x</b><c>1</c></a></do>"),
    "an empty object": ({"a": {}}, "<do><a></a></do>"),
    "null": ({"a": None}, "<do><a>null</a></do>"),
    "null in an object": ({"a": {"b": None}}, "<do><a><b>null</b></a></do>"),
    "a key that no tag can have, in an object": (
        {"a": {"x y": "&"}},
        '<do><a>{"x y":"\\u0026"}</a></do>',
    ),
    "keys that mean attributes": ({"a": {"@b": 1}}, '<do><a>{"@b":1}</a></do>'),
    "an argument called like the tool": (
        {"do": "</do>"},
        "<do><do>&lt;/do&gt;</do></do>",
    ),
}


@pytest.mark.parametrize(("arguments", "text"), WRITTEN.values(), ids=WRITTEN)
def test_a_call_is_one_element_with_an_element_for_each_argument(
    arguments: dict[str, Any], text: str
) -> None:
    assert MORPH_XML.render_call(ToolCall("", "do", arguments)) == text


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("x", "x", id="plain"),
        pytest.param("\nx", "\n\nx", id="a newline before"),
        pytest.param("x\n", "x\n\n", id="a newline behind"),
        pytest.param("\n", "\n\n\n", id="nothing but a newline"),
    ],
)
def test_what_a_reader_takes_off_is_written_twice(value: str, written: str) -> None:
    call = ToolCall("", "do", {"a": value, "b": [value, "y"], "c": {"d": value}})
    assert QWEN_WEB.render_call(call) == (
        f"<do>\n<a>{written}</a>\n<b>{written}</b>\n<b>y</b>\n<c><d>{written}</d></c>\n</do>"
    )


@BY_NAME
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("a b", {}, id="a name that no tag can have"),
        pytest.param("do", {"a b": 1}, id="an argument that no tag can be named after"),
        pytest.param("do", {"": 1}, id="an argument without a name"),
        pytest.param("do", {"a": float("nan")}, id="no number"),
        pytest.param("do", {"a": [float("inf")]}, id="a number without end"),
        pytest.param("do", {"a": {1, 2}}, id="no JSON value"),
    ],
)
def test_what_elements_cannot_carry_is_refused(
    format_: Format, name: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        format_.render_call(ToolCall("", name, arguments))


def read_back(format_: Format, call: ToolCall, text: str) -> list[tuple[str, dict[str, Any]]]:
    tools = [Tool(call.name, parameters=infer_schema(call.arguments))]
    return complete_calls(format_.parse(text, tools))


NAMED_ARGUMENTS = st.dictionaries(
    NAMES, JSON_VALUES | ANY_TEXT | st.lists(ANY_TEXT, max_size=3), max_size=4
)


@settings(max_examples=100)
@given(name=NAMES, arguments=NAMED_ARGUMENTS | ARGUMENTS, format_=st.sampled_from(FORMATS))
def test_what_is_written_reads_back(name: str, arguments: dict[str, Any], format_: Format) -> None:
    call = ToolCall("", name, arguments)
    check_round_trip(
        lambda _: format_.render_call(call),
        lambda text: read_back(format_, call, text),
        [(name, arguments)],
    )


@settings(max_examples=100)
@given(text=ANY_TEXT, format_=st.sampled_from(FORMATS))
def test_no_text_is_refused(text: str, format_: Format) -> None:
    call = ToolCall("", "do", {"a": text, "b": [text], "c": {"d": text}})
    assert read_back(format_, call, format_.render_call(call)) == [("do", call.arguments)]


# --- results and the prompt ---


@pytest.mark.parametrize(
    ("content", "result"),
    [
        pytest.param("if a < b: 'x'", "if a &lt; b: 'x'", id="text"),
        pytest.param({"a": [1, 2]}, "<a>1</a><a>2</a>", id="an object"),
        pytest.param([1, 2], "<item>1</item><item>2</item>", id="a list"),
        pytest.param({"a b": 1}, '{"a b":1}', id="what elements cannot carry"),
        pytest.param(None, "null", id="null"),
    ],
)
def test_a_result_is_an_element_too(content: object, result: str) -> None:
    written = MORPH_XML.render_result(ToolResult("call_1", "do", content))
    assert written == (
        f"<tool_response><tool_name>do</tool_name><result>{result}</result></tool_response>"
    )


def test_results_stand_on_lines_where_calls_do() -> None:
    written = QWEN_WEB.render_result(ToolResult("call_1", "do", "ok"))
    assert written == (
        "<tool_response>\n<tool_name>do</tool_name>\n<result>ok</result>\n</tool_response>"
    )


@BY_NAME
def test_the_prompt_shows_the_tools_and_a_call_that_reads_back(format_: Format) -> None:
    prompt = format_.render_tools(TOOLS)
    assert '{"name":"write","parameters":{"type":"object"' in prompt
    assert [name for name, _ in complete_calls(format_.parse(prompt, TOOLS))] == ["write"]


# --- answers ---


DOCUMENT = {
    "a call behind text": (
        "I'll read the file.\n\n<read>\n<filePath>/a/package.json</filePath>\n</read>",
        "I'll read the file.",
        [("read", {"filePath": "/a/package.json"})],
    ),
    "texts on lines of their own": (
        "<read>\n<filePath>\n/a\n</filePath>\n<options>\n<label>\n\nx\n</label>\n</options>\n</read>",
        "",
        [("read", {"filePath": "/a", "options": {"label": "\nx"}})],
    ),
    "a list of items": (
        "<read>\n<lines>\n  <item>\na\n</item>\n  <item>b</item>\n</lines>\n</read>",
        "",
        [("read", {"lines": ["a", "b"]})],
    ),
    "text behind a call, and another": (
        "<read><filePath>a</filePath></read>\nand\n<read><filePath>b</filePath></read>",
        "and",
        [("read", {"filePath": "a"}), ("read", {"filePath": "b"})],
    ),
    "a text that is never closed": (
        "<read><filePath>/test.js</read>",
        "<read><filePath>/test.js</read>",
        [],
    ),
    "a malformed call": (
        "<read><lines>/test.js</read>",
        "<read><lines>/test.js</read>",
        [],
    ),
    "a cut call": (
        "Let me.\n\n<read>\n<filePath>/test",
        "Let me.\n\n<read>\n<filePath>/test",
        [],
    ),
    "a tag that is no tool": ("<b>bold</b>", "<b>bold</b>", []),
}
READ = Tool(
    "read",
    parameters={
        "properties": {
            "filePath": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "string"}},
            "options": {"type": "object", "properties": {"label": {"type": "string"}}},
        }
    },
)


@pytest.mark.parametrize(("text", "shown", "calls"), DOCUMENT.values(), ids=DOCUMENT)
def test_answers_of_the_web_chat_are_read_at_every_cut(
    text: str, shown: str, calls: list[tuple[str, dict[str, Any]]]
) -> None:
    make = partial(QWEN_WEB.parser, [READ], trim=True)
    message = message_of(check_readings(make, text))
    assert (message.text, complete_calls(message)) == (shown, calls)


def test_the_first_of_two_texts_stands_where_the_format_says_so() -> None:
    format_ = Format("mine", ElementStyle(duplicates="first"))
    text = "<read><filePath>a</filePath><filePath>b</filePath></read>"
    assert complete_calls(format_.parse(text, [READ])) == [("read", {"filePath": "a"})]
    assert format_.call_segments(text, [READ]) == [text]


@BY_NAME
def test_a_text_leaves_as_it_comes(format_: Format) -> None:
    reader = format_.parser([READ], arguments="live")
    reader.feed("<read><filePath>x")
    for character in '/a b\\"é😀':
        (event,) = reader.feed(character)
        assert isinstance(event, ToolCallDelta)
        assert event.raw == character


PIECES = soup(
    "<write>", "</write>", "<write/>", "<ping></ping>", "<path>a</path>", "<path>", "</path>",
    "<path/>", "<content>\nx &amp; y\n</content>", "<content>\n", "\n</content>", "<mode>3</mode>",
    "<tags><item>\na\n</item></tags>", "<edits><old>\n</old> b</old></edits>", "<!-- ", "-->",
    "<think>", "</think>", "</write >\n",
)  # fmt: skip


class EndsByItself:
    """A parser whose answer the model ended, or that was *cut*."""

    def __init__(self, format_: Format, *, cut: bool, **options: Any) -> None:
        self._reader = format_.parser(TOOLS, **options)
        self._cut = cut
        self.feed = self._reader.feed

    @property
    def rest(self) -> str:
        return self._reader.rest

    def finish(self) -> list[Event]:
        return self._reader.finish(self._cut)


@settings(max_examples=250)
@given(
    text=PIECES | PIECES.map(lambda text: f"<write>{text}</write>") | PIECES.map("<write>".__add__),
    cuts=CUTS,
    mode=st.sampled_from(MODES),
    format_=st.sampled_from(FORMATS),
    repair=st.booleans(),
    cut=st.booleans(),
)
def test_the_laws_hold_with_and_without_repair(
    text: str,
    cuts: list[int],
    mode: Mode,
    format_: Format,
    repair: bool,  # noqa: FBT001
    cut: bool,  # noqa: FBT001
) -> None:
    make = partial(EndsByItself, format_, cut=cut, arguments=mode, repair=repair)
    check_readings(make, text, [cut_at(text, cuts)])
