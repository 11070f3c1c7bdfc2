"""A `Request` as a server of the messages API wants it.

The API refuses what others let pass: a request without a limit, thinking beside a forced call or
beside most sampling, a choice of tools where there are none. What it would refuse is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock.apis.anthropic import tables
from penstock.apis.anthropic.client_tools import read_client_tool
from penstock.apis.anthropic.own_blocks import OwnBlocks
from penstock.apis.anthropic.read_messages import text_of_blocks
from penstock.apis.anthropic.read_request import read_tool
from penstock.apis.anthropic.thinking import write_effort, write_thinking
from penstock.apis.anthropic.write_messages import write_file, write_messages
from penstock.apis.history import lost_content
from penstock.apis.reading import names_of_own, only_set, text_at, the_rest
from penstock.apis.surrogates import without_lone_surrogates
from penstock.apis.text_forms import with_fit_content
from penstock.requests import ReasoningOptions, Request, ToolChoice
from penstock.tools import Tool

DEFAULT_MAX_TOKENS: Final = 8_192
"""The limit of an answer where a request names none: the API demands one."""

_MODES: Final = {"auto": "auto", "required": "any", "none": "none", "tool": "tool"}
_IN_TOOL: Final = frozenset({"name", "description", "input_schema"})
_WOVEN_IN: Final = frozenset({"tools", "tool_choice", "system", "thinking", "output_config"})
"""Fields that were kept aside in part and go back to where they were."""

_NO_PLACE: Final = ("seed", "presence_penalty", "frequency_penalty", "n")


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for, or would refuse, is left out."""
    blocks = OwnBlocks(request)
    messages = write_messages(request, blocks)
    thinking = write_thinking(request, messages)
    budget, limit = thinking.get("budget_tokens", 0), request.max_tokens
    tools = _tools(request)
    body = {
        "model": request.model,
        "max_tokens": DEFAULT_MAX_TOKENS + budget if limit is None else limit,
        "system": _system(request) or None,
        "messages": messages,
        "tools": tools or None,
        "tool_choice": _choice(request) if tools else None,
        "stop_sequences": [stop for stop in request.stop if stop.strip()] or None,
        "thinking": thinking or None,
        "output_config": _output(request) or None,
        "metadata": _metadata(request) or None,
        "stream": request.stream or None,
        **_sampling(request, is_thinking=thinking.get("type") in ("enabled", "adaptive")),
    }
    own = the_rest(_own(request), _WOVEN_IN)
    if blocks.has_marks and "cache_control" not in (request.raw or {}):
        own.pop("cache_control", None)  # It stands for marks that are in their places.
    return without_lone_surrogates({**own, **only_set(body)})


def left_out(request: Request) -> list[str]:
    """Name the fields of *request* that `write_request` leaves out."""
    written = write_request(request)
    missing = [key for key in _NO_PLACE if getattr(request, key) is not None]
    missing += [
        key
        for key in ("temperature", "top_p", "top_k", "tool_choice")
        if getattr(request, key) is not None and key not in written
    ]
    if "tool_choice" in written and not _is_there(request.tool_choice, request):
        missing.append("tool_choice")
    if request.response_format is not None and request.response_format.kind == "json":
        missing.append("response_format")
    if _asks_to_think(request.reasoning) and not _says_to_think(written):
        missing.append("reasoning")
    messages = with_fit_content(request.messages, tables.NAME, write_file)
    missing += lost_content(structs.replace(request, messages=messages), tables.NAME)
    if request.source != tables.NAME:
        missing += ["metadata"] * bool(request.metadata) + names_of_own(request)
    return missing


def _asks_to_think(reasoning: ReasoningOptions | None) -> bool:
    return reasoning is not None and reasoning.effort != "none" and reasoning.budget != 0


def _says_to_think(body: Mapping[str, Any]) -> bool:
    return "thinking" in body or "effort" in body.get("output_config", {})


# --- what the client said in words of this API ---


def _own(request: Request) -> dict[str, Any]:
    return request.extra if request.source == tables.NAME else {}


def _system(request: Request) -> Any:
    """Write the system prompt, in the client's own blocks while they say the same."""
    blocks = _own(request).get("system")
    return blocks if text_of_blocks(blocks) == request.system else request.system


def _tools(request: Request) -> list[Any]:
    """Write the tools: as the client did, or with the fields beside the usual ones that it gave."""
    own = _own(request)
    asked = (request.raw or {}).get("tools") if request.source == tables.NAME else None
    given = {
        text_at(tool, "name"): tool
        for tool in (asked if isinstance(asked, list) else [])
        if isinstance(tool, Mapping)
    }
    tools = [_given_tool(tool, given.get(tool.name)) for tool in request.tools]
    return [*tools, *own.get("tools", [])]


def _given_tool(tool: Tool, given: Mapping[str, Any] | None) -> dict[str, Any]:
    if given is None:
        return _tool(tool)
    is_typed = read_client_tool(given) is not None
    if is_typed or ("input_examples" in given and read_tool(given) == tool):
        return dict(given)
    return {**the_rest(given, _IN_TOOL), **_tool(tool)}


def _tool(tool: Tool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": {"type": "object", **tool.parameters}}


def _metadata(request: Request) -> dict[str, Any]:
    own = request.metadata if request.source == tables.NAME else {}
    return {**own, "user_id": request.user} if request.user else dict(own)


# --- how to answer ---


def _choice(request: Request) -> dict[str, Any] | None:
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if not _is_there(choice, request):
        choice = None
    if choice is None and parallel is None:
        return _own(request).get("tool_choice")
    written: dict[str, Any] = {"type": _MODES[choice.mode] if choice else "auto"}
    if choice is not None and choice.mode == "tool":
        written["name"] = choice.name
    if parallel is not None and written["type"] != "none":
        written["disable_parallel_tool_use"] = not parallel
    return written


def _is_there(choice: ToolChoice | None, request: Request) -> bool:
    """Tell whether the tool of *choice* is; the API refuses a choice of what is not there.

    A client of this API may mean a tool that a server runs.
    """
    if choice is None or choice.mode != "tool" or request.source == tables.NAME:
        return True
    return any(tool.name == choice.name for tool in request.tools)


def _sampling(request: Request, *, is_thinking: bool) -> dict[str, Any]:
    """Write the sampling; beside thinking there is none, and newer models take only one of two."""
    if is_thinking and request.source != tables.NAME:
        return {}
    temperature, top_p = request.temperature, request.top_p
    if request.source != tables.NAME and temperature is not None:
        temperature, top_p = min(temperature, 1.0), None
    return {"temperature": temperature, "top_p": top_p, "top_k": request.top_k}


def _output(request: Request) -> dict[str, Any]:
    output = dict(_own(request).get("output_config", {}))
    wanted, effort = request.response_format, write_effort(request)
    if effort:
        output["effort"] = effort
    if wanted is not None and wanted.kind == "schema":
        output["format"] = {"type": "json_schema", "schema": wanted.schema}
    return output
