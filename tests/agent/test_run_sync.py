"""The plain call: a model by name, a run without an event loop, and its result."""

from __future__ import annotations

import pytest

from penstock import Agent, DemoModel
from penstock.agent import AgentRunError, RunResult, tool
from penstock.errors import UsageError
from penstock.events import Failed
from penstock.messages import AssistantMessage, ErrorInfo
from penstock.models import Model
from penstock.request import Request
from penstock.streams import EventStream


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return f"High water at six, says {path}."


def test_a_run_without_an_event_loop() -> None:
    agent = Agent("demo:", [read_file])
    for _ in range(2):  # Each has a loop of its own.
        result = agent.run_sync("Please read the file tides.txt")
        kinds = [type(message).__name__ for message in result.messages]
        assert kinds == ["UserMessage", "AssistantMessage", "ToolResult", "AssistantMessage"]
        assert "High water at six, says tides.txt." in result.text
        assert result.raise_for_error() is result


async def test_await_returns_the_result() -> None:
    agent = Agent(DemoModel("native"), [read_file])
    result = await agent.run("Please read the file tides.txt")
    assert isinstance(result, RunResult)
    assert result.messages == agent.messages
    assert result.usage.total == sum(
        one.usage.total for one in result.messages if isinstance(one, AssistantMessage)
    )


async def test_a_running_loop_is_an_error() -> None:
    agent = Agent("demo:", [read_file])
    with pytest.raises(UsageError, match=r"await agent\.run"):
        agent.run_sync("Hi.")
    assert not agent.busy


class Failing(Model):
    name = "failing"

    def stream(self, request: Request) -> EventStream:
        del request
        return EventStream(
            iter([Failed("error", ErrorInfo("no such model", "provider"), AssistantMessage())])
        )


def test_an_error_is_in_the_result_and_raised_on_request() -> None:
    result = Agent(Failing()).run_sync("Hi.")
    assert result.error is not None
    assert result.error.message == "no such model"
    assert result.text == ""
    with pytest.raises(AgentRunError, match="no such model"):
        result.raise_for_error()
    assert RunResult([]).text == ""
