"""The items of a client's `input`, read into a conversation.

What the model made (messages, thoughts, calls) becomes one message for as long as nothing else
comes between. An item that is no message and no result stands with it too, whole and in its order:
it is the provider's own, or refers to what the provider keeps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.apis.media import image_at
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.read_items import (
    annotations_in,
    arguments_of,
    item_id,
    objects,
    signature_of,
    text_of_part,
)
from penstock.apis.openai_responses.write_items import ANNOTATIONS
from penstock.apis.reading import clean, text_at
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
from penstock.requests import Image, Message, SystemMessage, UserContent, UserMessage

_SYSTEM: Final = ("system", "developer")
_RESULTS: Final = ("function_call_output", "custom_tool_call_output")


def items_of(value: object) -> list[Any]:
    """Give the items of `input`: text is what a user says, and a stored prompt needs none."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if value is None:
        return []
    if not isinstance(value, list):
        raise UsageError("`input` must be text or a list of items")
    return value


class Conversation:
    """Reads items in order; those in front that instruct are part of the system prompt."""

    def __init__(self, instructions: str) -> None:
        self.system = [instructions] if instructions else []
        self.messages: list[Message] = []
        self._calls: dict[str, ToolCall] = {}  # by `call_id`

    def read(self, item: object) -> None:
        """Read one more item."""
        if isinstance(item, str):
            item = {"role": "user", "content": item}
        if not isinstance(item, Mapping):
            raise UsageError("an item of `input` is a JSON object")
        type_ = item.get("type") or ("message" if "role" in item else "item_reference")
        if type_ == "message":
            self._read_message(item)
        elif type_ in _RESULTS:
            self._read_result(item)
        else:
            self._content().extend(self._read_made(str(type_), item))

    def _content(self) -> list[Content]:
        """Give the content of the model's message that is being read."""
        last = self.messages[-1] if self.messages else None
        if not isinstance(last, AssistantMessage):
            last = AssistantMessage()
            self.messages.append(last)
        return last.content

    def _read_message(self, item: Mapping[str, Any]) -> None:
        role, content = item.get("role"), item.get("content")
        if role in _SYSTEM:
            self._read_system(text_of(content))
        elif role == "user":
            self.messages.append(UserMessage(read_content(content)))
        elif role == "assistant":
            self._read_answer(item)
        else:
            raise UsageError(f"a message has the role {role!r}")

    def _read_system(self, text: str) -> None:
        if self.messages:
            self.messages.append(SystemMessage(text))
        elif text:
            self.system.append(text)

    def _read_answer(self, item: Mapping[str, Any]) -> None:
        content, parts = self._content(), item.get("content")
        text = clean(parts) if isinstance(parts, str) else ""
        text = text or "".join(clean(text_of_part(part)) for part in objects(parts))
        content.append(Text(text, item_id(text_at(item, "id"), text_at(item, "phase"))))
        annotations = annotations_in(parts)
        if annotations:
            kept = {"type": ANNOTATIONS, ANNOTATIONS: annotations}
            content.append(Opaque(tables.NAME, kept))

    def _read_made(self, type_: str, item: Mapping[str, Any]) -> list[Content]:
        """Read an item of the model's that is no message."""
        if type_ == "reasoning":
            parts = [*objects(item.get("summary")), *objects(item.get("content"))]
            texts = [text for part in parts if (text := clean(text_of_part(part)))]
            return [Thinking("\n\n".join(texts), signature_of(item))]
        if type_ not in ("function_call", "custom_tool_call"):
            return [Opaque(tables.NAME, {"type": type_, **without_none(item)})]
        call = _read_call(item)
        self._calls[text_at(item, "call_id")] = call
        return [call]

    def _read_result(self, item: Mapping[str, Any]) -> None:
        """Read a result; a call that came before in another request is known by its `call_id`."""
        call_id, output = text_at(item, "call_id"), item.get("output")
        call = self._calls.get(call_id)
        blocks = read_content(output) if isinstance(output, list) else []
        is_text = isinstance(output, str) or all(isinstance(block, Text) for block in blocks)
        self.messages.append(
            ToolResult(
                call.id if call else call_id,
                call.name if call else text_at(item, "name"),
                text_of(output) if is_text else blocks,
            )
        )


def _read_call(item: Mapping[str, Any]) -> ToolCall:
    id_, name = item_id(text_at(item, "call_id"), text_at(item, "id")), text_at(item, "name")
    complete = item.get("status") != "incomplete"
    if isinstance(item.get("input"), str):
        return ToolCall(id_, name, {"input": clean(item["input"])}, complete=complete)
    return ToolCall.from_text(id_, name, arguments_of(item), complete=complete)


def read_content(content: object) -> list[UserContent]:
    """Read what a user says or a tool gives: text, or a list of parts."""
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
    if isinstance(url, Mapping):  # As in a chat completion.
        url = url.get("url")
    if isinstance(url, str) and url:
        return _read_image(url, text_at(fields, "detail"))
    return Opaque(tables.NAME, part)


def _read_image(url: str, detail: str) -> Image:
    detail = "" if detail == "auto" else detail
    return image_at(url, detail)


def text_of(content: object) -> str:
    """Give what is said in *content* as text, one part a line."""
    if isinstance(content, str):
        return clean(content)
    if isinstance(content, list):
        return "\n".join(b.text for b in read_content(content) if isinstance(b, Text))
    return "" if content is None else _json.encode(content).decode()


def without_none(item: Mapping[str, Any]) -> dict[str, Any]:
    """Give *item* without a type that says nothing."""
    return {key: value for key, value in item.items() if key != "type" or value is not None}
