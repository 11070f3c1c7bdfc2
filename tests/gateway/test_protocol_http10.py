"""Clients of HTTP/1.0 are answered without chunks: the end of the connection ends the body."""

from __future__ import annotations

import json
import socket

import pytest

from gateway.serving import (
    CLIENTS,
    DEADLINE,
    Actor,
    Served,
    Stage,
    request_of,
    said,
    upstream_table,
)
from models.loopback_servers import Reply, stream_of

CHAT = CLIENTS["openai-chat"]
STREAM = stream_of("openai-chat")


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    middle = len(STREAM) // 2
    actor.play(Reply([STREAM[:middle], 0.05, STREAM[middle:]]))
    return stage.gateway(tmp_path_factory.mktemp("gateway"), upstream_table(actor, retries=0))


def asked(
    served: Served, body: object, method: str = "POST", path: str = CHAT
) -> tuple[bytes, bytes]:
    """Send an HTTP/1.0 request with keep-alive; return the head and the body."""
    data = json.dumps(body).encode() if body is not None else b""
    head = f"{method} {path} HTTP/1.0\r\nhost: localhost\r\nconnection: keep-alive\r\n"
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
        answer = b"".join(iter(lambda: client.recv(65_536), b""))
    begin, _, rest = answer.lower().partition(b"\r\n\r\n")
    return begin, answer[len(answer) - len(rest) :]


def test_a_stream_ends_with_the_connection(served: Served) -> None:
    for patience in (15.0, 0.005):  # With signs of life in it, and without.
        served.gateway.keepalive_seconds = patience
        head, body = asked(served, request_of("openai-chat", "m"))
        assert head.startswith(b"http/1.1 200 ")
        assert b"\r\nconnection: close" in head
        assert b"transfer-encoding" not in head
        assert said("openai-chat", body).text == "High water at six."
        assert body.endswith(b"data: [DONE]\n\n")


def test_what_has_a_length_says_it(served: Served) -> None:
    for body, status in ((request_of("openai-chat", "m", stream=False), 200), ({}, 400)):
        head, data = asked(served, body)
        assert head.startswith(b"http/1.1 %d " % status)
        assert b"\r\ncontent-length: %d" % len(data) in head
        assert json.loads(data)
    head, data = asked(served, None, "HEAD", "/")
    assert (head[:13], data) == (b"http/1.1 200 ", b"")
