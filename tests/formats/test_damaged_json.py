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
from penstock.formats.base import message_of
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
    message = message_of(check_readings(lambda: EndedParser(fmt, tools, mode), vector["text"]))
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
        calls.append(message_of([*events, *parser.finish()]).tool_calls)
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
