"""A `Request` as Gemini wants it.

The model and whether to stream stand in the URL and not in the body.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import structs

from penstock.apis.gemini import tables
from penstock.apis.gemini.schemas import write_schema
from penstock.apis.gemini.write_contents import is_newer, write_contents, write_file
from penstock.apis.history import lost_content
from penstock.apis.reading import names_of_own, only_set
from penstock.apis.surrogates import without_lone_surrogates
from penstock.apis.text_forms import with_fit_content
from penstock.requests import ReasoningOptions, Request
from penstock.tools import Tool

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
    """Write *request*; what the API has no word for is left out."""
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
    """Tell whether there is what could be called; the API refuses a choice of what is not there.

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
