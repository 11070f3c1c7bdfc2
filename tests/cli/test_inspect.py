"""``penstock inspect``: a file, a pipe or an answer on a page that a temporary server serves."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.serving import DEADLINE, UPSTREAMS
from models.loopback_servers import stream_of
from penstock.cli.app import app
from penstock.config.routes import ModelOptions
from penstock.gateway.inspector.analysis import analyse, analyse_replay
from penstock.gateway.inspector.recording import TEXT, detect_api, make_recording
from penstock.gateway.replay import ReplayOptions
from penstock.messages import AssistantMessage, Text
from penstock.store import RequestDetail, RequestRow
from penstock.store.tables import encode_bodies, unpack
from penstock.tools import read_tools

CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
TOOLS = [{"name": "get_weather", "parameters": {"properties": {"city": {"type": "string"}}}}]


@contextmanager
def running(*args: str, given: bytes | None = None) -> Iterator[tuple[str, int]]:
    """Run the command; give the address of the page and the process."""
    command = [sys.executable, "-m", "penstock", "inspect", "--no-browser", *args]
    quiet = {name: value for name, value in os.environ.items() if "PENSTOCK" not in name}
    child = subprocess.Popen(  # noqa: S603 - ourselves
        command, env=quiet, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        child.stdin.write(given or b"")
        child.stdin.close()
        line = child.stdout.readline().decode()
        found = re.search(r"at (http://127\.0\.0\.1:\d+/#/streams/\w+);", line)
        assert found, line + child.stdout.read().decode()
        yield found[1], child.pid
        child.send_signal(signal.SIGINT)
        assert child.wait(DEADLINE) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


def shown(address: str) -> Any:
    """Give what the page at *address* is told about its stream."""
    found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/#/streams/(\w+)", address)
    assert found is not None
    connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=DEADLINE)
    try:
        connection.request("GET", f"/inspector/api/streams/{found[2]}")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def test_a_pipe_is_shown_until_ctrl_c(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    text = f"Let me look. {CALL}".encode()
    with running("-", "--format", "hermes", "--tools", str(tools), given=text) as (address, _):
        found = shown(address)
    assert found["message"]["content"][1]["arguments"] == {"city": "Paris"}
    assert found["row"]["upstream_api"] == TEXT
    assert found["timed"] is False
    assert found["replayable"] == ""


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nothing-here.txt"], "No such file"),
        (["FILE", "--format", "hermez"], "unknown format 'hermez'"),
        (["FILE", "--arguments", "later"], "later"),
        (["FILE", "--tools", "nothing.json"], "nothing.json"),
        (["FILE", "--tools", "TOOLS"], "TOOLS: "),
        (["EMPTY"], "the file is empty"),
        (["FILE", "--api", "nobody"], "unknown API 'nobody'"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_a_line(
    tmp_path: Path, args: list[str], words: str
) -> None:
    (tmp_path / "FILE").write_text("Hello.")
    (tmp_path / "TOOLS").write_text("[3]")
    (tmp_path / "EMPTY").write_text(" \n")
    known = {name: str(tmp_path / name) for name in ("FILE", "EMPTY", "TOOLS")}
    done = CliRunner().invoke(app, ["inspect", *(known.get(one, one) for one in args)])
    assert done.exit_code == 2
    assert words in done.output.replace("\n", "")


# --- what a file is ---


def answer() -> AssistantMessage:
    return AssistantMessage("m", "m", [Text(f"Let me look. {CALL}")], "stop")


@pytest.mark.parametrize("api", UPSTREAMS)
def test_a_stream_of_every_api_is_known_for_what_it_is(api: str) -> None:
    data = stream_of(api, answer())
    assert detect_api(data) == api
    assert detect_api(data[:-30]) == api


@pytest.mark.parametrize(
    "data",
    [b"Hello.", CALL.encode(), b'{"a": 1}', b"\xff\xfe\x00", b"data: nothing\n\n", b"[1, 2]", b"{"],
)
def test_anything_else_is_text(data: bytes) -> None:
    assert detect_api(data) == TEXT


@pytest.mark.parametrize(
    ("api", "data"),
    [
        ("openai-chat", 'data: {"error": {"message": "busy", "type": "server_error"}}'),
        ("gemini", 'data: {"error": {"code": 429, "message": "busy", "status": "EXHAUSTED"}}'),
        (
            "anthropic",
            'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}',
        ),
        (
            "openai-responses",
            'event: error\ndata: {"type": "error", "code": "x", "message": "busy"}',
        ),
    ],
)
def test_a_stream_that_holds_nothing_but_an_error_is_one(api: str, data: str) -> None:
    frame = data.encode() + b"\n\n"
    assert detect_api(frame) == api
    found = analyse(detail_of(frame), full=True)
    assert found["row"]["state"] == "failed"
    assert found["remarks"][0].kind == "error"


def detail_of(data: bytes, **options: Any) -> RequestDetail:
    """Give the record of *data* as the log gives it back."""
    recording = make_recording(data, ModelOptions(**options), read_tools(TOOLS), name="file")
    begun, done = recording.make_records("0123", 5.0)
    blank: dict[str, Any] = dict.fromkeys(RequestRow.__struct_fields__, "")
    known = {
        name: getattr(one, name)
        for one in (begun, done)
        for name in one.__struct_fields__
        if name in blank
    }
    bodies = {
        kind: unpack(coding, body)
        for one in (begun, done)
        for kind, coding, body in encode_bodies(one)
    }
    row = RequestRow(**{**blank, **known})
    return RequestDetail(row=row, text=done.text, notes=done.notes, **bodies)


@pytest.mark.parametrize("api", UPSTREAMS)
def test_a_recorded_stream_is_taken_apart_and_read_again(api: str) -> None:
    call = "<get_weather><city>Paris</city></get_weather>" if api == "qwen" else CALL
    message = AssistantMessage("m", "m", [Text(f"Let me look. {call}")], "stop")
    detail = detail_of(stream_of(api, message))
    found = analyse(detail, full=True)
    assert "".join(text for _, text in found["upstream"]["text_pieces"]).endswith(call)
    assert [block.name for block in found["message"].tool_calls] == ["get_weather"]
    assert len(found["upstream"]["timeline"]) > 1
    again = analyse_replay(detail, ReplayOptions(format="pythonic"), full=True)
    assert "call 1" in [one["path"] for one in again["differences"]]


def test_a_text_is_read_again_in_another_format() -> None:
    detail = detail_of(f"Let me look. {CALL}".encode())
    assert analyse_replay(detail, ReplayOptions(), full=True)["differences"] == []
    again = analyse_replay(detail, ReplayOptions(format="pythonic", arguments="whole"), full=True)
    assert [one["path"] for one in again["differences"]] == ["text", "call 1", "end"]


def test_broken_bytes_are_shown_as_they_can_be() -> None:
    found = analyse(detail_of(b"caf\xe9 \xf0\x9f\x90 " + CALL.encode()), full=True)
    text = "".join(text for _, text in found["upstream"]["text_pieces"])
    assert text.startswith("caf\ufffd \ufffd ")
    assert found["message"].tool_calls[0].arguments == {"city": "Paris"}
