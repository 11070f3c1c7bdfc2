"""A gateway with an upstream, and requests as the page sends them."""

from __future__ import annotations

import json
from typing import Any, Final

from gateway.serving import (
    CLIENTS,
    Actor,
    Answer,
    Served,
    ask,
    request_of,
    tools_of,
    until,
)
from models.loopback_servers import Reply, Step, stream_of
from penstock.messages import AssistantMessage, Text

HERMES: Final = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
)
PIECES: Final = 10


def answer_of(*content: Any) -> AssistantMessage:
    return AssistantMessage("m", "m", list(content), "stop")


def slowly(api: str, message: AssistantMessage, pause: float = 0.004) -> Reply:
    """Return a response in chunks, with short pauses between them."""
    data = stream_of(api, message)
    size = -(-len(data) // PIECES)
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    steps: list[Step] = [step for piece in pieces for step in (piece, pause)]
    return Reply(steps)


def asked(served: Served, model: str, client: str = "openai-chat", **more: Any) -> str:
    """Send a request, wait until the log has its end, and return its id."""
    headers = more.pop("headers", {})
    body = request_of(client, model, tools=tools_of(client), **more)
    id_ = ask(served, CLIENTS[client], body, **headers).headers["x-request-id"]
    until(lambda: _state(served, id_, headers) not in ("", "started"))
    return id_


def _state(served: Served, id_: str, headers: dict[str, str]) -> str:
    answer = ask(served, f"/v1/requests/{id_}", **headers)
    return str(answer.json["state"]) if answer.status == 200 else ""


def said(actor: Actor, served: Served, text: str, model: str = "m", **more: Any) -> str:
    """Let the upstream respond with *text*, and return the id of the request."""
    actor.play(slowly(actor.api, answer_of(Text(text))))
    return asked(served, model, **more)


def page(served: Served, path: str, body: object = None, **headers: str) -> Any:
    """Send a request as the page does, and return the JSON."""
    answer = ask(served, f"/inspector/api/{path}", body, **headers)
    assert answer.status == 200, answer.body
    assert answer.headers["cache-control"] == "no-store"
    return answer.json


def refused(served: Served, path: str, body: object = None, **headers: str) -> Answer:
    """Send a request that is refused, and return the error response."""
    answer = ask(served, f"/inspector/api/{path}", body, **headers)
    assert 400 <= answer.status < 500, answer.body
    assert answer.json["error"]["message"]
    return answer


def joined(analysis: Any) -> str:
    return "".join(text for _, text in analysis["upstream"]["text_pieces"])


def in_colour(analysis: Any, kind: str) -> list[str]:
    """Return the texts of one kind."""
    units = joined(analysis).encode("utf-16-le")
    return [
        units[start * 2 : end * 2].decode("utf-16-le")
        for start, end, one, _, _ in analysis["upstream"]["spans"]
        if one == kind
    ]


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
