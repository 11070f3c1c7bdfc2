"""Write a `Request` for a server of the Responses API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock._json import without_lone_surrogates
from penstock.apis.encoder import ConversationIds
from penstock.apis.fields import (
    can_meet_choice,
    clean,
    effort_for,
    object_at,
    objects_at,
    text_at,
    unportable_names,
    without_none,
)
from penstock.apis.history import (
    PDF,
    File,
    convert_content,
    find_lost_content,
    is_from,
    media_type_for,
    pair_results,
    replayable_blocks,
    result_text,
)
from penstock.apis.openai_responses import tables
from penstock.apis.openai_responses.client_tools import (
    NAMESPACE,
    SEARCH,
    SEARCH_CALL,
    SEARCH_OUTPUT,
    ClientTools,
    flatten_tools,
    full_name,
    is_client_search,
    read_client_tools,
)
from penstock.apis.openai_responses.read_request import read_choice
from penstock.apis.openai_responses.response import (
    PHASES,
    find_annotations,
    foreign_item,
)
from penstock.errors import JSONParseError
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    mark_failed,
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

# Item ids and reasoning go back only to the model that made them, and only together: the API
# refuses a call whose reasoning item it has stored and does not receive.

# OpenAI refuses longer call ids, and item ids without the prefix of their type.
_CALL_ID: Final = re.compile(r"(?s).{1,64}")
_ITEM_ID: Final = re.compile(r"(?:msg|fc|ctc)_[A-Za-z0-9_-]{1,60}")


def write_input(request: Request, tools: ClientTools) -> list[dict[str, Any]]:
    """Write the conversation of *request*; *tools* has the client's names of its tools."""
    writer = _Writer(request, tools)
    messages = convert_content(request, tables.NAME, write_file).messages
    # With these the server has earlier items, so a result may have no call in the request.
    remembers = bool(request.extra.keys() & {"previous_response_id", "conversation"})
    paired = pair_results(messages, remembers=remembers)
    return [item for message in paired for item in writer.write(message)]


class _Writer:
    def __init__(self, request: Request, tools: ClientTools) -> None:
        self._model = request.model
        self._tools = tools
        self._found = _search_outputs(request) if tools.searches else {}
        self._ids = ConversationIds.for_model(request.model, _CALL_ID)
        self._free: set[str] = set()  # ids of calls of free-text tools

    def write(self, message: Message) -> list[dict[str, Any]]:
        if isinstance(message, SystemMessage):
            return [{"type": "message", "role": "system", "content": clean(message.text)}]
        if isinstance(message, UserMessage):
            content = _content(message.content)
            return [{"type": "message", "role": "user", "content": content}]
        if isinstance(message, ToolResult):
            return [self._result(message)]
        return self._assistant(message)

    def _assistant(self, message: AssistantMessage) -> list[dict[str, Any]]:
        blocks = replayable_blocks(message, self._model, tables.NAME)
        reasoning = [block for block in blocks if isinstance(block, Thinking)]
        is_own = is_from(message, self._model) and message.stop_reason not in ("error", "aborted")
        # A call whose id the server knows needs its reasoning item before it ("function_call was
        # provided without its required reasoning item").
        keep_ids = is_own and all(find_reasoning(block) for block in reasoning)
        items: list[dict[str, Any]] = []
        for block in blocks:
            item = self._item(block, keep_ids=keep_ids)
            if item is not None:
                items.append(item)
            elif isinstance(block, Opaque) and items and items[-1].get("role") == "assistant":
                items[-1]["content"][0]["annotations"] += find_annotations(block)
        return items

    def _item(self, block: Content, *, keep_ids: bool) -> dict[str, Any] | None:
        if isinstance(block, Text):
            return _text_part(block, keep_ids=keep_ids) if block.text or block.signature else None
        if isinstance(block, Thinking):
            return find_reasoning(block)
        if isinstance(block, ToolCall):
            return self._call(block, keep_ids=keep_ids)
        return foreign_item(block)

    def _call(self, call: ToolCall, *, keep_ids: bool) -> dict[str, Any]:
        item: dict[str, Any] = {"type": "function_call"}
        if self._tools.is_custom(call.id, call.name):
            self._free.add(call.id)
            item = {"type": "custom_tool_call"}
        if keep_ids:
            item |= _valid_id(call.id.partition("|")[2])
        call_id = self._ids.call_id(call.id)
        if self._tools.is_search(call.name):
            fields = {"execution": "client", "arguments": call.arguments}
            return {**item, "type": SEARCH_CALL, "call_id": call_id, **fields}
        item |= {"call_id": call_id, **self._tools.name_fields(call.name)}
        text = call.arguments.get("input")
        if call.id in self._free and isinstance(text, str):
            return {**item, "input": clean(text)}
        arguments = _json.encode_wire(call.arguments).decode()
        field = "input" if call.id in self._free else "arguments"
        return {**item, field: arguments}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        found = self._found.get(result.id.partition("|")[0])
        if found is not None:
            return {**found, "call_id": self._ids.result_id(result.id)}
        is_free = result.id in self._free or result.name in self._tools.custom
        kind = "custom_tool_call_output" if is_free else "function_call_output"
        content = result.content
        has_more = isinstance(content, list) and any(isinstance(b, Image | Opaque) for b in content)
        output: Any = clean(result_text(result))
        if has_more:
            failed = [Text(str(mark_failed("")))] if result.is_error else []
            output = _content([*failed, *content])
        return {"type": kind, "call_id": self._ids.result_id(result.id), "output": output}


