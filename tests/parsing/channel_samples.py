"""A machine that reads messages with headers, whatever state the prompt left the answer in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

from laws import check_readings
from parsing.samples import message_of
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall
from penstock.parsing import Engine, Syntax
from penstock.tools import Tool

Mode = Literal["whole", "live"]
MODES: tuple[Mode, ...] = ("whole", "live")

NOTE = Tool(
    "note",
    parameters={
        "type": "object",
        "properties": {"text": {"type": "string"}, "size": {"type": "integer"}},
    },
)
PYTHON = Tool("python", parameters={"properties": {"code": {"type": "string"}}})
TOOLS = (NOTE, PYTHON)


def parse(
    syntax: Syntax,
    text: str,
    *,
    tools: Sequence[Tool] = (),
    prompt: str = "",
    mode: Mode = "whole",
    **options: Any,
) -> AssistantMessage:
    """Read *text* at every cut, by the laws; give the message."""
    make = partial(Engine, syntax, tools, prompt_suffix=prompt, arguments=mode, **options)
    return message_of(check_readings(make, text))


def parts(message: AssistantMessage) -> list[Any]:
    """Give the blocks of *message*: a thought as a list, text as it is, a call as a pair."""
    found: list[Any] = []
    for block in message.content:
        if isinstance(block, Thinking):
            found.append([block.text])
        elif isinstance(block, Text):
            found.append(block.text)
        elif isinstance(block, ToolCall):
            found.append((block.name, block.arguments if block.complete else None))
    return found
