"""How a summary stands in a conversation, in place of what it sums up."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from penstock.messages import AssistantMessage, Usage
from penstock.requests import Message, UserMessage

_OPENING: Final = (
    "What was said before this point became too long and was summed up. The summary is a record of"
    " it, not a new request:\n<summary>\n"
)
_CLOSING: Final = "\n</summary>"
_FRAME: Final = re.compile(r"<(/?)(?=summary\b)", re.IGNORECASE)


def summary_message(summary: str) -> UserMessage:
    """Give *summary* as it stands in the context; no words of it can end its frame."""
    inside = _FRAME.sub(r"<\\\1", summary.strip())
    return UserMessage(f"{_OPENING}{inside}{_CLOSING}", "summary")


def summary_of(message: Message) -> str | None:
    """Give the summary that *message* is; None where it is none."""
    if not isinstance(message, UserMessage) or len(message.content) != 1:
        return None
    text = message.text
    if not text.startswith(_OPENING) or not text.endswith(_CLOSING):
        return None
    return text[len(_OPENING) : -len(_CLOSING)]


def compacted(summary: str, kept: Iterable[Message]) -> list[Message]:
    """Give the context after a compaction: *summary*, and the messages that were *kept*.

    The answers among them have lost their usage: it was counted with all that is gone now, and
    would say that the context is as long as before.
    """
    return [summary_message(summary), *(_uncounted(message) for message in kept)]


def _uncounted(message: Message) -> Message:
    return replace(message, usage=Usage()) if isinstance(message, AssistantMessage) else message
