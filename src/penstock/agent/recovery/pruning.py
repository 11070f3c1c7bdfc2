"""Old outputs of tools made short: the cheapest room there is, and nobody has to be asked for it.

A file that was read an hour ago has been dealt with; that it was read, and how it began, is enough.
The newest outputs stay whole: those of the last answer in any case, and as many before them as fit
into `WHOLE_TOKENS`. What was shortened before stays as it is, so pruning twice is pruning once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from penstock.agent.recovery.shortening import shortened
from penstock.agent.recovery.tokens import message_tokens
from penstock.apis.history import beside_text, text_of
from penstock.messages import AssistantMessage, ToolResult
from penstock.requests import Message

WHOLE_TOKENS: Final = 10_000
"""How many tokens of the newest outputs stay whole: what a model works with at the moment."""

SHORT: Final = 1_200
"""How many characters an old output keeps: enough to see what it was, and how it ended."""


class Pruned(Struct, frozen=True):
    """A conversation with short old outputs, and about how many tokens they had been more."""

    messages: list[Message]
    saved: int = 0


def prune(messages: Sequence[Message], whole_tokens: int = WHOLE_TOKENS) -> Pruned:
    """Shorten the old outputs of tools in *messages*, which stay as they are.

    What has been counted with the last answer is no longer true then: `saved` says by how much.
    """
    pruned, saved = list(messages), 0
    newest, left = _last_calls(messages), whole_tokens
    for at in range(len(messages) - 1, -1, -1):
        result = messages[at]
        if not isinstance(result, ToolResult):
            continue
        size = message_tokens(result)
        left -= size
        if at < newest and left < 0:
            pruned[at] = _short(result)
            saved += size - message_tokens(pruned[at])
    return Pruned(pruned, saved)


def _last_calls(messages: Sequence[Message]) -> int:
    """Give the place of the last answer that calls tools: what stands behind it is the newest."""
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        if isinstance(message, AssistantMessage) and message.tool_calls:
            return at
    return -1


def _short(result: ToolResult) -> ToolResult:
    """Give *result* with what it begins and ends with; the same one where that is no shorter."""
    pictures = len(beside_text(result))
    note = f"\n[{pictures} pictures or files left out]" if pictures else ""
    short = replace(result, content=shortened(text_of(result.content), SHORT) + note)
    return short if message_tokens(short) < message_tokens(result) else result
