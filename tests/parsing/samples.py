"""Syntaxes and tools that the tests of the engine read with."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from laws.checks import read
from penstock import MessageBuilder
from penstock.events import Event
from penstock.messages import AssistantMessage, ToolCall
from penstock.parsing import Engine, Syntax
from penstock.readers.json_calls import JSONCallReader
from penstock.tools import Tool


class TaggedJSON(Syntax, Struct, frozen=True):
    """JSON between two markers."""

    start: str
    end: str
    folds: bool = False

    @property
    def starts(self) -> tuple[str, ...]:
        return (self.start,)

    def body(self, marker: str) -> JSONCallReader:
        del marker
        return JSONCallReader(self.end)


HERMES = TaggedJSON("<tool_call>", "</tool_call>")
FENCES = TaggedJSON("```tool_call\n", "\n```")

TOOLS = [
    Tool(
        "write",
        parameters={
            "type": "object",
            "properties": {
                "path": {"type": "string"},
                "mode": {"type": "integer"},
                "unit": {"enum": ["kg", "lb"]},
            },
        },
    )
]


def message_of(events: list[Event]) -> AssistantMessage:
    builder = MessageBuilder()
    for event in events:
        builder.add(event)
    return builder.message


def parse(text: str, *, syntax: TaggedJSON = HERMES, **options: Any) -> AssistantMessage:
    return message_of(read(Engine(syntax, TOOLS, **options), [text]))


def complete_calls(message: AssistantMessage) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments) for call in message.tool_calls if call.complete]


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("call_1", name, arguments)
