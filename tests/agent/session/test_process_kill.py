"""After a kill at any moment no tool runs twice, and every call has a true state."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from agent.session.payments import PAYMENTS, Order, Payer, Till, archive_at
from penstock.agent import Agent, Resolution, Session, ToolOutput
from penstock.agent.loop import UNDECIDED
from penstock.agent.session import SessionFolder
from penstock.agent.session.storage import SessionStore
from penstock.agent.tool_calls import INTERRUPTED
from penstock.messages import AssistantMessage, ToolResult

EVERY = bool(os.environ.get("EVERY_CRASH"))
"""Whether agents with databases are killed at every point too, as in `make e2e`."""

BOTH_BEGAN = 30
"""A point at which both calls have begun, and neither has a result."""

STRIDES = {"sqlite": 9, "postgresql": 17}
"""Else at one point in so many: a process that opens a database takes its time."""


class Payments:
    """Processes that pay until they are killed, one after the other."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(  # noqa: S603 - our own interpreter, our own script
            [sys.executable, str(Path(__file__).with_name("payments.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def make(self, order: Order) -> bool:
        """Let one work; tell whether it was killed."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.write(json.dumps(msgspec.to_builtins(order)) + "\n")
        code = int(self._parent.stdout.readline())
        assert code in (0, -signal.SIGKILL)
        return code != 0

    def end(self) -> None:
        self._parent.communicate(timeout=30)


@pytest.fixture(scope="module")
def payments() -> Iterator[Payments]:
    made = Payments()
    yield made
    made.end()


class Case:
    """One process that was killed, and what is found of it."""

    def __init__(self, archive: SessionStore, order: Order, earlier: Iterable[int] = ()) -> None:
        self._archive = archive
        self._order = order
        self._earlier = set(earlier)  # whose outcome was unknown before
        self._till = Till(order.folder)
        self._before = self._till.paid()
        self.agent = Agent(Payer(), self._till.tools(), approve="all")
        self.session = Session(self.agent, store=archive, id=order.id)

    async def check(self, how: int) -> None:
        """Open the session, go on in one of several ways, and see that all of it is true."""
        async with self.session:
            unknown = {int(call.id[1:]) for call in self.session.interrupted}
            waiting = {int(call.id[1:]) for call in self.agent.deferred}
            assert not waiting & set(self._before), "a call that paid is told as not begun"
            assert not waiting & set(self._till.told("ToolStarted"))
            assert unknown <= set(self._till.told("ToolStarted")) | set(PAYMENTS)
            assert not unknown & set(self._till.told("ToolEnded")), "a result was lost"
            await self._go_on(how)
            for number, content in self._results().items():
                self._check_result(number, content, unknown, waiting if how == 0 else set())
            assert max(map(self._till.paid().count, PAYMENTS)) <= 1, "paid twice"
            assert not self.session.interrupted
            assert not self.agent.deferred
        await self._check_again()

    async def _go_on(self, how: int) -> None:
        if how == 0 or not self.agent.messages:
            await self.session.run("Go on.").result(check=True)
            return
        decisions: dict[str, Resolution] = {}
        if how == 2:  # the third way: its owner has looked
            decisions = {call.id: ToolOutput("seen") for call in self.session.interrupted}
        is_over = isinstance(self.agent.messages[-1], AssistantMessage)
        if self.agent.interrupted or self.agent.deferred or not is_over:
            await self.session.resume(decisions).result(check=True)

    def _results(self) -> dict[int, str]:
        results = [one for one in self.agent.messages if isinstance(one, ToolResult)]
        assert len({result.id for result in results}) == len(results) in (0, len(PAYMENTS))
        return {int(result.id[1:]): str(result.content) for result in results}

    def _check_result(self, number: int, content: str, unknown: set[int], no: set[int]) -> None:
        if content in (INTERRUPTED, "seen"):
            assert number in unknown | self._earlier
        elif content == UNDECIDED:
            assert number in no
            assert number not in self._till.paid()
        else:
            assert content == f"paid {number}"
            assert number in self._till.paid()
            assert number not in unknown

    async def _check_again(self) -> None:
        """Open it once more: nothing is left to be decided, and nothing has changed."""
        again = Agent(Payer(), self._till.tools(), approve="all")
        async with Session(again, store=self._archive, id=self._order.id) as session:
            assert again.messages == self.agent.messages
            assert not session.interrupted
            assert not again.deferred
            assert session.faults == []


async def killed_everywhere(
    payments: Payments, place: str, folder: Path, *, eager: bool, stride: int = 1
) -> int:
    """Kill one process at each point of its run; give how many points there were."""
    archive = archive_at(place)
    for number in count():
        stop = 1 + number * stride
        work = folder / f"{eager}-{stop}"
        work.mkdir()
        order = Order(place=place, id=f"{eager}-{stop}", folder=str(work), stop=stop, eager=eager)
        is_killed = payments.make(order)
        await Case(archive, order).check(number % 3)
        if not is_killed:
            assert Till(str(work)).paid() == [2, 1]
            break
    if place.startswith(("sqlite", "postgres")):
        await archive.close()  # type: ignore[union-attr]
    return stop


@pytest.mark.parametrize("eager", [False, True])
async def test_a_killed_agent_pays_nothing_twice_and_tells_nothing_untrue_from_its_file(
    tmp_path: Path,
    payments: Payments,
    eager: bool,  # noqa: FBT001
) -> None:
    place = str(tmp_path / "sessions")
    points = await killed_everywhere(payments, place, tmp_path, eager=eager)
    assert points > 40  # events, writes and payments


async def test_an_agent_that_is_killed_again_while_it_goes_on_pays_nothing_twice(
    tmp_path: Path, payments: Payments
) -> None:
    archive = SessionFolder(tmp_path)
    for stop in count(1, 1 if EVERY else 5):
        work = tmp_path / f"work{stop}"
        work.mkdir()
        order = Order(place=str(tmp_path), id=f"s{stop}", folder=str(work), stop=BOTH_BEGAN)
        assert payments.make(order)
        is_killed = payments.make(structs.replace(order, stop=stop))
        await Case(archive, order, PAYMENTS).check(stop % 3)
        assert Till(str(work)).paid() in ([], [2])  # what the first process paid
        if not is_killed:
            break


@pytest.mark.parametrize("eager", [False, True])
async def test_the_same_from_a_database(
    tmp_path: Path,
    payments: Payments,
    url: str,
    eager: bool,  # noqa: FBT001
) -> None:
    stride = 1 if EVERY else STRIDES[url.partition(":")[0].partition("+")[0]]
    await killed_everywhere(payments, url, tmp_path, eager=eager, stride=stride)
