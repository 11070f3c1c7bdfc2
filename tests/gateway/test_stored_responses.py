"""Answers of the Responses API: what they say of themselves, and how they are found again."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gateway.serving import (
    DEADLINE,
    Actor,
    Answer,
    Served,
    Stage,
    ask,
    request_of,
    said,
    upstream_table,
)
from models.loopback_servers import CUT, Reply, stream_of
from penstock.gateway.stored_responses import MAX_LIFETIME, StoredResponses
from penstock.messages import AssistantMessage, Text, ToolCall
from penstock.redaction import Redactor
from penstock.store import ResponseRow, Store
from store.databases import with_store

ANNA, BERT = "key-of-anna-0123456789", "key-of-bert-0123456789"
KEYS = "".join(
    f'[keys.{name}]\nhash = "sha256:{sha256(key.encode()).hexdigest()}"\n'
    for name, key in (("anna", ANNA), ("bert", BERT))
)
API, PATH = "openai-responses", "/v1/responses"
RAIN = AssistantMessage("m", "m", [Text("It rains.")], "stop")
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
GIVEN: dict[str, Any] = {
    "instructions": "Be brief.",
    "tools": [TOOL],
    "tool_choice": "none",
    "temperature": 0.5,
    "top_p": 0.9,
    "max_output_tokens": 77,
    "metadata": {"a": "b"},
    "parallel_tool_calls": False,
    "user": "somebody",
}

both = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    actor.say(RAIN)
    text = KEYS + upstream_table(actor, retries=0)
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


def responses_of(answer: Answer, *, stream: bool) -> list[dict[str, Any]]:
    """Return the response objects of a stream, which must be valid; the last is its end."""
    assert answer.status == 200, answer.body
    if not stream:
        return [answer.json]
    said(API, answer.body)
    lines = [line for line in answer.body.splitlines() if line.startswith(b"data: ")]
    events = [json.loads(line.removeprefix(b"data: ")) for line in lines]
    return [event["response"] for event in events if "response" in event]


def respond(served: Served, *, stream: bool = False, key: str = ANNA, **more: Any) -> Any:
    """Request a response; return it as its end has it."""
    answer = ask(served, PATH, request_of(API, "m", stream=stream, **more), x_api_key=key)
    return responses_of(answer, stream=stream)[-1]


def look(served: Served, path: str, key: str = ANNA, method: str = "GET") -> Answer:
    return ask(served, f"{PATH}/{path}", method=method, x_api_key=key)


# --- what an answer says of itself ---


@both
def test_a_call_of_a_tool_with_free_text_is_told_as_one(
    served: Served, actor: Actor, *, stream: bool
) -> None:
    asked = ToolCall("call_1", "patch", {"input": "*** Begin"})
    actor.say(AssistantMessage("m", "m", [asked], "tool_use"))
    tools = [{"type": "custom", "name": "patch"}]
    request = request_of(API, "m", stream=stream, tools=tools)
    try:
        answer = ask(served, PATH, request, authorization=f"Bearer {ANNA}")
    finally:
        actor.say(RAIN)
    (item,) = responses_of(answer, stream=stream)[-1]["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin")


@both
def test_an_answer_repeats_what_was_asked(served: Served, *, stream: bool) -> None:
    wanted = {"reasoning": {"effort": "low"}, "text": {"verbosity": "low"}}
    body = request_of(API, "m", stream=stream, **GIVEN, **wanted)
    answers = responses_of(ask(served, PATH, body, x_api_key=ANNA), stream=stream)
    assert len(answers) == (3 if stream else 1)
    for found in answers:
        assert {name: found[name] for name in GIVEN} == GIVEN
        assert found["reasoning"] == {"effort": "low", "summary": None}
        assert found["text"] == {"format": {"type": "text"}, "verbosity": "low"}
        assert (found["store"], found["previous_response_id"]) == (True, None)


@both
def test_an_answer_to_a_bare_request_is_as_ever(served: Served, *, stream: bool) -> None:
    found = respond(served, stream=stream)
    assert (found["instructions"], found["tools"], found["tool_choice"]) == (None, [], "auto")
    assert found["text"] == {"format": {"type": "text"}}
    assert found["output"][0]["content"][0]["text"] == "It rains."


def test_what_cannot_be_is_not_repeated(served: Served) -> None:
    odd: dict[str, Any] = {
        "tools": None,
        "user": 5,
        "metadata": None,
        "tool_choice": None,
        "text": None,
    }
    found = respond(served, stream=True, **odd)
    assert (found["tools"], found["user"], found["metadata"]) == ([], None, {})


@both
def test_an_answer_names_the_one_before_it(served: Served, *, stream: bool) -> None:
    first = respond(served, stream=stream)
    second = respond(served, stream=stream, previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]


@both
def test_an_answer_that_is_not_to_be_stored_says_so_and_is_not(
    served: Served, *, stream: bool
) -> None:
    found = respond(served, stream=stream, store=False)
    assert found["store"] is False
    assert look(served, found["id"]).status == 404
    body = request_of(API, "m", previous_response_id=found["id"])
    assert ask(served, PATH, body, x_api_key=ANNA).status == 404


def test_an_answer_that_failed_says_that_it_is_not_stored(served: Served, actor: Actor) -> None:
    data = stream_of("openai-chat")
    actor.play(Reply([data[: len(data) // 2], CUT]))
    try:
        failed = respond(served, stream=True)
    finally:
        actor.say(RAIN)
    assert (failed["status"], failed["store"]) == ("failed", False)
    assert look(served, failed["id"]).status == 404


# --- how it is found again ---


@both
def test_an_answer_is_shown_at_once_as_it_was_given(served: Served, *, stream: bool) -> None:
    found = respond(served, stream=stream, **GIVEN)
    assert look(served, found["id"]).json == found


def test_an_answer_of_another_api_is_no_response(served: Served) -> None:
    body = request_of("openai-chat", "m", stream=False)
    answer = ask(served, "/v1/chat/completions", body, x_api_key=ANNA)
    assert look(served, f"resp_{answer.headers['x-request-id']}").status == 404


def test_nobody_sees_or_deletes_the_answer_of_another(served: Served) -> None:
    id_ = respond(served)["id"]
    for path, method in ((id_, "GET"), (f"{id_}/input_items", "GET"), (id_, "DELETE")):
        assert look(served, path, BERT, method).status == 404
    assert look(served, id_).status == 200


def test_a_deleted_answer_is_gone_from_everywhere(served: Served) -> None:
    id_ = respond(served)["id"]
    gone = look(served, id_, method="DELETE")
    assert gone.json == {"id": id_, "object": "response", "deleted": True}
    assert look(served, id_).status == 404
    assert look(served, id_, method="DELETE").status == 404
    body = request_of(API, "m", previous_response_id=id_)
    assert ask(served, PATH, body, x_api_key=ANNA).status == 404


def test_the_items_before_an_answer_are_listed_the_newest_first(served: Served) -> None:
    first = respond(served, input="Hello")
    second = respond(served, input="And then?", previous_response_id=first["id"])
    listed = look(served, f"{second['id']}/input_items").json
    assert (listed["object"], listed["has_more"]) == ("list", False)
    items = listed["data"]
    assert [item["content"] for item in items[::2]] == ["And then?", "Hello"]
    assert items[1] == first["output"][0]
    assert (listed["first_id"], listed["last_id"]) == (items[0]["id"], items[2]["id"])
    turned = look(served, f"{second['id']}/input_items?order=asc").json
    assert turned["data"] == items[::-1]
    assert look(served, f"{second['id']}/input_items?order=odd").status == 400
    assert look(served, f"{second['id']}/nothing").status == 404


# --- where it is kept ---


async def keep(conversations: StoredResponses, id_: str = "resp_1") -> None:
    response = {"id": id_, "model": "m", "output": [{"type": "message", "content": "secret"}]}
    said_ = conversations.pack_input({"input": "a question"})
    await conversations.keep(said_, response, "anna", "", Redactor())


@asynccontextmanager
async def in_store(folder: Path) -> AsyncIterator[Store]:
    """Start a store and wait until it is up."""
    async with with_store(Store(f"sqlite:///{folder}/log.db")) as store:
        assert await store.save(within=DEADLINE), "an empty save waits for all before it"
        yield store


async def test_another_gateway_on_the_same_store_knows_the_answer(tmp_path: Path) -> None:
    async with in_store(tmp_path) as store:
        await keep(StoredResponses(store))
        assert await store.save(within=DEADLINE)
        found = await StoredResponses(store).find("resp_1", "anna")
        assert found is not None
        assert found.response["id"] == "resp_1"
        assert [item["content"] for item in found.conversation] == ["a question", "secret"]


async def test_without_bodies_an_answer_is_kept_in_memory_alone(tmp_path: Path) -> None:
    async with in_store(tmp_path) as store:
        conversations = StoredResponses(store, bodies=False, keep_seconds=store.keep_seconds)
        await keep(conversations)
        assert await conversations.find("resp_1", "anna") is not None
        assert await StoredResponses(store).find("resp_1", "anna") is None
        assert store.health.queued == store.health.written == 0
        assert await conversations.delete("resp_1", "anna")
        assert not await conversations.delete("resp_1", "anna")


@pytest.mark.parametrize(("given", "kept"), [(60.0, 60.0), (float("inf"), MAX_LIFETIME)])
async def test_an_answer_is_kept_no_longer_than_records_are(
    tmp_path: Path, given: float, kept: float
) -> None:
    async with in_store(tmp_path) as store:
        await keep(StoredResponses(store, keep_seconds=given))
        assert await store.save(within=DEADLINE)
        row = await store.response("resp_1", scope="anna")
        assert row is not None
        assert row.expires - row.created == pytest.approx(kept)


async def test_an_expired_answer_is_not_found_in_memory_either() -> None:
    conversations = StoredResponses(None, keep_seconds=0.0)
    await keep(conversations)
    assert await conversations.find("resp_1", "anna") is None
    assert not await conversations.delete("resp_1", "anna")


async def test_an_answer_that_was_kept_as_a_bare_list_can_be_gone_on_from(tmp_path: Path) -> None:
    async with in_store(tmp_path) as store:
        items = [{"type": "message", "role": "user", "content": "long ago"}]
        data = zlib.compress(json.dumps(items).encode())
        row = ResponseRow(id="resp_0", scope="anna", expires=time.time() + 60, data=data)
        assert await store.save(row, within=DEADLINE)
        asked = {"previous_response_id": "resp_0", "input": "now"}
        found = await StoredResponses(store).expand(asked, "anna")
        assert [item["content"] for item in found["input"]] == ["long ago", "now"]
