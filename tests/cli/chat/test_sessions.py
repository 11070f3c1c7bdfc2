"""The open session, and the recorded ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock import DemoModel
from penstock.agent import Agent
from penstock.agent.session import SessionError
from penstock.cli.chat.sessions import ChatSessions
from penstock.errors import UsageError


def make_sessions(folder: Path | None, cwd: Path) -> ChatSessions:
    return ChatSessions(Agent(DemoModel("native")), folder, cwd)


async def send(sessions: ChatSessions, text: str) -> None:
    await sessions.current.run(text).result()


async def test_the_last_session_of_the_folder_is_resumed(tmp_path: Path) -> None:
    for cwd, text in (("here", "one"), ("there", "two")):
        sessions = make_sessions(tmp_path / "sessions", tmp_path / cwd)
        assert not await sessions.resume()
        await send(sessions, text)
        await sessions.close()
    again = make_sessions(tmp_path / "sessions", tmp_path / "here")
    assert await again.resume()
    assert "one" in str(again.agent.messages[0])
    assert [info.prompt for info in await again.list()] == ["two", "one"]
    await again.close()


@pytest.mark.parametrize("is_recorded", [True, False])
async def test_a_session_that_cannot_be_opened_leaves_the_old_one_open(
    tmp_path: Path,
    is_recorded: bool,  # noqa: FBT001
) -> None:
    other = make_sessions(tmp_path / "sessions", tmp_path)
    await other.begin()
    await send(other, "mine")
    path = other.current.path
    assert path is not None
    sessions = make_sessions(tmp_path / "sessions" if is_recorded else None, tmp_path)
    await sessions.begin()
    await send(sessions, "yours")
    with pytest.raises(SessionError, match="open in another session"):
        await sessions.open(path)
    assert "yours" in str(sessions.agent.messages[0])
    await send(sessions, "more")
    assert len(sessions.agent.messages) == 4
    await sessions.close()
    await other.close()


async def test_any_file_can_hold_a_session(tmp_path: Path) -> None:
    sessions = make_sessions(None, tmp_path)
    with pytest.raises(UsageError, match="No session is open"):
        await send(sessions, "lost")
    await sessions.open(tmp_path / "a talk, of today.log")
    await send(sessions, "one")
    await sessions.fork()
    assert await sessions.list() == []
    await sessions.close()
    assert len(list(tmp_path.iterdir())) == 2
