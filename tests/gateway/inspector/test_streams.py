"""A stream that passed through a real gateway, as its page shows it."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from gateway.inspector.scene import (
    HERMES,
    answer_of,
    asked,
    in_colour,
    joined,
    page,
    refused,
    said,
    slowly,
)
from gateway.serving import (
    CLIENTS,
    UPSTREAMS,
    Actor,
    Served,
    Stage,
    ask,
    asking,
    request_of,
    until,
    upstream_table,
)
from models.loopback_servers import STALL, Reply, refusal, stream_of
from penstock import _json, apis
from penstock.gateway.inspector import truncate
from penstock.gateway.inspector.analysis import analyse
from penstock.gateway.inspector.playground import TOOLS
from penstock.messages import Text, Thinking, ToolCall
from penstock.store import RequestDetail


@pytest.fixture(scope="module")
def actors(stage: Stage) -> dict[str, Actor]:
    return {api: stage.actor(api) for api in UPSTREAMS}


@pytest.fixture(scope="module")
def served(
    stage: Stage, actors: dict[str, Actor], tmp_path_factory: pytest.TempPathFactory
) -> Served:
    tables = "".join(upstream_table(actor, retries=1) for actor in actors.values())
    models = "".join(f'[models."{api}"]\nupstream = "{api}"\n' for api in UPSTREAMS)
    models += '[models.words]\nupstream = "openai-chat"\ntools = "prompt"\narguments = "whole"\n'
    models += '[models.strict]\nupstream = "openai-chat"\ntools = "prompt"\nsend_back = true\n'
    models += '[models.hermes]\nupstream = "openai-chat"\nformat = "hermes"\n'
    demo = (
        '[upstreams.demo]\napi = "demo"\ndemo = { pace = 0.0 }\n[models.demo]\nupstream = "demo"\n'
    )
    return stage.gateway(tmp_path_factory.mktemp("gateway"), tables + models + demo)


@pytest.fixture(scope="module")
def actor(actors: dict[str, Actor]) -> Actor:
    return actors["openai-chat"]


@pytest.fixture(scope="module")
def logged(served: Served, actor: Actor) -> str:
    """A stream with a call in it, for those who look at it in many ways."""
    return said(actor, served, f"Now.\nLook: {HERMES}", "openai-chat")


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_a_stream_of_every_api_is_shown_with_its_times_and_colours(
    served: Served, actors: dict[str, Actor], upstream: str
) -> None:
    call = "<get_weather><city>Paris</city></get_weather>" if upstream == "qwen" else HERMES
    id_ = said(actors[upstream], served, f"Let me look. {call}", upstream)
    found = page(served, f"streams/{id_}")
    assert joined(found) == f"Let me look. {call}"
    assert in_colour(found, "name") == ["get_weather"]
    assert "Paris" in "".join(in_colour(found, "arguments"))
    assert found["timed"] is True
    times = [ms for ms, _ in found["events"]]
    assert times == sorted(times)
    assert len({ms for ms, _ in found["upstream"]["timeline"]}) > 1
    assert found["row"]["id"] == id_
    assert "get_weather" in [block.get("name") for block in found["message"]["content"]]
    assert found["replayable"] == ""
    assert found["truncated"] == {}


@pytest.mark.parametrize("client", CLIENTS)
def test_the_bytes_of_the_client_are_what_it_got(served: Served, actor: Actor, client: str) -> None:
    actor.play(slowly("openai-chat", answer_of(Text(f"Let me look. {HERMES}"))))
    body = {"model": "openai-chat", "stream": True}
    given = {"input": "Hi"} if client == "openai-responses" else {}
    if client != "openai-responses":
        given = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 50}  # type: ignore[dict-item]
    answer = ask(served, CLIENTS[client], {**body, **given})
    id_ = answer.headers["x-request-id"]
    asked(served, "openai-chat")  # it ends later, so the log has the end of both
    told = page(served, f"streams/{id_}")["client"]
    assert told["stream"] is True
    assert apis.check(client, told["body"].encode()) == []
    assert _undated(told["body"]) == _undated(answer.body.decode())
    edges = [(start, end) for _, start, end in told["pieces"]]
    assert edges[0][0] == 0
    assert all(one[1] == other[0] for one, other in pairwise(edges))


@pytest.mark.parametrize("how", ["as a stream", "whole"])
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_was_refused_is_shown_with_its_refusal(
    served: Served, actor: Actor, client: str, how: str
) -> None:
    actor.play(refusal(401, {"error": {"message": "no such key"}}))
    body = request_of(client, "openai-chat", stream=how == "as a stream")
    answer = ask(served, CLIENTS[client], body)
    assert answer.status == 502
    told = page(served, f"streams/{_logged(served, answer.headers['x-request-id'])}")["client"]
    assert json.loads(told["body"]) == answer.json
    assert (told["stream"], told["note"]) == (False, "the request was refused with status 502")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_that_left_was_told_no_end(served: Served, actor: Actor, client: str) -> None:
    data = stream_of("openai-chat", answer_of(Text("At six, or at seven.")))
    actor.play(Reply([data[: data.index(b'"stop"') - 100], STALL]))
    with asking(served, CLIENTS[client], request_of(client, "openai-chat")) as response:
        id_ = response.getheader("x-request-id") or ""
        got = response.read1().decode()
        until(lambda: _state(served, id_) == "started")
        running = page(served, f"streams/{id_}")["client"]
    found = page(served, f"streams/{_logged(served, id_)}")
    assert found["row"]["state"] == "aborted"
    assert found["client"]["note"].endswith("the client disconnected here")
    assert _undated(found["client"]["body"]).startswith(_undated(got))
    for end in ("[DONE]", "message_stop", "event: error", "completed", "failed", '"error":{'):
        assert end not in found["client"]["body"] + running["body"]
    assert "in progress" in running["note"]
    assert any(one["text"] == "The client disconnected here" for one in found["remarks"])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_stream_that_was_cut_has_the_end_that_its_client_got(
    served: Served, actor: Actor, client: str
) -> None:
    data = stream_of("openai-chat", answer_of(Text("At six, or at seven.")))
    actor.play(Reply([data[: data.index(b'"stop"') - 100], "cut"]))
    answer = ask(served, CLIENTS[client], request_of(client, "openai-chat"))
    told = page(served, f"streams/{_logged(served, answer.headers['x-request-id'])}")["client"]
    assert _undated(told["body"]) == _undated(answer.body.decode())


def _logged(served: Served, id_: str) -> str:
    """Wait until the log has the end of an answer."""
    until(lambda: _state(served, id_) not in ("", "started"))
    return id_


def _state(served: Served, id_: str) -> str:
    return str(ask(served, f"/v1/requests/{id_}").json.get("state", ""))


def _undated(text: str) -> str:
    """Leave out the moment at which an answer was made, and the ids that are new every time."""
    return re.sub(r'"created(_at)?":[\d.]+', "", text)


def test_a_whole_answer_is_the_response_that_was_stored(served: Served, actor: Actor) -> None:
    id_ = said(actor, served, "At six.", "openai-chat", stream=False)
    found = page(served, f"streams/{id_}")
    assert found["client"]["stream"] is False
    assert "At six." in found["client"]["body"]
    assert found["response"]["choices"][0]["message"]["content"] == "At six."


def test_what_came_natively_is_shown_and_named_so(served: Served, actor: Actor) -> None:
    call = ToolCall("c1", "get_weather", {"city": "Paris"})
    actor.play(slowly("openai-chat", answer_of(Thinking("Two cities."), Text("Both."), call)))
    found = page(served, f"streams/{asked(served, 'openai-chat')}")
    assert in_colour(found, "thinking")
    assert "".join(in_colour(found, "thinking")) == "Two cities."
    assert in_colour(found, "name") == ["get_weather"]
    assert found["timed"] is True
    assert "native" in {span[4] for span in found["upstream"]["spans"]}


def test_the_scripted_model_is_shown_as_any_other(served: Served) -> None:
    found = page(served, f"streams/{asked(served, 'demo')}")
    assert found["timed"]
    assert joined(found)
    assert found["replayable"] == ""


def test_repairs_failures_and_limits_are_said_in_words(served: Served, actor: Actor) -> None:
    id_ = said(
        actor, served, "<tool_call>{'name': 'get_weather', 'arguments': {'city': 'P'}", "words"
    )
    found = page(served, f"streams/{id_}")
    (mended, *_) = [one for one in found["remarks"] if one["kind"] == "repair"]
    assert "get_weather" in mended["text"]
    (*_, start) = [span[0] for span in found["upstream"]["spans"] if span[2] == "repaired"]
    assert mended["at"] == start > 0
    assert in_colour(found, "repaired")

    actor.play(refusal(400, {"error": {"message": "no such thing"}}))
    (failed,) = page(served, f"streams/{asked(served, 'openai-chat')}")["remarks"]
    assert failed["kind"] == "error"
    assert (
        failed["text"] == "The upstream refused the request or failed (status 400): no such thing"
    )

    data = stream_of("openai-chat", answer_of(Text(f"Look: {HERMES[:70]}")))
    actor.play(Reply([data[: data.index(b'"stop"')], "cut"]))
    remarks = page(served, f"streams/{asked(served, 'openai-chat')}")["remarks"]
    assert [one["kind"] for one in remarks] == ["cut", "error"]
    assert "is not complete" in remarks[0]["text"]


def test_a_complaint_stands_where_the_text_is_that_it_is_about(
    served: Served, actor: Actor
) -> None:
    broken = "<tool_call>{nonsense}</tool_call>"
    text = f"😀 So: {broken} {HERMES} {broken}"
    id_ = said(actor, served, text, "hermes")
    again = page(served, f"streams/{id_}/replay", {})["analysis"]
    pasted = page(served, "parse", {"text": text, "format": "hermes", "tools": TOOLS})
    for found in (page(served, f"streams/{id_}"), again, pasted):
        places = [one["at"] for one in found["remarks"] if "looks like a tool call" in one["text"]]
        assert places == [text.index(broken) + 1, text.rindex(broken) + 1]


def test_a_repair_is_told_in_the_call_that_was_mended(served: Served) -> None:
    broken = "<tool_call>{'name': 'get_weather', 'arguments': {'city': 'P'}"
    found = page(
        served,
        "parse",
        {"text": HERMES + broken, "format": "hermes", "tools": TOOLS, "repair": True},
    )
    (mended, *_) = [one for one in found["remarks"] if one["kind"] == "repair"]
    assert mended["at"] > len(HERMES)


def test_a_call_that_was_sent_back_is_shown_with_the_answer_behind_it(
    served: Served, actor: Actor
) -> None:
    wrong = '<tool_call>{"name": "get_weather", "arguments": {"days": "many"}}</tool_call>'
    actor.play(*(slowly("openai-chat", answer_of(Text(text))) for text in (wrong, HERMES)))
    found = page(served, f"streams/{asked(served, 'strict')}")
    assert found["upstream"]["responses"] == 2
    assert any("responded 2 times" in one["text"] for one in found["remarks"])
    assert in_colour(found, "name") == ["get_weather"]
    assert joined(found) == wrong + HERMES
    assert found["timed"] is True


def test_each_of_several_choices_is_a_stream_of_its_own(served: Served, actor: Actor) -> None:
    id_ = said(actor, served, f"One. {HERMES}", "openai-chat", n=2)
    asked(served, "openai-chat")
    found = page(served, f"streams/{id_}.1")
    assert in_colour(found, "name") == ["get_weather"]
    assert any("choice 1 of several" in one["text"] for one in found["remarks"])
    assert "several choices" in found["client"]["note"]


# --- again ---


def test_a_replay_with_another_format_says_what_is_different(served: Served, logged: str) -> None:
    again = page(served, f"streams/{logged}/replay", {"format": "pythonic"})
    assert [one["path"] for one in again["differences"]] == ["text", "call 1", "end"]
    assert again["differences"][2]["words"] == "- tool_use\n+ stop"
    assert in_colour(again["analysis"], "name") == []
    same = page(served, f"streams/{logged}/replay", {})
    assert same["differences"] == []
    whole = page(served, f"streams/{logged}/replay", {"arguments": "whole", "reasoning": None})
    assert whole["differences"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"format": "hermez"},
        {"arguments": "later"},
        {"repair": "yes"},
        {"reasoning": 3},
        {"x": 1},
        [],
    ],
)
def test_an_option_that_cannot_be_is_refused(served: Served, logged: str, body: Any) -> None:
    assert refused(served, f"streams/{logged}/replay", body).status == 400


@pytest.mark.parametrize("path", ["streams/nobody", "streams/..%2f..", "streams/nobody/vector"])
def test_what_is_not_there_is_not_found(served: Served, path: str) -> None:
    assert refused(served, path).status == 404


def test_a_stream_has_no_other_parts(served: Served, logged: str) -> None:
    assert refused(served, f"streams/{logged}/passwd").status == 404
    assert refused(served, f"streams/{logged}", {}).status == 404
    assert ask(served, f"/inspector/api/streams/{logged}", method="DELETE").status == 405


# --- long and spoiled ones ---


def detail_of(served: Served, id_: str) -> RequestDetail:
    store = served.gateway.store
    assert store is not None
    detail = served.stage.do(store.request(id_))
    assert detail is not None
    return detail


def test_a_long_stream_is_cut_and_says_so(
    served: Served, logged: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = page(served, f"streams/{logged}")
    monkeypatch.setattr(truncate, "MAX_FIRST_TEXT", 50)
    monkeypatch.setattr(truncate, "MAX_EVENTS", 4)
    monkeypatch.setattr(truncate, "MAX_STRING", 10)
    detail = detail_of(served, logged)
    found = json.loads(_json.encode_wire(analyse(detail)))
    text = joined(found)
    assert joined(whole).startswith(text)
    assert found["upstream"]["spans"][-1][1] == len(text) <= 50
    assert found["truncated"]["upstream.text"] == [len(text), len(joined(whole))]
    assert found["truncated"]["events"] == [4, len(whole["events"])]
    assert len(found["events"]) == 4
    assert len(found["client"]["body"]) == 50
    assert found["truncated"]["strings"][0] == 10
    assert found["request"] == json.dumps(whole["request"])[:50]
    monkeypatch.setattr(truncate, "MAX_EVENTS", 20_000)
    monkeypatch.setattr(truncate, "MAX_EVENT_TEXT", 30)
    cut = json.loads(_json.encode_wire(analyse(detail)))
    assert 1 < len(cut["events"]) < len(whole["events"])
    assert cut["truncated"]["events"] == [len(cut["events"]), len(whole["events"])]
    full = json.loads(_json.encode_wire(analyse(detail, full=True)))
    assert full == page(served, f"streams/{logged}?full=1")
    assert full["truncated"] == {}
    assert full["events"] == whole["events"]


@pytest.mark.parametrize(
    "spoiled",
    [
        {"raw": b"\xff\x00 no stream", "timeline": b"\x01\x02\x03"},
        {"events": b'{"type":"text_delta"}\n{nonsense'},
        {"events": b'{"type":"text_end","index":3,"text":""}\n'},
        {"request": b"["},
        {"notes": {"options": {"format": "of nobody"}, "response_starts": ["x"], "complaints": 3}},
        {"raw": b"", "events": b"", "request": b"", "response": b"", "timeline": b""},
        {"timeline": b"\xff" * 80},
        {"response": b"\xff{", "upstream_request": b"\xff"},
    ],
)
def test_a_log_that_was_spoiled_is_shown_as_far_as_it_can_be(
    served: Served, logged: str, spoiled: dict[str, Any]
) -> None:
    detail = structs.replace(detail_of(served, logged), **spoiled)
    found = json.loads(_json.encode_wire(analyse(detail)))
    spans = found["upstream"]["spans"]
    assert all(one[1] == other[0] for one, other in pairwise(spans))
    assert found["row"]["id"] == logged
