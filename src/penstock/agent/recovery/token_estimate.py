"""How long a conversation is in tokens: what its provider told, and a guess for the rest.

A guess needs no tokenizer and is the same every time. It errs by a third, so wherever a provider
has counted, its count stands, and the guess is for what came after that answer only. How far the
two are apart is known from then on: `ratio` scales guesses that are compared with real limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Final

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
)
from penstock.request import Image, Message, SystemMessage, UserContent
from penstock.tools import Tool

ASCII_A_TOKEN: Final = 4
"""How many characters of ASCII are about a token, in prose; code has a few more tokens."""

BYTES_A_TOKEN: Final = 3
"""How many bytes of any other script are about a token: a letter of Chinese, half of two Greek."""

IMAGE_TOKENS: Final = 1_200
"""What a picture is taken for: providers count from 250 to 1,600, by size and by detail."""

MESSAGE_TOKENS: Final = 4
"""What stands around a message, a call, a result or a tool: its role, its name, its borders."""

LEAST_RATIO: Final = 0.5
"""The least that a count is believed to be of a guess: some servers count what was not cached."""

MOST_RATIO: Final = 3.0
"""The most that guesses are scaled by: beyond that it is no matter of tokenizers."""


# --- guesses ---


def text_tokens(text: str) -> int:
    """Guess how many tokens *text* is."""
    if text.isascii():
        return ceil(len(text) / ASCII_A_TOKEN)
    size = len(text.encode("utf-8", "surrogatepass"))
    plain = len(text.encode("ascii", "ignore"))
    return ceil(plain / ASCII_A_TOKEN + (size - plain) / BYTES_A_TOKEN)


def message_tokens(message: Message) -> int:
    """Guess how many tokens *message* is."""
    if isinstance(message, SystemMessage):
        return MESSAGE_TOKENS + text_tokens(message.text)
    if isinstance(message, ToolResult):
        return MESSAGE_TOKENS + text_tokens(message.name) + _result_tokens(message.content)
    return MESSAGE_TOKENS + sum(_block_tokens(block) for block in message.content)


def tokens_of(messages: Iterable[Message], system: str = "", tools: Iterable[Tool] = ()) -> int:
    """Guess how many tokens a request is, with its *system* prompt and its *tools*."""
    described = sum(
        MESSAGE_TOKENS
        + text_tokens(f"{tool.name} {tool.description}")
        + _value_tokens(tool.parameters)
        for tool in tools
    )
    return text_tokens(system) + described + sum(message_tokens(each) for each in messages)


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
    """Return how long a conversation is: what was counted with its last answer, and a guess after.

    Without a count all of it is guessed. Answers that were counted when the conversation was
    longer than it is now must have lost their usage: see `compacted`.
    """
    at = _last_counted(messages)
    if at is None:
        return tokens_of(messages, system, tools)
    usage = _usage_of(messages[at])
    least = ceil(tokens_of(messages[: at + 1], system, tools) * LEAST_RATIO)
    behind = tokens_of(messages[at + 1 :]) * ratio(messages, system, tools)
    return max(_prompt(usage) + usage.output, least) + ceil(behind)


def ratio(messages: Sequence[Message], system: str = "", tools: Sequence[Tool] = ()) -> float:
    """Return how many real tokens a guessed one is, by the last question that was counted."""
    at = _last_counted(messages)
    if at is None:
        return 1.0
    guessed = max(1, tokens_of(messages[:at], system, tools))
    return min(MOST_RATIO, max(LEAST_RATIO, _prompt(_usage_of(messages[at])) / guessed))


def _last_counted(messages: Sequence[Message]) -> int | None:
    """Return the place of the last answer whose provider told how long the conversation was."""
    for at in range(len(messages) - 1, -1, -1):
        if _prompt(_usage_of(messages[at])):
            return at
    return None


def _usage_of(message: Message) -> Usage:
    """Return what was counted with *message*: nothing, unless it is a whole answer."""
    if not isinstance(message, AssistantMessage) or message.error is not None:
        return Usage()
    return Usage() if message.stop_reason in ("error", "aborted") else message.usage


def _prompt(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write
