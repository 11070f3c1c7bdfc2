"""A list tells the same of a session whether its file is read whole or at its ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.session.records import HEADER, agent, answer, entry, lines_of, recorded, talk, user
from penstock.agent.session import Session, SessionError, SessionFolder, SessionInfo, sessions_in
from penstock.agent.session.file import READ_BYTES
from penstock.errors import UsageError


def test_a_list_tells_what_a_session_is_about(tmp_path: Path) -> None:
    path = tmp_path / "s1.jsonl"
    data = lines_of(HEADER, *talk("What is\n  this?", "A test.", "Oh."))
    path.write_bytes(data)
    assert sessions_in(tmp_path) == [
        SessionInfo(
            id="s1",
            prompt="What is this?",
            cwd="/home/me",
            created=1000.0,
            updated=1003.0,
            messages=3,
            size=len(data),
            path=path,
        )
    ]


def test_the_session_written_to_last_comes_first_and_strangers_are_left_out(tmp_path: Path) -> None:
    for number, name in enumerate(["old", "new", "mid"]):
        at = {"old": 1, "new": 3, "mid": 2}[name]
        (tmp_path / f"{name}.jsonl").write_bytes(lines_of(HEADER, entry(at, user(f"n{number}"))))
    (tmp_path / "stranger.jsonl").write_text("hello\n")
    (tmp_path / "other.txt").write_bytes(lines_of(HEADER))
    (tmp_path / "folder.jsonl").mkdir()
    os.mkfifo(tmp_path / "pipe.jsonl")  # to be read, it would wait for ever
    assert [info.id for info in sessions_in(tmp_path)] == ["new", "mid", "old"]
    assert sessions_in(tmp_path / "absent") == []


@pytest.mark.parametrize(
    "size", [100, READ_BYTES // 3, READ_BYTES - 5_000, READ_BYTES, 3 * READ_BYTES]
)
async def test_the_ends_of_a_long_file_tell_all(tmp_path: Path, size: int) -> None:
    path = tmp_path / "long.jsonl"
    session = await recorded(path, user("first"), answer("x" * 2 * READ_BYTES))
    await session.rename("named")
    while path.stat().st_size < 5 * READ_BYTES:
        await session.message(answer("x" * size))
    await session.message(user("last"))
    await session.close()
    (info,) = sessions_in(tmp_path)
    assert (info.title, info.prompt) == ("named", "first")
    assert info.messages == path.read_bytes().count(b'"type":"message"')


def test_a_first_prompt_longer_than_what_is_looked_at_is_found(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_bytes(lines_of(HEADER, *talk("word " * READ_BYTES, "a", "b")))
    (info,) = sessions_in(tmp_path)
    assert info.prompt == "word " * 40
    assert info.messages == 3


async def test_a_folder_holds_sessions_by_their_ids(tmp_path: Path) -> None:
    folder = SessionFolder(tmp_path / "sessions", durable=True)
    assert await folder.sessions() == []
    for name, cwd in (("one", "/a"), ("two", "/b"), ("three", "/b")):
        async with Session(agent(), store=folder, id=name, cwd=cwd) as session:
            await session.message(user(f"about {name}"))
    again = agent()
    async with Session(again, store=folder, id="two") as session:
        assert len(again.messages) == 1
        with pytest.raises(SessionError, match="another session"):
            await folder.delete("two")
    assert {info.id for info in await folder.sessions(cwd="/b")} == {"two", "three"}
    assert [info.id for info in await folder.sessions(search="ABOUT t", limit=1)] == ["three"]
    assert await folder.delete("three")
    assert not await folder.delete("three")
    assert {info.id for info in await folder.sessions()} == {"one", "two"}


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "x" * 101, "a\0", "ä"])
def test_an_id_that_is_no_name_for_a_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError):
        SessionFolder(tmp_path).writer(name)
