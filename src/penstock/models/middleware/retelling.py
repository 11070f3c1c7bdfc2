"""A conversation with calls, told again as text: for a model that knows no calls and no results.

A call becomes the text that the model would have written, in its format; what it gave back becomes
what the user says next. Chat templates want the two sides to take turns, so neighbours of one side
are made one message. Pictures stay pictures. Of earlier thoughts a model sees what its own chat
template would show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any, Final, Literal

from msgspec import Struct

from penstock.apis.history import repaired, text_of
from penstock.apis.text_forms import text_form
from penstock.errors import ParseError, UsageError
from penstock.formats import AnyFormat, get
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.parsing.errors import BrokenCall, OnError
from penstock.request import Image, Message, UserContent, UserMessage

Thoughts = Literal["turn", "all", "none"]
"""Which thoughts go back: those since the user spoke last, all of them, or none."""

THOUGHTS: Final[dict[str, Thoughts]] = {"minimax_m2": "all", "minimax_m3": "all"}
"""The formats whose models were trained to see other thoughts of theirs than those of the turn."""

NO_OUTPUT: Final = "(no output)"
"""What a tool is said to have given back that gave nothing."""


PICTURES: Final = "(see the pictures)"
"""What a tool is said to have given back that gave pictures and no words."""

_PROBE: Final = "result"


class Retelling(Struct, frozen=True):
    """How a conversation is told again.

    *result* writes what a call gave back, in place of the format's own words.
    """

    format: AnyFormat
    result: Callable[[ToolResult], str] | None = None
    thoughts: Thoughts | None = None
    on_error: OnError | None = None

    def retold(self, messages: Iterable[Message]) -> list[Message]:
        """Give *messages* as text and pictures, the sides taking turns."""
        fit = repaired(messages)
        turn = _start_of_turn(fit)
        told: list[Message] = []
        for at, message in enumerate(fit):
            retold = self._told(message, in_turn=at > turn)
            if not _is_empty(retold):
                add_turn(told, retold)
        return told

    def _told(self, message: Message, *, in_turn: bool) -> Message:
        if isinstance(message, ToolResult):
            return UserMessage(self.result_blocks(message))
        if isinstance(message, AssistantMessage):
            return self._assistant(message, in_turn=in_turn)
        return message

    def _assistant(self, message: AssistantMessage, *, in_turn: bool) -> AssistantMessage:
        wanted = self.thoughts or THOUGHTS.get(self.format.name, "turn")
        keeps = wanted == "all" or (wanted == "turn" and in_turn)
        content: list[Content] = []
        for is_call, group in groupby(message.content, lambda block: isinstance(block, ToolCall)):
            blocks = list(group)
            if is_call:
                calls = [block for block in blocks if isinstance(block, ToolCall)]
                content.append(Text(self._calls(calls)))
            else:
                content += [b for b in blocks if keeps or not isinstance(b, Thinking)]
        return AssistantMessage(message.id, message.model, _joined(content), message.stop_reason)

    # --- calls ---

    def _calls(self, calls: list[ToolCall]) -> str:
        """Write *calls* as the format does, all at once where it knows how."""
        render_calls = getattr(self.format, "render_calls", None)
        if callable(render_calls) and len(calls) > 1:
            try:
                return str(render_calls(calls))
            except UsageError:
                pass  # then one by one: only what cannot be written is written otherwise
        return "\n".join(self._call(call) for call in calls)

    def _call(self, call: ToolCall) -> str:
        """Write *call*; JSON between tags says what the format has no words for."""
        try:
            return self.format.render_call(call)
        except UsageError as refusal:
            if self.on_error is not None:
                why = f"the format {self.format.name!r} cannot show a call of the history"
                with suppress(Exception):  # a handler that fails must not end the stream
                    self.on_error(why, BrokenCall("", call.name, ParseError(str(refusal))))
            return get("hermes").render_call(call)

    # --- results ---

    def result_blocks(self, result: ToolResult) -> list[UserContent]:
        """Write what a call gave back: its text as the format does, and its pictures behind it."""
        content = result.content
        if not isinstance(content, list):
            return [Text(self._result(result, content))]
        blocks = [each for block in content for each in _worded(block)]
        shown = [block for block in blocks if isinstance(block, Image | Opaque)]
        if shown or any(isinstance(block, Text) for block in blocks):
            content = text_of([block for block in blocks if isinstance(block, Text)])
            content = content or (PICTURES if shown else "")
        return [Text(self._result(result, content)), *shown]

    def _result(self, result: ToolResult, content: Any) -> str:
        shown = ToolResult(result.id, result.name, content, result.is_error)
        if self.result is not None:
            return self.result(shown)
        if isinstance(content, str) and not content.strip() and not result.is_error:
            shown.content = NO_OUTPUT
        written = self.format.render_result(shown)
        # Many chat templates give results a role of their own and no words: a user's turn has to
        # say whose words these are.
        return f"Result of {result.name}:\n{written}" if self._has_bare_results() else written

    def _has_bare_results(self) -> bool:
        return self.format.render_result(ToolResult("", "tool", _PROBE)) == _PROBE


def _worded(block: Any) -> list[Any]:
    """Return a block as text and pictures where it can be; a file is shown after the result."""
    said = text_form(block) if isinstance(block, Opaque) else None
    return [block] if said is None else said


def _is_empty(message: Message) -> bool:
    """Tell who says nothing: an answer whose thoughts stay behind is no turn of its own."""
    if isinstance(message, UserMessage | AssistantMessage):
        return all(isinstance(block, Text) and not block.text for block in message.content)
    return False


def _start_of_turn(messages: list[Message]) -> int:
    """Find where the user spoke last."""
    spoken = (at for at, message in enumerate(messages) if isinstance(message, UserMessage))
    return max(spoken, default=-1)


# --- neighbours ---


def add_turn(told: list[Message], message: Message) -> None:
    """Put *message* behind the others, into the last one where both are of one side."""
    last = told[-1] if told else None
    if isinstance(last, UserMessage) and isinstance(message, UserMessage):
        told[-1] = UserMessage(list(_one_text([*last.content, *message.content])))
    elif isinstance(last, AssistantMessage) and isinstance(message, AssistantMessage):
        content = _joined([*last.content, *message.content])
        told[-1] = AssistantMessage(last.id, last.model, content, message.stop_reason)
    else:
        told.append(message)


def _one_text(blocks: list[UserContent]) -> Iterator[UserContent]:
    """Make neighbouring blocks of text one, a line each; everything else stays where it is."""
    for is_text, group in groupby(blocks, lambda block: isinstance(block, Text)):
        if not is_text:
            yield from group
            continue
        texts = [block.text for block in group if isinstance(block, Text) and block.text]
        yield Text("\n".join(texts))


def _joined(blocks: list[Content]) -> list[Content]:
    """Make neighbouring blocks of text one, with a line break between them unless there is one."""
    joined: list[Content] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if isinstance(last, Text) and isinstance(block, Text) and not block.signature:
            between = "\n" if last.text and block.text and not last.text.endswith("\n") else ""
            joined[-1] = Text(last.text + between + block.text, last.signature)
        else:
            joined.append(block)
    return joined
