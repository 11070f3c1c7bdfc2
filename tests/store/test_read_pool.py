"""A database that hangs or is slow delays no caller beyond the deadline."""

from __future__ import annotations

import asyncio
import socket
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from penstock.store import RequestQuery, SessionRow, Store, StoreError, upgrade
from penstock.store.engine import MAX_WAITING, ReadPool, make_engine, parse_url, read_connection
from store.databases import started, until

SLOW = {
    "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) "
    "FROM n",
    "postgresql": "SELECT pg_sleep(60)",
}


def test_the_database_itself_ends_a_slow_query(url: str) -> None:
    upgrade(url)
    engine = make_engine(parse_url(url), writes=False)
    with read_connection(engine, 0.2) as connection, pytest.raises(DBAPIError):
        connection.execute(text(SLOW[engine.dialect.name]))
    with read_connection(engine, 20) as connection:
        assert connection.scalar(text("SELECT 1")) == 1, "the connection is as good as new"
    engine.dispose()


@pytest.fixture
def silent_server() -> Iterator[int]:
    """Lend the port of a server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.leaves_files
async def test_a_server_that_hangs_holds_nobody(
    silent_server: int, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"postgresql://someone:c%40nary-9@127.0.0.1:{silent_server}/log?connect_timeout=2"
    store = Store(url)
    store.start()
    store.begin(started(1))
    assert not await store.save(SessionRow(id="s", scope="k"))
    with pytest.raises(StoreError, match="did not respond") as failure:
        await store.session(scope="k", id="s")
    told = "".join(traceback.format_exception(failure.value))
    await until(lambda: bool(store.health.last_error))
    await store.close(timeout=0.1)
    for text_ in (told, store.health.last_error, repr(store.health), repr(store), caplog.text):
        assert "c@nary" not in text_
        assert "c%40nary" not in text_


async def test_threads_that_hang_make_others_fail_in_time() -> None:
    hang = threading.Event()
    readers = ReadPool("test", 2)
    for _ in range(2):
        with pytest.raises(StoreError, match="did not respond"):
            await readers.run(hang.wait, 0.0)
    with pytest.raises(StoreError, match="did not respond"):
        await readers.run(lambda: 1, 0.0)
    hang.set()
    assert await readers.run(lambda: 2, 20) == 2
    readers.close()


async def test_too_many_reads_are_refused_at_once_and_cancelled_ones_are_not_begun() -> None:
    hang = threading.Event()
    begun: list[int] = []
    readers = ReadPool("test", 1)
    first = asyncio.create_task(readers.run(hang.wait, 20))
    await asyncio.sleep(0)
    many = [
        asyncio.create_task(readers.run(lambda: begun.append(1), 20))
        for _ in range(2 * MAX_WAITING)
    ]
    await until(lambda: sum(task.done() for task in many) >= MAX_WAITING - 1)
    waiting = [task for task in many if not task.done()]
    for task in waiting:
        task.cancel()
    results = await asyncio.gather(*many, return_exceptions=True)
    assert all(isinstance(one, StoreError | asyncio.CancelledError) for one in results)
    hang.set()
    assert await first
    assert await readers.run(lambda: 3, 20) == 3
    assert begun == []
    readers.close()


async def test_what_work_raises_is_raised_where_it_was_asked_for() -> None:
    readers = ReadPool("test", 1)
    with pytest.raises(ZeroDivisionError):
        await readers.run(lambda: 1 // 0, 20)
    readers.close()


async def test_a_broken_file_is_an_error_without_its_path(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(b"no database " * 1000)
    store = Store(f"sqlite:///{path}")
    with pytest.raises(StoreError, match="not a database") as failure:
        await store.requests(RequestQuery())
    assert str(tmp_path) not in str(failure.value)
    await store.close()
