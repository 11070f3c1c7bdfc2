"""An upstream that is cut at every byte: what it said is delivered, then there is one error.

Three streams, three APIs of clients; the application is called as a server calls it, without any
sockets, since there are some thousand cuts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gateway.serving import CLIENTS, request_of, said, tools_of
from models.loopback_servers import stream_of
from penstock import HTTPModel, _json, apis
from penstock.config import load
from penstock.events import TextDelta, ThinkingDelta
from penstock.gateway.app import Gateway
from penstock.gateway.model_router import ModelRouter
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from penstock.models.http.policy import RetryPolicy
from penstock.models.http.transport import HTTPCall

PARIS = {"city": "Paris 🌊"}
HERMES = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris 🌊"}}</tool_call>'
USAGE = Usage(input=12, output=5, total=17)
HOST = [(b"host", b"localhost")]


NEEDLESS = [
    rb'"id":"msg_1",.*?"model":"m",',
    rb',"(logprobs|finish_reason|stop_sequence)":null',
    rb',"[a-z]+_tokens_details":{[^}]*}',
    rb'"cache_[a-z_]+":0,',
    rb'"content":\[\],"stop_reason":null,',
    rb'data: [^\n]*"partial_json":""}}\n\n',
    rb"event: .*\n",
]
"""What servers write and nobody needs to understand a stream: each byte of it is a cut less."""


def recorded(api: str, *content: Any, reason: Any = "tool_use") -> bytes:
    data = stream_of(api, AssistantMessage("m1", "m", [*content], reason, "", USAGE))
    for needless in NEEDLESS:
        data = re.sub(needless, b"", data)
    return data


STREAMS = {
    "a call of its own": (
        "openai-chat",
        recorded("openai-chat", Text("I look."), ToolCall("c1", "get_weather", PARIS)),
    ),
    "a call in text": ("openai-chat", recorded("openai-chat", Text(HERMES), reason="stop")),
    "thoughts and a call": (
        "anthropic",
        recorded("anthropic", Thinking("Hm."), ToolCall("c1", "get_weather", PARIS)),
    ),
}


EVERY_BYTE = dict(zip(STREAMS, CLIENTS, strict=True))
"""The client that sees each stream cut at every byte; the others see every seventeenth."""


class Cut:
    """Replaces the network: returns the first *size* bytes of *data*, then fails."""

    status = 200
    headers: Mapping[str, str] = {"content-type": "text/event-stream"}

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = 0

    async def send(self, call: HTTPCall) -> Cut:
        del call
        return self

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self.size:
            yield self.data[: self.size]
        if self.size < len(self.data):
            raise ConnectionResetError

    async def aclose(self) -> None:
        """Close nothing."""

    async def close(self) -> None:
        """Close nothing."""


async def answered(gateway: Gateway, client: str) -> tuple[int, bytes]:
    """Call the application once; return the status and the body."""
    body = request_of(client, "m", tools=tools_of(client))
    scope = {"type": "http", "method": "POST", "path": CLIENTS[client], "headers": HOST}
    asked = [{"type": "http.request", "body": _json.encode(body)}]
    sent: list[Any] = []

    async def receive() -> Any:
        if asked:
            return asked.pop()
        return await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)

    await gateway(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def gateway_of(folder: Path, api: str, network: Cut) -> Gateway:
    file = folder / "penstock.toml"
    file.write_text(f'[upstreams.one]\napi = "{api}"\nbase_url = "http://here"\nretries = 0\n')
    settings = load(file, {}, no_store=True)
    once = RetryPolicy(attempts=1)
    model = HTTPModel(api, "http://here", transport=network, environ={}, interval=0.0, retry=once)
    return Gateway(ModelRouter(settings, {"one": model}))


def heard(api: str, data: bytes) -> tuple[str, str]:
    """Return the text and the reasoning in *data*."""
    decoder = apis.get(api).decoder()
    events = [*decoder.feed(data), *decoder.finish()]
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    thoughts = "".join(event.text for event in events if isinstance(event, ThinkingDelta))
    return text, thoughts


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_that_is_cut_anywhere_ends_in_one_error_and_no_complete_answer(
    tmp_path: Path, name: str, client: str
) -> None:
    api, data = STREAMS[name]
    network = Cut(data)
    gateway = gateway_of(tmp_path, api, network)
    network.size = len(data)
    status, whole = await answered(gateway, client)
    assert status == 200
    message = said(client, whole)
    assert message.error is None
    assert [call.arguments for call in message.tool_calls] == [PARIS]
    for size in range(0, len(data), 1 if client == EVERY_BYTE[name] else 17):
        network.size = size
        status, body = await answered(gateway, client)
        check(client, status, body, whole, *heard(api, data[:size]))


def check(client: str, status: int, body: bytes, whole: bytes, text: str, thoughts: str) -> None:
    if status != 200:
        assert status >= 500
        assert (text, thoughts) == ("", "")
        return
    message = said(client, body)
    if message.error is None:  # all was said but the very end
        assert said(client, whole).text == message.text
        assert [call.arguments for call in message.tool_calls] == [PARIS]
        assert message.stop_reason == "tool_use"
        return
    is_call = text.startswith("<")
    assert message.text == ("" if is_call and message.tool_calls else text)
    told = [block.text for block in message.content if isinstance(block, Thinking)]
    assert "".join(told) == thoughts
    assert b'"finish_reason":"tool_calls"' not in body
    assert b'"stop_reason":"tool_use"' not in body
    assert b"response.completed" not in body
