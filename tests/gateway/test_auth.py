"""Authentication and quotas, and that no key is forwarded, logged or shown."""

from __future__ import annotations

import logging
import re
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from gateway.serving import (
    CLIENTS,
    Actor,
    Answer,
    Served,
    Stage,
    ask,
    asking,
    request_of,
    until,
    upstream_table,
)
from models.loopback_servers import STALL, Reply, refusal, stream_of
from penstock.config import describe, hash_key, load
from penstock.gateway.auth import Authenticator, Client, Quota
from penstock.gateway.errors import HTTPError
from penstock.gateway.factory import build
from penstock.gateway.http_exchange import HTTPExchange

ONE, TWO, NARROW = ("psk_one_" + "1" * 40, "psk_two_" + "2" * 40, "psk_nar_" + "3" * 40)
UMLAUT = "schlüssel-für-drei-größen"
STREAM = stream_of("openai-chat")
CHAT = CLIENTS["openai-chat"]


@pytest.fixture(scope="module")
def served(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    text = f"""
[keys.one]
hash = "{hash_key(ONE)}"
[keys.two]
hash = "{hash_key(TWO)}"
concurrency = 1
[keys.narrow]
hash = "{hash_key(NARROW)}"
models = ["small*"]
rate = 2
[keys.umlaut]
hash = "{hash_key(UMLAUT)}"
{upstream_table(actor, retries=0)}"""
    return stage.gateway(tmp_path_factory.mktemp("gateway"), text)


@pytest.fixture(scope="module")
def unlocked(stage: Stage, actor: Actor, tmp_path_factory: pytest.TempPathFactory) -> Served:
    """A gateway that has no keys."""
    return stage.gateway(tmp_path_factory.mktemp("unlocked"), upstream_table(actor, retries=0))


def asked(served: Served, client: str = "openai-chat", model: str = "m", **headers: str) -> Answer:
    return ask(served, CLIENTS[client], request_of(client, model), **headers)


# --- keys ---

WAYS = {
    "a bearer": {"authorization": f"Bearer {ONE}"},
    "a bearer in small letters": {"authorization": f"bearer  {ONE} "},
    "x-api-key": {"x_api_key": ONE},
    "api-key": {"api_key": ONE},
    "a key beside a word that is none": {"authorization": "Bearer none", "x_api_key": ONE},
}


@pytest.mark.parametrize("headers", WAYS.values(), ids=WAYS)
def test_a_key_may_come_in_any_of_the_usual_headers(
    served: Served, actor: Actor, headers: dict[str, str]
) -> None:
    actor.play(Reply([STREAM]))
    assert asked(served, **headers).status == 200


def test_a_key_may_have_letters_beyond_ascii(served: Served, actor: Actor) -> None:
    actor.play(Reply([STREAM]))
    wire = f"Bearer {UMLAUT}".encode().decode("latin-1")  # as clients write UTF-8 into a header
    assert asked(served, authorization=wire).status == 200


WRONG = {
    "none": {},
    "another": {"authorization": "Bearer psk_other"},
    "part of one": {"authorization": f"Bearer {ONE[:-1]}"},
    "an empty one": {"authorization": "Bearer "},
    "one under another scheme": {"authorization": f"Basic {ONE}"},
    "the hash of one": {"x_api_key": hash_key(ONE)},
    "bytes that are no text": {"x_api_key": "\xff\xfe\x80"},
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("headers", WRONG.values(), ids=WRONG)
def test_no_key_and_a_wrong_key_are_refused_in_the_words_of_the_api(
    served: Served, actor: Actor, client: str, headers: dict[str, str]
) -> None:
    before = len(actor.seen)
    answer = asked(served, client, **headers)
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    error = answer.json["error"]
    assert error["message"]
    if client == "anthropic":
        assert (answer.json["type"], error["type"]) == ("error", "authentication_error")
    assert len(actor.seen) == before


@pytest.mark.parametrize("path", ["/v1/models", "/v1/models/m", "/v1/requests", "/metrics"])
def test_everything_but_health_needs_a_key(served: Served, path: str) -> None:
    assert ask(served, path).status == 401
    assert ask(served, path, x_api_key=ONE).status == 200
    assert ask(served, "/health/live").status == 200
    assert ask(served, "/health/ready").status == 200


def test_a_key_may_be_for_some_models_only(served: Served, actor: Actor) -> None:
    actor.play(Reply([STREAM]))
    assert asked(served, model="large-1", x_api_key=NARROW).status == 403
    assert asked(served, model="small-1", x_api_key=NARROW).status == 200


def test_a_key_has_so_many_requests_a_minute(served: Served, actor: Actor) -> None:
    actor.play(Reply([STREAM]))
    answers = [asked(served, model="small-1", x_api_key=NARROW) for _ in range(4)]
    late = [answer for answer in answers if answer.status == 429]
    assert late
    assert all(1 <= int(answer.headers["retry-after"]) <= 30 for answer in late)


def test_a_key_has_so_many_requests_at_a_time(served: Served, actor: Actor) -> None:
    actor.play(Reply([STREAM[:500], STALL]))
    body = request_of("openai-chat", "m")
    with asking(served, CHAT, body, x_api_key=TWO) as response:
        assert response.status == 200
        busy = asked(served, x_api_key=TWO)
        assert (busy.status, busy.headers["retry-after"]) == (429, "1")
    actor.play(Reply([STREAM]))
    until(lambda: asked(served, x_api_key=TWO).status == 200)


def test_the_log_is_shown_to_the_key_that_asked(served: Served, actor: Actor) -> None:
    actor.play(Reply([STREAM]))
    assert asked(served, x_api_key=ONE).status == 200
    until(lambda: ask(served, "/v1/requests", x_api_key=ONE).json["data"])
    mine = ask(served, "/v1/requests", x_api_key=ONE).json["data"]
    assert {row["scope"] for row in mine} == {"one"}
    id_ = mine[0]["id"]
    assert ask(served, f"/v1/requests/{id_}", x_api_key=ONE).status == 200
    assert ask(served, f"/v1/requests/{id_}", x_api_key=NARROW).status == 404


# --- the authenticator alone ---


def guest_of(**allowance: Any) -> tuple[Client, list[float]]:
    return Client("one", Quota(**allowance), 0.0), [0.0]


def test_turns_come_back_evenly() -> None:
    guest, _ = guest_of(rate=60.0)
    for _ in range(60):
        with guest.acquire(0.0):
            pass
    with pytest.raises(HTTPError) as refused, guest.acquire(0.5):
        pass
    assert refused.value.retry_after == pytest.approx(0.5)
    with guest.acquire(1.0):
        pass


def test_who_has_too_many_open_loses_no_turn() -> None:
    guest, _ = guest_of(rate=2.0, concurrency=1)
    with guest.acquire(0.0):
        for _ in range(5):
            with pytest.raises(HTTPError), guest.acquire(0.0):
                pass
    with guest.acquire(0.0):
        pass


def test_what_is_open_counts_when_the_keys_are_read_anew() -> None:
    door = Authenticator({"one": Quota(b"h", concurrency=2)}, clock=lambda: 0.0)
    guest = door._clients["one"]
    with guest.acquire(0.0):
        door.renew({"one": Quota(b"h", concurrency=1)})
        with pytest.raises(HTTPError), door._clients["one"].acquire(0.0):
            pass
    door.renew({})
    assert door.is_open


def test_a_request_counts_for_as_many_answers_as_it_wants() -> None:
    guest, _ = guest_of(concurrency=3)
    with guest.acquire(0.0) as first:
        first.widen(2)
        with guest.acquire(0.0) as second:
            with pytest.raises(HTTPError) as refused:
                second.widen(2)
            assert refused.value.status == 429
        with pytest.raises(HTTPError) as refused:
            first.widen(4)
        assert refused.value.status == 400  # To come back later would not help.
        first.widen(3)
        with pytest.raises(HTTPError), guest.acquire(0.0):
            pass
    with guest.acquire(0.0):
        pass


def test_choices_are_counted_against_the_key(served: Served, actor: Actor) -> None:
    actor.play(Reply([STREAM]))
    body = request_of("openai-chat", "m", n=2)
    answer = ask(served, CHAT, body, authorization=f"Bearer {TWO}")
    assert answer.status == 400
    assert "1 responses at a time" in answer.json["error"]["message"]
    assert ask(served, CHAT, body, authorization=f"Bearer {ONE}").status == 200


def test_workers_share_what_a_key_may_have() -> None:
    door = Authenticator({"one": Quota(b"h", concurrency=3, rate=6)}, clock=lambda: 0.0, workers=2)
    guest = door._clients["one"]
    shared = pytest.raises(HTTPError, match="3 responses at a time, 2 of them per worker")
    with guest.acquire(0.0), guest.acquire(0.0), shared, guest.acquire(0.0):
        pass
    with guest.acquire(0.0) as stay:
        stay.widen(3)  # Nothing else is open: all that the key allows.
    with pytest.raises(HTTPError, match="6 requests per minute") as refused, guest.acquire(0.0):
        pass
    assert refused.value.retry_after == pytest.approx(20.0)
    door.renew({"one": Quota(b"h", rate=1), "new": Quota(b"n", concurrency=2)})
    with (
        guest.acquire(0.0),
        pytest.raises(HTTPError, match="1 requests per minute"),
        guest.acquire(0.0),
    ):
        pass
    new = door._clients["new"]
    with new.acquire(0.0), pytest.raises(HTTPError, match="2 responses"), new.acquire(0.0):
        pass


def test_a_worker_knows_how_many_share_with_it(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f'[keys.one]\nhash = "{hash_key(ONE)}"\nconcurrency = 2\n')
    door = build(load(file, {}, workers=2, no_store=True)).auth
    guest = door.authenticate(caller_of(x_api_key=ONE))
    shared = pytest.raises(HTTPError, match="1 of them per worker")
    with guest.acquire(0.0), shared, guest.acquire(0.0):
        pass


# --- a door without keys, and web pages ---

HERE = ["localhost", "LocalHost:8787", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:8787"]
ELSEWHERE = [
    "evil.example",
    "evil.example:8787",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "localhost@evil.example",
    "evil.example#localhost",
    "evil.example/localhost",
    "192.168.1.5",
    "0.0.0.0:8787",
    "[::2]:80",
    "[::1]evil.example",
    "[::1",
    "localhost:80:80",
    "localhost:x",
    "localhost evil.example",
]


async def _never(*_: object) -> Any:
    raise AssertionError("the door reads headers only")


def caller_of(**headers: str) -> HTTPExchange:
    named = [
        (name.replace("_", "-").encode(), value.encode("latin-1"))
        for name, value in headers.items()
    ]
    return HTTPExchange({"method": "POST", "path": CHAT, "headers": named}, _never, _never)


@pytest.mark.parametrize("name", HERE)
def test_who_means_this_machine_needs_no_key_where_there_is_none(name: str) -> None:
    door = Authenticator({})
    assert door.authenticate(caller_of(host=name)).name == ""
    assert door.authenticate(caller_of(host="localhost:8787", origin=f"https://{name}")).name == ""


@pytest.mark.parametrize("name", ["", *ELSEWHERE])
def test_a_name_that_was_made_to_point_here_is_not_served(name: str) -> None:
    with pytest.raises(HTTPError, match=r"`Host`.*penstock key new.*--insecure") as refused:
        Authenticator({}).authenticate(caller_of(host=name))
    assert refused.value.status == 403


@pytest.mark.parametrize("origin", ["null", "localhost", *(f"http://{one}" for one in ELSEWHERE)])
def test_a_page_from_elsewhere_is_not_served(origin: str) -> None:
    with pytest.raises(HTTPError, match=r"`Origin`.*penstock key new.*--insecure") as refused:
        Authenticator({}).authenticate(caller_of(host="localhost:8787", origin=origin))
    assert refused.value.status == 403


def test_the_host_to_listen_on_is_this_machine_too() -> None:
    door = Authenticator({}, host="Box.lan")
    assert door.authenticate(caller_of(host="box.LAN:8787", origin="http://box.lan")).name == ""
    with pytest.raises(HTTPError):
        Authenticator({}).authenticate(caller_of(host="box.lan:8787"))


def test_names_do_not_matter_where_a_key_does_or_nobody_cares() -> None:
    foreign = {"host": "gateway.example", "origin": "https://app.example"}
    assert Authenticator({}, insecure=True).authenticate(caller_of(**foreign)).name == ""
    door = Authenticator({"one": Quota(sha256(ONE.encode()).digest())})
    assert door.authenticate(caller_of(**foreign, authorization=f"Bearer {ONE}")).name == "one"
    door.renew({})
    with pytest.raises(HTTPError):
        door.authenticate(caller_of(**foreign))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_form_of_a_page_reaches_no_upstream(unlocked: Served, actor: Actor, client: str) -> None:
    """A form needs no leave of ours to be sent, as long as it is plain text."""
    before = len(actor.seen)
    page = {"origin": "https://evil.example", "content_type": "text/plain"}
    answer = asked(unlocked, client, **page)
    assert answer.status == 403
    assert "--insecure" in answer.json["error"]["message"]
    assert asked(unlocked, client, host="evil.example").status == 403
    assert len(actor.seen) == before


def test_health_is_told_under_any_name(unlocked: Served) -> None:
    assert ask(unlocked, "/v1/requests", host="evil.example").status == 403
    assert ask(unlocked, "/health/live", host="evil.example").status == 200
    assert ask(unlocked, "/v1/models").status == 200


# --- what is sent to the upstream ---


def test_no_secret_and_no_cookie_of_a_client_reaches_the_upstream(
    served: Served, actor: Actor
) -> None:
    actor.play(Reply([STREAM]))
    answer = asked(
        served,
        authorization="Bearer none",
        x_api_key=ONE,
        api_key="canary-0",
        cookie="session=canary-1",
        proxy_authorization="Basic canary-2",
        x_goog_api_key="canary-3",
        x_forwarded_for="10.9.8.7",
        x_forwarded_host="evil.example",
        forwarded="for=10.9.8.7",
        anthropic_beta="tools-2099",
        te="trailers",
        x_custom="canary-4",
    )
    assert answer.status == 200
    headers = actor.seen[-1].headers
    text = repr(headers)
    assert "canary" not in text
    assert ONE not in text
    assert "evil.example" not in text
    assert "10.9.8.7" not in text
    assert not {"cookie", "te", "forwarded", "x-custom"} & headers.keys()
    assert headers["anthropic-beta"] == "tools-2099"
    assert headers["host"] == actor.url.removeprefix("http://")


@pytest.mark.parametrize(
    "field", ["base_url", "api_base", "url", "upstream", "host", "proxy", "endpoint"]
)
def test_a_client_cannot_choose_the_address_of_the_upstream(
    served: Served, actor: Actor, field: str
) -> None:
    actor.play(Reply([STREAM]))
    before = len(actor.seen)
    evil = "http://127.0.0.1:9/evil"
    body = {**request_of("openai-chat", "m"), field: evil, "extra_body": {field: evil}}
    headers = {"x_api_key": ONE, f"x_{field}": evil, "x_penstock_upstream": evil}
    answer = ask(served, f"{CHAT}?{field}={evil}", body, **headers)
    assert answer.status == 200
    assert len(actor.seen) == before + 1
    assert actor.seen[-1].path == "/v1/chat/completions"


@pytest.mark.parametrize("model", ["http://127.0.0.1:9/evil", "../../admin", "a\r\nx: y", "m\0"])
def test_the_name_of_a_model_is_nothing_but_a_name(
    served: Served, actor: Actor, model: str
) -> None:
    actor.play(Reply([STREAM]))
    answer = asked(served, model=model, x_api_key=ONE)
    assert answer.status in (200, 400, 404)
    if answer.status == 200:
        assert actor.seen[-1].path == "/v1/chat/completions"
        assert actor.seen[-1].json["model"] == model


# --- canaries ---

CANARIES = {
    "the client's key": "psk_canary_client_" + "a" * 24,
    "the upstream's key": "sk-canary-upstream-" + "b" * 24,
    "a header of the settings": "canary-header-" + "c" * 24,
    "a secret in the query": "canary-query-" + "d" * 24,
    "a cookie": "canary-cookie-" + "e" * 24,
    "a wrong key": "psk_canary_wrong_" + "f" * 24,
}


def test_no_canary_is_found_in_log_database_figures_or_errors(
    stage: Stage, actor: Actor, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Six secrets go through headers, body, URL, settings and the errors of the upstream."""
    client, upstream, header, query, cookie, wrong = CANARIES.values()
    table = upstream_table(actor, retries=1, key_env="UPSTREAM")
    text = f'[server]\nlog_level = "debug"\n[keys.one]\nenv = "CLIENT"\n{table}'
    text += f'[upstreams.openai-chat.headers]\nx-secret-key = "{header}"\n'
    caplog.set_level(logging.DEBUG)
    served = stage.gateway(tmp_path, text, {"CLIENT": client, "UPSTREAM": upstream})
    echo = refusal(400, {"error": {"message": f"bad key {upstream} {header}, {client}"}})
    page = Reply(status=500, whole=f"<html>{upstream} {header}</html>".encode())
    in_band = Reply([b'data: {"error": {"message": "%s"}}\n\n' % upstream.encode()])
    fine = Reply([STREAM.replace(b"High water", upstream.encode())])
    bodies = []
    for reply in (echo, page, in_band, fine):
        actor.play(reply)
        for api, path in CLIENTS.items():
            body = request_of(api, "m", user=client, metadata={"key": upstream})
            given = {"authorization": f"Bearer {client}", "cookie": f"s={cookie}"}
            answer = ask(served, f"{path}?api_key={query}", body, **given)
            bodies.append(answer.body if answer.status != 200 else b"")
    bodies.append(asked(served, authorization=f"Bearer {wrong}").body)
    bodies.append(ask(served, f"/nowhere?key={query}", x_api_key=client).body)
    figures = ask(served, "/metrics", x_api_key=client).body
    until(lambda: len(ask(served, "/v1/requests", x_api_key=client).json["data"]) == 12)
    listed = ask(served, "/v1/requests", x_api_key=client).json["data"]
    until(lambda: all(row["state"] in ("done", "failed") for row in _rows(served)))
    shown = [ask(served, f"/v1/requests/{row['id']}", x_api_key=client).body for row in listed]
    tables = _tables(tmp_path / "penstock.db")
    files = b"".join(path.read_bytes() for path in tmp_path.glob("penstock.db*"))
    places = {
        "errors": b"".join(bodies),
        "figures": figures,
        "the log over HTTP": b"".join(shown),
        "the files of the database": files,
        **tables,
        "stderr": caplog.text.encode(),
        "the settings": describe(served.settings).encode() + repr(served.settings).encode(),
    }
    hits = [
        (place, name)
        for place, data in places.items()
        for name, secret in CANARIES.items()
        if secret.encode() in data
    ]
    assert hits == [], hits


def _rows(served: Served) -> list[dict[str, Any]]:
    key = CANARIES["the client's key"]
    rows: list[dict[str, Any]] = ask(served, "/v1/requests", x_api_key=key).json["data"]
    return rows


def _tables(path: Path) -> dict[str, bytes]:
    """Return what each table of the database holds, with what is squeezed unfolded."""
    with closing(sqlite3.connect(path)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: b"\n".join(_values(database, name)) for (name,) in names}


def _values(database: sqlite3.Connection, table: str) -> Iterator[bytes]:
    for row in database.execute(f'SELECT * FROM "{table}"'):  # noqa: S608 - its own names
        for value in row:
            data = value if isinstance(value, bytes) else str(value).encode()
            yield data
            for begin in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
                with suppress(zlib.error):
                    yield zlib.decompressobj().decompress(data[begin.start() :])
