"""Reading numbers that a provider may leave out, send as `null` or spell as text.

Where a provider counts no tokens at all, they are estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock import _json
from penstock.messages import AssistantMessage, Opaque, ToolCall, Usage

BYTES_A_TOKEN: Final = 4
"""How many bytes are about one token: a guess, for want of everybody's tokenizers."""

ESTIMATED: Final = "estimated"
"""The field of a usage that says that nobody counted."""


def count_of(data: Mapping[str, Any], key: str) -> int:
    """Give the count at *key*, and 0 for what is none."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - NaN
        return 0
    return max(0, int(value)) if abs(value) < 2**63 else 0


def counts_of(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Give the object of counts at *key*, and an empty one for what is none."""
    value = data.get(key)
    return value if isinstance(value, Mapping) else {}


def index_of(data: Mapping[str, Any], key: str = "index") -> int | None:
    """Give the index at *key*, also one that is spelled as text."""
    value = data.get(key)
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 10:  # noqa: PLR2004
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def is_counted(usage: Usage) -> bool:
    """Return whether a provider has counted anything."""
    counts = (usage.input, usage.output, usage.cache_read, usage.cache_write)
    return any((*counts, usage.reasoning, usage.total))


def estimated_usage(message: AssistantMessage, input_tokens: int) -> Usage:
    """Estimate what *message* took, for a prompt of about *input_tokens*."""
    size = 0
    for block in message.content:
        if isinstance(block, ToolCall):
            size += len(block.name) + len(_json.encode_wire(block.arguments))
        elif not isinstance(block, Opaque):
            size += len(block.text.encode("utf-8", "replace"))
    output = -(-size // BYTES_A_TOKEN)
    return Usage(input_tokens, output, total=input_tokens + output, raw={ESTIMATED: True})


def told_usage(message: AssistantMessage, input_tokens: int) -> Usage:
    """Return the usage of *message* as its provider counted it, or else an estimate.

    Without *input_tokens*, what the prompt is thought to cost, nothing is estimated.
    """
    if is_counted(message.usage) or not input_tokens:
        return message.usage
    return estimated_usage(message, input_tokens)


def estimate_mark(usage: Usage) -> dict[str, bool]:
    """Write that *usage* is an estimate, if it is one."""
    return {ESTIMATED: True} if usage.raw == {ESTIMATED: True} else {}
