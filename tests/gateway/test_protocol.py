"""The edge of the gateway, byte by byte: what is refused, what is read, how long it may take."""

from __future__ import annotations

import socket
import time

import pytest

from gateway.serving import DEADLINE, Actor, Served, Stage, ask, request_of, until, upstream_table
from models.loopback_servers import STALL, Reply, stream_of
from penstock import _json

HEAD_SECONDS = 1.0
LIMITS = f"""
[server]
header_seconds = {HEAD_SECONDS}
body_seconds = 1.0
[limits]
body_bytes = 2000000
"""


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return stage.gateway(tmp_path_factory.mktemp("gateway"), LIMITS + upstream_table(actor))


def said_to(served: Served, *pieces: bytes) -> bytes:
    """Send *pieces*, and return all that comes until the connection is closed."""
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        for piece in pieces:
            client.sendall(piece)
        return _rest(client)


def _rest(client: socket.socket) -> bytes:
    answer = b""
    while piece := client.recv(65_536):
        answer += piece
    return answer


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


HELLO = _json.encode(request_of("openai-chat", "m"))


def post(*headers: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    lines = [b"POST /v1/chat/completions HTTP/" + version, b"Host: localhost", *headers, b"", body]
    return b"\r\n".join(lines)


CHUNKED = b"Transfer-Encoding: chunked"
END = b"0\r\n\r\n"
SMUGGLED = {
    "a length and chunks": post(b"Content-Length: 5", CHUNKED, body=END),
    "chunks and a length": post(CHUNKED, b"Content-Length: 5", body=END),
    "two lengths": post(b"Content-Length: 5", b"Content-Length: 6", body=b"hello!"),
    "two equal lengths": post(b"Content-Length: 5", b"Content-Length: 5", body=b"hello"),
    "a list of lengths": post(b"Content-Length: 5, 5", body=b"hello"),
    "a length with a sign": post(b"Content-Length: +5", body=b"hello"),
    "a length that is none": post(b"Content-Length: five", body=b"hello"),
    "a length beyond all numbers": post(b"Content-Length: " + b"9" * 40),
    "a folded header": post(b"X-One: a", b" b", b"Content-Length: 0"),
    "a folded coding": post(b"Transfer-Encoding:", b" chunked", body=END),
    "an unknown coding": post(b"Transfer-Encoding: xchunked", body=END),
    "two codings": post(b"Transfer-Encoding: gzip, chunked", body=END),
    "a coding twice": post(CHUNKED, CHUNKED, body=END),
    "a coding in an old version": post(CHUNKED, body=END, version=b"1.0"),
    "a blank before the colon": post(b"Content-Length : 5", body=b"hello"),
    "two hosts": post(b"Host: there", b"Content-Length: 0"),
    "a chunk beyond all sizes": post(CHUNKED, body=b"f" * 17 + b"\r\n"),
    "a chunk with a sign": post(CHUNKED, body=b"-1\r\n"),
    "a chunk with a prefix": post(CHUNKED, body=b"0x5\r\nhello\r\n" + END),
    "a chunk that is longer than it says": post(CHUNKED, body=b"1\r\nhello\r\n" + END),
    "bare line feeds": post(b"Content-Length: 0").replace(b"\r\n", b"\n"),
    "a bare line feed among others": post(b"X-One: a\nContent-Length: 0"),
    "a NUL in a header": post(b"X-One: a\0b", b"Content-Length: 0"),
    "a carriage return in a header": post(b"X-One: a\rb", b"Content-Length: 0"),
    "a name that is none": post(b"X One: a", b"Content-Length: 0"),
    "no words of HTTP at all": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
}


@pytest.mark.parametrize("request_", SMUGGLED.values(), ids=SMUGGLED)
def test_what_could_be_read_in_two_ways_is_refused(served: Served, request_: bytes) -> None:
    answer = said_to(served, request_ + b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status_of(answer) == 400
    assert answer.count(b"HTTP/1.1 ") == 1, "what stands behind it was read as a request"


def test_trailers_are_no_headers(
    stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory
) -> None:
    key = "psk_" + "k" * 40
    text = '[keys.one]\nenv = "KEY"\n' + upstream_table(actor)
    guarded = stage.gateway(tmp_path_factory.mktemp("gateway"), text, {"KEY": key})
    body = b"%x\r\n%s\r\n0\r\nx-api-key: %s\r\n\r\n" % (len(HELLO), HELLO, key.encode())
    assert status_of(said_to(guarded, post(CHUNKED, b"Connection: close", body=body))) == 401


def said_behind_its_head(served: Served, body: bytes) -> bytes:
    """Send *body* when its head has been read, as from far away: the leave to go on shows it."""
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(post(CHUNKED, b"Expect: 100-continue"))
        assert status_of(client.recv(65_536)) == 100
        client.sendall(body)
        return _rest(client)


def test_endless_trailers_are_cut(served: Served) -> None:
    endless = b"x-more: " + b"a" * 1000 + b"\r\n"
    answer = said_behind_its_head(served, b"2\r\n{}\r\n0\r\n" + endless * 200)
    assert status_of(answer) == 431


def test_an_endless_extension_of_a_chunk_is_cut(served: Served) -> None:
    assert status_of(said_behind_its_head(served, b"2;" + b"a" * 300_000)) == 431


def test_a_body_in_chunks_of_one_byte_is_read(served: Served, actor: Actor) -> None:
    actor.play(Reply([stream_of("openai-chat")]))
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in HELLO) + END
    answer = said_to(served, post(CHUNKED, b"Connection: close"), body)
    assert status_of(answer) == 200
    assert b"[DONE]" in answer


def test_requests_in_a_pipeline_are_answered_in_their_order(served: Served, actor: Actor) -> None:
    actor.play(Reply([stream_of("openai-chat")]))
    live = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    length = b"Content-Length: %d" % len(HELLO)
    answer = said_to(served, live + post(length, body=HELLO) + live + last)
    heads = [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]]
    assert heads == [b"200", b"200", b"200", b"404"]
    assert answer.index(b"live") < answer.index(b"[DONE]") < answer.rindex(b"live")


