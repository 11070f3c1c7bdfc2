"""Write a `Request` for a chat completion server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import ConversationIds
from penstock.apis.fields import (
    dropped_parts,
    effort_for,
    object_at,
    objects_at,
    unportable_names,
    without_keys,
    without_none,
)
from penstock.apis.history import (
    PDF,
    File,
    convert_content,
    default_placement,
    find_lost_content,
    media_type_for,
    non_text_blocks,
    pair_results,
    place_system_messages,
    replayable_blocks,
    result_text,
)
from penstock.apis.openai_chat import tables
from penstock.apis.openai_chat.encode import signature_field
from penstock.apis.openai_chat.read_request import SYSTEM, join_text, read_content, read_reasoning
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Opaque, Text, ToolCall, ToolResult
from penstock.request import (
    Image,
    Message,
    Request,
    ResponseFormat,
    SystemMessage,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool


class OriginalFields:
    """The original fields of a request that was read from this API.

    A `Request` cannot express all that a chat client may send: that a tool is strict, which of
    several users is speaking, what to cache. Where the original request (`Request.raw`) still means
    the same as *request*, its fields are written unchanged.
    """

    def __init__(self, request: Request) -> None:
        raw = (request.raw or {}) if request.source == tables.NAME else {}
        self._request = request
        self._raw = raw
        self._given = objects_at(raw, "messages")
        self._messages = dict(self._pair_users())
        self._tools = dict(map(_read_tool, objects_at(raw, "tools")))

    def system(self) -> list[dict[str, Any]]:
        """Return the messages of the system prompt, if they still have its text."""
        front: list[dict[str, Any]] = []
        for message in self._given:
            if message.get("role") not in SYSTEM:
                break
            # OpenAI renamed the role for its reasoning models and accepts both names.
            front.append({**message, "role": "system"})  # Few servers know `developer`.
        texts = [join_text(message.get("content")) for message in front]
        prompt = "\n\n".join(text for text in texts if text)
        return front if prompt == self._request.system else []

    def message(self, message: Message) -> dict[str, Any] | None:
        """Return the original of a user message."""
        return self._messages.get(id(message))

    def tool(self, tool: Tool) -> dict[str, Any] | None:
        """Return the original of a tool."""
        meant, data = self._tools.get(tool.name, (None, None))
        return data if meant == tool else None

    def reasoning(self) -> dict[str, Any]:
        """Return the original fields of the reasoning options."""
        if read_reasoning(self._raw) != self._request.reasoning:
            return {}
        keys = ("reasoning", "reasoning_effort")
        return {key: self._raw[key] for key in keys if self._raw.get(key) is not None}

    def _pair_users(self) -> list[tuple[int, dict[str, Any]]]:
        """Pair the user messages with the original ones, in order."""
        meant = [m for m in self._request.messages if isinstance(m, UserMessage)]
        given = [message for message in self._given if message.get("role") == "user"]
        return [
            (id(message), dict(data))
            for message, data in zip(meant, given, strict=False)
            if read_content(data.get("content")) == message.content
        ]


def _read_tool(data: Mapping[str, Any]) -> tuple[str, tuple[Tool | None, dict[str, Any] | None]]:
    if not object_at(data, "function"):
        return "", (None, None)
    try:
        tool = Tool.read(data)
    except UsageError:
        return "", (None, None)
    return tool.name, (tool, dict(data))


_RESPONSE_ONLY: Final = frozenset({"annotations"})
# Ids of calls of at most 40 characters, which is what OpenAI accepts.
_CALL_ID: Final = re.compile(r"(?s).{1,40}")

_AUDIO_FORMATS: Final = {"wav": "wav", "x-wav": "wav", "mp3": "mp3", "mpeg": "mp3"}
# The models that reject `max_tokens`.
_NEWER_LIMIT: Final = re.compile(r"(?:openai/)?(?:o[134]|gpt-5)(?![0-9a-z])")


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; fields that the API cannot express are omitted."""
    request = convert_content(request, tables.NAME, _file)
    own = OriginalFields(request)
    body = {
        "model": request.model,
        "messages": _messages(request, own),
        "tools": [own.tool(tool) or _tool(tool) for tool in request.tools] or None,
        "tool_choice": _choice(request),
        "parallel_tool_calls": request.parallel_tool_calls if _has_tools(request) else None,
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
        **(own.reasoning() or {"reasoning_effort": effort_for(request.reasoning) or None}),
        "stream": request.stream or None,
        "stream_options": _stream_options(request),
        "metadata": request.metadata or None,
        "user": request.user or None,
        "store": request.store,
    }
    return without_lone_surrogates(_with_extra(without_none(body), request))


