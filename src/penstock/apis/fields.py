"""Fields of a request that may be missing, `null` or of another type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, Opaque, ToolCall, Usage
from penstock.request import ReasoningOptions, Request
from penstock.tools import Tool

# How much to think, in words, for APIs that take no number of tokens.


BUDGETS: Final = ((0, "none"), (4_096, "low"), (16_384, "medium"))
"""The most tokens that each word stands for; more than all of them is ``high``.

Words that some models refuse (``minimal``, ``xhigh``) are not among them.
"""


def effort_of(wanted: ReasoningOptions | None) -> str:
    """Return the word for what is *wanted*: its own, or that for its budget."""
    if wanted is None or wanted.effort or wanted.budget is None:
        return wanted.effort if wanted else ""
    budget = wanted.budget
    return next((effort for most, effort in BUDGETS if budget <= most), "high")


# Reading numbers that a provider may leave out, send as `null` or spell as text.
#
# Where a provider counts no tokens at all, they are estimated.


BYTES_A_TOKEN: Final = 4
"""How many bytes are about one token: a guess, for want of everybody's tokenizers."""

ESTIMATED: Final = "estimated"
"""The field of a usage that says that nobody counted."""


def count_of(data: Mapping[str, Any], key: str) -> int:
    """Return the count at *key*, and 0 for what is not one."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return 0
    return max(0, int(value)) if abs(value) < 2**63 else 0


def counts_of(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object of counts at *key*, and an empty one for what is not one."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def index_of(data: Mapping[str, Any], key: str = "index") -> int | None:
    """Return the index at *key*, also one that is spelled as text."""
    value = data.get(key)
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 10:  # noqa: PLR2004
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_counted(usage: Usage) -> bool:
    """Return whether a provider has counted anything."""
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    return any((*counts, usage.reasoning, usage.total))


def estimated_usage(message: AssistantMessage, input_tokens: int) -> Usage:
    """Estimate what *message* took, for a prompt of about *input_tokens*."""
    size = 0
    for block in message.content:
        if isinstance(block, ToolCall):
            size += len(block.name) + len(_json.encode_wire(block.arguments))
        elif not isinstance(block, Opaque):
            size += len(block.text.encode("utf-8", "replace"))
    output = -(-size // BYTES_A_TOKEN)
    return Usage(input_tokens, output, total=input_tokens + output, raw={ESTIMATED: True})


def told_usage(message: AssistantMessage, input_tokens: int) -> Usage:
    """Return the usage of *message* as its provider counted it, or else an estimate.

    Without *input_tokens*, what the prompt is thought to cost, nothing is estimated.
    """
    if is_counted(message.usage) or not input_tokens:
        return message.usage
    return estimated_usage(message, input_tokens)


def estimate_mark(usage: Usage) -> dict[str, bool]:
    """Write that *usage* is an estimate, if it is one."""
    return {ESTIMATED: True} if usage.raw == {ESTIMATED: True} else {}


MAX_SHOWN: Final = 64
"""How many characters of a value are shown in an error message."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def text_at(data: Mapping[str, Any], key: str) -> str:
    """Return the text at *key*, and none for what is not a text."""
    value = data.get(key)
    return clean(value) if isinstance(value, str) else ""


