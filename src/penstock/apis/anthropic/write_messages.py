"""Our messages as this API wants them: turns of a user and an assistant, one after the other.

Results come first in the user's turn that follows their calls; a result that answers no call of the
turn before would be refused, so it is said as text. Thinking goes back only with its signature, and
else as text. What has nothing to say is left out, since the API refuses it.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from penstock.apis.anthropic import tables
from penstock.apis.anthropic.own_blocks import OwnBlocks
from penstock.apis.anthropic.response import write_blocks
from penstock.apis.anthropic.sealed import block_of
from penstock.apis.history import repaired, replayable, result_text, text_of
from penstock.apis.ids import SentIds
from penstock.apis.media import PDF, File, media_type_of
from penstock.apis.text_forms import with_fit_content
from penstock.messages import AssistantMessage, Content, Opaque, Text, Thinking, ToolResult
from penstock.requests import Image, Request, SystemMessage, UserContent, UserMessage

FAILED: Final = "The tool failed."
"""What a failure without a word says; the API refuses one that says nothing."""

NOTHING: Final = "(empty)"
"""What a user says who begins without a word; the API refuses to begin with anybody else."""

_INSTRUCTABLE: Final = re.compile(
    r"claude-(?:mythos|[a-z]+-(?:4[-.](?:[89]|\d\d)|[5-9]|\d\d)(?!\d))", re.IGNORECASE
)
"""Models that take instructions among the messages, behind what the user says."""

_Turn = tuple[str, list[dict[str, Any]]]


def write_messages(request: Request, own: OwnBlocks | None = None) -> list[dict[str, Any]]:
    """Write the conversation of *request*; *own* are its blocks as they came."""
    own = OwnBlocks(request) if own is None else own
    written: list[dict[str, Any]] = []
    for said_by, blocks in _turns(request, own):
        before = written[-1]["role"] if written else ""
        role = "user" if said_by == "system" and not _may_instruct(request, before) else said_by
        if not blocks:
            continue
        if before == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    is_silent = bool(request.messages) and isinstance(request.messages[0], UserMessage)
    if is_silent and (not written or written[0]["role"] == "assistant"):
        written.insert(0, {"role": "user", "content": [{"type": "text", "text": NOTHING}]})
    return [{**turn, "content": _plain(turn["content"])} for turn in written]


def _may_instruct(request: Request, before: str) -> bool:
    """Tell whether instructions may be a turn of their own; else they are the user's.

    A client of this API knows that of its model.
    """
    if request.source == tables.NAME:
        return before != ""
    return before == "user" and _INSTRUCTABLE.search(request.model) is not None


def _turns(request: Request, own: OwnBlocks) -> Iterator[_Turn]:
    ids = SentIds.for_model(request.model, tables.CALL_ID, "toolu_")
    asked: set[str] = set()  # calls that the turn before made
    for message in repaired(with_fit_content(request.messages, tables.NAME, write_file)):
        match message:
            case AssistantMessage():
                asked = {call.id for call in message.tool_calls}
                blocks = _fit(replayable(message, request.model, tables.NAME))
                yield "assistant", write_blocks(blocks, ids.of_call, own.more)
            case ToolResult() if message.id in asked:
                id_ = ids.of_result(message.id)
                yield "user", [_own_result(own.given(message), id_) or _result(message, id_)]
            case ToolResult():
                yield "user", _content([Text(result_text(message))])
            case UserMessage():
                yield "user", _content(message.content, own)
            case SystemMessage():
                yield "system", _own_system(own.given(message)) or _content([Text(message.text)])


def _fit(blocks: list[Content]) -> list[Content]:
    """Turn thinking that this API has not signed into text."""
    return [
        Text(block.text) if isinstance(block, Thinking) and not _is_signed(block) else block
        for block in blocks
    ]


def _is_signed(block: Thinking) -> bool:
    """Tell whether the signature may be this API's: one that is JSON is of the Responses API."""
    return bool(block.signature) and not block.signature.startswith("{")


def _own_result(given: Mapping[str, Any] | None, id_: str) -> dict[str, Any] | None:
    """Write a result as it came; nothing for one that did not, or that the API would refuse."""
    if given is None or (given.get("is_error") is True and not given.get("content")):
        return None
    return {**given, "type": "tool_result", "tool_use_id": id_}


def _own_system(given: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Write instructions in the blocks that they came in."""
    content = given.get("content") if given is not None else None
    blocks = (
        [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    )
    return [block for block in blocks if str(block.get("text") or "").strip()]


def _result(result: ToolResult, id_: str) -> dict[str, Any]:
    content = result.content
    is_blocks = isinstance(content, list) and any(isinstance(b, Image | Opaque) for b in content)
    said: Any = _content(content) if is_blocks else text_of(content)
    block = {"type": "tool_result", "tool_use_id": id_, "content": said}
    return {**block, "content": said or FAILED, "is_error": True} if result.is_error else block


def _content(blocks: list[UserContent], own: OwnBlocks | None = None) -> list[dict[str, Any]]:
    parts = [(_part(block), block) for block in blocks]
    more: Callable[[object], Mapping[str, Any]] = own.more if own is not None else lambda _: {}
    return [{**more(block), **part} for part, block in parts if part is not None]


def _part(block: UserContent) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if isinstance(block, Image):
        return {"type": "image", "source": _source(block)}
    return block_of(block)


def write_file(file: File) -> dict[str, Any] | None:
    """Write a file as a document, if it is of a kind that the API takes."""
    source = _document_source(file)
    titled = {"title": file.name} if file.name else {}
    return {"type": "document", "source": source, **titled} if source else None


def _document_source(file: File) -> dict[str, str] | None:
    if file.media_type == PDF and file.data:
        return {"type": "base64", "media_type": PDF, "data": file.data}
    if file.media_type == PDF:
        return {"type": "url", "url": file.url}
    if file.media_type.startswith("text/") and file.data:
        try:
            text = b64decode(file.data).decode()
        except ValueError:
            return None
        return {"type": "text", "media_type": "text/plain", "data": text}
    return None


def _source(image: Image) -> dict[str, str]:
    """Say where a picture is; one that is its own address goes in one piece."""
    head, is_whole, data = image.url.partition(";base64,")
    if is_whole and head.startswith("data:"):
        kind = media_type_of(Image(head.removeprefix("data:"), data))
        return {"type": "base64", "media_type": kind, "data": data}
    if image.url:
        return {"type": "url", "url": image.url}
    return {"type": "base64", "media_type": media_type_of(image), "data": image.data}


def _plain(blocks: list[dict[str, Any]]) -> Any:
    """Write text alone as text."""
    match blocks:
        case [{"type": "text", "text": str(text), **more}] if not more:
            return text
    return blocks
