"""Write a `Request` for a server of the Messages API.

The API refuses what others accept: a request without a limit, thinking with a forced call or with
most sampling options, a tool choice without tools. What it would refuse is omitted.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from penstock._json import without_lone_surrogates
from penstock.apis.anthropic import tables
from penstock.apis.anthropic.encode import write_blocks
from penstock.apis.anthropic.opaque import OriginalBlocks, find_block
from penstock.apis.anthropic.read_request import join_text, read_client_tool, read_tool
from penstock.apis.encoder import ConversationIds
from penstock.apis.fields import objects_at, text_at, unportable_names, without_keys, without_none
from penstock.apis.history import (
    NOTHING,
    PDF,
    File,
    content_text,
    convert_content,
    find_lost_content,
    media_type_for,
    pair_results,
    replayable_blocks,
    result_text,
)
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

# --- messages ---
#
# User and assistant take turns. Results come first in the user's turn after their calls; a result
# without a call in the turn before would be refused, so it is written as text. Reasoning goes back
# only with its signature, otherwise as text. Empty blocks are omitted, since the API refuses them.

FAILED: Final = "The tool failed."
"""The content of a failed result without content; the API refuses an empty one."""


# Claude 4.8 and newer, and Claude Mythos.
# Models that accept system messages after a user message.
_INSTRUCTABLE: Final = re.compile(
    r"claude-(?:mythos|[a-z]+-(?:4[-.](?:[89]|\d\d)|[5-9]|\d\d)(?!\d))", re.IGNORECASE
)

_Turn = tuple[str, list[dict[str, Any]]]


def write_messages(request: Request, own: OriginalBlocks | None = None) -> list[dict[str, Any]]:
    """Write the conversation of *request*; *own* has its original blocks."""
    own = OriginalBlocks(request) if own is None else own
    written: list[dict[str, Any]] = []
    for author, blocks in _turns(request, own):
        before = written[-1]["role"] if written else ""
        is_user = author == "system" and not _accepts_system(request, before)
        role = "user" if is_user else author
        if not blocks:
            continue
        if before == role:
            written[-1]["content"] += blocks
        else:
            written.append({"role": role, "content": blocks})
    # The API requires a user turn first, and refuses empty content.
    is_silent = bool(request.messages) and isinstance(request.messages[0], UserMessage)
    if is_silent and (not written or written[0]["role"] == "assistant"):
        written.insert(0, {"role": "user", "content": [{"type": "text", "text": NOTHING}]})
    return [{**turn, "content": _plain(turn["content"])} for turn in written]


def _accepts_system(request: Request, before: str) -> bool:
    """Return whether a system message may be a turn of its own; otherwise it is the user's.

    A client of this API knows what its model accepts.
    """
    if request.source == tables.NAME:
        return before != ""
    return before == "user" and _INSTRUCTABLE.search(request.model) is not None


def _turns(request: Request, own: OriginalBlocks) -> Iterator[_Turn]:
    ids = ConversationIds.for_model(request.model, tables.CALL_ID, "toolu_")
    asked: set[str] = set()  # the calls of the turn before
    for message in pair_results(convert_content(request, tables.NAME, write_file).messages):
        match message:
            case AssistantMessage():
                # A `tool_result` must be in the turn directly after its `tool_use`; otherwise
                # status 400.
                asked = {call.id for call in message.tool_calls}
                blocks = _fit(replayable_blocks(message, request.model, tables.NAME))
                yield "assistant", write_blocks(blocks, ids.call_id, own.more)
            case ToolResult() if message.id in asked:
                id_ = ids.result_id(message.id)
                yield "user", [_own_result(own.given(message), id_) or _result(message, id_)]
            case ToolResult():
                yield "user", _content([Text(result_text(message))])
            case UserMessage():
                yield "user", _content(message.content, own)
            case SystemMessage():
                yield "system", _own_system(own.given(message)) or _content([Text(message.text)])


def _fit(blocks: list[Content]) -> list[Content]:
    """Convert reasoning that this API has not signed to text."""
    return [
        # Reasoning without a valid signature is refused, so that of other models is sent as text.
        Text(block.text) if isinstance(block, Thinking) and not _is_signed(block) else block
        for block in blocks
    ]


def _is_signed(block: Thinking) -> bool:
    """Return whether the signature may be of this API: those of the Responses API are JSON."""
    return bool(block.signature) and not block.signature.startswith("{")


def _own_result(given: Mapping[str, Any] | None, id_: str) -> dict[str, Any] | None:
    """Write a result in its original form; None without one, or if the API would refuse it."""
    if given is None or (given.get("is_error") is True and not given.get("content")):
        return None
    return {**given, "type": "tool_result", "tool_use_id": id_}


def _own_system(given: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Write instructions in their original blocks."""
    content = given.get("content") if given is not None else None
    blocks = content if isinstance(content, list) else []
    return [b for b in blocks if isinstance(b, dict) and str(b.get("text") or "").strip()]


