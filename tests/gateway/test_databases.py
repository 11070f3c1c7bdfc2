"""Databases that fail under a gateway, and gateways that share one.

Whatever becomes of the database, no request fails and none waits for it: the same load is measured
without the fault and with it. What found no room in the queue is counted, and when the database is
back it is written to again.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.qwen_scene import CHAT, MODEL, Scene, Talk
from gateway.serving import Answer, Stage, ask, request_of, said, until, upstream_table
from gateway.streaming import load, spoken
from gateway.subprocesses import Process, running
from penstock.gateway.qwen_sessions import LOOKUP_SECONDS, SHORT_LOOKUP_SECONDS, StoredSessions
from penstock.models.qwen_sessions import QwenSession
from penstock.store import Store
from store.databases import Postgres, postgres_server, run_name, with_store
from store.databases import until as store_until

STREAMS, ROUNDS = 30, 2
QUEUE = STREAMS * ROUNDS
"""How many records may wait: half of what the load makes, so that some are dropped."""


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with postgres_server(f"{run_name()}-gateway-{os.getpid()}") as server:
        yield server


# --- faults under load ---


class Loaded:
    """A gateway under load, whose database is a file or a server."""

    def __init__(self, stage: Stage, process: Process) -> None:
        self.process = process
        self._stage = stage

    def load(self) -> None:
        """Request many responses; all of them arrive."""
        work = load(self.process.port, "m", streams=STREAMS, rounds=ROUNDS)
        found = self._stage.do(work)
        assert all(stream.is_whole for stream in found.streams)

    def bear(self, fault: Callable[[], Any], *, drops: bool) -> None:
        """Run the load during *fault*, and check that clients notice nothing and it ends."""
        before = self.process.figures()["penstock_log_dropped_total"]
        with fault():
            self.load()
            assert self.process.is_ready
            if drops:
                until(lambda: self.process.figures()["penstock_log_up"] == 0)
                assert self.process.figures()["penstock_log_dropped_total"] > before
        self.wait_until_written()

    def wait_until_written(self) -> None:
        """Wait until a new request is in the log: the store recovers without help."""

        def is_written() -> bool:
            answer = ask(self.process, CHAT, request_of("openai-chat", "m"))
            assert said("openai-chat", answer.body).text
            return _is_logged(self.process, answer)

        until(is_written)
        until(lambda: self.process.figures()["penstock_log_up"] == 1)


def _is_logged(process: Process, answer: Answer) -> bool:
    """Return whether the end of a request is in the log within a second."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        found = ask(process, f"/v1/requests/{answer.headers['x-request-id']}")
        if found.status == 200 and found.json["state"] == "done":
            return True
        time.sleep(0.02)
    return False


@contextmanager
def loaded(stage: Stage, folder: Path, store: str) -> Iterator[Loaded]:
    actor = stage.actor("openai-chat")
    actor.play(spoken())
    settings = f"{upstream_table(actor, 'chat')}[store]\nqueue = {QUEUE}\n"
    with running(folder, settings, store) as (process,):
        yield Loaded(stage, process)


@pytest.fixture(scope="module")
def file(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loaded]:
    folder = tmp_path_factory.mktemp("file")
    with loaded(stage, folder, str(folder / "log.db")) as found:
        yield found


def database_of(loaded: Loaded) -> Path:
    return loaded.process.file.parents[1] / "log.db"


def test_a_locked_file_is_noticed_by_nobody(file: Loaded) -> None:
    @contextmanager
    def lock() -> Iterator[None]:
        with closing(sqlite3.connect(database_of(file), timeout=20)) as other:
            other.execute("BEGIN EXCLUSIVE")
            yield

    file.bear(lock, drops=True)


