"""What is new in the log is noticed once, whatever the order in which it is written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.serving import DEADLINE
from penstock.cli.logs import LogFollower
from penstock.store import RequestEnded, RequestQuery, RequestStarted, Store

News = list[tuple[str, str]]


class Newsreader:
    """Follows a log until so much has been seen."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.seen: News = []
        self.following = LogFollower(store, RequestQuery(limit=3))

    def begin(self, model: str, seconds_ago: float = 0.0) -> str:
        now = time.time() - seconds_ago
        id_ = f"{int(now * 1000):012x}-{model}"
        self.store.begin(RequestStarted(id=id_, created=now, model=model))
        return id_

    async def wait_for(self, number: int) -> None:
        async with asyncio.timeout(DEADLINE):
            while len(self.seen) < number:
                self.seen += [(row.model, row.state) for row in await self.following.poll()]
                await asyncio.sleep(0.01)


@asynccontextmanager
async def reading(folder: Path) -> AsyncIterator[Newsreader]:
    store = Store(f"sqlite:///{folder / 'log.db'}")
    store.start()
    try:
        assert await store.save(within=DEADLINE)  # so that the tables are there
        reader = Newsreader(store)
        await reader.following.start()
        yield reader
    finally:
        await store.close()


async def test_a_request_is_shown_when_it_comes_and_when_it_ends(tmp_path: Path) -> None:
    async with reading(tmp_path) as reader:
        id_ = reader.begin("slow")
        await reader.wait_for(1)
        reader.store.end(RequestEnded(id=id_, state="done", finish="stop"))
        await reader.wait_for(2)
        assert await reader.following.poll() == []
        assert reader.seen == [("slow", "started"), ("slow", "done")]


async def test_an_older_request_that_is_written_later_is_seen_too(tmp_path: Path) -> None:
    async with reading(tmp_path) as reader:
        reader.begin("newer")
        await reader.wait_for(1)
        reader.begin("older", seconds_ago=5.0)
        await reader.wait_for(2)
        assert reader.seen == [("newer", "started"), ("older", "started")]


async def test_more_requests_than_fit_a_page_are_all_seen_oldest_first(tmp_path: Path) -> None:
    async def main() -> News:
        async with reading(tmp_path) as reader:
            for number in range(8):
                reader.begin(f"m{number}", seconds_ago=1 - number / 100)
            await reader.wait_for(8)
            return reader.seen

    assert sorted(await main()) == [(f"m{number}", "started") for number in range(8)]


async def test_a_database_that_is_gone_for_a_while_is_said_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with reading(tmp_path) as reader:
        reader.begin("first")
        await reader.wait_for(1)
        broken = Store(f"sqlite:///{tmp_path / 'absent.db'}", create=False)
        lost = LogFollower(broken, RequestQuery())
        assert await lost.poll() == []
        assert await lost.poll() == []
        await broken.close()
    assert capsys.readouterr().err.count("trying again") == 1
