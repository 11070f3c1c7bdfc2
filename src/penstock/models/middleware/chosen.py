"""The tool-choice stream: one whole answer, read as one JSON object, becomes one call.

The upstream was held to ``{"name": …, "arguments": …}``, so nothing is streamed: the first text of
the answer is the call. What cannot be read is a call of ``unknown`` without arguments that is not
complete: visible, told to `on_error`, never executed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final, Literal

from penstock import _json, values
from penstock.errors import JSONParseError, ParseError
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import UNKNOWN, AssistantMessage, Content, Text, Thinking, ToolCall
from penstock.models.middleware.choice import Demand
from penstock.parsing.errors import BrokenCall, OnError
from penstock.values.coercion import describe_change

_UNREADABLE: Final = "the answer to a tool choice is no JSON object with a name and arguments"
_NOT_OFFERED: Final = "the answer to a tool choice calls a tool that was not chosen"


def chosen_events(
    message: AssistantMessage, demand: Demand, call_id: str, on_error: OnError | None
) -> list[Event]:
    """Give the events of the call that *message* is, and of the thoughts before it."""
    start = MessageStart(message.id, message.model)
    if message.error is not None:
        reason: Literal["aborted", "error"] = (
            "aborted" if message.stop_reason == "aborted" else "error"
        )
        kept = _ended(message, [], reason)
        return [start, Failed(reason, message.error, kept)]
    text = next((block.text for block in message.content if isinstance(block, Text)), "")
    call = _call(text, message, demand, call_id, on_error)
    content: list[Content] = [b for b in message.content if isinstance(b, Thinking)]
    events = [event for at, block in enumerate(content) for event in _thought(at, block)]
    arguments = _json.encode(call.arguments).decode()
    at = len(content)
    events += [
        ToolCallStart(at, call.id, call.name, text),
        ToolCallDelta(at, arguments),
        ToolCallEnd(at, call),
    ]
    end = _end_of(call, message)
    return [start, *events, Done(end, _ended(message, [*content, call], end))]


def _end_of(call: ToolCall, message: AssistantMessage) -> Literal["stop", "length", "tool_use"]:
    """Say how the answer ends: as a call, also as one of `unknown`, which nobody can run."""
    if not call.complete and message.stop_reason == "length":
        return "length"
    return "tool_use" if call.complete or call.name == UNKNOWN else "stop"


def _ended(message: AssistantMessage, content: list[Content], reason: Any) -> AssistantMessage:
    return AssistantMessage(
        message.id,
        message.model,
        content,
        reason,
        message.raw_stop_reason,
        message.usage,
        message.error,
    )


def _thought(at: int, block: Content) -> list[Event]:
    if not isinstance(block, Thinking):
        return []
    return [
        ThinkingStart(at),
        ThinkingDelta(at, block.text),
        ThinkingEnd(at, block.text, block.signature),
    ]


def _call(
    text: str, message: AssistantMessage, demand: Demand, call_id: str, on_error: OnError | None
) -> ToolCall:
    """Read *text* as one call; what was cut by the limit is read, but never complete."""
    was_cut = message.stop_reason == "length"
    try:
        value, repairs, was_open = _read(text, strictly=was_cut)
        name, arguments = _parts(value)
    except ParseError as error:
        _tell(on_error, _UNREADABLE, BrokenCall(text, "", error))
        return ToolCall(call_id, UNKNOWN, {}, complete=False)
    tool = next((tool for tool in demand.tools if tool.name == name), None)
    if tool is None:
        _tell(on_error, _NOT_OFFERED, BrokenCall(text, name, ParseError(_NOT_OFFERED)))
        return ToolCall(call_id, name, arguments, complete=False)
    coerced = values.coerce(arguments, tool.parameters)
    fitting = coerced if isinstance(coerced, dict) else arguments
    notes = [
        describe_change(key, arguments[key], value)
        for key, value in fitting.items()
        if key in arguments and value is not arguments[key]
    ]
    return ToolCall(call_id, name, fitting, complete=not was_open, repairs=repairs + notes)


def _read(text: str, *, strictly: bool) -> tuple[object, list[str], bool]:
    """Read the JSON in *text*; give its value, the repairs, and whether its end was made up.

    A call whose end has to be made up is not complete (decision 8), whatever the upstream called
    the end, and neither is one of which a part was guessed.
    """
    try:
        return _json.decode(text), [], False
    except JSONParseError:
        if strictly:
            raise
    try:
        value, repairs = values.rjson.repair(text, guess=False)
    except JSONParseError:
        return *values.rjson.repair(text), True
    return value, repairs, values.rjson.closes_text(repairs)


def _parts(value: object) -> tuple[str, dict[str, Any]]:
    """Take the name and the arguments out of *value*; raise `ParseError` where they are not."""
    if not isinstance(value, dict):
        raise ParseError("no JSON object")
    name, arguments = value.get("name"), value.get("arguments")
    if isinstance(arguments, str):  # Some models write the arguments as JSON inside a string.
        with suppress(JSONParseError):
            arguments = _json.decode(arguments)
    if not isinstance(name, str) or not name:
        raise ParseError("no name")
    if arguments is not None and not isinstance(arguments, dict):
        raise ParseError("the arguments are no JSON object")
    return name, arguments or {}


def _tell(on_error: OnError | None, why: str, segment: BrokenCall) -> None:
    if on_error is not None:
        with suppress(Exception):  # a handler that fails must not end the stream
            on_error(why, segment)