def test_a_full_disk_is_noticed_by_nobody(file: Loaded) -> None:
    pid = file.process.pid

    @contextmanager
    def fill() -> Iterator[None]:
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (8192, most))
        yield
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))

    file.bear(fill, drops=True)
    with closing(sqlite3.connect(database_of(file))) as other:
        assert other.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_a_file_that_is_removed_is_noticed_by_nobody_and_made_again(file: Loaded) -> None:
    path = database_of(file)

    @contextmanager
    def remove() -> Iterator[None]:
        for each in path.parent.glob("log.db*"):
            each.unlink()
        yield

    file.bear(remove, drops=False)
    assert path.exists()


def test_postgres_stops_and_starts_under_load_and_nobody_notices(
    stage: Stage, tmp_path: Path, postgres: Postgres
) -> None:
    @contextmanager
    def stop() -> Iterator[None]:
        postgres.stop()
        try:
            yield
        finally:
            postgres.start()

    with loaded(stage, tmp_path, postgres.make_database()) as found:
        found.bear(stop, drops=True)


# --- several gateways, one database ---


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "log.db")
    server: Postgres = request.getfixturevalue("postgres")
    return server.make_database()


def test_what_is_begun_on_one_gateway_goes_on_at_another(
    stage: Stage, tmp_path: Path, store: str
) -> None:
    scene = Scene(stage)
    scene.says("One.", "Two.", "Three.", "Four.", "Five.", "Six.")
    with running(tmp_path, scene.settings, store, store) as gateways:
        by_hash, by_name = Talk(*gateways), Talk(*gateways, x_session_id="mine")
        by_name.say("d")
        for at, text in enumerate("abc"):
            settle(gateways)
            by_hash.say(text, at % 2)
        by_name.messages[0]["content"] = "(shortened)"
        by_name.say("e", at=1)
        first, *chats, last = [message.chat_id for message in scene.qwen.messages]
        assert (len(set(chats)), last) == (1, first)
        assert [message.content for message in scene.qwen.messages[2:]] == ["b", "c", "e"]
        go_on_with_responses(scene, gateways)


def settle(gateways: list[Process]) -> None:
    """Wait until all is written: on a busy machine that may take longer than an answer waits."""
    until(lambda: all(is_settled(gateway.figures()) for gateway in gateways))


def is_settled(figures: dict[str, float]) -> bool:
    return figures["penstock_log_up"] == 1 and figures["penstock_log_queue"] == 0


def go_on_with_responses(scene: Scene, gateways: list[Process]) -> None:
    """Begin an answer of the Responses API on one gateway, and go on from it on the other."""
    scene.says("The capital is Oslo.", "It has a harbour.", "Yes.")
    previous = ""
    for at, question in enumerate(("Norway?", "More?", "Really?")):
        settle(gateways)
        body: dict[str, Any] = {"model": MODEL, "input": question, "stream": True}
        if previous:
            body["previous_response_id"] = previous
        answer = ask(gateways[at % 2], "/v1/responses", body)
        assert said("openai-responses", answer.body).text
        previous = f"resp_{answer.headers['x-request-id']}"
    assert len({message.chat_id for message in scene.qwen.messages}) == 1
    assert scene.qwen.told() == "Really?"
    unknown = ask(gateways[0], "/v1/responses", {**body, "previous_response_id": "resp_nobody"})
    assert unknown.status == 404


# --- a database that hangs ---


async def test_a_hanging_database_shortens_the_next_lookup(postgres: Postgres) -> None:
    url = postgres.make_database()
    async with with_store(Store(url)) as store:
        await store_until(lambda: store.health.is_up)
        sessions = StoredSessions(store, "qwen")
        now = time.time()
        kept = QwenSession("s", "key", hash="h", used=now, expires=now + 600)
        await sessions.commit(kept)
        assert await sessions.find("key", "s", "") == kept
        with psycopg.connect(url) as other:
            other.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
            assert sessions._lookup_seconds == LOOKUP_SECONDS
            assert await sessions.find("key", "s", "") == kept, "remembered"
            assert sessions._lookup_seconds == SHORT_LOOKUP_SECONDS
            assert await sessions.find("key", "s", "") == kept, "remembered"
        assert await StoredSessions(store, "qwen").find("key", "s", "") == kept, "in the store"
