"""Where instructions go that come later than the system prompt.

Claude Code sends system messages among the others, and chat clients may. Many chat templates refuse
one that is not the first message (Qwen3.5: "System message must be at the beginning"), some drop it
without a word (gpt-oss), some want user and assistant to take turns (Mistral, Gemma). So for a chat
server such a message becomes part of another one, in one of two ways:

* ``user``: it goes into the user's message beside it, between tags. It stays where it was said, so
  a reminder keeps its moment and a server's cache of the conversation stays valid.
* ``first``: it is added to the system prompt. Every template takes that, but each new instruction
  changes the prompt from its beginning.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import structs

from penstock.apis.ids import is_mistral
from penstock.messages import Text
from penstock.requests import Message, Request, SystemMessage, SystemPlacement, UserMessage

_OPENAI: Final = re.compile(r"(?i)(?:openai/)?(?:gpt-(?!oss)|chatgpt|codex|o[134](?![0-9a-z]))")
"""OpenAI's own models, which take a system message anywhere."""

_CHAT: Final = frozenset({"openai-chat", "ollama"})
"""The APIs behind which a chat template decides what a conversation may look like."""


def usual_placement(api: str, model: str) -> SystemPlacement:
    """Return where later system messages go for *model* behind *api* unless a request says.

    Mistral's servers refuse a user's message after the result of a tool, so theirs go first. APIs
    that are no chat have writers that know what their server takes.
    """
    if api not in _CHAT or _OPENAI.match(model):
        return "keep"
    return "first" if is_mistral(model) else "user"


def count_later(request: Request) -> int:
    """Return how many system messages come later than the system prompt."""
    return sum(isinstance(message, SystemMessage) for message in request.messages)


def place_system(request: Request, usual: SystemPlacement) -> Request:
    """Return *request* with its later system messages where it says, or else where is *usual*."""
    placement = request.system_messages or usual
    if placement == "keep" or not count_later(request):
        return request
    if placement == "first":
        later = [m.text for m in request.messages if isinstance(m, SystemMessage)]
        system = "\n\n".join(text for text in [request.system, *later] if text.strip())
        messages = [m for m in request.messages if not isinstance(m, SystemMessage)]
        return structs.replace(request, system=system, messages=messages)
    return structs.replace(request, messages=_among_users(request.messages))


def _among_users(messages: list[Message]) -> list[Message]:
    """Put each run of instructions into the user's message after it, or else before it.

    Where neither neighbour is the user's, it is a user's message of its own.
    """
    placed: list[Message] = []
    waiting: list[Text] = []

    def settle() -> None:
        if not waiting:
            return
        last = placed[-1] if placed else None
        if isinstance(last, UserMessage):
            placed[-1] = UserMessage([*last.content, *waiting])
        else:
            placed.append(UserMessage([*waiting]))
        waiting.clear()

    for message in messages:
        if isinstance(message, SystemMessage):
            if message.text.strip():
                waiting.append(Text(_marked(message.text)))
        elif isinstance(message, UserMessage) and waiting:
            placed.append(UserMessage([*waiting, *message.content]))
            waiting.clear()
        else:
            settle()
            placed.append(message)
    settle()
    return placed


def _marked(text: str) -> str:
    """Mark *text* as the system's, unless it does so itself as Claude Code's reminders do."""
    if text.lstrip().startswith("<system"):
        return text
    return f"<system>\n{text}\n</system>"
