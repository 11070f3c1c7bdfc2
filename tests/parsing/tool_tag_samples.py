"""A syntax of `<tool name=…>`, tools to call with it, and ways to read that every test takes."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from msgspec import Struct

from laws import check_readings
from laws.checks import read
from parsing.samples import complete_calls, message_of
from penstock.events import Event, ToolCallDelta, ToolCallEnd
from penstock.messages import AssistantMessage
from penstock.parsing import Engine, Syntax
from penstock.readers.tagged.piped_tools import EDIT_FILE, GENERIC, RUN_BASH, WRITE_FILE
from penstock.readers.tagged.tool_tag import ToolReader, ToolTagReader
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

READERS: dict[str, ToolReader] = {
    "write_file": WRITE_FILE,
    "edit_file": EDIT_FILE,
    "run_bash": RUN_BASH,
}
PLANT = Tool(
    "plant",
    parameters={
        "type": "object",
        "properties": {
            "bed": {"type": "string"},
            "rows": {"type": "integer"},
            "kinds": {"type": "array", "items": {"type": "string"}},
            "soil": {
                "type": "object",
                "properties": {"note": {"type": "string"}, "depth": {"type": "number"}},
            },
            "label": {"type": ["string", "null"]},
        },
    },
)
TOOLS = [PLANT, Tool("note"), *map(Tool, READERS)]


class ToolTagSyntax(Syntax, Struct, frozen=True):
    """The tag, with the readers of this module."""

    starts: tuple[str, ...] = ("<tool",)
    folds: bool = True

    def body(self, marker: str) -> ToolTagReader:
        return ToolTagReader(marker, lambda name: READERS.get(name, GENERIC))


make = partial(Engine, ToolTagSyntax(), TOOLS)


def parse(text: str, **options: Any) -> AssistantMessage:
    return message_of(read(make(**options), [text]))


def deltas(events: list[Event]) -> str:
    return "".join(event.arguments for event in events if isinstance(event, ToolCallDelta))


def read_every_way(text: str, mode: Mode) -> list[Event]:
    """Read *text* whole, by characters and at every single cut, which has to be all the same."""
    return check_readings(partial(make, arguments=mode), text)


def check_calls(text: str, expected: list[tuple[str, dict[str, Any]]], shown: str = "") -> None:
    for mode in MODES:
        message = message_of(read_every_way(text, mode))
        assert complete_calls(message) == expected
        assert message.text == shown


def check_cut(text: str, written: str) -> None:
    assert message_of(read_every_way(text, "whole")).text == text
    events = read_every_way(text, "live")
    (end,) = [event for event in events if isinstance(event, ToolCallEnd)]
    assert not end.call.complete
    assert deltas(events) == written
    assert "".join(event.raw for event in events) == text
