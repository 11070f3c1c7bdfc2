"""What a client of the messages API asks, read into a `Request`.

Clients send fields that no specification knows; they are kept aside in `Request.extra`, and only
what cannot be a request raises. Bodies for counting tokens are read the same way.

Marks of the cache are on single blocks, which have no place for them: those in the system prompt
are kept aside with it. Those in the messages go back to their blocks as long as the messages are
the same (`own_blocks`); for messages that have changed, the last one is kept for the whole request,
where it means the last block.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock import _json
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.client_tools import read_client_tool
from penstock.apis.anthropic.read_messages import Conversation, text_of_blocks
from penstock.apis.anthropic.thinking import read_reasoning, thinking_aside
from penstock.apis.reading import (
    integer,
    number,
    object_at,
    sorted_tools,
    strings,
    text_at,
    the_rest,
)
from penstock.errors import UsageError
from penstock.requests import Request, ResponseFormat, ToolChoice
from penstock.tools import Tool

KNOWN: Final = frozenset(
    {
        "model", "system", "messages", "tools", "tool_choice", "max_tokens", "temperature",
        "top_p", "top_k", "stop_sequences", "stream", "thinking", "output_config", "output_format",
        "metadata",
        "betas", "anthropic_beta", "anthropic_version",  # meant for the way, not for the model
    }
)  # fmt: skip
_MODES: Final = {"auto": "auto", "any": "required", "none": "none", "tool": "tool"}
_IN_OUTPUT: Final = frozenset({"effort", "format"})


def read_request(data: Mapping[str, Any]) -> Request:
    """Read what a client sent; raise `UsageError` for what is no request."""
    messages = data.get("messages")
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    reader = Conversation(text_of_blocks(data.get("system")))
    for message in messages:
        reader.read(message)
    given = data.get("tools")
    tools, foreign = sorted_tools(given if isinstance(given, list) else [], read_tool)
    choice = _fields(data.get("tool_choice"))
    is_stream = data.get("stream") is True
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=tools,
        tool_choice=_read_choice(choice),
        parallel_tool_calls=_read_parallel(choice),
        max_tokens=integer(data, "max_tokens"),
        temperature=number(data, "temperature"),
        top_p=number(data, "top_p"),
        top_k=integer(data, "top_k"),
        stop=strings(data.get("stop_sequences")),
        response_format=_read_format(data),
        reasoning=read_reasoning(data),
        stream=is_stream,
        include_usage=is_stream,  # Every stream of this API tells the tokens.
        metadata=the_rest(object_at(data, "metadata"), frozenset({"user_id"})),
        user=text_at(object_at(data, "metadata"), "user_id"),
        source=tables.NAME,
        extra=_read_extra(data, foreign, reader.cache_mark),
        raw=dict(data),
    )


def read_tool(data: object) -> Tool:
    """Read a tool that the client runs; raise `UsageError` for one that the server does.

    Examples of its input become part of its description: no other API has a field for them.
    """
    tool = read_client_tool(data) or Tool.read(data)
    examples = data.get("input_examples") if isinstance(data, Mapping) else None
    if not isinstance(examples, list) or not examples:
        return tool
    shown = "\n".join(_json.encode_wire(example).decode() for example in examples)
    description = f"{tool.description}\n\nExamples of input:\n{shown}".strip()
    return structs.replace(tool, description=description)


def _read_extra(data: Mapping[str, Any], tools: list[object], mark: object) -> dict[str, Any]:
    """Keep aside what has no place in a request, also inside of fields that have one."""
    output = object_at(data, "output_config")
    choice, system = data.get("tool_choice"), data.get("system")
    aside = {
        "tools": tools,
        "tool_choice": None if _read_choice(_fields(choice)) else choice,
        "thinking": thinking_aside(data),
        "output_config": the_rest(output, _IN_OUTPUT),
        "system": system if _has_marks(system) else None,
        "cache_control": mark,
    }
    return {**{key: value for key, value in aside.items() if value}, **the_rest(data, KNOWN)}


def _has_marks(system: object) -> bool:
    blocks = system if isinstance(system, list) else []
    return any(isinstance(block, Mapping) and len(block) > 2 for block in blocks)  # noqa: PLR2004


def _fields(choice: object) -> Mapping[str, Any]:
    if isinstance(choice, str):
        return {"type": choice}
    return choice if isinstance(choice, Mapping) else {}


def _read_choice(choice: Mapping[str, Any]) -> ToolChoice | None:
    mode: Any = _MODES.get(str(choice.get("type")))
    if mode == "tool":
        return ToolChoice(mode, text_at(choice, "name"))
    return ToolChoice(mode) if mode else None


def _read_parallel(choice: Mapping[str, Any]) -> bool | None:
    is_disabled = choice.get("disable_parallel_tool_use")
    return not is_disabled if isinstance(is_disabled, bool) else None


def _read_format(data: Mapping[str, Any]) -> ResponseFormat | None:
    wanted = object_at(object_at(data, "output_config"), "format") or object_at(
        data, "output_format"
    )
    if wanted.get("type") != "json_schema":
        return None
    return ResponseFormat("schema", dict(object_at(wanted, "schema")))
