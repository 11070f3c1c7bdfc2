"""What passed through a real gateway is read again, and differs only where it should."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from msgspec import structs

from gateway.serving import (
    CLIENTS,
    UPSTREAMS,
    Actor,
    Served,
    Stage,
    ask,
    asking,
    request_of,
    tools_of,
    until,
    upstream_table,
)
from models.loopback_servers import STALL, Reply, refusal, stream_of, streamed
from penstock.errors import UsageError
from penstock.gateway.replay import replay, split_raw
from penstock.messages import AssistantMessage, Text, Thinking, ToolCall, Usage
from penstock.store import RequestDetail, StoreError

HERMES = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}</tool_call>'
WEB = "<get_weather>\n<city>Paris</city>\n<days>3</days>\n</get_weather>"
BROKEN = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris", "days": 3</tool_call>'
PARIS = {"city": "Paris", "days": 3}


def answer_of(*content: Any) -> AssistantMessage:
    return AssistantMessage("m1", "m", [*content], "stop", "", Usage(input=12, output=5, total=17))


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="module")
def actors(stage: Stage) -> dict[str, Actor]:
    return {api: stage.actor(api) for api in UPSTREAMS}


@pytest.fixture(scope="module")
def served(
    stage: Stage, actors: dict[str, Actor], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    """A gateway before all upstreams: models ``api`` as they are, ``api-words`` by prompt."""
    tables = "".join(upstream_table(actor, retries=1) for actor in actors.values())
    models = "".join(
        f'[models."{api}"]\nupstream = "{api}"\n'
        f'[models."{api}-words"]\nupstream = "{api}"\ntools = "prompt"\narguments = "whole"\n'
        for api in UPSTREAMS
    )
    models += '[models.strict]\nupstream = "openai-chat"\ntools = "prompt"\nsend_back = true\n'
    demo = '[upstreams.demo]\napi = "demo"\ndemo = { pace = 0.0 }\n'
    text = f'{tables}{models}{demo}[models.demo]\nupstream = "demo"\n'
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


def detail_of(served: Served, id_: str) -> RequestDetail:
    """Wait until the log has the end of a request, and give it."""
    store = served.gateway.store
    assert store is not None
    found: list[RequestDetail] = []

    def has_ended() -> bool:
        detail = None
        with suppress(StoreError):  # which is not made yet
            detail = served.stage.do(store.request(id_))
        found[:] = [detail] if detail is not None and detail.row.state != "started" else []
        return bool(found)

    until(has_ended)
    return found[0]


def asked_id(served: Served, model: str, client: str = "openai-chat", **more: Any) -> str:
    body = request_of(client, model, tools=tools_of(client), **more)
    return ask(served, CLIENTS[client], body).headers["x-request-id"]


def asked(served: Served, model: str, client: str = "openai-chat", **more: Any) -> RequestDetail:
    return detail_of(served, asked_id(served, model, client, **more))


@pytest.fixture(scope="module")
def logged(served: Served, actors: dict[str, Actor]) -> RequestDetail:
    """What the log has of a plain answer, for those who spoil it or ask too much of it."""
    actors["openai-chat"].say(answer_of(Text("At six.")))
    return asked(served, "openai-chat")


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_a_stream_of_every_api_is_read_again_as_it_was(
    served: Served, actors: dict[str, Actor], upstream: str
) -> None:
    call = WEB if upstream == "qwen" else HERMES
    actors[upstream].say(answer_of(Text(f"Let me look. {call}")))
    ways = [
        (model, stream) for model in (upstream, f"{upstream}-words") for stream in (True, False)
    ]
    ids = [asked_id(served, model, stream=stream) for model, stream in ways]
    for id_ in ids:
        again = await replay(detail_of(served, id_))
        assert again.differences == []
        assert [call.name for call in again.then.tool_calls] == ["get_weather"]
        assert again.now.tool_calls[0].arguments == PARIS
        assert again.now.text == "Let me look."


@pytest.mark.parametrize("client", CLIENTS)
async def test_thoughts_and_native_calls_are_the_same_for_clients_of_every_api(
    served: Served, actors: dict[str, Actor], client: str
) -> None:
    actors["openai-chat"].say(
        answer_of(Thinking("Two cities."), Text("Both."), ToolCall("c1", "get_weather", PARIS))
    )
    again = await replay(asked(served, "openai-chat", client))
    assert again.differences == []
    assert again.now.thinking == "Two cities."
    assert len(again.now.tool_calls) == 1


async def test_another_format_shows_the_call_as_the_text_that_it_is_then(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["openai-chat"].say(answer_of(Text(f"Now.\nLook: {HERMES}")))
    detail = asked(served, "openai-chat")
    again = await replay(detail, format="pythonic")
    assert [one.what for one in again.differences] == ["text", "call 1", "end"]
    text, call, end = (one.lines() for one in again.differences)
    assert text == ["  Now.", "- Look:", f"+ Look: {HERMES}"]
    assert call == ["- get_weather", '-   city: "Paris"', "-   days: 3"]
    assert end == ["- tool_use", "+ stop"]


async def test_options_that_held_then_hold_again(served: Served, actors: dict[str, Actor]) -> None:
    actors["openai-chat"].say(answer_of(Text(HERMES)))
    whole = await replay(asked(served, "openai-chat-words"))
    live = await replay(asked(served, "openai-chat"))
    assert whole.differences == live.differences == []
    assert len(live.events) > len(whole.events) or live.events != whole.events


async def test_what_was_mended_is_the_same_and_shown_where_it_is_not(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["openai-chat"].say(answer_of(Text(BROKEN)))
    detail = asked(served, "openai-chat-words")
    assert detail.row.repairs
    assert (await replay(detail)).differences == []
    unmended = await replay(detail, repair=False)
    assert "call 1" in [one.what for one in unmended.differences]
    assert unmended.complaints


async def test_calls_of_qwen_are_mended_no_more_than_they_were(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["qwen"].say(answer_of(Text("<get_weather>\n<city>Paris</city>\n<days>3")))
    again = await replay(asked(served, "qwen"))
    assert again.differences == []
    assert again.then.tool_calls == []


async def test_tools_none_leaves_text_as_text(served: Served, actors: dict[str, Actor]) -> None:
    actors["openai-chat"].say(answer_of(Text(HERMES)))
    again = await replay(asked(served, "openai-chat"), parse=False)
    assert again.now.text == HERMES


async def test_reasoning_none_leaves_thoughts_in_the_text(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["openai-chat"].say(answer_of(Text("<think>Tides.</think>At six.")))
    detail = asked(served, "openai-chat")
    assert (await replay(detail)).now.thinking == "Tides."
    plain = await replay(detail, reasoning="none")
    assert [one.what for one in plain.differences] == ["thinking", "text"]


@pytest.mark.parametrize("upstream", UPSTREAMS)
async def test_an_answer_that_came_with_the_second_try_is_the_one_that_is_read(
    served: Served, actors: dict[str, Actor], upstream: str
) -> None:
    busy = refusal(503, {"error": {"message": "busy"}}, retry_after="0")
    actors[upstream].play(busy, streamed(upstream, answer_of(Text("At six."))))
    detail = asked(served, upstream)
    assert b"busy" in detail.raw
    again = await replay(detail)
    assert again.differences == []
    assert again.now.text == "At six."


async def test_a_call_that_was_sent_back_is_sent_back_again(
    served: Served, actors: dict[str, Actor]
) -> None:
    wrong = '<tool_call>{"name": "get_weather", "arguments": {"days": "many"}}</tool_call>'
    answers = [streamed("openai-chat", answer_of(Text(text))) for text in (wrong, HERMES)]
    actors["openai-chat"].play(*answers)
    detail = asked(served, "strict")
    again = await replay(detail)
    assert again.differences == []
    assert [call.arguments for call in again.now.tool_calls] == [PARIS]
    one = structs.replace(detail, notes={**detail.notes, "response_starts": []})
    assert (await replay(one)).now.error is not None  # no second answer is known


async def test_a_refusal_of_the_upstream_is_the_same_refusal(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["openai-chat"].play(refusal(400, {"error": {"message": "no such thing"}}))
    detail = asked(served, "openai-chat")
    assert detail.row.state == "failed"
    assert (await replay(detail)).differences == []


@pytest.mark.parametrize("api", ["openai-chat", "ollama"])
async def test_a_refusal_in_no_words_of_the_api_is_the_same_refusal(
    served: Served, actors: dict[str, Actor], api: str
) -> None:
    page = b"<html><body><h1>502 Bad Gateway</h1>\n{nginx}</body></html>"
    actors[api].play(Reply([], 502, {"content-type": "text/html"}, page))
    detail = asked(served, api)
    assert (detail.row.state, detail.row.status) == ("failed", 502)
    again = await replay(detail)
    assert again.differences == []
    assert again.now.error is not None
    assert "Bad Gateway" in again.now.error.message


async def test_a_stream_that_was_cut_ends_in_the_same_way(
    served: Served, actors: dict[str, Actor]
) -> None:
    data = stream_of("openai-chat", answer_of(Text("At six, they say.")))
    actors["openai-chat"].play(Reply([data[: len(data) // 2], "cut"]))
    detail = asked(served, "openai-chat")
    assert detail.row.state == "failed"
    assert (await replay(detail)).differences == []


async def test_of_an_answer_whose_client_left_only_what_it_was_told_counts(
    served: Served, actors: dict[str, Actor]
) -> None:
    data = stream_of("openai-chat", answer_of(Text("At six, they say.")))
    actors["openai-chat"].play(Reply([data[: data.index(b'"stop"')], STALL]))
    body = request_of("openai-chat", "openai-chat")
    with asking(served, CLIENTS["openai-chat"], body) as response:
        id_ = response.getheader("x-request-id") or ""
        assert response.read(10)
    detail = detail_of(served, id_)
    assert detail.row.state == "aborted"
    assert (await replay(detail)).differences == []


async def test_a_request_of_the_older_endpoint_is_read_again(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["openai-chat"].say(answer_of(Text("At six.")))
    answer = ask(served, "/v1/completions", {"model": "openai-chat", "prompt": "When?"})
    assert (await replay(detail_of(served, answer.headers["x-request-id"]))).differences == []


async def test_each_of_several_choices_is_read_again(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["openai-chat"].say(answer_of(Text(f"One. {HERMES}")))
    first = asked(served, "openai-chat", n=2)
    assert (await replay(first)).differences == []
    assert (await replay(detail_of(served, f"{first.row.id}.1"))).differences == []


# --- what cannot be read again ---


async def test_the_scripted_model_is_read_again_as_what_it_would_have_sent(served: Served) -> None:
    assert (await replay(asked(served, "demo"))).differences == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"raw": b"", "request": b""}, "bodies of request .* were not stored"),
        ({"raw": b""}, "got no response"),
        ({"notes": {"cut": True}}, "too long to be stored completely"),
        ({"state": "started"}, "has not ended yet"),
        ({"state": "interrupted"}, "its stream was not stored"),
        ({"upstream_api": ""}, "answered by 'no upstream'"),
        ({"upstream_api": "local"}, "answered by 'local': a model in the process"),
    ],
)
async def test_why_a_request_cannot_be_read_again_is_said(
    logged: RequestDetail, changes: dict[str, Any], why: str
) -> None:
    of_row = {name: value for name, value in changes.items() if hasattr(logged.row, name)}
    rest = {name: value for name, value in changes.items() if name not in of_row}
    changed = structs.replace(logged, row=structs.replace(logged.row, **of_row), **rest)
    with pytest.raises(UsageError, match=why):
        await replay(changed)


@pytest.mark.parametrize(
    "changes", [{"format": "hermez"}, {"arguments": "later"}, {"tools": "x"}, {"reasoning": "?"}]
)
async def test_an_option_that_cannot_be_is_refused(
    logged: RequestDetail, changes: dict[str, str]
) -> None:
    with pytest.raises(UsageError):
        await replay(logged, **changes)


async def test_a_log_whose_bytes_were_spoiled_is_read_without_a_fall(logged: RequestDetail) -> None:
    spoiled = structs.replace(
        logged,
        raw=b"\xff\x00 no stream",
        events=b'{"type":"text_delta"}\n{nonsense',
        timeline=b"\x01\x02\x03",
        request=b"[",
        notes={"options": {"unknown": 1}, "response_starts": ["x"]},
    )
    assert (await replay(spoiled)).now.error is not None


async def test_a_stream_that_is_cut_anywhere_is_read_without_a_fall(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["openai-chat"].say(answer_of(Text(f"Let me look. {HERMES}")))
    detail = asked(served, "openai-chat")
    for end in range(1, len(detail.raw), 97):
        again = await replay(structs.replace(detail, raw=detail.raw[:end], timeline=b""))
        assert all(call.arguments == PARIS for call in again.now.tool_calls if call.complete)


async def test_where_the_log_says_how_answers_begin_each_is_read_for_itself(
    served: Served, actors: dict[str, Actor]
) -> None:
    actors["ollama"].say(answer_of(Text("At six.")))
    detail = asked(served, "ollama")
    refused = b'{"error": "the model is loading"}'
    twice = structs.replace(
        detail,
        raw=refused + detail.raw,
        timeline=array("I", [0, len(refused)]).tobytes() + detail.timeline,
        notes={**detail.notes, "response_starts": [0, 0, len(refused)]},
    )
    assert (await replay(twice)).differences == []
    assert (await replay(structs.replace(twice, timeline=b""))).differences == []
    assert (
        await replay(structs.replace(twice, notes={**detail.notes, "response_starts": [0]}))
    ).differences


def test_pieces_are_those_of_the_timeline_where_it_fits() -> None:
    row: Any = None
    timeline = array("I", [0, 2, 5, 3]).tobytes()
    detail = RequestDetail(row=row, text="", notes={}, raw=b"abcde", timeline=timeline)
    assert split_raw(detail) == [b"ab", b"cde"]
    assert split_raw(structs.replace(detail, raw=b"abc")) == [b"abc"]
    assert split_raw(structs.replace(detail, raw=b"abcdefgh")) == [b"ab", b"cde", b"fgh"]
    assert split_raw(structs.replace(detail, timeline=b"")) == [b"abcde"]
