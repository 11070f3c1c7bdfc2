"""What a model is to penstock: a request in, a stream of events out.

A stream function returns at once, and whatever fails is in the stream: it raises only for what is
no request, which is a mistake in the caller's code. So a model can be wrapped by another
(`ToolMiddleware` is one), and whoever reads the stream has one place to look.

A stream has a task of its own, merges and paces. Who passes every event on as it comes, as a
gateway does, reads `batches` instead: lists of events, as many as arrived together, with nothing
between the reader and the network; who reads slowly slows the network down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from types import TracebackType
from typing import Any, Protocol, Self

from penstock.events import Event
from penstock.messages import AssistantMessage
from penstock.request import Request
from penstock.streams import EventStream
from penstock.streams.errors import error_of, truncated
from penstock.streams.merging import DELTAS
from penstock.streams.pump import Record

Batches = AsyncGenerator[list[Event], None]
"""Lists of events as they arrive; the last event of the last one is terminal."""


class Model(Protocol):
    """Anything that answers requests."""

    @property
    def name(self) -> str:
        """The name of the model that answers, as its server knows it."""

    def stream(self, request: Request) -> EventStream:
        """Begin to answer *request*; every failure is in the stream.

        Raises `UsageError` for what is no request: that is a mistake of the caller's.
        """

    async def complete(self, request: Request) -> AssistantMessage:
        """Give the whole answer; one that failed has `error` set."""

    async def close(self) -> None:
        """Let go of what the model holds: connections, threads, memory."""


class Closing(ABC):
    """What is closed at the end of an ``async with``."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of what is held."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


class Tap:
    """Sees what passes between a model and its server; override what is of interest.

    None of the methods may wait: they stand in the way of the answer.
    """

    hides_keys = False
    """Whether the tap hides keys itself that a server says again, and never raises.

    Any other is shown no key, and what it raises is lost.
    """

    def sent(self, body: bytes) -> None:
        """See the body of a call that goes out; one that is tried again is seen again."""

    def received(self, data: bytes) -> None:
        """See a piece of the answer as it came from the network, with compression undone."""

    def reported(self, report: Any) -> None:
        """See the `Report` of the answer, before the first event of it."""


def batches(model: Model, request: Request, tap: Tap | None = None) -> Batches:
    """Give the events of the answer as they arrive, whatever *model* is.

    A model with a method `batches` of its own is asked for them; of any other the stream is read.
    Nothing is raised but what cancels the reader; close what you do not read to its end.
    """
    own: Callable[[Request, Tap | None], Batches] | None = getattr(model, "batches", None)
    return _of_stream(model, request) if own is None else own(request, tap)


async def _of_stream(model: Model, request: Request) -> Batches:
    async with aclosing(model.stream(request)) as stream:
        while batch := await stream.batch():
            yield batch


async def one_by_one(batches: Batches) -> AsyncGenerator[Event, None]:
    """Give the events of *batches*, as a stream reads them."""
    async with aclosing(batches):
        async for batch in batches:
            for event in batch:
                yield event


async def unfailing(batches: Batches) -> Batches:
    """Give *batches*, none of them empty, with a lawful end whatever becomes of them.

    As in a stream, what they raise is a failed answer, and so is an end without a terminal event:
    blocks that are open are closed with what had arrived.
    """
    record = Record()
    passed: list[Event] = []
    error = truncated()
    try:
        async with aclosing(batches):
            async for batch in batches:
                for event in batch:
                    if isinstance(event, DELTAS):
                        record.add_delta(event)
                        passed.append(event)
                    else:
                        passed += record.add(event)
                if passed:
                    yield passed
                    passed = []
    except Exception as exc:  # noqa: BLE001 - whatever it is, consumers are told
        error = error_of(exc)
    end = passed if record.ended else [*passed, *record.fail(error)]
    if end:
        yield end


async def message_of(batches: Batches) -> AssistantMessage:
    """Read *batches* to their end and give the message; one without an end has `error` set.

    Raises what they raise, and `UsageError` for events that make no lawful answer.
    """
    record = Record()
    async for event in one_by_one(batches):
        record.add(event)
    if not record.ended:
        record.fail(truncated())
    return record.message
