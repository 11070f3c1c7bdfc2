"""The messages of a conversation, read into ours.

What a tool gave back comes inside of what the user says here, and is a message of its own there.
Blocks that only this API understands are kept whole; citations become a block behind their text,
and who made a call one before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.apis.anthropic import tables
from penstock.apis.reading import object_at, text_at, the_rest
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


class Conversation:
    """Messages read in order: results come before what the user says beside them.

    *system* is the system prompt; instructions in front of all other messages are added to it.
    `cache_mark` is the last mark of the cache that was seen, and `sources` has each block that was
    read with the data that it was read from.
    """

    def __init__(self, system: str) -> None:
        self.system = [system] if system else []
        self.messages: list[Message] = []
        self.cache_mark: object = None
        self.sources: list[tuple[object, Mapping[str, Any]]] = []
        self._names: dict[str, str] = {}  # of calls, by id

    def read(self, data: object) -> None:
        """Read one more message; raise `UsageError` for what is none."""
        if not isinstance(data, Mapping):
            raise UsageError("a message is a JSON object")
        role, content = data.get("role"), data.get("content")
        blocks = _blocks_of(content)
        for block in blocks:
            self.cache_mark = block.get("cache_control") or self.cache_mark
        if role in _SYSTEM:
            self._read_system(text_of_blocks(content), data)
        elif role == "user":
            self._read_user(blocks)
        elif role == "assistant":
            self._read_assistant(blocks)
        else:
            raise UsageError(f"a message has the role {role!r}")

    def _read_system(self, text: str, data: Mapping[str, Any]) -> None:
        """Read instructions; Claude Code sends some among the messages."""
        if self.messages:
            message = SystemMessage(text)
            self.sources.append((message, data))
            self.messages.append(message)
        elif text:
            self.system.append(text)

    def _read_user(self, blocks: list[Mapping[str, Any]]) -> None:
        said = [block for block in blocks if block.get("type") != "tool_result"]
        self.messages += [self._read_result(b) for b in blocks if b.get("type") == "tool_result"]
        if said or not blocks:
            content = [_read_part(block) for block in said]
            self.sources += zip(content, said, strict=True)
            self.messages.append(UserMessage(content))

    def _read_result(self, block: Mapping[str, Any]) -> ToolResult:
        id_ = text_at(block, "tool_use_id")
        content, is_error = _read_output(block.get("content")), block.get("is_error") is True
        result = ToolResult(id_, self._names.get(id_, ""), content, is_error)
        self.sources.append((result, block))
        return result

    def _read_assistant(self, blocks: list[Mapping[str, Any]]) -> None:
        content: list[Content] = []
        for block in blocks:
            read = _read_block(block)
            self.sources += [(each, block) for each in read if not isinstance(each, Opaque)]
            content += read
        message = AssistantMessage(content=content)
        self._names |= {call.id: call.name for call in message.tool_calls}
        self.messages.append(message)


def _read_block(block: Mapping[str, Any]) -> list[Content]:
    """Read a block of what the assistant said; citations become a block of their own."""
    match block.get("type"):
        case "text":
            text = Text(text_at(block, "text"))
            citations = block.get("citations")
            return [text, Opaque(tables.NAME, {"citations": citations})] if citations else [text]
        case "thinking":
            return [Thinking(text_at(block, "thinking"), text_at(block, "signature"))]
        case "tool_use":
            caller = block.get("caller")
            made = [Opaque(tables.NAME, {"caller": caller})] if isinstance(caller, dict) else []
            return [*made, _read_call(block)]
    return [Opaque(tables.NAME, dict(block))]


def _read_call(block: Mapping[str, Any]) -> ToolCall:
    id_, name, given = text_at(block, "id"), text_at(block, "name"), block.get("input")
    if not id_ or not name:
        raise UsageError("a block of tool_use needs an id and a name")
    if isinstance(given, str):
        return ToolCall.from_text(id_, name, given)
    return ToolCall(id_, name, given if isinstance(given, dict) else {})


def _read_part(block: Mapping[str, Any]) -> UserContent:
    """Read a block of what a user says or a tool gives back."""
    kind, source = block.get("type"), object_at(block, "source")
    if kind == "text":
        return Text(text_at(block, "text"))
    if kind == "image" and source.get("type") == "base64":
        return Image(media_type=text_at(source, "media_type"), data=text_at(source, "data"))
    if kind == "image" and source.get("type") == "url":
        return Image(url=text_at(source, "url"))
    return Opaque(tables.NAME, the_rest(block, frozenset({"cache_control"})))


def _read_output(content: object) -> Any:
    """Read what a tool gave back: text where it is nothing else, and else its blocks."""
    if not isinstance(content, str | list):
        return "" if content is None else content
    parts = [_read_part(block) for block in _blocks_of(content)]
    texts = [part.text for part in parts if isinstance(part, Text)]
    return "\n".join(texts) if len(texts) == len(parts) else parts


def _blocks_of(content: object) -> list[Mapping[str, Any]]:
    """Give content as blocks: text alone is one."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    parts = content if isinstance(content, list) else []
    texts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return [block for block in texts if isinstance(block, Mapping)]


def text_of_blocks(content: object) -> str:
    """Give all text of *content*, one block a paragraph."""
    texts = [text_at(block, "text") for block in _blocks_of(content)]
    return "\n\n".join(text for text in texts if text)
