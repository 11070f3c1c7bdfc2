"""One request answered: events of a model in, bytes of the client's API out.

This is the hot path. What arrives together from the upstream leaves together: one list of events,
one `send`, and the next list is asked for when the client has room. There is not a queue, so
whoever reads slowly slows the upstream down, and nothing is held but what is on its way.

A client that hangs up cancels the task, and with it the upstream's connection, whatever it waits
for. An upstream that fails before anything went out is answered with a status; afterwards with the
error of the client's API, in the stream. A client that waits long for the first word gets a sign of
life, and so does one that waits in the middle.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from functools import partial
from logging import getLogger
from typing import Any, Final, Literal, Protocol

from msgspec import Struct, structs

from penstock import _json, apis
from penstock.apis.encoder import StreamEncoder, ending_of, failure_of
from penstock.apis.fields import told_usage
from penstock.apis.openai_chat.encode import ChoicesEncoder, write_choices
from penstock.apis.openai_responses.response import repeated
from penstock.events import Done, Event, Failed, MessageStart
from penstock.gateway import errors
from penstock.gateway.errors import BAD_GATEWAY, presentable
from penstock.gateway.http_exchange import HTTPExchange
from penstock.gateway.keepalive import KeepAlive
from penstock.gateway.request_log import RequestLog
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models.base import Batches
from penstock.request import Request
from penstock.streams.errors import error_of

# How an answer ends: found in what arrives, or made where nothing valid arrives any more.


_ENDS: Final = (Done, Failed)  # a union would be made again for each batch
_OF_THE_GATEWAY: Final = (401, 407)  # the keys to the upstream and to a proxy are not the client's


def find_end(batch: list[Event]) -> Done | Failed | None:
    """Return the end of the answer, if *batch* holds it."""
    last = batch[-1] if batch else None
    return last if isinstance(last, _ENDS) else None


def is_nothing_but_failure(batch: list[Event]) -> bool:
    """Return whether the answer failed before it said anything; a refusal is an answer."""
    *before, last = batch
    if not isinstance(last, Failed) or not isinstance(ending_of(last.message), ErrorInfo):
        return False
    return all(isinstance(event, MessageStart) for event in before)


def make_fit(error: ErrorInfo) -> None:
    """Make of an upstream's error one that concerns a client: a status that refuses.

    An upstream that wants another key of the gateway is not a fault of a client.
    """
    if error.kind == "provider" and error.status in _OF_THE_GATEWAY:
        error.message = f"the upstream refused the gateway: {error.message}"
        error.type, error.status = "api_error", BAD_GATEWAY
    fit = presentable(error)
    error.message, error.status = fit.message, fit.status


def shutdown() -> ErrorInfo:
    """Say that the gateway ends."""
    return ErrorInfo(
        "the gateway is shutting down", "aborted", "overloaded_error", 503, retryable=True
    )


def aborted_by(error: ErrorInfo) -> Failed:
    """Return the end of an answer that *error* ended from outside."""
    return Failed("aborted", error, AssistantMessage(stop_reason="aborted", error=error))


def cut() -> ErrorInfo:
    """Say that an upstream ended without a terminal event."""
    return ErrorInfo("the upstream ended before its answer did", "truncated", retryable=True)


FAREWELL: Final = 1.0
"""How many seconds a client has to take the last words of a stream that the gateway ends."""

FLAW: Final = b"x-penstock-error"
"""The header of a whole answer of which a call is missing, because it is not complete."""

MAX_TOLD: Final = 200
"""How many characters of the reason the header has."""

_LOG: Final = getLogger("penstock.gateway")

Keep = Callable[[AssistantMessage], Awaitable[None]]
"""Keeps what the next request will need of an answer, before the client sees its end."""


class EndpointFormat(Protocol):
    """How one endpoint tells an answer."""

    @property
    def api(self) -> str:
        """The API whose errors it tells."""

    def encoder(self) -> StreamEncoder:
        """Make what writes the stream."""

    def whole(self, message: AssistantMessage) -> dict[str, Any]:
        """Write the whole answer."""


class ResponseWriter:
    """Answers one *caller* in its *dialect*; `run` it once."""

    __slots__ = ("_alive", "_caller", "_dialect", "_encoder", "_is_closing", "_is_finished",
                 "_journal", "_keep", "_task", "aborted", "end", "status")  # fmt: skip

    def __init__(
        self,
        caller: HTTPExchange,
        dialect: EndpointFormat,
        journal: RequestLog,
        keep: Keep,
        *,
        patience: float,
    ) -> None:
        self._caller = caller
        self._dialect = dialect
        self._journal = journal
        self._keep = keep
        self._encoder = dialect.encoder()
        self._alive = KeepAlive(caller, self._encoder, patience)
        self._task: asyncio.Task[object] | None = None
        self._is_closing = False
        self._is_finished = False  # whether the last word of the stream was written
        self.end: Done | Failed | None = None
        """How the answer ended, once it has."""
        self.aborted: Failed | None = None
        """Why it was ended from outside, if it was."""
        self.status = 200

    def close(self) -> None:
        """End the answer now, because the gateway ends; the client is told."""
        self._is_closing = True
        self._cancel()

    async def run(self, *sources: Batches, stream: bool) -> None:
        """Answer with what *sources* give, of which there is one: as it comes, or all at once."""
        self._task = asyncio.current_task()
        try:
            self._caller.watch(self._cancel)
            try:
                await (self._stream(*sources) if stream else self._whole(*sources))
            finally:
                for source in sources:
                    await source.aclose()
        except asyncio.CancelledError:
            is_ours = self._caller.is_gone or self._is_closing
            await self._say_goodbye(stream=stream)
            if not is_ours:  # The server ends, and waits no longer.
                raise
        except Exception as exc:
            if not stream or not self._caller.has_begun:
                raise
            _LOG.exception("the answer %s failed", self._journal.started.id)
            await self._give_up(error_of(exc))
        finally:
            self._alive.stop()
            self._caller.unwatch()
            self._task = None
            self._note()

    # --- as it comes ---

    async def _stream(self, *sources: Batches) -> None:
        (batches,) = sources
        encode, caller, journal, alive = (
            self._encoder.encode, self._caller, self._journal, self._alive
        )  # fmt: skip
        alive.begin()
        async for batch in batches:
            if not batch:
                continue
            journal.events(batch)
            if (end := find_end(batch)) is not None:
                await self._finish(end)
                if not caller.has_begun and is_nothing_but_failure(batch):
                    await self._refuse(end)
                    return
            if not caller.has_begun:
                await caller.begin_stream()
            data = b"".join([encode(event) for event in batch])
            if data:
                alive.touch()
                await caller.send(data)
        await caller.end_stream(self._finished())

    # --- all at once ---

    async def _whole(self, *sources: Batches) -> None:
        (batches,) = sources
        async for batch in batches:
            self._journal.events(batch)
            end = find_end(batch)
            if end is not None:
                await self._finish(end)
                break
        end = self.end
        if end is None:
            end = self.end = Failed("error", cut(), AssistantMessage())
        failure = failure_of(end.message)
        if failure is not None:
            await self._refuse(
                end if isinstance(end, Failed) else Failed("error", failure, end.message)
            )
            return
        self._tell_flaw(end.message)
        await self._caller.answer(200, self._dialect.whole(end.message))

    def _tell_flaw(self, message: AssistantMessage) -> None:
        """Say in a header what is missing: some APIs have no place for it in a whole answer."""
        ending = ending_of(message)
        if isinstance(ending, ErrorInfo):
            told = ending.message.encode("ascii", "replace")[:MAX_TOLD]
            self._caller.extra.append((FLAW, told.replace(b"\n", b" ").replace(b"\r", b" ")))

    # --- the end ---

    async def _finish(self, end: Done | Failed) -> None:
        """Note the end, and keep what the next request needs before the client sees it."""
        self.end = end
        if isinstance(end, Done):
            await self._keep(end.message)
            return
        self._make_fit(end)

    def _make_fit(self, end: Failed) -> None:
        """Take out of an error what is no business of a client: secrets, and our own keys."""
        for error in filter(None, (end.error, end.message.error)):
            self._journal.secrets.hide_in(error)
            make_fit(error)

    async def _refuse(self, end: Failed | Done) -> None:
        error = end.error if isinstance(end, Failed) else cut()
        self.end = end
        self.status, body = errors.write(error, self._dialect.api, self._journal.started.id)
        await self._caller.answer(self.status, body, *errors.headers_of(error))

    async def _say_goodbye(self, *, stream: bool) -> None:
        """End what the gateway cannot continue with; to a client that is gone nothing is said."""
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        is_gone = self._caller.is_gone
        error = ErrorInfo("the client hung up", "aborted") if is_gone else shutdown()
        self.aborted = aborted_by(error)
        self.end = self.end or self.aborted
        if is_gone:
            self.status = 499
            return
        try:
            async with asyncio.timeout(FAREWELL):
                if stream and self._caller.has_begun:
                    await self._caller.end_stream(self._last_words(self.aborted))
                elif not self._caller.has_begun:
                    await self._refuse(self.aborted)
        except TimeoutError:
            self.end = self.aborted  # whatever the upstream said: the client did not hear it

    async def _give_up(self, error: ErrorInfo) -> None:
        """End a stream in which we ourselves have failed."""
        self.end = failed = Failed("error", error, AssistantMessage(error=error))
        with suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL):
                await self._caller.end_stream(self._last_words(failed))

    def _last_words(self, failed: Failed) -> bytes:
        """Write the end of a stream that stops here; nothing where it has been written."""
        if self._is_finished:
            return b""
        return self._encoder.encode(failed) + self._finished()

    def _finished(self) -> bytes:
        self._is_finished = True
        return self._encoder.finish()

    def _note(self) -> None:
        """Hand the account of the answer to the log."""
        self._note_one(self.end, self._journal)

    def _note_one(self, end: Done | Failed | None, journal: RequestLog) -> None:
        end = end or Failed("error", cut(), AssistantMessage())
        message = end.message
        if isinstance(end, Failed) and message.error is None:
            message = structs.replace(message, error=end.error)
        state: Literal["done", "failed", "aborted"] = "done"
        if isinstance(end, Failed):
            state = "aborted" if end.reason == "aborted" else "failed"
        whole = None if failure_of(message) is not None else self._dialect.whole
        journal.end(
            message,
            state=state,
            status=self.status,
            response=None if whole is None else lambda: whole(message),
        )

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


# How each endpoint tells an answer: its ids, the model it names, its stream and its whole.


PREFIXES: Final = {"openai-chat": "chatcmpl-", "openai-responses": "resp_", "anthropic": "msg_"}
"""How the id of an answer begins in each API."""

_OF_WHOLE: Final = ("custom",)
"""The options of a stream that a whole answer has too."""


class ApiEndpointFormat(Struct, frozen=True):
    """Tells answers as *api* does, under the name of the model that the client asked for.

    *tokens* is about what the prompt costs.
    """

    api: str
    id: str
    model: str
    created: int
    options: dict[str, Any]
    tokens: int = 0

    def encoder(self) -> StreamEncoder:
        """Make what writes the stream."""
        return apis.get(self.api).encoder(
            model=self.model, id=self.id, created=self.created, **self.options
        )

    def whole(self, message: AssistantMessage) -> dict[str, Any]:
        """Write the whole answer."""
        usage = told_usage(message, self.tokens)
        told = structs.replace(message, id=self.id, model=self.model, usage=usage)
        own = {name: self.options[name] for name in _OF_WHOLE if name in self.options}
        written = apis.get(self.api).write_response(told, created=self.created, **own)
        if "fields" not in self.options:
            return written
        has_failed = message.error is not None or written["status"] == "failed"
        is_kept = {"store": False} if has_failed else {}
        return {**written, **self.options["fields"](), **is_kept}


def dialect_of(
    api: str,
    request: Request,
    request_id: str,
    *,
    tokens: int = 0,
    always: bool = False,
    fields: Mapping[str, Any] | None = None,
) -> ApiEndpointFormat:
    """Return the dialect in which *request* of *api* is answered.

    *tokens* is what the prompt is thought to cost, for the API that tells it first and for
    upstreams that count nothing; *always* tells the tokens at the end whether the client asked for
    them or not. *fields* is what a response object says of itself, besides what it repeats of its
    request.
    """
    options: dict[str, Any] = {"input_tokens": tokens}
    if api == "openai-chat":
        options |= {"usage": request.include_usage or always, "error_id": request_id}
    elif api == "openai-responses":
        options["custom"] = _custom_tools(request)
        options["fields"] = _squeezed({**repeated(request.raw or {}), **(fields or {})})
    id_ = PREFIXES[api] + request_id
    return ApiEndpointFormat(api, id_, request.model, int(time.time()), options, tokens)


def _squeezed(fields: dict[str, Any]) -> partial[dict[str, Any]]:
    """Return what gives *fields*: the tools of an agent are large, and streams open for minutes."""
    return partial(_unsqueezed, zlib.compress(_json.encode(fields), 1))


def _unsqueezed(data: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = _json.decode(zlib.decompress(data))
    return fields


def _custom_tools(request: Request) -> list[str]:
    """Name the tools of the client that take free text."""
    raw = (request.raw or {}).get("tools")
    tools = raw if isinstance(raw, list) else []
    return [
        str(tool.get("name"))
        for tool in tools
        if isinstance(tool, dict) and tool.get("type") == "custom"
    ]


# Several answers to one request: as many upstream streams, each a choice of one chat
# completion.
#
# Each choice has a journal of its own, as if it had been asked for alone. What comes from them
# goes out as it comes; a task reads each of them, no further than one list of events ahead.


Numbered = tuple[int, list[Event]]
"""A list of events, and the number of the choice that they belong to."""


class MultiChoiceResponseWriter(ResponseWriter):
    """Answers with several choices; a *journal* for each."""

    def __init__(
        self,
        caller: HTTPExchange,
        dialect: ApiEndpointFormat,
        journals: list[RequestLog],
        keep: Keep,
        *,
        patience: float,
    ) -> None:
        super().__init__(caller, dialect, journals[0], keep, patience=patience)
        self._journals = journals
        self._ends: list[Done | Failed | None] = [None] * len(journals)
        self._told = dialect
        self._choices = ChoicesEncoder(
            len(journals),
            model=dialect.model,
            id=dialect.id,
            created=dialect.created,
            usage=bool(dialect.options.get("usage")),
            input_tokens=dialect.tokens,
        )

    async def _stream(self, *sources: Batches) -> None:
        self._alive.begin()
        async with aclosing(merged(sources)) as merging:
            async for choice, batch in merging:
                self._see(choice, batch)
                if not self._caller.has_begun:
                    if is_nothing_but_failure(batch):
                        await self._refuse(self._ends[choice] or _failure())
                        return
                    await self._caller.begin_stream()
                data = b"".join([self._choices.encode(choice, event) for event in batch])
                self._alive.touch()
                if data:
                    await self._caller.send(data)
                if self._choices.ended:
                    break
        await self._caller.end_stream(self._choices.finish())

    async def _whole(self, *sources: Batches) -> None:
        async with aclosing(merged(sources)) as merging:
            async for choice, batch in merging:
                self._see(choice, batch)
        ends = [end or _failure() for end in self._ends]
        for end in ends:
            failure = failure_of(end.message)
            if failure is not None:
                await self._refuse(
                    end if isinstance(end, Failed) else Failed("error", failure, end.message)
                )
                return
        self.end = ends[0]
        told = self._told
        messages = [
            structs.replace(
                end.message,
                id=told.id,
                model=told.model,
                usage=told_usage(end.message, told.tokens),
            )
            for end in ends
        ]
        await self._caller.answer(200, write_choices(messages, created=told.created))

    def _see(self, choice: int, batch: list[Event]) -> None:
        self._journals[choice].events(batch)
        if (end := find_end(batch)) is not None:
            self._ends[choice] = self.end = end
            if isinstance(end, Failed):
                self._make_fit(end)

    def _last_words(self, failed: Failed) -> bytes:
        return self._choices.finish(failed)

    def _note(self) -> None:
        """Note each choice; those that had no end were ended with the whole answer."""
        stopped = self.aborted
        if stopped is None and any(isinstance(end, Failed) for end in self._ends):
            stopped = aborted_by(ErrorInfo("another choice failed", "aborted"))
        for end, journal in zip(self._ends, self._journals, strict=True):
            self._note_one(end or stopped, journal)


async def merged(sources: Sequence[Batches]) -> AsyncGenerator[Numbered, None]:
    """Yield what all *sources* give, as it comes; whoever stops reading stops them all."""
    queue: asyncio.Queue[Numbered | None] = asyncio.Queue(maxsize=len(sources))

    async def read(number: int, source: Batches) -> None:
        try:
            async with aclosing(source):
                async for batch in source:
                    if batch:
                        await queue.put((number, batch))
        except Exception as exc:  # noqa: BLE001 - whatever it is, the client is told
            await queue.put((number, [Failed("error", error_of(exc), AssistantMessage())]))
        await queue.put(None)

    tasks = [asyncio.create_task(read(number, one)) for number, one in enumerate(sources)]
    try:
        left = len(tasks)
        while left:
            came = await queue.get()
            if came is None:
                left -= 1
            else:
                yield came
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _failure() -> Failed:
    return Failed("error", cut(), AssistantMessage())
