"""Responses in progress are reported to the pages that may see them, while these watch."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from gateway.inspector.scene import answer_of, asked, said, slowly
from gateway.serving import (
    CLIENTS,
    Actor,
    Served,
    Stage,
    ask,
    asking,
    request_of,
    until,
    upstream_table,
)
from models.loopback_servers import STALL, Reply, stream_of
from penstock.gateway.inspector import handlers, live
from penstock.gateway.inspector.live import GAP, MAX_QUEUED, LiveFeed, Watcher
from penstock.messages import AssistantMessage, Text
from penstock.store import writer

MINE, YOURS = "my-key-is-a-long-secret", "your-key-is-another-one"


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = '[keys.me]\nenv = "ME"\n[keys.you]\nenv = "YOU"\n' + upstream_table(actor, retries=0)
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text, {"ME": MINE, "YOU": YOURS})


def key(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {name}"}


class Watch:
    """A page that watches."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        assert response.status == 200
        assert (response.getheader("content-type") or "").startswith("text/event-stream")
        self._response = response

    def told(self) -> Iterator[tuple[str, Any]]:
        name = ""
        while line := self._response.readline():
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                yield name, json.loads(line[6:])

    def until(self, is_it: Callable[[str, Any], object]) -> list[tuple[str, Any]]:
        """Read until an update fits, and return all updates so far."""
        seen = []
        for name, data in self.told():
            seen.append((name, data))
            if is_it(name, data):
                return seen
        raise AssertionError(f"it was never told: {seen}")


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def watch(stack: ExitStack, served: Served, who: str, query: str = "") -> Watch:
    response = stack.enter_context(asking(served, f"/inspector/api/live{query}", **key(who)))
    return Watch(response)


def has_ended(id_: str) -> Callable[[str, Any], bool]:
    return lambda name, data: name == "row" and data["id"] == id_ and data["state"] != "started"


def test_a_response_is_watched_while_it_arrives(
    served: Served, actor: Actor, stack: ExitStack
) -> None:
    echoed = f"The key is {MINE}. " + "And it is six. " * 30
    data = stream_of("openai-chat", AssistantMessage("m", "m", [Text(echoed)], "stop"))
    actor.play(Reply([data[:-20], STALL]))
    body = request_of("openai-chat", "m")
    with asking(served, CLIENTS["openai-chat"], body, **key(MINE)) as client:
        id_ = client.getheader("x-request-id") or ""
        path = f"/inspector/api/streams/{id_}/live"
        mine = Watch(stack.enter_context(asking(served, path, **key(MINE))))
        (name, row), *more = mine.until(lambda _, data: "six" in json.dumps(data))
        assert (name, row["id"], row["state"]) == ("row", id_, "started")
        events = [event for _, data in more for event in data["events"]]
        text = "".join(event["text"] for event in events if event["type"] == "text_delta")
        assert text.startswith("The key is ***. And it is six.")
        assert sum(size for _, data in more for _, size in data["chunks"]) > 0
        assert ask(served, path, **key(YOURS)).status == 404
    assert {name for name, _ in mine.told()} <= {"more"}  # it ends with the response
    until(lambda: ask(served, f"/v1/requests/{id_}", **key(MINE)).json.get("state") == "aborted")
    assert ask(served, path, **key(MINE)).body == b""


def test_an_answer_is_seen_to_begin_to_go_on_and_to_end(
    served: Served, actor: Actor, stack: ExitStack
) -> None:
    data = stream_of("openai-chat", AssistantMessage("m", "m", [Text("At six.")], "stop"))
    actor.play(Reply([data[:-20], STALL]))
    mine, yours = watch(stack, served, MINE), watch(stack, served, YOURS)
    body = request_of("openai-chat", "m")
    with asking(served, CLIENTS["openai-chat"], body, **key(MINE)) as response:
        id_ = response.getheader("x-request-id") or ""
        response.read(5)
        seen = mine.until(lambda name, data: name == "progress" and data["chunks"])
        assert ("row", "started") in [(name, data.get("state")) for name, data in seen]
        running = {data["id"] for _, data in seen if data.get("state", "started") == "started"}
        assert running == {id_}  # rows of the last seconds may be reported again
        late = watch(stack, served, MINE)
        name, row = next(late.told())
        assert (name, row["id"], row["state"]) == ("row", id_, "started")
    (*_, (_, ended)) = mine.until(has_ended(id_))
    assert ended["state"] == "aborted"
    other = said(actor, served, "Yes.", headers=key(YOURS))
    seen = yours.until(has_ended(other))
    assert {data["id"] for _, data in seen} == {other}


def test_a_response_that_ended_before_is_reported_when_it_is_stored(
    served: Served, actor: Actor, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: not served.gateway.live_feed._watchers)
    monkeypatch.setattr(writer, "BATCH_SECONDS", 1.0)
    actor.play(slowly(actor.api, answer_of(Text("Yes."))))
    body = request_of("openai-chat", "m")
    id_ = ask(served, CLIENTS["openai-chat"], body, **key(MINE)).headers["x-request-id"]
    watch(stack, served, MINE).until(has_ended(id_))


