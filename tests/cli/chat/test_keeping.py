"""Which conversation is open, and which are kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock import DemoModel
from penstock.agent import Agent
from penstock.agent.session import SessionError
from penstock.cli.chat.keeping import Keeper
from penstock.errors import UsageError


def keeper(folder: Path | None, cwd: Path) -> Keeper:
    return Keeper(Agent(DemoModel("native")), folder, cwd)


async def say(kept: Keeper, text: str) -> None:
    await kept.session.run(text).result()


def test_the_last_session_about_the_folder_is_gone_on_with(tmp_path: Path) -> None:
    async def main() -> None:
        for cwd, text in (("here", "one"), ("there", "two")):
            kept = keeper(tmp_path / "sessions", tmp_path / cwd)
            assert not await kept.resume()
            await say(kept, text)
            await kept.close()
        again = keeper(tmp_path / "sessions", tmp_path / "here")
        assert await again.resume()
        assert "one" in str(again.agent.messages[0])
        assert [info.prompt for info in await again.listed()] == ["two", "one"]
        await again.close()

    asyncio.run(main())


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_session_that_cannot_be_opened_leaves_the_old_one_open(
    tmp_path: Path,
    is_kept: bool,  # noqa: FBT001
) -> None:
    async def main() -> None:
        other = keeper(tmp_path / "sessions", tmp_path)
        await other.begin()
        await say(other, "mine")
        path = other.session.path
        assert path is not None
        kept = keeper(tmp_path / "sessions" if is_kept else None, tmp_path)
        await kept.begin()
        await say(kept, "yours")
        with pytest.raises(SessionError, match="another session has the file open"):
            await kept.open(path)
        assert "yours" in str(kept.agent.messages[0])
        await say(kept, "more")
        assert len(kept.agent.messages) == 4
        await kept.close()
        await other.close()

    asyncio.run(main())


def test_any_file_may_be_a_session(tmp_path: Path) -> None:
    async def main() -> None:
        kept = keeper(None, tmp_path)
        with pytest.raises(UsageError, match="no session is open"):
            await say(kept, "nobody hears it")
        await kept.open(tmp_path / "a talk, of today.log")
        await say(kept, "one")
        await kept.fork()
        assert await kept.listed() == []
        await kept.close()

    asyncio.run(main())
    assert len(list(tmp_path.iterdir())) == 2
