"""What the scripted model says: the same words to the same request, always."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from penstock import _json
from penstock.errors import UsageError
from penstock.formats import FormatLike, get
from penstock.messages import AssistantMessage, ToolCall
from penstock.models.demo.hearing import Heard, hear
from penstock.models.demo.words import arguments_for, fitting_tool
from penstock.request import Request
from penstock.tools import Tool

MAX_QUOTED: Final = 200
"""How many characters of what somebody said are said again."""

_ABOUT: Final = (
    "I am penstock-demo, a scripted model: I follow simple rules and understand nothing."
)


class Line(Struct, frozen=True):
    """One answer: *text*, and a *call* behind it that is no text."""

    text: str
    call: ToolCall | None = None


def line_for(request: Request, format: FormatLike | None) -> Line:  # noqa: A002
    """Give the answer to *request*, with calls as text of *format* or, without one, as calls."""
    heard = hear(request, format or "auto")
    wanted = request.response_format
    if wanted is not None and wanted.kind == "schema":
        return Line(_fitting_json(wanted.schema, heard.words))
    if heard.results:
        return Line(_about_results(heard))
    tool = fitting_tool(heard.words, heard.tools, must=heard.must_call)
    if tool is None:
        return Line(_small_talk(heard))
    call = ToolCall(_new_id(request), tool.name, arguments_for(tool, heard.words))
    return _calling(call, heard.tools, format)


def _new_id(request: Request) -> str:
    """Count the calls of the conversation: no two of them have one id."""
    answers = (one for one in request.messages if isinstance(one, AssistantMessage))
    return f"call_{1 + sum(len(answer.tool_calls) for answer in answers)}"


def _calling(call: ToolCall, tools: list[Tool], format: FormatLike | None) -> Line:  # noqa: A002
    lead = f"I use {call.name} for that."
    if format is None:
        return Line(lead, call)
    found = get(format)
    try:
        written = found.render_call(call)
    except UsageError as refusal:
        return Line(f"{_ABOUT} I cannot write a call of {call.name} in {found.name}: {refusal}")
    # In some formats a call counts only where the answer begins with it.
    told = f"{lead}\n{written}"
    return Line(told if found.parse(told, tools).tool_calls else written)


def _about_results(heard: Heard) -> str:
    parts = [f"{name} says: {_short(text)}" for name, text in heard.results]
    return "\n".join([*parts, "(This answer is scripted.)"])


def _small_talk(heard: Heard) -> str:
    said = f" You said: “{_short(heard.words)}”." if heard.words.strip() else ""
    if heard.tools:
        names = ", ".join(tool.name for tool in heard.tools)
        return f"{_ABOUT}{said} None of the tools fits your words; there are: {names}."
    return f"{_ABOUT}{said} Offer me tools, and I call the one that fits your words."


def _short(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED].rstrip() + "…"


# --- JSON that fits a schema ---


def _fitting_json(schema: dict[str, Any], words: str) -> str:
    """Write JSON that *schema* accepts: a call, where it is the schema of one."""
    choices = [tool for each in schema.get("anyOf", [schema]) for tool in _tool_of(each)]
    tool = fitting_tool(words, choices, must=True)
    if tool is not None:
        made: dict[str, Any] = {"name": tool.name, "arguments": arguments_for(tool, words)}
    else:
        made = arguments_for(Tool("answer", "", schema), words)
    return _json.encode(made).decode()


def _tool_of(schema: Any) -> list[Tool]:
    properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
    name = properties.get("name", {}).get("const") if isinstance(properties, dict) else None
    arguments = properties.get("arguments") if isinstance(properties, dict) else None
    if not isinstance(name, str) or not isinstance(arguments, dict):
        return []
    return [Tool(name, "", arguments)]
