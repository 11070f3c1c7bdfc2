"""What a chat client asks, read into a `Request`.

Clients send fields that no specification knows; they are kept aside in `Request.extra`, and only
what cannot be a request raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.apis.fields import (
    check_content,
    check_list,
    clean,
    flag,
    integer,
    list_at,
    number,
    object_at,
    shown,
    sorted_tools,
    strings,
    text_at,
    the_rest,
)
from penstock.apis.media import image_at
from penstock.apis.openai_chat import tables
from penstock.errors import UsageError
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.request import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    ResponseFormat,
    SystemMessage,
    ToolChoice,
    UserContent,
    UserMessage,
)

KNOWN: Final = frozenset(
    {
        "model", "messages", "tools", "functions", "tool_choice", "function_call",
        "parallel_tool_calls", "max_tokens", "max_completion_tokens", "temperature", "top_p",
        "top_k", "seed", "presence_penalty", "frequency_penalty", "stop", "n", "response_format",
        "reasoning_effort", "reasoning", "stream", "stream_options", "metadata", "user",
    }
)  # fmt: skip
_MODES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_ANSWER: Final = frozenset(
    {"role", "content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call"}
)
_FORMATS: Final = ("text", "json_object", "json_schema")
SYSTEM: Final = ("system", "developer")
"""The roles of those who instruct."""


def read_request(data: Mapping[str, Any]) -> Request:
    """Read what a client sent; raise `UsageError` for what is not a request."""
    messages = data.get("messages")
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    reader = _Conversation()
    for position, message in enumerate(messages):
        try:
            reader.read(message)
        except UsageError as exc:
            raise UsageError(f"`messages[{position}]`: {exc}") from None
    check_list(data, "tools")
    check_list(data, "functions")
    tools, foreign = sorted_tools([*list_at(data, "tools"), *list_at(data, "functions")])
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=tools,
        tool_choice=_read_choice(data.get("tool_choice") or data.get("function_call")),
        parallel_tool_calls=flag(data.get("parallel_tool_calls")),
        max_tokens=integer(data, "max_completion_tokens") or integer(data, "max_tokens"),
        temperature=number(data, "temperature"),
        top_p=number(data, "top_p"),
        top_k=integer(data, "top_k"),
        seed=integer(data, "seed"),
        presence_penalty=number(data, "presence_penalty"),
        frequency_penalty=number(data, "frequency_penalty"),
        stop=strings(data.get("stop")),
        n=integer(data, "n"),
        response_format=_read_format(data.get("response_format")),
        reasoning=read_reasoning(data),
        stream=data.get("stream") is True,
        include_usage=object_at(data, "stream_options").get("include_usage") is True,
        metadata=dict(object_at(data, "metadata")),
        user=text_at(data, "user"),
        source=tables.NAME,
        extra={**the_rest(data, KNOWN), **_own_words(data, foreign)},
        raw=dict(data),
    )


def _own_words(data: Mapping[str, Any], foreign: list[object]) -> dict[str, Any]:
    """Return what is in known fields and has no place in a `Request`."""
    words: dict[str, Any] = {"tools": foreign} if foreign else {}
    choice, wanted = data.get("tool_choice"), data.get("response_format")
    if choice is not None and _read_choice(choice) is None:
        words["tool_choice"] = choice
    if wanted is not None and _read_format(wanted) is None:
        words["response_format"] = wanted
    options = the_rest(object_at(data, "stream_options"), frozenset({"include_usage"}))
    return {**words, "stream_options": options} if options else words


class _Conversation:
    """Reads messages in order: those in front that instruct are the system prompt."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self._names: dict[str, str] = {}  # of calls, by id

    def read(self, data: object) -> None:
        if not isinstance(data, Mapping):
            raise UsageError("a message is a JSON object")
        role = data.get("role")
        if role in SYSTEM:
            self._read_system(text_of_content(data.get("content")))
        elif role == "user":
            check_content(data.get("content"))
            self.messages.append(UserMessage(read_content(data.get("content"))))
        elif role == "assistant":
            self._read_assistant(data)
        elif role in ("tool", "function"):
            self._read_result(data)
        else:
            known = "system, developer, user, assistant, tool or function"
            raise UsageError(f"`role` must be {known}, not {shown(role)}")

    def _read_system(self, text: str) -> None:
        if self.messages:
            self.messages.append(SystemMessage(text))
        elif text:
            self.system.append(text)

    def _read_assistant(self, data: Mapping[str, Any]) -> None:
        content: list[Content] = []
        thoughts = text_at(data, "reasoning_content") or text_at(data, "reasoning")
        thoughts = thoughts or _thoughts_in(data.get("content"))
        if thoughts:
            content.append(Thinking(thoughts))
        text = text_of_content(data.get("content")) or text_at(data, "refusal")
        if text:
            content.append(Text(text))
        for call in _calls_of(data):
            self._names[call.id] = call.name
            content.append(call)
        rest = {key: value for key, value in the_rest(data, _ANSWER).items() if value}
        if rest:
            content.append(Opaque(tables.NAME, rest))
        self.messages.append(AssistantMessage(content=content))

    def _read_result(self, data: Mapping[str, Any]) -> None:
        id_ = text_at(data, "tool_call_id") or text_at(data, "name")
        name = text_at(data, "name") or self._names.get(id_, "")
        content = data.get("content")
        blocks = read_content(content) if isinstance(content, list) else []
        plain = all(isinstance(block, Text) for block in blocks)
        self.messages.append(ToolResult(id_, name, text_of_content(content) if plain else blocks))


