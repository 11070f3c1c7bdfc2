"""The agents that a web front end talks to: what each can do, and what its model says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from penstock import DemoModel, EventStream, Request
from penstock.agent import Agent, AgentRetry, Defer, ToolContext, tool
from penstock.builder import message_events
from penstock.events import Done, Event
from penstock.messages import AssistantMessage, ErrorInfo, Text, Thinking, ToolCall
from penstock.models.base import Batches, Model, Tap

LONG = "A pipe, one way, under control: no drop lost. é日本😀 "


class SpokenModel(Model):
    """Says *answers* one after the other; the first *lost* of them break before their end."""

    name = "spoken"

    def __init__(self, *answers: AssistantMessage, lost: int = 0, pace: float = 0.0) -> None:
        self._answers = iter(answers)
        self._lost = lost
        self._pace = pace

    async def _events(self, message: AssistantMessage) -> AsyncGenerator[list[Event], None]:
        is_lost, self._lost = self._lost > 0, self._lost - 1
        for event in message_events(message):
            await asyncio.sleep(self._pace)
            if is_lost and isinstance(event, Done):
                raise ConnectionError("the line is dead")
            yield [event]

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        del request, tap
        return self._events(next(self._answers))

    def stream(self, request: Request) -> EventStream:
        raise NotImplementedError

    async def complete(self, request: Request) -> AssistantMessage:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def says(*content: Text | Thinking | ToolCall) -> AssistantMessage:
    """Make an answer."""
    calls = any(isinstance(block, ToolCall) for block in content)
    return AssistantMessage("m", "spoken", [*content], "tool_use" if calls else "stop")


@tool(needs_approval=False)
async def get_weather(city: str, days: int, context: ToolContext) -> dict[str, object]:
    """Weather of a city."""
    for day in range(days):
        context.update({"city": city, "day": day})
        await asyncio.sleep(0.01)
    return {"city": city, "sky": "snow"}


@tool
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"{len(content)} characters to {path}"


WRITES = says(Text("Let me."), ToolCall("c1", "write_file", {"path": "a", "content": "la"}))


def plain() -> Agent:
    return Agent(DemoModel("native"))


def careful() -> Agent:
    model = SpokenModel(WRITES, says(Text("Well.")))
    return Agent(model, [write_file], approve=lambda *_: Defer())


def stopping() -> Agent:
    """Abort the run from within, as a limit of the server's would."""

    @tool(needs_approval=False)
    async def stop() -> str:
        """Stop everything."""
        await agent.abort()
        await asyncio.Event().wait()
        return "never"

    agent = Agent(SpokenModel(says(Text("I stop."), ToolCall("c1", "stop", {}))), [stop])
    return agent


def failing() -> Agent:
    error = ErrorInfo("the model is out of order", status=400)
    return Agent(SpokenModel(AssistantMessage("m", "spoken", [Text("So ")], "error", error=error)))


SCENES: dict[str, Callable[[], Agent]] = {
    "text": plain,
    "read": plain,
    "thinking": lambda: Agent(SpokenModel(says(Thinking("Hm.", "sig"), Text(LONG)))),
    "tools": lambda: Agent(DemoModel("native"), [get_weather]),
    "unknown-tool": lambda: Agent(SpokenModel(says(ToolCall("c1", "no", {})), says(Text("Oh.")))),
    "approved": careful,
    "denied": careful,
    "retried": lambda: Agent(
        SpokenModel(says(Text("Oops")), says(Text("Yes.")), lost=1), retry=AgentRetry(base=0.0)
    ),
    "aborted": stopping,
    "left": lambda: Agent(SpokenModel(says(*[Text(LONG)] * 400), pace=0.05)),
    "error": failing,
}
