"""Upstreams that fail: a status before the first byte, one error in the stream after it.

Whatever went wrong, what the upstream had said is delivered, and nothing that was cut is ever
called complete.
"""

from __future__ import annotations

import gzip
import socket
import threading
import time
from typing import Any

import pytest

from gateway.serving import (
    CLIENTS,
    DEADLINE,
    Actor,
    Answer,
    Served,
    Stage,
    ask,
    asking,
    request_of,
    said,
    told,
    tools_of,
    until,
    upstream_table,
)
from models.loopback_servers import CUT, RESET, STALL, Reply, call_of, refusal, stream_of
from penstock import _json, apis
from penstock.messages import AssistantMessage

STREAM = stream_of("openai-chat")
CALLED = stream_of("openai-chat", call_of("get_weather", city="Paris"))
HALF = CALLED.index(b"Paris") + 3  # within the arguments
FIRST = STREAM.index(b"\n\n", STREAM.index(b"High water")) + 9  # after the first text

clients = pytest.mark.parametrize("client", CLIENTS)
both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    timeouts = {"first_byte": 0.25, "idle": 0.25}
    text = upstream_table(actor, retries=0) + "[upstreams.openai-chat.timeouts]\n"
    text += "".join(f"{name} = {seconds}\n" for name, seconds in timeouts.items())
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


