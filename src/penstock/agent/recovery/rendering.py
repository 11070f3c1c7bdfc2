"""A conversation as text, for whoever sums it up: in pieces of limited length.

Every line of what was said begins with a bar, and every line that does not is ours. So whatever
was said, by a user, a file or a web page, cannot end its own passage and begin another: there is no
closing marker to forge. Names of tools are words of others too, and stand behind the bar.

Passages are cut in the middle where they are long, and shorter still where the conversation would
be more pieces than `MAX_PIECES`; pieces beyond that are left out of the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from penstock import _json
from penstock.agent.recovery.shortening import MIN_LIMIT, shortened
from penstock.agent.recovery.tokens import text_tokens
from penstock.apis.history import beside_text, text_of
from penstock.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall, ToolResult
from penstock.requests import Image, Message, SystemMessage, UserMessage

MAX_PASSAGE: Final = 4_000
"""How many characters of one passage are shown: about a screen of text, or two of code."""

MAX_PIECES: Final = 8
"""How many pieces a conversation is shown in: each is a question to a model, and costs as such."""

LEFT_OUT: Final = "[a part of the conversation is left out here]"
_BAR: Final = "| "

Passage = tuple[str, str]
"""Who speaks, in our words, and what is said, in theirs."""


def quoted(text: str) -> str:
    """Give *text* with a bar before each line, whatever ends a line in it."""
    return "\n".join(_BAR + line for line in text.splitlines() or [""])


def fitted(text: str, tokens: int) -> str:
    """Give *text* quoted, cut in the middle until it is about *tokens* or cannot be cut further."""
    limit = len(text)
    shown = quoted(text)
    while text_tokens(shown) > tokens and limit > MIN_LIMIT:
        limit //= 2
        shown = quoted(shortened(text, limit))
    return shown


def pieces_of(messages: Sequence[Message], tokens: int) -> list[str]:
    """Give the conversation as text in pieces of about *tokens* at most, `MAX_PIECES` of them."""
    passages = [passage for message in messages for passage in _passages(message)]
    limit = MAX_PASSAGE
    pieces = _packed(passages, limit, tokens)
    while len(pieces) > MAX_PIECES and limit > MIN_LIMIT:
        limit //= 2
        pieces = _packed(passages, limit, tokens)
    if len(pieces) > MAX_PIECES:
        half = MAX_PIECES // 2
        pieces = [
            *pieces[:half],
            f"{LEFT_OUT}\n\n{pieces[-half]}",
            *pieces[len(pieces) - half + 1 :],
        ]
    return pieces


def _packed(passages: Iterable[Passage], limit: int, tokens: int) -> list[str]:
    """Write the passages, as many in a piece as it has room for."""
    pieces: list[list[str]] = []
    left = 0
    for who, said in passages:
        shown = f"[{who}]\n{fitted(shortened(said, limit), tokens // 2)}"
        size = text_tokens(shown) + 1
        if size > left or not pieces:
            pieces.append([])
            left = tokens
        pieces[-1].append(shown)
        left -= size
    return ["\n\n".join(piece) for piece in pieces]


# --- who said what ---


def _passages(message: Message) -> Iterator[Passage]:
    if isinstance(message, SystemMessage):
        yield "instructions", message.text
    elif isinstance(message, UserMessage):
        who = f"reminder of a {message.source}" if message.source in ("rule", "guard") else "user"
        yield who, _with_pictures(message.text, message.content)
    elif isinstance(message, ToolResult):
        who = "result, an error" if message.is_error else "result"
        said = _with_pictures(text_of(message.content), beside_text(message))
        yield who, f"{message.name}: {said}"
    else:
        yield from _answer(message)


def _answer(message: AssistantMessage) -> Iterator[Passage]:
    for block in message.content:
        if isinstance(block, ToolCall):
            arguments = _json.encode_wire(block.arguments).decode()
            yield "assistant calls", f"{block.name} {arguments}"
        elif isinstance(block, Text | Thinking) and block.text.strip():
            yield "assistant" if isinstance(block, Text) else "assistant thinks", block.text


def _with_pictures(text: str, blocks: Iterable[object]) -> str:
    pictures = sum(isinstance(block, Image | Opaque) for block in blocks)
    return f"{text}\n({pictures} pictures or files)" if pictures else text
