"""Read a chat completion request into a `Request`.

Clients send fields that are in no specification; they are kept in `Request.extra`, and only a value
that cannot be a request raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.fields import (
    bool_at,
    check_arguments,
    check_content,
    check_list,
    check_text,
    clean,
    integer_at,
    list_at,
    number_at,
    object_at,
    objects_at,
    short_repr,
    split_tools,
    string_list,
    text_at,
    without_keys,
)
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
# `any` is Mistral's word for `required`.
_MODES: Final = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_READ_FIELDS: Final = frozenset(
    {"role", "content", "refusal", "reasoning_content", "reasoning", "tool_calls", "function_call"}
)
_FORMATS: Final = ("text", "json_object", "json_schema")
# OpenAI's reasoning models call the system role `developer`.
SYSTEM: Final = ("system", "developer")
"""The roles of instructions."""


def read_request(data: Mapping[str, Any]) -> Request:
    """Read the body that a client sent; raise `UsageError` if it is not a request."""
    messages = data.get("messages")
    if not isinstance(messages, list):
        raise UsageError("`messages` must be a list")
    reader = _MessagesReader()
    for position, message in enumerate(messages):
        try:
            reader.read(message)
        except UsageError as exc:
            raise UsageError(f"`messages[{position}]`: {exc}") from None
    check_list(data, "tools")
    check_list(data, "functions")
    # `functions` and `function_call` are the deprecated names of `tools` and `tool_choice`.
    tools, foreign = split_tools([*list_at(data, "tools"), *list_at(data, "functions")])
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=tools,
        tool_choice=_read_choice(data.get("tool_choice") or data.get("function_call")),
        parallel_tool_calls=bool_at(data, "parallel_tool_calls"),
        max_tokens=integer_at(data, "max_completion_tokens") or integer_at(data, "max_tokens"),
        temperature=number_at(data, "temperature"),
        top_p=number_at(data, "top_p"),
        top_k=integer_at(data, "top_k"),
        seed=integer_at(data, "seed"),
        presence_penalty=number_at(data, "presence_penalty"),
        frequency_penalty=number_at(data, "frequency_penalty"),
        stop=string_list(data.get("stop")),
        n=integer_at(data, "n"),
        response_format=_read_format(data.get("response_format")),
        reasoning=read_reasoning(data),
        stream=data.get("stream") is True,
        include_usage=object_at(data, "stream_options").get("include_usage") is True,
        metadata=dict(object_at(data, "metadata")),
        user=text_at(data, "user"),
        source=tables.NAME,
        extra={**without_keys(data, KNOWN), **_unread_fields(data, foreign)},
        raw=dict(data),
    )


def _unread_fields(data: Mapping[str, Any], foreign: list[object]) -> dict[str, Any]:
    """Return the values of known fields that a `Request` cannot express."""
    unread: dict[str, Any] = {"tools": foreign} if foreign else {}
    choice, wanted = data.get("tool_choice"), data.get("response_format")
    if choice is not None and _read_choice(choice) is None:
        unread["tool_choice"] = choice
    if wanted is not None and _read_format(wanted) is None:
        unread["response_format"] = wanted
    options = without_keys(object_at(data, "stream_options"), frozenset({"include_usage"}))
    return {**unread, "stream_options": options} if options else unread


class _MessagesReader:
    """Reads messages in order; instructions before all others are the system prompt."""

    def __init__(self) -> None:
        self.system: list[str] = []
        self.messages: list[Message] = []
        self._names: dict[str, str] = {}  # of calls, by id

    def read(self, data: object) -> None:
        if not isinstance(data, Mapping):
            raise UsageError("a message must be a JSON object")
        role = data.get("role")
        check_content(data.get("content"))
        if role in SYSTEM:
            self._read_system(join_text(data.get("content")))
        elif role == "user":
            self.messages.append(UserMessage(read_content(data.get("content"))))
        elif role == "assistant":
            self._read_assistant(data)
        elif role in ("tool", "function"):
            self._read_result(data)
        else:
            known = "system, developer, user, assistant, tool or function"
            raise UsageError(f"`role` must be {known}, not {short_repr(role)}")

    def _read_system(self, text: str) -> None:
        if self.messages:
            self.messages.append(SystemMessage(text))
        elif text:
            self.system.append(text)

    def _read_assistant(self, data: Mapping[str, Any]) -> None:
        content: list[Content] = []
        # DeepSeek, llama.cpp, vLLM and Qwen say `reasoning_content`; OpenRouter, Ollama and newer
        # versions of vLLM say `reasoning`.
        reasoning = text_at(data, "reasoning_content") or text_at(data, "reasoning")
        reasoning = reasoning or _find_reasoning(data)
        if reasoning:
            content.append(Thinking(reasoning))
        text = join_text(data.get("content")) or text_at(data, "refusal")
        if text:
            content.append(Text(text))
        for call in _read_calls(data):
            self._names[call.id] = call.name
            content.append(call)
        rest = {key: value for key, value in without_keys(data, _READ_FIELDS).items() if value}
        if rest:
            content.append(Opaque(tables.NAME, rest))
        self.messages.append(AssistantMessage(content=content))

    def _read_result(self, data: Mapping[str, Any]) -> None:
        id_ = text_at(data, "tool_call_id") or text_at(data, "name")
        name = text_at(data, "name") or self._names.get(id_, "")
        content = data.get("content")
        blocks = read_content(content) if isinstance(content, list) else []
        plain = all(isinstance(block, Text) for block in blocks)
        self.messages.append(ToolResult(id_, name, join_text(content) if plain else blocks))


def read_content(content: object) -> list[UserContent]:
    """Read the content of a user message: text, or a list of parts."""
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
    image = fields.get("image_url")
    # The API has an object with `url`; some clients send the URL itself.
    if fields.get("type") == "image_url" and isinstance(image, str):
        return Image.at(image)
    if fields.get("type") == "image_url" and isinstance(image, Mapping):
        if not text_at(image, "url"):
            raise UsageError("`image_url` needs a `url`")
        return Image.at(text_at(image, "url"), text_at(image, "detail"))
    return Opaque(tables.NAME, part)


def _find_reasoning(message: Mapping[str, Any]) -> str:
    """Return the reasoning among the parts of a message, where Mistral's servers put it."""
    parts = [part for part in objects_at(message, "content") if part.get("type") == "thinking"]
    return "\n".join(join_text(part.get("thinking")) for part in parts)


