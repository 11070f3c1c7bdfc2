"""A server that cannot parse its model's output is asked again, with the tools in the prompt."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.serving import (
    CLIENTS,
    Actor,
    Answer,
    Served,
    Stage,
    ask,
    told,
    tools_of,
    until,
    upstream_table,
)
from models.loopback_servers import Reply, refusal, stream_of, streamed
from penstock import _json
from penstock.messages import AssistantMessage, Content, StopReason, Text, Thinking, ToolCall, Usage

MODELS = """
[models.m]
upstream = "openai-chat"
[models.off]
upstream = "openai-chat"
heal = false
"""
CHAT = "openai-chat"
LLAMA_CPP = "Failed to parse input at pos 12: </tool_call>"
MESSAGES = [
    pytest.param(LLAMA_CPP, id="llama.cpp"),
    pytest.param("Invalid diff: now finding less tool calls!", id="llama.cpp, older"),
    pytest.param("error parsing tool call: raw='ls -R', err=invalid character 'l'", id="Ollama"),
    pytest.param("Unexpected token 200002 while expecting start token 200006", id="vLLM"),
]
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
GOOD = ToolCall("c1", "get_weather", {"city": "Oslo"})
SECOND = AssistantMessage("m2", "m", [Text(f"Sure.\n{CALL}")], "stop", "", Usage(9, 5, total=14))


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = upstream_table(actor, retries=2) + MODELS
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


def refused(message: str = LLAMA_CPP) -> Reply:
    """Return the response of llama.cpp to a request that is not streamed."""
    return refusal(500, {"error": {"code": 500, "message": message, "type": "server_error"}})


def broken_off(*frames: dict[str, Any], message: str = LLAMA_CPP) -> Reply:
    """Return a stream that begins with deltas and ends with an error, without ``[DONE]``."""
    error = {"error": {"code": 500, "message": message, "type": "server_error"}}
    deltas = [
        {
            "id": "m1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": None}],
        }
        for delta in ({"role": "assistant", "content": None}, *frames)
    ]
    steps = [b"data: " + _json.encode(one) + b"\n\n" for one in (*deltas, error)]
    return Reply(list(steps), headers={"content-type": "text/event-stream"})


def request(client: str, model: str = "m", *, stream: bool) -> dict[str, Any]:
    said = [{"role": "user", "content": "How is the weather?"}]
    name = "input" if client == "openai-responses" else "messages"
    limit = {"max_tokens": 99} if client == "anthropic" else {}
    return {"model": model, "stream": stream, "tools": tools_of(client), name: said, **limit}


def send(served: Served, client: str, model: str = "m", *, stream: bool) -> Answer:
    return ask(served, CLIENTS[client], request(client, model, stream=stream))


def logged(served: Served, answer: Answer) -> dict[str, Any]:
    path = f"/v1/requests/{answer.headers['x-request-id']}"
    until(lambda: ask(served, path).json.get("state") not in (None, "started"))
    record: dict[str, Any] = ask(served, path).json
    return record


def assert_fell_back(actor: Actor, before: int) -> None:
    """Assert that the upstream got two requests: with native tools, and with them in the prompt."""
    native, prompted = [seen.json for seen in actor.seen[before:]]
    assert native["tools"]
    assert "tools" not in prompted
    assert "get_weather" in prompted["messages"][0]["content"]


@pytest.mark.parametrize("message", MESSAGES)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_refused_request_is_sent_again_without_native_tools(
    served: Served, actor: Actor, client: str, message: str, *, stream: bool
) -> None:
    actor.play(refused(message), streamed(CHAT, SECOND))
    before = len(actor.seen)
    answer = send(served, client, stream=stream)
    told_message = told(client, answer, stream=stream)
    (call,) = told_message.tool_calls
    assert (call.name, call.arguments) == ("get_weather", {"city": "Oslo"})
    assert told_message.text.strip() == "Sure."
    assert_fell_back(actor, before)
    assert "repaired: requested again with the tools in the prompt" in answer.headers["x-penstock"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
def test_an_error_inside_a_stream_is_no_different(
    served: Served, actor: Actor, client: str, *, stream: bool
) -> None:
    actor.play(broken_off(), streamed(CHAT, SECOND))
    before = len(actor.seen)
    answer = send(served, client, stream=stream)
    (call,) = told(client, answer, stream=stream).tool_calls
    assert call.name == "get_weather"
    assert_fell_back(actor, before)
    assert "repaired: requested again with the tools in the prompt" in answer.headers["x-penstock"]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
def test_reasoning_that_was_sent_stays_before_the_second_response(
    served: Served, actor: Actor, client: str, *, stream: bool
) -> None:
    first = broken_off({"reasoning_content": "Let me "}, {"reasoning_content": "see."})
    again = AssistantMessage("m2", "m", [Thinking("Again."), *SECOND.content], "stop")
    actor.play(first, streamed(CHAT, again))
    before = len(actor.seen)
    message = told(client, send(served, client, stream=stream), stream=stream)
    assert [call.name for call in message.tool_calls] == ["get_weather"]
    assert message.text.strip() == "Sure."
    if client != CHAT or stream:  # A whole chat response has one field for it.
        assert "Let me see." in message.thinking
    assert_fell_back(actor, before)


@pytest.mark.parametrize("client", CLIENTS)
def test_after_text_was_sent_the_stream_fails(served: Served, actor: Actor, client: str) -> None:
    actor.play(broken_off({"content": "On it."}), streamed(CHAT, SECOND))
    before = len(actor.seen)
    message = told(client, send(served, client, stream=True), stream=True)
    assert message.error is not None
    assert LLAMA_CPP in message.error.message
    assert len(actor.seen) == before + 1


def test_the_second_request_is_the_last(served: Served, actor: Actor) -> None:
    actor.play(refused())
    before = len(actor.seen)
    answer = send(served, CHAT, stream=False)
    assert answer.status >= 500
    assert len(actor.seen) == before + 2
    assert logged(served, answer)["state"] == "failed"


def test_other_failures_are_retried_as_before(served: Served, actor: Actor) -> None:
    overloaded = refusal(503, {"error": {"code": 503, "message": "Loading model"}})
    native = AssistantMessage("m1", "m", [GOOD], "tool_use")
    actor.play(overloaded, streamed(CHAT, native))
    before = len(actor.seen)
    answer = send(served, CHAT, stream=True)
    assert told(CHAT, answer, stream=True).tool_calls
    assert all(seen.json["tools"] for seen in actor.seen[before:])
    assert "repaired" not in answer.headers["x-penstock"]


def test_without_heal_the_request_is_only_retried(served: Served, actor: Actor) -> None:
    actor.play(refused(), streamed(CHAT, SECOND))
    before = len(actor.seen)
    told(CHAT, send(served, CHAT, "off", stream=True), stream=True)
    assert all(seen.json["tools"] for seen in actor.seen[before:])


def test_without_tools_there_is_nothing_to_fall_back_to(served: Served, actor: Actor) -> None:
    actor.play(refused(), streamed(CHAT, SECOND))
    body = {key: value for key, value in request(CHAT, stream=True).items() if key != "tools"}
    answer = ask(served, CLIENTS[CHAT], body)
    assert told(CHAT, answer, stream=True).text.startswith("Sure.")
    assert "repaired" not in answer.headers["x-penstock"]


def test_the_fallback_is_in_the_log_and_in_the_metrics(served: Served, actor: Actor) -> None:
    actor.play(refused(), streamed(CHAT, SECOND))
    record = logged(served, send(served, CHAT, stream=True))
    assert [one for one in record["repairs"] if one.startswith("requested again")]
    assert record["state"] == "done"
    assert record["calls"] == 1
    page = ask(served, "/metrics").body.decode()
    assert 'penstock_repairs_total{kind="fallback"}' in page


# --- other repairs of a response ---


def glued_stream() -> Reply:
    """Return a response whose server put two calls into one."""
    good = AssistantMessage("m1", "m", [GOOD], "tool_use")
    last = b'"arguments":"}"'
    data = stream_of(CHAT, good).replace(last, last[:-1] + rb'{\"city\": \"Rome\"}"')
    assert b"Rome" in data
    return Reply([data], headers={"content-type": "text/event-stream"})


def sent(*content: Content, usage: Usage | None = None) -> Reply:
    """Return a stream with *content*."""
    reason: StopReason = "tool_use" if any(isinstance(one, ToolCall) for one in content) else "stop"
    return streamed(
        CHAT, AssistantMessage("m1", "m", [*content], reason, "", usage or Usage(9, 5, total=14))
    )


def named(name: str) -> ToolCall:
    return ToolCall("c1", name, {"city": "Oslo"})


OSLO = [("get_weather", {"city": "Oslo"})]
REPAIRS = [
    pytest.param(
        sent(Text(CALL), GOOD),
        "dropped the second copy of a call of 'get_weather'",
        "twin",
        OSLO,
        id="a call that was printed and sent",
    ),
    pytest.param(
        sent(GOOD, Text(CALL)),
        "dropped the second copy of a call of 'get_weather'",
        "twin",
        OSLO,
        id="a call that was sent and printed",
    ),
    pytest.param(
        sent(Text("Hm"), usage=Usage(9, 99)),
        "ended as length: the token limit was reached",
        "length",
        [],
        id="the token limit",
    ),
    pytest.param(
        sent(named("functions.get_weather")),
        "renamed 'functions.get_weather' to 'get_weather'",
        "name",
        OSLO,
        id="a name with a namespace",
    ),
    pytest.param(
        sent(named("get_weather<|channel|>commentary")),
        "renamed 'get_weather<|channel|>commentary' to 'get_weather'",
        "name",
        OSLO,
        id="a name with a channel",
    ),
    pytest.param(
        sent(named("Get_Weather")),
        "renamed 'Get_Weather' to 'get_weather'",
        "name",
        OSLO,
        id="a name in another case",
    ),
    pytest.param(
        sent(ToolCall("c1", "get_weather", {"city": "Oslo", "days": "3"})),
        "coerced days from string to integer",
        "value",
        [("get_weather", {"city": "Oslo", "days": 3})],
        id="a value that is encoded twice",
    ),
    pytest.param(
        sent(Thinking(f"I need it.\n{CALL}")),
        "taken out of the reasoning",
        "reasoning",
        OSLO,
        id="a call in the reasoning",
    ),
    pytest.param(
        glued_stream(),
        "split from the call that it was glued to",
        "glued",
        [*OSLO, ("get_weather", {"city": "Rome"})],
        id="two calls in one",
    ),
]


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("reply", "repair", "kind", "calls"), REPAIRS)
def test_a_repair_of_a_response_is_in_the_header_the_log_and_the_metrics(  # noqa: PLR0913
    served: Served,
    actor: Actor,
    reply: Reply,
    repair: str,
    kind: str,
    calls: list[tuple[str, dict[str, Any]]],
    client: str,
    *,
    stream: bool,
) -> None:
    """The header of a stream may be sent before its calls."""
    actor.play(reply)
    limit = "max_output_tokens" if client == "openai-responses" else "max_tokens"
    body = {**request(client, stream=stream), limit: 99}
    answer = ask(served, CLIENTS[client], body)
    assert answer.status == 200
    message = told(client, answer, stream=stream)
    assert [(call.name, call.arguments) for call in message.tool_calls] == calls
    assert message.stop_reason == ("length" if kind == "length" else "tool_use")
    assert stream or f"repaired: {repair}" in answer.headers["x-penstock"]
    assert logged(served, answer)["repairs"].count(repair) == 1
    assert f'penstock_repairs_total{{kind="{kind}"}}' in ask(served, "/metrics").body.decode()
