"""Heavy work runs in a process of its own, in turn, and no longer than its client waits."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.inspector import work
from gateway.inspector.scene import dumped, refused
from gateway.serving import Served, Stage, ask, until
from penstock.gateway.errors import HTTPError
from penstock.gateway.inspector import playground, workers
from penstock.gateway.inspector.workers import (
    MAX_PER_KEY,
    MAX_WAITING,
    WorkerPool,
    WorkFailedError,
)

DEADLINE = 60.0


@pytest.fixture(scope="module")
def pool(stage: Stage) -> Any:
    """A pool in the loop of the stage, whose process is started once for most tests."""

    async def make() -> WorkerPool:
        return WorkerPool()

    async def close(pool: WorkerPool) -> None:
        pool.close()

    made = stage.do(make())
    yield made
    stage.do(close(made))


def run(stage: Stage, pool: WorkerPool, *call: Any, key: str | None = None) -> Future[bytes]:
    return stage.begin(pool.run(*call, key=key))


def done(stage: Stage, pool: WorkerPool, *call: Any, key: str | None = None) -> bytes:
    return run(stage, pool, *call, key=key).result(DEADLINE)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def pid_in(file: Path) -> int:
    """Wait until work has written its process id."""
    until(lambda: file.exists() and file.read_text())
    return int(file.read_text())


def test_work_runs_in_another_process_and_its_result_is_json(
    stage: Stage, pool: WorkerPool
) -> None:
    assert done(stage, pool, work.double, 21) == b"42"
    first = int(done(stage, pool, work.process_id))
    assert first != os.getpid()
    assert int(done(stage, pool, work.process_id)) == first
    assert pool.pids == [first]
    until(lambda: not pool.is_busy)


def test_what_work_raises_is_an_answer(stage: Stage, pool: WorkerPool) -> None:
    for function, status in ((work.refuse, 404), (work.misuse, 400)):
        with pytest.raises(HTTPError) as refusal:
            done(stage, pool, function)
        assert refusal.value.status == status
    with pytest.raises(WorkFailedError, match="ZeroDivisionError: a bug"):
        done(stage, pool, work.fail)
    with pytest.raises(AttributeError, match="pickle"):
        done(stage, pool, lambda: 1)
    with pytest.raises(HTTPError, match="at most 100,000,000 are sent") as refusal:
        done(stage, pool, work.make_bytes, workers.MAX_RESULT + 1)
    assert refusal.value.status == 413


def test_a_process_that_dies_is_replaced(stage: Stage, pool: WorkerPool) -> None:
    with pytest.raises(HTTPError, match="ended unexpectedly") as refusal:
        done(stage, pool, work.die)
    assert refusal.value.status == 503
    assert done(stage, pool, work.double, 2) == b"4"
    (pid,) = pool.pids
    os.kill(pid, signal.SIGKILL)
    until(lambda: not is_running(pid))
    assert done(stage, pool, work.double, 2) == b"4"


def test_work_that_takes_too_long_is_killed_and_answered(
    stage: Stage, pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MAX_SECONDS", 0.3)
    asked = run(stage, pool, work.hog, str(tmp_path / "started"))
    behind = run(stage, pool, work.double, 3)
    with pytest.raises(HTTPError, match=r"took more than 0\.3 seconds") as refusal:
        asked.result(DEADLINE)
    assert refusal.value.status == 413
    if (tmp_path / "started").exists():
        until(lambda: not is_running(pid_in(tmp_path / "started")))
    monkeypatch.undo()
    assert behind.result(DEADLINE) == b"6"


def test_work_whose_client_left_is_killed(
    stage: Stage, pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MAX_ABANDONED", 0.1)
    asked = run(stage, pool, work.hog, str(tmp_path / "started"))
    pid = pid_in(tmp_path / "started")
    asked.cancel()
    until(lambda: not is_running(pid))
    assert done(stage, pool, work.double, 2) == b"4"


def test_short_work_whose_client_left_leaves_the_process_alone(
    stage: Stage, pool: WorkerPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MAX_ABANDONED", DEADLINE)
    asked = run(stage, pool, work.wait_for, str(tmp_path / "started"), str(tmp_path / "end"))
    pid = pid_in(tmp_path / "started")
    waiting = run(stage, pool, work.write_file, str(tmp_path / "never"))
    until(lambda: pool._waiting)
    asked.cancel()
    waiting.cancel()
    until(lambda: not pool._waiting)
    (tmp_path / "end").touch()
    assert int(done(stage, pool, work.process_id)) == pid
    assert not (tmp_path / "never").exists()


def test_keys_take_turns_and_have_a_limit(stage: Stage, pool: WorkerPool, tmp_path: Path) -> None:
    end, order = str(tmp_path / "end"), list[str]()
    asked = [run(stage, pool, work.wait_for, str(tmp_path / "started"), end, key="me")]
    pid_in(tmp_path / "started")
    asked += [run(stage, pool, work.double, 1, key="me") for _ in range(MAX_PER_KEY - 1)]
    asked[-1].add_done_callback(lambda _: order.append("me"))
    with pytest.raises(HTTPError, match="This key has 4 inspector requests") as refusal:
        done(stage, pool, work.double, 1, key="me")
    assert refusal.value.status == 429
    asked.append(run(stage, pool, work.double, 1, key="you"))
    asked[-1].add_done_callback(lambda _: order.append("you"))
    (tmp_path / "end").touch()
    for one in asked:
        one.result(DEADLINE)
    until(lambda: len(order) == 2)
    assert order == ["you", "me"]


def test_too_much_waiting_work_is_refused(stage: Stage, pool: WorkerPool, tmp_path: Path) -> None:
    end = str(tmp_path / "end")
    asked = [run(stage, pool, work.wait_for, str(tmp_path / "started"), end)]
    pid_in(tmp_path / "started")
    asked += [run(stage, pool, work.double, 1) for _ in range(MAX_WAITING)]
    with pytest.raises(HTTPError, match="busy") as refusal:
        done(stage, pool, work.double, 1)
    assert (refusal.value.status, refusal.value.retry_after) == (503, 1.0)
    (tmp_path / "end").touch()
    assert [one.result(DEADLINE) for one in asked] == [b'"done"', *[b"2"] * MAX_WAITING]


def test_a_process_is_replaced_after_some_work_and_ends_without(
    stage: Stage, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = int(done(stage, pool, work.process_id))
    monkeypatch.setattr(workers, "MAX_JOBS", 1)
    done(stage, pool, work.double, 1)
    until(lambda: not is_running(first))
    monkeypatch.undo()
    monkeypatch.setattr(workers, "MAX_IDLE", 0.01)
    second = int(done(stage, pool, work.process_id))
    assert second != first
    until(lambda: not is_running(second))
    assert pool.pids == []


@asynccontextmanager
async def fresh_pool() -> AsyncIterator[WorkerPool]:
    pool = WorkerPool()
    try:
        yield pool
    finally:
        pool.close()


async def test_a_pool_that_is_closed_kills_its_work_and_takes_no_more(tmp_path: Path) -> None:
    async def close() -> int:
        async with fresh_pool() as pool:
            asked = [asyncio.create_task(pool.run(work.hog, str(tmp_path / "started")))]
            pid = await asyncio.to_thread(pid_in, tmp_path / "started")
            asked.append(asyncio.create_task(pool.run(work.double, 1)))
            await asyncio.sleep(0)
            pool.close()
            for one in asked:
                with pytest.raises(HTTPError, match="shutting down"):
                    await one
            with pytest.raises(HTTPError, match="shutting down"):
                await pool.run(work.double, 1)
        return pid

    pid = await close()
    until(lambda: not is_running(pid))


# --- ends of the gateway ---

_SERVER = """
import asyncio, sys
from gateway.inspector import work
from penstock.gateway.inspector.workers import WorkerPool

