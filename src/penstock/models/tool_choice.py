"""Tool choice for models without native tools: rules in the prompt, grammars, and one JSON object.

If the upstream supports constrained output, a demanded call is forced by a constraint. Otherwise
the prompt states the rule and the response is checked. With a JSON Schema the whole response is one
object with a name and arguments, which `make_call_events` turns into one call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal

from msgspec import Struct, structs

from penstock import _json, values
from penstock.apis.fields import short_repr
from penstock.errors import JSONParseError, ParseError, UsageError
from penstock.events import (
    Done,
    Event,
    Failed,
    MessageStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats import AnyFormat, Format
from penstock.formats.prompts import HEAD, render_tools
from penstock.grammar import Count
from penstock.messages import UNKNOWN, AssistantMessage, Content, Text, Thinking, ToolCall
from penstock.parsing.state import BrokenCall, OnError
from penstock.request import Request, ResponseFormat
from penstock.tools import Tool
from penstock.values.coercion import describe_change

Constraint = Literal["json_schema", "grammar", "structural_tag"]
"""How an upstream constrains its output: a JSON Schema, a GBNF grammar, a structural tag."""

MUST_CALL: Final = "You must call"
"""The beginning of every rule that demands a call."""

_ANY: Final = f"{MUST_CALL} at least one tool in this response."
_ONE: Final = f"{MUST_CALL} exactly one tool in this response."
_NAMED: Final = f"{MUST_CALL} the tool `{{name}}` in this response."
_AT_MOST_ONE: Final = "Call at most one tool in a response."
_NEVER: Final = "Call no tool in this response: write plain text."

JSON_PROMPT: Final = (
    HEAD
    + """\
Respond with one JSON object and nothing else. Its key "name" is the name of the tool that you \
call, its key "arguments" is the object of the arguments.
"""
)
"""The prompt of a model whose output is constrained to one JSON object."""


class ToolDemand(Struct, frozen=True):
    """What a request demands: which *tools* may be called, whether one must be, and how many.

    *named* means that the client named the tool, *single* that at most one call is allowed. *rule*
    states the demand for the prompt.
    """

    tools: list[Tool]
    forced: bool = False
    named: bool = False
    single: bool = False
    rule: str = ""

    def allows(self, name: str) -> bool:
        """Return whether a call of *name* satisfies the request.

        An unknown name is left to the caller, unless a call was demanded.
        """
        if not self.tools or not self.forced:
            return bool(self.tools)
        return any(tool.name == name for tool in self.tools)


def parse_demand(request: Request) -> ToolDemand:
    """Return the demand of *request*; raise `UsageError` if it cannot be satisfied."""
    choice, tools = request.tool_choice, request.tools
    mode = choice.mode if choice is not None else "auto"
    single = request.parallel_tool_calls is False
    if mode == "none":
        # A rule is needed only if the history shows calls that the model could imitate.
        responses = (m for m in request.messages if isinstance(m, AssistantMessage))
        has_calls = any(response.tool_calls for response in responses)
        return ToolDemand([], rule=_NEVER if has_calls else "")
    if mode == "tool" and choice is not None:
        found = [tool for tool in tools if tool.name == choice.name]
        if not found:
            raise UsageError(f"tool_choice names {short_repr(choice.name)}, which is not a tool")
        # Most chat templates have no place for a tool choice, so it is stated in words as well.
        rule = _NAMED.format(name=choice.name)
        return ToolDemand(found, forced=True, named=True, single=single, rule=rule)
    if mode == "required":
        if not tools:
            raise UsageError("tool_choice requires a call, but the request has no tools")
        return ToolDemand(list(tools), forced=True, single=single, rule=_ONE if single else _ANY)
    return ToolDemand(list(tools), single=single, rule=_AT_MOST_ONE if single and tools else "")


# --- constraints ---


def constrain_request(
    request: Request,
    demand: ToolDemand,
    format: AnyFormat,  # noqa: A002 - the public name of this option
    how: Constraint,
    api: str,
) -> Request | None:
    """Return *request* with a constraint for an upstream that uses *api*, or None.

    A grammar covers the whole response, so it is used only for responses that must be calls. A
    structural tag leaves text free and ensures valid calls in any response.
    """
    if not isinstance(format, Format) or not demand.tools:
        return None
    only_one = demand.single or demand.named
    try:
        # xgrammar's structural tags, which vLLM and SGLang accept in `response_format`.
        if how == "structural_tag":
            tag = format.structural_tag(
                demand.tools, at_least_one=demand.forced, stop_after_first=only_one
            )
            return _add_fields(request, api, {"response_format": tag})
        # llama.cpp's field; its syntax is GBNF.
        if how == "grammar" and demand.forced:
            grammar = _make_grammar(format, demand.tools, only_one=only_one)
            return _add_fields(request, api, {"grammar": grammar})
    except UsageError:
        return None  # The format has no grammar; the rule in the prompt has to suffice.
    return None


def _make_grammar(format: Format, tools: list[Tool], *, only_one: bool) -> str:  # noqa: A002
    counts: tuple[Count, ...] = ("one",) if only_one else ("many", "one")
    error: UsageError | None = None
    for count in counts:
        try:
            return format.gbnf(tools, calls=count)
        except UsageError as exc:  # Some formats allow only one call in a response.
            error = exc
    raise error or UsageError("the format has no grammar")


def _add_fields(request: Request, api: str, fields: dict[str, Any]) -> Request:
    """Return *request* with *fields* of the upstream's API."""
    own = request.extra if request.source in ("", api) else {}
    return structs.replace(request, source=api, extra={**own, **fields})


