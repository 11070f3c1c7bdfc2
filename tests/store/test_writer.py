"""The writer survives its database, and loses only what it says it lost."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import event

from penstock.store import RequestQuery, SessionRow, Store, StoreError
from penstock.store.writer import MAX_BATCH
from store.databases import (
    PATIENCE,
    Postgres,
    ended,
    postgres_server,
    rows,
    run_name,
    started,
    until,
    with_store,
    written,
)


def connect(url: str) -> sqlite3.Connection:
    """Open the file beside the store."""
    return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)


def count(url: str) -> int:
    number: int = rows(url, "SELECT count(*) FROM requests")[0][0]
    return number


async def test_what_is_queued_is_written_in_batches(url: str) -> None:
    store = Store(url)
    commits: list[int] = []
    event.listen(store._writing, "commit", lambda _: commits.append(1))
    for number in range(2 * MAX_BATCH):
        store.begin(started(number))
    async with with_store(store):
        await written(store, 2 * MAX_BATCH)
    assert count(url) == 2 * MAX_BATCH
    assert len(commits) < 15, "two batches, a few chores, the schema"
    assert store.health.queued == store.health.queued_bytes == store.health.dropped == 0


POISON: dict[str, dict[str, object]] = {
    "a NUL": {"model": "a\0b"},
    "half a surrogate pair": {"model": "\ud83d", "id": "req-\udc00"},
    "an integer of 80 bits": {"status": 2**80, "input_tokens": -(2**80)},
    "what is no number": {"duration": float("nan"), "first_byte": "soon", "chunks": None},
    "bottomless text": {"error_message": "x" * 10_000, "text": "y" * 50_000, "finish": "z" * 999},
    "values without a JSON form": {"notes": {"a": object()}, "repairs": [float("inf")]},
    "the wrong types throughout": {"finish": b"stop", "raw": [b"no zlib"], "response": b"\xff"},
}


@pytest.mark.parametrize("fields", POISON.values(), ids=POISON.keys())
async def test_a_poisonous_record_is_cleaned(sqlite_url: str, fields: dict[str, object]) -> None:
    await _poison(sqlite_url, fields)


async def test_every_poison_is_cleaned_in_postgres(postgres_url: str) -> None:
    await _poison(postgres_url, *POISON.values())


async def _poison(url: str, *poisons: dict[str, object]) -> None:
    async with with_store(Store(url)) as store:
        store.begin(started(900))
        for number, fields in enumerate(poisons):
            start = {name: fields[name] for name in ("model", "id") if name in fields}
            end = {name: value for name, value in fields.items() if name != "model"}
            store.begin(started(number, **start))
            store.end(ended(number, **end))
        store.begin(started(901))
        await written(store, 2 * len(poisons) + 2)
        assert store.health.dropped == 0
        page = await store.requests(RequestQuery())
        assert len(page.items) == len(poisons) + 2
        assert sum(row.state == "done" for row in page.items) == len(poisons)
        for row in page.items:
            assert await store.request(row.id) is not None


async def test_a_record_beyond_cleaning_is_dropped_alone(url: str) -> None:
    async with with_store(Store(url)) as store:
        for number in range(5):
            store.begin(started(number))
            store.end(ended(number, raw=["not bytes"] if number == 2 else []))
        store.begin(started(9, request=None))
        await until(lambda: store.health.written + store.health.dropped == 11)
        assert store.health.dropped == 2
        assert store.health.is_up
        states = [row.state for row in reversed((await store.requests(RequestQuery())).items)]
        assert states == ["done", "done", "started", "done", "done"]


async def test_a_full_queue_drops_and_counts(sqlite_url: str) -> None:
    store = Store(sqlite_url, queue=10, queue_bytes=100_000)
    for number in range(15):
        store.begin(started(number, request=b""))
    assert (store.health.queued, store.health.dropped) == (10, 5)
    async with with_store(store):
        await written(store, 10)
    assert count(sqlite_url) == 10
    store.begin(started(99))
    assert store.health.dropped == 6, "closed"


async def test_the_queue_is_bounded_in_bytes_too(sqlite_url: str) -> None:
    store = Store(sqlite_url, queue_bytes=100_000)
    for number in range(3):
        store.begin(started(number, request=b"x" * 60_000))
    store.end(ended(0, raw=[b"x" * 60_000]))
    assert (store.health.queued, store.health.dropped) == (1, 3)
    async with with_store(store):
        await written(store, 1)


async def test_a_locked_database_delays_nobody_and_is_waited_for(sqlite_url: str) -> None:
    async with with_store(Store(sqlite_url)) as store:
        store.begin(started(0))
        await written(store, 1)
        other = connect(sqlite_url)
        other.execute("BEGIN EXCLUSIVE")
        for number in range(1, 100):  # It returns although the database is locked.
            store.begin(started(number))
        assert not await store.save(SessionRow(id="s", scope="k"))
        await until(lambda: "locked" in store.health.last_error)
        health = store.health
        assert not health.is_up
        assert len((await store.requests(RequestQuery())).items) == 1, "reads go on"
        other.execute("ROLLBACK")
        other.close()
        await written(store, 101)
        health = store.health
        assert (health.is_up, health.dropped) == (True, 0)
    assert count(sqlite_url) == 100


async def test_a_full_disk_is_waited_for(sqlite_url: str) -> None:
    pages = 60

    def limit(driver: sqlite3.Connection, _: object) -> None:
        driver.execute(f"PRAGMA max_page_count = {pages}")

    store = Store(sqlite_url)
    event.listen(store._writing, "connect", limit)
    async with with_store(store):
        for number in range(60):
            store.end(ended(number, raw=[b"x" * 10_000]))
        await until(lambda: "full" in store.health.last_error)
        await until(lambda: store._writer._wait > 0.3, "longer and longer waits")
        assert (store.health.queued, store.health.is_up) == (60, False)
        pages = 1_000_000
        await written(store, 60)
        assert store.health.dropped == 0
    assert count(sqlite_url) == 60


async def test_a_missing_folder_is_waited_for(tmp_path: Path) -> None:
    async with with_store(Store(f"sqlite:///{tmp_path}/later/log.db")) as store:
        store.begin(started(0))
        await until(lambda: bool(store.health.last_error))
        assert "later" not in store.health.last_error, "no path in it"
        with pytest.raises(StoreError):
            await store.requests(RequestQuery())
        (tmp_path / "later").mkdir()
        await written(store, 1)
        assert len((await store.requests(RequestQuery())).items) == 1


@pytest.mark.parametrize("what", ["deleted", "moved away", "not a database"])
async def test_a_file_that_goes_away_is_made_anew(tmp_path: Path, what: str) -> None:
    path = tmp_path / "log.db"
    async with with_store(Store(f"sqlite:///{path}")) as store:
        store.begin(started(0))
        await written(store, 1)
        assert await store.session(scope="k", id="s") is None, "a reader has it open"
        if what == "deleted":
            path.unlink()
        else:
            path.rename(tmp_path / "old.db")
        if what == "not a database":
            for name in ("log.db-wal", "log.db-shm"):  # otherwise SQLite repairs the file from them
                (tmp_path / name).unlink()
            path.write_bytes(b"no database at all " * 100)
            store.begin(started(1))
            await until(lambda: "not a database" in store.health.last_error)
            path.unlink()
        assert await store.save(SessionRow(id="s", scope="k"), within=20), "written in the new one"
        store.begin(started(2))
        await until(lambda: store.health.queued == 0)
        assert store.health.dropped == 0
        assert await store.session(scope="k", id="s") is not None
        newest = (await store.requests(RequestQuery())).items[0]
        assert newest.id == "req-000002"
    assert rows(f"sqlite:///{path}", "PRAGMA integrity_check")[0][0] == "ok"
    assert path.stat().st_mode & 0o077 == 0


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    with postgres_server(f"{run_name()}-{threading.get_ident()}") as server:
        yield server


async def test_postgres_may_stop_and_start_under_load(own_postgres: Postgres) -> None:
    url = own_postgres.make_database()
    number = 0
    async with with_store(Store(url)) as store:

        async def load() -> None:
            nonlocal number
            while True:
                store.begin(started(number))
                store.end(ended(number))
                number += 1
                await asyncio.sleep(0.002)

        loading = asyncio.create_task(load())
        await written(store, 50)
        await asyncio.to_thread(own_postgres.stop)
        await until(lambda: not store.health.is_up)
        with pytest.raises(StoreError):
            await store.requests(RequestQuery())
        assert not await store.save(SessionRow(id="s", scope="k"))
        await asyncio.to_thread(own_postgres.start)
        await until(lambda: store.health.is_up)
        await written(store, store.health.written + 200)
        loading.cancel()
        await until(lambda: store.health.queued == 0)
        assert store.health.dropped == 0
        assert await store.session(scope="k", id="s") is not None
        totals = await store.totals(0)
        assert totals.states == {"done": number}


async def test_closing_writes_what_is_queued(url: str) -> None:
    store = Store(url)
    store.start()
    for number in range(1000):
        store.begin(started(number))
    await store.close(timeout=30)
    assert store.health.written == 1000
    assert count(url) == 1000


async def test_closing_gives_up_on_an_absent_database_and_counts_what_is_lost(
    tmp_path: Path,
) -> None:
    store = Store(f"sqlite:///{tmp_path}/absent/log.db")
    store.start()
    for number in range(700):
        store.begin(started(number))
    saving = asyncio.create_task(store.save(SessionRow(id="s", scope="k"), within=30))
    await until(lambda: bool(store.health.last_error))
    async with asyncio.timeout(PATIENCE):
        await store.close(timeout=0.2)
    assert (store.health.queued, store.health.dropped) == (0, 701)
    assert not await saving


async def test_a_database_that_may_not_be_made_is_left_alone(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/log.db", create=False)
    store.start()
    await until(lambda: bool(store.health.last_error))
    await store.close(timeout=0.1)
    assert not list(tmp_path.iterdir())
