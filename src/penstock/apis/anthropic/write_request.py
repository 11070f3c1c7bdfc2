"""A `Request` as a server of the messages API wants it.

The API refuses what others let pass: a request without a limit, thinking beside a forced call or
beside most sampling, a choice of tools where there are not. What it would refuse is omitted.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from msgspec import structs

from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.client_tools import read_client_tool
from penstock.apis.anthropic.opaque import OwnBlocks, block_of
from penstock.apis.anthropic.read_request import read_tool, text_of_blocks
from penstock.apis.anthropic.response import write_blocks
from penstock.apis.anthropic.thinking import write_effort, write_thinking
from penstock.apis.encoder import SentIds
from penstock.apis.fields import names_of_own, only_set, text_at, the_rest
from penstock.apis.history import lost_content, repaired, replayable, result_text, text_of
from penstock.apis.media import PDF, File, media_type_of
from penstock.apis.text_forms import with_fit_content
from penstock.messages import AssistantMessage, Content, Opaque, Text, Thinking, ToolResult
from penstock.request import (
    Image,
    ReasoningOptions,
    Request,
    SystemMessage,
    ToolChoice,
    UserContent,
    UserMessage,
)
from penstock.tools import Tool

# Our messages as this API wants them: turns of a user and an assistant, one after the other.
#
# Results come first in the user's turn that follows their calls; a result that answers no call
# of the turn before would be refused, so it is said as text. Thinking goes back only with its
# signature, and else as text. What has nothing to say is omitted, since the API refuses it.


FAILED: Final = "The tool failed."
"""What a failure without a word says; the API refuses one that says nothing."""

NOTHING: Final = "(empty)"
"""What a user says who begins without a word; the API refuses to begin with anybody else."""

_INSTRUCTABLE: Final = re.compile(
    r"claude-(?:mythos|[a-z]+-(?:4[-.](?:[89]|\d\d)|[5-9]|\d\d)(?!\d))", re.IGNORECASE
)
"""Models that take instructions among the messages, after what the user says."""

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
    """Return whether instructions may be a turn of their own; else they are the user's.

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
    """Return whether the signature may be this API's: one that is JSON is of the Responses API."""
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


DEFAULT_MAX_TOKENS: Final = 8_192
"""The limit of an answer where a request names none: the API demands one."""

_MODES: Final = {"auto": "auto", "required": "any", "none": "none", "tool": "tool"}
_IN_TOOL: Final = frozenset({"name", "description", "input_schema"})
_WOVEN_IN: Final = frozenset({"tools", "tool_choice", "system", "thinking", "output_config"})
"""Fields that were kept aside in part and go back to where they were."""

_NO_PLACE: Final = ("seed", "presence_penalty", "frequency_penalty", "n")


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; what the API has no word for, or would refuse, is omitted."""
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
    """Return whether the tool of *choice* is; the API refuses a choice of what is not there.

    A client of this API may mean a tool that a server runs.
    """
    if choice is None or choice.mode != "tool" or request.source == tables.NAME:
        return True
    return any(tool.name == choice.name for tool in request.tools)


def _sampling(request: Request, *, is_thinking: bool) -> dict[str, Any]:
    """Write the sampling.

    Beside thinking there is not one, and newer models take only one of two.
    """
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
