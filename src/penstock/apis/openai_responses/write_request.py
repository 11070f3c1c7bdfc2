"""A `Request` as a server of the Responses API wants it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec import structs

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import SentIds
from penstock.apis.fields import clean, effort_of, names_of_own, object_at, only_set
from penstock.apis.history import is_by, lost_content, repaired, replayable, result_text
from penstock.apis.media import PDF, File, media_type_of
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.read_request import read_choice
from penstock.apis.openai_responses.response import PHASES, annotations_of, foreign_item, is_custom
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
from penstock.request import (
    Image,
    Message,
    ReasoningOptions,
    Request,
    ResponseFormat,
    SystemMessage,
    ToolChoice,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool

# A conversation as the items of `input`.
#
# Item ids and reasoning go back to the model that made them, and only together: the API refuses
# a call whose reasoning it knows of and does not get.


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
            return _text_part(block, keep_ids=keep_ids) if block.text or block.signature else None
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
    """Return the item that *thought* was, which its signature is."""
    if not thought.signature.startswith("{"):
        return None
    try:
        item = _json.decode(thought.signature)
    except JSONParseError:
        return None
    return item if isinstance(item, dict) and item.get("type") == "reasoning" else None


def _text_part(block: Text, *, keep_ids: bool) -> dict[str, Any]:
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


ELSEWHERE: Final = ("top_k", "seed", "presence_penalty", "frequency_penalty", "stop")
"""What the API has no word for; servers that speak it do, so it goes back to those alone."""

_NO_PARAMETERS: Final = {"type": "object", "properties": {}}


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for is omitted."""
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
    """Return whether there is what could be called; the API refuses a choice of what is not there.

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
    """Return the client's own words back, also those inside fields that a `Request` has."""
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
    """Return the tools that the client named, as it did."""
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
