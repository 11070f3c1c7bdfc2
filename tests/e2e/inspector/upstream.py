"""A server of chat completions whose models follow their scripts."""

from __future__ import annotations

import json
import time
from contextlib import AbstractContextManager
from typing import Any

from e2e.chat_server import ChatHandler, ChatServer, chatting
from e2e.inspector.corpus import SCRIPTS

GATE_SECONDS = 60.0
"""How long a response waits for its gate before it continues all the same."""


class Scripted(ChatHandler):
    """Responds with the script of the request's model."""

    def answer(self, body: dict[str, Any]) -> None:
        """Send the script."""
        script = SCRIPTS[body["model"]]
        if script.thought:
            self.say({"reasoning_content": script.thought})
        for number, piece in enumerate(script.pieces):
            # A model pauses between words: the timeline shows it.
            time.sleep(script.pace * (20 if number and number % 30 == 0 else 1))
            if script.gate is not None and number == len(script.pieces) // 2:
                script.gate.wait(GATE_SECONDS)
            self.say({"content": piece})
        for number, city in enumerate(script.cities):
            self.say({"tool_calls": [_call(number, city)]})
        if not script.is_cut:
            self.end("tool_calls" if script.cities else "stop")


def _call(number: int, city: str) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": json.dumps({"city": city})}
    return {"index": number, "id": f"call_{number}", "type": "function", "function": function}


def scripted() -> AbstractContextManager[ChatServer]:
    """Run the upstream within a block."""
    return chatting(Scripted)
