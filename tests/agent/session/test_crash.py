"""A session that is killed at any moment has every entry that was acknowledged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.session.records import agent, texts
from async_runner import run
from penstock.agent.session import Session, SessionDatabase
from store.databases import rows

WRITES = 200

WRITERS = """
import asyncio, os, sys
from penstock.agent import Agent
from penstock.agent.session import Session, SessionDatabase
from penstock.messages import Text
from penstock.models import DemoModel
from penstock.request import UserMessage

async def write(place, start, many):
    database = SessionDatabase(place) if ":" in place else None
    where = {"store": database, "id": "s"} if database else {"path": place}
    async with Session(Agent(DemoModel()), **where) as session:
        for number in range(start, many):
            await session.message(UserMessage([Text(f"{number} " + "x" * (number * 97 % 3000))]))
            os.write(1, b"%d\\n" % number)
        await asyncio.sleep(600)

for line in sys.stdin:
    place, start, many = line.split()
    pid = os.fork()  # what takes long is to load all this
    if not pid:
        os.write(1, b"%d\\n" % os.getpid())
        asyncio.run(write(place, int(start), int(many)))
    os.waitpid(pid, 0)
    os.write(1, b"over\\n")
"""


class Writers:
    """Processes that write to a session until they are killed, one after the other."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(  # noqa: S603 - our own interpreter, our own words
            [sys.executable, "-c", WRITERS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def crash(self, place: str, start: int, stop: int) -> int:
        """Let one write from *start* on, kill it about *stop*; give what it acknowledged last."""
        talk = self._parent
        assert talk.stdin is not None
        assert talk.stdout is not None
        talk.stdin.write(f"{place} {start} {WRITES}\n")
        pid = int(talk.stdout.readline())
        last = start - 1
        while last < stop:
            last = int(talk.stdout.readline())
        os.kill(pid, signal.SIGKILL)
        while (line := talk.stdout.readline()) != "over\n":
            last = int(line)
        return last

    def end(self) -> None:
        self._parent.communicate(timeout=30)


@pytest.fixture(scope="module")
def writers() -> Iterator[Writers]:
    made = Writers()
    yield made
    made.end()


async def found(place: str) -> list[int]:
    """Open the session as anybody would; give the numbers that are in it."""
    again = agent()
    if ":" not in place:
        async with Session(again, place):
            return [int(text.split()[0]) for text in texts(again.messages)]
    async with SessionDatabase(place) as database, Session(again, store=database, id="s"):
        return [int(text.split()[0]) for text in texts(again.messages)]


def check_crashes(writers: Writers, place: str, times: int) -> None:
    number = 0
    stops = sorted(random.sample(range(1, WRITES - 1), times - 1))
    for stop in [*stops, WRITES - 1]:
        last = writers.crash(place, number, stop)
        there = run(found(place))
        assert last >= stop
        assert there[: last + 1] == list(range(last + 1))
        assert len(there) <= last + 2  # one more may have been written before it was told
        number = len(there)
    assert number == WRITES


def test_a_killed_session_has_every_acknowledged_entry_in_its_file(
    tmp_path: Path, writers: Writers
) -> None:
    check_crashes(writers, str(tmp_path / "s.jsonl"), 6)


def test_a_killed_session_has_every_acknowledged_entry_in_sqlite(
    tmp_path: Path, writers: Writers
) -> None:
    url = f"sqlite:///{tmp_path / 's.db'}"
    check_crashes(writers, url, 3)
    assert rows(url, "PRAGMA integrity_check")[0][0] == "ok"
