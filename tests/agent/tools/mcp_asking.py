"""An MCP server that asks its client; run as a script over stdio, or HTTP at a port."""

from __future__ import annotations

import sys
import warnings

import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel, Field

server = MCPServer("asking", log_level="CRITICAL")


@server.resource("tides://today", mime_type="text/plain", description="The tides of today")
def tides() -> str:
    return "high at six"


@server.resource("map://harbour", mime_type="image/png")
def harbour() -> bytes:
    return b"\x89PNG\r\n\x1a\n" + b"\0" * 8


@server.resource("tides://{day}")
def tides_of(day: str) -> str:
    """The tides of a day."""
    return f"high at noon on {day}"


@server.prompt()
def plan(boat: str, day: str = "today") -> str:
    """Plan a trip."""
    return f"Plan a trip with {boat} for {day}."


@server.tool(structured_output=False)
async def summarize(ctx: Context, text: str) -> str:
    """Let the client's model summarize a text."""
    message = SamplingMessage(role="user", content=TextContent(text=text))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = await ctx.session.create_message(
            [message], max_tokens=1_000_000, system_prompt="Be brief.", temperature=0.5
        )
    assert isinstance(result.content, TextContent)
    return f"{result.model} says: {result.content.text} ({result.stop_reason})"


class Berth(BaseModel):
    """A berth."""

    place: str
    metres: int = Field(ge=1)


@server.tool(structured_output=False)
async def book(ctx: Context) -> str:
    """Ask the user which berth to book."""
    answer = await ctx.elicit("Which berth?", Berth)
    if answer.action != "accept":
        return f"not booked: {answer.action}"
    return f"booked {answer.data.place} with {answer.data.metres} m"


@server.tool(structured_output=False)
async def pay(ctx: Context) -> str:
    """Ask the user to open a page."""
    answer = await ctx.elicit_url("Please pay.", "https://pay.example/1", "e1")
    return f"payment: {answer.action}"


@server.tool(structured_output=False)
async def moor(ctx: Context) -> CallToolResult | InputRequiredResult:
    """Ask the client in the way of newer protocol versions, which have no back-channel."""
    answers = ctx.input_responses
    if answers is None:
        form = ElicitRequestFormParams(
            message="Which berth?", requested_schema=Berth.model_json_schema()
        )
        message = SamplingMessage(role="user", content=TextContent(text="Name a knot."))
        sampled = CreateMessageRequestParams(messages=[message], max_tokens=10)
        return InputRequiredResult(
            input_requests={
                "berth": ElicitRequest(params=form),
                "knot": CreateMessageRequest(params=sampled),
            }
        )
    berth, knot = answers["berth"], answers["knot"]
    assert isinstance(berth, ElicitResult)
    assert isinstance(knot, CreateMessageResult)
    assert isinstance(knot.content, TextContent)
    place = (berth.content or {}).get("place")
    return CallToolResult(content=[TextContent(text=f"moored {place} with {knot.content.text}")])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        app = server.streamable_http_app()
        uvicorn.run(app, port=int(sys.argv[1]), log_level="critical", ws="none")
    else:
        server.run("stdio")
