"""Tool choice for models that have no tools: what a request demands, in words and in grammars.

Where the upstream can be held to a form of output, a demand becomes that form, and the lawful call
is forced. Elsewhere the prompt says what is demanded, and the answer is looked at.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Struct, structs

from penstock.apis.fields import shown
from penstock.errors import UsageError
from penstock.formats import AnyFormat, Format
from penstock.formats.grammar import Count
from penstock.formats.prompts import HEAD, show_tools
from penstock.messages import AssistantMessage
from penstock.request import Request, ResponseFormat
from penstock.tools import Tool

Constraint = Literal["json_schema", "grammar", "structural_tag"]
"""How an upstream can be held to a form: a JSON Schema, a GBNF grammar, a structural tag."""

MUST_CALL: Final = "You must call"
"""How every rule begins that demands a call."""

_ANY: Final = f"{MUST_CALL} at least one tool in this answer."
_ONE: Final = f"{MUST_CALL} exactly one tool in this answer."
_NAMED: Final = f"{MUST_CALL} the tool `{{name}}` in this answer."
_AT_MOST_ONE: Final = "Call at most one tool in an answer."
_NEVER: Final = "Call no tool in this answer: answer in plain text."

JSON_CHOICE: Final = (
    HEAD
    + """\
Answer with one JSON object and nothing else. Its key "name" is the name of the tool that you \
call, its key "arguments" is the object of the arguments.
"""
)
"""What a model is told that is held to one JSON object."""


class Demand(Struct, frozen=True):
    """What a request wants of calls: which *tools* may be called, whether one must be, how many."""

    tools: list[Tool]
    forced: bool = False
    named: bool = False
    single: bool = False
    rule: str = ""

    def allows(self, name: str) -> bool:
        """Tell whether a call of *name* is what was asked for.

        A name that no tool has is the caller's to judge, unless a call was demanded.
        """
        if not self.tools or not self.forced:
            return bool(self.tools)
        return any(tool.name == name for tool in self.tools)


def demand_of(request: Request) -> Demand:
    """Read what *request* wants; raise `UsageError` for a choice that cannot be made."""
    choice, tools = request.tool_choice, request.tools
    mode = choice.mode if choice is not None else "auto"
    single = request.parallel_tool_calls is False
    if mode == "none":
        return Demand([], rule=_NEVER if _has_calls(request) else "")
    if mode == "tool" and choice is not None:
        found = [tool for tool in tools if tool.name == choice.name]
        if not found:
            raise UsageError(f"the tool {shown(choice.name)} is chosen, but is not among the tools")
        rule = _NAMED.format(name=choice.name)
        return Demand(found, forced=True, named=True, single=single, rule=rule)
    if mode == "required":
        if not tools:
            raise UsageError("a call is required, but there are no tools")
        return Demand(list(tools), forced=True, single=single, rule=_ONE if single else _ANY)
    return Demand(list(tools), single=single, rule=_AT_MOST_ONE if single and tools else "")


def _has_calls(request: Request) -> bool:
    answers = (m for m in request.messages if isinstance(m, AssistantMessage))
    return any(answer.tool_calls for answer in answers)


# --- forms ---


def constrained(
    request: Request,
    demand: Demand,
    format: AnyFormat,  # noqa: A002 - the word of the whole interface
    how: Constraint,
    api: str,
) -> Request | None:
    """Hold the upstream, which speaks *api*, to a form; None where there is none for this demand.

    A grammar holds the whole answer, so it is for answers that must be calls; a structural tag
    leaves text free, and makes sure of calls in any answer.
    """
    if not isinstance(format, Format) or not demand.tools:
        return None
    only_one = demand.single or demand.named
    try:
        if how == "structural_tag":
            tag = format.structural_tag(
                demand.tools, at_least_one=demand.forced, stop_after_first=only_one
            )
            return _with_fields(request, api, {"response_format": tag})
        if how == "grammar" and demand.forced:
            return _with_fields(request, api, {"grammar": _grammar(format, demand.tools, only_one)})
    except UsageError:
        return None  # a format that has no grammar: then words have to do
    return None


def _grammar(format: Format, tools: list[Tool], only_one: bool) -> str:  # noqa: A002, FBT001
    counts: tuple[Count, ...] = ("one",) if only_one else ("many", "one")
    refused: UsageError | None = None
    for count in counts:
        try:
            return format.gbnf(tools, calls=count)
        except UsageError as exc:  # A format may have but one call in an answer.
            refused = exc
    raise refused or UsageError("there is no grammar")


def _with_fields(request: Request, api: str, fields: dict[str, Any]) -> Request:
    """Add *fields* in the words of the upstream's own API."""
    own = request.extra if request.source in ("", api) else {}
    return structs.replace(request, source=api, extra={**own, **fields})


def json_choice(request: Request, demand: Demand) -> Request:
    """Hold the upstream to one JSON object that names a tool and gives its arguments."""
    wanted = ResponseFormat("schema", choice_schema(demand.tools), "tool_call")
    return structs.replace(request, response_format=wanted, stream=False)


def json_prompt(tools: list[Tool]) -> str:
    """Write the words that show *tools* to a model that answers with one JSON object."""
    return JSON_CHOICE.replace("{tools}", show_tools(tools))


def choice_schema(tools: list[Tool]) -> dict[str, Any]:
    """Give the schema of ``{"name": …, "arguments": …}`` for a call of one of *tools*."""
    if len(tools) == 1:
        return _call_schema(tools[0], "#")
    return {"anyOf": [_call_schema(tool, f"#/anyOf/{at}") for at, tool in enumerate(tools)]}


def _call_schema(tool: Tool, place: str) -> dict[str, Any]:
    arguments = _moved(tool.parameters or {"type": "object"}, f"{place}/properties/arguments")
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "const": tool.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})


def _moved(schema: Any, place: str) -> Any:
    """Give *schema* as it stands at *place* of another: what it refers to has moved along."""
    if isinstance(schema, list):
        return [_moved(each, place) for each in schema]
    if not isinstance(schema, dict):
        return schema
    moved: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and (value + "/").startswith("#/"):
            moved[key] = place + value[1:]
        elif key in _DATA:
            moved[key] = value
        elif key in _NAMED_SCHEMAS and isinstance(value, dict):
            moved[key] = {name: _moved(each, place) for name, each in value.items()}
        else:
            moved[key] = _moved(value, place)
    return moved
