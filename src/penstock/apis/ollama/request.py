"""A `Request` as Ollama wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import SentIds
from penstock.apis.fields import (
    clean,
    integer,
    list_at,
    names_of_own,
    number,
    object_at,
    only_set,
    shown,
    sorted_tools,
    strings,
    text_at,
    the_rest,
)
from penstock.apis.history import beside_text, lost_content, repaired, replayable, result_text
from penstock.apis.ollama import tables
from penstock.apis.text_forms import place_system, usual_placement, with_fit_content
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Content, Text, Thinking, ToolCall, ToolResult
from penstock.request import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    ResponseFormat,
    SystemMessage,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool

# What an Ollama client asks, read into a `Request`.


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
    """Read what a client sent; raise `UsageError` for what is not a request."""
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
        max_tokens=limit if limit is not None and limit > 0 else None,  # -1 is not a limit
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
    """Return the messages; the older `generate` has a prompt in their place."""
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
            raise UsageError(f"a message has the role {shown(role)}")

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


_LEFT_OUT: Final = ("tool_choice", "parallel_tool_calls", "n")
_LEVELS: Final = frozenset({"low", "medium", "high"})


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for is omitted."""
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
    """Return the images in a result, for the user to show them after all the results."""
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
