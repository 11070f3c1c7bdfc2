"""Render a request for a model without native tools: tools in the system prompt, calls as text.

`PromptRenderer` makes the upstream request. No field of it mentions tools any more: they are
described in the system prompt, by the format or by the user's own template.

`HistoryRenderer` rewrites the conversation. A call becomes the text that the model would have
written in its format, and its result becomes a part of the next user message. Chat templates expect
the roles to alternate, so neighbouring messages of one role are merged. Images stay images. Of
earlier reasoning the model sees what its own chat template would show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, Final, Literal

from msgspec import Struct, structs

from penstock.apis.history import as_text, content_text, pair_results, place_system_messages
from penstock.errors import ParseError, UsageError
from penstock.formats import AnyFormat, Format, Placement, Template, get
from penstock.formats.base import Grouping
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.models.tool_choice import report_broken
from penstock.parsing.state import BrokenCall, OnError
from penstock.request import Image, Message, Request, UserContent, UserMessage
from penstock.tools import Tool

ShownReasoning = Literal["turn", "all", "none"]
"""Which earlier reasoning the model sees: that since the last user message, all, or none."""

SHOWN_REASONING: Final[dict[str, ShownReasoning]] = {"minimax_m2": "all", "minimax_m3": "all"}
"""Formats whose models were trained to see other reasoning than that of the current turn."""

NO_OUTPUT: Final = "(no output)"
"""The text of a tool result that is empty."""

IMAGES: Final = "(see the images)"
"""The text of a tool result that has images and no text."""

MAX_STOPS: Final = 4
"""How many stop strings a request has at most: OpenAI's limit, which most servers share."""

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
"""Strings that stop a model which would write the result of its call itself.

Only for formats with JSON calls: there a line break in an argument is written as ``\\n``, so none
of these can occur inside a call. Formats with raw text in their calls have no such string.
"""

# The fields of all APIs that are about tools.
_TOOL_FIELDS: Final = frozenset({"tools", "tool_choice", "toolConfig", "parallel_tool_calls"})

_PROBE: Final = "result"


class PromptRenderer(Struct, frozen=True):
    """Turns requests into ones without tools; the fields are options of `ToolMiddleware`."""

    format: AnyFormat
    template: Template | None = None
    placement: Placement = "first"
    result: Callable[[ToolResult], str] | None = None
    shown_reasoning: ShownReasoning | None = None
    stops: tuple[str, ...] | None = None
    on_error: OnError | None = None

    @property
    def history(self) -> HistoryRenderer:
        """The renderer of the conversation so far."""
        return HistoryRenderer(self.format, self.result, self.shown_reasoning, self.on_error)

    def render(
        self, request: Request, tools: list[Tool], *, rule: str = "", prompt: str | None = None
    ) -> Request:
        """Return the upstream request.

        *rule* is a further instruction about calls; *prompt* replaces the description of *tools*.
        """
        request = place_system_messages(request, "user")
        shown = self._describe(tools) if prompt is None else prompt
        parts = [shown, request.system] if self.placement == "first" else [request.system, shown]
        stop = request.stop
        if tools and prompt is None:
            own = STOPS.get(self.format.name, ()) if self.stops is None else self.stops
            stop = list(dict.fromkeys([*stop, *own]))[: max(MAX_STOPS, len(stop))]
        return structs.replace(
            request,
            system="\n\n".join(part.strip("\n") for part in [*parts, rule] if part.strip()),
            messages=self.history.render(request.messages),
            tools=[],
            tool_choice=None,
            parallel_tool_calls=None,
            stop=stop,
            extra=_without_tools(request.extra),
            # Writers of the same API copy fields of `raw`, and would send the tools after all.
            raw=None if request.raw is None else _without_tools(request.raw),
        )

    def _describe(self, tools: list[Tool]) -> str:
        if not tools:
            return ""
        if isinstance(self.format, Format):
            return self.format.render_tools(tools, template=self.template)
        return self.format.render_tools(tools)


def add_feedback(request: Request, response: str, feedback: str) -> Request:
    """Return *request* extended by the *response* it got and the *feedback* on that."""
    messages = list(request.messages)
    if response.strip():
        messages.append(AssistantMessage(content=[Text(response)]))
    _append_turn(messages, UserMessage([Text(feedback)]))
    return structs.replace(request, messages=messages)


def _without_tools(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key not in _TOOL_FIELDS}


