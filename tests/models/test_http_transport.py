"""The way to the server: TLS, proxies, and transports of one's own."""

from __future__ import annotations

import asyncio
import ssl
import sys
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from models.loopback_servers import (
    ANSWER,
    CUT,
    STALL,
    Reply,
    Seen,
    read_request,
    refusal,
    serving,
    stream_of,
    streamed,
)
from penstock import HTTPModel, Request
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ErrorInfo, Text
from penstock.models.http import NO_RETRY, HTTPCall, RetryPolicy, Timeouts
from penstock.models.http.aiohttp_transport import MAX_PIECES, AiohttpTransport
from penstock.models.http.transport import TransportError, TruncatedError
from penstock.request import UserMessage

ASKED = Request(messages=[UserMessage([Text("When is high water?")])])


def error_of(message: AssistantMessage) -> ErrorInfo:
    assert message.error is not None
    return message.error


# --- TLS ---


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a self-signed certificate for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path = tmp_path_factory.mktemp("tls") / "certificate.pem"
    path.write_bytes(secret + made.public_bytes(serialization.Encoding.PEM))
    return path


def server_side(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_of_ones_own_is_trusted(certificate: Path) -> None:
    tls = server_side(certificate)
    own = ssl.create_default_context(cafile=certificate)
    async with serving(streamed("anthropic"), tls=tls) as upstream:
        for ca in (str(certificate), certificate, own):
            async with HTTPModel("anthropic", upstream.url, "m", ca=ca) as model:
                assert (await model.complete(ASKED)).text == ANSWER.text


async def test_a_certificate_that_nobody_vouches_for_is_refused(certificate: Path) -> None:
    async with (
        serving(streamed("anthropic"), tls=server_side(certificate)) as upstream,
        HTTPModel("anthropic", upstream.url, "m", "key-123456") as model,
    ):
        error = error_of(await model.complete(ASKED))
        assert (error.kind, error.type, error.retryable) == ("transport", "tls_error", False)
        assert upstream.seen == []


async def test_an_abort_over_tls_is_seen_at_once(certificate: Path) -> None:
    async with (
        serving(Reply([STALL]), tls=server_side(certificate)) as upstream,
        HTTPModel("anthropic", upstream.url, "m", ca=certificate) as model,
    ):
        stream = model.stream(ASKED)
        waiting = asyncio.create_task(stream.result())
        await upstream.stalls.wait()
        before = asyncio.get_running_loop().time()
        stream.abort()
        await waiting
        await upstream.left.wait()
        assert upstream.hung_up[0] - before < 0.05


# --- proxies ---


async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
    writer.close()


class Tunnel:
    """A proxy that lets through what it is asked to."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head)
        host, _, port = head.split(" ")[1].partition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(relay(reader, back), relay(there, writer), return_exceptions=True)


async def test_a_proxy_is_asked_for_a_tunnel(certificate: Path) -> None:
    tunnel = Tunnel()
    server = await asyncio.start_server(tunnel.serve, "127.0.0.1", 0)
    proxy = f"http://user:pa%20ss@127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server, serving(streamed("gemini"), tls=server_side(certificate)) as upstream:
        async with HTTPModel("gemini", upstream.url, "m", ca=certificate, proxy=proxy) as model:
            assert (await model.complete(ASKED)).text == ANSWER.text
            assert "pa" not in repr(model).replace("gemini", "")
        await asyncio.sleep(0.01)
    assert len(tunnel.asked) == 1
    assert tunnel.asked[0].startswith("CONNECT 127.0.0.1:")
    assert "Proxy-Authorization: Basic" in tunnel.asked[0]


async def test_a_proxy_is_asked_for_a_plain_url() -> None:
    asked: list[Seen] = []

    def reply(seen: Seen) -> Reply:
        asked.append(seen)
        return streamed("ollama")

    async with serving(reply) as proxy:
        url = "http://tides.example:11434"
        async with HTTPModel("ollama", url, "m", proxy=proxy.url) as model:
            assert (await model.complete(ASKED)).text == ANSWER.text
    assert asked[0].headers["host"] == "tides.example:11434"


async def test_a_proxy_that_refuses_or_is_not_there_is_told() -> None:
    async with serving(refusal(407, b"")) as proxy:
        for where in (proxy.url, "http://user:canary-1234@127.0.0.1:9"):
            async with HTTPModel(
                "gemini", "https://h.example", "m", proxy=where, retry=NO_RETRY
            ) as model:
                error = error_of(await model.complete(ASKED))
                assert error.type == "proxy_error"
                assert "canary" not in str(error)


# --- a transport of one's own ---


class Canned:
    """Answers from memory, and keeps account."""

    def __init__(self, *pieces: bytes | Exception, status: int = 200) -> None:
        self.pieces = pieces
        self.status = status
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        self.calls: list[HTTPCall] = []
        self.closed: list[str] = []

    async def send(self, call: HTTPCall) -> Canned:
        self.calls.append(call)
        return self

    async def close(self) -> None:
        self.closed.append("transport")

    async def aclose(self) -> None:
        self.closed.append("answer")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece


async def test_any_object_that_yields_bytes_is_a_transport() -> None:
    data = stream_of("openai-chat")
    transport = Canned(b"", data[:100], b"", data[100:])
    model = HTTPModel("openai-chat", "https://h/v1", "m", "key-123456", transport=transport)
    assert (await model.complete(ASKED)).text == ANSWER.text
    (call,) = transport.calls
    assert (call.method, call.url) == ("POST", "https://h/v1/chat/completions")
    assert call.headers["authorization"] == "Bearer key-123456"
    await model.close()
    assert transport.closed == ["answer"], "it belongs to whoever made it"


@pytest.mark.parametrize(
    ("fault", "kind", "attempts"),
    [
        (ConnectionResetError("gone"), "transport", 2),
        (TimeoutError("the client's own"), "transport", 2),
        (KeyError("a mistake"), "provider", 1),
    ],
)
async def test_what_a_transport_raises_is_told(fault: Exception, kind: str, attempts: int) -> None:
    transport = Canned(fault)
    retry = RetryPolicy(2, base=0.001)
    model = HTTPModel("openai-chat", "https://h", "m", transport=transport, retry=retry)
    stream = model.stream(ASKED)
    assert error_of(await stream.result()).kind == kind
    assert stream.report.attempts == attempts
    assert transport.closed == ["answer"] * attempts


async def test_timeouts_hold_for_any_transport() -> None:
    class Slow(Canned):
        async def send(self, call: HTTPCall) -> Canned:
            await asyncio.sleep(60)
            return await super().send(call)

    model = HTTPModel(
        "openai-chat",
        "https://h",
        "m",
        transport=Slow(),
        timeouts=Timeouts(first_byte=0.01),
        retry=NO_RETRY,
    )
    assert error_of(await model.complete(ASKED)).type == "first_byte_timeout"


async def test_models_may_share_their_connections() -> None:
    transport = AiohttpTransport(environ={})
    async with serving(streamed("openai-chat")) as upstream:
        for name in ("one", "two"):
            model = HTTPModel("openai-chat", upstream.url, name, transport=transport)
            await model.complete(ASKED)
            await model.close()
        assert upstream.connections == 1
        await transport.close()
    assert repr(transport) == "AiohttpTransport(connections=1024)"


async def test_an_answer_that_never_ends_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.models.http.attempt.MAX_RESPONSE", 10_000)
    flood = Reply([b": ping\n\n" * 1000] * 100)
    async with (
        serving(flood) as upstream,
        HTTPModel("openai-chat", upstream.url, "m") as model,
    ):
        assert error_of(await model.complete(ASKED)).kind == "malformed"


def test_without_aiohttp_a_model_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "penstock.models.http.aiohttp_transport", None)
    with pytest.raises(UsageError, match=r"penstock\[client\]"):
        HTTPModel("openai-chat", "http://h", "m")
    assert HTTPModel("openai-chat", "http://h", "m", transport=Canned()).name == "m"


# --- connections that the server closed ---


async def test_a_call_on_a_connection_that_the_server_closed_is_sent_again() -> None:
    async with (
        serving(streamed("openai-chat"), forgets=True) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", retry=NO_RETRY) as model,
    ):
        for _ in range(3):
            assert (await model.complete(ASKED)).text == ANSWER.text
        assert upstream.forgotten == 2  # Both were on connections used before, and sent again.
        assert len(upstream.seen) == 3


async def test_a_call_on_a_new_connection_is_not_sent_again() -> None:
    async with (
        serving(Reply([CUT], status=0)) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", retry=NO_RETRY) as model,
    ):
        error = error_of(await model.complete(ASKED))
        assert error.type == "connection_lost"
        assert len(upstream.seen) == 1


async def test_a_call_is_sent_twice_at_most() -> None:
    script = [streamed("openai-chat"), Reply([CUT], status=0)]
    async with (
        serving(*script) as upstream,
        HTTPModel("openai-chat", upstream.url, "m", retry=NO_RETRY) as model,
    ):
        assert (await model.complete(ASKED)).text == ANSWER.text
        assert error_of(await model.complete(ASKED)).type == "connection_lost"
        assert len(upstream.seen) == 3


async def test_a_call_whose_response_has_begun_is_not_sent_again() -> None:
    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        seen.append(await read_request(reader))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-le")
        writer.close()

    seen: list[Seen] = []
    server = await asyncio.start_server(half, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    transport = AiohttpTransport(proxy="")
    async with server:
        response = await transport.send(HTTPCall(url, body=b"1"))
        assert [data async for data in response] == [b"{}"]
        await response.aclose()
        with pytest.raises(TransportError):
            await transport.send(HTTPCall(url, body=b"2"))
        await transport.close()
    assert [one.body for one in seen] == [b"1", b"2"]


# --- a body in pieces ---


async def _send_single_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(SINGLE_BYTES // 100):
        writer.write(b"1\r\nx\r\n" * 100)
        await writer.drain()
    writer.write(b"0\r\n\r\n")
    await writer.drain()
    writer.close()


SINGLE_BYTES = 300_000


async def test_a_body_in_chunks_of_one_byte_waits_at_the_server() -> None:
    server = await asyncio.start_server(_send_single_bytes, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = AiohttpTransport(environ={})
    async with server:
        response = await transport.send(HTTPCall(f"http://127.0.0.1:{port}/", method="GET"))
        unread, before = response._content, -1
        while len(unread._buffer) != before:  # until nothing more arrives
            before = len(unread._buffer)
            await asyncio.sleep(0.05)
        assert 0 < len(unread._buffer) <= 2 * MAX_PIECES
        assert sum([len(data) async for data in response]) == SINGLE_BYTES
        await response.aclose()
        await transport.close()


async def test_data_before_a_cut_is_read_before_its_error() -> None:
    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n"
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(cut, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = AiohttpTransport(environ={})
    async with server:
        response = await transport.send(HTTPCall(f"http://127.0.0.1:{port}/", method="GET"))
        for _ in range(1_000):  # until the cut has arrived; nothing was read yet
            if response._content.exception() is not None:
                break
            await asyncio.sleep(0.01)
        body = aiter(response)
        assert await anext(body) == b"onetwo"
        with pytest.raises(TruncatedError):
            await anext(body)
        await response.aclose()
        await transport.close()
