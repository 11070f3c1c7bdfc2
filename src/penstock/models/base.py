"""The model contract: a request goes in, a stream of events comes out.

`Model.stream` returns at once, and every failure is reported in the stream. It raises only for an
argument that is not a request, which is a mistake in the caller's code. So a model can wrap another
model (`ToolMiddleware` does), and a consumer has one place to look for errors.

A stream runs in its own task, merges deltas and paces them. A consumer that forwards every event as
it arrives, such as the gateway, reads `Model.batches` instead: lists of the events that arrived
together, with no task and no queue between the reader and the network. A slow reader slows down the
upstream.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, Literal, Self

from penstock.apis.errors import error_from_exception, truncated_error
from penstock.events import DELTAS, Delta, Event
from penstock.messages import AssistantMessage, CallIds, ErrorInfo
from penstock.request import Request
from penstock.streams import EventStream
from penstock.streams.pump import Record
from penstock.streams.queues import merge_deltas

MAX_UNJOINED: Final = 8
"""How many events that were parsed from one delta pass as they are: ordinary text has one."""

Batches = AsyncGenerator[list[Event], None]
"""Lists of events in order of arrival; the last event of the last list is terminal."""


OutputMode = Literal["native", "tool", "grammar", "prompt"]
"""How a model is made to write JSON that fits a schema.

The response format of its API, a tool, a grammar, or instructions in the prompt.
"""


class Tap:
    """Observes the bytes exchanged between a model and its server; override what you need.

    The methods are called synchronously in the response path, so they must not block.
    """

    is_redacting = False
    """Whether the tap redacts API keys itself and never raises.

    Any other tap receives redacted data, and its exceptions are suppressed.
    """

    def sent(self, body: bytes) -> None:
        """Observe a request body; called again for every retry."""

    def received(self, data: bytes) -> None:
        """Observe a chunk of a response body, decompressed, as it arrives."""

    def reported(self, report: Any) -> None:
        """Observe the `Report` of the response, before its first event."""

    def may_retry(self, error: ErrorInfo) -> bool:
        """Return whether the same request may be sent again after *error*."""
        del error
        return True


class AsyncCloseable(ABC):
    """An object that ``async with`` closes."""

    @abstractmethod
    async def close(self) -> None:
        """Release all resources."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()


class Model(AsyncCloseable):
    """Base class of all models; a subclass implements `name` and `stream`.

    Every other member has a default that is right for a model without a server.
    """

    reads_calls: bool = False
    """Whether the model already turns calls in its text into events.

    The gateway then does not parse the text again.
    """

    wire: str = ""
    """The API whose bytes a tap receives, if it is not the API of the configured upstream."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name of the model, as its server knows it."""

    @property
    def api_name(self) -> str:
        """The name of the API that the upstream uses; empty if unknown."""
        return ""

    @property
    def interval(self) -> float:
        """The minimum number of seconds between two deltas of a stream."""
        return 0.0

    @abstractmethod
    def stream(self, request: Request) -> EventStream:
        """Start the response to *request*; every failure is reported in the stream.

        Raises `UsageError` if *request* is not a request.
        """

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        """Yield the events of the response as they arrive.

        Nothing is raised except the cancellation of the reader. Close the generator unless you read
        it to its end. *tap* observes the exchange with the server, if there is one.
        """
        del tap
        return _read_stream(self, request)

    async def complete(self, request: Request) -> AssistantMessage:
        """Return the whole response; a failed one has `error` set."""
        async with self.stream(request) as stream:
            return await stream.result()

    async def close(self) -> None:
        """Release connections, threads and memory."""

    def without_retries(self) -> Model:
        """Return a copy that tries once and shares the connections; close the original only.

        The agent retries whole turns, reports each retry and knows whether a tool has already run.
        Retries below it would multiply the attempts and hide them.
        """
        return self

    def scoped(self, scope: str) -> Model:
        """Return a copy that sees only the server-side sessions of *scope*, such as an API key id.

        Models that keep no conversations return themselves.
        """
        del scope
        return self

    @property
    def format_name(self) -> str:
        """The name of the format in which calls in the text are read; empty if none are."""
        return ""

    def output_modes(self, *, has_tools: bool) -> tuple[OutputMode, ...]:
        """Return how the model can be made to write JSON, best first.

        *has_tools* says whether it may also call tools in the same response.
        """
        del has_tools
        return ("prompt",)

    def omitted_fields(self, request: Request) -> list[str]:
        """Return the fields of *request* that the model ignores and that no `Report` names."""
        del request
        return []

    async def names(self, seconds: float = 10.0) -> list[str]:
        """Return the models that the server lists, within *seconds*; empty if it has no list."""
        del seconds
        return []


