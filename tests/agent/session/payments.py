"""An agent that pays twice, side by side, in a process that ends itself at a chosen moment.

Run as a program it reads orders from stdin, a line of JSON each, and forks for each of them: what
takes long is to load all this. The child works until it has passed as many points as it was told
to, and is killed there by ``SIGKILL``. A point is every event that the run tells, both sides of
every write to the record, and the inside of the tools: before and after the payment.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from msgspec import Struct

from penstock import EventStream, Request
from penstock.agent import Agent, AgentTool, Session, tool
from penstock.agent.events import AgentEvent, ToolEnded, ToolStarted
from penstock.agent.session import SessionDatabase, SessionFolder
from penstock.agent.session.entries import Contents, EntryLine
from penstock.agent.session.storage import SessionStore, SessionWriter
from penstock.builder import message_events
from penstock.events import Event
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult
from penstock.models.base import Batches, Model, Tap

PAYMENTS = (1, 2)


class Order(Struct):
    """What one process is to do: where it keeps its session, and when it is killed."""

    place: str
    id: str
    folder: str
    stop: int = 0
    eager: bool = False


class Till:
    """Where payments are made: a line in a file is a payment, and cannot be taken back."""

    def __init__(self, folder: str, point: Callable[[], None] | None = None) -> None:
        self.folder = Path(folder)
        self.point: Callable[[], None] = point or (lambda: None)
        self._is_crowded = point is not None  # both payments are made side by side
        self.begun = asyncio.Event()  # both
        self.second = asyncio.Event()  # has been paid
        self.both = asyncio.Event()
        self._waiting = 0

    def paid(self) -> list[int]:
        """Give what was paid, in order."""
        return self._numbers("paid")

    def told(self, what: str) -> list[int]:
        """Give the payments of which everybody was told *what*: that they began, or ended."""
        return self._numbers(what)

    def write(self, name: str, number: int) -> None:
        with (self.folder / name).open("a") as file:
            file.write(f"{number}\n")

    def tools(self) -> list[AgentTool]:
        return [tool(self.pay, needs_approval=True)]

    async def pay(self, number: int) -> str:
        """Pay an invoice."""
        self.point()
        if self._is_crowded:
            self._waiting += 1
            if self._waiting == len(PAYMENTS):
                self.begun.set()
            await asyncio.wait_for(self.begun.wait(), 5)
            if number == 1:
                await asyncio.wait_for(self.second.wait(), 5)
        self.write("paid", number)
        self.point()
        (self.both if number == 1 else self.second).set()
        return f"paid {number}"

    def _numbers(self, name: str) -> list[int]:
        file = self.folder / name
        return [int(line) for line in file.read_text().split()] if file.exists() else []


class Payer(Model):
    """A model that has both invoices paid, and is content with whatever came of it."""

    name = "payer"

    def __init__(self, hold: asyncio.Event | None = None) -> None:
        self._hold = hold

    async def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        del tap
        is_paid = any(isinstance(message, ToolResult) for message in request.messages)
        pay = [ToolCall(f"c{number}", "pay", {"number": number}) for number in PAYMENTS]
        content = [Text("Done.")] if is_paid else [Text("I pay."), *pay]
        message = AssistantMessage("m", "payer", [*content], "stop" if is_paid else "tool_use")
        for event in message_events(message):
            if event.type == "done" and not is_paid and self._hold is not None:
                await self._hold.wait()  # the answer ends after its tools
                await asyncio.sleep(0.01)
            yield [event]

    def stream(self, request: Request) -> EventStream:
        return EventStream(self._events(request), interval=0)

    async def _events(self, request: Request) -> AsyncGenerator[Event, None]:
        async for batch in self.batches(request):
            for event in batch:
                yield event

    async def complete(self, request: Request) -> AssistantMessage:
        return await self.stream(request).result()

    async def close(self) -> None: ...


class Watched:
    """An archive whose journals pass a point before and after each write."""

    def __init__(self, archive: SessionStore, point: Callable[[], None]) -> None:
        self._archive = archive
        self._point = point

    def writer(self, id: str) -> SessionWriter:  # noqa: A002 - the field's name
        return WatchedJournal(self._archive.writer(id), self._point)

    def __getattr__(self, name: str) -> object:
        return getattr(self._archive, name)


class WatchedJournal:
    """A writer that passes a point before and after each write."""

    def __init__(self, writer: SessionWriter, point: Callable[[], None]) -> None:
        self._writer = writer
        self._point = point

    async def open(self) -> Contents:
        return await self._writer.open()

    async def append(self, lines: Sequence[EntryLine]) -> None:
        self._point()
        await self._writer.append(lines)
        self._point()

    async def close(self) -> None:
        await self._writer.close()


def archive_at(place: str) -> SessionFolder | SessionDatabase:
    """Give the sessions in a database, or in a folder."""
    return SessionDatabase(place) if "://" in place else SessionFolder(place)


async def work(order: Order) -> int:
    """Do what *order* says; give how many points there were, if this process still lives."""
    passed = 0

    def point() -> None:
        nonlocal passed
        passed += 1
        if passed == order.stop:
            os.kill(os.getpid(), signal.SIGKILL)

    till = Till(order.folder, point)
    hold = till.both if order.eager else None
    agent = Agent(Payer(hold), till.tools(), approve="all", eager=order.eager)
    conversation = agent._conversation
    emit = conversation.emit

    def tell(event: AgentEvent) -> None:
        emit(event)
        if isinstance(event, ToolStarted | ToolEnded):
            till.write(type(event).__name__, int(event.id[1:]))
        point()

    conversation.emit = tell  # type: ignore[method-assign]  # at once, not behind a queue
    archive = archive_at(order.place)
    store: SessionStore = Watched(archive, point)  # type: ignore[assignment]
    async with Session(agent, store=store, id=order.id) as session:
        if session.agent.messages:
            await session.resume().result()
        else:
            await session.run("Pay both.").result()
    return passed


def main() -> None:
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if not child:
            try:
                asyncio.run(work(order))
            except BaseException as exc:  # noqa: BLE001 - whatever it is, the test is told
                os.write(2, f"{type(exc).__name__}: {exc}\n".encode())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
