"""Retention by age and size, in steps, and what it must not touch."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from penstock.store import ResponseRow, Retention, SessionRow, Store
from penstock.store.maintenance import STEP
from store.databases import ended, rows, started, until, with_store, written

DAY = 86_400.0


def ids(url: str, table: str = "requests") -> list[str]:
    return [row[0] for row in rows(url, f"SELECT id FROM {table} ORDER BY id")]  # noqa: S608


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.store.writer.RETENTION_SECONDS", 0.05)


async def fill(url: str, number: int, **fields: object) -> None:
    """Write *number* requests with a kilobyte each, the oldest first."""
    async with with_store(Store(url)) as store:
        for index in range(number):
            age = (number - index) * DAY
            store.begin(started(index, created=time.time() - age, request=os.urandom(1000)))
            store.end(ended(index, **fields))
        await written(store, 2 * number)


async def test_old_requests_go_with_their_bodies(url: str) -> None:
    await fill(url, 3 * STEP)
    async with with_store(Store(url, retention=Retention(days=100.5, size=None))) as store:
        await until(lambda: len(ids(url)) == 100)
        store.begin(started(999_999))
        await written(store, 1)
    assert ids(url)[0] == f"req-{3 * STEP - 100:06}"
    assert rows(url, "SELECT count(*) FROM bodies")[0][0] == 101


async def test_the_oldest_go_when_there_is_too_much(url: str) -> None:
    await fill(url, 100)
    size = rows(url, "SELECT sum(size) FROM requests")[0][0]
    assert 180_000 < size < 250_000
    async with with_store(Store(url, retention=Retention(days=None, size=int(size) // 2))):
        await until(lambda: len(ids(url)) <= 50)
    left = ids(url)
    assert len(left) == 50
    assert left[0] == "req-000050"


async def test_without_retention_nothing_but_the_expired_goes(url: str) -> None:
    await fill(url, 5)
    now = time.time()
    async with with_store(Store(url)) as store:
        assert await store.save(
            SessionRow(id="old", scope="k", expires=now - 1),
            SessionRow(id="live", scope="k", expires=now + 900),
            SessionRow(id="ever", scope="k"),
            ResponseRow(id="old", scope="k", expires=now - 1),
            ResponseRow(id="live", scope="k", expires=now + 900),
            within=20,
        )
        await until(lambda: len(ids(url, "sessions") + ids(url, "responses")) == 3)
    assert ids(url, "sessions") == ["ever", "live"]
    assert ids(url, "responses") == ["live"]
    assert len(ids(url)) == 5


async def test_a_file_becomes_smaller_after_much_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    url = f"sqlite:///{path}"
    await fill(url, 30, raw=[os.urandom(100_000)])
    before = path.stat().st_size
    assert before > 3_000_000
    async with with_store(Store(url, retention=Retention(days=1.5, size=None))):
        await until(lambda: rows(url, "PRAGMA page_count")[0][0] * 4096 < before / 2)
    assert path.stat().st_size < before / 2
    assert rows(url, "PRAGMA integrity_check")[0][0] == "ok"
