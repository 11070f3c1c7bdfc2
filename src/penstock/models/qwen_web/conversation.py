"""What was said before, as a hash, and what is new: how a request finds its place in a chat.

Earlier is everything up to the last answer, and the system prompt. Its hash is over the role, the
text and the calls of every message, in a form that survives the way through a client: text without
the blanks around it, calls without their ids, numbers by their value. Where a client gives an
answer back otherwise, the hash is another and the conversation is told again: that costs time,
never a wrong chat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import to_builtins

from penstock import _json
from penstock.apis.history import text_of
from penstock.messages import AssistantMessage, Text, ToolResult
from penstock.models.qwen_web.sessions import QwenSession
from penstock.request import Message, Request, UserMessage
from penstock.tools import Tool


class Conversation:
    """The messages of *request*, which *scope* sends to *model*, as what was and what is new."""

    def __init__(self, request: Request, model: str, scope: str = "") -> None:
        self.model = model
        self.scope = scope
        self._said = [_digest(scope, request.system), *map(digest_of, request.messages)]
        places = [
            at for at, each in enumerate(request.messages) if isinstance(each, AssistantMessage)
        ]
        self.answers = len(places)
        """How many answers there were."""
        self._earlier = places[-1] + 2 if places else 0  # the system prompt stands before them
        self.has_news = self._earlier < len(self._said)
        """Whether anything follows the last answer."""

    @property
    def hash(self) -> str:
        """The hash of all that was said up to the last answer; empty where there was none."""
        return _digest(*self._said[: self._earlier]) if self._earlier else ""

    def hash_after(self, answer: AssistantMessage) -> str:
        """Give the hash that a request has which goes on behind *answer*."""
        return _digest(*self._said, digest_of(answer))

    def continues(self, session: QwenSession, *, by_id: bool) -> bool:
        """Tell whether the conversation goes on where *session* is.

        One that its caller named (*by_id*) may have changed on the way; still its last answer has
        to be ours, and as far into the conversation. Other requests of one name, such as for a
        title, are none of its chat.
        """
        if session.scope != self.scope or session.model != self.model:
            return False
        if not self._earlier or not self.has_news:
            return False
        if session.hash == self.hash:
            return True
        last = self._said[self._earlier - 1]
        return by_id and (session.answers, session.answer) == (self.answers, last)


def digest_of(message: Message) -> str:
    """Give the digest of one message: its role, its text, its calls and its pictures."""
    if isinstance(message, AssistantMessage):
        calls = [[call.name, _plain(call.arguments)] for call in message.tool_calls]
        return _digest("assistant", message.text.strip(), calls)
    if isinstance(message, ToolResult):
        return _digest("tool", text_of(message.content).strip())
    if isinstance(message, UserMessage):
        other = [block for block in message.content if not isinstance(block, Text)]
        return _digest("user", message.text.strip(), _plain(to_builtins(other)))
    return _digest("system", message.text.strip())


def digest_of_tools(tools: Iterable[Tool]) -> str:
    """Give the digest of *tools* as they are shown; empty where there are none."""
    shown = [[tool.name, tool.description, _plain(tool.parameters)] for tool in tools]
    return _digest(*shown) if shown else ""


def digest_of_text(text: str) -> str:
    """Give the digest of *text*; empty where there is none."""
    return _digest(text.strip()) if text.strip() else ""


def _digest(*parts: object) -> str:
    return sha256(_json.encode(list(parts))).hexdigest()


def _plain(value: Any) -> Any:
    """Give a JSON value in the one form that all clients agree on: keys in order, 2.0 as 2."""
    if isinstance(value, Mapping):
        return {str(key): _plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
