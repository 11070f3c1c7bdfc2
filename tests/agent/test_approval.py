"""A tool that needs approval never runs without one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from agent.scenes import calls, of, talk, talking, text
from penstock.agent import Agent, Allow, Defer, Deny, Retry, ToolOutput, tool
from penstock.agent.events import CallDenied, ExtensionErrorEvent, ToolEnded
from penstock.agent.tools import MCPServer
from penstock.errors import UsageError
from penstock.messages import ToolResult
from penstock.workspace import workspace_tools

BASH = calls(("run_bash", {"command": "touch made"}), ("write_file", {"path": "a", "content": "b"}))
MCP_SCRIPT = Path(__file__).parent / "tools" / "mcp_script.py"


def given(agent: Agent) -> list[Any]:
    return [message.content for message in agent.messages if isinstance(message, ToolResult)]


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


async def test_a_workspace_changes_nothing_unless_somebody_approves(tmp_path: Path) -> None:
    async with talking(BASH, text("Done.")) as (model, _):
        agent = Agent(model, workspace_tools(tmp_path))
        events = await talk(agent, "Go.")
        assert len(of(CallDenied, events)) == 2
        assert not names(tmp_path)
        for ended in of(ToolEnded, events):
            assert ended.result.is_error
            assert "`approve=`" in ended.result.content
            assert '`approve="all"`' in ended.result.content
            assert ended.result.content.startswith(f"The call was denied: `{ended.name}`")
    async with talking(BASH, text("Done.")) as (model, _):
        agent = Agent(model, workspace_tools(tmp_path), approve="all")
        await talk(agent, "Go.")
        assert names(tmp_path) == {"made", "a"}


async def test_a_tool_of_an_mcp_server_needs_approval_too() -> None:
    arguments = ["-S", "-E", str(MCP_SCRIPT), "good"]
    async with MCPServer.stdio(sys.executable, arguments) as server:
        name = server.tools[0].name
        for approve, is_denied in ((None, True), ("all", False)):
            async with talking(calls((name, {})), text("Done.")) as (model, _):
                agent = Agent(model, server.tools, approve=approve)  # type: ignore[arg-type]
                events = await talk(agent, "Go.")
                assert bool(of(CallDenied, events)) == is_denied


def plain() -> str:
    return "ran"


async def careful(call: object, of_tool: object) -> bool:
    del call, of_tool
    return True


@pytest.mark.parametrize(
    ("needs_approval", "approve", "result"),
    [
        (True, None, "needs approval"),
        (None, None, "ran"),  # a function of one's own
        (False, None, "ran"),
        (True, "all", "ran"),
        (True, lambda _call, _tool: True, "ran"),
        (None, lambda _call, _tool: False, "The call was denied."),
        (False, lambda _call, _tool: False, "ran"),
        (True, lambda _call, _tool: False, "The call was denied."),
        (True, careful, "ran"),
        (True, lambda _call, _tool: Deny("no"), "The call was denied: no"),
        (True, lambda _call, _tool: None, "approval failed"),
        (True, lambda _call, _tool: 1, "approval failed"),
        (True, lambda _call, _tool: "yes", "approval failed"),
    ],
)
async def test_who_may_run_what(needs_approval: bool | None, approve: Any, result: str) -> None:  # noqa: FBT001
    async with talking(calls(("plain", {})), text("Done.")) as (model, _):
        agent = Agent(model, [tool(plain, needs_approval=needs_approval)], approve=approve)
        events = await talk(agent, "Go.")
        (content,) = given(agent)
        assert result in content
        assert bool(of(ExtensionErrorEvent, events)) == ("approval failed" in result)


@pytest.mark.parametrize("approve", ["ask", "everything", True, 1, []])
def test_what_cannot_approve_is_refused_when_the_agent_is_made(approve: Any) -> None:
    with pytest.raises(UsageError, match="approve"):
        Agent(object(), approve=approve)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        (True, "ran"),
        (Allow(), "ran"),
        (False, "The call was denied."),
        (ToolOutput("by hand"), "by hand"),
    ],
)
async def test_a_call_that_waits_takes_a_decision_or_a_result(decision: Any, result: str) -> None:
    async with talking(calls(("plain", {})), text("Done.")) as (model, _):
        deferring = [tool(plain, needs_approval=True)]
        agent = Agent(model, deferring, approve=lambda _call, _tool: Defer())
        await talk(agent, "Go.")
        (call,) = agent.deferred
        for wrong in (Retry(), "yes", None, 1):
            with pytest.raises(UsageError):
                agent.resume({call.id: wrong})  # type: ignore[dict-item]
        await agent.resume({call.id: decision}).result(check=True)
        assert given(agent) == [result]
