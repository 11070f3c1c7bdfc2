"""Fields of a request that may be missing, `null` or of another type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from penstock.errors import UsageError
from penstock.requests import Request
from penstock.tools import Tool

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def text_at(data: Mapping[str, Any], key: str) -> str:
    """Give the text at *key*, and none for what is no text."""
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
    """Give the number at *key*; anything else but nothing raises `UsageError`."""
    value = data.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"`{key}` must be a number")
    return value


def integer(data: Mapping[str, Any], key: str) -> int | None:
    """Give the whole number at *key*; anything else but nothing raises `UsageError`."""
    value = number(data, key)
    if value is None or isinstance(value, int):
        return value
    if not value.is_integer():
        raise UsageError(f"`{key}` must be a whole number")
    return int(value)


def strings(value: object) -> list[str]:
    """Give one text or a list of texts as a list."""
    if isinstance(value, str):
        return [value]
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def object_at(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Give the object at *key*, and an empty one for what is none."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def list_at(data: Mapping[str, Any], key: str) -> list[Any]:
    """Give the list at *key*, and an empty one for what is none."""
    value = data.get(key)
    return value if isinstance(value, list) else []


def flag(value: object) -> bool | None:
    """Give *value* if it says yes or no."""
    return value if isinstance(value, bool) else None


def the_rest(data: Mapping[str, Any], known: frozenset[str]) -> dict[str, Any]:
    """Give the fields that are not *known*."""
    return {key: value for key, value in data.items() if key not in known}


def only_set(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Give the fields that have a value; the others are left to the server."""
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
