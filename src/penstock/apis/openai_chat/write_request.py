"""A `Request` as a chat server wants it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import SentIds
from penstock.apis.fields import (
    dropped_parts,
    effort_of,
    list_at,
    names_of_own,
    object_at,
    only_set,
    the_rest,
)
from penstock.apis.history import beside_text, lost_content, repaired, replayable, result_text
from penstock.apis.media import PDF, File, media_type_of
from penstock.apis.openai_chat import tables
from penstock.apis.openai_chat.read_request import (
    SYSTEM,
    read_content,
    read_reasoning,
    text_of_content,
)
from penstock.apis.openai_chat.response import signed
from penstock.apis.text_forms import place_system, usual_placement, with_fit_content
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult
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

# What a client of this API said in its own words, as long as a `Request` still means the same.
#
# A request has no place for all that a chat client may say: that a tool is strict, who of
# several users speaks, what to cache. Where the request that came (`Request.raw`) is of this
# API and reads as what is to be written, its own words are written again.


class OwnWords:
    """The words of one request, found by what they mean."""

    def __init__(self, request: Request, raw: Mapping[str, Any]) -> None:
        self._request = request
        self._raw = raw
        self._said = [
            message for message in list_at(raw, "messages") if isinstance(message, Mapping)
        ]
        self._messages = dict(self._users())
        self._tools = dict(map(_named, list_at(raw, "tools")))

    def system(self) -> list[dict[str, Any]]:
        """Return the messages that are the system prompt."""
        front: list[dict[str, Any]] = []
        for message in self._said:
            if message.get("role") not in SYSTEM:
                break
            front.append({**message, "role": "system"})  # Few servers know the newer word.
        texts = [text_of_content(message.get("content")) for message in front]
        prompt = "\n\n".join(text for text in texts if text)
        return front if prompt == self._request.system else []

    def message(self, message: Message) -> dict[str, Any] | None:
        """Return a message of the user's."""
        return self._messages.get(id(message))

    def tool(self, tool: Tool) -> dict[str, Any] | None:
        """Return a function."""
        meant, data = self._tools.get(tool.name, (None, None))
        return data if meant == tool else None

    def reasoning(self) -> dict[str, Any]:
        """Return the fields that say how much to think."""
        if read_reasoning(self._raw) != self._request.reasoning:
            return {}
        keys = ("reasoning", "reasoning_effort")
        return {key: self._raw[key] for key in keys if self._raw.get(key) is not None}

    def _users(self) -> list[tuple[int, dict[str, Any]]]:
        """Pair the users' messages with those that came, by their order."""
        meant = [m for m in self._request.messages if isinstance(m, UserMessage)]
        said = [message for message in self._said if message.get("role") == "user"]
        return [
            (id(message), dict(data))
            for message, data in zip(meant, said, strict=False)
            if read_content(data.get("content")) == message.content
        ]


def own_words(request: Request) -> OwnWords:
    """Return the words that *request* came in, if they are of this API."""
    raw = request.raw if request.source == tables.NAME else None
    return OwnWords(request, raw or {})


def _named(data: object) -> tuple[str, tuple[Tool | None, dict[str, Any] | None]]:
    if not isinstance(data, Mapping) or not object_at(data, "function"):
        return "", (None, None)
    try:
        tool = Tool.read(data)
    except UsageError:
        return "", (None, None)
    return tool.name, (tool, dict(data))


_ANSWERED: Final = frozenset({"annotations"})  # A server says them, and takes none.
_CALL_ID: Final = re.compile(r"(?s).{1,40}")
"""The longest id that the API takes."""

_RECORDINGS: Final = {"wav": "wav", "x-wav": "wav", "mp3": "mp3", "mpeg": "mp3"}
_NEWER_LIMIT: Final = re.compile(r"(?:openai/)?(?:o[134]|gpt-5)(?![0-9a-z])")
"""The models that refuse `max_tokens`."""


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for is omitted."""
    request = _with_files(request)
    own = own_words(request)
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
        **(own.reasoning() or {"reasoning_effort": effort_of(request.reasoning) or None}),
        "stream": request.stream or None,
        "stream_options": _stream_options(request),
        "metadata": request.metadata or None,
        "user": request.user or None,
    }
    return without_lone_surrogates(_with_extra(only_set(body), request))


def left_out(request: Request) -> list[str]:
    """Name the fields of *request* that `write_request` leaves out."""
    missing = []
    if request.reasoning is not None and not effort_of(request.reasoning):
        missing.append("reasoning")
    if not _has_tools(request):
        names = ("tool_choice", "parallel_tool_calls")
        missing += [name for name in names if getattr(request, name) is not None]
    if request.source != tables.NAME:
        missing += names_of_own(request)
    else:
        missing += dropped_parts(request)
    return missing + lost_content(_with_files(request), tables.NAME)


def _with_files(request: Request) -> Request:
    messages = with_fit_content(request.messages, tables.NAME, _file)
    return structs.replace(request, messages=messages)


def _file(file: File) -> dict[str, Any] | None:
    """Write a file, if it is of a kind that the API takes; one that is elsewhere it does not."""
    kind, _, form = file.media_type.partition("/")
    if not file.data:
        return None
    if file.media_type == PDF:
        inner = {"filename": file.name or "file.pdf", "file_data": file.data_url}
        return {"type": "file", "file": inner}
    if kind == "audio" and form in _RECORDINGS:
        return {
            "type": "input_audio",
            "input_audio": {"data": file.data, "format": _RECORDINGS[form]},
        }
    return None


def _has_tools(request: Request) -> bool:
    """Return whether there is a tool to choose: one of a provider's counts at its own API."""
    return bool(request.tools) or (request.source == tables.NAME and "tools" in request.extra)


