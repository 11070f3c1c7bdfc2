"""Write a `Request` for `generateContent`.

The model and whether to stream are in the URL, not in the body.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any, Final

from msgspec import structs

from penstock._json import without_lone_surrogates
from penstock.apis.encoder import ConversationIds
from penstock.apis.fields import can_meet_choice, unportable_names, without_none
from penstock.apis.gemini import tables
from penstock.apis.gemini.encode import write_block
from penstock.apis.gemini.read_request import write_schema
from penstock.apis.gemini.tables import UNCHECKED, is_base64
from penstock.apis.history import (
    NOTHING,
    File,
    content_text,
    convert_content,
    find_lost_content,
    media_type_for,
    pair_results,
    replayable_blocks,
)
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

# --- turns ---
#
# Consecutive results are parts of one turn, as the API requires for parallel calls. Images of a
# result are in it for models that read them there (Gemini 3), otherwise in a turn after it.

_OUTPUT_KEYS: Final = frozenset({"output", "result", "error"})

_RESOLUTIONS: Final = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def is_newer(model: str) -> bool:
    """Return whether *model* is Gemini 3 or later: these sign their calls."""
    version = re.search(r"gemini-(\d{1,4})", model)
    return version is not None and int(version[1]) >= 3  # noqa: PLR2004 - the generation


def write_contents(request: Request) -> list[dict[str, Any]]:
    """Write the conversation of *request*; empty turns are omitted."""
    ids = ConversationIds()
    contents: list[dict[str, Any]] = []
    messages = convert_content(request, tables.NAME, write_file).messages
    # The number of responses must equal the number of calls of the turn before, in one turn.
    runs = groupby(pair_results(messages), key=lambda message: isinstance(message, ToolResult))
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


def _turn(message: Message, request: Request, ids: ConversationIds) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        return {"role": "model", "parts": _model_parts(message, request, ids.call_id)}
    # Contents have only the roles `user` and `model`.
    if isinstance(message, SystemMessage):  # The API has only the system instruction.
        return {"role": "user", "parts": [{"text": message.text}] if message.text else []}
    content = message.content if isinstance(message, UserMessage) else []
    parts = [_user_part(block, request) for block in content]
    return {"role": "user", "parts": [part for part in parts if part]}


# --- the model ---


def _model_parts(
    message: AssistantMessage, request: Request, make_id: Callable[[str], str]
) -> list[dict[str, Any]]:
    blocks = [_fit(block) for block in replayable_blocks(message, request.model, tables.NAME)]
    parts = [part for block in blocks for part in write_block(block, make_id)]
    calls = [part for part in parts if "functionCall" in part]
    if calls and is_newer(request.model):
        # Gemini 3 refuses a call without a signature in the current turn. Google documents this
        # value for histories of other models.
        calls[0].setdefault("thoughtSignature", UNCHECKED)
    return parts


def _fit(block: Content) -> Content:
    """Return *block* without a signature that is not of this API."""
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


def write_image(image: Image, *, is_detailed: bool = False) -> dict[str, Any]:
    """Write an image; the API requires its type, so an unknown one is guessed."""
    part: dict[str, Any]
    kind = media_type_for(image)
    if image.data:
        part = {"inlineData": {"mimeType": kind, "data": image.data}}
    else:
        part = {"fileData": {"mimeType": kind, "fileUri": image.url}}
    if is_detailed and image.detail in _RESOLUTIONS:
        part["mediaResolution"] = {"level": _RESOLUTIONS[image.detail]}
    return part


def write_file(file: File) -> dict[str, Any] | None:
    """Write a file; None if its type is not known."""
    if not file.media_type:
        return None
    if file.data:
        return {"inlineData": {"mimeType": file.media_type, "data": file.data}}
    return {"fileData": {"mimeType": file.media_type, "fileUri": file.url}}


# --- results ---


def _results(
    messages: Iterable[Message], request: Request, ids: ConversationIds
) -> list[dict[str, Any]]:
    """Write results as one turn, and images that cannot be in it as another."""
    parts: list[Any] = []
    after: list[Any] = []
    for message in messages:
        if not isinstance(message, ToolResult):
            continue
        files = _write_files(message)
        function: dict[str, Any] = {
            "id": ids.result_id(message.id),
            "name": message.name or message.id or "unknown",
            "response": _response(message),
        }
        # Gemini 3 accepts files inside of a function response; older models only beside it.
        if files and is_newer(request.model):
            function["parts"] = files
        elif files:
            after += [{"text": f"What {function['name']} gave back:"}, *files]
        parts.append({"functionResponse": function})
    return [{"role": "user", "parts": parts}, {"role": "user", "parts": after}]


def _write_files(result: ToolResult) -> list[dict[str, Any]]:
    content = result.content if isinstance(result.content, list) else []
    images = [write_image(block) for block in content if isinstance(block, Image)]
    files = [b.data for b in content if isinstance(b, Opaque) and b.provider == tables.NAME]
    return images + [data for data in files if isinstance(data, dict)]


def _response(result: ToolResult) -> dict[str, Any]:
    """Write the content of a result: an object as it is, other values under ``output``."""
    content = result.content
    if isinstance(content, list) and any(isinstance(b, Text | Image | Opaque) for b in content):
        content = content_text(content)
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
# The budget of an effort, for models without levels, as in Google's own OpenAI endpoint.
_BUDGETS: Final = {
    "none": 0,
    "minimal": 1_024,
    "low": 1_024,
    "medium": 8_192,
    "high": 24_576,
    "xhigh": 24_576,
    "max": 24_576,
}

LEAST_BUDGET: Final = 128
"""The smallest budget of the larger of those models (Pro), which always reason."""

_MERGED: Final = ("generationConfig", "tools", "toolConfig")


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; fields that the API cannot express are omitted."""
    own = _own(request)
    body = {
        "contents": write_contents(request),
        "systemInstruction": ({"parts": [{"text": request.system}]} if request.system else None),
        "tools": _tools(request, own) or None,
        "toolConfig": _tool_config(request, own) or None,
        "generationConfig": _config(request, own) or None,
    }
    rest = {key: value for key, value in own.items() if key not in _MERGED}
    return without_lone_surrogates({**rest, **without_none(body)})


