"""A gateway in this process, with upstreams that answer from memory.

The models are the real ones over a transport of their own, so that what is written for each
upstream is part of a test, and an exchange takes some milliseconds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.rich_requests import PRINTED
from models.loopback_servers import stream_of
from penstock.config import load
from penstock.gateway.app import Gateway
from penstock.gateway.factory import build
from penstock.gateway.model_router import ModelRouter
from penstock.messages import AssistantMessage, Text, Thinking, Usage
from penstock.models import DemoModel, HTTPModel
from penstock.models.base import Model
from penstock.models.http.transport import HTTPCall
from penstock.models.qwen_web import QwenCredentials, QwenWebModel

DEADLINE = 20.0
"""How many seconds an exchange may take: the machine of the tests is a busy one."""

# --- the upstreams ---

RESPONSE: Final = AssistantMessage(
    id="msg_1",
    model="m",
    content=[Thinking("A city is asked for."), Text(f"I will look.\n{PRINTED}")],
    stop_reason="stop",
    usage=Usage(input=20, output=9, total=29),
)
"""A response with a printed call: what reads it is made from the tools of the request."""

HTTP_APIS: Final = ("openai-chat", "openai-responses", "anthropic", "gemini", "ollama")
SETTINGS: Final = "\n".join(
    [
        'default_upstream = "openai-chat"',
        *(f'[upstreams.{api}]\napi = "{api}"\nbase_url = "http://m.test"' for api in HTTP_APIS),
        '[upstreams.told]\napi = "openai-chat"\nbase_url = "http://m.test"\ntools = "prompt"',
        'format = "hermes"\nconstrain = "json_schema"',
        '[upstreams.qwen]\napi = "qwen"\nbase_url = "http://m.test"',
        '[upstreams.demo]\napi = "demo"\ntools = "prompt"',
        *(f'[models."{name}*"]\nupstream = "{name}"' for name in (*HTTP_APIS, "told", "qwen")),
        '[models."demo*"]\nupstream = "demo"',
        "",
    ]
)
UPSTREAMS: Final = (*HTTP_APIS, "told", "qwen", "demo")


@dataclass
class Reply:
    """The response of the upstream, all of it in one piece."""

    data: bytes
    status: int = 200
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"content-type": "text/event-stream"}
    )

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.data

    async def aclose(self) -> None:
        """There is no connection."""


class Memory:
    """A transport that answers each call with *data*, if the call is one that a server can read."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    async def send(self, call: HTTPCall) -> Reply:
        json.loads(call.body.decode(), parse_constant=refuse_constant)
        call.url.encode("ascii")
        for name, value in call.headers.items():
            assert "\n" not in f"{name}{value}".encode("latin-1").decode("latin-1")
        if call.url.endswith("/chats/new"):
            return Reply(b'{"success": true, "request_id": "r", "data": {"id": "chat-1"}}')
        return Reply(self._data)

    async def close(self) -> None:
        """There is no connection."""


def refuse_constant(name: str) -> None:
    raise AssertionError(f"{name} was sent to an upstream")


def make_gateway(folder: Path, *, store: bool = False) -> Gateway:
    file = folder / "penstock.toml"
    file.write_text(SETTINGS if store else f"{SETTINGS}\n[store]\nenabled = false\n")
    flags = {"store": str(folder / "penstock.db")} if store else {}
    settings = load(file, {}, **flags)
    gateway = build(settings)
    models: dict[str, Model] = {"demo": DemoModel(), "qwen": _qwen()}
    for name in (*HTTP_APIS, "told"):
        api = settings.upstreams[name].api
        transport = Memory(stream_of(api, RESPONSE))
        models[name] = HTTPModel(api, "http://m.test", api_key="k", transport=transport)
    gateway.router = ModelRouter(settings, models)
    return gateway


def _qwen() -> QwenWebModel:
    transport = Memory(stream_of("qwen", RESPONSE))
    return QwenWebModel("http://m.test", credentials=QwenCredentials("t"), transport=transport)


# --- one exchange ---


@dataclass
class Received:
    """The response as the client got it."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


async def post(
    gateway: Gateway, path: str, *body: bytes, headers: Mapping[str, str] | None = None
) -> Received:
    """Send *body*, in as many pieces as it has, and wait for all of the response."""
    given = {"host": "localhost", "content-type": "application/json", **(headers or {})}
    pieces = iter(body)
    left = len(body)
    received = Received()

    async def receive() -> dict[str, Any]:
        nonlocal left
        left -= 1
        if left >= 0:
            return {"type": "http.request", "body": next(pieces), "more_body": left > 0}
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            received.status = message["status"]
            received.headers = {
                name.decode("ascii"): value.decode("ascii") for name, value in message["headers"]
            }
        else:
            received.body += message.get("body", b"")

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in given.items()],
    }
    async with asyncio.timeout(DEADLINE):
        await gateway(scope, receive, send)
    return received
