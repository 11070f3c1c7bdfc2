"""The events of an agent, as values."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.agent.events import AgentEvent, ToolEnded, from_json, to_json
from penstock.messages import ToolResult


@pytest.mark.parametrize("kind", get_args(AgentEvent))
def test_the_type_of_an_event_is_its_wire_name(kind: type[AgentEvent]) -> None:
    assert kind.type == kind.__struct_config__.tag


def result_in(event: AgentEvent) -> ToolResult | None:
    """Return the result in *event*: `type` narrows the union, which mypy checks here."""
    return event.result if event.type == "tool_execution_end" else None


def test_the_type_narrows_an_event() -> None:
    event = ToolEnded("c1", "add", ToolResult("c1", "add", "3"))
    assert result_in(event) == ToolResult("c1", "add", "3")
    assert result_in(from_json(to_json(event))) == event.result
