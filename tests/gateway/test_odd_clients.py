"""Clients that do odd things which real ones do, and bodies at the limits."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from typing import Any

import pytest

from gateway.serving import (
    CLIENTS,
    Actor,
    Answer,
    Served,
    Stage,
    ask,
    request_of,
    told,
    tools_of,
    upstream_table,
)
from models.loopback_servers import Reply, stream_of
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import MAX_CONTAINERS, parse_object

STREAM = stream_of("openai-chat")
CHAT = CLIENTS["openai-chat"]
HELLO = request_of("openai-chat", "m")


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return stage.gateway(tmp_path_factory.mktemp("gateway"), upstream_table(actor, retries=0))


@pytest.fixture(autouse=True)
def _fine(actor: Actor) -> None:
    actor.play(Reply([STREAM]))


def text_of(answer: Answer, client: str = "openai-chat", *, stream: bool = True) -> str:
    return told(client, answer, stream=stream).text


def test_a_client_may_look_whether_anybody_is_there(served: Served) -> None:
    answer = ask(served, "/", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert ask(served, "/").status == 200


PATHS = [
    ("anthropic", "/v1/messages?beta=true"),
    ("anthropic", "/v1/messages/"),
    ("openai-chat", "/v1/chat/completions/"),
    ("openai-chat", "/chat/completions"),
    ("openai-chat", "/v1/chat/completions?api-version=2024-10-01"),
    ("openai-responses", "/v1/responses/"),
]


@pytest.mark.parametrize(("client", "path"), PATHS, ids=[path for _, path in PATHS])
def test_paths_that_clients_use_lead_where_they_mean(
    served: Served, client: str, path: str
) -> None:
    assert text_of(ask(served, path, request_of(client, "m")), client) == "High water at six."


def test_a_message_of_the_system_may_stand_among_the_others(served: Served, actor: Actor) -> None:
    body = request_of("anthropic", "m")
    body["messages"].insert(0, {"role": "system", "content": "Answer in verse."})
    assert ask(served, CLIENTS["anthropic"], body).status == 200
    assert "Answer in verse." in actor.seen[-1].body.decode()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_fields_that_nobody_knows_are_no_mistake(
    served: Served, client: str, *, stream: bool
) -> None:
    odd: dict[str, Any] = {
        "context_management": {"edits": []},
        "output_config": {"effort": "high"},
        "metadata": {"user_id": "u"},
        "thinking": {"type": "adaptive", "budget_tokens": 1024},
        "reasoning_effort": "low",
        "betas": ["a"],
        "x": None,
        "": {"deep": [1, {"er": None}]},
    }
    tools = tools_of(client)
    tools[0] |= {"eager_input_streaming": True, "cache_control": {"type": "ephemeral"}}
    body = request_of(client, "m", stream=stream, tools=tools, **odd)
    body.setdefault("messages", body.get("input"))
    answer = ask(served, CLIENTS[client], body)
    assert text_of(answer, client, stream=stream) == "High water at six."


@pytest.mark.parametrize("options", [{}, {"include_usage": False}, {"odd": 1}, None])
def test_usage_comes_only_where_it_was_asked_for(served: Served, options: Any) -> None:
    body = {**HELLO, "stream_options": options}
    assert b'"usage":{' not in ask(served, CHAT, body).body
    assert b'"usage":{' in ask(served, CHAT, HELLO).body


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json; charset=utf-16", "?"])
def test_what_a_client_calls_its_body_does_not_matter(served: Served, kind: str) -> None:
    assert text_of(ask(served, CHAT, HELLO, content_type=kind)) == "High water at six."


def test_a_body_may_begin_with_a_mark_of_its_bytes(served: Served) -> None:
    assert text_of(ask(served, CHAT, b"\xef\xbb\xbf" + json.dumps(HELLO).encode()))


NO_REQUESTS = {
    "nothing": b"",
    "no JSON": b"{'model': 'm'}",
    "half of it": json.dumps(HELLO).encode()[:-5],
    "two of it": json.dumps(HELLO).encode() * 2,
    "a list": b"[]",
    "a number": b"1",
    "no messages": b'{"model": "m", "input": 5}',
    "messages that are none": b'{"model": "m", "messages": [5], "input": [5]}',
    "bytes that are no text": b'{"model": "\xff"}',
    "a number beyond all": b'{"model": "m", "messages": [], "input": [], "n": '
    + b"9" * 5000
    + b"}",
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("body", NO_REQUESTS.values(), ids=NO_REQUESTS)
def test_what_is_no_request_is_refused_with_a_reason(
    served: Served, actor: Actor, client: str, body: bytes
) -> None:
    before = len(actor.seen)
    answer = ask(served, CLIENTS[client], body)
    assert answer.status == 400
    assert answer.json["error"]["message"]
    assert len(actor.seen) == before


def test_a_path_and_a_method_that_are_not_there_are_refused(served: Served) -> None:
    assert ask(served, "/v2/nothing").status == 404
    assert ask(served, CHAT).status == 405
    assert ask(served, "/v1/models", method="DELETE").status == 405
    assert ask(served, "/%2e%2e/%2e%2e/etc/passwd").status == 404


# --- limits of what a body holds ---


def nested(depth: int) -> bytes:
    """A request whose JSON nests *depth* levels deep."""
    value = b"[" * (depth - 1) + b"]" * (depth - 1)
    return json.dumps(HELLO).encode()[:-1] + b', "odd": ' + value + b"}"


def test_a_body_nests_two_hundred_levels(served: Served) -> None:
    assert ask(served, CHAT, nested(200)).status == 200
    assert ask(served, CHAT, nested(201)).status == 400


@pytest.mark.parametrize("depth", [600, 5_000, 100_000, 1_000_000])
def test_a_body_that_nests_deeper_than_python_can_is_refused(served: Served, depth: int) -> None:
    answer = ask(served, CHAT, nested(depth))
    assert answer.status == 400
    expected = "200 levels" if depth < MAX_CONTAINERS else "brackets"
    assert expected in answer.json["error"]["message"]


def flat(size: int) -> bytes:
    """A request of *size* bytes or a few more, most of them in one list."""
    return json.dumps(HELLO).encode()[:-1] + b', "odd": [0' + b",0" * (size // 2) + b"]}"


@pytest.mark.parametrize("depth", [100_000, 1_000_000])
def test_deep_bodies_are_refused_in_no_more_time_than_flat_ones_are_read(depth: int) -> None:
    def seconds(data: bytes) -> float:
        began = time.process_time()
        with suppress(HTTPError):
            parse_object(data, 200)
        return time.process_time() - began

    deep = nested(depth)
    with pytest.raises(HTTPError):
        parse_object(deep, 200)
    level = flat(len(deep))
    assert parse_object(level, 200)["odd"]
    refused, read = (min(seconds(data) for _ in range(5)) for data in (deep, level))
    assert refused < 5 * read


@pytest.mark.parametrize("what", ["tool", "property"])
def test_a_name_of_a_tool_or_property_has_256_characters_at_most(served: Served, what: str) -> None:
    (tool,) = tools_of("openai-chat")
    for size, status in ((256, 200), (257, 400), (1_500_000, 400)):
        named = {**tool["function"], "name": "n" * size} if what == "tool" else tool["function"]
        if what == "property":
            schema = {"type": "object", "properties": {"n" * size: {"type": "string"}}}
            named = {**named, "parameters": {"type": "array", "items": schema}}
        answer = ask(served, CHAT, {**HELLO, "tools": [{**tool, "function": named}]})
        assert answer.status == status
        if status == 400:
            assert b"longer than 256 characters" in answer.body
            assert len(answer.body) < 1_000


@pytest.mark.parametrize("api", CLIENTS)
def test_a_chosen_tool_has_a_name_of_256_characters_at_most(served: Served, api: str) -> None:
    for size, status in ((256, 200), (257, 400), (1_500_000, 400)):
        choice: dict[str, Any] = {"type": "function", "name": "n" * size}
        if api == "anthropic":
            choice["type"] = "tool"
        elif api == "openai-chat":
            choice = {"type": "function", "function": {"name": "n" * size}}
        answer = ask(
            served, CLIENTS[api], request_of(api, "m", tools=tools_of(api), tool_choice=choice)
        )
        assert answer.status == status
        assert status == 200 or b"longer than 256 characters" in answer.body


def test_a_request_has_1024_tools_at_most(served: Served) -> None:
    (tool,) = tools_of("openai-chat")
    tools = [{**tool, "function": {**tool["function"], "name": f"t{n}"}} for n in range(1025)]
    assert ask(served, CHAT, {**HELLO, "tools": tools[:1024]}).status == 200
    assert ask(served, CHAT, {**HELLO, "tools": tools}).status == 400
