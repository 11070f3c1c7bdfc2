"""What a model is told about an answer that will not do: which call is wrong, and what it lacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.messages import ToolCall
from penstock.models.middleware.choice import Demand
from penstock.values.schema import Schema

MAX_SHOWN: Final = 300
"""How many characters of a value or a schema are quoted to the model: enough to know it by."""

_SCHEMA: Final = "the arguments do not satisfy the schema of the tool"


def complaint_of(call: ToolCall, schemas: Mapping[str, Schema]) -> str:
    """Say what is wrong with *call*; nothing where it may be run."""
    schema = schemas.get(call.name)
    if schema is None:
        known = ", ".join(schemas) or "none"
        return f"there is no tool called {call.name!r}; the tools are: {known}"
    if schema.accepts(call.arguments):
        return ""
    return "; ".join(_faults(call.arguments, schema)) or _SCHEMA


def _faults(arguments: Mapping[str, Any], schema: Schema) -> list[str]:
    """List what is wrong with each argument by itself."""
    faults = [f"`{name}` is missing" for name in schema.required if name not in arguments]
    for name, value in arguments.items():
        expected = schema.property(name)
        if expected is None:
            if schema.closed:
                faults.append(f"there is no argument `{name}`")
        elif not expected.accepts(value):
            wanted = _quoted(expected.raw)
            faults.append(f"`{name}` is {_quoted(value)}, which does not satisfy {wanted}")
    return faults


def _quoted(value: Any) -> str:
    text = _json.encode(value).decode()
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def reminder(demand: Demand) -> str:
    """Ask for the call that was demanded and did not come."""
    return f"You have not called a tool as you were told to. {demand.rule} Call it now."


def request_to_repeat(refused: int, accepted: int) -> str:
    """Ask for the calls that were refused, whose results say why."""
    which = "This call was" if refused == 1 else "These calls were"
    words = f"{which} not run. Call again, with what was wrong put right."
    if accepted:
        words += " Your other calls were accepted: do not repeat them."
    return words
