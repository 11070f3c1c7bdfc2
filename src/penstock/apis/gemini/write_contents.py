"""Messages as the turns of a Gemini conversation.

Results that follow one another are parts of one turn, as the API wants the answers to parallel
calls. Pictures that a tool gave back go along in its result where the model can read them there,
and else in a turn behind it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, Final

from msgspec import structs

from penstock.apis.gemini import tables
from penstock.apis.gemini.response import write_block
from penstock.apis.gemini.signatures import UNCHECKED, is_base64
from penstock.apis.history import repaired, replayable, text_of
from penstock.apis.ids import SentIds
from penstock.apis.media import File, media_type_of
from penstock.apis.text_forms import with_fit_content
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    ToolResult,
)
from penstock.requests import Image, Message, Request, SystemMessage, UserContent, UserMessage

_OUTPUT_KEYS: Final = frozenset({"output", "result", "error"})
NOTHING: Final = "(empty)"
"""What a user says who begins without a word; the API refuses to begin with the model."""

_RESOLUTIONS: Final = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def is_newer(model: str) -> bool:
    """Tell whether *model* is of the generation that signs its calls, or of a later one."""
    version = re.search(r"gemini-(\d{1,4})", model)
    return version is not None and int(version[1]) >= 3  # noqa: PLR2004 - the generation


def write_contents(request: Request) -> list[dict[str, Any]]:
    """Write the conversation of *request*; turns that say nothing are left out."""
    ids = SentIds()
    contents: list[dict[str, Any]] = []
    messages = with_fit_content(request.messages, tables.NAME, write_file)
    runs = groupby(repaired(messages), key=lambda message: isinstance(message, ToolResult))
    for is_results, run in runs:
        if is_results:
            contents += _results(run, request, ids)
        else:
            contents += [_turn(message, request, ids) for message in run]
    contents = [content for content in contents if content["parts"]]
    is_silent = bool(request.messages) and isinstance(request.messages[0], UserMessage)
    if is_silent and (not contents or contents[0]["role"] == "model"):
        contents.insert(0, {"role": "user", "parts": [{"text": NOTHING}]})
    return contents


def _turn(message: Message, request: Request, ids: SentIds) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        return {"role": "model", "parts": _model_parts(message, request, ids.of_call)}
    if isinstance(message, SystemMessage):  # The API knows none but the first.
        return {"role": "user", "parts": [{"text": message.text}] if message.text else []}
    content = message.content if isinstance(message, UserMessage) else []
    parts = [_user_part(block, request) for block in content]
    return {"role": "user", "parts": [part for part in parts if part]}


# --- the model ---


def _model_parts(
    message: AssistantMessage, request: Request, give: Callable[[str], str]
) -> list[dict[str, Any]]:
    blocks = [_fit(block) for block in replayable(message, request.model, tables.NAME)]
    parts = [part for block in blocks for part in write_block(block, give)]
    calls = [part for part in parts if "functionCall" in part]
    if calls and is_newer(request.model):
        calls[0].setdefault("thoughtSignature", UNCHECKED)
    return parts


def _fit(block: Content) -> Content:
    """Give *block* without a signature that is none of this API."""
    if isinstance(block, Opaque) or is_base64(block.signature):
        return block
    return structs.replace(block, signature="")


# --- the user ---


def _user_part(block: UserContent, request: Request) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"text": block.text} if block.text else None
    if isinstance(block, Image):
        return write_image(block, is_detailed=request.source == tables.NAME)
    return block.data if block.provider == tables.NAME else None


def write_image(picture: Image, *, is_detailed: bool = False) -> dict[str, Any]:
    """Write a picture; the API wants its type, so one that is not known is guessed."""
    part: dict[str, Any]
    kind = media_type_of(picture)
    if picture.data:
        part = {"inlineData": {"mimeType": kind, "data": picture.data}}
    else:
        part = {"fileData": {"mimeType": kind, "fileUri": picture.url}}
    if is_detailed and picture.detail in _RESOLUTIONS:
        part["mediaResolution"] = {"level": _RESOLUTIONS[picture.detail]}
    return part


def write_file(file: File) -> dict[str, Any] | None:
    """Write a file; of what kind it is must be known."""
    if not file.media_type:
        return None
    if file.data:
        return {"inlineData": {"mimeType": file.media_type, "data": file.data}}
    return {"fileData": {"mimeType": file.media_type, "fileUri": file.url}}


# --- results ---


def _results(messages: Iterable[Message], request: Request, ids: SentIds) -> list[dict[str, Any]]:
    """Write results as one turn, and pictures that have no place in it as another."""
    parts: list[Any] = []
    behind: list[Any] = []
    for message in messages:
        if not isinstance(message, ToolResult):
            continue
        pictures = _pictures(message)
        function: dict[str, Any] = {
            "id": ids.of_result(message.id),
            "name": message.name or message.id or "unknown",
            "response": _response(message),
        }
        if pictures and is_newer(request.model):
            function["parts"] = pictures
        elif pictures:
            behind += [{"text": f"What {function['name']} gave back:"}, *pictures]
        parts.append({"functionResponse": function})
    return [{"role": "user", "parts": parts}, {"role": "user", "parts": behind}]


def _pictures(result: ToolResult) -> list[dict[str, Any]]:
    content = result.content if isinstance(result.content, list) else []
    pictures = [write_image(block) for block in content if isinstance(block, Image)]
    files = [b.data for b in content if isinstance(b, Opaque) and b.provider == tables.NAME]
    return pictures + [data for data in files if isinstance(data, dict)]


def _response(result: ToolResult) -> dict[str, Any]:
    """Write what a call gave back: an object as it is, all else under the name for it."""
    content = result.content
    if isinstance(content, list) and any(isinstance(b, Text | Image | Opaque) for b in content):
        content = text_of(content)
    if result.is_error:
        return {"error": content}
    is_plain = isinstance(content, dict) and not (
        len(content) == 1 and content.keys() & _OUTPUT_KEYS
    )
    return content if is_plain else {"output": content}
