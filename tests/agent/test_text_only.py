"""An agent on a model that prints its calls as text: real HTTP, real files, six formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.scenes import of, talk, talking, text
from penstock import ToolMiddleware, formats
from penstock.agent import Agent
from penstock.agent.events import AgentEnded, ToolEnded
from penstock.messages import AssistantMessage, ToolCall
from penstock.workspace import workspace_tools

SIX = ("hermes", "qwen3_coder", "morph_xml", "glm45", "mistral", "bare_json")
NASTY = 'if a < b and c > "d":\n\tprint("</parameter>", \'{"x": [1]}\')\n# ünï → 🌊\n'
"""Code that every format has to carry through unharmed."""


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("eager", [False, True])
async def test_a_file_is_written_and_read_back(name: str, eager: bool, tmp_path: Path) -> None:  # noqa: FBT001
    tools = workspace_tools(tmp_path)
    form = formats.get(name)

    def printed(tool: str, **arguments: object) -> AssistantMessage:
        return text("I will do it.\n" + form.render_call(ToolCall("", tool, dict(arguments))))

    script = (
        printed("write_file", path="src/tide.py", content=NASTY),
        printed("read_file", path="src/tide.py"),
        text("It is there."),
    )
    async with talking(*script) as (model, upstream):
        agent = Agent(ToolMiddleware(model, name), tools, approve="all", eager=eager)
        events = await talk(agent, "Write it, and read it.")
        assert (tmp_path / "src" / "tide.py").read_text() == NASTY
        written, read = of(ToolEnded, events)
        assert not written.result.is_error
        assert "print(" in str(read.result.content)
        assert "🌊" in str(read.result.content)
        end = events[-1]
        assert isinstance(end, AgentEnded)
        assert end.error is None
        assert [type(one).__name__ for one in agent.messages] == [
            "UserMessage",
            "AssistantMessage",
            "ToolResult",
            "AssistantMessage",
            "ToolResult",
            "AssistantMessage",
        ]
        assert "tools" not in upstream.seen[0].json, "the model is told in words"
