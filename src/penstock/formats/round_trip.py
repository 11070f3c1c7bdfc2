"""Check that a rendered call parses back to the same call (law 8).

In formats with raw values a value may contain its own end marker or look like a value of another
type. The renderers of such formats parse what they wrote, with a tool whose schema describes the
arguments, and refuse a call that comes back different. The real tool may have parameters that the
call does not give, and a text may contain what looks like one of them: so the call is parsed a
second time, with a tool that may have any parameter.
"""

from __future__ import annotations

from typing import Any, Final

from penstock import _json
from penstock.errors import UsageError
from penstock.formats.base import CallStyle, read_calls
from penstock.messages import ToolCall
from penstock.tools import Tool

MAX_DEPTH: Final = 128
"""How deep arguments may nest in formats that check the round trip."""


def require_round_trip(style: CallStyle, call: ToolCall, text: str) -> str:
    """Return *text* if it parses as *call* in this *style*; raise `UsageError` otherwise."""
    if _json.is_deeper(call.arguments, MAX_DEPTH):
        raise UsageError(f"arguments of {call.name!r} nest deeper than {MAX_DEPTH} levels")
    tool = Tool(call.name, parameters=infer_schema(call.arguments))
    is_same = read_calls(style, text, [tool]) == [(call.name, call.arguments)]
    if not is_same or not _keeps_texts(style, call, text):
        raise UsageError(f"this format cannot express these arguments of {call.name!r}")
    return text


def _keeps_texts(style: CallStyle, call: ToolCall, text: str) -> bool:
    """Return whether no text of *call* ends early if the tool may have any parameter.

    White space around texts and values of other types are ignored: they depend on the schema.
    """
    texts = {key: value.strip() for key, value in call.arguments.items() if isinstance(value, str)}
    if not texts:
        return True
    for _, arguments in read_calls(style, text, [Tool(call.name)]):
        read = {key: value for key, value in arguments.items() if isinstance(value, str)}
        return not any(read[key].strip() != texts[key] for key in texts.keys() & read.keys())
    return False


def infer_schema(value: Any) -> dict[str, Any]:
    """Return a schema that describes *value*."""
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
            return {"type": "array", "items": _infer_items(value)}
        case dict():
            properties = {str(key): infer_schema(inner) for key, inner in value.items()}
            return {"type": "object", "properties": properties}
        case _:
            raise UsageError(f"not a JSON value: {type(value).__name__}")


def _infer_items(items: list[Any]) -> dict[str, Any]:
    schemas: list[dict[str, Any]] = []
    for item in items:
        schema = infer_schema(item)
        if schema not in schemas:
            schemas.append(schema)
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas} if schemas else {}
