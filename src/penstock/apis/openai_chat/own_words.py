"""What a client of this API said in its own words, as long as a `Request` still means the same.

A request has no place for all that a chat client may say: that a tool is strict, who of several
users speaks, what to cache. Where the request that came (`Request.raw`) is of this API and reads as
what is to be written, its own words are written again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.apis.openai_chat import tables
from penstock.apis.openai_chat.read_request import (
    SYSTEM,
    read_content,
    read_reasoning,
    text_of_content,
)
from penstock.apis.reading import list_at, object_at
from penstock.errors import UsageError
from penstock.requests import Message, Request, UserMessage
from penstock.tools import Tool


class OwnWords:
    """The words of one request, found by what they mean."""

    def __init__(self, request: Request, raw: Mapping[str, Any]) -> None:
        self._request = request
        self._raw = raw
        self._said = [
            message for message in list_at(raw, "messages") if isinstance(message, Mapping)
        ]
        self._messages = dict(self._users())
        self._tools = dict(map(_named, list_at(raw, "tools")))

    def system(self) -> list[dict[str, Any]]:
        """Give the messages that are the system prompt."""
        front: list[dict[str, Any]] = []
        for message in self._said:
            if message.get("role") not in SYSTEM:
                break
            front.append({**message, "role": "system"})  # Few servers know the newer word.
        texts = [text_of_content(message.get("content")) for message in front]
        prompt = "\n\n".join(text for text in texts if text)
        return front if prompt == self._request.system else []

    def message(self, message: Message) -> dict[str, Any] | None:
        """Give a message of the user's."""
        return self._messages.get(id(message))

    def tool(self, tool: Tool) -> dict[str, Any] | None:
        """Give a function."""
        meant, data = self._tools.get(tool.name, (None, None))
        return data if meant == tool else None

    def reasoning(self) -> dict[str, Any]:
        """Give the fields that say how much to think."""
        if read_reasoning(self._raw) != self._request.reasoning:
            return {}
        keys = ("reasoning", "reasoning_effort")
        return {key: self._raw[key] for key in keys if self._raw.get(key) is not None}

    def _users(self) -> list[tuple[int, dict[str, Any]]]:
        """Pair the users' messages with those that came, by their order."""
        meant = [m for m in self._request.messages if isinstance(m, UserMessage)]
        said = [message for message in self._said if message.get("role") == "user"]
        return [
            (id(message), dict(data))
            for message, data in zip(meant, said, strict=False)
            if read_content(data.get("content")) == message.content
        ]


def own_words(request: Request) -> OwnWords:
    """Give the words that *request* came in, if they are of this API."""
    raw = request.raw if request.source == tables.NAME else None
    return OwnWords(request, raw or {})


def _named(data: object) -> tuple[str, tuple[Tool | None, dict[str, Any] | None]]:
    if not isinstance(data, Mapping) or not object_at(data, "function"):
        return "", (None, None)
    try:
        tool = Tool.read(data)
    except UsageError:
        return "", (None, None)
    return tool.name, (tool, dict(data))