def _result(result: ToolResult, id_: str) -> dict[str, Any]:
    content = result.content
    is_blocks = isinstance(content, list) and any(isinstance(b, Image | Opaque) for b in content)
    written: Any = _content(content) if is_blocks else content_text(content)
    block = {"type": "tool_result", "tool_use_id": id_, "content": written}
    # With `is_error` the content must not be empty.
    return {**block, "content": written or FAILED, "is_error": True} if result.is_error else block


def _content(blocks: list[UserContent], own: OriginalBlocks | None = None) -> list[dict[str, Any]]:
    parts = [(_part(block), block) for block in blocks]
    more: Callable[[object], Mapping[str, Any]] = own.more if own is not None else lambda _: {}
    return [{**more(block), **part} for part, block in parts if part is not None]


def _part(block: UserContent) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text} if block.text.strip() else None
    if isinstance(block, Image):
        return {"type": "image", "source": _source(block)}
    return find_block(block)


def write_file(file: File) -> dict[str, Any] | None:
    """Write a file as a document; None if the API does not accept its type."""
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
    """Write the source of an image; a ``data:`` URL is written as base64."""
    head, is_whole, data = image.url.partition(";base64,")
    if is_whole and head.startswith("data:"):
        kind = media_type_for(Image(head.removeprefix("data:"), data))
        return {"type": "base64", "media_type": kind, "data": data}
    if image.url:
        return {"type": "url", "url": image.url}
    return {"type": "base64", "media_type": media_type_for(image), "data": image.data}


def _plain(blocks: list[dict[str, Any]]) -> Any:
    """Return the content of one text block as a string."""
    match blocks:
        case [{"type": "text", "text": str(text), **more}] if not more:
            return text
    return blocks


DEFAULT_MAX_TOKENS: Final = 8_192
"""The limit of a response if the request has none: the API requires one."""

_MODES: Final = {"auto": "auto", "required": "any", "none": "none", "tool": "tool"}
_IN_TOOL: Final = frozenset({"name", "description", "input_schema"})
# Fields of `extra` that are parts of fields that are written anyway.
_MERGED: Final = frozenset({"tools", "tool_choice", "system", "thinking", "output_config"})

_UNSUPPORTED: Final = ("seed", "presence_penalty", "frequency_penalty", "n")


def write_request(request: Request) -> dict[str, Any]:
    """Write *request*; fields that the API cannot express or would refuse are omitted."""
    blocks = OriginalBlocks(request)
    messages = write_messages(request, blocks)
    thinking = write_thinking(request, messages)
    budget, limit = thinking.get("budget_tokens", 0), request.max_tokens
    tools = _tools(request)
    body = {
        "model": request.model,
        # `max_tokens` is required, and includes the budget of the reasoning.
        "max_tokens": DEFAULT_MAX_TOKENS + budget if limit is None else limit,
        "system": _system(request) or None,
        "messages": messages,
        "tools": tools or None,
        "tool_choice": _choice(request) if tools else None,
        # Sequences of white space only are refused.
        "stop_sequences": [stop for stop in request.stop if stop.strip()] or None,
        "thinking": thinking or None,
        "output_config": _output(request) or None,
        "metadata": _metadata(request) or None,
        "stream": request.stream or None,
        **_sampling(request, is_thinking=thinking.get("type") in ("enabled", "adaptive")),
    }
    # A client of this API sets its own marks.
    if request.prompt_cache and not blocks.has_marks and request.source != tables.NAME:
        _mark_for_cache(body)
    own = without_keys(_own(request), _MERGED)
    if blocks.has_marks and "cache_control" not in (request.raw or {}):
        own.pop("cache_control", None)  # The marks are on their blocks.
    return without_lone_surrogates({**own, **without_none(body)})


