"""What a model is to penstock: a request in, a stream of events out.

A stream function returns at once and never raises: whatever fails is in the stream. So a model can
be wrapped by another (`ToolMiddleware` is one), and whoever reads the stream has one place to look.

A stream has a task of its own, merges and paces. Who passes every event on as it comes, as a
gateway does, reads `batches` instead: lists of events, as many as arrived together, with nothing
between the reader and the network; who reads slowly slows the network down.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

from penstock.events import Event, Failed
from penstock.messages import AssistantMessage
from penstock.requests import Request
from penstock.streams import EventStream
from penstock.streams.failures import error_of

Batches = AsyncGenerator[list[Event], None]
"""Lists of events as they arrive; the last event of the last one is terminal."""


class Model(Protocol):
    """Anything that answers requests."""

    @property
    def name(self) -> str:
        """The name of the model that answers, as its server knows it."""

    def stream(self, request: Request) -> EventStream:
        """Begin to answer *request*; never raises, every failure is in the stream."""

    async def complete(self, request: Request) -> AssistantMessage:
        """Give the whole answer; one that failed has `error` set."""

    async def close(self) -> None:
        """Let go of what the model holds: connections, threads, memory."""


class Tap:
    """Sees what passes between a model and its server; override what is of interest.

    None of the methods may raise or wait: they stand in the way of the answer.
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
    """Give *batches*, and what they raise as a failed answer."""
    try:
        async with aclosing(batches):
            async for batch in batches:
                yield batch
    except Exception as exc:  # noqa: BLE001 - whatever it is, consumers are told
        yield [Failed("error", error_of(exc), AssistantMessage())]