def test_half_a_request_behind_another_does_not_disturb_its_answer(
    served: Served, actor: Actor
) -> None:
    """The time for a head is over long before the answer is: no 408 is written into it."""
    data = stream_of("openai-chat")
    actor.play(Reply([data[:100], HEAD_SECONDS * 1.5, data[100:]]))
    length = b"Content-Length: %d" % len(HELLO)
    answer = said_to(served, post(length, body=HELLO) + b"GET /hea")
    assert answer.count(b"HTTP/1.1 ") == 2
    assert answer.index(b"[DONE]") < answer.index(b"HTTP/1.1 408")


def test_a_client_that_asks_for_an_upgrade_is_answered_in_plain(
    served: Served, actor: Actor
) -> None:
    actor.play(Reply([stream_of("openai-chat")]))
    length = b"Content-Length: %d" % len(HELLO)
    upgrade = (b"Connection: Upgrade, HTTP2-Settings, close", b"Upgrade: h2c")
    answer = said_to(served, post(length, *upgrade, body=HELLO))
    assert status_of(answer) == 200
    assert b"[DONE]" in answer


# --- how much ---


@pytest.mark.parametrize("pieces", [1, 7], ids=["at once", "in pieces"])
def test_a_head_of_more_than_32_kilobytes_is_refused(served: Served, pieces: int) -> None:
    head = post(b"X-Long: " + b"a" * 33_000, b"Content-Length: 0")
    size = len(head) // pieces + 1
    answer = said_to(served, *(head[at : at + size] for at in range(0, len(head), size)))
    assert status_of(answer) == 431


