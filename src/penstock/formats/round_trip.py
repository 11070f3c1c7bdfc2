"""Whether a rendered call reads back as it was.

Where values stand as raw text a value may hold what ends it, or look like another value. No rule
about that is as sure as reading: a renderer of such a format writes, reads what it wrote with a
tool whose schema says what the arguments are, and refuses what came back as something else. The
tool that is called may have more arguments than the call gives, and text may hold what looks like
one of those: so it is read once more, with a tool that may have any.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError
from penstock.events import ToolCallEnd
from penstock.formats.base import CallStyle
from penstock.messages import ToolCall
from penstock.parsing import Engine
from penstock.tools import Tool

MAX_DEPTH: Final = 128
"""How deep the arguments of a call may nest that is written as raw text."""


def checked_round_trip(style: CallStyle, call: ToolCall, text: str) -> str:
    """Return *text* back if it reads as *call* in this *style*; raise `UsageError` otherwise."""
    if _json.is_deeper(call.arguments, MAX_DEPTH):
        raise UsageError(f"arguments nest deeper than {MAX_DEPTH}")
    is_same = _reading(style, Tool(call.name, parameters=schema_of(call.arguments)), text) == [
        (call.name, call.arguments)
    ]
    if not is_same or not _keeps_texts(style, call, text):
        raise UsageError(f"this format cannot express these arguments of {call.name!r}")
    return text


def _keeps_texts(style: CallStyle, call: ToolCall, text: str) -> bool:
    """Return whether no text of *call* ends early where the tool may have any argument.

    White space at its ends and other values are of no account: only a schema says what they are.
    """
    texts = {key: value.strip() for key, value in call.arguments.items() if isinstance(value, str)}
    if not texts:
        return True
    for _, arguments in _reading(style, Tool(call.name), text):
        read = {key: value for key, value in arguments.items() if isinstance(value, str)}
        return not any(read[key].strip() != texts[key] for key in texts.keys() & read.keys())
    return False


def _reading(style: CallStyle, tool: Tool, text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls that *text* makes where *tool* is the only one."""
    machine = Engine(style.syntax([tool]), [tool])
    events = (*machine.feed(text), *machine.finish())
    calls = [event.call for event in events if isinstance(event, ToolCallEnd)]
    return [(found.name, found.arguments) for found in calls]


def schema_of(value: Any) -> dict[str, Any]:
    """Return a schema that says of *value* what it is."""
    match value:
        case None:
            return {"type": "null"}
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array", "items": _schema_of_items(value)}
        case dict():
            properties = {str(key): schema_of(inner) for key, inner in value.items()}
            return {"type": "object", "properties": properties}
        case _:
            raise UsageError(f"not a JSON value: {type(value).__name__}")


def _schema_of_items(items: list[Any]) -> dict[str, Any]:
    schemas: list[dict[str, Any]] = []
    for item in items:
        schema = schema_of(item)
        if schema not in schemas:
            schemas.append(schema)
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else {}
