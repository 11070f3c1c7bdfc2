"""An agent on a real model in this very process: a file is written, and read back.

The model is small, so it is held to the grammar of one tool after the other; what it writes into
the file is its own. Every run has to obey the order law of an agent's events, the file has to hold
what the call said, to the byte, and the session on disk has to give the same conversation back.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from msgspec import structs

sys.path.insert(0, str(Path(__file__).parents[1]))

from agent.order import check_order
from penstock import Agent, LocalModel, Request, Session
from penstock.agent.events import ToolEnded, ToolStarted
from penstock.messages import ToolResult
from penstock.request import ToolChoice
from penstock.workspace import workspace_tools

RUNS = 2
STEPS = ("write_file", "read_file", "")
"""Which tool is demanded in which answer; the last is free."""


def main() -> int:
    began = time.monotonic()
    asyncio.run(prove())
    print(f"agent loop: all is well, in {time.monotonic() - began:.0f} s")
    return 0


async def prove() -> None:
    async with LocalModel() as model:
        for seed in range(1, RUNS + 1):
            with tempfile.TemporaryDirectory() as folder:
                await work(model, Path(folder), seed)


async def work(model: LocalModel, folder: Path, seed: int) -> None:
    root = folder / "work"
    root.mkdir()
    tools = [tool for tool in workspace_tools(root) if tool.name in STEPS]
    template = Request(max_tokens=300, temperature=0.7, seed=seed)
    agent = Agent(model, tools, "You work with files.", request=template, approve="all")
    steps = iter(STEPS)

    def demand(request: Request) -> Request:
        name = next(steps)
        choice = ToolChoice("tool", name) if name else ToolChoice("none")
        return structs.replace(request, tool_choice=choice)

    agent.hooks.add("before_provider_request", demand)
    async with Session(agent, folder / "session.jsonl") as session:
        run = session.run("Write a short poem about the sea into poem.txt, then read it.")
        events = [event async for event in run]
    check_order(events)
    written, read = [event for event in events if isinstance(event, ToolStarted)]
    ended = [event for event in events if isinstance(event, ToolEnded)]
    assert not ended[0].result.is_error, ended[0]
    path, content = written.arguments["path"], written.arguments["content"]
    assert (root / path).read_bytes() == content.encode(), "the file is not what the call said"
    if read.arguments["path"] == path:
        assert content[:20] in str(ended[1].result.content)
    results = [message for message in agent.messages if isinstance(message, ToolResult)]
    assert [result.id for result in results] == [written.id, read.id]
    again = Agent(model, tools)
    async with Session(again, folder / "session.jsonl"):
        assert again.messages == agent.messages, "the session is not the conversation"
    print(f"seed {seed}: {len(content)} characters into {path}, read {read.arguments['path']}")


if __name__ == "__main__":
    sys.exit(main())
