"""A database keeps sessions as files do: each entry committed, in order, for one writer."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from agent.session.records import RESULT, TALK, agent, answer, texts, user
from penstock.agent.session import (
    MessageEntry,
    Session,
    SessionDatabase,
    SessionError,
    SessionInfo,
    read_session,
)
from penstock.agent.session.entries import VERSION, Entry, Header, TitleEntry, write_line
from penstock.errors import UsageError
from penstock.store import AgentSessionRow, AgentSessions, Store, upgrade
from store.databases import downgrade, rows, started


def empty(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def count(url: str) -> int:
    return int(rows(url, "SELECT count(*) FROM agent_entries")[0][0])


async def test_a_session_is_written_and_given_back(url: str) -> None:
    async with SessionDatabase(url) as database:
        assert await database.sessions() == []
        async with Session(agent(), store=database, id="s1", cwd="/a", title="T") as session:
            await session.note("early")
            assert count(url) == 0  # nothing yet
            for number, message in enumerate(TALK):
                await session.message(message)
                assert count(url) == 4 + number  # committed, as anybody sees
            await session.rename("Titled")
    async with SessionDatabase(url) as database:
        again = agent()
        async with Session(again, store=database, id="s1") as session:
            assert again.messages == TALK
            assert session.title == "Titled"
            assert session.faults == []
        (info,) = await database.sessions(cwd="/a")
        assert info == SessionInfo(
            id="s1",
            title="Titled",
            prompt="read it",
            cwd="/a",
            created=session.header.created,
            updated=session.entries[-1].time,
            messages=4,
            size=info.size,
        )
    (size,) = rows(url, "SELECT sum(length(data)) FROM agent_entries")[0]
    assert rows(url, "SELECT size FROM agent_sessions")[0][0] == size


async def test_sessions_are_listed_searched_and_deleted(url: str) -> None:
    async with SessionDatabase(url) as database:
        deep = "/b" * 400
        for name, cwd in (("one", "/a"), ("two", deep), ("three", deep)):
            async with Session(agent(), store=database, id=name, cwd=cwd) as session:
                await session.message(user(f"50% of {name}"))
        assert [info.id for info in await database.sessions()] == ["three", "two", "one"]
        assert [info.id for info in await database.sessions(cwd=deep, limit=1)] == ["three"]
        assert [info.id for info in await database.sessions(search="% OF t")] == [
            "three",
            "two",
        ]
        assert await database.delete("three")
        assert not await database.delete("three")
        assert [info.id for info in await database.sessions(cwd=deep)] == ["two"]
        assert count(url) == 2 * 3


async def test_branches_and_forks_are_the_same_as_in_a_file(
    sqlite_url: str, tmp_path: Path
) -> None:
    async with SessionDatabase(sqlite_url) as database:
        session = await Session(agent(), store=database, id="s").open()
        for message in (user("a"), answer("b"), user("c")):
            await session.message(message)
        at = [item.id for item in session.entries if isinstance(item, MessageEntry)][1]
        await session.branch(at)
        await session.message(user("d"))
        fork = await session.fork(id="f")
        assert texts(fork.agent.messages) == ["a", "b", "d"]
        out = await fork.fork(path=tmp_path / "out.jsonl")  # and out into a file
        await out.close()
        parents = {info.id: info.parent for info in await database.sessions()}
        assert parents == {"s": "", "f": "s"}
        again = agent()
        async with Session(again, store=database, id="s") as session:
            assert texts(again.messages) == ["a", "b", "d"]
            assert len(session.branches) == 2
            with pytest.raises(SessionError, match="already"):
                await session.fork(id="f")
    assert read_session(tmp_path / "out.jsonl").entries == out.entries


async def test_of_two_that_go_on_with_one_session_the_second_is_refused(url: str) -> None:
    async with SessionDatabase(url) as here, SessionDatabase(url) as there:
        first = await Session(agent(), store=here, id="s").open()
        await first.message(user("a"))
        second = await Session(agent(), store=there, id="s").open()
        await first.message(answer("b"))
        with pytest.raises(SessionError, match="another process"):
            await second.message(answer("c"))
        await first.message(user("d"))
        await first.close()
        with pytest.raises(SessionError, match="another process"):
            await second.close()  # what it had to say is lost, and it says so
        again = agent()
        async with Session(again, store=here, id="s"):
            assert texts(again.messages) == ["a", "b", "d"]


async def test_writers_that_race_for_a_session_lose_nothing_that_was_acknowledged(url: str) -> None:
    async with SessionDatabase(url) as here, SessionDatabase(url) as there:
        sessions = [await Session(agent(), store=one, id="s").open() for one in (here, there)]
        results = await asyncio.gather(
            *(one.message(user(name)) for one, name in zip(sessions, "ab", strict=True)),
            return_exceptions=True,
        )
        won = [name for name, result in zip("ab", results, strict=True) if result is None]
        assert len(won) == 1
        again = agent()
        async with Session(again, store=here, id="s"):
            assert texts(again.messages) == won
        for session in sessions:
            with suppress(SessionError):  # the one that lost
                await session.close()


async def test_a_session_that_was_deleted_is_written_anew(url: str) -> None:
    async with SessionDatabase(url) as database:
        async with Session(agent(), store=database, id="s") as session:
            await session.message(user("a"))
            await database.delete("s")
            await session.message(answer("b"))
            await session.message(user("c"))
        again = agent()
        async with Session(again, store=database, id="s"):
            assert texts(again.messages) == ["a", "b", "c"]
        (info,) = await database.sessions()
        assert (info.messages, info.prompt) == (3, "a")


async def test_what_was_committed_without_our_knowing_is_not_written_twice(url: str) -> None:
    async with SessionDatabase(url) as database:
        async with Session(agent(), store=database, id="s") as session:
            await session.message(user("a"))
            writer = session._log._writer
            writer._next = 0  # type: ignore[attr-defined] # as if the answer had been lost
            everything: list[Header | Entry] = [session.header, *session.entries]
            await writer.append([write_line(item) for item in everything])
            await session.message(answer("b"))
        assert count(url) == 4


async def test_a_database_that_was_taken_away_gets_all_of_it_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    async with SessionDatabase(f"sqlite:///{path}") as database:
        async with Session(agent(), store=database, id="s") as session:
            await session.message(user("a"))
            empty(tmp_path)
            await session.message(answer("b"))
        again = agent()
        async with Session(again, store=database, id="s"):
            assert texts(again.messages) == ["a", "b"]


async def test_a_connection_that_was_cut_is_made_again(postgres_url: str) -> None:
    url = postgres_url
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    )
    async with (
        SessionDatabase(url) as database,
        Session(agent(), store=database, id="s") as session,
    ):
        await session.message(user("a"))
        rows(url, f"{cut} AND pid <> pg_backend_pid()")
        await session.message(answer("b"))
        rows(url, f"{cut} AND pid <> pg_backend_pid()")
        assert [info.messages for info in await database.sessions()] == [2]
    assert count(url) == 4


async def test_what_no_database_takes_as_text_is_taken(url: str) -> None:
    async with SessionDatabase(url) as database:
        async with Session(agent(), store=database, title="nul \0 \ud800") as session:
            await session.message(user("nul \0 half \ud800 end"))
            await session.message(RESULT)
        again = agent()
        async with Session(again, store=database, id=session.id):
            assert texts(again.messages)[0] == "nul \0 half \ud800 end"
        (info,) = await database.sessions()
        assert info.title == "nul \ufffd \ufffd"


async def test_a_gateway_writes_to_the_same_database(sqlite_url: str) -> None:
    store = Store(sqlite_url)
    store.start()
    async with (
        SessionDatabase(sqlite_url) as database,
        Session(agent(), store=database) as session,
    ):
        for number in range(20):
            store.begin(started(number))
            await session.message(user(f"{number}"))
    await store.close()
    assert count(sqlite_url) == 22
    assert rows(sqlite_url, "SELECT count(*) FROM requests")[0][0] == 20


async def test_a_database_of_the_version_before_is_brought_up_to_date(sqlite_url: str) -> None:
    upgrade(sqlite_url)
    downgrade(sqlite_url, "0001")
    async with (
        SessionDatabase(sqlite_url) as database,
        Session(agent(), store=database) as session,
    ):
        await session.message(user("a"))
    assert count(sqlite_url) == 3


async def test_a_database_of_a_newer_version_is_left_alone(sqlite_url: str) -> None:
    upgrade(sqlite_url)
    rows(sqlite_url, "UPDATE alembic_version SET version_num = '9999'")
    async with SessionDatabase(sqlite_url) as database:
        for _ in range(2):
            with pytest.raises(SessionError, match="newer version"):
                await Session(agent(), store=database).open()
        with pytest.raises(SessionError, match="newer version"):
            await database.delete("s")


async def test_a_header_that_comes_again_changes_nothing_in_the_list(sqlite_url: str) -> None:
    old = Header(version=VERSION - 1, id="s", created=1.0, title="first")
    lines = [write_line(item).data for item in (old, TitleEntry(id="t", title="renamed"))]
    sessions = AgentSessions(sqlite_url)
    await sessions.append(AgentSessionRow(id="s", title="renamed"), 0, lines)
    await sessions.close()
    await sessions.close()
    async with SessionDatabase(sqlite_url) as database:
        async with Session(agent(), store=database, id="s") as session:
            await session.message(user("a"))
            assert session.header.version == VERSION
        (info,) = await database.sessions()
        assert (info.title, info.created) == ("renamed", 1.0)


async def test_a_database_that_cannot_be_is_an_error_in_words(tmp_path: Path) -> None:
    async with SessionDatabase(f"sqlite:///{tmp_path}/absent/s.db") as database:
        with pytest.raises(SessionError, match="cannot write the sessions: FileNotFoundError"):
            await Session(agent(), store=database).open()
        with pytest.raises(SessionError, match="FileNotFoundError"):
            await database.sessions()
        with pytest.raises(SessionError, match="FileNotFoundError"):
            await database.delete("s")
    with pytest.raises(SessionError, match="closed"):
        await database.sessions()
    with pytest.raises(UsageError):
        SessionDatabase("mysql://me:canary@127.0.0.1/x")
