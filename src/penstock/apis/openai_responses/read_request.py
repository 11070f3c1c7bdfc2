"""What a client of the Responses API asks, read into a `Request`.

Clients send fields that no specification knows; they are kept aside in `Request.extra`, and only
what cannot be a request raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.read_input import Conversation, items_of
from penstock.apis.reading import (
    flag,
    integer,
    number,
    object_at,
    sorted_tools,
    strings,
    text_at,
    the_rest,
)
from penstock.requests import ReasoningOptions, Request, ResponseFormat, ToolChoice

KNOWN: Final = frozenset(
    {
        "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls",
        "max_output_tokens", "temperature", "top_p", "top_k", "seed", "presence_penalty",
        "frequency_penalty", "stop", "text", "reasoning", "stream", "metadata", "user",
    }
)  # fmt: skip
_MODES: Final = ("auto", "none", "required")
_FORMAT: Final = frozenset({"type", "name", "schema", "strict"})
_REASONING: Final = frozenset({"effort", "summary"})
_CHOICE: Final = frozenset({"type", "name"})


def read_request(data: Mapping[str, Any]) -> Request:
    """Read what a client sent; raise `UsageError` for what is no request."""
    reader = Conversation(text_at(data, "instructions"))
    for item in items_of(data.get("input")):
        reader.read(item)
    tools = data.get("tools")
    own, foreign = sorted_tools(tools if isinstance(tools, list) else [])
    stream = data.get("stream") is True
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=own,
        tool_choice=read_choice(data.get("tool_choice")),
        parallel_tool_calls=flag(data.get("parallel_tool_calls")),
        max_tokens=integer(data, "max_output_tokens"),
        temperature=number(data, "temperature"),
        top_p=number(data, "top_p"),
        top_k=integer(data, "top_k"),
        seed=integer(data, "seed"),
        presence_penalty=number(data, "presence_penalty"),
        frequency_penalty=number(data, "frequency_penalty"),
        stop=strings(data.get("stop")),
        response_format=_read_format(object_at(data, "text").get("format")),
        reasoning=_read_reasoning(object_at(data, "reasoning")),
        stream=stream,
        include_usage=stream,  # The API always tells.
        metadata=dict(object_at(data, "metadata")),
        user=text_at(data, "user"),
        source=tables.NAME,
        extra=_aside(data, foreign),
        raw=dict(data),
    )


def _aside(data: Mapping[str, Any], foreign: list[object]) -> dict[str, Any]:
    """Give what has no place in a `Request`: fields, and what is left of those that have one."""
    text = the_rest(object_at(data, "text"), frozenset({"format"}))
    wanted = the_rest(object_at(object_at(data, "text"), "format"), _FORMAT)
    if wanted:
        text["format"] = wanted
    choice = object_at(data, "tool_choice")
    is_plain = choice.get("type") == "function" and choice.keys() == _CHOICE
    aside = {
        "tools": foreign,
        "tool_choice": None if is_plain else dict(choice),
        "text": text,
        "reasoning": the_rest(object_at(data, "reasoning"), _REASONING),
    }
    return {**the_rest(data, KNOWN), **{key: value for key, value in aside.items() if value}}


def read_choice(choice: object) -> ToolChoice | None:
    """Read whether tools are called; a choice among several is one of how, not of which."""
    if isinstance(choice, Mapping):
        name = text_at(choice, "name") or text_at(object_at(choice, "function"), "name")
        if name and choice.get("type") != "mcp":
            return ToolChoice("tool", name)
        choice = choice.get("mode")
    if isinstance(choice, str) and choice in _MODES:
        mode: Any = choice
        return ToolChoice(mode)
    return None


def _read_format(data: object) -> ResponseFormat | None:
    if not isinstance(data, Mapping):
        return None
    if data.get("type") == "json_schema":
        schema = dict(object_at(data, "schema"))
        return ResponseFormat("schema", schema, text_at(data, "name"), flag(data.get("strict")))
    return ResponseFormat("json" if data.get("type") == "json_object" else "text")


def _read_reasoning(data: Mapping[str, Any]) -> ReasoningOptions | None:
    effort, summary = text_at(data, "effort"), text_at(data, "summary")
    return ReasoningOptions(effort, None, summary) if effort or summary else None
