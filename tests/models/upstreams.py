"""Upstreams that follow a script, and the requests and tools that tests ask them with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from async_runner import run_in_virtual_time
from laws import cut_at
from penstock import EventStream, Request, Tool
from penstock.events import Done, Event, MessageStart, TextDelta, TextEnd, TextStart
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage
from penstock.models import Model
from penstock.request import Message, UserMessage

WEATHER = Tool(
    "get_weather",
    "Weather of a city",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
NOTE = Tool(
    "take_note",
    "Keep a note",
    {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    },
)
TOOLS = [WEATHER, NOTE]
PARIS = {"city": "Paris", "days": 3}

Answer = str | Sequence[Event] | BaseException


class Scripted(Model):
    """A model that gives one answer after the other, and keeps what it was asked."""

    def __init__(
        self,
        *answers: Answer,
        name: str = "some-model",
        cuts: Iterable[int] = (),
        reason: Any = "stop",
        usage: Usage | None = None,
    ) -> None:
        self.asked: list[Request] = []
        self.closed = False
        self._answers = list(answers)
        self._name = name
        self._cuts = list(cuts)
        self._reason = reason
        self._usage = usage or Usage(10, 5, total=15, raw={"n": 1})

    @property
    def name(self) -> str:
        return self._name

    def stream(self, request: Request) -> EventStream:
        self.asked.append(request)
        return EventStream(self._events(self._answers.pop(0)), interval=0)

    async def complete(self, request: Request) -> AssistantMessage:
        return await self.stream(request).result()

    async def close(self) -> None:
        self.closed = True

    def _events(self, answer: Answer) -> Iterable[Event]:
        if isinstance(answer, BaseException):
            raise answer
        if not isinstance(answer, str):
            return answer
        return spoken(answer, self._cuts, self._reason, self._usage)


def spoken(
    text: str, cuts: Iterable[int] = (), reason: Any = "stop", usage: Usage | None = None
) -> list[Event]:
    """Return the events of an answer that is text, in the pieces that *cuts* make."""
    pieces = cut_at(text, [min(cut, len(text)) for cut in cuts])
    deltas = [TextDelta(0, piece, piece) for piece in pieces if piece]
    message = AssistantMessage("m1", "some-model", [Text(text)], reason, reason, usage or Usage())
    block: list[Event] = [TextStart(0), *deltas, TextEnd(0, text)] if text else []
    return [MessageStart("m1", "some-model"), *block, Done(reason, message)]


def asking(words: str = "How is the weather in Paris?", **fields: Any) -> Request:
    """Return a request of a user who says *words*, with tools."""
    fields.setdefault("tools", list(TOOLS))
    return Request(messages=[UserMessage([Text(words)])], **fields)


def conversation() -> list[Message]:
    """Return a conversation in which a tool was called and answered."""
    return [
        UserMessage([Text("How is the weather in Paris?")]),
        AssistantMessage(content=[Text("I look."), ToolCall("c1", "get_weather", PARIS)]),
        ToolResult("c1", "get_weather", "sunny"),
    ]


def events_of(model: Model, request: Request) -> list[Event]:
    """Return all events of an answer."""

    async def read() -> list[Event]:
        return [event async for event in model.stream(request)]

    return run_in_virtual_time(read())


def answer_of(model: Model, request: Request) -> AssistantMessage:
    """Return the whole answer."""
    return run_in_virtual_time(model.complete(request))


def told() -> tuple[list[str], Callable[[str, object], None]]:
    """Return a list, and an error handler that appends to it."""
    heard: list[str] = []
    return heard, lambda why, _segment: heard.append(why)
