"""Whatever a run does, a client can read it, and what it reads says what was said.

Runs are made at random over a scripted model: answers that fail, are cut or stopped, tools that
fail or tell how far they are, decisions of all kinds, messages that steer, an abort at any event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import groupby
from typing import Any

import hypothesis.strategies as st
from hypothesis import event, given, settings
from msgspec import Struct

from agent.order import check_order
from agent.ui_law import Chunk, Client, check, folded
from penstock import EventStream, Request
from penstock.agent import (
    Agent,
    AgentRetry,
    AgentRun,
    AgentTool,
    Allow,
    Decision,
    Defer,
    Deny,
    Edit,
    ToolContext,
    tool,
)
from penstock.agent.ai_sdk_messages import read_decisions, read_ui_messages
from penstock.agent.ai_sdk_stream import UIStream
from penstock.agent.events import AgentEvent
from penstock.agent.rules import Rule, RuleGuard
from penstock.builder import message_events
from penstock.errors import ToolError
from penstock.events import Done, Event
from penstock.messages import (
    AssistantMessage,
    Content,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from penstock.models.base import Batches, Model, Tap
from penstock.request import Message, UserMessage

DECISIONS: list[Decision] = [Allow(), Deny("no"), Deny(), Edit({"n": 7}), Defer()]


class Spoken(Struct):
    """An answer of the script; one that *breaks* is lost before its end."""

    content: list[Content]
    breaks: bool = False


class Scene(Struct):
    """What happens in a run."""

    answers: list[Spoken]
    decisions: list[Decision]
    eager: bool
    abort_at: int | None
    steer_at: int | None
    approves: bool | None


class ScriptedModel(Model):
    """Says one answer after the other, an event at a time, and then that it is done."""

    name = "scripted"

    def __init__(self, answers: list[Spoken]) -> None:
        self._answers = iter(answers)

    async def _events(self, spoken: Spoken) -> AsyncGenerator[list[Event], None]:
        has_calls = any(isinstance(block, ToolCall) for block in spoken.content)
        is_cut = any(isinstance(one, ToolCall) and not one.complete for one in spoken.content)
        reason: Any = "length" if is_cut else "tool_use" if has_calls else "stop"
        for one in message_events(AssistantMessage("m", "scripted", spoken.content, reason)):
            await asyncio.sleep(0)
            if spoken.breaks and isinstance(one, Done):
                raise ConnectionError("gone")
            yield [one]

    def batches(self, request: Request, tap: Tap | None = None) -> Batches:
        del request, tap
        return self._events(next(self._answers, Spoken([Text("All done.")])))

    def stream(self, request: Request) -> EventStream:
        raise NotImplementedError

    async def complete(self, request: Request) -> AssistantMessage:
        raise NotImplementedError

    async def close(self) -> None:
        pass


def tools() -> Iterator[AgentTool]:
    async def count(context: ToolContext, n: int = 1) -> dict[str, int]:
        for at in range(n):
            context.update({"at": at})
            await asyncio.sleep(0)
        return {"n": n}

    def fail(n: int = 1) -> str:
        raise ToolError(f"failed {n}")

    yield tool(count, name="count", needs_approval=False)
    yield tool(fail, name="fail", needs_approval=False)
    yield tool(count, name="careful", needs_approval=True)


# --- scenes ---

WORDS = st.sampled_from(["Hello.", "a b", "halt now", "é日本😀", " "])
ASKED = st.builds(
    ToolCall,
    st.just("c"),
    st.sampled_from(["count", "fail", "careful", "careful", "nobody"]),
    st.sampled_from([{}, {"n": 2}, {"n": "3"}, {"n": "x"}]),
    st.sampled_from([True, True, True, False]),
)
BLOCKS = st.one_of(
    st.builds(Text, WORDS),
    st.builds(Thinking, WORDS, st.sampled_from(["", "sig"])),
    ASKED,
    ASKED,
    st.just(Opaque("anthropic", {"type": "redacted_thinking", "data": "x"})),
)


def numbered(content: list[Content]) -> list[Content]:
    """Give each call of an answer an id of its own, as the next one does; only the last is cut."""
    found: list[Content] = []
    for number, block in enumerate(content):
        if isinstance(block, ToolCall):
            id_, name, given_ = f"c{number}", block.name, dict(block.arguments)
            is_last = number == len(content) - 1
            found.append(ToolCall(id_, name, given_, block.complete or not is_last))
        else:
            found.append(block)
    return found


SPOKEN = st.builds(
    Spoken,
    st.lists(BLOCKS, max_size=4).map(numbered),
    st.sampled_from([False, False, True]),
)
SCENES = st.builds(
    Scene,
    st.lists(SPOKEN, min_size=1, max_size=4),
    st.lists(st.sampled_from(DECISIONS), min_size=1, max_size=4),
    st.booleans(),
    st.one_of(st.none(), st.integers(0, 40)),
    st.one_of(st.none(), st.integers(0, 40)),
    st.sampled_from([None, True, False]),
)


def agent_of(scene: Scene) -> Agent:
    # An eager call that waits is left behind by an answer that is stopped: the loop's own business.
    waits = [one for one in scene.decisions if not (scene.eager and isinstance(one, Defer))]
    decisions, decided = waits or [Allow()], 0

    def approve(call: ToolCall, of_tool: AgentTool) -> Decision:
        nonlocal decided
        del call, of_tool
        decided += 1
        return decisions[(decided - 1) % len(decisions)]

    return Agent(
        ScriptedModel(scene.answers),
        tools(),
        approve=approve,
        eager=scene.eager,
        guards=[RuleGuard([Rule("no-halt", ("halt",), "Go on.")])],
        retry=AgentRetry(attempts=2, base=0.0),
        max_turns=6,
    )


async def played(agent: Agent, run: AgentRun, scene: Scene) -> tuple[list[Chunk], list[AgentEvent]]:
    view = UIStream()
    chunks: list[Chunk] = []
    events: list[AgentEvent] = []
    async for one in run:
        chunks += view.feed(one)
        events.append(one)
        if len(events) == scene.abort_at:
            await agent.abort()
        if len(events) == scene.steer_at and agent.busy:
            agent.steer("Left!")
    check_order(events)
    assert view.finish() == []
    return chunks, events


async def shown(scene: Scene) -> tuple[list[Message], Client]:
    """Play *scene*; give what was said, and what a client shows of it."""
    agent = agent_of(scene)
    chunks, _ = await played(agent, agent.run("Go."), scene)
    check(chunks)
    client = folded(chunks)
    said = list(agent.messages)
    if agent.deferred and scene.approves is not None:
        client.answer(approved=scene.approves, reason="seen")
        decisions = read_decisions([client.message])
        waiting = [call.id for call in agent.deferred]
        assert set(decisions) == set(waiting)
        scene.abort_at = scene.steer_at = None
        rest, _ = await played(agent, agent.resume(decisions), scene)
        check(rest, waiting)
        client = folded(rest, client.message)
        said = list(agent.messages)
        event("went on with the client's answer")
    return said, client


@settings(max_examples=60, deadline=None)
@given(scene=SCENES)
async def test_every_run_is_lawful_and_reads_back_as_it_was_said(scene: Scene) -> None:
    said, client = await shown(scene)
    prompt = {"role": "user", "parts": [{"type": "text", "text": "Go."}]}
    back = read_ui_messages([prompt, client.message])
    assert plainly(back) == plainly(said)


def plainly(messages: list[Message]) -> list[object]:
    """Give what was said; results in the order of the calls, which those that waited broke."""
    found: list[object] = []
    for is_result, run in groupby(messages, lambda one: isinstance(one, ToolResult)):
        told = [plain(one) for one in run if not is_empty(one)]
        found += sorted(told, key=str) if is_result else told
    return found


def is_empty(message: Message) -> bool:
    return isinstance(message, AssistantMessage) and not message.content


def plain(message: Message) -> object:
    """Give what was said without what a client is not told: names of messages, reasons, costs."""
    match message:
        case AssistantMessage():
            return ["assistant", *message.content]
        case ToolResult():
            return [message.id, message.name, message.content, message.is_error]
        case UserMessage():
            return ["user", *message.content]
    return message
