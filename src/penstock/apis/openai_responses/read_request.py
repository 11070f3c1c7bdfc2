"""Read a request of the Responses API into a `Request`.

Clients send fields that are in no specification; they are kept in `Request.extra`, and only a value
that cannot be a request raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.apis.fields import (
    bool_at,
    check_arguments,
    check_content,
    check_list,
    check_text,
    clean,
    integer_at,
    number_at,
    object_at,
    short_repr,
    split_tools,
    string_list,
    text_at,
    without_keys,
)
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.client_tools import (
    SEARCH_OUTPUT,
    call_name,
    describe_found,
    flatten_tools,
    is_client_search,
)
from penstock.apis.openai_responses.decode import (
    item_id,
    objects,
    part_text,
    read_annotations,
    read_arguments,
    read_signature,
)
from penstock.apis.openai_responses.response import ANNOTATIONS
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

_SYSTEM: Final = ("system", "developer")
_RESULTS: Final = ("function_call_output", "custom_tool_call_output")


def read_items(value: object) -> list[Any]:
    """Return the items of `input`: text is a user message, and a stored prompt needs none."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if value is None:
        return []
    if not isinstance(value, list):
        raise UsageError("`input` must be text or a list of items")
    return value


class InputReader:
    """Reads items in order; instructions before all others are part of the system prompt.

    Consecutive items of the model (messages, reasoning, calls) become one message. An item that is
    neither a message nor a result is part of it too, whole and in order: it is the provider's own,
    or refers to one that the provider stores.
    """

    def __init__(self, instructions: str) -> None:
        self.system = [instructions] if instructions else []
        self.messages: list[Message] = []
        self._calls: dict[str, ToolCall] = {}  # by `call_id`

    def read(self, item: object) -> None:
        """Read an item; raise `UsageError` if it is not one."""
        if isinstance(item, str):
            item = {"role": "user", "content": item}
        if not isinstance(item, Mapping):
            raise UsageError("an item of `input` must be a JSON object")
        type_ = item.get("type") or ("message" if "role" in item else "item_reference")
        if type_ == "message":
            self._read_message(item)
        elif type_ in _RESULTS or (type_ == SEARCH_OUTPUT and is_client_search(item)):
            self._read_result(item)
        else:
            self._content().extend(self._read_item(str(type_), item))

    def _content(self) -> list[Content]:
        """Return the content of the assistant message that is being read."""
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, AssistantMessage):
            last = AssistantMessage()
            self.messages.append(last)
        return last.content

    def _read_message(self, item: Mapping[str, Any]) -> None:
        role, content = item.get("role"), item.get("content")
        check_content(content)
        if role in _SYSTEM:
            self._read_system(join_text(content))
        elif role == "user":
            self.messages.append(UserMessage(read_content(content)))
        elif role == "assistant":
            self._read_assistant(item)
        else:
            known = "system, developer, user or assistant"
            raise UsageError(f"`role` of a message must be {known}, not {short_repr(role)}")

    def _read_system(self, text: str) -> None:
        if self.messages:
            self.messages.append(SystemMessage(text))
        elif text:
            self.system.append(text)

    def _read_assistant(self, item: Mapping[str, Any]) -> None:
        content, parts = self._content(), item.get("content")
        text = clean(parts) if isinstance(parts, str) else ""
        text = text or "".join(clean(part_text(part)) for part in objects(parts))
        content.append(Text(text, item_id(text_at(item, "id"), text_at(item, "phase"))))
        annotations = read_annotations(parts)
        if annotations:
            kept = {"type": ANNOTATIONS, ANNOTATIONS: annotations}
            content.append(Opaque(tables.NAME, kept))

    def _read_item(self, type_: str, item: Mapping[str, Any]) -> list[Content]:
        """Read an item of the model that is not a message."""
        if type_ == "reasoning":
            parts = [*objects(item.get("summary")), *objects(item.get("content"))]
            texts = [text for part in parts if (text := clean(part_text(part)))]
            return [Thinking("\n\n".join(texts), read_signature(item))]
        if type_ not in ("function_call", "custom_tool_call") and not is_client_search(item):
            return [Opaque(tables.NAME, {"type": type_, **without_empty_type(item)})]
        call = _read_call(item)
        self._calls[text_at(item, "call_id")] = call
        return [call]

    def _read_result(self, item: Mapping[str, Any]) -> None:
        """Read a result; a call of an earlier request is known only by its `call_id`."""
        call_id, output = text_at(item, "call_id"), item.get("output")
        if item.get("type") == SEARCH_OUTPUT:
            output = describe_found(item)
        call = self._calls.get(call_id)
        blocks = read_content(output) if isinstance(output, list) else []
        is_text = isinstance(output, str) or all(isinstance(block, Text) for block in blocks)
        self.messages.append(
            ToolResult(
                call.id if call else call_id,
                call.name if call else text_at(item, "name"),
                join_text(output) if is_text else blocks,
            )
        )


def _read_call(item: Mapping[str, Any]) -> ToolCall:
    id_, name = item_id(text_at(item, "call_id"), text_at(item, "id")), call_name(item)
    complete = item.get("status") != "incomplete"
    if not name:
        raise UsageError("a `function_call` needs a `name`")
    if isinstance(item.get("input"), str):
        return ToolCall(id_, name, {"input": clean(item["input"])}, complete=complete)
    check_arguments(item.get("arguments"))
    return ToolCall.from_text(id_, name, read_arguments(item), complete=complete)


