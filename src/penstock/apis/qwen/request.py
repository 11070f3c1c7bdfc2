"""Requests to chat.qwen.ai, both ways.

The server keeps the history of a chat; a request brings one message of the user and names the
answer before it. So what goes out is what came since that answer, and of a chat that the server
does not know (no `parent_id`) all that was said, as one text. Calls are text to this API: who uses
tools renders them before.

`chat_id`, `parent_id`, `fid`, `timestamp` and the like are the session's: they are in
`Request.extra`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock._json import without_lone_surrogates
from penstock.apis.fields import effort_of, integer, object_at, shown, text_at
from penstock.apis.history import lost_content, result_text
from penstock.apis.qwen import tables
from penstock.apis.text_forms import with_fit_content
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.request import Message, ReasoningOptions, Request, SystemMessage, UserMessage

NO_OUTPUT: Final = "(Command completed successfully with no output)"
"""What a tool that gave nothing back is said to have done."""

_MOMENT: Final = "timestamp"
_SESSION: Final = ("chat_id", "parent_id", "fid", _MOMENT, "chat_mode", "chat_type")
_LEFT_OUT: Final = (
    "tool_choice", "parallel_tool_calls", "max_tokens", "temperature", "top_p", "top_k", "seed",
    "presence_penalty", "frequency_penalty", "n", "response_format",
)  # fmt: skip


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for is omitted."""
    session = {key: value for key, value in request.extra.items() if key in _SESSION}
    parent, kind = session.get("parent_id"), session.get("chat_type", "t2t")
    moment = session.get(_MOMENT, 0)
    effort = effort_of(request.reasoning)
    message = {
        "fid": session.get("fid", ""),
        "parentId": parent,
        "parent_id": parent,
        "childrenIds": [],
        "role": "user",
        "content": _text(_with_fit_content(request), is_new=not parent),
        "user_action": "chat",
        "files": [],
        "timestamp": moment,
        "models": [request.model],
        "chat_type": kind,
        "sub_chat_type": kind,
        "feature_config": {
            "thinking_enabled": bool(effort) and effort != "none",
            "output_schema": "phase",
        },
        "extra": {"meta": {"subChatType": kind}},
    }
    body = {
        "stream": request.stream,
        "incremental_output": True,
        "chat_id": session.get("chat_id", ""),
        "chat_mode": session.get("chat_mode", "guest"),
        "model": request.model,
        "parent_id": parent,
        "messages": [message],
        "timestamp": moment,
    }
    return without_lone_surrogates(body)


def left_out(request: Request) -> list[str]:
    """Name the fields of *request* that `write_request` leaves out."""
    missing = [name for name in _LEFT_OUT if getattr(request, name) is not None]
    missing += [name for name in ("tools", "stop", "metadata", "user") if getattr(request, name)]
    missing += sorted(set(request.extra) - set(_SESSION))
    return missing + lost_content(_with_fit_content(request), tables.NAME, images=False)


def _with_fit_content(request: Request) -> Request:
    fit = with_fit_content(request.messages, tables.NAME, images=False)
    return structs.replace(request, messages=fit)


def read_request(data: Mapping[str, Any]) -> Request:
    """Read what a client sent; raise `UsageError` for what is not a request."""
    messages = data.get("messages")
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    said = [_read_message(message) for message in messages]
    last = messages[-1] if messages else {}
    extra = _read_session(data)
    if text_at(last, "fid"):
        extra["fid"] = last["fid"]
    thinks = object_at(last, "feature_config").get("thinking_enabled") is True
    return Request(
        model=text_at(data, "model"),
        messages=said,
        reasoning=ReasoningOptions("medium") if thinks else None,
        stream=data.get("stream") is not False,
        source=tables.NAME,
        extra=extra,
        raw=dict(data),
    )


def _read_message(data: object) -> Message:
    """Read a message; it is the user's, but for a chat that is told from its beginning."""
    if not isinstance(data, Mapping):
        raise UsageError("a message is a JSON object")
    role, text = data.get("role"), text_at(data, "content")
    if role == "user":
        return UserMessage([Text(text)])
    if role == "assistant":
        return AssistantMessage(content=[Text(text)])
    if role == "system":
        return SystemMessage(text)
    raise UsageError(f"a message has the role {shown(role)}")


def _read_session(data: Mapping[str, Any]) -> dict[str, Any]:
    """Read which chat continues, and where; raise `UsageError` for what names none."""
    integer(data, _MOMENT)  # which raises for what is not a number
    given = {key: data[key] for key in _SESSION if data.get(key) is not None}
    for key, value in given.items():
        if key != _MOMENT and not isinstance(value, str):
            raise UsageError(f"`{key}` must be text")
    return given


def _text(request: Request, *, is_new: bool) -> str:
    messages = request.messages if is_new else _since_answer(request.messages)
    parts = [request.system] if is_new and request.system else []
    answered = any(isinstance(message, AssistantMessage) for message in messages)
    parts += [_said(message, with_role=answered) for message in messages]
    return "\n\n".join(part for part in parts if part)


def _since_answer(messages: list[Message]) -> list[Message]:
    for at in range(len(messages) - 1, -1, -1):
        if isinstance(messages[at], AssistantMessage):
            return messages[at + 1 :]
    return messages


def _said(message: Message, *, with_role: bool) -> str:
    if isinstance(message, ToolResult):
        name = f" from {message.name}" if message.name else ""
        return f"Tool Result{name}:\n{result_text(message).strip() or NO_OUTPUT}"
    text = message.text
    if isinstance(message, SystemMessage) or not with_role or not text:
        return text
    return f"{'Assistant' if isinstance(message, AssistantMessage) else 'User'}: {text}"