def omitted_fields(request: Request) -> list[str]:
    """Return the names of the fields of *request* that `write_request` omits."""
    missing = ["parallel_tool_calls"] if request.parallel_tool_calls is not None else []
    missing += [name for name in ("metadata", "user") if getattr(request, name)]
    if request.tool_choice is not None and not can_meet_choice(request, tables.NAME):
        missing.append("tool_choice")
    missing += find_lost_content(convert_content(request, tables.NAME, write_file), tables.NAME)
    if request.source != tables.NAME:
        missing += unportable_names(request)
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


def _tool_config(request: Request, own: dict[str, Any]) -> dict[str, Any]:
    """Write `toolConfig`; the client's own value stays if it means the same."""
    config = dict(own.get("toolConfig", {}))
    calling = dict(config.pop("functionCallingConfig", {}))
    choice = request.tool_choice
    if choice is not None and can_meet_choice(request, tables.NAME):
        if choice.mode != "auto" or "mode" not in calling:
            calling["mode"] = _MODES[choice.mode]
        if choice.mode == "none":
            calling.pop("allowedFunctionNames", None)
        elif choice.mode == "tool":
            calling["allowedFunctionNames"] = [choice.name]
    return {**config, "functionCallingConfig": calling} if calling else config


# --- options ---


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
    return {**config, **_format(request), **without_none(written)}


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
    """Write the reasoning options as a budget or a level, whichever the model accepts.

    Reasoning is included unless a client of this API did not ask for it: the other APIs include it
    whenever there is any.
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
    # Models before Gemini 3 have a budget of tokens, later ones a level. Pro models cannot switch
    # reasoning off, and have no level `MINIMAL`.
    is_pro = "pro" in model
    if "gemini" in model and not is_newer(model):
        budget = _BUDGETS[wanted.effort]
        return {"thinkingBudget": max(budget, LEAST_BUDGET) if is_pro else budget}
    level = _LEVELS[wanted.effort]
    return {"thinkingLevel": "LOW" if is_pro and level == "MINIMAL" else level}