if __name__ == "__main__":
    asyncio.run(WorkerPool().run(work.hog, sys.argv[1]))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_the_process_ends_with_the_gateway_however_that_ends(
    tmp_path: Path, how: signal.Signals
) -> None:
    command = [sys.executable, "-c", _SERVER, str(tmp_path / "started")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE) as process:  # noqa: S603 - ours
        try:
            pid = pid_in(tmp_path / "started")
            process.send_signal(how)
            process.communicate(timeout=DEADLINE)
            until(lambda: not is_running(pid))
        finally:
            process.kill()


# --- over HTTP ---


@pytest.fixture(scope="module")
def served(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return stage.gateway(tmp_path_factory.mktemp("gateway"), "")


def test_the_worker_starts_with_the_page(served: Served) -> None:
    assert served.gateway.inspector_workers.pids == []
    ask(served, "/inspector/api/about")
    until(lambda: served.gateway.inspector_workers.pids)


def test_a_page_that_leaves_takes_its_work_along(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "MAX_ABANDONED", 0.01)
    pool = served.gateway.inspector_workers
    started, run_work = tmp_path / "started", pool.run

    def hog(*_: Any, key: str | None) -> Awaitable[bytes]:
        return run_work(work.hog, str(started), key=key)

    monkeypatch.setattr(pool, "run", hog)
    page = http.client.HTTPConnection("127.0.0.1", served.port, timeout=DEADLINE)
    page.request("POST", "/inspector/api/parse", b'{"text": "x"}')
    pid = pid_in(started)
    page.close()
    until(lambda: not is_running(pid))


def test_too_many_tools_are_refused(served: Served) -> None:
    tools = [{"name": f"t{n}", "parameters": {}} for n in range(playground.MAX_TOOLS + 1)]
    for given in (tools, dumped(tools)):
        answer = refused(served, "parse", {"text": "x", "tools": given})
        assert "tools" in answer.json["error"]["message"]


def test_the_worker_ends_with_its_gateway(
    stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    served = stage.gateway(tmp_path_factory.mktemp("gateway"), "")
    assert ask(served, "/inspector/api/parse", {"text": "x"}).status == 200
    (pid,) = served.gateway.inspector_workers.pids
    served.stop()
    until(lambda: served.has_ended)
    until(lambda: not is_running(pid))
