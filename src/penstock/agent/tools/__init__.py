"""The tools of an agent."""

from penstock.agent.tools.base import AgentTool, Run, ToolContext, ToolOutput
from penstock.agent.tools.functions import FunctionTool, ToolLike, read_agent_tools, tool
from penstock.agent.tools.mcp import MCPServer
from penstock.agent.tools.mcp_context import Elicitation, MCPPrompt, MCPResource
from penstock.agent.tools.results import MAX_RESULT_CHARS, ResultFile, cut_middle, make_content
from penstock.agent.tools.validate import prepare

__all__ = [
    "MAX_RESULT_CHARS",
    "AgentTool",
    "Elicitation",
    "FunctionTool",
    "MCPPrompt",
    "MCPResource",
    "MCPServer",
    "ResultFile",
    "Run",
    "ToolContext",
    "ToolLike",
    "ToolOutput",
    "cut_middle",
    "make_content",
    "prepare",
    "read_agent_tools",
    "tool",
]
