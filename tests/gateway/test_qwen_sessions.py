"""StoredResponses at chat.qwen.ai, as clients of the gateway go on with them."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from gateway.qwen_scene import Scene, Talk, gateway, rows_of
from gateway.serving import DEADLINE, Served, Stage, ask
from penstock.gateway.qwen_sessions import StoredSessions, forget_session
from penstock.models.qwen_sessions import QwenSession
from penstock.store import Store
from store.databases import with_store

ANNA, BERT = "key-of-anna-0123456789", "key-of-bert-0123456789"
KEYS = "".join(
    f'[keys.{name}]\nhash = "sha256:{sha256(key.encode()).hexdigest()}"\n'
    for name, key in (("anna", ANNA), ("bert", BERT))
)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as stage:
        yield stage


@pytest.fixture
def scene(stage: Stage) -> Scene:
    scene = Scene(stage)
    scene.says("One.", "Two.", "Three.", "Four.")
    return scene


@pytest.fixture
def served(stage: Stage, scene: Scene, tmp_path: Path) -> Served:
    return gateway(stage, scene, tmp_path)


def chats(scene: Scene) -> list[str]:
    """Return the chat that each message went to, by the number of the chat."""
    known = list(scene.qwen.chats)
    return [f"chat {known.index(message.chat_id) + 1}" for message in scene.qwen.messages]


def test_a_conversation_goes_on_where_its_hash_is_known(scene: Scene, served: Served) -> None:
    talk = Talk(served)
    assert [talk.say("a"), talk.say("b"), talk.say("c")] == ["One.", "Two.", "Three."]
    assert chats(scene) == ["chat 1"] * 3
    assert scene.qwen.told(1) == "b"
    assert [message.parent_id for message in scene.qwen.messages[1:]] == [
        message.response_id for message in scene.qwen.messages[:-1]
    ]
    (session,) = ask(served, "/v1/sessions").json["data"]
    assert session["turns"] == 3


def test_a_conversation_whose_chain_is_unknown_is_told_whole(scene: Scene, served: Served) -> None:
    talk = Talk(served)
    talk.messages = [
        {"role": "user", "content": "the first question"},
        {"role": "assistant", "content": "an answer of somebody else"},
    ]
    talk.say("and now?")
    assert scene.qwen.messages[0].parent_id is None
    for words in ("the first question", "an answer of somebody else", "and now?"):
        assert words in scene.qwen.told(0)


def test_a_client_that_names_its_session_may_change_what_was_said_before(
    scene: Scene, served: Served
) -> None:
    named, nameless = Talk(served, x_session_id="my-session"), Talk(served)
    for talk in (named, nameless):
        talk.say("a" if talk is named else "another")
        talk.messages[0]["content"] = "(shortened)"
        talk.say("b")
    assert chats(scene) == ["chat 1", "chat 1", "chat 2", "chat 3"]
    assert ask(served, "/v1/sessions/my-session").json["turns"] == 2


def test_two_keys_never_share_a_session(stage: Stage, scene: Scene, tmp_path: Path) -> None:
    served = gateway(stage, scene, tmp_path, KEYS)
    scene.says("One.", "Two.", "Two.", "Three.")
    anna = Talk(served, x_api_key=ANNA, x_session_id="same")
    bert = Talk(served, x_api_key=BERT, x_session_id="same")
    anna.say("a")
    bert.messages = list(anna.messages)  # even with what she said, and the name of her session
    bert.say("b")
    anna.say("b")
    assert chats(scene) == ["chat 1", "chat 2", "chat 1"]
    assert "a" in scene.qwen.told(1)
    shown = ask(served, "/v1/sessions", x_api_key=BERT).json["data"]
    assert [(row["scope"], row["turns"]) for row in shown] == [("bert", 1)]


def test_a_session_ends_half_an_hour_after_its_last_answer(scene: Scene, served: Served) -> None:
    talk = Talk(served)
    talk.say("a")
    passes(served, 29 * 60)
    talk.say("b")
    passes(served, 29 * 60)
    talk.say("c")
    assert chats(scene) == ["chat 1"] * 3, "each answer made it last"
    passes(served, 31 * 60)
    talk.say("d")
    assert chats(scene)[-1] == "chat 2"
    assert all(words in scene.qwen.told(3) for words in ("a", "One.", "b", "Two.", "c", "d"))


def passes(served: Served, seconds: float) -> None:
    """Advance the clock of the sessions."""
    ((left,),) = rows_of(served.database, "SELECT max(expires - used) FROM sessions")
    assert left == pytest.approx(30 * 60)
    moved = f"used = used - {seconds}, expires = expires - {seconds}"
    rows_of(served.database, f"UPDATE sessions SET {moved}")  # noqa: S608 - our own number


def test_a_deleted_session_is_begun_anew(scene: Scene, served: Served) -> None:
    talk = Talk(served, x_session_id="mine")
    talk.say("a")
    assert ask(served, "/v1/sessions/mine", method="DELETE").json["deleted"]
    assert ask(served, "/v1/sessions/mine").status == 404
    talk.say("b")
    assert chats(scene) == ["chat 1", "chat 2"]


@pytest.mark.parametrize("length", [128, 129, 200, 256, 300])
def test_a_session_is_found_by_its_name_however_long_that_is(
    scene: Scene, served: Served, length: int
) -> None:
    talk = Talk(served, x_session_id="s" * length)
    talk.say("a")
    talk.messages[0]["content"] = "(shortened)"  # so that its hash does not help
    talk.say("b")
    assert chats(scene) == ["chat 1", "chat 1"]
    (session,) = ask(served, "/v1/sessions").json["data"]
    assert ask(served, f"/v1/sessions/{session['id']}").json == session


def test_a_server_that_lost_the_chat_is_told_the_whole_conversation(
    scene: Scene, served: Served
) -> None:
    talk = Talk(served)
    talk.say("a")
    scene.qwen.forget_chats()
    assert talk.say("b") == "Two."
    assert "a" in scene.qwen.told(-1)


# --- a store that does not answer ---


def locked(path: Path) -> closing[sqlite3.Connection]:
    """Keep everybody else from writing."""
    connection = sqlite3.connect(path, timeout=20)
    connection.execute("BEGIN EXCLUSIVE")
    return closing(connection)


def session_of(digest: str, chat: str) -> QwenSession:
    now = time.time()
    return QwenSession("s", "key", chat_id=chat, hash=digest, used=now, expires=now + 60)


async def test_what_a_locked_store_could_not_take_is_found_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    async with with_store(Store(f"sqlite:///{path}")) as store:
        sessions = StoredSessions(store, "qwen")
        await sessions.commit(session_of("h1", "old"))
        with locked(path):
            await sessions.commit(session_of("h2", "new"))  # It returns although the lock is held.
            found = await sessions.find("key", "s", "")
            assert found is not None
            assert found.chat_id == "new"
            assert await sessions.find("key", "", "h2") == found
        assert await StoredSessions(store, "other").find("key", "s", "h2") is None


@pytest.mark.parametrize("scope", ["key", None], ids=["of a key", "of anybody"])
async def test_a_session_that_waits_to_be_written_can_be_deleted(
    tmp_path: Path, scope: str | None
) -> None:
    path = tmp_path / "log.db"
    async with with_store(Store(f"sqlite:///{path}")) as store:
        sessions = StoredSessions(store, "qwen")
        assert await store.save(within=DEADLINE), "it is up"
        with locked(path):
            await sessions.commit(session_of("h", "c"))
            assert await sessions.find("key", "s", "h") is not None
            deleting = asyncio.create_task(forget_session(store, scope, "s"))
            await asyncio.sleep(0)  # it has begun
        assert await deleting
        assert await sessions.find("key", "s", "h") is None
        assert not await forget_session(store, scope, "s")


async def test_a_session_is_not_deleted_for_another_key(tmp_path: Path) -> None:
    async with with_store(Store(f"sqlite:///{tmp_path}/log.db")) as store:
        sessions = StoredSessions(store, "qwen")
        await sessions.commit(session_of("h", "c"))
        assert not await forget_session(store, "another", "s")
        assert await sessions.find("key", "s", "") is not None


async def test_a_store_that_cannot_be_read_is_stood_in_for(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/log.db")
    sessions = StoredSessions(store, "qwen")
    store.start()
    await sessions.commit(session_of("h", "c"))
    await store.close()
    found = await sessions.find("key", "", "h")
    assert found is not None
    assert found.chat_id == "c"
    assert await sessions.find("nobody", "s", "h") is None