_CACHED: Final = {"cache_control": {"type": "ephemeral"}}


def _mark_for_cache(body: dict[str, Any]) -> None:
    """Mark the ends of the tools, the system prompt and the last user message in *body*.

    Each mark caches all that is before it, in this order; the API allows four. A prompt that is too
    short for the cache is not an error.
    """
    if body["tools"]:
        body["tools"] = [*body["tools"][:-1], {**body["tools"][-1], **_CACHED}]
    if isinstance(body["system"], str):
        body["system"] = [{"type": "text", "text": body["system"], **_CACHED}]
    for at in range(len(body["messages"]) - 1, -1, -1):
        turn = body["messages"][at]
        if turn["role"] == "user":
            content = turn["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            marked = [*blocks[:-1], {**blocks[-1], **_CACHED}]
            body["messages"] = [*body["messages"]]
            body["messages"][at] = {**turn, "content": marked}
            return


def omitted_fields(request: Request) -> list[str]:
    """Return the names of the fields of *request* that `write_request` omits."""
    written = write_request(request)
    missing = [key for key in _UNSUPPORTED if getattr(request, key) is not None]
    missing += [
        key
        for key in ("temperature", "top_p", "top_k", "tool_choice")
        if getattr(request, key) is not None and key not in written
    ]
    if "tool_choice" in written and not _has_tool(request.tool_choice, request):
        missing.append("tool_choice")
    if request.response_format is not None and request.response_format.kind == "json":
        missing.append("response_format")
    reasoning = request.reasoning
    if reasoning is not None and reasoning.effort != "none" and reasoning.budget != 0:
        is_written = "thinking" in written or "effort" in written.get("output_config", {})
        missing += [] if is_written else ["reasoning"]
    missing += find_lost_content(convert_content(request, tables.NAME, write_file), tables.NAME)
    if request.source != tables.NAME:
        missing += ["metadata"] * bool(request.metadata) + unportable_names(request)
    return missing


def _own(request: Request) -> dict[str, Any]:
    return request.extra if request.source == tables.NAME else {}


def _system(request: Request) -> Any:
    """Write the system prompt, in the client's own blocks if they have the same text."""
    blocks = _own(request).get("system")
    return blocks if join_text(blocks) == request.system else request.system


def _tools(request: Request) -> list[Any]:
    """Write the tools, with the fields that a client of this API gave them."""
    raw = (request.raw or {}) if request.source == tables.NAME else {}
    given = {text_at(tool, "name"): tool for tool in objects_at(raw, "tools")}
    tools = [_given_tool(tool, given.get(tool.name)) for tool in request.tools]
    return [*tools, *_own(request).get("tools", [])]


def _given_tool(tool: Tool, given: Mapping[str, Any] | None) -> dict[str, Any]:
    if given is None:
        return _tool(tool)
    is_typed = read_client_tool(given) is not None
    if is_typed or ("input_examples" in given and read_tool(given) == tool):
        return dict(given)
    return {**without_keys(given, _IN_TOOL), **_tool(tool)}


def _tool(tool: Tool) -> dict[str, Any]:
    described = {"description": tool.description} if tool.description else {}
    return {"name": tool.name, **described, "input_schema": {"type": "object", **tool.parameters}}


def _metadata(request: Request) -> dict[str, Any]:
    own = request.metadata if request.source == tables.NAME else {}
    return {**own, "user_id": request.user} if request.user else dict(own)


# --- options ---


def _choice(request: Request) -> dict[str, Any] | None:
    choice, parallel = request.tool_choice, request.parallel_tool_calls
    if not _has_tool(choice, request):
        choice = None
    if choice is None and parallel is None:
        return _own(request).get("tool_choice")
    # `disable_parallel_tool_use` is a field of the choice, so there has to be one.
    written: dict[str, Any] = {"type": _MODES[choice.mode] if choice else "auto"}
    if choice is not None and choice.mode == "tool":
        written["name"] = choice.name
    if parallel is not None and written["type"] != "none":
        written["disable_parallel_tool_use"] = not parallel
    return written


def _has_tool(choice: ToolChoice | None, request: Request) -> bool:
    """Return whether *request* has the tool of *choice*; the API refuses a choice of another.

    A client of this API may mean a tool that the server runs.
    """
    if choice is None or choice.mode != "tool" or request.source == tables.NAME:
        return True
    return any(tool.name == choice.name for tool in request.tools)


def _sampling(request: Request, *, is_thinking: bool) -> dict[str, Any]:
    """Write the sampling options.

    The API accepts none with thinking, and newer models accept only one of these two.
    """
    if is_thinking and request.source != tables.NAME:
        return {}
    temperature, top_p = request.temperature, request.top_p
    if request.source != tables.NAME and temperature is not None:
        # The temperature of this API ends at 1, that of OpenAI's and Gemini's at 2.
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


# --- reasoning ---
#
# The API has two ways to ask for reasoning. Newer models decide themselves (``adaptive``) and take
# an effort; older ones take a token budget. Each kind refuses the other's way. A client of this API
# knows which one its model takes; for other clients the name of the model decides.

EFFORTS: Final = {"minimal": "low"}
"""Efforts that the API has another word for."""

BUDGETS: Final = {
    "minimal": 1_024,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 32_768,
}
"""The token budget of an effort, for models that take a budget."""

MIN_BUDGET: Final = 1_024
"""The smallest budget that the API accepts."""

# Claude 4.6 and newer, and Claude Mythos.
_ADAPTIVE: Final = re.compile(
    r"claude-(?:mythos|[a-z]+-(?:4[-.](?:[6-9]|\d\d)|[5-9]|\d\d)(?!\d))", re.IGNORECASE
)
_REASONING_BLOCKS: Final = ("thinking", "redacted_thinking")


def write_effort(request: Request) -> str:
    """Return the effort for a model that takes one, or ``""``."""
    effort = request.reasoning.effort if request.reasoning else ""
    if effort == "none" or not (_is_own(request) or _is_adaptive(request)):
        return ""
    return EFFORTS.get(effort, effort)


def write_thinking(request: Request, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Write the field `thinking`, unless the API would refuse it.

    It refuses thinking with a forced call, and if *messages* end in results of calls that were made
    without thinking.
    """
    wanted, choice = request.reasoning, request.tool_choice
    rest = request.extra.get("thinking", {}) if _is_own(request) else {}
    if wanted is None:
        return dict(rest)
    if wanted.effort == "none" or wanted.budget == 0:
        return {"type": "disabled", **rest} if _is_own(request) or _is_adaptive(request) else {}
    if choice is not None and choice.mode in ("required", "tool"):
        return {}
    if (
        _is_own(request) and wanted.budget is None
    ):  # For this API an effort alone does not ask for thinking.
        asks = request.raw is None or "thinking" in request.raw
        return {"type": "adaptive", **rest} if asks else {}
    if not _is_own(request) and _is_adaptive(request):
        return {"type": "adaptive", **rest}
    budget = _budget(wanted, None if _is_own(request) else request.max_tokens)
    if budget is None or _continues_without_thinking(messages):
        return {}
    return {"type": "enabled", "budget_tokens": budget, **rest}


def _is_own(request: Request) -> bool:
    return request.source == tables.NAME


def _is_adaptive(request: Request) -> bool:
    return _ADAPTIVE.search(request.model) is not None


def _budget(wanted: ReasoningOptions, limit: int | None) -> int | None:
    """Return the budget, or that of the effort; *limit* is that of the whole response."""
    budget = wanted.budget or 0
    if budget < 0 or wanted.budget is None:
        budget = BUDGETS.get(wanted.effort, BUDGETS["medium"])
    if limit is not None:
        # The limit includes the budget: half of it is left for the response itself.
        budget = min(budget, limit // 2)
        return budget if budget >= MIN_BUDGET else None
    return max(budget, MIN_BUDGET)


def _continues_without_thinking(messages: list[dict[str, Any]]) -> bool:
    if len(messages) < 2:  # noqa: PLR2004 - calls and results
        return False
    (*_, calls, results) = messages
    is_results = _first_type(results) == "tool_result"
    return is_results and _first_type(calls) not in _REASONING_BLOCKS


def _first_type(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return str(content[0]["type"]) if isinstance(content, list) else "text"
