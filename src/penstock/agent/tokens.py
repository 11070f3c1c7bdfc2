"""Token counts: estimates of a conversation's length, and what a run has spent.

An estimate needs no tokenizer and is deterministic. It is off by up to a third, so a provider's
count is used where there is one, and only the messages after that response are estimated. The ratio
of the two is known from then on: `ratio` scales estimates that are compared with real limits.

Spending includes responses that were kept, tries that failed, and the summaries of compactions.
Prices change and differ by contract, so the caller passes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final, Literal

from msgspec import Struct, field

from penstock import _json
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    sum_usage,
)
from penstock.models.catalog import Cost, Prices, cost
from penstock.request import Image, Message, SystemMessage, UserContent
from penstock.tools import Tool

ASCII_PER_TOKEN: Final = 4
"""How many ASCII characters are about one token, in prose; code has a few more tokens."""

BYTES_PER_TOKEN: Final = 3
"""How many UTF-8 bytes of other scripts are about one token: one Chinese character."""

IMAGE_TOKENS: Final = 1_200
"""How many tokens an image counts for: providers count 250 to 1,600, by size and detail."""

MESSAGE_TOKENS: Final = 4
"""How many tokens surround a message, a call, a result or a tool: its role, name and separators."""

MIN_RATIO: Final = 0.5
"""The smallest ratio of count to estimate that is trusted: some servers omit cached tokens."""

MAX_RATIO: Final = 3.0
"""The largest ratio by which estimates are scaled: a tokenizer does not explain more."""


# --- estimates ---


def text_tokens(text: str) -> int:
    """Estimate the tokens of *text*."""
    if text.isascii():
        return ceil(len(text) / ASCII_PER_TOKEN)
    size = len(text.encode("utf-8", "surrogatepass"))
    plain = len(text.encode("ascii", "ignore"))
    return ceil(plain / ASCII_PER_TOKEN + (size - plain) / BYTES_PER_TOKEN)


def message_tokens(message: Message) -> int:
    """Estimate the tokens of *message*."""
    if isinstance(message, SystemMessage):
        return MESSAGE_TOKENS + text_tokens(message.text)
    if isinstance(message, ToolResult):
        return MESSAGE_TOKENS + text_tokens(message.name) + _result_tokens(message.content)
    return MESSAGE_TOKENS + sum(_block_tokens(block) for block in message.content)


def request_tokens(
    messages: Iterable[Message], system: str = "", tools: Iterable[Tool] = ()
) -> int:
    """Estimate the tokens of a request with its *system* prompt and its *tools*."""
    total = text_tokens(system) + sum(message_tokens(each) for each in messages)
    for tool in tools:
        described = text_tokens(f"{tool.name} {tool.description}")
        total += MESSAGE_TOKENS + described + _value_tokens(tool.parameters)
    return total


def _block_tokens(block: Content | UserContent) -> int:
    if isinstance(block, Text | Thinking):
        return text_tokens(block.text)
    if isinstance(block, ToolCall):
        return MESSAGE_TOKENS + text_tokens(block.name) + _value_tokens(block.arguments)
    return IMAGE_TOKENS if isinstance(block, Image) else _value_tokens(block.data)


def _result_tokens(content: object) -> int:
    if isinstance(content, str):
        return text_tokens(content)
    if isinstance(content, list) and all(isinstance(b, Text | Image | Opaque) for b in content):
        return sum(_block_tokens(block) for block in content)
    return _value_tokens(content)


def _value_tokens(value: object) -> int:
    return text_tokens(_json.encode_wire(value).decode())


# --- counts ---


def context_tokens(
    messages: Sequence[Message], system: str = "", tools: Sequence[Tool] = ()
) -> int:
    """Return the length of a conversation: the last count, and an estimate of what follows it.

    Without a count all of it is estimated. A compaction must remove the usage of the responses that
    it keeps: they were counted when the conversation was longer.
    """
    at = _find_last_count(messages)
    if at is None:
        return request_tokens(messages, system, tools)
    usage = _counted_usage(messages[at])
    # Some servers count only the tokens that were not cached; such a count is too low to be used.
    least = ceil(request_tokens(messages[: at + 1], system, tools) * MIN_RATIO)
    after = request_tokens(messages[at + 1 :]) * ratio(messages, system, tools)
    return max(_prompt_tokens(usage) + usage.output, least) + ceil(after)


def ratio(messages: Sequence[Message], system: str = "", tools: Sequence[Tool] = ()) -> float:
    """Return how many counted tokens one estimated token is, by the last count."""
    at = _find_last_count(messages)
    if at is None:
        return 1.0
    estimate = max(1, request_tokens(messages[:at], system, tools))
    counted = _prompt_tokens(_counted_usage(messages[at]))
    return min(MAX_RATIO, max(MIN_RATIO, counted / estimate))


def _find_last_count(messages: Sequence[Message]) -> int | None:
    """Return the position of the last response whose provider counted the prompt."""
    for at in range(len(messages) - 1, -1, -1):
        if _prompt_tokens(_counted_usage(messages[at])):
            return at
    return None


def _counted_usage(message: Message) -> Usage:
    """Return the usage of *message* if it is a complete response, else an empty one."""
    if not isinstance(message, AssistantMessage) or message.error is not None:
        return Usage()
    return Usage() if message.stop_reason in ("error", "aborted") else message.usage


def _prompt_tokens(usage: Usage) -> int:
    # Anthropic's `input_tokens` excludes cached tokens. The decoders of the other APIs subtract
    # them, so that this sum is the length of the prompt everywhere.
    return usage.input + usage.cache_read + usage.cache_write


# --- spending ---


Purpose = Literal["answer", "failure", "compaction"]
"""What tokens were spent on."""


class Spending(Struct):
    """The tokens that were spent, by purpose."""

    answers: Usage = field(default_factory=Usage)
    failures: Usage = field(default_factory=Usage)
    compactions: Usage = field(default_factory=Usage)

    def add(self, usage: Usage, purpose: Purpose = "answer") -> None:
        """Add *usage*, which is often empty for a failure."""
        if purpose == "answer":
            self.answers = sum_usage([self.answers, usage])
        elif purpose == "failure":
            self.failures = sum_usage([self.failures, usage])
        else:
            self.compactions = sum_usage([self.compactions, usage])

    @property
    def usage(self) -> Usage:
        """The sum of all purposes."""
        return sum_usage([self.answers, self.failures, self.compactions])

    def cost(self, prices: Prices) -> Cost:
        """Return the cost of all of it at *prices*."""
        return cost(self.usage, prices)
