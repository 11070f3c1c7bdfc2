"""The status line, and the line that says what the agent is doing."""

from __future__ import annotations

import pytest

from penstock import DemoModel
from penstock.agent import Agent
from penstock.agent import events as agent_events
from penstock.cli.chat.status import Activity, ChatStatus, format_count, format_money
from penstock.events import TextDelta, ThinkingDelta
from penstock.messages import AssistantMessage, Text, ToolResult, Usage
from penstock.request import UserMessage


def shown(status: ChatStatus, columns: int) -> str:
    return "".join(span.text for span in status.render(columns))


def test_the_status_has_what_fits_into_the_row() -> None:
    agent = Agent(DemoModel(name="qwen3:8b"))
    status = ChatStatus(agent, "~/harbour")
    assert shown(status, 80) == "qwen3:8b · ~/harbour"
    agent.messages = [
        UserMessage("Hello"),
        AssistantMessage("a", "m", [Text("x")], "stop", usage=Usage(input=12_000, output=345)),
    ]
    agent.spending.add(Usage(input=12_000, output=345))
    status.effort = "high"
    status.update()
    assert shown(status, 80) == "qwen3:8b (high) · context 12.3k · ↑12.0k ↓345 · ~/harbour"
    assert shown(status, 40) == "qwen3:8b (high) · context 12.3k"
    assert shown(status, 3) == ""


def test_the_share_of_the_context_and_the_cost_are_shown_where_they_are_known() -> None:
    agent = Agent(DemoModel(name="claude-haiku-4-5"))
    status = ChatStatus(agent, "~")
    assert shown(status, 80) == "claude-haiku-4-5 · $0.0000 · ~"
    usage = Usage(input=150_000, output=10_000)
    agent.messages = [
        UserMessage("Hello"),
        AssistantMessage("a", "m", [Text("x")], "stop", usage=usage),
    ]
    agent.spending.add(usage)
    status.update()
    assert shown(status, 80) == (
        "claude-haiku-4-5 · context 80% of 200k · ↑150k ↓10.0k · $0.20 · ~"
    )
    agent.model = DemoModel(name="free")  # what was spent before keeps its price
    status.update()
    assert "$0.20" in shown(status, 80)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (999, "999"), (1000, "1.0k"), (99_940, "99.9k"), (128_000, "128k"),
     (999_400, "999k"),
     (999_600, "1.0M"), (1_250_000, "1.2M")],
)  # fmt: skip
def test_counts_are_short(count: int, text: str) -> None:
    assert format_count(count) == text


def test_money_has_the_digits_that_matter() -> None:
    assert [format_money(one) for one in (0.00123, 0.5, 12)] == ["$0.0012", "$0.50", "$12.00"]


def test_the_activity_follows_the_events() -> None:
    now = [0.0]
    activity = Activity(lambda: now[0])

    def text() -> str:
        return "".join(span.text for span in activity.render())

    assert text() == ""
    activity.start("Waiting for the model")
    now[0] = 1.25
    assert text() == "⠹ Waiting for the model… 1s"
    activity.follow(agent_events.MessageUpdated(ThinkingDelta(0, "hm")))
    assert "Reasoning…" in text()
    activity.follow(agent_events.MessageUpdated(TextDelta(1, "hm")))
    assert "Writing…" in text()
    for name in ("read_file", "evil\x1b"):
        activity.follow(agent_events.ToolStarted(name, name, {}))
    now[0] = 65
    assert text().endswith(r"Running read_file, evil\x1b… 1m 05s")
    for name in ("read_file", "evil\x1b"):
        activity.follow(agent_events.ToolEnded(name, name, ToolResult(name, name, "")))
    assert "Writing…" in text()
    activity.stop()
    assert not activity.is_active
    assert text() == ""
