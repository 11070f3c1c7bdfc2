"""A gateway before a server that behaves as chat.qwen.ai does, and clients that talk to it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from gateway.serving import Answer, Served, Stage, ask, until
from models.loopback_servers import Reply, Seen, serving
from models.qwen_server import COOKIE, TOKEN, UMID, QwenServer

MODEL = "qwen3-max"
CHAT = "/v1/chat/completions"
READ: dict[str, Any] = {
    "name": "read",
    "description": "Read a file",
    "parameters": {
        "type": "object",
        "properties": {"filePath": {"type": "string"}},
        "required": ["filePath"],
    },
}
TOOLS = [{"type": "function", "function": READ}]


class Scene:
    """The server that is asked is `qwen`, which a test may put another in the place of."""

    def __init__(self, stage: Stage) -> None:
        self.qwen = QwenServer("Nobody told me what to say.")
        self.upstream = stage.do(stage._open.enter_async_context(serving(self._reply)))

    def _reply(self, seen: Seen) -> Reply:
        return self.qwen.reply(seen)

    def says(self, *answers: Any, **options: Any) -> QwenServer:
        """Answer with *answers* from now on, as a server that knows of no chat yet."""
        self.qwen = QwenServer(*answers, **options)
        return self.qwen

    @property
    def settings(self) -> str:
        """The settings of a gateway before it."""
        return (
            f'[upstreams.qwen]\napi = "qwen"\nbase_url = "{self.upstream.url}"\n'
            f'key = "{TOKEN}"\nretries = 0\n'
            f'[upstreams.qwen.qwen]\ncookie = "{COOKIE}"\numid_token = "{UMID}"\n'
        )


def gateway(stage: Stage, scene: Scene, folder: Path, more: str = "") -> Served:
    """Begin a gateway before *scene*."""
    folder.mkdir(exist_ok=True)
    return stage.gateway(folder, scene.settings + more)


def asks(*messages: Any, stream: bool = True, **more: Any) -> dict[str, Any]:
    """Return a request; a plain text is what the user says."""
    said = [{"role": "user", "content": m} if isinstance(m, str) else m for m in messages]
    return {"model": MODEL, "messages": said, "tools": TOOLS, "stream": stream, **more}


def record_of(served: Served, answer: Answer, **headers: str) -> dict[str, Any]:
    """Return the record of an answer, once it is there."""
    path = f"/v1/requests/{answer.headers['x-request-id']}"
    until(lambda: ask(served, path, **headers).json.get("state") not in (None, "started"))
    found: dict[str, Any] = ask(served, path, **headers).json
    return found


class Talk:
    """A client that gives the whole conversation back each time; *headers* go along."""

    def __init__(self, *served: Served, **headers: str) -> None:
        self.served = list(served)
        self.headers = headers
        self.messages: list[dict[str, Any]] = []

    def say(self, text: str, at: int = 0) -> str:
        """Send *text* to one of the gateways; return the response and keep it for the next turn."""
        self.messages.append({"role": "user", "content": text})
        body = asks(*self.messages, stream=False)
        answer = ask(self.served[at], CHAT, body, **self.headers)
        assert answer.status == 200, answer.body
        message = answer.json["choices"][0]["message"]
        self.messages.append({"role": "assistant", "content": message["content"]})
        return str(message["content"])


def rows_of(database: Path, query: str) -> list[tuple[Any, ...]]:
    """Ask a database file beside the gateway; what is changed is committed."""
    with closing(sqlite3.connect(database, timeout=20)) as connection, connection:
        return list(connection.execute(query))