def omitted_fields(request: Request) -> list[str]:
    """Return the names of the fields of *request* that `write_request` omits."""
    missing = []
    if request.reasoning is not None and not effort_for(request.reasoning):
        missing.append("reasoning")
    if not _has_tools(request):
        names = ("tool_choice", "parallel_tool_calls")
        missing += [name for name in names if getattr(request, name) is not None]
    if request.source != tables.NAME:
        missing += unportable_names(request)
    else:
        missing += dropped_parts(request)
    return missing + find_lost_content(convert_content(request, tables.NAME, _file), tables.NAME)


def _file(file: File) -> dict[str, Any] | None:
    """Write a file; None if the API does not accept its type, or if it has only a URL."""
    kind, _, form = file.media_type.partition("/")
    if not file.data:
        return None
    if file.media_type == PDF:
        inner = {"filename": file.name or "file.pdf", "file_data": file.data_url}
        return {"type": "file", "file": inner}
    if kind == "audio" and form in _AUDIO_FORMATS:
        return {
            "type": "input_audio",
            "input_audio": {"data": file.data, "format": _AUDIO_FORMATS[form]},
        }
    return None


def _has_tools(request: Request) -> bool:
    """Return whether there is a tool to choose, or a hosted tool of this API."""
    return bool(request.tools) or (request.source == tables.NAME and "tools" in request.extra)