@pytest.fixture(scope="module")
def patient(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A gateway that waits for its upstream, and lets its clients hear that it does."""
    served = stage.gateway(tmp_path_factory.mktemp("patient"), upstream_table(actor, retries=0))
    served.gateway.keepalive_seconds = 0.05
    return served


def asked(served: Served, client: str, *, stream: bool = True) -> Answer:
    body = request_of(client, "m", stream=stream, tools=tools_of(client))
    return ask(served, CLIENTS[client], body)


def message_of_error(body: Any) -> str:
    return str(body["error"]["message"])


# --- before the first byte ---

BEFORE: dict[str, tuple[Reply, int]] = {
    "it is busy": (refusal(429, {"error": {"message": "slow down"}}, retry_after="7"), 429),
    "it fails": (refusal(500, {"error": {"message": "oh"}}), 502),
    "it is a page": (Reply(status=503, whole=b"<html><title>Down</title></html>"), 503),
    "it is a page that says all is well": (
        Reply(whole=b"<html>Log in</html>", headers={"content-type": "text/html"}),
        502,
    ),
    "it hangs up": (Reply([CUT], 0), 502),
    "it tears the line down": (Reply([RESET], 0), 502),
    "it says nothing": (Reply([STALL]), 504),
    "it says nothing at all": (Reply([STALL], 0), 504),
    "it talks nonsense": (Reply(whole=b"\x00\x01\x02 nonsense \xff" * 20), 502),
    "it ends at once": (Reply([]), 502),
    "it has an error in its stream": (Reply([b'data: {"error": {"message": "gpu"}}\n\n']), 502),
}


@both
@clients
@pytest.mark.parametrize(("reply", "status"), BEFORE.values(), ids=BEFORE)
def test_before_the_first_byte_a_failure_is_a_status(
    served: Served, actor: Actor, client: str, reply: Reply, status: int, *, stream: bool
) -> None:
    actor.play(reply)
    answer = asked(served, client, stream=stream)
    assert answer.status >= 400
    assert answer.status // 100 == status // 100
    assert answer.headers["content-type"] == "application/json"
    assert message_of_error(answer.json)
    if client == "anthropic":
        assert answer.json["type"] == "error"


@clients
def test_an_upstream_that_is_busy_says_when_to_come_back(
    served: Served, actor: Actor, client: str
) -> None:
    actor.play(BEFORE["it is busy"][0])
    answer = asked(served, client)
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")


def test_an_upstream_that_is_not_there_is_a_status(
    stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        text = f'[upstreams.one]\napi = "openai-chat"\nbase_url = "{url}"\nretries = 0\n'
        served = stage.gateway(tmp_path_factory.mktemp("gateway"), text)
        assert asked(served, "openai-chat").status in (502, 503)


# --- after the first byte ---

BEHIND: dict[str, list[Any]] = {
    "it hangs up": [STREAM[:FIRST], CUT],
    "it tears the line down": [STREAM[:FIRST], RESET],
    "it stalls": [STREAM[:FIRST], STALL],
    "it has an error in its stream": [
        STREAM[: FIRST - 7],
        b'data: {"error": {"message": "gpu on fire", "type": "server_error"}}\n\n',
    ],
    "it ends before its end": [STREAM[:FIRST]],
}


@clients
@pytest.mark.parametrize("steps", BEHIND.values(), ids=BEHIND)
def test_behind_the_first_byte_a_failure_is_one_error_in_the_stream(
    served: Served, actor: Actor, client: str, steps: list[Any]
) -> None:
    actor.play(Reply(steps))
    answer = asked(served, client)
    assert answer.status == 200
    message = said(client, answer.body)
    assert message.error is not None
    assert message.text.startswith("High water at ")
    assert errors_in(client, answer.body) == 1


@clients
@pytest.mark.parametrize("end", [CUT, RESET, STALL], ids=["cut", "reset", "stall"])
def test_a_call_that_is_cut_is_never_complete(
    served: Served, actor: Actor, client: str, end: str
) -> None:
    actor.play(Reply([CALLED[:HALF], end]))
    answer = asked(served, client)
    message = said(client, answer.body)
    assert message.error is not None
    assert not any(call.complete for call in message.tool_calls)
    assert b'"tool_calls",' not in answer.body.replace(b'"finish_reason":"tool_calls"', b"")
    for never in (b'"finish_reason":"tool_calls"', b'"stop_reason":"tool_use"'):
        assert never not in answer.body
    assert b"response.completed" not in answer.body


@clients
def test_a_call_in_text_that_is_cut_is_never_complete(
    served: Served, actor: Actor, client: str
) -> None:
    text = '<tool_call>{"name": "get_weather", "arguments": {"city": "Par'
    data = stream_of("openai-chat").replace(b"High water at ", text.replace('"', '\\"').encode())
    actor.play(Reply([data[: data.index(b"\n\n", data.index(b"Par")) + 2], CUT]))
    message = said(client, asked(served, client).body)
    assert message.error is not None
    assert not any(call.complete for call in message.tool_calls)


def errors_in(client: str, data: bytes) -> int:
    marks = {
        "openai-chat": b'data: {"error"',
        "openai-responses": b"event: response.failed",
        "anthropic": b"event: error",
    }
    return data.count(marks[client])


DAMAGED = b'data: {"choices": [{"delta"\n\n'


@both
@pytest.mark.parametrize("noise", [b"data: ping\n\n", b"data: {oops\n\n"])
def test_noise_in_a_stream_is_passed_over(
    served: Served, actor: Actor, noise: bytes, *, stream: bool
) -> None:
    at = FIRST - 7
    actor.play(Reply([STREAM[:at], noise, STREAM[at:]]))
    message = told("openai-chat", asked(served, "openai-chat", stream=stream), stream=stream)
    assert message.text == "High water at six."


@clients
def test_a_damaged_frame_is_one_error_in_the_stream(
    served: Served, actor: Actor, client: str
) -> None:
    at = FIRST - 7
    actor.play(Reply([STREAM[:at], DAMAGED, STREAM[at:]]))
    answer = asked(served, client)
    message = said(client, answer.body)
    assert message.error is not None
    assert message.text == "High water at "
    assert errors_in(client, answer.body) == 1
    assert asked(served, client, stream=False).status in (500, 502)


def test_skipped_frames_are_counted_in_the_log_and_the_metrics(
    served: Served, actor: Actor
) -> None:
    def count() -> float:
        page = ask(served, "/metrics").body.decode()
        name = "penstock_skipped_frames_total{"
        return sum(float(line.split()[-1]) for line in page.splitlines() if line.startswith(name))

    at, before = FIRST - 7, count()
    actor.play(Reply([STREAM[:at], b"data: ping\n\n", b"data: {oops\n\n", STREAM[at:]]))
    answer = asked(served, "openai-chat")
    until(lambda: count() == before + 2)
    path = f"/v1/requests/{answer.headers['x-request-id']}"
    until(lambda: ask(served, path).status == 200)
    # A request is in the log while it runs; its notes are written at its end.
    until(lambda: ask(served, path).json["notes"].get("skipped") == 2)


def test_a_compressed_stream_is_read(served: Served, actor: Actor) -> None:
    data = gzip.compress(STREAM)
    actor.play(Reply([data[:40], data[40:]], headers={"content-encoding": "gzip"}))
    message = told("openai-chat", asked(served, "openai-chat"), stream=True)
    assert message.text == "High water at six."


def test_a_compressed_stream_that_is_cut_is_an_error(served: Served, actor: Actor) -> None:
    data = gzip.compress(STREAM)
    actor.play(Reply([data[: len(data) // 2], CUT], headers={"content-encoding": "gzip"}))
    answer = asked(served, "openai-chat")
    if answer.status == 200:
        assert said("openai-chat", answer.body).error is not None
    else:
        assert answer.status == 502


# --- the client is gone ---


def post(body: object) -> bytes:
    data = _json.encode(body)
    head = f"POST {CLIENTS['openai-chat']} HTTP/1.1\r\nhost: localhost\r\n"
    return f"{head}content-length: {len(data)}\r\n\r\n".encode() + data


def disconnect(served: Served, actor: Actor, reply: Reply, *, stream: bool, wait: bool) -> None:
    """Disconnect in the middle of a response, and wait until the upstream is disconnected."""
    actor.play(reply)
    seen, left = len(actor.seen), len(actor.upstream.hung_up)
    body = request_of("openai-chat", "m", stream=stream)
    with socket.create_connection(("127.0.0.1", served.port), DEADLINE) as client:
        client.sendall(post(body))
        until(lambda: len(actor.seen) > seen)
        if wait:
            assert client.recv(65_536)
    until(lambda: len(actor.upstream.hung_up) > left)


@pytest.mark.parametrize(
    ("reply", "stream", "wait"),
    [
        (Reply([STREAM[:FIRST], STALL]), True, True),
        (Reply([STALL], 0), True, False),
        (Reply([STALL], 0), False, False),
        (Reply([STREAM[:FIRST], STALL]), False, False),
    ],
    ids=["in a stream", "before its first byte", "before a whole answer", "in a whole answer"],
)
def test_a_client_that_hangs_up_closes_the_upstream(
    patient: Served, actor: Actor, reply: Reply, *, stream: bool, wait: bool
) -> None:
    disconnect(patient, actor, reply, stream=stream, wait=wait)
    until(lambda: patient.gateway.streams == 0)


def test_a_client_that_does_not_read_slows_the_upstream_down(served: Served, actor: Actor) -> None:
    """Of 24 MB only what fits into the sockets on the way is taken."""
    delta = STREAM[STREAM.index(b"data: ", 10) : FIRST - 7]
    piece = delta.replace(b"High water at ", b"x" * 20_000)
    steps: list[Any] = [STREAM[: STREAM.index(b"data: ", 10)]]
    steps += [piece] * (24_000_000 // len(piece))
    actor.play(Reply(steps))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        client.connect(("127.0.0.1", served.port))
        client.sendall(post(request_of("openai-chat", "m")))
        assert client.recv(1)
        chunks = _settled(lambda: _chunks(served))
        assert 0 < chunks * 65_536 < 20_000_000, chunks
    until(lambda: served.gateway.streams == 0)


def _chunks(served: Served) -> int:
    (answering,) = served.gateway._open
    return int(answering._log.chunks)


def _settled(figure: Any) -> int:
    """Return the figure when it has not changed for a while."""
    last, since = -1, time.monotonic()
    while time.monotonic() - since < 0.3:
        now = figure()
        if now != last:
            last, since = now, time.monotonic()
        time.sleep(0.01)
    return last


def test_a_client_hears_signs_of_life_while_the_upstream_is_silent(
    patient: Served, actor: Actor
) -> None:
    actor.play(Reply([0.25, STREAM[:FIRST], 0.25, STREAM[FIRST:]]))
    for client, mark in (
        ("openai-chat", b": "),
        ("anthropic", b"event: ping"),
        ("openai-responses", b": "),
    ):
        answer = asked(patient, client)
        assert told(client, answer, stream=True).text == "High water at six."
        before, _, behind = answer.body.partition(b"High water")
        assert mark in before
        assert mark in behind


def test_many_clients_at_once_get_their_own_answers(served: Served, actor: Actor) -> None:
    actor.play(lambda seen: _echo(seen.json["messages"][-1]["content"]))
    found: dict[int, AssistantMessage] = {}

    def one(number: int) -> None:
        body = request_of("openai-chat", "m")
        body["messages"] = [{"role": "user", "content": f"number {number}."}]
        with asking(served, CLIENTS["openai-chat"], body) as response:
            found[number] = said("openai-chat", response.read())

    threads = [threading.Thread(target=one, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE)
    assert {number: message.text for number, message in found.items()} == {
        number: f"number {number}." for number in range(30)
    }


def _echo(text: str) -> Reply:
    data = STREAM.replace(b"High water at ", text.encode()).replace(b'"six."', b'""')
    assert apis.check("openai-chat", data) == []
    return Reply([data[:FIRST], 0.02, data[FIRST:]])
