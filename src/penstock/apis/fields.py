"""Lenient readers for the fields of JSON objects, which may be missing, null or of another type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError, shorten
from penstock.messages import AssistantMessage, Opaque, ToolCall, Usage
from penstock.request import ReasoningOptions, Request
from penstock.tools import Tool

MAX_REPR: Final = 64
"""How many characters of a value are quoted in an error message: clients choose the value."""


# --- values ---


def string_at(data: Mapping[str, Any], key: str) -> str:
    """Return the string at *key* unchanged, or ``""``.

    Decoders use this: half of a surrogate pair at the end may be completed by the next delta.
    """
    value = data.get(key)
    return value if isinstance(value, str) else ""


def text_at(data: Mapping[str, Any], key: str) -> str:
    """Return the string at *key* without lone surrogates, or ``""``."""
    return clean(string_at(data, key))


def clean(text: str) -> str:
    """Join the halves of surrogate pairs and drop lone ones, which no encoding can represent."""
    return _json.join_surrogates(text, lone="ignore")


def object_at(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object at *key*, or an empty one."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def list_at(data: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list at *key*, or an empty one."""
    value = data.get(key)
    return value if isinstance(value, list) else []


def objects_at(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """Return the objects of the list at *key*."""
    return [item for item in list_at(data, key) if isinstance(item, Mapping)]


def has_content(value: object) -> bool:
    """Return whether *value* says anything: servers write nothing in several ways."""
    return not (value is None or value is False or value in ("", [], {}))


def bool_at(data: Mapping[str, Any], key: str) -> bool | None:
    """Return the boolean at *key*, or None."""
    value = data.get(key)
    return value if isinstance(value, bool) else None


def index_at(data: Mapping[str, Any], key: str = "index") -> int | None:
    """Return the integer at *key*, also if it is written as text, or None."""
    value = data.get(key)
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 10:  # noqa: PLR2004
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number_at(data: Mapping[str, Any], key: str) -> float | None:
    """Return the number at *key*, or None if missing; raise `UsageError` for anything else."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"`{key}` must be a number")
    return value


def integer_at(data: Mapping[str, Any], key: str) -> int | None:
    """Return the integer at *key*, or None if missing; raise `UsageError` for anything else."""
    value = number_at(data, key)
    # JavaScript and some proxies write 4096 as 4096.0.
    if value is None or isinstance(value, int):
        return value
    if not value.is_integer():
        raise UsageError(f"`{key}` must be a whole number")
    return int(value)


def string_list(value: object) -> list[str]:
    """Return one string or a list of strings as a list."""
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def without_keys(data: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return the fields of *data* that are not *known*."""
    return {key: value for key, value in data.items() if key not in known}


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value; the server decides the others."""
    return {key: value for key, value in fields.items() if value is not None}


def check_list(data: Mapping[str, Any], key: str) -> None:
    """Raise `UsageError` if the value at *key* is present and not a list."""
    if not isinstance(data.get(key), list | None):
        raise UsageError(f"`{key}` must be a list")


def check_content(content: object, field: str = "content") -> None:
    """Raise `UsageError` for content that would be lost: neither text nor a list of parts.

    A part is text or an object, and so are the parts inside it (`content` of results and sources).
    """
    if not isinstance(content, str | list | None):
        raise UsageError(f"`{field}` must be text or a list of parts")
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            continue
        if not isinstance(part, Mapping):
            raise UsageError(f"a part of `{field}` must be text or an object")
        if not isinstance(part.get("text"), str | None):
            raise UsageError("`text` of a part must be text")
        check_text(object_at(part, "source"), "data")
        for inner in (part.get("content"), object_at(part, "source").get("content")):
            if isinstance(inner, list):
                check_content(inner)


def check_text(data: Mapping[str, Any], key: str) -> None:
    """Raise `UsageError` if the value at *key* is present and not text."""
    if not isinstance(data.get(key), str | None):
        raise UsageError(f"`{key}` must be text")


def check_arguments(value: object) -> None:
    """Raise `UsageError` if *value*, the arguments of a call, is not JSON text or an object."""
    if not isinstance(value, str | Mapping | None):
        raise UsageError("the arguments of a call must be JSON text or an object")


def short_repr(value: object) -> str:
    """Return the repr of *value* for an error message, truncated to `MAX_REPR` characters."""
    return shorten(repr(value), MAX_REPR)


# --- reasoning effort ---

BUDGETS: Final = ((0, "none"), (4_096, "low"), (16_384, "medium"))
"""Token budgets and the effort that each corresponds to; a larger budget is ``high``.

``minimal`` and ``xhigh`` are not used: some models reject them.
"""


def effort_for(options: ReasoningOptions | None) -> str:
    """Return the effort of *options*, or the one that corresponds to their budget."""
    if options is None or options.effort or options.budget is None:
        return options.effort if options else ""
    budget = options.budget
    return next((effort for most, effort in BUDGETS if budget <= most), "high")


# --- token counts ---

BYTES_A_TOKEN: Final = 4
"""About how many bytes a token has: an estimate that needs no tokenizer."""

# Clients that show costs can say so; in any other respect an estimate looks like a count.
ESTIMATED: Final = "estimated"
"""The field that marks a usage as an estimate."""


def count_at(data: Mapping[str, Any], key: str) -> int:
    """Return the token count at *key*, or 0."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return 0
    return max(0, int(value)) if abs(value) < 2**63 else 0


def is_counted(usage: Usage) -> bool:
    """Return whether the provider has counted any tokens."""
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    return any((*counts, usage.reasoning, usage.total))


def estimate_usage(message: AssistantMessage, input_tokens: int) -> Usage:
    """Estimate the usage of *message*, for a prompt of about *input_tokens*."""
    size = 0
    for block in message.content:
        if isinstance(block, ToolCall):
            size += len(block.name) + len(_json.encode_wire(block.arguments))
        elif not isinstance(block, Opaque):
            size += len(block.text.encode("utf-8", "replace"))
    output = -(-size // BYTES_A_TOKEN)
    return Usage(input_tokens, output, total=input_tokens + output, raw={ESTIMATED: True})


def usage_or_estimate(message: AssistantMessage, input_tokens: int) -> Usage:
    """Return the usage of *message* as its provider counted it, or an estimate.

    Without *input_tokens*, the estimated size of the prompt, nothing is estimated.
    """
    if is_counted(message.usage) or not input_tokens:
        return message.usage
    return estimate_usage(message, input_tokens)


def estimate_mark(usage: Usage) -> dict[str, bool]:
    """Return the field that marks *usage* as an estimate, if it is one."""
    return {ESTIMATED: True} if usage.raw == {ESTIMATED: True} else {}


# --- what only one API can express ---


def split_tools(
    tools: Iterable[object], read: Callable[[object], Tool] = Tool.read
) -> tuple[list[Tool], list[object]]:
    """Split function tools from provider-hosted tools, for which *read* raises `UsageError`."""
    own: dict[str, Tool] = {}
    foreign: list[object] = []
    for data in tools:
        if not isinstance(data, Mapping):
            raise UsageError("a tool must be a JSON object")
        for fields in (data, object_at(data, "function")):
            check_text(fields, "description")
        try:
            tool = read(data)
        except UsageError:
            foreign.append(data)
        else:
            own.setdefault(tool.name, tool)
    return [*own.values()], foreign


def tool_names(tools: object) -> list[str]:
    """Return the names of provider-hosted tools; a tool without a name is named by its type."""
    named = [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list) else []
    return [
        text_at(tool, "name")
        or text_at(tool, "type")
        or text_at(tool, "server_label")
        or next((key for key in tool if isinstance(key, str)), "")
        or "unknown"
        for tool in named
    ]


def can_meet_choice(request: Request, api: str) -> bool:
    """Return whether *api* can meet the tool choice; it refuses a choice of a missing tool.

    A client of the same API may mean tools that the server runs.
    """
    if request.source == api:
        return True
    choice, names = request.tool_choice, {tool.name for tool in request.tools}
    return bool(names) and (choice is None or choice.mode != "tool" or choice.name in names)


def unportable_names(request: Request) -> list[str]:
    """Return the names of the parts of *request*, hosted tools included, that only its API has."""
    tools = [f"tools: {name}" for name in tool_names(request.extra.get("tools"))]
    fields = sorted(key for key in request.extra if key != "tools" or not tools)
    return [*tools, *fields, *_inner_names(request.raw or {}), *dropped_parts(request)]


# The parts of instructions and assistant messages that are read from OpenAI's APIs.
_PARTS: Final = frozenset({"text", "refusal", "thinking", "input_text", "output_text"})


def dropped_parts(request: Request) -> list[str]:
    """Return the types of parts of instructions and assistant messages that were not read.

    Blocks of assistant messages of the Messages API are kept.
    """
    raw = request.raw or {}
    if request.source.startswith("openai"):
        read = ("user", "tool", None)
    elif request.source == "anthropic":
        read = ("user", "assistant", None)
    else:
        return []
    parts = [
        part
        for message in [*objects_at(raw, "messages"), *objects_at(raw, "input")]
        if message.get("role") not in read
        for part in objects_at(message, "content")
    ]
    unread = [part for part in [*parts, *objects_at(raw, "system")] if "text" not in part]
    kinds = dict.fromkeys(text_at(part, "type") or "unknown" for part in unread)
    return [f"content: {kind}" for kind in kinds if kind not in _PARTS]


def _inner_names(raw: Mapping[str, Any]) -> list[str]:
    """Return the names of fields inside messages and tools that a `Request` has no field for."""
    messages, tools = objects_at(raw, "messages"), objects_at(raw, "tools")
    functions = [*tools, *(object_at(tool, "function") for tool in tools)]
    found = {
        "messages.name": any(m.get("role") == "user" and m.get("name") for m in messages),
        "tools.strict": any(tool.get("strict") is True for tool in functions),
        "tools.allowed_callers": any(tool.get("allowed_callers") for tool in tools),
    }
    return [name for name, is_there in found.items() if is_there]
