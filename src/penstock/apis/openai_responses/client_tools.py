"""The tools of a client of the Responses API that models call under other names.

Codex groups the tools of each MCP server in a namespace: ``{"type": "namespace", "name":
"mcp__files", "tools": […]}``. Models get one list of tools, in which such a tool is called
``mcp__files__read``, and the client gets its call as ``"namespace": "mcp__files", "name": "read"``,
the only form that it accepts.

A client may also load tools only when the model searches for them (``tool_search`` with
``"execution": "client"``). Models see the search as a tool like any other. The tools that a search
found come with its output and are offered from then on. A search that OpenAI's server would run is
not offered to other models: they see all of the tools from the start.

The input of a ``custom`` tool is free text, optionally described by a grammar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from penstock.apis.fields import objects_at, text_at

SEARCH: Final = "tool_search"
SEARCH_CALL: Final = "tool_search_call"
SEARCH_OUTPUT: Final = "tool_search_output"
NAMESPACE: Final = "namespace"

_SEPARATOR: Final = "__"


class ClientTools(Struct, frozen=True):
    """What a client calls its tools, by the names that models use.

    *custom* are the free-text tools, *namespaces* has the namespace and the name of each tool in a
    namespace. *searches* is whether the client runs searches for tools.
    """

    custom: frozenset[str] = frozenset()
    namespaces: Mapping[str, tuple[str, str]] = {}
    searches: bool = False

    def is_custom(self, id: str, name: str) -> bool:  # noqa: A002 - the field's name
        """Return whether a call is of a free-text tool, by its name or by its item's id."""
        return name in self.custom or id.partition("|")[2].startswith("ctc_")

    def is_search(self, name: str) -> bool:
        """Return whether *name* is the search that the client runs."""
        return self.searches and name == SEARCH

    def name_fields(self, name: str) -> dict[str, str]:
        """Return the fields that name the tool *name* in an item."""
        if name not in self.namespaces:
            return {"name": name}
        namespace, own = self.namespaces[name]
        return {"namespace": namespace, "name": own}


NO_TOOLS: Final = ClientTools()


def read_client_tools(request: Mapping[str, Any]) -> ClientTools:
    """Read the names of the tools of *request*, a body that a client sent."""
    custom, namespaces, searches = set(), {}, False
    for namespace, tool in _each_tool(request):
        name = full_name(namespace, text_at(tool, "name"))
        if tool.get("type") == "custom":
            custom.add(name)
        if namespace:
            namespaces[name] = (namespace, text_at(tool, "name"))
        searches = searches or is_client_search(tool)
    return ClientTools(frozenset(custom), namespaces, searches)


def flatten_tools(request: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield every tool of *request*, those in namespaces under the names that models use.

    Tools that a search found are included.
    """
    for namespace, tool in _each_tool(request):
        if is_client_search(tool):
            yield {**tool, "type": "function", "name": SEARCH}
        elif namespace:
            yield {**tool, "name": full_name(namespace, text_at(tool, "name"))}
        else:
            yield tool


def full_name(namespace: str, name: str) -> str:
    """Return the name of a tool for models."""
    return f"{namespace}{_SEPARATOR}{name}" if namespace and name else name


def call_name(item: Mapping[str, Any]) -> str:
    """Return the name, for models, of the tool that *item* calls."""
    if item.get("type") == SEARCH_CALL:
        return SEARCH
    return full_name(text_at(item, "namespace"), text_at(item, "name"))


def is_client_search(data: Mapping[str, Any]) -> bool:
    """Return whether *data*, a tool or an item, is about a search that the client runs."""
    types = (SEARCH, SEARCH_CALL, SEARCH_OUTPUT)
    return data.get("type") in types and data.get("execution") == "client"


def describe_found(item: Mapping[str, Any]) -> str:
    """Return the text for models about the output of a search."""
    found = [
        (full_name(namespace, text_at(tool, "name")), text_at(tool, "description"))
        for namespace, tool in _unwrap(objects_at(item, "tools"))
    ]
    if not found:
        return "No tools were found."
    lines = [
        f"- {name}: {description}" if description else f"- {name}" for name, description in found
    ]
    return "\n".join(["These tools can be called now:", *lines])


def _each_tool(request: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the namespace and the data of each tool of *request*."""
    yield from _unwrap(objects_at(request, "tools"))
    for item in objects_at(request, "input"):
        if item.get("type") == SEARCH_OUTPUT and is_client_search(item):
            yield from _unwrap(objects_at(item, "tools"))


def _unwrap(tools: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for tool in tools:
        if tool.get("type") == NAMESPACE and text_at(tool, "name"):
            for inner in objects_at(tool, "tools"):
                yield text_at(tool, "name"), inner
        else:
            yield "", tool
