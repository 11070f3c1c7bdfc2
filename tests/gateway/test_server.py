"""The server: it drains on SIGTERM, reloads its settings on SIGHUP, and supports TLS."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Self

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gateway.serving import (
    CLIENTS,
    DEADLINE,
    Actor,
    Served,
    Stage,
    ask,
    asking,
    request_of,
    said,
    until,
    upstream_table,
)
from models.loopback_servers import STALL, Reply, stream_of
from penstock import apis
from penstock.config import ConfigError, check_exposure, hash_key, load
from penstock.errors import UsageError
from penstock.gateway.factory import renew
from penstock.gateway.process import listen
from penstock.gateway.workers import WorkerHandover

STREAM = stream_of("openai-chat")
FIRST = STREAM.index(b"\n\n", STREAM.index(b"High water")) + 2
CHAT = CLIENTS["openai-chat"]


class Reading(threading.Thread):
    """A client that reads a stream to its end."""

    def __init__(self, served: Served, client: str) -> None:
        super().__init__()
        self.client = client
        self.body = b""
        self.begun = threading.Event()
        self._served = served

    def run(self) -> None:
        with asking(self._served, CLIENTS[self.client], request_of(self.client, "m")) as response:
            self.body = response.read(1)
            self.begun.set()
            self.body += response.read()


def readers(served: Served, count: int) -> list[Reading]:
    kinds = list(CLIENTS)
    reading = [Reading(served, kinds[number % 3]) for number in range(count)]
    for one in reading:
        one.start()
    for one in reading:
        assert one.begun.wait(DEADLINE)
    return reading


def test_told_to_end_it_lets_the_open_streams_finish(
    stage: Stage, actor: Actor, tmp_path: Path
) -> None:
    served = stage.gateway(tmp_path, upstream_table(actor, retries=0))
    actor.play(Reply([STREAM[:FIRST], 0.5, STREAM[FIRST:]]))
    reading = readers(served, 50)
    served.stop()
    late = ask(served, CHAT, request_of("openai-chat", "m"))
    assert late.status == 503
    assert int(late.headers["retry-after"]) > 0
    assert ask(served, "/health/ready").status == 503
    assert ask(served, "/health/live").status == 200
    for one in reading:
        one.join(DEADLINE)
        assert said(one.client, one.body).text == "High water at six."
    until(lambda: served.has_ended)


def test_what_is_open_at_the_deadline_ends_with_an_error(
    stage: Stage, actor: Actor, tmp_path: Path
) -> None:
    served = stage.gateway(tmp_path, upstream_table(actor, retries=0), drain_seconds=0.2)
    actor.play(Reply([STREAM[:FIRST], STALL]))
    reading = readers(served, 50)
    whole = threading.Thread(
        target=lambda: answers.append(
            ask(served, CHAT, request_of("openai-chat", "m", stream=False)).status
        )
    )
    answers: list[int] = []
    whole.start()
    until(lambda: served.gateway.streams == 51)
    served.stop()
    for one in reading:
        one.join(DEADLINE)
        message = said(one.client, one.body)
        assert message.error is not None
        assert message.text.startswith("High water")
    whole.join(DEADLINE)
    assert answers == [503]
    until(lambda: served.has_ended)


def test_settings_that_are_read_anew_hold_for_the_next_request(
    stage: Stage, actor: Actor, tmp_path: Path
) -> None:
    served = stage.gateway(tmp_path, upstream_table(actor, retries=0))
    actor.play(Reply([STREAM[:FIRST], 0.3, STREAM[FIRST:]]))
    (reading,) = readers(served, 1)
    key = "psk_" + "r" * 40
    served.file.write_text(f'[keys.new]\nenv = "KEY"\n{upstream_table(actor, retries=0)}')
    settings = load(served.file, {"KEY": key}, store=str(served.database))

    async def read_anew() -> None:
        renew(served.gateway, settings)

    stage.do(read_anew())
    assert ask(served, "/v1/models").status == 401
    assert ask(served, "/v1/models", x_api_key=key).status == 200
    reading.join(DEADLINE)
    assert said(reading.client, reading.body).text == "High water at six."
    answer = ask(served, CHAT, request_of("openai-chat", "m"), x_api_key=key)
    assert answer.status == 200


# --- as a process ---


class Process:
    """``penstock serve``, for real."""

    def __init__(self, folder: Path, text: str, *flags: str) -> None:
        self.file = folder / "penstock.toml"
        self.file.write_text(text)
        self.errors = folder / "stderr"
        command = [sys.executable, "-m", "penstock", "serve", "--port", "0", *flags]
        self.figures = folder / "tmp"  # where workers put their figures together
        self.figures.mkdir()
        state = {"XDG_STATE_HOME": str(folder / "state")}
        environ = {**os.environ, "COLUMNS": "200", "TMPDIR": str(self.figures), **state}
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - ourselves
                command, stderr=errors, cwd=folder, env=environ, start_new_session=True
            )
        self.port = 0

    def __enter__(self) -> Self:
        until(self._is_up)
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)

    def _is_up(self) -> bool:
        assert self.process.poll() is None, self.said()
        _, found, rest = self.said().partition("127.0.0.1:")
        digits = rest.split(" ")[0].split("\n")[0]
        if found and digits.isdecimal() and rest != digits:
            self.port = int(digits)
        return bool(self.port)

    def said(self) -> str:
        return self.errors.read_text(errors="replace")

    def hang_up(self, text: str | None) -> None:
        """Write *text* to the file, or delete it, and send SIGHUP."""
        self.file.unlink(missing_ok=True)
        if text is not None:
            self.file.write_text(text)
        self.process.send_signal(signal.SIGHUP)

    def ask(self, path: str, body: object = None, key: str = "") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        try:
            data = None if body is None else json.dumps(body)
            connection.request("GET" if body is None else "POST", path, data, {"x-api-key": key})
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def test_a_process_serves_reads_anew_drains_and_ends_with_0(tmp_path: Path) -> None:
    text = '[upstreams.demo]\napi = "demo"\n[upstreams.demo.demo]\npace = 0.005\n'
    with Process(tmp_path, text) as one:
        status, data = one.ask(CHAT, request_of("openai-chat", "penstock-demo"))
        assert status == 200
        assert apis.check("openai-chat", data) == []
        one.hang_up(text + '[models.fresh]\nupstream = "demo"\n')
        until(lambda: b'"fresh"' in one.ask("/v1/models")[1])
        one.hang_up("[models.fresh]\nupstream = 5\n")
        until(lambda: "was not reloaded" in one.said())
        assert b'"fresh"' in one.ask("/v1/models")[1]
        slow = threading.Thread(target=lambda: answers.append(one.ask(CHAT, _long())))
        answers: list[tuple[int, bytes]] = []
        slow.start()
        until(lambda: json.loads(one.ask("/health/ready")[1])["streams"] == 1)
        one.process.send_signal(signal.SIGTERM)
        slow.join(DEADLINE)
        assert apis.check("openai-chat", answers[0][1]) == []
        assert b"[DONE]" in answers[0][1]
        assert one.process.wait(DEADLINE) == 0
        assert "Traceback" not in one.said()


def test_a_process_that_is_told_twice_ends_at_once(tmp_path: Path) -> None:
    text = '[upstreams.demo]\napi = "demo"\n[upstreams.demo.demo]\npace = 5.0\n'
    with Process(tmp_path, text, "--no-store") as one:
        connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=DEADLINE)
        try:
            connection.request("POST", CHAT, json.dumps(request_of("openai-chat", "m")))
            until(lambda: json.loads(one.ask("/health/ready")[1]).get("streams") == 1)
            one.process.send_signal(signal.SIGTERM)
            until(lambda: one.ask("/health/ready")[0] == 503)
            one.process.send_signal(signal.SIGTERM)
            one.process.wait(DEADLINE)  # the stream would have taken minutes
            assert "stopping after 1 response in progress" in one.said()
            assert "Traceback" not in one.said()
        finally:
            connection.close()


def _long() -> dict[str, object]:
    return request_of("openai-chat", "fresh")


# --- the door stays shut ---

KEY = "psk_" + "k" * 40
KEYS = f'[keys.one]\nhash = "{hash_key(KEY)}"\n'
LOG_FIGURES = ("penstock_log_queue", "penstock_log_written_total")
DEMO = '[upstreams.demo]\napi = "demo"\n[upstreams.demo.demo]\npace = 0.005\n'
FAR = '[server]\nhost = "0.0.0.0"\n'
OPENED = {
    "another host, and no key": '[server]\nhost = "127.0.0.1"\n' + DEMO,
    "insecure all of a sudden": FAR + "insecure = true\n" + DEMO,
    "no file any more": None,
}


def test_no_file_that_is_read_anew_opens_a_door_to_other_machines(tmp_path: Path) -> None:
    with Process(tmp_path, FAR + KEYS + DEMO, "--no-store") as one:
        for number, text in enumerate(OPENED.values(), 1):
            one.hang_up(text)
            until(lambda number=number: one.said().count("was not reloaded") == number)  # type: ignore[misc]
            assert one.ask("/v1/models")[0] == 401
            assert one.ask("/v1/models", key=KEY)[0] == 200
        assert "No such file" in one.said()
        one.hang_up(FAR + "insecure = true\n" + KEYS + DEMO)
        until(lambda: "need a restart: server.insecure" in one.said())
        one.hang_up(FAR + "insecure = true\n" + DEMO)
        until(lambda: one.said().count("was not reloaded") == 4)
        assert one.ask("/v1/models")[0] == 401


@pytest.mark.parametrize("text", OPENED.values(), ids=OPENED.keys())
def test_a_worker_that_begins_later_does_not_open_it_either(
    tmp_path: Path, text: str | None
) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(text or DEMO)
    handover = WorkerHandover([], 0, 0, "0.0.0.0", insecure=False, workers=2)  # noqa: S104 - as they are bound
    held = handover.apply_to(load(file, {}))
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0.* no key is left"):
        check_exposure(held, held)


def test_insecure_from_the_start_stays_possible_and_can_be_taken_back() -> None:
    begun = load(None, {}, host="::", insecure=True)
    check_exposure(begun, begun)
    with pytest.raises(ConfigError, match="no key is left"):
        check_exposure(begun, load(None, {}))


def test_how_long_it_drains_and_what_it_tells_is_taken_over(tmp_path: Path) -> None:
    slow = '[upstreams.demo]\napi = "demo"\n[upstreams.demo.demo]\npace = 5.0\n'
    with Process(tmp_path, "[server]\ndrain_seconds = 600\n" + slow, "--no-store") as one:
        reading = threading.Thread(target=lambda: answers.append(one.ask(CHAT, _long())))
        answers: list[tuple[int, bytes]] = []
        reading.start()
        until(lambda: json.loads(one.ask("/health/ready")[1])["streams"] == 1)
        changed = '[server]\ndrain_seconds = 0.1\nlog_level = "warning"\nworkers = 3\n'
        one.hang_up(changed + "[store]\nkeep_days = 1\n" + slow)
        until(lambda: "need a restart: server.workers, store.keep_days" in one.said())
        one.process.send_signal(signal.SIGTERM)
        reading.join(DEADLINE)
        assert one.process.wait(DEADLINE) == 0
        assert b"error" in answers[0][1]
        assert "stopping" not in one.said()


# --- several processes ---


def test_ctrl_c_in_a_terminal_cuts_no_stream_of_a_worker(tmp_path: Path) -> None:
    with Process(tmp_path, DEMO, "--no-store", "--workers", "2") as one:
        with open_stream(one) as response:
            os.killpg(one.process.pid, signal.SIGINT)  # as a terminal does
            body = response.read()
        assert body.endswith(b"data: [DONE]\n\n")
        assert apis.check("openai-chat", b"d" + body) == []
        assert one.process.wait(DEADLINE) == 0
        assert not list(one.figures.iterdir())
        assert "Traceback" not in one.said()


def test_no_worker_leaves_old_figures_of_the_log_behind(tmp_path: Path) -> None:
    with Process(tmp_path, DEMO.replace("0.005", "0"), "--workers", "2") as one:
        # One connection is one worker: its metrics of the other worker come from that worker.
        page = http.client.HTTPConnection("127.0.0.1", one.port, timeout=DEADLINE)
        with closing(page):

            def figures() -> list[float]:
                page.request("GET", "/metrics")
                text = page.getresponse().read().decode()
                found = [re.search(rf"^{name} (\S+)$", text, re.MULTILINE) for name in LOG_FIGURES]
                return [float(one[1]) for one in found if one]

            figures()
            for _ in range(8):
                assert one.ask(CHAT, _long())[0] == 200
            until(lambda: figures() == [0.0, 16.0])


def test_workers_finish_and_end_when_the_process_that_began_them_is_gone(tmp_path: Path) -> None:
    with Process(tmp_path, DEMO, "--no-store", "--workers", "2") as one:
        with open_stream(one) as response:
            one.process.kill()
            body = response.read()
        assert body.endswith(b"data: [DONE]\n\n")
        until(lambda: not is_served(one.port))
        until(lambda: one.said().count("is gone: shutting down") == 2)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_told_to_end_while_it_begins_it_ends_well(tmp_path: Path, workers: str) -> None:
    one = Process(tmp_path, DEMO, "--workers", workers, "--log-level", "debug")
    database = tmp_path / "state" / "penstock" / "penstock.db"
    try:
        until(lambda: any(one.figures.iterdir()) or database.exists())
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(DEADLINE) == 0
    finally:
        one.__exit__()
    assert not list(one.figures.iterdir())
    assert "Traceback" not in one.said()


def test_workers_that_cannot_begin_end_all_of_it(tmp_path: Path) -> None:
    one = Process(tmp_path, DEMO, "--no-store", "--workers", "2")
    try:
        until(lambda: any(one.figures.iterdir()))
        one.file.write_text("[server")
        code = one.process.wait(DEADLINE)
    finally:
        one.__exit__()
    assert code == 2
    assert "before it accepted connections" in one.said()
    assert "penstock serves" not in one.said()
    assert not list(one.figures.iterdir())


@contextmanager
def open_stream(one: Process) -> Iterator[http.client.HTTPResponse]:
    """Ask for a stream, and read the first byte of it."""
    connection = http.client.HTTPConnection("127.0.0.1", one.port, timeout=DEADLINE)
    try:
        connection.request("POST", CHAT, json.dumps(request_of("openai-chat", "m")))
        response = connection.getresponse()
        assert response.read(1) == b"d"
        yield response
    finally:
        connection.close()


def is_served(port: int) -> bool:
    """Return whether anybody accepts there."""
    try:
        socket.create_connection(("127.0.0.1", port), DEADLINE).close()
    except OSError:
        return False
    return True


# --- where it listens ---


def test_a_name_is_listened_on_at_each_of_its_addresses_and_one_port() -> None:
    opened = listen("localhost", 0)
    try:
        assert len({one.getsockname()[1] for one in opened}) == 1
        assert {one.getsockname()[0] for one in opened} <= {"127.0.0.1", "::1"}
    finally:
        for one in opened:
            one.close()


@pytest.mark.parametrize(
    ("host", "why"),
    [
        (
            "192.0.2.1",
            "192.0.2.1:0: this machine does not have that address; choose another with --host",
        ),
        ("nobody.invalid", "cannot resolve the host nobody.invalid"),
    ],
)
def test_what_cannot_be_listened_on_is_told_in_a_line(host: str, why: str) -> None:
    with pytest.raises(UsageError, match=re.escape(why)):
        listen(host, 0)


# --- TLS ---


def certificate(folder: Path) -> tuple[Path, Path]:
    """Make a certificate for this machine, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "penstock test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    cert_file, key_file = folder / "cert.pem", folder / "key.pem"
    cert_file.write_bytes(made.public_bytes(pem))
    key_file.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    return cert_file, key_file


def test_it_speaks_tls(stage: Stage, actor: Actor, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    served = stage.gateway(
        tmp_path, upstream_table(actor, retries=0), tls_cert=str(cert), tls_key=str(key)
    )
    actor.play(Reply([STREAM[:FIRST], 0.02, STREAM[FIRST:]]))
    context = ssl.create_default_context(cafile=str(cert))
    for size, status in ((0, 200), (11_000_000, 413)):
        connection = http.client.HTTPSConnection(
            "127.0.0.1", served.port, context=context, timeout=DEADLINE
        )
        try:
            body = request_of("openai-chat", "m", user="u" * size)
            connection.request("POST", CHAT, json.dumps(body))
            response = connection.getresponse()
            assert response.status == status
            data = response.read()
        finally:
            connection.close()
        if status == 200:
            assert said("openai-chat", data).text == "High water at six."
