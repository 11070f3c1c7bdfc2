"""Whether a call's arguments fit its tool, and what they are once they do."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from penstock import _json
from penstock.agent.tools.base import AgentTool
from penstock.agent.tools.faults import find_faults
from penstock.errors import ToolError
from penstock.messages import ToolCall
from penstock.values import Schema, coerce

MAX_FAULTS: Final = 8
"""How many faults of one call a model is told of: with more, it should look at the schema again."""


def prepare(tool: AgentTool, call: ToolCall) -> dict[str, Any]:
    """Give the arguments of *call* as *tool* takes them; the call itself is not changed.

    They are coerced by the schema: ``"5"`` is 5 where a number is wanted, and null for something
    that may be left out and may not be null is left out. Raises `ToolError`, with words for the
    model, if they do not fit then; a *lenient* tool gets them as they came. A call that was cut is
    refused in any case.
    """
    if not call.complete:
        raise ToolError(f"The call of `{call.name}` was cut off, so it was not run. Call it again.")
    schema = Schema(tool.tool.parameters)
    arguments = coerce(_without_needless_nulls(call.arguments, schema), schema, typed=True)
    if isinstance(arguments, dict) and schema.accepts(arguments):
        return _copied(arguments)
    if tool.lenient:
        return _copied(call.arguments)
    faults = list(islice(find_faults(arguments, schema), MAX_FAULTS + 1))
    lines = [f"- {fault}" for fault in faults[:MAX_FAULTS]]
    if len(faults) > MAX_FAULTS:
        lines.append("- … and more")
    raise ToolError("\n".join([f"The arguments of `{tool.name}` do not fit its schema:", *lines]))


def _copied(arguments: dict[str, Any]) -> dict[str, Any]:
    """Copy what a tool may change: the call belongs to the conversation."""
    copy: dict[str, Any] = _json.decode(_json.encode(arguments))
    return copy


def _without_needless_nulls(arguments: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Leave out what is null but may only be absent: models that fill in every field say so."""
    return {
        name: value
        for name, value in arguments.items()
        if value is not None or not _is_needless(name, schema)
    }


def _is_needless(name: str, schema: Schema) -> bool:
    child = schema.properties.get(name)
    return child is not None and name not in schema.required and not child.accepts(None)
