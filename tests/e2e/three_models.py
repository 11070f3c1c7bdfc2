"""A server like Ollama with three models, none of which knows tools: they print calls as text.

It lists its models at ``/v1/models`` and ``/api/tags``, and rejects every other name with a 404, as
Ollama does. Asked about the weather, or to write a file, a model prints a call of the tool that was
offered for it. Given a result, it says goodbye.

Nothing of penstock is in it.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from typing import Any, Final

from e2e.chat_server import ChatHandler, ChatServer, chatting

MODELS: Final = ("qwen3:8b", "gemma3:4b", "llama3.2:3b")
FAREWELL: Final = "That is all."
CONTENT: Final = "Hello from the model.\n"
PIECE: Final = 4
"""How many characters a chunk has."""

TOOLS: Final = {"Write": ("file_path", "content"), "write": ("filePath", "content")}
"""The tools that write files, of Claude Code and of opencode, and their parameters."""

SHELL: Final = "exec_command"
"""The tool of Codex, which has none that writes a file."""

_PATH: Final = re.compile(r"Create the file (\S+)")


class ThreeModels(ChatHandler):
    """Responds as the models do."""

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        """List the models in either API."""
        if self.path == "/v1/models":
            entries = [{"id": name, "object": "model", "owned_by": "library"} for name in MODELS]
            self._send(200, {"object": "list", "data": entries})
        elif self.path == "/api/tags":
            self._send(200, {"models": [{"name": name, "model": name} for name in MODELS]})
        else:
            self._send(404, {"error": "not found"})

    def reject(self, body: dict[str, Any]) -> bool:
        """Reject a model that is not here."""
        if body.get("model") in MODELS:
            return False
        message = f"model {json.dumps(body.get('model'))} not found, try pulling it first"
        self._send(404, {"error": {"message": message, "type": "not_found_error"}})
        return True

    def answer(self, body: dict[str, Any]) -> None:
        """Print a call of a tool, or text."""
        text = make_text(body)
        for at in range(0, len(text), PIECE):
            self.say({"content": text[at : at + PIECE]})
        self.end("stop")

    def _send(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def make_text(body: dict[str, Any]) -> str:
    """Return what a model prints for *body*."""
    names = {tool.get("function", {}).get("name") for tool in body.get("tools") or ()}
    messages = body.get("messages") or []
    if not messages or messages[-1].get("role") == "tool":
        return FAREWELL
    said = json.dumps([one for one in messages if one.get("role") == "user"])
    if "get_weather" in names:
        return _call("get_weather", {"city": "Oslo"})
    path, tool = _PATH.search(said), next(iter(names & TOOLS.keys()), "")
    if any(one.get("role") == "tool" for one in messages):
        return FAREWELL
    if path and SHELL in names:
        return _call(SHELL, {"cmd": f"printf '{CONTENT.strip()}\\n' > {path[1]}"})
    if path and tool:
        return _call(tool, dict(zip(TOOLS[tool], (path[1], CONTENT), strict=True)))
    return FAREWELL


def _call(name: str, arguments: dict[str, str]) -> str:
    value = json.dumps({"name": name, "arguments": arguments})
    return f"One moment.\n<tool_call>\n{value}\n</tool_call>"


def serving_three() -> AbstractContextManager[ChatServer]:
    """Run the server for as long as it is needed."""
    return chatting(ThreeModels)