async def _read_stream(model: Model, request: Request) -> Batches:
    async with aclosing(model.stream(request)) as stream:
        while batch := await stream.batch():
            yield batch


def new_id(prefix: str = "") -> str:
    """Return *prefix* and 32 random hexadecimal digits: unique without knowing other ids."""
    # 128 bits: ids of different processes and machines meet in one log.
    return prefix + secrets.token_hex(16)


def new_call_id() -> str:
    """Return a random id for a tool call, unique in all conversations."""
    return new_id("call_")


def ids_for(request: Request) -> CallIds:
    """Return a maker of call ids that are unique within the conversation of *request*."""
    # Ids in text may repeat from one response to the next: Cohere's count from 0 in each. Clients
    # match results to calls by id alone.
    responses = [m for m in request.messages if isinstance(m, AssistantMessage)]
    return CallIds(call.id for response in responses for call in response.tool_calls)


# --- working with batches ---


async def iter_events(batches: Batches) -> AsyncGenerator[Event, None]:
    """Yield the events of *batches* one at a time."""
    async with aclosing(batches):
        async for batch in batches:
            for event in batch:
                yield event


def join_deltas(events: list[Event]) -> list[Event]:
    """Return *events*, all parsed from one delta, with neighbouring deltas of a block joined.

    A parser emits one delta for each start marker that turns out to be text: 200,000 of them in one
    delta of 2.2 MB would be sent to the client as 46 MB.
    """
    if len(events) <= MAX_UNJOINED:
        return events
    out: list[Event] = []
    run: list[Delta] = []
    for event in events:
        if isinstance(event, DELTAS):
            if run and (type(run[0]) is not type(event) or run[0].index != event.index):
                out.append(merge_deltas(run))
                run = []
            run.append(event)
            continue
        if run:
            out.append(merge_deltas(run))
            run = []
        out.append(event)
    return [*out, merge_deltas(run)] if run else out


async def ensure_end(batches: Batches) -> Batches:
    """Yield *batches* without empty lists and always with a terminal event.

    As in a stream, an exception or a missing terminal event becomes a failed response: open blocks
    are closed with the content received so far.
    """
    record = Record()
    passed: list[Event] = []
    error = truncated_error()
    try:
        async with aclosing(batches):
            async for batch in batches:
                for event in batch:
                    if isinstance(event, DELTAS):  # the fast path: deltas close no block
                        record.add_delta(event)
                        passed.append(event)
                    else:
                        passed += record.add(event)
                if passed:
                    yield passed
                    passed = []
    # `CancelledError` is not an `Exception`: a cancellation passes.
    except Exception as exc:  # noqa: BLE001 - every failure becomes an event
        error = error_from_exception(exc)
    end = passed if record.ended else [*passed, *record.fail(error)]
    if end:
        yield end


async def collect_message(batches: Batches) -> AssistantMessage:
    """Read *batches* to the end and return the message; without an end it has `error` set.

    Raises whatever *batches* raises, and `UsageError` if the events are not a valid response.
    """
    record = Record()
    async for event in iter_events(batches):
        record.add(event)
    if not record.ended:
        record.fail(truncated_error())
    return record.message
