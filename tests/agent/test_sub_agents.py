"""An agent as a tool of another: its result, its events, its end and its costs."""

from __future__ import annotations

import asyncio
from typing import Any

from agent.order import check_order
from penstock.agent import Agent, Defer, RunLimits, tool
from penstock.agent.events import AgentEvent, ToolEnded, ToolUpdated
from penstock.agent.sub_agents import MAX_DEPTH, agent_tool
from penstock.messages import AssistantMessage, Text, ToolCall, ToolResult, Usage
from penstock.models.catalog import Cost, ModelFacts, Prices
from penstock.testing import ScriptedModel


def says(words: str, usage: Usage | None = None) -> AssistantMessage:
    return AssistantMessage(
        "", "m", [Text(words)], "stop", usage=usage or Usage(input=10, output=1)
    )


def calls(*asked: ToolCall) -> AssistantMessage:
    return AssistantMessage("", "m", [*asked], "tool_use", usage=Usage(input=10, output=1))


def research(number: int = 1) -> ToolCall:
    return ToolCall(f"c{number}", "research", {"task": f"Find tide {number}."})


@tool(needs_approval=False)
def look(place: str) -> str:
    """Look at a place."""
    return f"{place} is high"


def result_of(agent: Agent, number: int = 1) -> ToolResult:
    return next(
        one for one in agent.messages if isinstance(one, ToolResult) and one.id == f"c{number}"
    )


async def test_the_last_response_is_the_result_and_the_usage_counts_for_the_parent() -> None:
    def make() -> Agent:
        asked = ToolCall("s1", "look", {"place": "Oslo"})
        return Agent(ScriptedModel([calls(asked), says("Oslo has high water.")]), [look])

    seen: list[tuple[str, AgentEvent]] = []
    helper = agent_tool(
        make, "research", "Find something out.", on_event=lambda id_, one: seen.append((id_, one))
    )
    parent = Agent(ScriptedModel([calls(research()), says("Go to Oslo.")]), [helper])
    events = [event async for event in parent.run("Where?")]
    check_order(events)
    assert result_of(parent) == ToolResult("c1", "research", "Oslo has high water.")
    assert parent.usage == Usage(input=40, output=4)  # two responses of each
    updates = [one.partial for one in events if isinstance(one, ToolUpdated)]
    assert 'look {"place":"Oslo"}\n  → Oslo is high' in updates[-1]
    assert updates[-1].endswith("Oslo has high water.")
    check_order([event for _, event in seen])
    assert {id_ for id_, _ in seen} == {"c1"}
    assert any(isinstance(event, ToolEnded) for _, event in seen)


async def test_what_a_sub_agent_spends_counts_for_the_limits_and_the_cost() -> None:
    spent = Usage(input=1_000_000)

    def make() -> Agent:
        return Agent(ScriptedModel([says("High.", spent)], name="small"))

    catalog = {"m": ModelFacts(prices=Prices(0, 0)), "small": ModelFacts(prices=Prices(2, 2))}
    helper = agent_tool(make, "research", "Find something out.")
    for limits, type_ in ((RunLimits(tokens=500_000), "tokens"), (RunLimits(cost=1.5), "cost")):
        model = ScriptedModel([calls(research()), says("Go.")], name="m")
        parent = Agent(model, [helper], limits=limits, catalog=catalog)
        result = await parent.run("Where?")
        assert result.error is not None
        assert result.error.type == type_
        assert result.cost == Cost(input=2.0)


async def test_sub_agents_run_in_parallel_with_conversations_of_their_own() -> None:
    both = asyncio.Barrier(2)
    made: list[Agent] = []

    @tool(needs_approval=False)
    async def meet() -> str:
        """Wait for the other."""
        await both.wait()
        return "met"

    def make() -> Agent:
        script = [calls(ToolCall("m", "meet", {})), says("done")]
        made.append(Agent(ScriptedModel(script), [meet]))
        return made[-1]

    helper = agent_tool(make, "research", "Find something out.")
    parent = Agent(ScriptedModel([calls(research(1), research(2)), says("Both.")]), [helper])
    async with asyncio.timeout(20):
        await parent.run("Go.")
    assert [result_of(parent, number).content for number in (1, 2)] == ["done", "done"]
    assert [one.messages[0].text for one in made] == ["Find tide 1.", "Find tide 2."]  # type: ignore[union-attr]


async def test_an_abort_of_the_parent_ends_the_sub_agent_and_its_costs_count() -> None:
    started = asyncio.Event()
    stopped = asyncio.Event()

    @tool(needs_approval=False)
    async def wait() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    made: list[Agent] = []

    def make() -> Agent:
        made.append(Agent(ScriptedModel([calls(ToolCall("w", "wait", {}))]), [wait]))
        return made[-1]

    helper = agent_tool(make, "research", "Find something out.")
    parent = Agent(ScriptedModel([calls(research())]), [helper])
    run = parent.run("Go.")
    await started.wait()
    await run.abort()
    assert stopped.is_set()
    assert not made[0].busy
    assert result_of(parent).is_error
    assert parent.usage == Usage(input=20, output=2)


async def test_failures_and_deferred_decisions_are_errors_for_the_model() -> None:
    async def later(_call: object, _tool: object) -> Defer:
        return Defer()

    @tool(name="look", needs_approval=True)
    def careful(place: str) -> str:
        """Look at a place."""
        return place

    asked = ToolCall("s1", "look", {"place": "Oslo"})
    broken: list[Any] = [
        lambda: Agent(ScriptedModel([calls(asked)] * 3), [look], max_turns=2),
        lambda: Agent(ScriptedModel([calls(asked)]), [careful], approve=later),
    ]
    for make, words in zip(broken, ["failed", "waits for approval of: look"], strict=True):
        helper = agent_tool(make, "research", "Find something out.")
        parent = Agent(ScriptedModel([calls(research()), says("Oh.")]), [helper])
        await parent.run("Go.")
        result = result_of(parent)
        assert result.is_error
        assert words in result.content


async def test_sub_agents_cannot_start_sub_agents_forever() -> None:
    count = 0

    def make() -> Agent:
        nonlocal count
        count += 1
        return Agent(ScriptedModel([calls(research()), says("up")]), [helper])

    helper = agent_tool(make, "research", "Find something out.")
    parent = Agent(ScriptedModel([calls(research()), says("end")]), [helper])
    result = await parent.run("Go.")
    assert result.text == "end"
    assert count == MAX_DEPTH
