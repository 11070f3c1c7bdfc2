"""What an Ollama client asks, read into a `Request`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.ollama import tables
from penstock.apis.reading import (
    clean,
    integer,
    list_at,
    number,
    object_at,
    sorted_tools,
    strings,
    text_at,
    the_rest,
)
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Content, Text, Thinking, ToolCall, ToolResult
from penstock.requests import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    ResponseFormat,
    SystemMessage,
    UserContent,
    UserMessage,
)

_KNOWN: Final = frozenset(
    {"model", "messages", "tools", "think", "format", "options", "stream", "prompt", "system"}
)
_OPTIONS: Final = frozenset(
    {
        "temperature", "top_p", "top_k", "seed", "stop", "num_predict", "presence_penalty",
        "frequency_penalty",
    }
)  # fmt: skip


def read_request(data: Mapping[str, Any]) -> Request:
    """Read what a client sent; raise `UsageError` for what is no request."""
    reader = _Conversation()
    for message in _messages_of(data):
        reader.read(message)
    tools, foreign = sorted_tools(list_at(data, "tools"))
    options = object_at(data, "options")
    limit = integer(options, "num_predict")
    extra = the_rest(data, _KNOWN)
    for key, rest in (("options", the_rest(options, _OPTIONS)), ("tools", foreign)):
        if rest:
            extra[key] = rest
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=tools,
        max_tokens=limit if limit is not None and limit > 0 else None,  # -1 is no limit
        temperature=number(options, "temperature"),
        top_p=number(options, "top_p"),
        top_k=integer(options, "top_k"),
        seed=integer(options, "seed"),
        presence_penalty=number(options, "presence_penalty"),
        frequency_penalty=number(options, "frequency_penalty"),
        stop=strings(options.get("stop")),
        response_format=_read_format(data.get("format")),
        reasoning=_read_think(data.get("think")),
        stream=data.get("stream") is not False,  # Here it is what one gets unasked.
        include_usage=True,
        source=tables.NAME,
        extra=extra,
        raw=dict(data),
    )


def _messages_of(data: Mapping[str, Any]) -> list[Any]:
    """Give the messages; the older `generate` has a prompt in their place."""
    messages = data.get("messages")
    if messages is None and isinstance(data.get("prompt"), str):
        messages = [
            {"role": "system", "content": text_at(data, "system")},
            {"role": "user", "content": data["prompt"], "images": data.get("images")},
        ]
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    return messages


class _Conversation:
    """Reads messages in order; a result answers the oldest open call of its name."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self._open: list[ToolCall] = []
        self._number = 0

    def read(self, data: object) -> None:
        if not isinstance(data, Mapping):
            raise UsageError("a message is a JSON object")
        role, text = data.get("role"), text_at(data, "content")
        if role == "system" and self.messages:
            self.messages.append(SystemMessage(text))
        elif role == "system":
            self.system += [text] if text else []
        elif role == "user":
            self.messages.append(UserMessage(_content(text, data.get("images"))))
        elif role == "assistant":
            self.messages.append(AssistantMessage(content=self._blocks(text, data)))
        elif role == "tool":
            self.messages.append(self._result(text, data))
        else:
            raise UsageError(f"a message has the role {role!r}")

    def _blocks(self, text: str, data: Mapping[str, Any]) -> list[Content]:
        thoughts = text_at(data, "thinking")
        blocks: list[Content] = [Thinking(thoughts)] if thoughts else []
        blocks += [Text(text)] if text else []
        calls = data.get("tool_calls")
        self._open = []
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, Mapping):
                self._open.append(self._read_call(call))
        return [*blocks, *self._open]

    def _read_call(self, call: Mapping[str, Any]) -> ToolCall:
        function = object_at(call, "function")
        self._number += 1
        id_ = text_at(call, "id") or f"call_{self._number}"
        name, arguments = text_at(function, "name"), function.get("arguments")
        if isinstance(arguments, dict):
            return ToolCall(id_, name, arguments)
        return ToolCall.from_text(id_, name, arguments if isinstance(arguments, str) else "")

    def _result(self, text: str, data: Mapping[str, Any]) -> ToolResult:
        id_, name = text_at(data, "tool_call_id"), text_at(data, "tool_name")
        for call in self._open:
            if call.id == id_ if id_ else name in ("", call.name):
                self._open.remove(call)
                return ToolResult(call.id, call.name, text)
        return ToolResult(id_ or name, name, text)


def _content(text: str, images: object) -> list[UserContent]:
    blocks: list[UserContent] = [Text(clean(text))] if text else []
    pictures = images if isinstance(images, list) else []
    return blocks + [Image(data=data) for data in pictures if isinstance(data, str)]


def _read_format(data: object) -> ResponseFormat | None:
    if isinstance(data, Mapping):
        return ResponseFormat("schema", dict(data))
    return ResponseFormat("json") if data == "json" else None


def _read_think(think: object) -> ReasoningOptions | None:
    if isinstance(think, str) and think:
        return ReasoningOptions(think)
    if isinstance(think, bool):
        return ReasoningOptions("medium" if think else "none")
    return None