def find_reasoning(block: Thinking) -> dict[str, Any] | None:
    """Return the original reasoning item of *block*, which is its signature."""
    if not block.signature.startswith("{"):
        return None
    try:
        item = _json.decode(block.signature)
    except JSONParseError:
        return None
    return item if isinstance(item, dict) and item.get("type") == "reasoning" else None


def _text_part(block: Text, *, keep_ids: bool) -> dict[str, Any]:
    id_, _, phase = block.signature.partition("|")
    item: dict[str, Any] = {"type": "message", "role": "assistant"}
    if keep_ids:
        item |= _valid_id(id_)
    if phase in PHASES:
        item["phase"] = phase
    # An assistant message has `output_text` parts; the other roles have `input_text`.
    part = {"type": "output_text", "text": clean(block.text), "annotations": []}
    return {**item, "content": [part]}


def _valid_id(id_: str) -> dict[str, str]:
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
    """Write a file; None if the API does not accept its type."""
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
        url = block.url or f"data:{media_type_for(block)};base64,{block.data}"
        return {"type": "input_image", "image_url": url, "detail": block.detail or "auto"}
    return block.data if block.provider == tables.NAME else None


COMPATIBLE: Final = ("top_k", "seed", "presence_penalty", "frequency_penalty", "stop")
"""Fields that the API does not have and compatible servers do: written only for its clients."""

_NO_PARAMETERS: Final = {"type": "object", "properties": {}}


