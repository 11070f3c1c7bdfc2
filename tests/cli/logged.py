"""A log that a real gateway wrote, for the commands that read it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from gateway.serving import (
    Actor,
    Served,
    Stage,
    ask,
    request_of,
    tools_of,
    until,
    upstream_table,
)
from models.loopback_servers import refusal
from penstock.messages import AssistantMessage, Text, Usage

HERMES = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}</tool_call>'
HOSTILE = "At six.\x1b[2J\x9b31m\rGone\u202e"
"""What would clear a terminal, colour it, write over a line and turn it around."""

CHAT = "/v1/chat/completions"


class Log:
    """A gateway with one upstream, and what it logs."""

    def __init__(self, served: Served, actor: Actor) -> None:
        self.served = served
        self.actor = actor
        self.database = str(served.database)

    def add(self, text: str = "At six.", model: str = "tides", **more: Any) -> str:
        """Let a request pass whose answer is *text*; give its id."""
        usage = Usage(input=12, output=5, total=17)
        self.actor.say(AssistantMessage("m1", "m", [Text(text)], "stop", "", usage))
        return self._pass(model, **more)

    def add_failure(self, message: str) -> str:
        """Let a request pass that the upstream refuses; give its id."""
        self.actor.play(refusal(400, {"error": {"message": message}}))
        return self._pass("tides")

    def add_demo(self) -> str:
        """Let a request pass that the model in the process answers; give its id."""
        return self._pass("demo")

    def _pass(self, model: str, **headers: str) -> str:
        body = request_of("openai-chat", model, tools=tools_of("openai-chat"))
        answer = ask(self.served, CHAT, body, **headers)
        id_ = answer.headers["x-request-id"]
        until(lambda: self.state_of(id_) not in ("", "started"))
        return id_

    def state_of(self, id_: str) -> str:
        """Give the state of a request in the database; empty where it is not there yet."""
        with closing(sqlite3.connect(self.database)) as connection:
            try:
                found = connection.execute("SELECT state FROM requests WHERE id = ?", (id_,))
                row = found.fetchone()
            except sqlite3.OperationalError:  # The tables are not made yet.
                return ""
        return str(row[0]) if row else ""


@contextmanager
def logging_to(folder: Path) -> Iterator[Log]:
    """Run a gateway that logs to *folder*."""
    with Stage() as stage:
        actor = stage.actor("openai-chat")
        text = (
            upstream_table(actor, "loopback", retries=0)
            + '[models.tides]\nupstream = "loopback"\n[models."tides-words"]\n'
            + 'upstream = "loopback"\ntools = "prompt"\narguments = "whole"\n'
            + '[upstreams.scripted]\napi = "demo"\ndemo = { pace = 0.0 }\n'
            + '[models.demo]\nupstream = "scripted"\n'
        )
        yield Log(stage.gateway(folder, text), actor)
