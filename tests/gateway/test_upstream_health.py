"""Log lines when an upstream becomes unreachable, and when it is back."""

from __future__ import annotations

import logging
import socket
from pathlib import Path

import pytest

from gateway.serving import CLIENTS, Actor, Stage, ask, request_of, until, upstream_table
from models.loopback_servers import refusal
from penstock.events import Done, Failed
from penstock.gateway.model_router import QUIET_SECONDS, UpstreamHealth
from penstock.messages import AssistantMessage, ErrorInfo, ErrorKind

KEY = "sk-of-the-upstream-0123456789"
CHAT = CLIENTS["openai-chat"]


def test_a_server_that_is_down_is_told_of_once_and_without_its_key(
    stage: Stage, actor: Actor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:  # It is bound, but not listening.
        taken.bind(("127.0.0.1", 0))
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
        table = upstream_table(actor, "box", retries=0, key=KEY)
        served = stage.gateway(tmp_path, table.replace(actor.url, nobody))
        for _ in range(3):
            assert ask(served, CHAT, request_of("openai-chat", "m")).status >= 500
    until(lambda: caplog.text.count("POST /v1/chat/completions m → box 502") == 3)
    (line,) = [text for text in caplog.messages if text.startswith("upstream")]
    assert line.startswith("upstream box is not reachable: ")
    assert caplog.text.count(f"(POST {nobody}/v1/chat/completions)") == 4
    assert caplog.text.count("Is the server running? Check the port of the upstream") == 4
    assert KEY not in caplog.text


def test_a_refusal_is_a_sign_of_life(
    stage: Stage, actor: Actor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    served = stage.gateway(tmp_path, upstream_table(actor, "box", retries=0))
    served.gateway.upstream_health.note("box", ended("transport"), has_data=False)
    actor.play(refusal(400, {"error": {"message": "no"}}))
    assert ask(served, CHAT, request_of("openai-chat", "m")).status == 400
    until(lambda: "upstream box is reachable again" in caplog.messages)


def ended(kind: ErrorKind | None = None, message: str = "hush\nhush") -> Done | Failed:
    if kind is None:
        return Done("stop", AssistantMessage())
    return Failed("error", ErrorInfo(message, kind), AssistantMessage())


def hushed(text: str) -> str:
    return text.replace("hush", "***")


def test_one_that_comes_and_goes_has_two_lines_in_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    times = [0.0, 1.0, QUIET_SECONDS - 1.0, QUIET_SECONDS, QUIET_SECONDS + 1.0]
    clock = iter(times)
    known = UpstreamHealth(lambda: next(clock))
    for _ in times:
        known.note("box", ended("transport"), has_data=False, redact=hushed)
        known.note("box", ended("aborted"), has_data=False)
        known.note("box", ended(), has_data=False)
        known.note("box", ended(), has_data=False)
    down, back = "upstream box is not reachable: *** ***", "upstream box is reachable again"
    assert caplog.messages == [down, back, down, back]


def test_a_stream_that_was_cut_is_no_server_that_is_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    UpstreamHealth().note("box", ended("transport"), has_data=True)
    assert caplog.messages == []