def clean(text: str) -> str:
    """Join the halves of surrogate pairs, and leave out a half that has no other.

    No encoding could carry one on.
    """
    if text.isascii() or _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def number(data: Mapping[str, Any], key: str) -> float | None:
    """Return the number at *key*; anything else but nothing raises `UsageError`."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"`{key}` must be a number")
    return value


def integer(data: Mapping[str, Any], key: str) -> int | None:
    """Return the whole number at *key*; anything else but nothing raises `UsageError`."""
    value = number(data, key)
    if value is None or isinstance(value, int):
        return value
    if not value.is_integer():
        raise UsageError(f"`{key}` must be a whole number")
    return int(value)


def strings(value: object) -> list[str]:
    """Return one text or a list of texts as a list."""
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def object_at(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the object at *key*, and an empty one for what is not one."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def list_at(data: Mapping[str, Any], key: str) -> list[Any]:
    """Return the list at *key*, and an empty one for what is not one."""
    value = data.get(key)
    return value if isinstance(value, list) else []


def check_list(data: Mapping[str, Any], key: str) -> None:
    """Raise `UsageError` for anything but a list, or nothing, at *key*."""
    if not isinstance(data.get(key), list | None):
        raise UsageError(f"`{key}` must be a list")


def check_content(content: object) -> None:
    """Raise `UsageError` for content of a user that would be lost: not text, and not a list."""
    if not isinstance(content, str | list | None):
        raise UsageError("`content` must be text or a list of parts")


def shown(value: object) -> str:
    """Show *value* in an error message, cut to a length: clients choose it."""
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def flag(value: object) -> bool | None:
    """Return *value* if it says yes or no."""
    return value if isinstance(value, bool) else None


def the_rest(data: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Return the fields that are not *known*."""
    return {key: value for key, value in data.items() if key not in known}


def only_set(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that have a value; the others are left to the server."""
    return {key: value for key, value in fields.items() if value is not None}


def tool_names(tools: object) -> list[str]:
    """Name tools that a provider runs: each by its own name, or else by its type."""
    named = [tool for tool in tools if isinstance(tool, Mapping)] if isinstance(tools, list) else []
    return [
        text_at(tool, "name")
        or text_at(tool, "type")
        or text_at(tool, "server_label")
        or next((key for key in tool if isinstance(key, str)), "")
        or "unknown"
        for tool in named
    ]


def names_of_own(request: Request) -> list[str]:
    """Name what *request* says that only its own API has a word for; tools by their names."""
    tools = [f"tools: {name}" for name in tool_names(request.extra.get("tools"))]
    fields = sorted(key for key in request.extra if key != "tools" or not tools)
    return [*tools, *fields, *_inner_names(request.raw or {}), *dropped_parts(request)]


_PARTS: Final = frozenset({"text", "refusal", "thinking", "input_text", "output_text"})
"""The parts of instructions and answers of OpenAI's APIs that are read."""


def dropped_parts(request: Request) -> list[str]:
    """Name parts of instructions and answers that a `Request` has no place for, such as images."""
    if not request.source.startswith("openai"):
        return []
    raw = request.raw or {}
    said = [*list_at(raw, "messages"), *list_at(raw, "input")]
    parts = [
        part
        for message in said
        if isinstance(message, Mapping) and message.get("role") not in ("user", "tool", None)
        for part in list_at(message, "content")
        if isinstance(part, Mapping)
    ]
    kinds = dict.fromkeys(text_at(part, "type") for part in parts)
    return [f"content: {kind}" for kind in kinds if kind and kind not in _PARTS]


def _inner_names(raw: Mapping[str, Any]) -> list[str]:
    """Name fields inside of messages and tools that a `Request` has no place for."""
    messages = (message for message in list_at(raw, "messages") if isinstance(message, Mapping))
    is_named = any(m.get("role") == "user" and m.get("name") for m in messages)
    tools = [tool for tool in list_at(raw, "tools") if isinstance(tool, Mapping)]
    functions = [*tools, *(object_at(tool, "function") for tool in tools)]
    found = {
        "messages.name": is_named,
        "tools.strict": any(tool.get("strict") is True for tool in functions),
        "tools.allowed_callers": any(tool.get("allowed_callers") for tool in tools),
    }
    return [name for name, is_there in found.items() if is_there]


def sorted_tools(
    tools: Iterable[object], read: Callable[[object], Tool] = Tool.read
) -> tuple[list[Tool], list[object]]:
    """Part tools that a model calls from those that a provider runs by itself.

    *read* raises `UsageError` for one of the latter.
    """
    own: dict[str, Tool] = {}
    foreign: list[object] = []
    for data in tools:
        try:
            tool = read(data)
        except UsageError:
            foreign.append(data)
        else:
            own.setdefault(tool.name, tool)
    return [*own.values()], foreign
