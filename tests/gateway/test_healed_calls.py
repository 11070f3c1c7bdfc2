"""Native calls that the upstream damaged, through a real gateway."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.serving import (
    CLIENTS,
    Actor,
    Served,
    Stage,
    ask,
    told,
    tools_of,
    until,
    upstream_table,
)
from penstock.messages import AssistantMessage, Text, ToolCall, Usage

MODELS = """
[models.m]
upstream = "openai-chat"
[models.off]
upstream = "openai-chat"
heal = false
"""
DAMAGED = ToolCall("c1", "functions.get_weather", {"city": "7", "days": "3"})


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = upstream_table(actor, retries=0) + MODELS
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


def body(client: str, model: str, *, stream: bool) -> dict[str, Any]:
    said = [{"role": "user", "content": "How is the weather?"}]
    name = "input" if client == "openai-responses" else "messages"
    limit = {"max_tokens": 99} if client == "anthropic" else {}
    return {"model": model, "stream": stream, "tools": tools_of(client), name: said, **limit}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_damaged_native_call_is_repaired_for_every_client(
    served: Served, actor: Actor, client: str, *, stream: bool
) -> None:
    actor.say(AssistantMessage("m1", "m", [DAMAGED], "tool_use", "", Usage(9, 5, total=14)))
    answer = ask(served, CLIENTS[client], body(client, "m", stream=stream))
    (call,) = told(client, answer, stream=stream).tool_calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "7", "days": 3})


def test_the_log_lists_the_repairs_and_they_can_be_switched_off(
    served: Served, actor: Actor
) -> None:
    actor.say(AssistantMessage("m1", "m", [DAMAGED], "tool_use", "", Usage(9, 5, total=14)))
    logged = {}
    for model in ("m", "off"):
        answer = ask(served, CLIENTS["openai-chat"], body("openai-chat", model, stream=True))
        (call,) = told("openai-chat", answer, stream=True).tool_calls
        assert (call.name == "get_weather") == (model == "m")
        path = f"/v1/requests/{answer.headers['x-request-id']}"
        until(lambda path=path: ask(served, path).json.get("state") == "done")  # type: ignore[misc]
        logged[model] = ask(served, path).json["repairs"]
    assert logged == {
        "m": [
            "renamed 'functions.get_weather' to 'get_weather'",
            "coerced days from string to integer",
        ],
        "off": [],
    }


UNOFFERED = "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n</function>"


def test_the_log_says_why_text_is_not_a_call(served: Served, actor: Actor) -> None:
    actor.say(AssistantMessage("m1", "m", [Text(f"On it.\n{UNOFFERED}")], "stop"))
    answer = ask(served, CLIENTS["openai-chat"], body("openai-chat", "m", stream=True))
    assert told("openai-chat", answer, stream=True).text.endswith(UNOFFERED)
    path = f"/v1/requests/{answer.headers['x-request-id']}"
    until(lambda: ask(served, path).json.get("state") == "done")
    (unread,) = ask(served, path).json["notes"]["unread"]
    assert (unread["format"], unread["name"]) == ("qwen3_coder", "write_file")
    assert (unread["reason"], unread["index"], unread["start"]) == ("not_offered", 0, 7)
    assert unread["description"].startswith("looks like a qwen3_coder call of `write_file`")
    assert unread["advice"].startswith("offer the tool `write_file`")
