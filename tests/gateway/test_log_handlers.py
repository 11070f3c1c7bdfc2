"""The log over HTTP: invalid filters, and which client sees what."""

from __future__ import annotations

import base64
import time

import pytest

from gateway.serving import Actor, Served, Stage, ask, upstream_table
from penstock.messages import AssistantMessage, Text
from penstock.store import SessionRow


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    actor.say(AssistantMessage("m", "m", [Text("Yes.")], "stop"))
    return stage.gateway(tmp_path_factory.mktemp("gateway"), upstream_table(actor, retries=0))


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


@pytest.mark.parametrize("before", ["abc", "YWJj", "%C3%A9", cursor("[1]"), cursor('["a",1,2]')])
def test_a_page_of_sessions_that_never_was_is_refused(served: Served, before: str) -> None:
    answer = ask(served, f"/v1/sessions?before={before}")
    assert answer.status == 400
    assert "`before`" in answer.json["error"]["message"]


def test_a_cursor_with_odd_text_is_no_failure(served: Served) -> None:
    before = cursor(r'[1,"\u0000\ud83d\ude00","b"]')
    assert ask(served, f"/v1/sessions?before={before}").status == 200


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "1e999", "x"])
@pytest.mark.parametrize("name", ["since", "until"])
def test_a_time_is_a_finite_number(served: Served, name: str, value: str) -> None:
    assert ask(served, f"/v1/requests?{name}={value}").status == 400
    assert ask(served, f"/v1/requests?{name}=1.5").status == 200


def test_a_state_is_one_of_those_that_there_are(served: Served) -> None:
    answer = ask(served, "/v1/requests?state=nope")
    assert answer.status == 400
    for state in ("started", "done", "failed", "aborted", "interrupted"):
        assert state in answer.json["error"]["message"]
        assert ask(served, f"/v1/requests?state={state}").status == 200


def test_without_keys_every_session_of_the_list_is_shown_and_deleted(served: Served) -> None:
    store = served.gateway.store
    assert store is not None
    now = time.time()
    row = SessionRow(id="theirs", scope="a key of old", created=now, used=now, expires=now + 60)
    assert served.stage.do(store.save(row, within=20.0))
    (listed,) = ask(served, "/v1/sessions").json["data"]
    assert ask(served, "/v1/sessions/theirs").json == listed
    assert ask(served, "/v1/sessions/theirs", method="DELETE").status == 200
    assert ask(served, "/v1/sessions/theirs").status == 404