def read_content(content: object) -> list[UserContent]:
    """Read the content of a user message or a result: text, or a list of parts."""
    if isinstance(content, str):
        return [Text(clean(content))] if content else []
    return [_read_part(part) for part in content] if isinstance(content, list) else []


def _read_part(part: object) -> UserContent:
    if isinstance(part, str):
        return Text(clean(part))
    fields = part if isinstance(part, Mapping) else {}
    if isinstance(fields.get("text"), str):
        return Text(clean(fields["text"]))
    url = fields.get("image_url")
    if isinstance(url, Mapping):  # as in a chat completion
        url = url.get("url")
    if isinstance(url, str) and url:
        detail = text_at(fields, "detail")
        return Image.at(url, "" if detail == "auto" else detail)
    return Opaque(tables.NAME, part)


def join_text(content: object) -> str:
    """Return the text of *content*, one line per part."""
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, list):
        return "\n".join(b.text for b in read_content(content) if isinstance(b, Text))
    return "" if content is None else _json.encode(content).decode()


def without_empty_type(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return *item* without a type that is null."""
    return {key: value for key, value in item.items() if key != "type" or value is not None}


KNOWN: Final = frozenset(
    {
        "model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls",
        "max_output_tokens", "temperature", "top_p", "top_k", "seed", "presence_penalty",
        "frequency_penalty", "stop", "text", "reasoning", "stream", "metadata", "user",
    }
)  # fmt: skip
_MODES: Final = ("auto", "none", "required")
_FORMAT: Final = frozenset({"type", "name", "schema", "strict"})
_REASONING: Final = frozenset({"effort", "summary"})
_CHOICE: Final = frozenset({"type", "name"})


def read_request(data: Mapping[str, Any]) -> Request:
    """Read the body that a client sent; raise `UsageError` if it is not a request."""
    check_text(data, "instructions")
    reader = InputReader(text_at(data, "instructions"))
    if not isinstance(data.get("input"), str | list | None):
        raise UsageError("`input` must be text or a list of items")
    for item in read_items(data.get("input")):
        reader.read(item)
    check_list(data, "tools")
    own, foreign = split_tools(flatten_tools(data))
    stream = data.get("stream") is True
    return Request(
        model=text_at(data, "model"),
        system="\n\n".join(reader.system),
        messages=reader.messages,
        tools=own,
        tool_choice=read_choice(data.get("tool_choice")),
        parallel_tool_calls=bool_at(data, "parallel_tool_calls"),
        max_tokens=integer_at(data, "max_output_tokens"),
        temperature=number_at(data, "temperature"),
        top_p=number_at(data, "top_p"),
        top_k=integer_at(data, "top_k"),
        seed=integer_at(data, "seed"),
        presence_penalty=number_at(data, "presence_penalty"),
        frequency_penalty=number_at(data, "frequency_penalty"),
        stop=string_list(data.get("stop")),
        response_format=_read_format(object_at(data, "text").get("format")),
        reasoning=_read_reasoning(object_at(data, "reasoning")),
        stream=stream,
        include_usage=stream,  # The API always sends the usage.
        metadata=dict(object_at(data, "metadata")),
        user=text_at(data, "user"),
        source=tables.NAME,
        extra=_aside(data, foreign),
        raw=dict(data),
    )


def _aside(data: Mapping[str, Any], foreign: list[object]) -> dict[str, Any]:
    """Return what has no place in a `Request`: fields, and what is left of those that have one."""
    text = without_keys(object_at(data, "text"), frozenset({"format"}))
    wanted = without_keys(object_at(object_at(data, "text"), "format"), _FORMAT)
    if wanted:
        text["format"] = wanted
    choice = object_at(data, "tool_choice")
    is_plain = choice.get("type") == "function" and choice.keys() == _CHOICE
    unread = {
        "tools": foreign,
        "tool_choice": None if is_plain else dict(choice),
        "text": text,
        "reasoning": without_keys(object_at(data, "reasoning"), _REASONING),
    }
    return {**without_keys(data, KNOWN), **{key: value for key, value in unread.items() if value}}


def read_choice(choice: object) -> ToolChoice | None:
    """Read the tool choice; of a choice among several tools only the mode is read."""
    if isinstance(choice, Mapping):
        name = call_name(choice) or text_at(object_at(choice, "function"), "name")
        if name and choice.get("type") != "mcp":
            return ToolChoice("tool", name)
        choice = choice.get("mode")
    if isinstance(choice, str) and choice in _MODES:
        mode: Any = choice
        return ToolChoice(mode)
    return None


def _read_format(data: object) -> ResponseFormat | None:
    if not isinstance(data, Mapping):
        return None
    if data.get("type") == "json_schema":
        schema = dict(object_at(data, "schema"))
        return ResponseFormat("schema", schema, text_at(data, "name"), bool_at(data, "strict"))
    return ResponseFormat("json" if data.get("type") == "json_object" else "text")


def _read_reasoning(data: Mapping[str, Any]) -> ReasoningOptions | None:
    effort, summary = text_at(data, "effort"), text_at(data, "summary")
    return ReasoningOptions(effort, None, summary) if effort or summary else None
