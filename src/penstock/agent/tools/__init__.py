"""The tools of an agent."""

from penstock.agent.tools.base import AgentTool, Run, ToolContext, ToolOutput
from penstock.agent.tools.checking import prepare
from penstock.agent.tools.contents import MAX_RESULT_CHARS, content_of, cut_middle
from penstock.agent.tools.functions import tool
from penstock.agent.tools.mcp import MCPServer
from penstock.agent.tools.reading import ToolLike, read_agent_tools

__all__ = [
    "MAX_RESULT_CHARS",
    "AgentTool",
    "MCPServer",
    "Run",
    "ToolContext",
    "ToolLike",
    "ToolOutput",
    "content_of",
    "cut_middle",
    "prepare",
    "read_agent_tools",
    "tool",
]
