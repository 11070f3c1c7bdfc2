"""What chat.qwen.ai says in place of an answer, mostly with a status of 200, and what breaks."""

from __future__ import annotations

from typing import Any

import pytest

from models.loopback_servers import CUT, RESET, Reply
from models.qwen_server import (
    END,
    GUARDED,
    IN_STREAM_ERROR,
    RATE_LIMITED,
    Answer,
    QwenServer,
    answered,
    as_json,
    asking,
    asks,
    challenge,
    delta,
    frame,
    message_of,
    refused,
)
from penstock.events import Failed, MessageStart
from penstock.models.http import NO_RETRY, RetryPolicy
from penstock.models.qwen_web import QwenCredentials

QUICK = RetryPolicy(attempts=2, base=0)


def failure(answer: Answer, **options: Any) -> Failed:
    server = options.pop("server", None) or QwenServer(answer)
    end = answered(server, asks(), retry=NO_RETRY, **options)[-1]
    assert isinstance(end, Failed)
    return end


@pytest.mark.parametrize(
    ("answer", "status", "kind", "type_"),
    [
        (RATE_LIMITED, 429, "provider", "RateLimited"),
        (GUARDED, 403, "provider", "FAIL_SYS_USER_VALIDATE"),
        (as_json({"ret": ["FAIL_SYS_TRAFFIC_LIMIT"], "data": {}}), 502, "provider", None),
        (challenge(), 403, "provider", "challenge"),
        (challenge(status=503), 403, "provider", "challenge"),
        (refused("Weird", "who knows"), 502, "provider", "Weird"),
        (as_json({"hello": 1}), 502, "malformed", None),
        (Reply(whole=b"gateway trouble"), 502, "malformed", None),
        (as_json({"detail": "Unauthorized"}, status=401), 401, "provider", None),
        (IN_STREAM_ERROR, 502, "provider", "internal_error"),
        (frame({"error": {"code": "RateLimited", "details": "later"}}), 429, "provider", None),
    ],
)
async def test_a_refusal_is_typed_and_nothing_comes_before_it(
    answer: Answer, status: int, kind: str, type_: str | None
) -> None:
    server = QwenServer(answer)
    async with asking(server, retry=NO_RETRY) as (model, _upstream):
        (batch,) = [batch async for batch in model.batches(asks())]
    failed = batch[-1]
    assert isinstance(failed, Failed)
    assert [event for event in batch[:-1] if not isinstance(event, MessageStart)] == []
    assert (failed.error.status, failed.error.kind) == (status, kind)
    assert type_ is None or failed.error.type == type_
    assert failed.message.error == failed.error


def test_a_rate_limit_says_how_many_hours_it_lasts() -> None:
    assert failure(RATE_LIMITED).error.retry_after == 3 * 3600


@pytest.mark.parametrize(
    ("creation", "status"),
    [(RATE_LIMITED, 429), (GUARDED, 403), (challenge(), 403), (as_json({"success": True}), 502)],
)
def test_a_chat_that_cannot_be_begun_is_a_typed_failure(creation: Reply, status: int) -> None:
    server = QwenServer("hi", creations=[creation])
    assert failure("", server=server).error.status == status
    assert server.messages == []


def test_a_message_that_the_guard_takes_for_an_attack_is_refused_with_403() -> None:
    end = answered(QwenServer("hi"), asks("x" * 200_000))[-1]
    assert isinstance(end, Failed)
    assert end.error.status == 403


def test_who_shows_no_cookie_meets_the_challenge() -> None:
    assert failure("hi", credentials=QwenCredentials("only-a-token")).error.type == "challenge"


def test_a_busy_server_is_asked_again_before_anything_went_out() -> None:
    server = QwenServer(as_json({"detail": "later"}, status=503), "Here.")
    assert message_of(answered(server, asks(), retry=QUICK)).text == "Here."
    assert len(server.messages) == 2


@pytest.mark.parametrize("fault", [CUT, RESET, None], ids=["cut", "reset", "no end"])
def test_a_broken_answer_delivers_what_came_and_fails(fault: str | None) -> None:
    steps: list[Any] = [delta("Half a "), delta("sentence"), 0.05]
    end = failure([*steps, fault] if fault else steps)
    assert (end.message.text, end.error.kind) == ("Half a sentence", "truncated")


def test_an_error_in_the_middle_delivers_what_came_and_fails() -> None:
    end = failure([delta("Half"), IN_STREAM_ERROR])
    assert (end.message.text, end.error.message) == ("Half", "the model fell over")


def test_a_call_that_the_connection_cuts_is_text_and_never_run() -> None:
    end = failure([delta("<read><filePath>/etc"), 0.05, CUT])
    assert (end.message.tool_calls, end.error.kind) == ([], "truncated")


@pytest.mark.parametrize("end", [END, b"data: [DONE]\n\n"], ids=["finished", "done"])
def test_either_end_alone_is_a_good_one(end: bytes) -> None:
    assert message_of(answered(QwenServer([delta("Hi"), end]), asks())).stop_reason == "stop"