def constrain_to_json(request: Request, demand: ToolDemand) -> Request:
    """Return *request* with a schema for one JSON object: a tool's name and its arguments."""
    schema = ResponseFormat("schema", make_call_schema(demand.tools), "tool_call")
    # The call is read from the whole JSON object, so there is nothing to stream.
    return structs.replace(request, response_format=schema, stream=False)


def render_json_prompt(tools: list[Tool]) -> str:
    """Return the prompt that describes *tools* to a model which responds with one JSON object."""
    return JSON_PROMPT.replace("{tools}", render_tools(tools))


def make_call_schema(tools: list[Tool]) -> dict[str, Any]:
    """Return the schema of ``{"name": …, "arguments": …}`` for a call of one of *tools*."""
    if len(tools) == 1:
        return _schema_for(tools[0], "#")
    return {"anyOf": [_schema_for(tool, f"#/anyOf/{at}") for at, tool in enumerate(tools)]}


def _schema_for(tool: Tool, path: str) -> dict[str, Any]:
    arguments = _move_refs(tool.parameters or {"type": "object"}, f"{path}/properties/arguments")
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "const": tool.name}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def _move_refs(schema: dict[str, Any], path: str) -> Any:
    """Return *schema* for its place at *path* of another schema: local ``$ref`` values move."""

    def move(node: dict[str, Any]) -> dict[str, Any]:
        target = node.get("$ref")
        if not isinstance(target, str) or not (target + "/").startswith("#/"):
            return node
        return {**node, "$ref": path + target[1:]}

    return map_schemas(schema, move)


_DATA: Final = frozenset({"const", "enum", "default", "examples"})
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})


