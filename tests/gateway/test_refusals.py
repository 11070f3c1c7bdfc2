"""What a client is told when its request is refused: a status that it can take, and no address."""

from __future__ import annotations

import pytest

from gateway.serving import CLIENTS, Actor, Served, Stage, ask, request_of, upstream_table
from models.loopback_servers import Reply, refusal
from penstock.gateway import refusals
from penstock.messages import ErrorInfo

BODY = {"error": {"message": "so it is"}}
INSIDE = "http://10.1.2.3/internal"


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return stage.gateway(tmp_path_factory.mktemp("gateway"), upstream_table(actor, retries=0))


@pytest.mark.parametrize("api", [*CLIENTS, ""])
@pytest.mark.parametrize("status", [-5, 0, 99, 101, 200, 204, 302, 304, 399, 600, 999, 10**6])
def test_no_status_but_one_that_refuses_is_passed_on(status: int, api: str) -> None:
    told, body = refusals.write(ErrorInfo("no", "provider", "x", status), api)
    assert told == 502
    assert body["error"].get("code", 502) in (502, "x")


@pytest.mark.parametrize("api", [*CLIENTS, ""])
@pytest.mark.parametrize("status", [400, 404, 418, 429, 503, 599])
def test_a_status_that_refuses_is_passed_on(status: int, api: str) -> None:
    assert refusals.write(ErrorInfo("no", "provider", "", status), api)[0] == status


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
