"""Questions of MCP servers to the user: a form, which is asked field by field, or a page to open.

An empty input takes the default of a field, or skips it if it is optional. Ctrl-C declines. What a
server writes is shown as text, and always with the name of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from penstock import _json
from penstock.agent.tools.mcp_context import Elicitation, ElicitationAnswer
from penstock.agent.tools.validate import find_faults
from penstock.cli.chat.render import escape_text
from penstock.errors import JSONParseError, UsageError
from penstock.values import Schema


class FormQuestion:
    """A question that waits for the user."""

    def __init__(self, asked: Elicitation) -> None:
        self.asked = asked
        self.answer: asyncio.Future[ElicitationAnswer] = asyncio.get_running_loop().create_future()
        properties = asked.schema.get("properties")
        self._fields: dict[str, Any] = dict(properties) if isinstance(properties, dict) else {}
        required = asked.schema.get("required")
        self._required = set(required) if isinstance(required, list) else set()
        self._values: dict[str, Any] = {}

    @property
    def title(self) -> str:
        """What the server asks for now."""
        server = escape_text(self.asked.server)
        if self.field:
            return f"{server} asks for {escape_text(self.field)}."
        if self.asked.url:
            return f"{server} asks you to open {escape_text(self.asked.url)}"
        return f"{server} asks whether you agree."

    @property
    def field(self) -> str:
        """The name of the field to fill in; empty if the user only agrees."""
        return next(iter(self._fields), "")

    @property
    def hint(self) -> str:
        """What can be entered."""
        if not self.field:
            return f"y {'if you opened it' if self.asked.url else 'agrees'}, n declines"
        schema = self._fields[self.field]
        parts = [_describe_value(schema)]
        if about := schema.get("description") or schema.get("title"):
            parts.insert(0, escape_text(str(about)))
        if "default" in schema:
            parts.append(f"Enter takes {_write_value(schema['default'])}")
        elif self.field not in self._required:
            parts.append("Enter skips it")
        return "; ".join([*(one for one in parts if one), "Ctrl-C declines"])

    def enter(self, text: str) -> None:
        """Take *text* for the current field; raise `UsageError` if it does not fit."""
        name = self.field
        if not name:
            if (word := text.strip().lower()) in ("y", "yes"):
                self._finish(True)
            elif word in ("n", "no"):
                self.decline()
            return
        schema = self._fields[name]
        if not text.strip() and "default" in schema:
            self._values[name] = schema["default"]
        elif text.strip():
            self._values[name] = _read_value(name, text.strip(), schema)
        elif name in self._required:
            raise UsageError(f"{escape_text(name)} is required; Ctrl-C declines.")
        del self._fields[name]
        if not self._fields:
            self._finish(self._values)

    def decline(self) -> None:
        """End the question without an answer."""
        self._finish(None)

    def _finish(self, answer: ElicitationAnswer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


class ServerQuestions:
    """Passes the questions of servers to the chat; without one, they are declined."""

    def __init__(self) -> None:
        self.on_change: Callable[[], None] | None = None
        """Called when a question was asked or has ended."""
        self._open: list[FormQuestion] = []

    @property
    def current(self) -> FormQuestion | None:
        """The question to ask now."""
        return self._open[0] if self._open else None

    async def __call__(self, asked: Elicitation) -> ElicitationAnswer:
        """Ask the user; return the answer, None if the user declined."""
        if self.on_change is None:
            return None
        question = FormQuestion(asked)
        self._open.append(question)
        self.on_change()
        try:
            return await question.answer
        finally:
            self._open.remove(question)
            self.on_change()

    def decline_all(self) -> None:
        """Decline what is open: the call that caused it has ended."""
        for question in self._open:
            question.decline()


def _choices(schema: dict[str, Any]) -> list[Any]:
    """Return the values that *schema* allows; none if it has no list."""
    if isinstance(values := schema.get("enum"), list):
        return values
    options = schema.get("oneOf") or schema.get("anyOf")
    if isinstance(options, list):
        return [one["const"] for one in options if isinstance(one, dict) and "const" in one]
    return []


def _describe_value(schema: dict[str, Any]) -> str:
    if found := _choices(schema):
        return "one of " + ", ".join(_write_value(one) for one in found)
    match schema.get("type"):
        case "boolean":
            return "y or n"
        case "integer":
            return "an integer"
        case "number":
            return "a number"
        case "array":
            items = _choices(schema.get("items") or {})
            return "some of " + ", ".join(_write_value(one) for one in items)
    return ""


def _write_value(value: Any) -> str:
    return escape_text(value if isinstance(value, str) else _json.encode(value).decode())


def _read_value(name: str, text: str, schema: dict[str, Any]) -> Any:
    """Return the value that *text* has for the field *name*; raise `UsageError` if it has none."""
    value: Any = text
    match schema.get("type"):
        case "boolean":
            value = {"y": True, "yes": True, "n": False, "no": False}.get(text.lower(), text)
        case "integer" | "number":
            try:
                value = _json.decode(text)
            except JSONParseError:
                value = text
        case "array":
            value = [one.strip() for one in text.split(",") if one.strip()]
    form = {"type": "object", "properties": {name: schema}}
    fault = next(find_faults({name: value}, Schema.of(form)), None)
    if fault is not None:
        raise UsageError(escape_text(fault))
    return value
