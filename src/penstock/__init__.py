"""Tool calls from any model, streamed correctly, to any client.

The public names, and nothing else. The contract (events, messages, tools, errors) is loaded at
once; what stands on higher floors is loaded when it is first used, so ``import penstock`` stays
cheap and brings no asyncio.
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
    from penstock import (
        agent,
        apis,
        formats,
        json_array,
        models,
        ndjson,
        requests,
        sse,
        streams,
        views,
    )
    from penstock.agent import Agent, Session
    from penstock.formats import EventParser, Format, Parser, parse, parse_events
    from penstock.models import DemoModel, HTTPModel, LocalModel, Model, ToolMiddleware
    from penstock.requests import Request
    from penstock.streams import EventStream

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
    "events",
    "formats",
    "json_array",
    "messages",
    "models",
    "ndjson",
    "parse",
    "parse_events",
    "read_tools",
    "requests",
    "sse",
    "streams",
    "tools",
    "values",
    "views",
]

_ROOMS = {
    "agent",
    "apis",
    "formats",
    "json_array",
    "models",
    "ndjson",
    "requests",
    "sse",
    "streams",
    "views",
}
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
    "Request": "requests",
    "Session": "agent",
    "ToolMiddleware": "models",
    "parse": "formats",
    "parse_events": "formats",
}
"""What is found in which room, and loaded with it."""


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"penstock.{name}")
    if name in _NAMES:
        return getattr(import_module(f"penstock.{_NAMES[name]}"), name)
    raise AttributeError(f"module 'penstock' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
