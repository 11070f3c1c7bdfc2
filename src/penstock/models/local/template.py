"""A conversation as SmolLM2 was taught to read one: its chat template, ChatML, in our own words.

Every turn stands between two tokens, behind the name of its side; the model goes on where the
assistant's turn is left open. What somebody says may hold the names of these tokens, and the
tokenizer would take them for the tokens themselves: whoever writes them could speak as the system.
So inside a turn a space parts them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from penstock.apis.fields import clean
from penstock.messages import AssistantMessage
from penstock.request import Request, SystemMessage, UserMessage

SYSTEM: Final = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What the model's own template tells it where nobody tells it anything: it knows these words."""

_START, _END = "<|im_start|>", "<|im_end|>"
_TOKENS: Final = re.compile(r"<(?=\|(?:im_start|im_end|endoftext)\|>)")


def write_prompt(request: Request) -> str:
    """Write what the model reads: *request* without tools, up to where its answer begins."""
    turns = [f"{_START}{side}\n{_harmless(said)}{_END}\n" for side, said in _turns(request)]
    return "".join(turns) + f"{_START}assistant\n"


def _harmless(said: str) -> str:
    return _TOKENS.sub("< ", clean(said))


def _turns(request: Request) -> Iterator[tuple[str, str]]:
    first = request.messages[0] if request.messages else None
    if request.system or not isinstance(first, SystemMessage):
        yield "system", request.system or SYSTEM
    for message in request.messages:
        if isinstance(message, SystemMessage):
            yield "system", message.text
        elif isinstance(message, UserMessage):
            yield "user", message.text
        elif isinstance(message, AssistantMessage):
            yield "assistant", message.text
