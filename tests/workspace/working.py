"""A working folder for a test, and its tools by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agent.tools.contexts import Heard
from async_runner import run
from penstock.agent.tools import AgentTool, ToolOutput, make_content, prepare
from penstock.messages import ToolCall
from penstock.workspace import workspace_tools


class Workspace:
    """The folder *root* and the tools that work in it."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.tools: dict[str, AgentTool] = {
            each.name: each for each in workspace_tools(root, **options)
        }

    def use(self, tool: str, /, **arguments: Any) -> Any:
        """Call *tool* as an agent does; give what the model would see."""
        return make_content(self.output(tool, **arguments))

    def output(self, tool: str, /, **arguments: Any) -> Any:
        """Call *tool*; give what it gives."""
        return run(self.outcome(tool, Heard(tool), **arguments))

    async def outcome(self, tool: str, heard: Heard, /, **arguments: Any) -> ToolOutput | object:
        prepared = prepare(self.tools[tool], ToolCall("call_1", tool, arguments))
        return await self.tools[tool].run(prepared, heard)

    def text(self, path: str) -> str:
        return (self.root / path).read_bytes().decode()

    def put(self, path: str, text: str | bytes) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file
