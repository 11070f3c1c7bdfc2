"""The requests of one agent run are shown together."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.inspector.scene import answer_of, page, refused
from gateway.serving import CLIENTS, Actor, Served, Stage, ask, tools_of, until, upstream_table
from penstock.messages import Text, ToolCall

CHAT = CLIENTS["openai-chat"]


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return stage.gateway(tmp_path_factory.mktemp("gateway"), upstream_table(actor, retries=0))


def run_agent(served: Served, actor: Actor, turns: int, prompt: str) -> list[str]:
    """Run an agent that calls a tool in all turns but the last; return the ids of its requests."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    ids = []
    for turn in range(turns):
        call = ToolCall(f"c{turn}", "get_weather", {"city": f"City {turn}"})
        last = [Text("It is warm everywhere.")]
        actor.say(answer_of(*(last if turn == turns - 1 else [Text("I look."), call])))
        body = {"model": "m", "messages": messages, "tools": tools_of("openai-chat")}
        answer = ask(served, CHAT, body)
        ids.append(answer.headers["x-request-id"])
        message = answer.json["choices"][0]["message"]
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": one["id"], "content": f"{turn} degrees"}
            for one in message.get("tool_calls") or []
        ]
    until(lambda: ask(served, f"/v1/requests/{ids[-1]}").json.get("state") == "done")
    return ids


def test_a_run_is_one_conversation_with_turns_and_totals(served: Served, actor: Actor) -> None:
    ids = run_agent(served, actor, 4, "Where is it warm?")
    other = run_agent(served, actor, 2, "And where is it cold?")
    listed = page(served, "conversations")["data"]
    assert [(one["id"], one["requests"]) for one in listed] == [(other[0], 2), (ids[0], 4)]
    first = listed[1]
    assert (first["prompt"], first["calls"]) == ("Where is it warm?", 3)
    assert first["summary"] == "It is warm everywhere."
    shown = page(served, f"conversations/{ids[0]}")
    assert [row["id"] for row in shown["rows"]] == ids
    assert [row["messages"] for row in shown["rows"]] == [1, 3, 5, 7]
    roles = [message["role"] for message in shown["messages"]]
    assert roles == ["user", *["assistant", "tool"] * 3, "assistant"]
    assert shown["messages"][2]["content"] == "0 degrees"
    assert shown["of"] == ids[-1]
    assert page(served, "conversations?limit=1")["next"]


def test_an_unknown_conversation_is_refused(served: Served) -> None:
    assert refused(served, "conversations/none").status == 404
