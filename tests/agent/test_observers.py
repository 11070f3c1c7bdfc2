"""Approval, hooks, guards, subscribers and recorders of a run."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from msgspec import structs

from agent.scenes import calls, of, talk, talking, text, types, watched
from penstock import Request
from penstock.agent import (
    Agent,
    AgentTool,
    Allow,
    Briefing,
    Cancel,
    Decision,
    Defer,
    Deny,
    Edit,
    Finding,
    Guard,
    Recorder,
    tool,
)
from penstock.agent.events import (
    AgentEnded,
    AgentEvent,
    ApprovalRequested,
    CallApproved,
    CallDenied,
    ExtensionErrorEvent,
    FindingMade,
    MessageEnded,
)
from penstock.errors import UsageError
from penstock.events import Event, TextDelta, ToolCallEnd
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult
from penstock.request import Message, UserMessage


@tool(needs_approval=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(needs_approval=False)
def look() -> str:
    """Look."""
    return "seen"


ADD = calls(("add", {"a": 1, "b": 2}))


def given(agent: Agent) -> list[Any]:
    return [one.content for one in agent.messages if isinstance(one, ToolResult)]


# --- approval ---


async def test_a_call_is_asked_about_under_its_own_id_and_runs_when_allowed() -> None:
    async def approve(call: ToolCall, of_tool: AgentTool) -> Decision:
        await asyncio.sleep(0)
        assert of_tool.name == call.name == "add"
        return Allow()

    asked = calls(("add", {"a": "1", "b": 2}), ("look", {}))
    async with talking(asked, text("Done.")) as (model, _):
        agent = Agent(model, [add, look], approve=approve)
        events = await talk(agent, "Go.")
        assert of(ApprovalRequested, events) == [ApprovalRequested("c1", "add", {"a": 1, "b": 2})]
        assert of(CallApproved, events) == [CallApproved("c1", "add", {"a": 1, "b": 2})]
        assert given(agent) == [3, "seen"]


@pytest.mark.parametrize(
    ("decision", "result"),
    [
        (Deny("not today"), "The call was denied: not today"),
        (Deny(), "The call was denied."),
        (Edit({"a": 10, "b": "20"}), 30),
    ],
)
async def test_a_call_can_be_denied_or_changed(decision: Decision, result: Any) -> None:
    async with talking(ADD, text("Done.")) as (model, _):
        agent = Agent(model, [add], approve=lambda _call, _tool: decision)
        events = await talk(agent, "Go.")
        assert given(agent) == [result]
        assert len(of(CallDenied, events)) == isinstance(decision, Deny)


async def test_where_nobody_can_be_asked_the_answer_is_no() -> None:
    def approve(_call: ToolCall, _tool: AgentTool) -> Decision:
        raise OSError("nobody there")

    async with talking(ADD, text("Done.")) as (model, _):
        agent = Agent(model, [add], approve=approve)
        events = await talk(agent, "Go.")
        assert given(agent) == ["The call was denied: approval failed"]
        assert of(ExtensionErrorEvent, events) == [
            ExtensionErrorEvent("approval", "OSError: nobody there")
        ]


async def test_a_deferred_call_ends_the_run_and_a_decision_goes_on_with_it() -> None:
    asked = calls(("add", {"a": 1, "b": 2}), ("look", {}))
    async with talking(asked, text("Three.")) as (model, upstream):
        agent = Agent(model, [add, look], approve=lambda _call, _tool: Defer())
        events = await talk(agent, "Go.")
        end = events[-1]
        assert isinstance(end, AgentEnded)
        assert [call.id for call in end.deferred] == ["c1"]
        assert [call.id for call in agent.deferred] == ["c1"]
        assert given(agent) == ["seen"]
        assert len(upstream.seen) == 1
        await watched(agent.resume({"c1": Allow()}))
        assert given(agent) == ["seen", 3]
        assert not agent.deferred
        last = agent.messages[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == "Three."


async def test_a_prompt_in_place_of_a_decision_answers_the_call_with_a_no() -> None:
    async with talking(ADD, text("Well.")) as (model, _):
        agent = Agent(model, [add], approve=lambda _call, _tool: Defer())
        await talk(agent, "Go.")
        await watched(agent.run("Never mind."))
        assert given(agent) == ["No decision was made about the call, so it was not run."]


# --- hooks ---


async def test_hooks_take_part_by_name() -> None:
    async with talking(ADD, text("Done.")) as (model, upstream):
        agent = Agent(model, [add], system="Old.", approve="all")
        hooks = agent.hooks
        hooks.add("input", lambda one: UserMessage([Text(one.text + "!")]))
        hooks.add("before_agent_start", lambda one: Briefing("New.", one.messages))
        hooks.add("context", lambda shown: [*shown, UserMessage([Text("(now)")])])
        hooks.add("before_provider_request", hotter)
        hooks.add("tool_call", lambda _: Edit({"a": 5, "b": 5}))
        hooks.add("tool_result", lambda one: structs.replace(one, content=f"<{one.content}>"))
        await talk(agent, "Go")
        asked = upstream.seen[0].json
        assert [one["content"] for one in asked["messages"]] == ["New.", "Go!", "(now)"]
        assert asked["temperature"] == 0.5
        assert given(agent) == ["<10>"]
        assert [one.text for one in agent.messages if isinstance(one, UserMessage)] == ["Go!"]


async def hotter(request: Request) -> Request:
    return structs.replace(request, temperature=0.5)


async def test_a_hook_can_deal_with_a_prompt_or_block_a_call() -> None:
    async with talking(ADD, text("Done.")) as (model, upstream):
        agent = Agent(model, [add])
        remove = agent.hooks.add("input", lambda _: Cancel("done already"))
        assert types(await talk(agent, "/help")) == ["agent_start", "agent_end"]
        assert upstream.seen == []
        remove()
        agent.hooks.add("tool_call", lambda _: Deny("blocked"))
        await talk(agent, "Go.")
        assert given(agent) == ["The call was denied: blocked"]


async def test_a_hook_that_fails_is_an_extension_error_and_a_check_that_fails_is_a_no() -> None:
    def fails(_value: object) -> None:
        raise ValueError("oh")

    async with talking(ADD, text("Done.")) as (model, _):
        agent = Agent(model, [add])
        for name in ("input", "context", "before_provider_request", "tool_call", "tool_result"):
            agent.hooks.add(name, fails)
        with pytest.raises(UsageError):
            agent.hooks.add("inputs", fails)  # type: ignore[arg-type]
        events = await talk(agent, "Go.")
        assert given(agent) == ["The call was denied: a check of this call failed: oh"]
        assert len(of(ExtensionErrorEvent, events)) == 6


async def test_an_abort_ends_a_hook_that_hangs() -> None:
    begun = asyncio.Event()

    async def hangs(_value: object) -> None:
        begun.set()
        await asyncio.sleep(60)

    async with talking(text("Never.")) as (model, upstream):
        agent = Agent(model)
        agent.hooks.add("context", hangs)
        going = agent.run("Go.")
        await begun.wait()
        await agent.abort()
        await watched(going)
        assert upstream.seen == []


# --- watches ---


class Spotter(Guard):
    """Stops an answer at a word."""

    def __init__(self, word: str, **options: Any) -> None:
        self.word = word
        self.options = options
        self.told: list[str] = []

    def prompt_started(self) -> None:
        self.told.append("prompt")

    def turn_started(self) -> None:
        self.told.append("turn")

    def response_started(self) -> None:
        self.told.append("answer")

    def check(self, event: Event) -> Finding | None:
        found = isinstance(event, TextDelta) and self.word in event.text
        found = found or (isinstance(event, ToolCallEnd) and self.word == event.call.name)
        return Finding("rule", ["spot"], f"Not {self.word}.", **self.options) if found else None

    def tool_ended(self, result: ToolResult) -> None:
        self.told.append(f"tool {result.id}")

    def turn_ended(self) -> None:
        self.told.append("end")


async def test_a_finding_stops_the_answer_drops_it_and_the_turn_goes_on() -> None:
    spotter = Spotter("magic")
    async with talking(text("It is magic, and more."), text("Plain.")) as (model, upstream):
        agent = Agent(model, guards=[spotter])
        events = await talk(agent, "Go.")
        assert of(FindingMade, events) == [FindingMade("rule", ["spot"], "Not magic.", True)]
        dropped = [one.message for one in of(MessageEnded, events) if not one.kept]
        assert [one.stop_reason for one in dropped] == ["aborted"]
        said = [one["content"] for one in upstream.seen[1].json["messages"]]
        assert said == ["Go.", "Not magic."]
        assert spotter.told == ["prompt", "turn", "answer", "answer", "end"]
        assert len([one for one in events if one.type == "turn_start"]) == 1


async def test_a_finding_may_keep_what_had_come() -> None:
    asked = calls(("look", {}), ("add", {"a": 1, "b": 2}), ("look", {}))
    async with talking(asked, text("Fine.")) as (model, _):
        agent = Agent(model, [add, look], guards=[Spotter("add", keep=True)])
        await talk(agent, "Go.")
        kinds = [type(one).__name__ for one in agent.messages]
        assert kinds[:4] == ["UserMessage", "AssistantMessage", "ToolResult", "ToolResult"]
        assert given(agent) == ["Stopped by spot.", "Stopped by spot."]


async def test_a_finding_that_stops_nothing_is_told_after_the_turn() -> None:
    watch = Spotter("magic", interrupts=False)
    async with talking(text("It is magic."), text("Sorry.")) as (model, upstream):
        agent = Agent(model, guards=[watch])
        agent.follow_up("Later.")
        events = await talk(agent, "Go.")
        assert of(FindingMade, events) == [FindingMade("rule", ["spot"], "Not magic.", False)]
        last = [seen.json["messages"][-1]["content"] for seen in upstream.seen]
        assert last == ["Go.", "Not magic.", "Later."]


async def test_no_watch_stops_answers_for_ever() -> None:
    async with talking(text("magic")) as (model, upstream):
        agent = Agent(model, guards=[Spotter("magic")], max_turns=3)
        events = await talk(agent, "Go.")
        stopped = [one for one in of(FindingMade, events) if one.interrupts]
        assert len(stopped) == 20
        assert len(upstream.seen) == 23


# --- subscribers ---


async def test_subscribers_neither_delay_nor_break_a_run() -> None:
    heard: dict[str, list[str]] = {"slow": [], "waiting": [], "failing": []}

    def slow(event: AgentEvent) -> None:
        time.sleep(0.005)
        heard["slow"].append(event.type)

    async def waiting(event: AgentEvent) -> None:
        await asyncio.sleep(0.005)
        heard["waiting"].append(event.type)

    def failing(event: AgentEvent) -> None:
        heard["failing"].append(event.type)
        raise ValueError("oh")

    async with talking(ADD, text("Done.")) as (model, _):
        agent = Agent(model, [add])
        for subscriber in (slow, waiting):
            agent.subscribe(subscriber)
        stop = agent.subscribe(failing)
        events = await talk(agent, "Go.")
        assert len(heard["slow"]) < len(events)
        await agent.drain()
        stop()
        told = [event.type for event in events]
        assert heard == {"slow": told, "waiting": told, "failing": told}


async def test_who_looks_late_sees_everything_joined() -> None:
    words = "la " * 2000
    async with talking(text(words)) as (model, _):
        agent = Agent(model)
        going = agent.run("Sing.")
        await going.result()
        events = await watched(going)
        deltas = [one.event for one in events if one.type == "message_update"]
        assert "".join(one.text for one in deltas if isinstance(one, TextDelta)) == words


# --- a record ---


class Paper(Recorder):
    """Writes down; may fail."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self.fails = False

    async def message(self, message: Message, *, kept: bool = True) -> None:
        if self.fails:
            raise OSError("no space left")
        await asyncio.sleep(0)
        self.written.append(f"{type(message).__name__} {kept}")

    async def finding(self, finding: Finding) -> None:
        self.written.append(f"finding {finding.names}")

    async def compacted(self, summary: str, kept: int, tokens: int) -> None:
        assert summary
        assert tokens
        self.written.append(f"summary {kept}")


async def test_what_was_told_as_final_has_been_written_down() -> None:
    async with talking(text("magic"), ADD, text("Done."), text("In short.")) as (model, _):
        agent = Agent(model, [add], guards=[Spotter("magic")])
        agent.recorder = paper = Paper()
        told = 0
        async for event in agent.run("Go."):
            if isinstance(event, MessageEnded):
                told += 1
                messages = [one for one in paper.written if "finding" not in one]
                assert len(messages) >= told
        await agent.compact()
        assert paper.written == [
            "UserMessage True",
            "AssistantMessage False",
            "finding ['spot']",
            "UserMessage True",
            "AssistantMessage True",
            "ToolResult True",
            "AssistantMessage True",
            "summary 1",
        ]


async def test_a_record_that_fails_is_an_extension_error_and_the_run_goes_on() -> None:
    async with talking(text("Done.")) as (model, _):
        agent = Agent(model)
        agent.recorder = paper = Paper()
        paper.fails = True
        events = await talk(agent, "Go.")
        assert (
            of(ExtensionErrorEvent, events)
            == [ExtensionErrorEvent("record", "OSError: no space left")] * 2
        )
        assert len(agent.messages) == 2
