"""What of a client's request an upstream gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.serving import CLIENTS, Actor, Stage, ask, request_of, upstream_table
from penstock.gateway.model_router import forwarded_headers
from penstock.messages import AssistantMessage, Text

THINK_HARD: dict[str, dict[str, Any]] = {
    "openai-chat": {"reasoning_effort": "high"},
    "openai-responses": {"reasoning": {"effort": "high"}},
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 20_000}, "max_tokens": 30_000},
}
"""How clients ask for much thought."""


def test_a_clients_headers_stay_here_but_for_those_that_upstreams_read() -> None:
    sent = {
        "anthropic-beta": b"tools-2099",
        "openai-beta": b"assistants=v2",
        "idempotency-key": b"the client's own",
        "cookie": b"a=b",
    }
    assert forwarded_headers(sent) == {
        "anthropic-beta": "tools-2099",
        "openai-beta": "assistants=v2",
    }


@pytest.mark.parametrize("api", CLIENTS)
def test_a_server_that_takes_no_effort_is_told_none(
    stage: Stage, actor: Actor, tmp_path: Path, api: str
) -> None:
    actor.say(AssistantMessage("m", "m", [Text("Hi")], "stop"))
    model = '[models.thinker]\nupstream = "openai-chat"\neffort = true\n'
    served = stage.gateway(tmp_path, upstream_table(actor, effort=False) + model)
    for name, told in (("plain", None), ("thinker", "high")):
        body = {**request_of(api, name, stream=False), **THINK_HARD[api]}
        assert ask(served, CLIENTS[api], body).status == 200
        assert actor.seen[-1].json.get("reasoning_effort") == told
