"""Calls with a YAML mapping inside: plain strings stream, and the cut never matters."""

from __future__ import annotations

from functools import partial

import pytest

from laws.readings import check_readings
from penstock import Parser, parse
from penstock.events import ToolCallDelta
from penstock.messages import ToolCall
from penstock.parsing import Arguments
from penstock.tools import Tool

TEXT = {"type": "string"}
TOOLS = [
    Tool(
        "write_file",
        "",
        {
            "type": "object",
            "properties": {
                "path": TEXT,
                "content": TEXT,
                "mode": {"type": "integer"},
                "tags": {"type": "array", "items": TEXT},
            },
        },
    )
]


def call_with(**arguments: object) -> ToolCall:
    return ToolCall("call_1", "write_file", arguments)


def test_a_plain_string_streams_before_its_line_ends() -> None:
    parser = Parser("yaml_xml", TOOLS, arguments="live")
    parser.feed("<write_file>\npath: src/ma")
    (delta,) = parser.feed("in.py")
    assert isinstance(delta, ToolCallDelta)
    assert (delta.arguments, delta.raw) == ("in.py", "in.py")


READ = {
    "a comment is not part of it": ("path: a.py # new", call_with(path="a.py")),
    "a sign of a comment inside a word is": ("path: a#b", call_with(path="a#b")),
    "white space at the end is not": ("path: a b \t\nmode: 7", call_with(path="a b", mode=7)),
    "carriage returns are not": ("path: a\r\nmode: 7\r", call_with(path="a", mode=7)),
    "it continues on an indented line": ("path: a\n  b\nmode: 7", call_with(path="a b", mode=7)),
    "it looks like a number": ("path: 12", call_with(path="12")),
    "it has a tag in it": ("path: a <b> c", call_with(path="a <b> c")),
    "unquoted text of several lines": (
        "content: def f():  # go\nreturn 1\nmode: 7",
        call_with(content="def f():  # go\nreturn 1", mode=7),
    ),
    "a mapping of two lines": (
        "content: version: 3\nname: web",
        call_with(content="version: 3\nname: web"),
    ),
    "unquoted text of three lines": ("content: a\nb\nc", call_with(content="a\nb\nc")),
    "an empty value": ("path:\nmode: 7", call_with(path=None, mode=7)),
    "a list without brackets": ("tags: a, b", call_with(tags=["a", "b"])),
}


@pytest.mark.parametrize(("body", "expected"), READ.values(), ids=READ)
def test_a_plain_string_is_read_at_every_cut(body: str, expected: ToolCall) -> None:
    text = f"<write_file>\n{body}\n</write_file> ok"
    assert parse(text, "yaml_xml", TOOLS).tool_calls == [expected]
    modes: tuple[Arguments, ...] = ("whole", "live")
    for arguments in modes:
        check_readings(partial(Parser, "yaml_xml", TOOLS, arguments=arguments), text)


BROKEN = {
    "a list that lost its first bracket and quote": 'tags: delta", "echo"]',
    "a list that lost its first bracket": 'tags: "delta", "echo"]',
    "a token that ends the turn": "path: a <|im_end|> b",
    "a key that came twice before it broke": "path: <b>\npath: a.py\ncontent< x",
    "a carriage return for a value": "path: \r\nmode: 7\npath: [1, 2]x",
    "a sentence between two fields": "path: a.py\nI will wait.\nmode: 7",
    "a closing tag between two fields": "path: a.py\n</parameter>\nmode: 7",
    "a field without a name": 'path: a.py\n: "-a"',
    "a field with a damaged name": 'path: a.py\ncont{ent: "-a"',
    "two fields on one line": "path: a.py, content: x",
    "a string that lost its first quote": 'content: hello there"\nmode: 7',
    "a block that lost the sign of its header": "content: -\n  a\n  b",
    "a field with a letter missing, in the text before": "path: a.py\nconten:t |-\n  x\nmode: 7",
    "a token in a list": "path: a\ntags: [<turn|>]",
    "a sentence in a list": "path: a\ntags: [ I should wait here. ]",
    "a key without a value in an object": 'path: a\ntags: [{"eqc"}]',
    "a token after unquoted text": "path: x\n<|im_end|><write_file>content:mode: 7\n</  x",
}


@pytest.mark.parametrize("repair", [False, True], ids=["as it is", "repaired"])
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_broken_value_makes_no_complete_call_at_any_cut(body: str, *, repair: bool) -> None:
    text = f"<write_file>\n{body}\n</write_file>"
    modes: tuple[Arguments, ...] = ("whole", "live")
    for arguments in modes:
        make = partial(Parser, "yaml_xml", TOOLS, arguments=arguments, repair=repair)
        check_readings(make, text)
        calls = parse(text, "yaml_xml", TOOLS, arguments=arguments, repair=repair).tool_calls
        assert not any(call.complete for call in calls)


@pytest.mark.parametrize("end", ["", "<|im_end|>", "<eos>"])
@pytest.mark.parametrize("begun", ["content:", "content: |", "content: |-\n  ", "content: >\n"])
def test_a_field_without_any_of_its_value_is_not_repaired(begun: str, end: str) -> None:
    text = f"<write_file>\npath: a.py\n{begun}{end}"
    modes: tuple[Arguments, ...] = ("whole", "live")
    for arguments in modes:
        calls = parse(text, "yaml_xml", TOOLS, arguments=arguments, repair=True).tool_calls
        assert not [call for call in calls if call.complete]


def test_a_call_without_its_end_tag_is_repaired() -> None:
    calls = parse("<write_file>\npath: a.py\nmode: 7", "yaml_xml", TOOLS, repair=True).tool_calls
    assert calls == [
        ToolCall("call_1", "write_file", {"path": "a.py", "mode": 7}, True, ["closed the call"])
    ]
