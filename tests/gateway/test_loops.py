"""A model that makes the same call again and again: found, logged, and ended on request."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.serving import CLIENTS, Actor, Served, Stage, ask, told, until, upstream_table
from penstock import apis
from penstock.gateway.conversation import find_loop
from penstock.messages import AssistantMessage, ToolCall, ToolResult, Usage
from penstock.request import Request, UserMessage
from penstock.tools import Tool

MODELS = """
[models.m]
upstream = "openai-chat"
[models.ends]
upstream = "openai-chat"
loop_limit = 3
end_loops = true
"""


def turn(number: int, arguments: dict[str, Any]) -> list[Any]:
    call = ToolCall(f"c{number}", "ls", arguments)
    return [AssistantMessage(content=[call]), ToolResult(call.id, "ls", "nothing")]


def conversation(*arguments: dict[str, Any]) -> Request:
    turns = [message for number, one in enumerate(arguments) for message in turn(number, one)]
    return Request("m", messages=[UserMessage("Look."), *turns])


def test_the_same_call_in_a_row_is_a_loop() -> None:
    loop = find_loop(conversation(*[{"path": "."}] * 5), 5)
    assert loop is not None
    assert str(loop) == "loop: 'ls' was called 5 times in a row with the same arguments"
    assert find_loop(conversation(*[{"path": "."}] * 4), 5) is None
    assert find_loop(conversation(*[{"path": "."}] * 9), 0) is None


def test_other_arguments_and_words_of_the_user_end_a_row() -> None:
    same = {"path": "."}
    assert find_loop(conversation(same, same, {"path": "/"}, same, same), 3) is None
    request = conversation(same, same, same)
    request.messages[3:3] = [AssistantMessage(), UserMessage("Again.")]
    assert find_loop(request, 3) is None
    assert find_loop(Request("m", messages=[]), 1) is None
    two = AssistantMessage(content=[ToolCall("a", "ls", same), ToolCall("b", "ls", same)])
    assert find_loop(Request("m", messages=[two]), 1) is None


def test_a_reminder_beside_a_result_does_not_end_a_row() -> None:
    request = conversation({"path": "."}, {"path": "."}, {"path": "."})
    request.messages.insert(3, UserMessage("<system-reminder>Be brief.</system-reminder>"))
    assert find_loop(request, 3) is not None


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = upstream_table(actor, retries=0) + MODELS
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


def body(client: str, model: str, times: int, *, stream: bool) -> dict[str, Any]:
    """Write a conversation with the same call *times* in a row, as *client* does."""
    request = conversation(*[{"path": "."}] * times)
    request.model, request.stream = model, stream
    request.tools = [Tool("ls", parameters={"type": "object"})]
    request.max_tokens = 99
    return apis.get(client).write_request(request)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_loop_is_shown_and_ended_where_that_is_wanted(
    served: Served, actor: Actor, client: str, *, stream: bool
) -> None:
    again = ToolCall("c9", "ls", {"path": "."})
    actor.say(AssistantMessage("m1", "m", [again], "tool_use", "", Usage(9, 5, total=14)))
    path = CLIENTS[client]
    fewer = ask(served, path, body(client, "m", 4, stream=stream))
    assert "loop" not in fewer.headers["x-penstock"]
    answer = ask(served, path, body(client, "m", 5, stream=stream))
    assert "loop: 'ls' was called 5 times in a row" in answer.headers["x-penstock"]
    assert len(told(client, answer, stream=stream).tool_calls) == 1
    log = f"/v1/requests/{answer.headers['x-request-id']}"
    until(lambda: ask(served, log).json.get("state") == "done")
    assert "loop: 'ls'" in str(ask(served, log).json["notes"]["adapted"])
    answer = ask(served, path, body(client, "ends", 3, stream=stream))
    assert "loop: 'ls' was called 3 times in a row" in answer.headers["x-penstock"]
    ended = told(client, answer, stream=stream)
    assert ended.tool_calls == []
    assert "called 3 times in a row" in ended.text
    fine = ask(served, path, body(client, "ends", 2, stream=stream))
    assert len(told(client, fine, stream=stream).tool_calls) == 1
    assert "loop" not in fine.headers["x-penstock"]