def test_rows_that_were_missed_are_told_first(
    served: Served, actor: Actor, stack: ExitStack
) -> None:
    first = said(actor, served, "One.", headers=key(MINE))
    second = asked(served, "m", headers=key(MINE))
    name, row = next(watch(stack, served, MINE, f"?after={first}").told())
    assert (name, row["id"], row["state"]) == ("row", second, "done")


def test_more_than_a_page_of_missed_rows_is_a_gap(
    served: Served, actor: Actor, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = said(actor, served, "One.", headers=key(MINE))
    mine = [asked(served, "m", headers=key(MINE)) for _ in range(2)]
    asked(served, "m", headers=key(YOURS))  # a row of another key
    monkeypatch.setattr(handlers, "MAX_PAGE", 2)
    told = watch(stack, served, MINE, f"?after={first}").told()
    assert [next(told)[1]["id"] for _ in range(2)] == mine
    monkeypatch.setattr(handlers, "MAX_PAGE", 1)
    told = watch(stack, served, MINE, f"?after={first}").told()
    assert next(told) == ("gap", {})
    assert next(told)[1]["id"] == mine[-1]


def test_more_new_rows_than_can_be_told_are_a_gap_for_all(
    served: Served, actor: Actor, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = watch(stack, served, MINE)
    monkeypatch.setattr(live, "MAX_PAGES", 0)
    mine.until(lambda name, _: name == "gap")
    monkeypatch.setattr(live, "MAX_PAGES", 5)
    id_ = said(actor, served, "One.", headers=key(MINE))
    mine.until(has_ended(id_))


def test_one_key_does_not_take_the_places_of_all(
    served: Served, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_PER_KEY", 1)
    until(lambda: not served.gateway.live_feed._watchers)
    watch(stack, served, MINE)
    assert ask(served, "/inspector/api/live", **key(MINE)).status == 429
    watch(stack, served, YOURS)


def test_one_key_is_not_told_what_others_have_open(
    served: Served, actor: Actor, stack: ExitStack
) -> None:
    actor.play(Reply([STALL]))
    body = request_of("openai-chat", "m", stream=False)
    page = http.client.HTTPConnection("127.0.0.1", served.port, timeout=30)
    stack.callback(page.close)
    page.request("POST", CLIENTS["openai-chat"], json.dumps(body), key(MINE))
    until(lambda: served.gateway.live_feed.open)
    told = {who: ask(served, "/inspector/api/overview", **key(who)).json for who in (MINE, YOURS)}
    assert [one["open"] for one in told.values()] == [1, 0]


def test_what_is_told_is_what_it_says_it_is(served: Served, stack: ExitStack) -> None:
    for path in ("overview", "streams/nobody", "streams/nobody/curl", "live?after=z"):
        response = stack.enter_context(asking(served, f"/inspector/api/{path}", **key(MINE)))
        assert response.getheader("x-content-type-options") == "nosniff"


def test_whoever_leaves_is_not_kept(served: Served) -> None:
    with ExitStack() as stack:
        watch(stack, served, MINE)
        until(lambda: served.gateway.live_feed._watchers)
        assert served.gateway.live_feed._task is not None
    until(lambda: not served.gateway.live_feed._watchers)
    assert served.gateway.live_feed._task is None


def test_one_page_too_many_is_told_so(
    served: Served, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MAX_WATCHERS", 1)
    watch(stack, served, MINE)
    until(lambda: served.gateway.live_feed._watchers)
    assert ask(served, "/inspector/api/live", **key(MINE)).status == 503


def test_a_gateway_that_ends_ends_the_watching(
    stage: Stage, actor: Actor, stack: ExitStack, tmp_path_factory: pytest.TempPathFactory
) -> None:
    served = stage.gateway(tmp_path_factory.mktemp("gateway"), upstream_table(actor))
    response = stack.enter_context(asking(served, "/inspector/api/live"))
    assert response.readline() == b": penstock\n"
    served.stop()
    assert response.read() is not None  # to its end, which a cut would not be
    until(lambda: served.has_ended)


def test_who_does_not_read_misses_rows_and_is_told() -> None:
    watcher = Watcher("me")
    for number in range(MAX_QUEUED + 1):
        watcher.push([("me", b"%d" % number), ("you", b"secret")])
    assert watcher._queue.qsize() == MAX_QUEUED
    assert watcher._queue.get_nowait() == b"0"
    watcher.push([("me", b"new")])
    last = [watcher._queue.get_nowait() for _ in range(MAX_QUEUED)][-1]
    assert last == GAP + b"new"


def test_a_feed_without_watchers_does_nothing() -> None:
    assert LiveFeed()._task is None
