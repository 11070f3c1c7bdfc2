"""A `Request` as a server of the Responses API wants it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock.apis.efforts import effort_of
from penstock.apis.history import lost_content
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.read_request import read_choice
from penstock.apis.openai_responses.write_input import write_file, write_input
from penstock.apis.reading import clean, names_of_own, object_at, only_set
from penstock.apis.surrogates import without_lone_surrogates
from penstock.apis.text_forms import with_fit_content
from penstock.requests import ReasoningOptions, Request, ResponseFormat, ToolChoice
from penstock.tools import Tool

ELSEWHERE: Final = ("top_k", "seed", "presence_penalty", "frequency_penalty", "stop")
"""What the API has no word for; servers that speak it do, so it goes back to those alone."""

_NO_PARAMETERS: Final = {"type": "object", "properties": {}}


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for is left out."""
    is_own = request.source == tables.NAME
    asked = _tools_of(request.raw) if is_own and request.raw else {}
    custom = frozenset(name for name, tool in asked.items() if tool.get("type") == "custom")
    can_call = _can_call(request)
    body: dict[str, Any] = {
        "model": request.model,
        "instructions": clean(request.system) or None,
        "input": write_input(request, custom),
        "tools": [_tool(tool, asked.get(tool.name), is_own) for tool in request.tools] or None,
        "tool_choice": _choice(request.tool_choice, custom) if can_call else None,
        "parallel_tool_calls": request.parallel_tool_calls if can_call else None,
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "text": _text(request.response_format),
        "reasoning": _reasoning(request.reasoning),
        "stream": request.stream or None,
        "metadata": request.metadata or None,
        "user": request.user or None,
    }
    if is_own:
        body |= _elsewhere(request)
    body = only_set(body)
    return without_lone_surrogates(_with_extra(body, request) if is_own else body)


def left_out(request: Request) -> list[str]:
    """Name the fields of *request* that `write_request` leaves out."""
    missing = ["n"] if request.n is not None else []
    if not _can_call(request):
        asked = ("tool_choice", "parallel_tool_calls")
        missing += [key for key in asked if getattr(request, key) is not None]
    if request.reasoning is not None and _reasoning(request.reasoning) is None:
        missing.append("reasoning")
    messages = with_fit_content(request.messages, tables.NAME, write_file)
    missing += lost_content(structs.replace(request, messages=messages), tables.NAME)
    if request.source != tables.NAME:
        missing += _elsewhere(request)
        missing += names_of_own(request)
    return missing


def _can_call(request: Request) -> bool:
    """Tell whether there is what could be called; the API refuses a choice of what is not there.

    A client of this API says which of its server's own tools it means.
    """
    if request.source == tables.NAME:
        return True
    choice, names = request.tool_choice, {tool.name for tool in request.tools}
    return bool(names) and (choice is None or choice.mode != "tool" or choice.name in names)


def _elsewhere(request: Request) -> dict[str, Any]:
    fields = {key: getattr(request, key) for key in ELSEWHERE}
    return {key: value for key, value in fields.items() if value not in (None, [])}


def _with_extra(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Give the client's own words back, also those inside fields that a `Request` has."""
    extra = dict(request.extra)
    foreign = extra.pop("tools", [])
    if foreign:
        body["tools"] = [*body.get("tools", []), *foreign]
    choice = extra.pop("tool_choice", None)
    if choice is not None and read_choice(choice) == request.tool_choice:
        body["tool_choice"] = choice
    text, reasoning = object_at(extra, "text"), object_at(extra, "reasoning")
    if text:
        inner = {**object_at(text, "format"), **object_at(object_at(body, "text"), "format")}
        body["text"] = {**text, **({"format": inner} if inner else {})}
    if reasoning:
        body["reasoning"] = {**reasoning, **object_at(body, "reasoning")}
    return {**extra, **body}


def _tools_of(raw: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Give the tools that the client named, as it did."""
    tools = raw.get("tools")
    named = [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list) else []
    return {str(tool.get("name")): tool for tool in named}


def _tool(tool: Tool, asked: Mapping[str, Any] | None, is_own: bool) -> dict[str, Any]:  # noqa: FBT001
    """Write *tool*; what the client said of it beside stays, and nobody else's is made strict."""
    if asked is not None and asked.get("type") == "custom":
        return dict(asked)
    function: dict[str, Any] = {
        "type": "function",
        "name": tool.name,
        "parameters": tool.parameters or _NO_PARAMETERS,
    }
    if tool.description:
        function["description"] = tool.description
    if asked is None or asked.get("type") != "function" or not is_own:
        return {**function, "strict": False}
    return {**asked, **function}


def _choice(choice: ToolChoice | None, custom: frozenset[str]) -> str | dict[str, Any] | None:
    if choice is None or choice.mode != "tool":
        return choice.mode if choice else None
    return {"type": "custom" if choice.name in custom else "function", "name": choice.name}


def _text(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    if wanted is None:
        return None
    if wanted.kind != "schema":
        return {"format": {"type": "json_object" if wanted.kind == "json" else "text"}}
    schema = {"type": "json_schema", "name": wanted.name or "answer", "schema": wanted.schema}
    strict = {} if wanted.strict is None else {"strict": wanted.strict}
    return {"format": {**schema, **strict}}


def _reasoning(options: ReasoningOptions | None) -> dict[str, Any] | None:
    """Write how much a model thinks; a number of tokens goes as the word for it."""
    if options is None:
        return None
    written = {"effort": effort_of(options), "summary": options.summary}
    return {key: value for key, value in written.items() if value} or None
