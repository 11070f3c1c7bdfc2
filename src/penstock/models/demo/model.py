"""`DemoModel`: the script, streamed like a model's answer."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from typing import Final, Literal
from zlib import crc32

from penstock import _json, apis
from penstock.errors import UsageError
from penstock.events import (
    Delta,
    Done,
    Event,
    MessageStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from penstock.formats import FormatLike, get
from penstock.messages import AssistantMessage, Text, ToolCall, Usage
from penstock.models.base import Batches, Tap, unfailing
from penstock.models.demo.script import Line, line_for
from penstock.request import Request, RequestLike, make_request
from penstock.streams import EventStream

NAME: Final = "penstock-demo"
"""What the scripted model is called."""

NATIVE: Final = "native"
"""In place of a format: calls come as events, as from a server that reads them itself."""

_PIECE: Final = re.compile(r"\s?\w{1,5}|\s|[^\w\s]")
"""Something like a token: a few letters with the blank before them, or one other character."""

Sleep = Callable[[float], Awaitable[object]]
"""Waits so many seconds."""


class DemoModel:
    """A scripted model: no network, no key, no understanding, the same answer every time.

    It answers in text. Where tools are offered (in the request, or shown in the system prompt, as
    `ToolMiddleware` does) it calls the one that fits the user's words, as text of *format*; with
    ``native`` as a call. Arguments are made from the words and the schema. A tool's result is told
    back. It says that it is scripted.

    Every *pace* seconds comes a piece of about a token; *sleep* is what waits.
    """

    def __init__(
        self,
        format: FormatLike = "hermes",  # noqa: A002 - the word of the whole interface
        *,
        pace: float = 0.0,
        sleep: Sleep = asyncio.sleep,
        name: str = NAME,
    ) -> None:
        if not pace >= 0:
            raise UsageError(f"a pace is zero or more seconds, not {pace}")
        self._format = None if format == NATIVE else get(format)
        self._pace = pace
        self._sleep = sleep
        self._name = name

    wire: Final = "openai-chat"
    """The API of what a tap is shown."""

    @property
    def name(self) -> str:
        """The name of the model."""
        return self._name

    def stream(self, request: RequestLike) -> EventStream:
        """Begin to answer *request*; every failure is in the stream.

        Raises `UsageError` for what is no request, as do the other two.
        """
        return EventStream(self._answer(make_request(request)), interval=0)

    def batches(self, request: RequestLike, tap: Tap | None = None) -> Batches:
        """Give the events of the answer one by one.

        There is no wire; *tap* sees what a server of the API `wire` would have sent.
        """
        return unfailing(self._batches(make_request(request), tap))

    async def complete(self, request: RequestLike) -> AssistantMessage:
        """Give the whole answer."""
        async with self.stream(request) as stream:
            return await stream.result()

    async def close(self) -> None:
        """Let go of nothing: a script holds nothing."""

    async def _batches(self, request: Request, tap: Tap | None) -> Batches:
        encoder = apis.get(self.wire).encoder(model=self._name, id=NAME)
        async with aclosing(self._answer(request)) as events:
            async for event in events:
                if tap is not None:
                    tap.received(encoder.encode(event))
                yield [event]
        if tap is not None:
            tap.received(encoder.finish())

    async def _answer(self, request: Request) -> AsyncGenerator[Event, None]:
        for event in _events(request, line_for(request, self._format), self._name):
            if self._pace and isinstance(event, Delta):
                await self._sleep(self._pace)
            yield event


def _events(request: Request, line: Line, name: str) -> Iterator[Event]:
    """Give the events of *line*, as far as *request* lets it be said."""
    text, stopped = _cut(line.text, request)
    message = AssistantMessage(_id(request, line.text), name)
    yield MessageStart(message.id, message.model)
    if text:
        message.content.append(Text(text))
        yield from _text(text)
    if line.call is not None and not stopped:
        message.content.append(line.call)
        yield from _call(len(message.content) - 1, line.call)
    message.stop_reason = reason = _reason(stopped, message)
    message.usage = _usage(request, message)
    yield Done(reason, message)


def _text(text: str) -> Iterator[Event]:
    yield TextStart(0)
    for piece in _PIECE.findall(text):
        yield TextDelta(0, piece, piece)
    yield TextEnd(0, text)


def _call(index: int, call: ToolCall) -> Iterator[Event]:
    yield ToolCallStart(index, call.id, call.name)
    for piece in _PIECE.findall(_json.encode(call.arguments).decode()):
        yield ToolCallDelta(index, piece)
    yield ToolCallEnd(index, call)


def _cut(text: str, request: Request) -> tuple[str, Literal["", "stop", "length"]]:
    """Cut *text* at a stop string or at the limit, whichever the request names first."""
    stopped: Literal["", "stop", "length"] = ""
    for stop in filter(None, request.stop):
        before, found, _ = text.partition(stop)
        if found:
            text, stopped = before, "stop"
    pieces = _PIECE.findall(text)
    if request.max_tokens is not None and len(pieces) > request.max_tokens:
        return "".join(pieces[: max(0, request.max_tokens)]), "length"
    return text, stopped


def _reason(stopped: str, message: AssistantMessage) -> Literal["stop", "length", "tool_use"]:
    if stopped == "length":
        return "length"
    return "tool_use" if message.tool_calls else "stop"


def _usage(request: Request, message: AssistantMessage) -> Usage:
    """Count pieces as if they were tokens."""
    heard = _json.encode([request.system, request.messages, request.tools]).decode()
    said = message.text + "".join(_json.encode(c.arguments).decode() for c in message.tool_calls)
    taken, given = len(_PIECE.findall(heard)), len(_PIECE.findall(said))
    return Usage(taken, given, total=taken + given)


def _id(request: Request, text: str) -> str:
    """Name the answer after what it says and what it answers: the same every time."""
    return f"demo-{crc32(_json.encode([request.messages, text])):08x}"