def _with_extra(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Return the client's own words back to the API that they are of."""
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
    """Write how to stream, which the API takes from those alone who stream."""
    own = request.extra.get("stream_options") if request.source == tables.NAME else None
    options = dict(own) if isinstance(own, dict) else {}
    if request.include_usage:
        options["include_usage"] = True
    return options if options and request.stream else None


def _limit_key(request: Request) -> str:
    """Name the limit as a client of this API did, or by the name that most servers know.

    They pass over the newer one without a word; OpenAI's models that think refuse the older.
    """
    asked = (request.raw or {}) if request.source == tables.NAME else {}
    is_newer = "max_completion_tokens" in asked or _NEWER_LIMIT.match(request.model)
    return "max_completion_tokens" if is_newer else "max_tokens"


def _messages(request: Request, own: OwnWords) -> list[dict[str, Any]]:
    ids = SentIds.for_model(request.model, _CALL_ID)
    usual = usual_placement(tables.NAME, request.model)
    is_kept = (request.system_messages or usual) == "keep"
    placed = place_system(request, usual)
    written = own.system() if placed.system == request.system else []
    if len(written) > 1 and not is_kept:  # A template takes one system message, and no second.
        written = [_one_system(written)]
    if placed.system and not written:
        written.append({"role": "system", "content": placed.system})
    behind: list[UserContent] = []
    for message in repaired(placed.messages):
        if isinstance(message, ToolResult):
            written.append(_result(message, ids))
            behind += _pictures(message)
            continue
        if behind:
            written.append({"role": "user", "content": _content(behind)})
            behind = []
        said = own.message(message) or _message(message, request, ids)
        if said is not None:
            written.append(said)
    return written + ([{"role": "user", "content": _content(behind)}] if behind else [])


def _one_system(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Join system messages in their client's own words, which may say what to cache."""
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
    message: SystemMessage | UserMessage | AssistantMessage, request: Request, ids: SentIds
) -> dict[str, Any] | None:
    if isinstance(message, SystemMessage):
        return {"role": "system", "content": message.text}
    if isinstance(message, UserMessage):
        return {"role": "user", "content": _content(message.content)}
    return _assistant(message, request, ids)


def _assistant(message: AssistantMessage, request: Request, ids: SentIds) -> dict[str, Any] | None:
    """Write an answer; nothing for one whose only content is another provider's."""
    blocks = replayable(message, request.model, tables.NAME)
    if message.content and not blocks:
        return None
    texts = [block.text for block in blocks if isinstance(block, Text)]
    thoughts = [block.text for block in blocks if isinstance(block, Thinking)]
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    fields: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None}
    for block in blocks:
        if isinstance(block, Opaque) and isinstance(block.data, dict):
            fields = {**the_rest(block.data, _ANSWERED), **fields}
    if any(thoughts):
        fields["reasoning_content"] = "".join(thoughts)
    if calls:
        fields["tool_calls"] = [_call(call, ids) for call in calls]
    elif fields["content"] is None:
        fields["content"] = ""
    return fields


def _call(call: ToolCall, ids: SentIds) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _json.encode_wire(call.arguments).decode()}
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
            return only.text
    parts = [_part(block) for block in content]
    return [part for part in parts if part is not None]


def _part(block: UserContent) -> Any:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, Image):
        url = block.url or f"data:{media_type_of(block)};base64,{block.data}"
        picture = {"url": url, "detail": block.detail} if block.detail else {"url": url}
        return {"type": "image_url", "image_url": picture}
    return block.data if block.provider == tables.NAME else None


def _result(result: ToolResult, ids: SentIds) -> dict[str, Any]:
    """Write what a tool gave back, of which the API takes text alone."""
    text = result_text(result)
    if not text and beside_text(result):
        text = "(see below)"
    return {"role": "tool", "tool_call_id": ids.of_result(result.id), "content": text}


def _pictures(result: ToolResult) -> list[UserContent]:
    """Return what is not a text in a result, for the user to show it after all the results."""
    shown = [
        block
        for block in beside_text(result)
        if isinstance(block, Image) or block.provider == tables.NAME
    ]
    return [Text(f"What {result.name or result.id} gave back:"), *shown] if shown else []


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name}
    if tool.description:
        function["description"] = tool.description
    if tool.parameters:
        function["parameters"] = tool.parameters
    return {"type": "function", "function": function}


def _choice(request: Request) -> str | dict[str, Any] | None:
    """Write which tool to call; the API refuses a choice of what is not there."""
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
