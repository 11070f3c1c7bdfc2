"""A killed process loses nothing that was acknowledged, and what it left open is marked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from penstock.store import RequestQuery, Store
from penstock.store.maintenance import WORKER_DEAD_SECONDS
from store.databases import ended, rows, started, until, with_store, written

WORKER = """
import sys, time
from penstock.store import RequestEnded, RequestStarted, Store

store = Store(sys.argv[1], worker=sys.argv[2])
store.start()
for number in range(1_000_000):
    name = f"{sys.argv[2]}-{number:07}"
    store.begin(RequestStarted(id=name, created=time.time(), request=b"x" * 2000))
    if number % 2:
        store.end(RequestEnded(id=name, state="done", response=b"y" * 2000))
    if number % 10 == 0:
        print(store.health.written, flush=True)
        time.sleep(0.001)
"""


def crash(url: str, name: str, records: int) -> int:
    """Kill a process while it writes; return how many records were acknowledged to it."""
    child = subprocess.Popen(  # noqa: S603 - our own interpreter, our own words
        [sys.executable, "-c", WORKER, url, name], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    acknowledged = 0
    for line in child.stdout:
        acknowledged = int(line)
        if acknowledged > records:
            break
    os.kill(child.pid, signal.SIGKILL)
    acknowledged = max([acknowledged, *(int(line) for line in child.stdout if line.endswith("\n"))])
    child.wait()
    child.stdout.close()
    return acknowledged


async def test_a_kill_loses_nothing_that_was_acknowledged(url: str) -> None:
    acknowledged = crash(url, "dead", 1500)
    if url.startswith("sqlite"):
        assert rows(url, "PRAGMA integrity_check")[0][0] == "ok"
    states = dict(tuple(row) for row in rows(url, "SELECT id, state FROM requests"))
    # Records went out in the order start 0, start 1, end 1, start 2, start 3, end 3, ...
    order = [step for pair in range(acknowledged) for step in _steps(2 * pair)]
    for number, state in order[:acknowledged]:
        assert states[f"dead-{number:07}"] in (state, "done")
    async with with_store(Store(url)) as store:
        await until(lambda: store.health.is_up)
        page = await store.requests(RequestQuery(state="interrupted", count=True))
        assert page.total == sum(state == "started" for state in states.values())
        assert (await store.requests(RequestQuery(state="started"))).items == []


def _steps(number: int) -> list[tuple[int, str]]:
    return [(number, "started"), (number + 1, "started"), (number + 1, "done")]


async def test_the_living_are_left_alone_and_the_silent_are_not(url: str) -> None:
    async with with_store(Store(url)) as store:
        store.begin(started(1))
        await written(store, 1)
        seen = {
            "silent": time.time() - WORKER_DEAD_SECONDS - 5,
            "slow": time.time() - WORKER_DEAD_SECONDS + 20,
        }
        for number, (name, moment) in enumerate(seen.items(), 2):
            store.begin(started(number, worker=name))
            rows(url, f"INSERT INTO workers (id, host, seen) VALUES ('{name}', 'far', {moment})")  # noqa: S608
        await written(store, 3)
        async with with_store(Store(url)) as second:
            await until(lambda: second.health.is_up)
        states = [row.state for row in (await store.requests(RequestQuery())).items]
        assert states == ["started", "interrupted", "started"]
        store.end(ended(2))
        await written(store, 4)
        found = await store.request("req-000002")
        assert found is not None
        assert found.row.state == "done", "it was only slow"


async def test_a_clock_that_is_ahead_marks_no_request_of_the_living(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with with_store(Store(postgres_url)) as store:
        store.begin(started(1))
        await written(store, 1)
        ahead = time.time() + 3600
        monkeypatch.setattr("penstock.store.maintenance.time.time", lambda: ahead)
        async with with_store(Store(postgres_url)) as second:
            await until(lambda: second.health.is_up)
        assert [row.state for row in (await store.requests(RequestQuery())).items] == ["started"]


async def test_a_store_that_closes_leaves_nothing_open(url: str) -> None:
    async with with_store(Store(url)) as store:
        store.begin(started(1))
        await written(store, 1)
    assert [tuple(row) for row in rows(url, "SELECT state FROM requests")] == [("interrupted",)]
    assert rows(url, "SELECT id FROM workers") == []


async def test_running_stores_look_for_the_dead_now_and_then(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.store.writer.WORKER_DEAD_SECONDS", 0.05)
    monkeypatch.setattr("penstock.store.writer.HEARTBEAT_SECONDS", 0.05)
    async with with_store(Store(sqlite_url)) as store:
        await until(lambda: store.health.is_up)
        store.begin(started(1, worker="nobody"))
        await written(store, 1)
        await until(lambda: rows(sqlite_url, "SELECT state FROM requests")[0][0] == "interrupted")
