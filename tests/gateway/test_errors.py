"""Errors that clients receive: a valid status, and no internal address."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.serving import (
    CLIENTS,
    Actor,
    Served,
    Stage,
    ask,
    request_of,
    tools_of,
    upstream_table,
)
from models.loopback_servers import Reply, refusal
from penstock import apis
from penstock.gateway import errors
from penstock.messages import ErrorInfo

BODY = {"error": {"message": "so it is"}}
INSIDE = "http://10.1.2.3/internal"


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return stage.gateway(tmp_path_factory.mktemp("gateway"), upstream_table(actor, retries=0))


@pytest.fixture(scope="module")
def in_words(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A gateway that puts tools into prompts."""
    table = upstream_table(actor, tools="prompt", retries=0)
    return stage.gateway(tmp_path_factory.mktemp("in_words"), table)


@pytest.mark.parametrize("api", [*CLIENTS, ""])
@pytest.mark.parametrize("status", [-5, 0, 99, 101, 200, 204, 302, 304, 399, 600, 999, 10**6])
def test_no_status_but_one_that_refuses_is_passed_on(status: int, api: str) -> None:
    told, body = errors.write_error(ErrorInfo("no", "provider", "x", status), api)
    assert told == 502
    assert body["error"].get("code", 502) in (502, "x")


@pytest.mark.parametrize("api", [*CLIENTS, ""])
@pytest.mark.parametrize("status", [400, 404, 418, 429, 503, 599])
def test_a_status_that_refuses_is_passed_on(status: int, api: str) -> None:
    assert errors.write_error(ErrorInfo("no", "provider", "", status), api)[0] == status


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "reply",
    [
        refusal(302, BODY, location=INSIDE),
        refusal(307, BODY, location=INSIDE),
        Reply([], 304, {"location": INSIDE}, b""),
        refusal(600, BODY),
        refusal(999, BODY),
    ],
    ids=lambda reply: str(reply.status),
)
def test_an_odd_status_of_the_upstream_is_a_bad_gateway(
    served: Served, actor: Actor, client: str, reply: Reply, *, stream: bool
) -> None:
    actor.play(reply)
    answer = ask(served, CLIENTS[client], request_of(client, "m", stream=stream))
    assert answer.status == 502
    assert answer.json["error"]["message"]
    assert b"10.1.2.3" not in answer.body


CHOICES: dict[str, tuple[Any, Any]] = {
    "openai-chat": ("required", {"type": "function", "function": {"name": "fly"}}),
    "openai-responses": ("required", {"type": "function", "name": "fly"}),
    "anthropic": ({"type": "any"}, {"type": "tool", "name": "fly"}),
}
"""A demand for some call, and for a call of a tool that is not offered."""


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_choice_that_words_cannot_make_is_refused_before_anybody_is_asked(
    in_words: Served, actor: Actor, client: str, *, stream: bool
) -> None:
    seen = len(actor.seen)
    some, named = CHOICES[client]
    without = request_of(client, "m", stream=stream, tool_choice=some, tools=[])
    with_another = request_of(client, "m", stream=stream, tool_choice=named, tools=tools_of(client))
    for request in (without, with_another):
        answer = ask(in_words, CLIENTS[client], request)
        assert answer.status == 400, answer.body
        error = apis.get(client).read_error(answer.status, answer.headers, answer.body)
        assert error.type == "invalid_request_error"
        assert "tool" in error.message
    assert len(actor.seen) == seen


def test_a_model_that_reads_its_own_calls_is_asked_for_no_choice_that_cannot_be_made(
    stage: Stage, tmp_path: Path
) -> None:
    qwen = stage.actor("qwen")
    served = stage.gateway(tmp_path, upstream_table(qwen, key="k", retries=0))
    request = request_of("openai-chat", "m", tool_choice="required", tools=[])
    assert ask(served, CLIENTS["openai-chat"], request).status == 400
    assert qwen.seen == []
