"""Tools that live in an MCP server, over stdio or HTTP; the extra `mcp` brings what is needed."""

from penstock.agent.tools.mcp.server import MCPServer

__all__ = ["MCPServer"]
