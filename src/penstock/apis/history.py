"""A conversation made fit for an API: calls have results, thoughts go to who thought them."""

from __future__ import annotations

from collections.abc import Iterable

from penstock import _json
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.requests import Image, Message

MISSING: str = "No result provided"
"""What a call is answered with whose result is not there."""


def repaired(messages: Iterable[Message]) -> list[Message]:
    """Give *messages* with a result behind every complete call, in the order of the calls.

    Calls that are not complete are left out, since nothing can have answered them; a result of no
    call stays where it is. A result that has no name gets that of its call.
    """
    given = list(messages)
    answered: set[int] = set()  # the results that stand behind their call already
    fit: list[Message] = []
    for at, message in enumerate(given):
        if isinstance(message, AssistantMessage):
            fit.append(_without_cut_calls(message))
            calls = [call for call in message.tool_calls if call.complete]
            fit += [_answer(call, given, at + 1, answered) for call in calls]
        elif at not in answered:
            fit.append(message)
    return fit


def _answer(call: ToolCall, messages: list[Message], at: int, answered: set[int]) -> ToolResult:
    """Find the result of *call* from *at* on, up to where a later answer uses its id again."""
    for place in range(at, len(messages)):
        found = messages[place]
        if isinstance(found, ToolResult):
            if found.id == call.id and place not in answered:
                answered.add(place)
                return _named(found, call.name)
        elif isinstance(found, AssistantMessage) and any(c.id == call.id for c in found.tool_calls):
            break
    return ToolResult(call.id, call.name, MISSING, is_error=True)


def _named(result: ToolResult, name: str) -> ToolResult:
    return result if result.name else ToolResult(result.id, name, result.content, result.is_error)


def _without_cut_calls(message: AssistantMessage) -> AssistantMessage:
    kept: list[Content] = [
        block for block in message.content if not isinstance(block, ToolCall) or block.complete
    ]
    return AssistantMessage(message.id, message.model, kept, message.stop_reason)


def is_by(message: AssistantMessage, model: str) -> bool:
    """Tell whether *message* may be *model*'s own: its signatures go back to it alone."""
    return not message.model or message.model == model


def replayable(message: AssistantMessage, model: str, provider: str) -> list[Content]:
    """Give the blocks of *message* that can go to *model* at *provider*.

    To another model thoughts go as plain text, without signatures, and what only a provider
    understands goes to that provider alone. Thoughts of an answer that failed lose their signature.
    """
    blocks: list[Content] = []
    own = is_by(message, model)
    failed = message.stop_reason in ("error", "aborted")
    for block in message.content:
        if isinstance(block, Opaque):
            if own and block.provider == provider:
                blocks.append(block)
        elif isinstance(block, Thinking):
            if own:
                blocks.append(Thinking(block.text, "" if failed else block.signature))
            elif block.text.strip():
                blocks.append(Text(block.text))
        elif own or not block.signature:
            blocks.append(block)
        elif isinstance(block, Text):
            blocks.append(Text(block.text))
        else:
            blocks.append(ToolCall(block.id, block.name, block.arguments, block.complete))
    return blocks


def text_of(content: object) -> str:
    """Give what a tool gave back as text: text as it is, blocks one a line, all else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(b, Text | Image | Opaque) for b in content):
        return "\n".join(block.text for block in content if isinstance(block, Text))
    return _json.encode(content).decode()