def read_content(content: object) -> list[UserContent]:
    """Read what a user says: text, or a list of parts."""
    if isinstance(content, str):
        return [Text(clean(content))] if content else []
    return [_read_part(part) for part in content] if isinstance(content, list) else []


def _read_part(part: object) -> UserContent:
    if isinstance(part, str):
        return Text(clean(part))
    fields = part if isinstance(part, Mapping) else {}
    for key in ("text", "refusal"):
        if isinstance(fields.get(key), str):
            return Text(clean(fields[key]))
    picture = fields.get("image_url")
    if fields.get("type") == "image_url" and isinstance(picture, Mapping | str):
        return _read_image(picture)
    return Opaque(tables.NAME, part)


def _read_image(picture: Mapping[str, Any] | str) -> Image:
    url = picture if isinstance(picture, str) else text_at(picture, "url")
    detail = "" if isinstance(picture, str) else text_at(picture, "detail")
    return image_at(url, detail)


def _thoughts_in(content: object) -> str:
    """Return the reasoning among the parts of an answer, where Mistral's servers have it."""
    parts = content if isinstance(content, list) else []
    texts = []
    for part in parts:
        if isinstance(part, Mapping) and part.get("type") == "thinking":
            inner = part.get("thinking")
            texts.append(clean(inner) if isinstance(inner, str) else text_of_content(inner))
    return "\n".join(texts)


def text_of_content(content: object) -> str:
    """Return the text of content, one part a line."""
    if isinstance(content, str):
        return clean(content)
    return "\n".join(block.text for block in read_content(content) if isinstance(block, Text))


def _calls_of(data: Mapping[str, Any]) -> list[ToolCall]:
    calls = []
    for position, call in enumerate(list_at(data, "tool_calls")):
        if isinstance(call, Mapping):
            function = object_at(call, "function") or object_at(call, "custom")
            calls.append(_read_call(function, text_at(call, "id") or f"call_{position}", call))
    legacy = data.get("function_call")
    if isinstance(legacy, Mapping):
        calls.append(_read_call(legacy, text_at(legacy, "name"), {}))
    return calls


def _read_call(function: Mapping[str, Any], id_: str, call: Mapping[str, Any]) -> ToolCall:
    name, arguments = text_at(function, "name"), function.get("arguments")
    if not name:
        raise UsageError("a tool call needs a `name`")
    signature = text_at(object_at(object_at(call, "extra_content"), "google"), "thought_signature")
    if isinstance(function.get("input"), str):
        arguments = _json.encode({"input": function["input"]}).decode()
    if isinstance(arguments, dict):
        return ToolCall(id_, name, arguments, signature=signature)
    text = arguments if isinstance(arguments, str) else ""
    return ToolCall.from_text(id_, name, text, signature=signature)


def _read_choice(choice: object) -> ToolChoice | None:
    if isinstance(choice, str) and choice in _MODES:
        mode: Any = _MODES[choice]
        return ToolChoice(mode)
    if isinstance(choice, Mapping):
        inner = object_at(choice, "function") or object_at(choice, "custom") or choice
        name = text_at(inner, "name")
        return ToolChoice("tool", name) if name else None
    return None


def _read_format(data: object) -> ResponseFormat | None:
    if not isinstance(data, Mapping) or data.get("type") not in _FORMATS:
        return None
    if data.get("type") == "json_schema":
        inner = object_at(data, "json_schema")
        schema = dict(object_at(inner, "schema"))
        return ResponseFormat("schema", schema, text_at(inner, "name"), flag(inner.get("strict")))
    if data.get("type") == "json_object":  # Some servers take a schema here.
        return ResponseFormat("json", dict(object_at(data, "schema")))
    return ResponseFormat("text")


def read_reasoning(data: Mapping[str, Any]) -> ReasoningOptions | None:
    """Read how much to think: an effort, or the budget that OpenRouter takes."""
    inner = object_at(data, "reasoning")
    effort = text_at(data, "reasoning_effort") or text_at(inner, "effort")
    budget = integer(inner, "max_tokens")
    return ReasoningOptions(effort, budget) if effort or budget is not None else None