ENCRYPTED: Final = "reasoning.encrypted_content"
"""What a response includes, so that its reasoning can be sent back to a server that keeps none."""


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; fields that the API cannot express are omitted."""
    is_own = request.source == tables.NAME
    raw = request.raw or {} if is_own else {}
    tools = read_client_tools(raw)
    can_call = can_meet_choice(request, tables.NAME)
    body: dict[str, Any] = {
        "model": request.model,
        "instructions": clean(request.system) or None,
        "input": write_input(request, tools),
        "tools": _write_tools(request, raw, is_own=is_own) or None,
        "tool_choice": _choice(request.tool_choice, tools) if can_call else None,
        "parallel_tool_calls": request.parallel_tool_calls if can_call else None,
        "max_output_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "text": _text(request.response_format),
        "reasoning": _reasoning(request.reasoning),
        "stream": request.stream or None,
        "metadata": request.metadata or None,
        "user": request.user or None,
        "store": request.store,
        # Reasoning that the server does not keep has to come with every request.
        "include": [ENCRYPTED] if request.store is False else None,
    }
    if is_own:
        body |= _compatible_fields(request)
    body = without_none(body)
    return without_lone_surrogates(_with_extra(body, request) if is_own else body)


def omitted_fields(request: Request) -> list[str]:
    """Return the names of the fields of *request* that `write_request` omits."""
    missing = ["n"] if request.n is not None else []
    if not can_meet_choice(request, tables.NAME):
        asked = ("tool_choice", "parallel_tool_calls")
        missing += [key for key in asked if getattr(request, key) is not None]
    if request.reasoning is not None and _reasoning(request.reasoning) is None:
        missing.append("reasoning")
    missing += find_lost_content(convert_content(request, tables.NAME, write_file), tables.NAME)
    if request.source != tables.NAME:
        missing += _compatible_fields(request)
        missing += unportable_names(request)
    return missing


def _compatible_fields(request: Request) -> dict[str, Any]:
    fields = {key: getattr(request, key) for key in COMPATIBLE}
    return {key: value for key, value in fields.items() if value not in (None, [])}


def _with_extra(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Add the fields of `Request.extra`, also those inside fields that a `Request` has."""
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


def _write_tools(request: Request, raw: Mapping[str, Any], *, is_own: bool) -> list[dict[str, Any]]:
    """Write the tools of *request*; those that a client grouped in *raw* stay in their groups."""
    asked = {str(tool.get("name")): tool for tool in objects_at(raw, "tools")}
    kept = {tool.name for tool in request.tools}
    written: list[dict[str, Any]] = []
    grouped: set[str] = set()
    for tool in objects_at(raw, "tools"):
        if tool.get("type") == NAMESPACE:
            names = {
                full_name(text_at(tool, "name"), text_at(one, "name")): one
                for one in objects_at(tool, "tools")
            }
            inner = [one for name, one in names.items() if name in kept]
            grouped |= names.keys()
            written += [{**tool, "tools": inner}] if inner else []
        elif is_client_search(tool):
            grouped.add(SEARCH)
            written += [dict(tool)] if SEARCH in kept else []
    for item in objects_at(raw, "input"):  # The server loads what a search found.
        if item.get("type") == SEARCH_OUTPUT and is_client_search(item):
            grouped |= {str(tool.get("name")) for tool in flatten_tools({"input": [item]})}
    plain = [tool for tool in request.tools if tool.name not in grouped]
    return [_tool(tool, asked.get(tool.name), is_own) for tool in plain] + written


def _search_outputs(request: Request) -> dict[str, Mapping[str, Any]]:
    """Return the outputs of the client's searches by the id of their call."""
    items = objects_at(request.raw or {}, "input")
    return {text_at(item, "call_id"): item for item in items if item.get("type") == SEARCH_OUTPUT}


def _tool(tool: Tool, asked: Mapping[str, Any] | None, is_own: bool) -> dict[str, Any]:  # noqa: FBT001
    """Write *tool*, with the fields that a client of this API gave it; others are not strict."""
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


def _choice(choice: ToolChoice | None, tools: ClientTools) -> str | dict[str, Any] | None:
    if choice is None or choice.mode != "tool":
        return choice.mode if choice else None
    kind = "custom" if choice.name in tools.custom else "function"
    return {"type": kind, **tools.name_fields(choice.name)}


def _text(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    if wanted is None:
        return None
    if wanted.kind != "schema":
        return {"format": {"type": "json_object" if wanted.kind == "json" else "text"}}
    schema = {"type": "json_schema", "name": wanted.name or "answer", "schema": wanted.schema}
    strict = {} if wanted.strict is None else {"strict": wanted.strict}
    return {"format": {**schema, **strict}}


def _reasoning(options: ReasoningOptions | None) -> dict[str, Any] | None:
    """Write the reasoning options; a budget is written as an effort."""
    if options is None:
        return None
    written = {"effort": effort_for(options), "summary": options.summary}
    return {key: value for key, value in written.items() if value} or None