def join_text(content: object) -> str:
    """Return the text of *content*, one line per part."""
    if isinstance(content, str):
        return clean(content)
    return "\n".join(block.text for block in read_content(content) if isinstance(block, Text))


def _read_calls(data: Mapping[str, Any]) -> list[ToolCall]:
    calls = []
    check_list(data, "tool_calls")
    for position, call in enumerate(list_at(data, "tool_calls")):
        if not isinstance(call, Mapping):
            raise UsageError("a tool call must be a JSON object")
        function = object_at(call, "function") or object_at(call, "custom")
        calls.append(_read_call(function, text_at(call, "id") or f"call_{position}", call))
    # A legacy call has no id; its result has the role `function` and names the function instead.
    legacy = data.get("function_call")
    if isinstance(legacy, Mapping):
        calls.append(_read_call(legacy, text_at(legacy, "name"), {}))
    return calls


def _read_call(function: Mapping[str, Any], id_: str, call: Mapping[str, Any]) -> ToolCall:
    name, arguments = text_at(function, "name"), function.get("arguments")
    if not name:
        raise UsageError("a tool call needs a `name`")
    # Gemini's OpenAI-compatible endpoint sends the signature of a call in this field.
    signature = text_at(object_at(object_at(call, "extra_content"), "google"), "thought_signature")
    # A custom tool takes free text instead of JSON.
    check_text(function, "input")
    if isinstance(function.get("input"), str):
        arguments = {"input": function["input"]}
    check_arguments(arguments)
    if isinstance(arguments, dict):
        return ToolCall(id_, name, arguments, signature=signature)
    return ToolCall.from_text(id_, name, arguments or "", signature=signature)


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
        return ResponseFormat("schema", schema, text_at(inner, "name"), bool_at(inner, "strict"))
    if data.get("type") == "json_object":  # Some servers accept a schema here.
        return ResponseFormat("json", dict(object_at(data, "schema")))
    return ResponseFormat("text")


def read_reasoning(data: Mapping[str, Any]) -> ReasoningOptions | None:
    """Read the reasoning options: an effort, or OpenRouter's budget."""
    inner = object_at(data, "reasoning")
    effort = text_at(data, "reasoning_effort") or text_at(inner, "effort")
    budget = integer_at(inner, "max_tokens")
    return ReasoningOptions(effort, budget) if effort or budget is not None else None
