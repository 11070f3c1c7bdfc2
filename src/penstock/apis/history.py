"""A conversation made fit for an API: calls have results, reasoning go to who thought them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from penstock import _json
from penstock.apis.text_forms import kind_of
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    failed_content,
)
from penstock.request import Image, Message, Request, UserMessage

OURS: Final = "penstock"
"""Whose blocks go to no API: they tell a reader of the answer what was done."""

_NOTES: Final = frozenset({"annotations", "redacted_thinking"})
"""The types of blocks that no other API could have a use for."""

MISSING: str = "No result provided"
"""What a call is answered with whose result is not there."""


def repaired(messages: Iterable[Message], *, remembers: bool = False) -> list[Message]:
    """Return *messages* with a result after every call, in the order of the calls.

    A call that is not complete stays, with the arguments as they were understood, if there is a
    result of it, and is omitted if not. A result that has no name gets that of its call. What is
    the result of no call is said as the user's text, unless the server *remembers* calls that are
    not here.
    """
    given = list(messages)
    answered: set[int] = set()  # the results that stand after their call already
    fit: list[Message] = []
    for at, message in enumerate(given):
        if isinstance(message, AssistantMessage):
            results = [_answer(call, given, at + 1, answered) for call in message.tool_calls]
            fit.append(_answered(message, results))
            fit += [result for result in results if result is not None]
        elif isinstance(message, ToolResult) and not remembers:
            if at not in answered:
                fit.append(_said(message))
        elif at not in answered:
            fit.append(message)
    return fit


def _answer(
    call: ToolCall, messages: list[Message], at: int, answered: set[int]
) -> ToolResult | None:
    """Find the result of *call* from *at* on, up to where a later answer uses its id again."""
    for place in range(at, len(messages)):
        found = messages[place]
        if isinstance(found, ToolResult):
            if found.id == call.id and place not in answered:
                answered.add(place)
                return _named(found, call.name)
        elif isinstance(found, AssistantMessage) and any(c.id == call.id for c in found.tool_calls):
            break
    return ToolResult(call.id, call.name, MISSING, is_error=True) if call.complete else None


def _named(result: ToolResult, name: str) -> ToolResult:
    return result if result.name else ToolResult(result.id, name, result.content, result.is_error)


def _answered(message: AssistantMessage, results: list[ToolResult | None]) -> AssistantMessage:
    """Return *message* with those of its calls that have a result."""
    kept: list[Content] = []
    answers = iter(results)
    for block in message.content:
        if not isinstance(block, ToolCall):
            kept.append(block)
        elif next(answers) is not None:
            kept.append(block if block.complete else structs.replace(block, complete=True))
    return AssistantMessage(message.id, message.model, kept, message.stop_reason)


def _said(result: ToolResult) -> UserMessage:
    """Say a result of no call as the user would: no API takes one."""
    name = f" of {result.name}" if result.name else ""
    text = f"The result{name}:\n{result_text(result)}"
    return UserMessage([Text(text), *beside_text(result)])


def beside_text(result: ToolResult) -> list[Image | Opaque]:
    """Return what a result holds beside text: many an API takes it from the user alone."""
    content = result.content if isinstance(result.content, list) else []
    return [block for block in content if isinstance(block, Image | Opaque)]


def is_by(message: AssistantMessage, model: str) -> bool:
    """Return whether *message* may be *model*'s own: its signatures go back to it alone."""
    return not message.model or message.model == model


def replayable(message: AssistantMessage, model: str, provider: str) -> list[Content]:
    """Return the blocks of *message* that can go to *model* at *provider*.

    To another model reasoning go as plain text, without signatures, and what only a provider
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
    """Return what a tool gave back as text: text as it is, blocks one a line, all else as JSON."""
    if isinstance(content, str):
        return content
    if isinstance(content, list) and all(isinstance(b, Text | Image | Opaque) for b in content):
        return "\n".join(block.text for block in content if isinstance(block, Text))
    return _json.encode_wire(content).decode()


def result_text(result: ToolResult) -> str:
    """Return what a call gave back as text that also says whether it failed."""
    text = text_of(result.content)
    return str(failed_content(text)) if result.is_error and text != MISSING else text


def lost_content(request: Request, provider: str, *, images: bool = True) -> list[str]:
    """Name what the conversation holds that *provider* has no form for, such as a document.

    The messages are those that `with_fit_content` returns.
    """
    lost: dict[str, None] = {}
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            blocks: Iterable[object] = _blocks_made(message)
        elif isinstance(message, ToolResult):
            blocks = beside_text(message)
        else:
            blocks = message.content if isinstance(message, UserMessage) else ()
        for block in blocks:
            if isinstance(block, Opaque) and block.provider != provider:
                lost[f"content: {kind_of(block.data)}"] = None
            elif isinstance(block, Image) and not images:
                lost["content: image"] = None
    return [*lost]


def _blocks_made(message: AssistantMessage) -> list[Opaque]:
    """Return what a provider has put into its answer beside text, reasoning and calls.

    Notes about such blocks (citations, annotations, what stopped the answer) are not content.
    """
    made = [block for block in message.content if isinstance(block, Opaque)]
    return [
        block
        for block in made
        if block.provider != OURS
        and isinstance(block.data, dict)
        and isinstance(kind := block.data.get("type"), str)
        and kind not in _NOTES
    ]
