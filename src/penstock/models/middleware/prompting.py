"""What a model without tools is asked instead: the tools in its system prompt, calls as text.

`Prompting` makes the request that goes upstream out of the one that came. Nothing in it asks the
upstream for tools any more: they are told in words, those of the format or the user's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct, structs

from penstock.apis.text_forms import place_system
from penstock.formats import AnyFormat, Format, Placement, Template
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.models.middleware.retelling import Retelling, Thoughts, add_turn
from penstock.parsing.errors import OnError
from penstock.request import Request, UserMessage
from penstock.tools import Tool

MAX_STOPS: Final = 4
"""How many stop strings a request has at most: what most servers take."""

_RESPONSE: Final = ("\n<tool_response>",)
STOPS: Final[dict[str, tuple[str, ...]]] = {
    "hermes": _RESPONSE,
    "qwen25": _RESPONSE,
    "granite4": _RESPONSE,
    "trinity": _RESPONSE,
    "ernie45": _RESPONSE,
    "gemma": ("\n```tool_response",),
    "nemotron_toolcall": ("\n<TOOL_RESPONSE>",),
}
"""Where a model is stopped that goes on to write the result of its call itself.

Only for formats whose calls are JSON: there a line break inside an argument is written as ``\\n``,
so none of these can stand inside a call. A format with raw text in its calls has no such string.
"""

_NATIVE: Final = frozenset({"tools", "tool_choice", "toolConfig", "parallel_tool_calls"})
"""What a client of any API says about tools in fields of its own."""


class Prompting(Struct, frozen=True):
    """How a request becomes one without tools; the fields are the options of `ToolMiddleware`."""

    format: AnyFormat
    template: Template | None = None
    placement: Placement = "first"
    result: Callable[[ToolResult], str] | None = None
    thoughts: Thoughts | None = None
    stops: tuple[str, ...] | None = None
    on_error: OnError | None = None

    @property
    def retelling(self) -> Retelling:
        """How the conversation so far is told."""
        return Retelling(self.format, self.result, self.thoughts, self.on_error)

    def request(
        self, request: Request, tools: list[Tool], *, rule: str = "", prompt: str | None = None
    ) -> Request:
        """Give the request that goes upstream.

        *rule* is what else is to be said about calls; *prompt* takes the place of the words that
        show *tools*.
        """
        request = place_system(request, "user")
        shown = self._shown(tools) if prompt is None else prompt
        parts = [shown, request.system] if self.placement == "first" else [request.system, shown]
        return structs.replace(
            request,
            system="\n\n".join(part.strip("\n") for part in [*parts, rule] if part.strip()),
            messages=self.retelling.retold(request.messages),
            tools=[],
            tool_choice=None,
            parallel_tool_calls=None,
            stop=self._stops(request.stop) if tools and prompt is None else request.stop,
            extra=_without_tools(request.extra),
            raw=None if request.raw is None else _without_tools(request.raw),
        )

    def _shown(self, tools: list[Tool]) -> str:
        if not tools:
            return ""
        if isinstance(self.format, Format):
            return self.format.render_tools(tools, template=self.template)
        return self.format.render_tools(tools)

    def _stops(self, asked: list[str]) -> list[str]:
        own = STOPS.get(self.format.name, ()) if self.stops is None else self.stops
        return list(dict.fromkeys([*asked, *own]))[: max(MAX_STOPS, len(asked))]


def asked_again(request: Request, answer: str, words: str) -> Request:
    """Give *request* once more, behind the *answer* that it got and what is to be said to that."""
    messages = list(request.messages)
    if answer.strip():
        messages.append(AssistantMessage(content=[Text(answer)]))
    add_turn(messages, UserMessage([Text(words)]))
    return structs.replace(request, messages=messages)


def _without_tools(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in _NATIVE}
