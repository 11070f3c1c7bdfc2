"""Limits of a run, what it cost, and models that respond where another one failed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.agent import Agent, Compaction, Output, RunLimits, tool
from penstock.agent.events import AgentEvent, CompactionStarted, FallbackStarted
from penstock.agent.settings import AgentRetry
from penstock.errors import UsageError
from penstock.messages import AssistantMessage, ErrorInfo, Text, ToolCall, Usage
from penstock.models.catalog import (
    Cost,
    ModelFacts,
    Prices,
    find_facts,
    read_catalog,
    read_table,
    read_table_date,
)
from penstock.request import MessageLike
from penstock.testing import ScriptedModel, call, fail, record_run, wait

USAGE = Usage(input=1_000_000, output=100_000, cache_read=500_000, total=1_600_000)
KNOWN = {"m": ModelFacts(1_000, 100, Prices(2.0, 10.0, 0.2))}


@tool
async def look() -> str:
    """Look."""
    return "nothing"


def looking(model: str = "m") -> AssistantMessage:
    return AssistantMessage("r", model, [ToolCall("c1", "look")], "tool_use", usage=USAGE)


def again(count: int, name: str = "m") -> ScriptedModel:
    """Give a model that calls a tool again and again."""
    replies = [looking() for _ in range(count)]
    for number, message in enumerate(replies):
        message.content = [ToolCall(f"c{number}", "look")]
    return ScriptedModel(replies, name=name)


# --- limits ---


@pytest.mark.parametrize(
    ("limits", "type_", "requests"),
    [
        (RunLimits(turns=2), "turns", 2),
        (RunLimits(tokens=3_000_000), "tokens", 2),
        (RunLimits(cost=9.0), "cost", 3),
        (RunLimits(turns=5, cost=3.0), "cost", 1),
    ],
)
async def test_a_run_ends_at_its_limit(limits: RunLimits, type_: str, requests: int) -> None:
    model = again(8)
    agent = Agent(model, [look], limits=limits, catalog=KNOWN)
    run = agent.run("Look.")
    await record_run(run)
    result = await run
    assert result.error is not None
    assert (result.error.kind, result.error.type) == ("aborted", type_)
    assert len(model.requests) == requests
    assert result.cost is not None
    assert result.cost.total == pytest.approx(requests * (2 + 1 + 0.1))


@pytest.mark.virtual_time
async def test_a_run_ends_when_its_time_is_over() -> None:
    @tool
    async def sleep() -> str:
        """Sleep."""
        await asyncio.sleep(1_000)
        return "rested"

    models = ScriptedModel([call("sleep")]), ScriptedModel([["Half ", wait(1_000), "done."]])
    for model in models:
        agent = Agent(model, [sleep], limits=RunLimits(seconds=30))
        began = asyncio.get_running_loop().time()
        run = agent.run("Rest.")
        await record_run(run)
        result = await run
        assert result.error is not None
        assert (result.error.kind, result.error.type) == ("aborted", "time")
        assert asyncio.get_running_loop().time() - began == pytest.approx(30, abs=1)
        assert not agent.busy


@pytest.mark.virtual_time
async def test_a_run_within_its_time_has_no_error() -> None:
    agent = Agent(ScriptedModel(["Done."]), limits=RunLimits(seconds=30))
    assert (await agent.run("Go.")).error is None
    await asyncio.sleep(60)
    assert (await agent.run("Go.")).error is not None, "the script is over, not the time"


def test_limits_that_cannot_be_kept_are_refused() -> None:
    for limits in ({"turns": 0}, {"tokens": -1}, {"cost": 0.0}, {"seconds": float("nan")}):
        with pytest.raises(UsageError, match="must be more than 0"):
            RunLimits(**limits)
    with pytest.raises(UsageError, match="the price of 'scripted' is unknown"):
        Agent(ScriptedModel([]), limits=RunLimits(cost=1.0))


# --- the catalog ---


def test_the_table_has_windows_and_prices() -> None:
    assert read_table_date() >= "2026-08-08"
    assert len(read_table()) > 150
    facts = find_facts("claude-sonnet-4-5")
    assert facts.window == 200_000
    assert facts.prices == Prices(3.0, 15.0, 0.3, 3.75)
    assert find_facts("anthropic/claude-sonnet-4-5-20260101") == facts
    assert find_facts("claude-sonnet-4-5-fast") == ModelFacts(), "similar is not the same"
    assert find_facts("qwen3:8b") == ModelFacts()
    for name, each in read_table().items():
        assert each.window > 1_000, name
        assert each.prices is not None
        assert 0 < each.prices.input < 500, name


def test_a_catalog_of_the_user_comes_first(tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text('[models.m]\nwindow = 32_768\ninput = 1\noutput = 2.5\n[models."gpt-5"]\n')
    assert read_catalog(file)["m"] == ModelFacts(32_768, 0, Prices(1, 2.5))
    assert find_facts("gpt-5", read_catalog(file)) == ModelFacts()
    agent = Agent(ScriptedModel([looking()], name="m"), [look], catalog=file, max_turns=1)
    cost = agent.run_sync("Look.").cost
    assert cost == Cost(1.0, 0.25, 0.5)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("models = 3", "has no models"),
        ("[models.m]\nprice = 3", "unknown key 'price'"),
        ("[models.m]\ninput = 3", "both prices"),
        ("[models.m]\nwindow = -3", "0 or more"),
        ("[models.m]\nwindow = inf", "finite number"),
        ("[models.m]\ninput = nan\noutput = 1", "finite number"),
        ("[models", "cannot read"),
    ],
)
def test_a_catalog_with_a_mistake_is_refused(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "models.toml"
    file.write_text(text)
    with pytest.raises(UsageError, match=words):
        Agent("demo:", catalog=file)


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_a_price_that_would_never_reach_a_limit_is_refused(price: float) -> None:
    with pytest.raises(UsageError, match="finite numbers of 0 or more"):
        Prices(1.0, 1.0, price)


def test_a_cost_without_a_price_is_unknown() -> None:
    assert Agent(ScriptedModel([looking()]), [look], max_turns=1).run_sync("Look.").cost is None


async def test_the_window_of_the_catalog_is_kept_before_the_refusal() -> None:
    long = "word " * 1_000
    model = ScriptedModel(lambda _: "Fine.", name="m")
    history: list[MessageLike] = [
        "First.",
        AssistantMessage("a", "m", [Text(long)], "stop"),
        "Second.",
    ]
    history += [AssistantMessage("b", "m", [Text("Yes.")], "stop")]
    agent = Agent(model, messages=history, compaction=Compaction(keep=10), catalog=KNOWN)
    events = await record_run(agent.run("Third."))
    started = [event for event in events if isinstance(event, CompactionStarted)]
    assert [event.reason for event in started] == ["threshold"]


# --- fallback ---


FAILURES: dict[str, ErrorInfo] = {
    "no such model": fail("no such model", status=404),
    "a wrong key": fail("invalid key", status=401),
    "a quota": fail("You exceeded your current quota", status=429, type="insufficient_quota"),
    "a server that fails": fail("oops", status=500),
    "no connection": fail("refused", kind="transport"),
    "a conversation that is too long": fail("context_length_exceeded", status=400),
}


def fallbacks(events: list[AgentEvent]) -> list[str]:
    return [event.model for event in events if isinstance(event, FallbackStarted)]


@pytest.mark.virtual_time
@pytest.mark.parametrize("case", FAILURES)
async def test_another_model_responds_where_one_failed(case: str) -> None:
    first = ScriptedModel(lambda _: FAILURES[case], name="first")
    second = ScriptedModel([call("look"), "Found."], name="second")
    agent = Agent(first, [look], fallback=[second], retry=AgentRetry(attempts=1))
    run = agent.run("Look.")
    events = await record_run(run)
    assert (await run).text == "Found."
    assert fallbacks(events) == ["second"]
    assert len(second.requests) == 2, "the rest of the run stays with it"
    assert len(first.requests) <= 2
    assert second.requests[0].model == "second"


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "reply",
    [
        [fail("I must not", kind="refusal")],
        [fail("filtered", kind="filter")],
        ["Half of it", fail("oops", status=500)],
    ],
    ids=["a refusal", "a filter", "content that was emitted"],
)
async def test_what_another_model_must_not_change_ends_the_run(reply: list[object]) -> None:
    first = ScriptedModel(lambda _: reply, name="first")  # type: ignore[arg-type, return-value]
    agent = Agent(first, fallback=[ScriptedModel(["No."])], retry=AgentRetry(attempts=1))
    run = agent.run("Look.")
    assert fallbacks(await record_run(run)) == []
    assert (await run).error is not None


async def test_a_typed_output_comes_from_the_fallback_in_its_own_way() -> None:
    first = ScriptedModel([fail("no such model", status=401)], name="first")
    second = ScriptedModel(['{"result": 3}'], name="second", modes=("prompt",))
    agent = Agent(first, output=Output(int), fallback=[second])
    assert (await agent.run("1 + 2?")).output == 3
    assert first.requests[0].response_format is not None
    assert second.requests[0].response_format is None
    assert "JSON Schema" in second.requests[0].system
