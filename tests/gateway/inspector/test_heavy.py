"""Heavy work: who may have it done, when it is given up, and what it leaves alone."""

from __future__ import annotations

import asyncio
import gc
import http.client
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gateway.inspector.scene import dumped, refused
from gateway.serving import Served, Stage, until
from penstock.gateway.errors import HTTPError
from penstock.gateway.http_exchange import ClientDisconnectedError
from penstock.gateway.inspector import exchange, heavy, jobs, playing
from penstock.gateway.inspector.heavy import MAX_EACH, THREADS, Workshop
from penstock.gateway.inspector.jobs import Job, look_up

DEADLINE = 30.0


@pytest.fixture
def workshop() -> Workshop:
    return Workshop()


class Hog:
    """Work that goes on until it is told to stop, or is given up."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self) -> str:
        self.has_begun.set()
        while not self.may_end.wait(0.002):
            look_up()
        return "done"


@contextmanager
def hogs(workshop: Workshop, *whose: str | None) -> Iterator[list[Hog]]:
    """Keep threads busy until the end of the block."""
    made = [Hog() for _ in whose]
    taken = [workshop.take(Job(hog, key)) for hog, key in zip(made, whose, strict=True)]
    try:
        yield made
    finally:
        for hog in made:
            hog.may_end.set()
        for job in taken:
            job.done.result(DEADLINE)


def test_work_whose_caller_has_left_is_dropped_while_it_waits(workshop: Workshop) -> None:
    done: list[int] = []
    with hogs(workshop, None, None) as busy:
        assert all(hog.has_begun.wait(DEADLINE) for hog in busy)
        job = workshop.take(Job(lambda: done.append(1)))
        workshop.give_up(job, ClientDisconnectedError())
        assert not workshop._waiting
        with pytest.raises(ClientDisconnectedError):
            job.done.result(DEADLINE)
    assert workshop.take(Job(lambda: 3)).done.result(DEADLINE) == 3
    assert done == []


def test_work_whose_caller_has_left_ends_when_it_looks_up(workshop: Workshop) -> None:
    hog = Hog()
    job = workshop.take(Job(hog))
    assert hog.has_begun.wait(DEADLINE)
    workshop.give_up(job, ClientDisconnectedError())
    with pytest.raises(ClientDisconnectedError):
        job.done.result(DEADLINE)
    until(lambda: not workshop._running)


def test_a_caller_that_is_cancelled_takes_its_work_along(workshop: Workshop) -> None:
    async def leave() -> None:
        hog = Hog()
        task = asyncio.create_task(workshop.do(hog))
        assert await asyncio.to_thread(hog.has_begun.wait, DEADLINE)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    until(lambda: not workshop._running)


def test_work_that_takes_too_long_is_given_up_in_words(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_SECONDS", 0.05)
    with pytest.raises(HTTPError, match="given up") as refusal:
        workshop.take(Job(Hog())).done.result(DEADLINE)
    assert refusal.value.status == 413


def test_work_ends_with_the_gateway(workshop: Workshop) -> None:
    is_ending = threading.Event()
    hog = Hog()
    job = workshop.take(Job(hog, None, is_ending.is_set))
    assert hog.has_begun.wait(DEADLINE)
    is_ending.set()
    with pytest.raises(HTTPError, match="shutting down"):
        job.done.result(DEADLINE)


def test_one_key_leaves_a_thread_to_others(workshop: Workshop) -> None:
    with hogs(workshop, "me", "me") as (first, second):
        assert first.has_begun.wait(DEADLINE)
        assert workshop.take(Job(lambda: 1, "you")).done.result(DEADLINE) == 1
        assert not second.has_begun.is_set()
        first.may_end.set()
        assert second.has_begun.wait(DEADLINE)


def test_one_key_has_so_much_done_and_no_more(workshop: Workshop) -> None:
    with hogs(workshop, *["me"] * MAX_EACH):
        with pytest.raises(HTTPError, match="for this key") as refusal:
            workshop.take(Job(Hog(), "me"))
        assert refusal.value.status == 429
    with hogs(workshop, *[None] * THREADS):
        assert workshop._threads == THREADS


def test_the_garbage_collector_waits_for_a_moment_and_no_longer(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(gc.isenabled)
    with hogs(workshop, None) as (hog,):
        assert hog.has_begun.wait(DEADLINE)
        assert not gc.isenabled()
        monkeypatch.setattr(heavy, "MAX_QUIET", 0.0)
        until(gc.isenabled)
        with hogs(workshop, None) as (other,):
            assert other.has_begun.wait(DEADLINE)
            assert gc.isenabled()
    until(lambda: not workshop._running)


# --- behind the page ---


@pytest.fixture(scope="module")
def served(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return stage.gateway(tmp_path_factory.mktemp("gateway"), "")


def test_a_page_that_leaves_takes_its_work_along(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    hog = Hog()
    monkeypatch.setattr(playing, "parse", lambda _: hog())

    page = http.client.HTTPConnection("127.0.0.1", served.port, timeout=DEADLINE)
    page.request("POST", "/inspector/api/parse", b'{"text": "x"}')
    assert hog.has_begun.wait(DEADLINE)
    page.close()
    until(lambda: not exchange.workshop._running)
    hog.may_end.set()


def test_too_many_tools_are_refused(served: Served) -> None:
    tools = [{"name": f"t{n}", "parameters": {}} for n in range(playing.MAX_TOOLS + 1)]
    for given in (tools, dumped(tools)):
        answer = refused(served, "parse", {"text": "x", "tools": given})
        assert "tools" in answer.json["error"]["message"]


_ENDING = """
import asyncio, threading
from penstock.gateway.inspector.heavy import Workshop

async def main():
    begun = threading.Event()
    def hog():
        begun.set()
        while True:
            pass
    task = asyncio.create_task(Workshop().do(hog))
    await asyncio.to_thread(begun.wait)
    print("begun", flush=True)
    await task

asyncio.run(main())
"""


def test_work_that_never_looks_up_keeps_no_process_from_its_end() -> None:
    command = [sys.executable, "-c", _ENDING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # noqa: S603 - ours
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            process.send_signal(signal.SIGINT)
            began = time.monotonic()
            process.communicate(timeout=DEADLINE)
            assert time.monotonic() - began < DEADLINE
        finally:
            process.kill()
