"""Exports: vectors that run in the library, commands for a shell."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gateway.inspector.scene import HERMES, answer_of, asked, page, refused, said, slowly
from gateway.serving import Actor, Served, Stage, ask, upstream_table
from penstock import _json, parse
from penstock.errors import UsageError
from penstock.gateway.inspector.export import make_curl, make_vector
from penstock.messages import ToolCall
from penstock.redaction import Redactor
from penstock.store import RequestDetail, RequestRow

MINE = "my-key-is-a-long-secret"
YOURS = "your-key-is-another-one"
UPSTREAM = "upstream-secret-0123456789"
LOOSE = "sk-proj-abcdefghijklmnop0123456789"


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = '[keys.me]\nenv = "ME"\n[keys.you]\nenv = "YOU"\n'
    text += upstream_table(actor, retries=0, key_env="UP", trim=False)
    keys = {"ME": MINE, "YOU": YOURS, "UP": UPSTREAM}
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text, keys)


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


@pytest.fixture(scope="module")
def logged(served: Served, actor: Actor) -> str:
    """A stream whose text contains all keys."""
    text = f"Keys: {MINE} {UPSTREAM} {LOOSE}. {HERMES}"
    said_too: dict[str, Any] = {
        "messages": [{"role": "user", "content": f"I am {MINE}, é\x1b[31m 'q' {LOOSE}"}]
    }
    return said(actor, served, text, headers=key(MINE), **said_too)


def test_a_vector_passes_in_the_library_and_holds_no_key(served: Served, logged: str) -> None:
    vector = page(served, f"streams/{logged}/vector", **key(MINE))
    assert set(vector) == {
        *("id", "format", "tools", "text", "expect", "content_mode", "options", "why")
    }
    for secret in (MINE, UPSTREAM, LOOSE):
        assert secret not in str(vector)
    assert vector["text"].startswith("Keys: *** ")
    message = parse(vector["text"], vector["format"], vector["tools"], **vector["options"])
    calls = [{"name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    assert (
        calls
        == vector["expect"]["calls"]
        == [{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]
    )
    assert message.text == vector["expect"]["content"]


def test_nothing_that_the_page_is_told_holds_a_key(served: Served, logged: str) -> None:
    for path in ("", "/curl", "/vector", "?full=1"):
        answer = ask(served, f"/inspector/api/streams/{logged}{path}", **key(MINE))
        assert answer.status == 200
        for secret in (MINE, YOURS, UPSTREAM):
            assert secret not in answer.body.decode()
    listed = ask(served, "/v1/requests", **key(MINE))
    assert MINE not in listed.body.decode()


def test_a_stream_of_somebody_else_is_not_there(served: Served, logged: str) -> None:
    for path in ("", "/curl", "/vector"):
        assert refused(served, f"streams/{logged}{path}", **key(YOURS)).status == 404
    assert refused(served, f"streams/{logged}/replay", {}, **key(YOURS)).status == 404
    assert page(served, "overview", **key(YOURS))["states"] == {}
    assert page(served, "overview", **key(MINE))["states"] == {"done": 1}


def test_a_command_is_plain_text_that_a_shell_reads_back(served: Served, logged: str) -> None:
    path = f"/inspector/api/streams/{logged}/curl"
    answer = ask(served, f"{path}?base=https%3A%2F%2Fgate.example%3A8443", **key(MINE))
    command = answer.body.decode("ascii")
    assert answer.headers["content-type"].startswith("text/plain")
    assert "\x1b" not in command
    words = shlex.split(command)
    assert words[:3] == ["curl", "-N", "https://gate.example:8443/v1/chat/completions"]
    assert "authorization: Bearer $PENSTOCK_API_KEY" in words
    assert words[-2] == "-d"
    for odd in ("javascript:alert(1)", "https://x;rm -rf", "http://a b", "http://x'$(id)'"):
        told = ask(served, path + f"?base={shlex.quote(odd).replace(' ', '%20')}", **key(MINE))
        assert f"http://127.0.0.1:{served.port}/v1/chat" in told.body.decode()


def test_a_stream_without_text_makes_no_vector(served: Served, actor: Actor) -> None:
    actor.play(slowly("openai-chat", answer_of(ToolCall("c", "get_weather", {"city": "P"}))))
    id_ = asked(served, "m", headers=key(MINE))
    answer = refused(served, f"streams/{id_}/vector", **key(MINE))
    assert "no text" in answer.json["error"]["message"]


def detail_with(request: bytes) -> RequestDetail:
    blank: dict[str, Any] = dict.fromkeys(RequestRow.__struct_fields__, "")
    row = RequestRow(**{**blank, "id": "r", "path": "/v1/chat/completions"})
    return RequestDetail(row=row, text="", notes={}, request=request)


_CURL = """curl() {
    case "$5" in
        -d) printf %s "$6";;
        *) cat;;
    esac
}
"""
"""Replaces curl: prints the body, from its last argument or from stdin."""


@pytest.mark.parametrize("size", [10, 200_000])
def test_a_shell_gives_the_body_as_it_was(tmp_path: Path, size: int) -> None:
    body = {"content": "é'\n$(id) `id` \\ \"\nEOF\n" + "x" * size}
    detail = detail_with(_json.encode(body))
    script = tmp_path / "run.sh"
    script.write_text(_CURL + make_curl(detail, "http://h", Redactor(), needs_key=False))
    done = subprocess.run(["/bin/sh", script], capture_output=True, check=True)  # noqa: S603 - ours
    assert _json.decode(done.stdout) == body


@pytest.mark.parametrize("before", [" ", "\n", "\t", '"', "\x0b", "é\n", "\\n", "\\\\t", "\\u000a"])
def test_no_character_before_a_key_protects_it(before: str) -> None:
    body = {"content": f"mine:{before}{LOOSE}", "tools": [{f"x{before}{LOOSE}": [before + LOOSE]}]}
    told = make_curl(detail_with(_json.encode(body)), "http://h", Redactor(), needs_key=False)
    assert LOOSE not in told
    assert told.count("***") == 3
    raw = make_curl(
        detail_with(f"no json {before}{LOOSE}".encode()), "h", Redactor(), needs_key=False
    )
    assert LOOSE not in raw


@pytest.mark.parametrize("before", ["", "x\\n", "\\t", "\\u000a", "\\\\n"])
def test_a_key_in_the_arguments_of_a_call_is_hidden_in_its_vector(
    served: Served, actor: Actor, before: str
) -> None:
    city = before + LOOSE
    text = HERMES.replace("Paris", city)
    vector = page(
        served, f"streams/{said(actor, served, text, headers=key(MINE))}/vector", **key(MINE)
    )
    assert LOOSE not in json.dumps(vector)
    assert vector["expect"]["calls"][0]["arguments"]["city"].endswith("***")


def test_a_request_that_was_not_kept_is_no_command() -> None:
    with pytest.raises(UsageError, match="not stored"):
        make_curl(detail_with(b""), "http://h", Redactor(), needs_key=False)
    with pytest.raises(UsageError, match="no text"):
        make_vector(detail_with(b"{}"), Redactor())
