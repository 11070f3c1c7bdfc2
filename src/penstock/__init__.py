"""Tool calls from any model, streamed correctly, to any client.

The public names. The contract (events, messages, tools, errors) is imported eagerly, everything
else on first use, so ``import penstock`` is cheap and does not import asyncio.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock import events, messages, tools, values
from penstock.builder import MessageBuilder
from penstock.errors import (
    CoercionError,
    DuplicateStringTagError,
    JSONParseError,
    LimitError,
    ParseError,
    PenstockError,
    ProviderError,
    ToolError,
    UsageError,
    XMLParseError,
)
from penstock.events import (
    Delta,
    Done,
    Event,
    Failed,
    MessageStart,
    Part,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.messages import (
    AssistantMessage,
    Content,
    ErrorInfo,
    ErrorKind,
    Opaque,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from penstock.tools import Tool, read_tools

if TYPE_CHECKING:
    from penstock import agent, apis, conformance, formats, framing, models, request, streams, views
    from penstock.agent import Agent, Session
    from penstock.formats import EventParser, Format, Parser, find_unread, parse, parse_events
    from penstock.formats import compile as compile  # noqa: A004 - as `re.compile`
    from penstock.framing import json_array, ndjson, sse
    from penstock.models import DemoModel, HTTPModel, LocalModel, Model, ToolMiddleware, open_model
    from penstock.request import Request
    from penstock.streams import EventStream

    __version__: str

__all__ = [
    "Agent",
    "AssistantMessage",
    "CoercionError",
    "Content",
    "Delta",
    "DemoModel",
    "Done",
    "DuplicateStringTagError",
    "ErrorInfo",
    "ErrorKind",
    "Event",
    "EventParser",
    "EventStream",
    "Failed",
    "Format",
    "HTTPModel",
    "JSONParseError",
    "LimitError",
    "LocalModel",
    "MessageBuilder",
    "MessageStart",
    "Model",
    "Opaque",
    "ParseError",
    "Parser",
    "Part",
    "PenstockError",
    "ProviderError",
    "Request",
    "Session",
    "StopReason",
    "Text",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "Thinking",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingStart",
    "Tool",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolError",
    "ToolMiddleware",
    "ToolResult",
    "Usage",
    "UsageError",
    "XMLParseError",
    "agent",
    "apis",
    "compile",
    "conformance",
    "events",
    "find_unread",
    "formats",
    "framing",
    "json_array",
    "messages",
    "models",
    "ndjson",
    "open_model",
    "parse",
    "parse_events",
    "read_tools",
    "request",
    "sse",
    "streams",
    "tools",
    "values",
    "views",
]

# Public modules that are imported on first use.
_MODULES = {
    "agent": "agent",
    "apis": "apis",
    "conformance": "conformance",
    "formats": "formats",
    "framing": "framing",
    "json_array": "framing.json_array",
    "models": "models",
    "ndjson": "framing.ndjson",
    "request": "request",
    "sse": "framing.sse",
    "streams": "streams",
    "views": "views",
}
# Public names and the module that is imported on first use of each.
_NAMES = {
    "Agent": "agent",
    "DemoModel": "models",
    "EventParser": "formats",
    "EventStream": "streams",
    "Format": "formats",
    "HTTPModel": "models",
    "LocalModel": "models",
    "Model": "models",
    "Parser": "formats",
    "Request": "request",
    "Session": "agent",
    "ToolMiddleware": "models",
    "compile": "formats",
    "find_unread": "formats",
    "open_model": "models",
    "parse": "formats",
    "parse_events": "formats",
}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"penstock.{_MODULES[name]}")
    if name in _NAMES:
        return getattr(import_module(f"penstock.{_NAMES[name]}"), name)
    if name == "__version__":
        return _find_version()
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _find_version() -> str:
    """Return the version of the installed package; 0 if penstock is not installed as one."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415 - slow to load

    try:
        return version("penstock")
    except PackageNotFoundError:
        return "0"
