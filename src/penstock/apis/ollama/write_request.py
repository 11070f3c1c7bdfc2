"""A `Request` as Ollama wants it."""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from penstock.apis.history import beside_text, lost_content, repaired, replayable, result_text
from penstock.apis.ids import SentIds
from penstock.apis.ollama import tables
from penstock.apis.reading import names_of_own, only_set
from penstock.apis.surrogates import without_lone_surrogates
from penstock.apis.system_messages import place_system, usual_placement
from penstock.apis.text_forms import with_fit_content
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall, ToolResult
from penstock.requests import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    SystemMessage,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool

_LEFT_OUT: Final = ("tool_choice", "parallel_tool_calls", "n")
_LEVELS: Final = frozenset({"low", "medium", "high"})


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for is left out."""
    request = place_system(_with_fit_content(request), usual_placement(tables.NAME, request.model))
    own = request.extra if request.source == tables.NAME else {}
    options = only_set(
        {
            "temperature": request.temperature,
            "top_p": request.top_p,
            "top_k": request.top_k,
            "seed": request.seed,
            "presence_penalty": request.presence_penalty,
            "frequency_penalty": request.frequency_penalty,
            "stop": request.stop or None,
            "num_predict": request.max_tokens,
        }
    )
    body = {
        "model": request.model,
        "messages": _messages(request),
        "tools": [*map(_tool, request.tools), *own.get("tools", [])] or None,
        "think": _think(request.reasoning) if request.reasoning else None,
        "format": _format(request),
        "options": {**own.get("options", {}), **options} or None,
        "stream": request.stream,
    }
    return without_lone_surrogates({**own, **only_set(body)})


def left_out(request: Request) -> list[str]:
    """Name the fields of *request* that `write_request` leaves out."""
    missing = [name for name in _LEFT_OUT if getattr(request, name) is not None]
    missing += [name for name in ("metadata", "user") if getattr(request, name)]
    if request.source != tables.NAME:
        missing += names_of_own(request)
    return missing + lost_content(_with_fit_content(request), tables.NAME)


def _with_fit_content(request: Request) -> Request:
    return structs.replace(request, messages=with_fit_content(request.messages, tables.NAME))


def _messages(request: Request) -> list[dict[str, Any]]:
    ids = SentIds.for_model(request.model)
    written: list[dict[str, Any]] = []
    if request.system:
        written.append({"role": "system", "content": request.system})
    behind: list[UserContent] = []
    for message in repaired(request.messages):
        if behind and not isinstance(message, ToolResult):
            written.append(_user(behind))
            behind = []
        written.append(_message(message, request, ids))
        if isinstance(message, ToolResult):
            behind += _pictures(message)
    return written + ([_user(behind)] if behind else [])


def _message(message: Message, request: Request, ids: SentIds) -> dict[str, Any]:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if isinstance(message, UserMessage):
        return _user(message.content)
    if isinstance(message, ToolResult):
        return {
            "role": "tool",
            "tool_name": message.name,
            "tool_call_id": ids.of_result(message.id),
            "content": result_text(message),
        }
    return _assistant(message, request, ids)


def _pictures(result: ToolResult) -> list[UserContent]:
    """Give the pictures in a result, for the user to show them behind all the results."""
    shown = [block for block in beside_text(result) if isinstance(block, Image)]
    return [Text(f"What {result.name or result.id} gave back:"), *shown] if shown else []


def _user(content: list[UserContent]) -> dict[str, Any]:
    """Write what the user says; a picture that is elsewhere can only be named."""
    fields: dict[str, Any] = {"role": "user", "content": UserMessage(content).text}
    pictures = [block for block in content if isinstance(block, Image)]
    data = [picture.data for picture in pictures if picture.data]
    if data:
        fields["images"] = data
    links = [picture.url for picture in pictures if not picture.data]
    if links:
        named = [f"[image: {url}]" for url in links]
        fields["content"] = "\n".join([fields["content"], *named]).strip("\n")
    return fields


def _assistant(message: AssistantMessage, request: Request, ids: SentIds) -> dict[str, Any]:
    blocks = replayable(message, request.model, tables.NAME)
    texts = [block.text for block in blocks if isinstance(block, Text)]
    thoughts = [block.text for block in blocks if isinstance(block, Thinking)]
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    fields: dict[str, Any] = {"role": "assistant", "content": "".join(texts)}
    if any(thoughts):
        fields["thinking"] = "".join(thoughts)
    if calls:
        fields["tool_calls"] = [
            {
                "id": ids.of_call(call.id),
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in calls
        ]
    return fields


def _tool(tool: Tool) -> dict[str, Any]:
    parameters = tool.parameters or {"type": "object", "properties": {}}
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": parameters,
    }
    return {"type": "function", "function": function}


def _think(wanted: ReasoningOptions) -> bool | str | None:
    """Say how much to think: a level, or yes or no."""
    if wanted.effort in _LEVELS:
        return wanted.effort
    if wanted.effort == "none" or (not wanted.effort and wanted.budget == 0):
        return False
    return True if wanted.effort or wanted.budget else None


def _format(request: Request) -> str | dict[str, Any] | None:
    wanted = request.response_format
    if wanted is None or wanted.kind == "text":
        return None
    return wanted.schema if wanted.kind == "schema" else "json"
