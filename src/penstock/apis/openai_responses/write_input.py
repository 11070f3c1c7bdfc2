"""A conversation as the items of `input`.

Item ids and reasoning go back to the model that made them, and only together: the API refuses a
call whose reasoning it knows of and does not get.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock import _json
from penstock.apis.history import is_by, repaired, replayable, result_text
from penstock.apis.ids import SentIds
from penstock.apis.media import PDF, File, media_type_of
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.write_items import (
    PHASES,
    annotations_of,
    foreign_item,
    is_custom,
)
from penstock.apis.reading import clean
from penstock.apis.text_forms import with_fit_content
from penstock.errors import JSONParseError
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    failed_content,
)
from penstock.requests import Image, Message, Request, SystemMessage, UserContent, UserMessage

_CALL_ID: Final = re.compile(r"(?s).{1,64}")
_ITEM_ID: Final = re.compile(r"(?:msg|fc|ctc)_[A-Za-z0-9_-]{1,60}")


def write_input(request: Request, custom: frozenset[str]) -> list[dict[str, Any]]:
    """Write the conversation of *request*; *custom* names the tools that take free text."""
    writer = _Writer(request.model, custom)
    messages = with_fit_content(request.messages, tables.NAME, write_file)
    remembers = bool(request.extra.keys() & {"previous_response_id", "conversation"})
    fit = repaired(messages, remembers=remembers)
    return [item for message in fit for item in writer.write(message)]


class _Writer:
    def __init__(self, model: str, custom: frozenset[str]) -> None:
        self._model = model
        self._custom = custom
        self._ids = SentIds.for_model(model, _CALL_ID)
        self._free: set[str] = set()  # ids of calls that take free text

    def write(self, message: Message) -> list[dict[str, Any]]:
        if isinstance(message, SystemMessage):
            return [{"type": "message", "role": "system", "content": clean(message.text)}]
        if isinstance(message, UserMessage):
            content = _content(message.content)
            return [{"type": "message", "role": "user", "content": content}]
        if isinstance(message, ToolResult):
            return [self._result(message)]
        return self._answer(message)

    def _answer(self, message: AssistantMessage) -> list[dict[str, Any]]:
        blocks = replayable(message, self._model, tables.NAME)
        thoughts = [block for block in blocks if isinstance(block, Thinking)]
        is_own = is_by(message, self._model) and message.stop_reason not in ("error", "aborted")
        keep_ids = is_own and all(reasoning_of(thought) for thought in thoughts)
        items: list[dict[str, Any]] = []
        for block in blocks:
            item = self._item(block, keep_ids=keep_ids)
            if item is not None:
                items.append(item)
            elif isinstance(block, Opaque) and items and items[-1].get("role") == "assistant":
                items[-1]["content"][0]["annotations"] += annotations_of(block)
        return items

    def _item(self, block: Content, *, keep_ids: bool) -> dict[str, Any] | None:
        if isinstance(block, Text):
            return _text(block, keep_ids=keep_ids) if block.text or block.signature else None
        if isinstance(block, Thinking):
            return reasoning_of(block)
        if isinstance(block, ToolCall):
            return self._call(block, keep_ids=keep_ids)
        return foreign_item(block)

    def _call(self, call: ToolCall, *, keep_ids: bool) -> dict[str, Any]:
        item: dict[str, Any] = {"type": "function_call"}
        if is_custom(call.id, call.name, self._custom):
            self._free.add(call.id)
            item = {"type": "custom_tool_call"}
        if keep_ids:
            item |= _lawful_id(call.id.partition("|")[2])
        item |= {"call_id": self._ids.of_call(call.id), "name": call.name}
        text = call.arguments.get("input")
        if call.id in self._free and isinstance(text, str):
            return {**item, "input": clean(text)}
        arguments = _json.encode_wire(call.arguments).decode()
        field = "input" if call.id in self._free else "arguments"
        return {**item, field: arguments}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        is_free = result.id in self._free or result.name in self._custom
        kind = "custom_tool_call_output" if is_free else "function_call_output"
        content = result.content
        has_more = isinstance(content, list) and any(isinstance(b, Image | Opaque) for b in content)
        output: Any = clean(result_text(result))
        if has_more:
            failed = [Text(str(failed_content("")))] if result.is_error else []
            output = _content([*failed, *content])
        return {"type": kind, "call_id": self._ids.of_result(result.id), "output": output}


def reasoning_of(thought: Thinking) -> dict[str, Any] | None:
    """Give the item that *thought* was, which its signature is."""
    if not thought.signature.startswith("{"):
        return None
    try:
        item = _json.decode(thought.signature)
    except JSONParseError:
        return None
    return item if isinstance(item, dict) and item.get("type") == "reasoning" else None


def _text(block: Text, *, keep_ids: bool) -> dict[str, Any]:
    id_, _, phase = block.signature.partition("|")
    item: dict[str, Any] = {"type": "message", "role": "assistant"}
    if keep_ids:
        item |= _lawful_id(id_)
    if phase in PHASES:
        item["phase"] = phase
    part = {"type": "output_text", "text": clean(block.text), "annotations": []}
    return {**item, "content": [part]}


def _lawful_id(id_: str) -> dict[str, str]:
    return {"id": id_} if _ITEM_ID.fullmatch(id_) else {}


def _content(content: list[UserContent]) -> str | list[Any]:
    match content:
        case []:
            return ""
        case [Text() as only]:
            return clean(only.text)
    parts = [_part(block) for block in content]
    return [part for part in parts if part is not None] or ""


def write_file(file: File) -> dict[str, Any] | None:
    """Write a file, if it is of a kind that the API takes."""
    if file.media_type != PDF and not file.media_type.startswith("text/"):
        return None
    if not file.data:
        return {"type": "input_file", "file_url": file.url}
    name = file.name or ("file.pdf" if file.media_type == PDF else "file.txt")
    return {"type": "input_file", "filename": name, "file_data": file.data_url}


def _part(block: UserContent) -> Any:
    if isinstance(block, Text):
        return {"type": "input_text", "text": clean(block.text)}
    if isinstance(block, Image):
        url = block.url or f"data:{media_type_of(block)};base64,{block.data}"
        return {"type": "input_image", "image_url": url, "detail": block.detail or "auto"}
    return block.data if block.provider == tables.NAME else None