def map_schemas(schema: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """Return *schema* with *change* applied to every schema in it."""
    if isinstance(schema, list):
        return [map_schemas(one, change) for one in schema]
    if not isinstance(schema, dict):
        return schema
    mapped = {}
    for key, value in schema.items():
        # Under these keys ``$ref`` is data, and under the next ones it is the name of a property.
        if key in _DATA:
            mapped[key] = value
        elif key in _NAMED_SCHEMAS and isinstance(value, dict):
            mapped[key] = {name: map_schemas(each, change) for name, each in value.items()}
        else:
            mapped[key] = map_schemas(value, change)
    return change(mapped)


# --- responses that are one JSON object ---

_UNREADABLE: Final = "the response to a tool choice is not a JSON object with a name and arguments"
_NOT_OFFERED: Final = "the response to a tool choice calls a tool that was not chosen"


def make_call_events(
    message: AssistantMessage, demand: ToolDemand, call_id: str, on_error: OnError | None
) -> list[Event]:
    """Return the events of the call in *message*, and of the reasoning before it.

    The first text of the message is the call. If it cannot be read, the call is named ``unknown``
    and has no arguments and is not complete: it is visible, reported to *on_error* and never run.
    """
    start = MessageStart(message.id, message.model)
    if message.error is not None:
        failed: Literal["aborted", "error"] = (
            "aborted" if message.stop_reason == "aborted" else "error"
        )
        rest = structs.replace(message, content=[], stop_reason=failed)
        return [start, Failed(failed, message.error, rest)]
    text = next((block.text for block in message.content if isinstance(block, Text)), "")
    call = _read_call(text, message, demand, call_id, on_error)
    thinking = [block for block in message.content if isinstance(block, Thinking)]
    events: list[Event] = [start]
    for at, block in enumerate(thinking):
        events += [
            ThinkingStart(at),
            ThinkingDelta(at, block.text),
            ThinkingEnd(at, block.text, block.signature),
        ]
    at = len(thinking)
    events += [
        ToolCallStart(at, call.id, call.name, text),
        ToolCallDelta(at, _json.encode(call.arguments).decode()),
        ToolCallEnd(at, call),
    ]
    reason: Literal["stop", "length", "tool_use"] = "stop"
    if not call.complete and message.stop_reason == "length":
        reason = "length"
    elif call.complete or call.name == UNKNOWN:
        reason = "tool_use"
    content: list[Content] = [*thinking, call]
    return [*events, Done(reason, structs.replace(message, content=content, stop_reason=reason))]


def _read_call(
    text: str,
    message: AssistantMessage,
    demand: ToolDemand,
    call_id: str,
    on_error: OnError | None,
) -> ToolCall:
    """Return the call in *text*; one that the token limit cut is never complete."""
    try:
        value, repairs, was_open = _read_json(text, strict=message.stop_reason == "length")
        name, arguments = _split_call(value)
    except ParseError as error:
        report_broken(on_error, _UNREADABLE, BrokenCall(text, "", error))
        return ToolCall(call_id, UNKNOWN, {}, complete=False)
    tool = next((tool for tool in demand.tools if tool.name == name), None)
    if tool is None:
        report_broken(on_error, _NOT_OFFERED, BrokenCall(text, name, ParseError(_NOT_OFFERED)))
        return ToolCall(call_id, name, arguments, complete=False)
    coerced = values.coerce(arguments, tool.parameters)
    fitting = coerced if isinstance(coerced, dict) else arguments
    notes = [
        describe_change(key, arguments[key], value)
        for key, value in fitting.items()
        if key in arguments and value is not arguments[key]
    ]
    return ToolCall(call_id, name, fitting, complete=not was_open, repairs=repairs + notes)


def _read_json(text: str, *, strict: bool) -> tuple[object, list[str], bool]:
    """Return the value of *text*, the repairs, and whether a part of it had to be invented.

    A call whose end or another part was invented is not complete (decision 8), whatever the
    upstream gave as the stop reason.
    """
    try:
        return _json.decode(text), [], False
    except JSONParseError:
        if strict:
            raise
    try:
        value, repairs = values.rjson.repair(text, guess=False)
    except JSONParseError:
        return *values.rjson.repair(text), True
    return value, repairs, values.rjson.closes_text(repairs)


def _split_call(value: object) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments in *value*; raise `ParseError` if it has none."""
    if not isinstance(value, dict):
        raise ParseError("expected a JSON object")
    name, arguments = value.get("name"), value.get("arguments")
    if isinstance(arguments, str):  # Some models write the arguments as JSON inside a string.
        with suppress(JSONParseError):
            arguments = _json.decode(arguments)
    if not isinstance(name, str) or not name:
        raise ParseError("the call has no name")
    if arguments is not None and not isinstance(arguments, dict):
        raise ParseError("the arguments are not a JSON object")
    return name, arguments or {}


def report_broken(on_error: OnError | None, why: str, segment: BrokenCall) -> None:
    """Call *on_error*, if there is one, for text that is not accepted as a call."""
    if on_error is not None:
        with suppress(Exception):  # A failing handler must not end the stream.
            on_error(why, segment)
