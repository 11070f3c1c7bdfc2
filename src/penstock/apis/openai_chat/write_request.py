"""A `Request` as a chat server wants it."""

from __future__ import annotations

from typing import Any

from penstock import _json
from penstock.apis.history import repaired, replayable, text_of
from penstock.apis.ids import SentIds
from penstock.apis.openai_chat import tables
from penstock.apis.openai_chat.response import signed
from penstock.apis.reading import clean, only_set
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult
from penstock.requests import (
    Image,
    Message,
    Request,
    ResponseFormat,
    SystemMessage,
    ToolChoice,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for is left out."""
    reasoning = request.reasoning
    body = {
        "model": request.model,
        "messages": _messages(request),
        "tools": [_tool(tool) for tool in request.tools] or None,
        "tool_choice": _choice(request.tool_choice) if request.tool_choice else None,
        "parallel_tool_calls": request.parallel_tool_calls,
        _limit_key(request): request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "seed": request.seed,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "stop": request.stop or None,
        "n": request.n,
        "response_format": _format(request.response_format) if request.response_format else None,
        "reasoning_effort": reasoning.effort or None if reasoning else None,
        "stream": request.stream or None,
        "stream_options": {"include_usage": True} if request.include_usage else None,
        "metadata": request.metadata or None,
        "user": request.user or None,
    }
    return _with_extra(only_set(body), request)


def left_out(request: Request) -> list[str]:
    """Name the fields of *request* that `write_request` leaves out."""
    missing = []
    if request.reasoning is not None and not request.reasoning.effort:
        missing.append("reasoning")
    if request.extra and request.source != tables.NAME:
        missing += sorted(request.extra)
    return missing


def _with_extra(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Give the client's own words back to the API that they are of."""
    if request.source != tables.NAME:
        return body
    extra = dict(request.extra)
    foreign = extra.pop("tools", [])
    if foreign:
        body["tools"] = [*body.get("tools", []), *foreign]
    return {**extra, **body}


def _limit_key(request: Request) -> str:
    """Name the limit as the client did; models that think want the newer name."""
    asked = request.raw or {}
    is_newer = "max_completion_tokens" in asked or request.reasoning is not None
    return "max_completion_tokens" if is_newer else "max_tokens"


def _messages(request: Request) -> list[dict[str, Any]]:
    ids = SentIds()
    written: list[dict[str, Any]] = []
    if request.system:
        written.append({"role": "system", "content": clean(request.system)})
    written += [_message(message, request, ids) for message in repaired(request.messages)]
    return written


def _message(message: Message, request: Request, ids: SentIds) -> dict[str, Any]:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": clean(message.text)}
    if isinstance(message, UserMessage):
        return {"role": "user", "content": _content(message.content)}
    if isinstance(message, ToolResult):
        return {
            "role": "tool",
            "tool_call_id": ids.of_result(message.id),
            "content": _result(message),
        }
    return _assistant(message, request, ids)


def _assistant(message: AssistantMessage, request: Request, ids: SentIds) -> dict[str, Any]:
    blocks = replayable(message, request.model, tables.NAME)
    texts = [clean(block.text) for block in blocks if isinstance(block, Text)]
    thoughts = [clean(block.text) for block in blocks if isinstance(block, Thinking)]
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    fields: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
    if any(thoughts):
        fields["reasoning_content"] = "".join(thoughts)
    if calls:
        fields["tool_calls"] = [_call(call, ids) for call in calls]
    elif fields["content"] is None:
        fields["content"] = ""
    return fields


def _call(call: ToolCall, ids: SentIds) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _json.encode(call.arguments).decode()}
    return {
        "id": ids.of_call(call.id),
        "type": "function",
        "function": function,
        **signed(call.signature),
    }


def _content(content: list[UserContent]) -> str | list[Any]:
    match content:
        case []:
            return ""
        case [Text() as only]:
            return clean(only.text)
    parts = [_part(block) for block in content]
    return [part for part in parts if part is not None]


def _part(block: UserContent) -> Any:
    if isinstance(block, Text):
        return {"type": "text", "text": clean(block.text)}
    if isinstance(block, Image):
        url = block.url or f"data:{block.media_type};base64,{block.data}"
        picture = {"url": url, "detail": block.detail} if block.detail else {"url": url}
        return {"type": "image_url", "image_url": picture}
    return block.data if block.provider == tables.NAME else None


def _result(result: ToolResult) -> str | list[Any]:
    content = result.content
    is_blocks = isinstance(content, list) and any(isinstance(b, Image | Opaque) for b in content)
    return _content(content) if is_blocks else clean(text_of(content))


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    return {"type": "function", "function": function}


def _choice(choice: ToolChoice) -> str | dict[str, Any]:
    if choice.mode != "tool":
        return choice.mode
    return {"type": "function", "function": {"name": choice.name}}


def _format(wanted: ResponseFormat) -> dict[str, Any]:
    if wanted.kind != "schema":
        return {"type": "json_object" if wanted.kind == "json" else "text"}
    schema: dict[str, Any] = {"name": wanted.name or "answer", "schema": wanted.schema}
    if wanted.strict is not None:
        schema["strict"] = wanted.strict
    return {"type": "json_schema", "json_schema": schema}
