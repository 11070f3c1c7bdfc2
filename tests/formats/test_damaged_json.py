"""Law 11 for calls in JSON: damaged calls are exactly what was meant, or no complete calls.

The vectors are the known members of the class, with repair: whole, by characters and at every cut,
in both modes. The other tests say the same of every format that has JSON inside.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from laws import check_readings
from penstock.events import Event
from penstock.formats import Format
from penstock.formats.base import build_message
from penstock.formats.registry import BUILT_IN
from penstock.messages import ToolCall
from penstock.parsing import Arguments, Engine
from penstock.tools import Tool, read_tools

VECTORS: Final = [
    pytest.param(vector, id=f"{vector['id']}: {vector['why']}")
    for vector in map(
        json.loads,
        (Path(__file__).parents[1] / "vectors" / "damaged_json.jsonl").read_text().splitlines(),
    )
]
MODES: Final[tuple[Arguments, ...]] = ("whole", "live")
FORMATS: Final = {fmt.name: fmt for fmt in BUILT_IN}
F: Final = Tool(
    "f",
    "Do it",
    {
        "type": "object",
        "properties": {
            "a": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "n": {"type": "integer"},
        },
    },
)
STRING: Final = ToolCall("", "f", {"a": "use QstrictQ; x"})
HIDDEN: Final = '"use QstrictQ; x'


def has_json(fmt: Format) -> bool:
    """Tell whether the format writes a string argument in the quotes of JSON."""
    try:
        written = fmt.render_call(STRING).replace('\\"', '"')
    except Exception:  # noqa: BLE001 - it renders no calls of this tool
        return False
    return f'{HIDDEN}"' in written and '"a"' in written


JSON_FORMATS: Final = [
    pytest.param(fmt, id=fmt.name)
    for fmt in BUILT_IN
    if fmt.name not in {"auto", "none"} and has_json(fmt)
]


class EndedParser:
    """Reads an answer that the model ended by itself, with repair."""

    def __init__(self, fmt: Format, tools: list[Tool], mode: Arguments) -> None:
        self._parser: Engine = fmt.parser(tools, arguments=mode, repair=True)

    @property
    def rest(self) -> str:
        return self._parser.rest

    def feed(self, text: str) -> list[Event]:
        return self._parser.feed(text)

    def finish(self) -> list[Event]:
        return self._parser.finish(cut=False)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("vector", VECTORS)
def test_a_damaged_call_is_what_was_meant_or_none(vector: dict[str, Any], mode: Arguments) -> None:
    fmt, tools = FORMATS[vector["format"]], read_tools(vector["tools"])
    message = build_message(check_readings(lambda: EndedParser(fmt, tools, mode), vector["text"]))
    complete = [call for call in message.tool_calls if call.complete]
    expect = vector["expect"]
    wanted = expect["calls"] if mode == "whole" else expect.get("live", expect["calls"])
    assert [{"name": call.name, "arguments": call.arguments} for call in complete] == wanted
    if mode == "whole":
        assert message.text.strip() == (expect["content"] or "").strip()
    for call in complete:
        assert set(expect.get("repairs", ())) <= set(call.repairs)
        assert call.repairs or not expect.get("is_repaired", True)


def read_damaged(fmt: Format, text: str, mode: Arguments) -> list[ToolCall]:
    calls = []
    for chunks in ([text], [*text]):
        parser = EndedParser(fmt, [F], mode)
        events = [event for chunk in chunks for event in parser.feed(chunk)]
        calls.append(build_message([*events, *parser.finish()]).tool_calls)
    assert [(call.arguments, call.complete) for call in calls[0]] == [
        (call.arguments, call.complete) for call in calls[1]
    ]
    return [call for call in calls[0] if call.complete]


def test_there_are_forty_formats_with_json_inside() -> None:
    assert len(JSON_FORMATS) >= 40


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", JSON_FORMATS)
def test_quotes_that_were_not_escaped_stay_in_the_string(fmt: Format, mode: Arguments) -> None:
    (call,) = read_damaged(fmt, fmt.render_call(STRING).replace("Q", '"'), mode)
    assert (call.name, call.arguments) == ("f", {"a": 'use "strict"; x'})
    assert call.repairs


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", JSON_FORMATS)
def test_a_missing_quote_leaves_no_marker_in_the_string(fmt: Format, mode: Arguments) -> None:
    written = fmt.render_call(ToolCall("", "f", {"a": "ls -la"}))
    for quote in ('\\"', '"'):
        written = written.replace(f"ls -la{quote}", "ls -la")
    for text in (written, written[: written.index("ls -la") + 6] + "<|im_end|>"):
        assert [call.arguments for call in read_damaged(fmt, text, mode)] in ([], [{"a": "ls -la"}])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fmt", JSON_FORMATS)
def test_a_scalar_for_an_array_is_a_list_and_coercion_is_noted(
    fmt: Format, mode: Arguments
) -> None:
    written = fmt.render_call(ToolCall("", "f", {"tags": ["x"], "n": 70707}))
    for quote in ('\\"', '"'):
        written = written.replace("70707", f"{quote}70707{quote}") if quote in written else written
    written = written.replace('["x"]', '"x"').replace('[\\"x\\"]', '\\"x\\"')
    for call in read_damaged(fmt, written, mode):
        assert call.arguments == {"tags": ["x"], "n": 70707}
        assert "coerced n from string to integer" in call.repairs


TWO: Final = [
    F,
    Tool("g", "Do another", {"type": "object", "properties": {"city": {"type": "string"}}}),
    Tool(
        "find",
        "Find",
        {
            "type": "object",
            "properties": {
                "where": {"type": "object", "properties": {"glob": {"type": "string"}}},
                "limit": {"type": "integer"},
            },
        },
    ),
]
UNCLEAR: Final = {
    "a call that is begun again inside a string": (
        '{"name":"f","arguments":{"a":"two wor\n{"name":"f","arguments":{"a":"two words"}}'
    ),
    "a call that is begun again inside a key": (
        '{"name":"find","arguments":{"where":{"gl{"name":"find","arguments":{"where":{}}}'
    ),
    "a closing quote of another kind": '{"name":"f","arguments":{"a":"Oslo\'}}',
    "a quote of another kind before a value": '{"name":"f","arguments":{"a":\'"Oslo"}}',
    "escapes without the opening quote": '{"name":"f","arguments":{"a":C:\\\\new\\\\x"}}',
    "an unescaped quote at the end of a regular expression": (
        r'{"name":"f","arguments":{"a":"\\"([^\\"]|\\.)*\\""}}'
    ),
    "a quote and a comma missing in a list": (
        r'{"name":"f","arguments":{"tags":["x, "\\\"y\\\""]}}'
    ),
    "a word before an item": '{"name":"f","arguments":{"tags":[OK "x"]}}',
    "backticks with a backslash": '{"name":"f","arguments":{"a":`\\d\\"`}}',
    "arguments after the arguments": '{"name":"f","arguments":{"a":"x"},"n":3}}',
    "two calls in one object": (
        '{"name":"f","arguments":{"a":"x"},"name":"g","arguments":{"city":"Oslo"}}'
    ),
}


@pytest.mark.parametrize("repair", [True, False], ids=["repair", "strict"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["hermes", "auto", "granite_20b_fc"])
@pytest.mark.parametrize("why", UNCLEAR)
def test_a_call_that_is_not_clear_is_not_complete(
    why: str, name: str, mode: Arguments, *, repair: bool
) -> None:
    body = UNCLEAR[why]
    start, end = ("<tool_call>", "</tool_call>")
    if name == "granite_20b_fc":
        start, end = ("<function_call> ", "")
    parser = FORMATS[name].parser(TWO, arguments=mode, repair=repair)
    events = [*parser.feed(f"{start}{body}{end}"), *parser.finish(cut=False)]
    calls = build_message(events).tool_calls
    meant: dict[str, Any] = {"a": "two words"} if "again inside a string" in why else {"where": {}}
    assert [call for call in calls if call.complete and call.arguments != meant] == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("gap", ["", " "], ids=["glued", "apart"])
def test_a_key_without_its_closing_quote_is_read(mode: Arguments, gap: str) -> None:
    parser = FORMATS["hermes"].parser(TWO, arguments=mode, repair=True)
    body = '{"name":"f","arguments":{"a:' + gap + '"Oslo","n":3}}'
    events = [*parser.feed(f"<tool_call>{body}</tool_call>"), *parser.finish(cut=False)]
    [call] = build_message(events).tool_calls
    assert (call.complete, call.arguments) == (True, {"a": "Oslo", "n": 3})


DECLARED: Final = Tool("f", "", {"properties": {"a": {}, "b": {}, "tool_call": {}}})


@pytest.mark.parametrize("name", ["auto", "bare_json", "granite", "llama3_json", "xlam"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("end", ["", "\n"], ids=["nothing after it", "a newline after it"])
def test_a_bare_call_that_breaks_at_the_end_of_a_response_is_kept(
    name: str, mode: Arguments, end: str
) -> None:
    text = '{"name": "f", "arguments": {"a": 1}, "b": 2}' + end
    message = build_message(
        check_readings(lambda: FORMATS[name].parser([DECLARED], arguments=mode), text)
    )
    if mode == "whole":
        assert message.text == text
    else:
        assert [call.complete for call in message.tool_calls] == [False]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ('{"tool_call": {"name": "f", "arguments": {"a": 1}}}', [True]),
        ('{"tool_call": {"name": "f", "arguments": {"a": 1}}, "tool_call": {}}', [False]),
        ('{"tool_call": {"name": "f", "arguments": {"a": 1}, "tool_call": 2}}', [False]),
    ],
    ids=["around the call", "after the call", "after the arguments"],
)
def test_the_key_around_a_call_may_be_an_argument(
    mode: Arguments, text: str, complete: list[bool]
) -> None:
    fmt = FORMATS["generic_json"]
    calls = build_message(
        check_readings(lambda: fmt.parser([DECLARED], arguments=mode), text)
    ).tool_calls
    shown = complete if mode == "live" else [True for one in complete if one]
    assert [call.complete for call in calls] == shown
