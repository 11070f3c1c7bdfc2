"""A front end sees a segment, and what becomes of it, under one id."""

from __future__ import annotations

from agent.scenes import calls, talk, talking, text
from penstock.agent import Agent, AgentTool, Allow, Decision, Deny, tool
from penstock.agent.segments import AgentSegments
from penstock.messages import ToolCall


@tool(needs_approval=True)
def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"{len(content)} characters to {path}"


async def test_approval_and_execution_follow_the_segment_under_its_id() -> None:
    def approve(call: ToolCall, of_tool: AgentTool) -> Decision:
        del of_tool
        return Allow() if call.arguments["path"] == "a.txt" else Deny("not there")

    asked = calls(
        ("write_file", {"path": "a.txt", "content": "la"}),
        ("write_file", {"path": "b.txt", "content": "lo"}),
    )
    async with talking(asked, text("Done.")) as (model, _):
        agent = Agent(model, [write_file], approve=approve)
        events = await talk(agent, "Go.")
        view = AgentSegments(agent.tools)
        told = [one for event in events for one in view.feed(event)]
        by_id: dict[str, list[str]] = {}
        for one in told:
            by_id.setdefault(one.get("segment_id") or one["invocation_id"], []).append(one["type"])
        assert by_id["c1"] == [
            "SEGMENT_START",
            "SEGMENT_CONTENT",
            "SEGMENT_END",
            "tool_approval_requested",
            "tool_approved",
            "tool_execution_started",
            "tool_execution_succeeded",
        ]
        assert by_id["c2"][-3:] == [
            "tool_denied",
            "tool_execution_started",
            "tool_execution_failed",
        ]
        shown = [one for one in told if one["type"] == "SEGMENT_CONTENT"]
        assert [one["payload"]["delta"] for one in shown if one["segment_id"] == "c1"] == ["la"]
        texts = [one["segment_id"] for one in told if one.get("segment_type") == "text"]
        assert len(set(texts)) == len(texts) == 2
