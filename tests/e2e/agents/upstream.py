"""A server of chat completions whose models know no tools: they print their calls as text.

The model's name says how: a shape of `SHAPES`, and behind a dash what breaks the call off in its
middle, where something does (``hermes-length`` a limit, ``hermes-cut`` the line). Asked to create a
file by an agent that has a tool for it, it prints a call of that tool, a few characters at a time;
told the result, it says goodbye. Whoever has no such tool (an agent that wants a title) gets a few
words. Tools stand in the request or, for a model that is told of them, in the words of its system.

Nothing of penstock is in it.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any, Final

from e2e.agents.shapes import SHAPES, Shape
from e2e.chat_server import ChatHandler, ChatServer, chatting

QUESTION: Final = "Create the file {} with the tool that writes files. Then stop."
FAREWELL: Final = "That is all."
SMALL_TALK: Final = "A file"
PIECE: Final = 3
"""How many characters a chunk has: so few that markers and escapes fall apart."""

TOOLS: Final = {"Write": ("file_path", "content"), "write": ("filePath", "content")}
"""The tools of the agents that write files, and what they call the path and the content."""

_PATH: Final = re.compile(re.escape(QUESTION).replace(r"\{\}", r"(\S+)"))
_ENDINGS: Final = {"cut": None, "length": "length"}
_TOLD: Final = re.compile(r'"name": ?"(\w+)"')


class Printing(ChatHandler):
    """Says what the model of the request prints."""

    def answer(self, body: dict[str, Any]) -> None:
        """Print text or a call, all of it or as far as the model's name lets it come."""
        shape, _, ending = body["model"].partition("-")
        text, is_call = answer(body, SHAPES[shape])
        if is_call and ending:
            self._print(text[: len(text) // 2], _ENDINGS[ending])
        else:
            self._print(text, "stop")

    def _print(self, text: str, finish: str | None) -> None:
        """Send *text* in pieces; without a *finish* the connection just ends."""
        for at in range(0, len(text), PIECE):
            self.say({"content": text[at : at + PIECE]})
        if finish is not None:
            self.end(finish)


def answer(body: dict[str, Any], shape: Shape) -> tuple[str, bool]:
    """Give what the model says to *body*, and whether it is a call."""
    tool, path = find_tool(body), _PATH.search(said(body, "user"))
    if tool is None or path is None:
        return SMALL_TALK, False
    if said(body, "assistant") or body["messages"][-1]["role"] == "tool":
        return FAREWELL, False
    arguments = dict(zip(TOOLS[tool], (path[1], shape.content), strict=True))
    return shape.before + shape.write(tool, arguments), True


def find_tool(body: dict[str, Any]) -> str | None:
    """Find the tool that writes files among those of the request, or in its system's words."""
    names = [tool["function"]["name"] for tool in body.get("tools") or ()]
    names += _TOLD.findall(said(body, "system"))
    return next((name for name in names if name in TOOLS), None)


def said(body: dict[str, Any], role: str) -> str:
    """Give all that *role* says in *body*."""
    texts = []
    for message in body["messages"]:
        content = message.get("content") or ""
        parts = [{"text": content}] if isinstance(content, str) else content
        texts += [part.get("text", "") for part in parts if message["role"] == role]
    return "\n".join(texts)


def printing() -> AbstractContextManager[ChatServer]:
    """Run the upstream for as long as it is needed."""
    return chatting(Printing)