def _with_extra(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Add the fields of `Request.extra`, if they are of this API."""
    if request.source != tables.NAME:
        return body
    extra = {key: value for key, value in request.extra.items() if key != "stream_options"}
    foreign = extra.pop("tools", [])
    if foreign:
        body["tools"] = [*body.get("tools", []), *foreign]
    if "tools" not in body:
        extra.pop("tool_choice", None)
    return {**extra, **body}


def _stream_options(request: Request) -> dict[str, Any] | None:
    """Write `stream_options`, which the API accepts only with `stream`."""
    own = request.extra.get("stream_options") if request.source == tables.NAME else None
    options = dict(own) if isinstance(own, dict) else {}
    if request.include_usage:
        options["include_usage"] = True
    return options if options and request.stream else None


def _limit_key(request: Request) -> str:
    """Return the name of the limit: as a client of this API wrote it, or as most servers know it.

    Most servers ignore the newer name silently; OpenAI's reasoning models reject the older one.
    """
    original = (request.raw or {}) if request.source == tables.NAME else {}
    is_newer = "max_completion_tokens" in original or _NEWER_LIMIT.match(request.model)
    return "max_completion_tokens" if is_newer else "max_tokens"


def _messages(request: Request, own: OriginalFields) -> list[dict[str, Any]]:
    ids = ConversationIds.for_model(request.model, _CALL_ID)
    default = default_placement(tables.NAME, request.model)
    is_kept = (request.system_messages or default) == "keep"
    placed = place_system_messages(request, default)
    written = own.system() if placed.system == request.system else []
    if len(written) > 1 and not is_kept:  # Many templates accept only one system message.
        written = [_one_system(written)]
    if placed.system and not written:
        written.append({"role": "system", "content": placed.system})
    # A `tool` message holds only text here, and results must directly follow their calls. So images
    # of results go into a user message after the last result.
    files: list[UserContent] = []  # of results, for a user message after all of them
    for message in pair_results(placed.messages):
        if isinstance(message, ToolResult):
            written.append(_result(message, ids))
            files += _non_text(message)
            continue
        if files:
            written.append({"role": "user", "content": _content(files)})
            files = []
        body = own.message(message) or _message(message, request, ids)
        if body is not None:
            written.append(body)
    return written + ([{"role": "user", "content": _content(files)}] if files else [])


def _one_system(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Join original system messages; their parts may have cache marks."""
    contents = [message.get("content") or "" for message in messages]
    if all(isinstance(content, str) for content in contents):
        return {**messages[0], "content": "\n\n".join(filter(None, contents))}
    parts: list[Any] = []
    for content in contents:
        if isinstance(content, list):
            parts += content
        elif content:
            parts.append({"type": "text", "text": content})
    return {**messages[0], "content": parts}


def _message(
    message: SystemMessage | UserMessage | AssistantMessage, request: Request, ids: ConversationIds
) -> dict[str, Any] | None:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if isinstance(message, UserMessage):
        return {"role": "user", "content": _content(message.content)}
    return _assistant(message, request, ids)


def _assistant(
    message: AssistantMessage, request: Request, ids: ConversationIds
) -> dict[str, Any] | None:
    """Write an assistant message; None if all its content is another provider's."""
    blocks = replayable_blocks(message, request.model, tables.NAME)
    if message.content and not blocks:
        return None
    fit = AssistantMessage(content=blocks)
    # With calls, `content` may be null; without, OpenAI requires a string.
    fields: dict[str, Any] = {"role": "assistant", "content": fit.text or None}
    for block in blocks:
        if isinstance(block, Opaque) and isinstance(block.data, dict):
            fields = {**without_keys(block.data, _RESPONSE_ONLY), **fields}
    if fit.thinking:
        # Chat templates such as Qwen3's read earlier reasoning from this field.
        fields["reasoning_content"] = fit.thinking
    if fit.tool_calls:
        fields["tool_calls"] = [_call(call, ids) for call in fit.tool_calls]
    elif fields["content"] is None:
        fields["content"] = ""
    return fields


def _call(call: ToolCall, ids: ConversationIds) -> dict[str, Any]:
    # The arguments are JSON in a string, in both directions.
    function = {"name": call.name, "arguments": _json.encode_wire(call.arguments).decode()}
    return {
        "id": ids.call_id(call.id),
        "type": "function",
        "function": function,
        **signature_field(call.signature),
    }


def _content(content: list[UserContent]) -> str | list[Any]:
    match content:
        case []:
            return ""
        case [Text() as only]:
            return only.text
    parts = [_part(block) for block in content]
    return [part for part in parts if part is not None]


def _part(block: UserContent) -> Any:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image):
        url = block.url or f"data:{media_type_for(block)};base64,{block.data}"
        image = {"url": url, "detail": block.detail} if block.detail else {"url": url}
        return {"type": "image_url", "image_url": image}
    return block.data if block.provider == tables.NAME else None


def _result(result: ToolResult, ids: ConversationIds) -> dict[str, Any]:
    """Write a tool result; the API accepts only text."""
    text = result_text(result)
    if not text and non_text_blocks(result):
        text = "(see below)"
    return {"role": "tool", "tool_call_id": ids.result_id(result.id), "content": text}


def _non_text(result: ToolResult) -> list[UserContent]:
    """Return the blocks of a result that are not text, for a user message after all results."""
    found = [
        block
        for block in non_text_blocks(result)
        if isinstance(block, Image) or block.provider == tables.NAME
    ]
    return [Text(f"What {result.name or result.id} gave back:"), *found] if found else []


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    return {"type": "function", "function": function}


def _choice(request: Request) -> str | dict[str, Any] | None:
    """Write `tool_choice`; the API rejects it without tools."""
    choice = request.tool_choice
    if choice is None or not _has_tools(request):
        return None
    if choice.mode != "tool":
        return choice.mode
    return {"type": "function", "function": {"name": choice.name}}


def _format(wanted: ResponseFormat) -> dict[str, Any]:
    if wanted.kind == "json":
        return {"type": "json_object", **({"schema": wanted.schema} if wanted.schema else {})}
    if wanted.kind == "text":
        return {"type": "text"}
    schema: dict[str, Any] = {"name": wanted.name or "answer", "schema": wanted.schema}
    if wanted.strict is not None:
        schema["strict"] = wanted.strict
    return {"type": "json_schema", "json_schema": schema}
