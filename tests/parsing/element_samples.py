"""Tools whose calls are elements, and a parser of them."""

from __future__ import annotations

from typing import Any, Literal

from laws.checks import read
from parsing.samples import message_of
from penstock.messages import AssistantMessage
from penstock.parsing import Engine
from penstock.readers.elements import ElementCalls
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

WRITE = Tool(
    "write",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "note": {"type": ["string", "null"]},
            "mode": {"type": "integer"},
            "unit": {"enum": ["kg", "lb"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}, "line": {"type": "integer"}},
                },
            },
            "meta": {"type": "object"},
        },
    },
)
TOOLS = [WRITE, Tool("ping"), Tool("math.sum-v2:x", parameters={"properties": {"a": {}}})]
SYNTAX = ElementCalls.of(TOOLS)


def parser(mode: Mode = "whole", **options: Any) -> Engine:
    return Engine(SYNTAX, TOOLS, arguments=mode, **options)


def parse(text: str, **options: Any) -> AssistantMessage:
    return message_of(read(parser(**options), [text]))