class HistoryRenderer(Struct, frozen=True):
    """Renders a conversation with calls as text; *result* replaces the format's result text."""

    format: AnyFormat
    result: Callable[[ToolResult], str] | None = None
    shown_reasoning: ShownReasoning | None = None
    on_error: OnError | None = None

    def render(self, messages: Iterable[Message]) -> list[Message]:
        """Return *messages* as text and images, with alternating roles."""
        complete = pair_results(messages)
        users = (at for at, one in enumerate(complete) if isinstance(one, UserMessage))
        # Templates such as Qwen3's show the reasoning since the last user message and drop earlier
        # reasoning.
        turn = max(users, default=-1)
        rendered: list[Message] = []
        for at, message in enumerate(complete):
            new: Message = message
            if isinstance(message, ToolResult):
                new = UserMessage(self.render_result(message))
            elif isinstance(message, AssistantMessage):
                new = self._render_response(message, in_turn=at > turn)
            if not _is_empty(new):
                _append_turn(rendered, new)
        return rendered

    def _render_response(self, message: AssistantMessage, *, in_turn: bool) -> AssistantMessage:
        shown = self.shown_reasoning or SHOWN_REASONING.get(self.format.name, "turn")
        keeps = shown == "all" or (shown == "turn" and in_turn)
        content: list[Content] = []
        for is_call, group in groupby(message.content, lambda block: isinstance(block, ToolCall)):
            blocks = list(group)
            if is_call:
                calls = [block for block in blocks if isinstance(block, ToolCall)]
                content.append(Text(self._render_calls(calls)))
            else:
                content += [b for b in blocks if keeps or not isinstance(b, Thinking)]
        content = _merge_blocks(content)
        return AssistantMessage(message.id, message.model, content, message.stop_reason)

    def _render_calls(self, calls: list[ToolCall]) -> str:
        """Return *calls* in the format, all in one section if the format has one."""
        if isinstance(self.format, Grouping) and len(calls) > 1:
            try:
                return self.format.render_calls(calls)
            except UsageError:
                pass  # Then one by one, so that only the impossible one is written otherwise.
        return "\n".join(self._render_call(call) for call in calls)

    def _render_call(self, call: ToolCall) -> str:
        """Return *call* in the format, or in `hermes` if the format cannot express it."""
        try:
            return self.format.render_call(call)
        except UsageError as exc:
            why = f"the format {self.format.name!r} cannot express a call of the history"
            report_broken(self.on_error, why, BrokenCall("", call.name, ParseError(str(exc))))
            return get("hermes").render_call(call)

    def render_result(self, result: ToolResult) -> list[UserContent]:
        """Return the text of *result* in the format, followed by its images and files."""
        content = result.content
        if not isinstance(content, list):
            return [Text(self._render_result_text(result, content))]
        blocks: list[Any] = []
        for block in content:
            text = as_text(block) if isinstance(block, Opaque) else None
            blocks += [block] if text is None else text
        shown = [block for block in blocks if isinstance(block, Image | Opaque)]
        if shown or any(isinstance(block, Text) for block in blocks):
            content = content_text([block for block in blocks if isinstance(block, Text)])
            content = content or (IMAGES if shown else "")
        return [Text(self._render_result_text(result, content)), *shown]

    def _render_result_text(self, result: ToolResult, content: Any) -> str:
        shown = ToolResult(result.id, result.name, content, result.is_error)
        if self.result is not None:
            return self.result(shown)
        if isinstance(content, str) and not content.strip() and not result.is_error:
            shown.content = NO_OUTPUT
        written = self.format.render_result(shown)
        # Many chat templates have a role for results and no markup; in a user message the text has
        # to name the tool.
        is_bare = self.format.render_result(ToolResult("", "tool", _PROBE)) == _PROBE
        return f"Result of {result.name}:\n{written}" if is_bare else written


def _is_empty(message: Message) -> bool:
    """Return whether *message* has no content, such as a response of omitted reasoning only."""
    if isinstance(message, UserMessage | AssistantMessage):
        return all(isinstance(block, Text) and not block.text for block in message.content)
    return False


# Chat templates such as Mistral's and Gemma's require user and assistant to alternate.
def _append_turn(messages: list[Message], message: Message) -> None:
    """Append *message*, or merge it into the last one if both have the same role."""
    last = messages[-1] if messages else None
    if isinstance(last, UserMessage) and isinstance(message, UserMessage):
        messages[-1] = UserMessage(list(_merge_user_blocks([*last.content, *message.content])))
    elif isinstance(last, AssistantMessage) and isinstance(message, AssistantMessage):
        content = _merge_blocks([*last.content, *message.content])
        messages[-1] = AssistantMessage(last.id, last.model, content, message.stop_reason)
    else:
        messages.append(message)


def _merge_user_blocks(blocks: list[UserContent]) -> Iterator[UserContent]:
    """Yield *blocks* with neighbouring texts merged, one line each."""
    for is_text, group in groupby(blocks, lambda block: isinstance(block, Text)):
        if not is_text:
            yield from group
            continue
        texts = [block.text for block in group if isinstance(block, Text) and block.text]
        yield Text("\n".join(texts))


def _merge_blocks(blocks: list[Content]) -> list[Content]:
    """Return *blocks* with neighbouring texts merged, separated by a line break."""
    merged: list[Content] = []
    for block in blocks:
        last = merged[-1] if merged else None
        if isinstance(last, Text) and isinstance(block, Text) and not block.signature:
            between = "\n" if last.text and block.text and not last.text.endswith("\n") else ""
            merged[-1] = Text(last.text + between + block.text, last.signature)
        else:
            merged.append(block)
    return merged
