"""The format `file_tags`: a tag of its own for files, patches and commands."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from laws import check_round_trip
from laws.strategies import TEXT
from penstock import parse
from penstock.errors import UsageError
from penstock.formats.tool_tag import FILE_TAGS
from penstock.messages import ToolCall, ToolResult
from penstock.tools import Tool

TOOLS = [Tool("write_file"), Tool("edit_file"), Tool("run_bash")]


def read_back(text: str) -> list[tuple[str, dict[str, Any]]]:
    message = FILE_TAGS.parse(text, TOOLS)
    assert message.text == ""
    return [(call.name, call.arguments) for call in message.tool_calls]


@settings(max_examples=60)
@given(path=TEXT, content=TEXT)
def test_what_is_written_reads_back(path: str, content: str) -> None:
    check_round_trip(
        lambda value: FILE_TAGS.render_call(ToolCall("", *value[0])),
        read_back,
        [("write_file", {"path": path, "content": content})],
    )


@pytest.mark.parametrize(
    ("name", "arguments", "written"),
    [
        (
            "write_file",
            {"content": "a\n<b>&", "path": 'x "y"'},
            "<write_file path='x \"y\"'>a\n<b>&</write_file>",
        ),
        ("edit_file", {"path": "f", "patch": ""}, '<edit_file path="f"></edit_file>'),
        (
            "run_bash",
            {"background": True, "timeout_seconds": 3, "command": "ls"},
            '<run_bash background="true" timeout_seconds="3">ls</run_bash>',
        ),
    ],
)
def test_a_call_is_written_as_its_tag(name: str, arguments: dict[str, Any], written: str) -> None:
    assert FILE_TAGS.render_call(ToolCall("", name, arguments)) == written
    assert read_back(written) == [(name, arguments)]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        pytest.param("find", {"what": "x"}, id="another tool"),
        pytest.param("write_file", {"content": "x"}, id="no path"),
        pytest.param("write_file", {"path": "a"}, id="no content"),
        pytest.param("write_file", {"path": "a", "content": "</Write_File>"}, id="its own end"),
        pytest.param(
            "write_file", {"path": "a", "content": "", "a b": "w"}, id="no name of an attribute"
        ),
        pytest.param("write_file", {"path": " a", "content": ""}, id="a path with a margin"),
        pytest.param("write_file", {"path": "a", "content": 3}, id="content that is no text"),
        pytest.param("run_bash", {"command": "ls", "background": "maybe"}, id="half a flag"),
        pytest.param("run_bash", {"command": "ls", "timeout_seconds": 1.5}, id="half a second"),
    ],
)
def test_what_a_tag_cannot_say_is_refused(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        FILE_TAGS.render_call(ToolCall("", name, arguments))


EXTENDED = Tool(
    "write_file",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "mode": {"enum": ["append", "replace"]},
            "lineEnd": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "integer"}},
            "force": {"type": "boolean"},
        },
        "required": ["path", "content", "mode", "lines"],
    },
)


@pytest.mark.parametrize(
    "beside",
    [{"mode": "append"}, {"lineEnd": " \n"}, {"lines": [1, 2]}, {"force": True, "mode": "replace"}],
)
def test_what_the_tool_declares_is_an_attribute(beside: dict[str, Any]) -> None:
    arguments = {"path": "a", **beside, "content": "x"}
    text = FILE_TAGS.render_call(ToolCall("", "write_file", arguments))
    (call,) = FILE_TAGS.parse(text, [EXTENDED]).tool_calls
    assert call.arguments == arguments


def test_what_nobody_declares_is_no_argument() -> None:
    text = '<write_file path="a" class="x" content="no" MODE="Append">b</write_file>'
    (call,) = FILE_TAGS.parse(text, [EXTENDED]).tool_calls
    assert call.arguments == {"path": "a", "mode": "append", "content": "b"}


def test_the_prompt_shows_what_a_tool_declares() -> None:
    (call,) = FILE_TAGS.parse(FILE_TAGS.render_tools([EXTENDED]), [EXTENDED]).tool_calls
    assert set(call.arguments) == {"path", "content", "mode", "lines"}


def test_a_result_names_its_tool() -> None:
    text = FILE_TAGS.render_result(ToolResult("c1", "run_bash", "ok"))
    assert text == '<tool_result name="run_bash">ok</tool_result>'


def test_a_result_says_that_the_call_failed() -> None:
    text = FILE_TAGS.render_result(ToolResult("c1", "run_bash", "no", is_error=True))
    assert text == '<tool_result name="run_bash" is_error="true">no</tool_result>'


@pytest.mark.parametrize("inside", ["</tool_result>", "</TOOL_RESULT >", "a </tool_result\n>"])
def test_no_result_ends_before_its_end(inside: str) -> None:
    text = FILE_TAGS.render_result(ToolResult("c1", "run_bash", f"a <b>{inside} c"))
    assert text.lower().count("</tool_result") == 1
    assert "a <b>&lt;/" in text or "a <b>a &lt;/" in text


def test_the_prompt_shows_a_call_that_can_be_read() -> None:
    parameters = {
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    }
    tools = [Tool("find", parameters=parameters), Tool("write_file", parameters=parameters)]
    prompt = FILE_TAGS.render_tools(tools)
    (call,) = FILE_TAGS.parse(prompt, tools).tool_calls
    assert call.name == "write_file"


def test_a_prompt_without_such_tools_has_no_example() -> None:
    assert FILE_TAGS.parse(FILE_TAGS.render_tools([Tool("find")]), TOOLS).tool_calls == []


def test_without_tools_all_is_text() -> None:
    text = '<write_file path="a">b</write_file>'
    assert FILE_TAGS.parse(text).text == text


SHELL = [Tool("run_bash", "", {"properties": {"command": {"type": "string"}, "timeout": {}}})]


@pytest.mark.parametrize(
    "body",
    [
        "comand: ls -la",
        "comman:d ls",
        "command ls -la",
        'command "ls"\ntimeout: 3',
        "ls\ntimeout: 3",
    ],
)
def test_a_damaged_field_of_yaml_is_not_a_command(body: str) -> None:
    calls = parse(f"<run_bash>\n{body}\n</run_bash>", "file_tags", SHELL, repair=True).tool_calls
    assert calls == []


@pytest.mark.parametrize(
    "body", ["command -v git", "cat > a.yaml <<E\ncommand: x\ntimeout: 3\nE", "git log: x", "ls"]
)
def test_a_command_may_look_like_yaml(body: str) -> None:
    (call,) = parse(f"<run_bash>\n{body}\n</run_bash>", "auto", SHELL).tool_calls
    assert call.arguments == {"command": f"\n{body}\n"}
