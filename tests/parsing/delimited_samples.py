"""Calls that are spelled out, with marks around texts, as the tests of their reader write them."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from parsing.samples import message_of
from penstock.messages import AssistantMessage
from penstock.parsing import Engine, Syntax
from penstock.readers.delimited import DelimitedReader, Delimiters
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

MARKS = Delimiters("<|tool_call>", "<tool_call|>", '<|"|>')


class Spelled(Syntax, Struct, frozen=True):
    """Calls with those marks."""

    starts: tuple[str, ...] = (MARKS.start,)
    folds: bool = False

    def body(self, marker: str) -> DelimitedReader:
        del marker
        return DelimitedReader(MARKS)


SYNTAX = Spelled()

TOOLS = [
    Tool(
        "write",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "mode": {"type": "integer"},
                "note": {"type": ["string", "null"]},
                "size": {"type": ["string", "integer"]},
                "sure": {"type": "boolean"},
                "unit": {"enum": ["1", "kg"]},
                "any": {},
                "tags": {"type": "array", "items": {"type": "string"}},
                "plan": {
                    "type": "object",
                    "properties": {"at": {"type": "string"}, "n": {"type": "integer"}},
                },
            },
            "required": ["path"],
        },
    ),
    Tool("ping"),
]


def spelled(text: str) -> str:
    """Write the marks: ``«`` and ``»`` around a call, ``~`` around a text."""
    marks = {"«": MARKS.start + "call:", "»": MARKS.end, "~": MARKS.quote}
    for short, mark in marks.items():
        text = text.replace(short, mark)
    return text


def parse(text: str, *, cut: bool = True, **options: Any) -> AssistantMessage:
    parser = Engine(SYNTAX, TOOLS, **options)
    return message_of([*parser.feed(spelled(text)), *parser.finish(cut)])
