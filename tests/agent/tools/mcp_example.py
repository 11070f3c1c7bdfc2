"""A small MCP server, made with the official package; run as a script it speaks over stdio."""

from __future__ import annotations

import asyncio
import base64
import os
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()

server = MCPServer("example", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool(name="files.show", structured_output=False)
def show() -> CallToolResult:
    """Show every kind of content."""
    blob = BlobResourceContents(uri="file:///b", mime_type="application/zip", blob="AAAA")
    picture = BlobResourceContents(uri="file:///p", mime_type="image/png", blob=PIXEL)
    return CallToolResult(
        content=[
            TextContent(text="text"),
            ImageContent(data=PIXEL, mime_type="image/png"),
            AudioContent(data="AAAA", mime_type="audio/wav"),
            EmbeddedResource(resource=TextResourceContents(uri="file:///t", text="inside")),
            EmbeddedResource(resource=blob),
            EmbeddedResource(resource=picture),
            ResourceLink(name="log", uri="file:///log", description="The log"),
        ]
    )


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("no boat")


@server.tool()
def structured() -> CallToolResult:
    """Give structured content alone."""
    return CallToolResult(content=[], structured_content={"tide": "high"})


@server.tool(structured_output=False)
async def wait(ctx: Context, marks: str) -> str:
    """Wait for ever; leave a mark in a folder when it begins and when it is cancelled."""
    await ctx.report_progress(1, 2, "half")
    await ctx.report_progress(2)
    (Path(marks) / "begun").touch()
    try:
        await asyncio.Event().wait()
    finally:
        (Path(marks) / "cancelled").touch()
    return "never"


@server.tool(structured_output=False)
async def grow(ctx: Context) -> str:
    """Offer one more tool."""

    def grown() -> str:
        return "grown"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    return "done"


@server.tool()
def where() -> list[str]:
    """Say where the server runs and what it was given."""
    return [str(Path.cwd()), os.environ.get("BOAT", ""), str(os.getpid())]


@server.tool(structured_output=False)
def header(ctx: Context, name: str) -> str:
    """Say which header came along."""
    return (ctx.headers or {}).get(name, "")


if __name__ == "__main__":
    server.run("stdio")