def test_a_head_of_less_than_that_is_read(served: Served) -> None:
    head = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Long: "
    assert status_of(said_to(served, head + b"a" * 32_000 + b"\r\n\r\n")) == 200


def test_an_endless_line_of_a_request_is_refused(served: Served) -> None:
    assert status_of(said_to(served, b"GET /" + b"a" * 100_000)) == 431


def test_a_body_that_is_announced_too_long_is_refused_before_it_comes(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(post(b"Content-Length: 60000000"))
        assert status_of(client.recv(65_536)) == 413


def test_a_client_that_sends_too_much_can_read_why(served: Served) -> None:
    """It is not cut off while it sends: most clients look at the answer only afterwards."""
    answer = ask(served, "/v1/chat/completions", b" " * 20_000_000)
    assert answer.status == 413
    assert answer.json["error"]["type"] == "request_too_large"
    assert answer.headers["connection"] == "close"


def test_a_body_in_chunks_is_refused_where_it_grows_too_long(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(post(CHUNKED))
        for _ in range(40):
            client.sendall(b"%x\r\n%s\r\n" % (100_000, b" " * 100_000))
        assert status_of(_rest(client)) == 413


def test_a_client_that_expects_leave_is_refused_without_it(served: Served) -> None:
    expect = (b"Content-Length: 60000000", b"Expect: 100-continue")
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(post(*expect))
        assert status_of(client.recv(65_536)) == 413


def test_a_client_that_expects_leave_gets_it(served: Served, actor: Actor) -> None:
    actor.play(Reply([stream_of("openai-chat")]))
    head = post(b"Content-Length: %d" % len(HELLO), b"Expect: 100-continue", b"Connection: close")
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(head)
        assert status_of(client.recv(65_536)) == 100
        client.sendall(HELLO)
        assert b"[DONE]" in _rest(client)


# --- how long ---


def test_half_a_head_is_closed_in_time(served: Served) -> None:
    began = time.monotonic()
    answer = said_to(served, b"POST /v1/chat/completions HTTP/1.1\r\nHost: he")
    assert status_of(answer) == 408
    assert time.monotonic() - began > HEAD_SECONDS * 0.9


def test_a_head_that_drips_is_closed_in_time(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        client.settimeout(0.1)
        answer = b""
        began = time.monotonic()
        while not answer and time.monotonic() - began < DEADLINE:
            try:
                client.sendall(b"x-a: b\r\n")
                answer = client.recv(65_536)
            except TimeoutError:
                continue
        assert status_of(answer) == 408


def test_a_connection_that_says_nothing_is_closed_without_a_word(served: Served) -> None:
    assert said_to(served) == b""


def test_a_body_that_does_not_come_is_refused_in_time(served: Served) -> None:
    answer = said_to(served, post(b"Content-Length: 500", body=b'{"model"'))
    assert status_of(answer) == 408
    assert b"connection: close" in answer


def test_many_half_open_heads_hold_up_nobody(served: Served, actor: Actor) -> None:
    actor.play(Reply([stream_of("openai-chat")]))
    half = b"POST /v1/chat/completions HTTP/1.1\r\nHost: he"
    clients = [socket.create_connection(("127.0.0.1", served.port), DEADLINE) for _ in range(200)]
    try:
        for client in clients:
            client.sendall(half)
        assert ask(served, "/v1/chat/completions", HELLO).status == 200
        assert all(status_of(_rest(client)) == 408 for client in clients)
    finally:
        for client in clients:
            client.close()


# --- who is gone ---


def test_a_client_with_a_pipeline_that_hangs_up_ends_what_it_waits_for(
    served: Served, actor: Actor
) -> None:
    actor.play(Reply([stream_of("openai-chat")[:500], STALL]))
    before = len(actor.upstream.hung_up)
    length = b"Content-Length: %d" % len(HELLO)
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(post(length, body=HELLO) * 2)
        client.recv(1)
    until(lambda: len(actor.upstream.hung_up) > before)
