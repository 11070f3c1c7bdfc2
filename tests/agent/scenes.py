"""What tests of agents are made of: answers over real HTTP, and runs that are watched."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agent.order import check_order
from models.loopback_servers import Reply, Script, Upstream, serving, stream_of
from penstock import HTTPModel
from penstock.agent import Agent, AgentRun
from penstock.agent.events import AgentEvent
from penstock.messages import AssistantMessage, Content, Text, ToolCall, Usage

API = "openai-chat"


def text(words: str) -> AssistantMessage:
    """Make an answer in words."""
    return AssistantMessage(
        "msg_1", "m", [Text(words)], "stop", usage=Usage(input=10, output=3, total=13)
    )


def calls(*asked: tuple[str, dict[str, Any]], words: str = "Let me see.") -> AssistantMessage:
    """Make an answer that calls tools; ids are ``c1``, ``c2`` …."""
    blocks: list[Content] = [Text(words)] if words else []
    blocks += [ToolCall(f"c{n}", name, given) for n, (name, given) in enumerate(asked, 1)]
    return AssistantMessage(
        "msg_1", "m", blocks, "tool_use", usage=Usage(input=10, output=3, total=13)
    )


def reply(message: AssistantMessage, pieces: int = 4) -> Reply:
    """Stream *message* in so many pieces."""
    data = stream_of(API, message)
    size = max(1, len(data) // pieces)
    return Reply([data[at : at + size] for at in range(0, len(data), size)])


@asynccontextmanager
async def talking(*script: Script | AssistantMessage) -> AsyncIterator[tuple[HTTPModel, Upstream]]:
    """Run a server that answers by *script*, and give a model that asks it."""
    replies = [reply(one) if isinstance(one, AssistantMessage) else one for one in script]
    async with (
        serving(*replies) as upstream,
        HTTPModel(API, upstream.url, "m", "key", interval=0) as model,
    ):
        yield model, upstream


async def watched(run: AgentRun) -> list[AgentEvent]:
    """Read *run* to its end and check its order."""
    events = [event async for event in run]
    check_order(events)
    return events


def of(kind: type, events: list[AgentEvent]) -> list[Any]:
    """Give the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def types(events: list[AgentEvent]) -> list[str]:
    """Give the names of the events, updates of messages left out."""
    return [event.type for event in events if event.type != "message_update"]


async def talk(agent: Agent, prompt: str) -> list[AgentEvent]:
    """Give *agent* a prompt; give what it told."""
    return await watched(agent.run(prompt))
