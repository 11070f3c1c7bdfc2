"""A `Request` as Gemini wants it.

The model and whether to stream are in the URL and not in the body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, Final

from msgspec import structs

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import SentIds
from penstock.apis.fields import names_of_own, only_set
from penstock.apis.gemini import tables
from penstock.apis.gemini.response import UNCHECKED, is_base64, write_block
from penstock.apis.gemini.schemas import write_schema
from penstock.apis.history import lost_content, repaired, replayable, text_of
from penstock.apis.media import File, media_type_of
from penstock.apis.text_forms import with_fit_content
from penstock.messages import AssistantMessage, Content, Opaque, Text, ToolResult
from penstock.request import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    SystemMessage,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool

# Messages as the turns of a Gemini conversation.
#
# Results that follow one another are parts of one turn, as the API wants the answers to
# parallel calls. Pictures that a tool gave back go along in its result where the model can read
# them there, and else in a turn after it.


_OUTPUT_KEYS: Final = frozenset({"output", "result", "error"})
NOTHING: Final = "(empty)"
"""What a user says who begins without a word; the API refuses to begin with the model."""

_RESOLUTIONS: Final = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def is_newer(model: str) -> bool:
    """Return whether *model* is of the generation that signs its calls, or of a later one."""
    version = re.search(r"gemini-(\d{1,4})", model)
    return version is not None and int(version[1]) >= 3  # noqa: PLR2004 - the generation


def write_contents(request: Request) -> list[dict[str, Any]]:
    """Write the conversation of *request*; turns that say nothing are omitted."""
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
    """Return *block* without a signature that is not one of this API."""
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
    """Write results as one turn, and images that have no place in it as another."""
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


_MODES: Final = {"auto": "AUTO", "none": "NONE", "required": "ANY", "tool": "ANY"}
_LEVELS: Final = {
    "none": "MINIMAL",
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "HIGH",
    "max": "HIGH",
}
_BUDGETS: Final = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}
"""Efforts in words as tokens, for models that know no words: what its own OpenAI endpoint does."""

LEAST_BUDGET: Final = 128
"""The least that the larger of those models thinks: it cannot be told not to."""

_WOVEN_IN: Final = ("generationConfig", "tools", "toolConfig")


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for is omitted."""
    own = _own(request)
    body = {
        "contents": write_contents(request),
        "systemInstruction": ({"parts": [{"text": request.system}]} if request.system else None),
        "tools": _tools(request, own) or None,
        "toolConfig": _tool_config(request, own) or None,
        "generationConfig": _config(request, own) or None,
    }
    rest = {key: value for key, value in own.items() if key not in _WOVEN_IN}
    return without_lone_surrogates({**rest, **only_set(body)})


def left_out(request: Request) -> list[str]:
    """Name the fields of *request* that `write_request` leaves out."""
    missing = ["parallel_tool_calls"] if request.parallel_tool_calls is not None else []
    missing += [name for name in ("metadata", "user") if getattr(request, name)]
    if request.tool_choice is not None and not _can_call(request):
        missing.append("tool_choice")
    messages = with_fit_content(request.messages, tables.NAME, write_file)
    missing += lost_content(structs.replace(request, messages=messages), tables.NAME)
    if request.source != tables.NAME:
        missing += names_of_own(request)
    return missing


def _own(request: Request) -> dict[str, Any]:
    return request.extra if request.source == tables.NAME else {}


# --- tools ---


def _tools(request: Request, own: dict[str, Any]) -> list[Any]:
    declared = [_tool(tool) for tool in request.tools]
    return [*([{"functionDeclarations": declared}] if declared else []), *own.get("tools", [])]


def _tool(tool: Tool) -> dict[str, Any]:
    written: dict[str, Any] = {"name": tool.name}
    if tool.description:
        written["description"] = tool.description
    if tool.parameters:
        written |= write_schema(tool.parameters, "parameters", "parametersJsonSchema")
    return written


def _can_call(request: Request) -> bool:
    """Return whether there is what could be called; the API refuses a choice of what is not there.

    A client of this API says which of its server's own tools it means.
    """
    if request.source == tables.NAME:
        return True
    choice, names = request.tool_choice, {tool.name for tool in request.tools}
    return bool(names) and (choice is None or choice.mode != "tool" or choice.name in names)


def _tool_config(request: Request, own: dict[str, Any]) -> dict[str, Any]:
    """Write whether tools are called; the client's own word stays while it says the same."""
    config = dict(own.get("toolConfig", {}))
    calling = dict(config.pop("functionCallingConfig", {}))
    choice = request.tool_choice
    if choice is not None and _can_call(request):
        if choice.mode != "auto" or "mode" not in calling:
            calling["mode"] = _MODES[choice.mode]
        if choice.mode == "none":
            calling.pop("allowedFunctionNames", None)
        elif choice.mode == "tool":
            calling["allowedFunctionNames"] = [choice.name]
    return {**config, "functionCallingConfig": calling} if calling else config


# --- how to answer ---


def _config(request: Request, own: dict[str, Any]) -> dict[str, Any]:
    config = dict(own.get("generationConfig", {}))
    thinking = _thinking(request, config.pop("thinkingConfig", {}))
    written = {
        "temperature": request.temperature,
        "topP": request.top_p,
        "topK": request.top_k,
        "maxOutputTokens": request.max_tokens,
        "stopSequences": request.stop or None,
        "seed": request.seed,
        "candidateCount": request.n,
        "presencePenalty": request.presence_penalty,
        "frequencyPenalty": request.frequency_penalty,
        "thinkingConfig": thinking or None,
    }
    return {**config, **_format(request), **only_set(written)}


def _format(request: Request) -> dict[str, Any]:
    wanted = request.response_format
    if wanted is None:
        return {}
    if wanted.kind == "text":
        return {"responseMimeType": "text/plain"}
    schema: dict[str, Any] = {}
    if wanted.kind == "schema":
        schema = write_schema(wanted.schema, "responseSchema", "responseJsonSchema")
    return {"responseMimeType": "application/json", **schema}


def _thinking(request: Request, own: dict[str, Any]) -> dict[str, Any]:
    """Write how much to think, in tokens or in words, whichever the model knows.

    Thoughts are shown unless the client, speaking this API, did not ask for them: the others show
    them whenever there are any.
    """
    wanted = request.reasoning
    if wanted is None:
        return dict(own)
    config = {**own, **_amount(wanted, request.model)}
    if wanted.summary or (request.source != tables.NAME and wanted.effort != "none"):
        config["includeThoughts"] = True
    return config


def _amount(wanted: ReasoningOptions, model: str) -> dict[str, Any]:
    if wanted.budget is not None:
        return {"thinkingBudget": wanted.budget}
    if wanted.effort not in _LEVELS:
        return {"thinkingLevel": wanted.effort.upper()} if wanted.effort else {}
    is_pro = "pro" in model
    if "gemini" in model and not is_newer(model):
        budget = _BUDGETS[wanted.effort]
        return {"thinkingBudget": max(budget, LEAST_BUDGET) if is_pro else budget}
    level = _LEVELS[wanted.effort]
    return {"thinkingLevel": "LOW" if is_pro and level == "MINIMAL" else level}
