"""Rules and the edit guard at work in an agent, over real HTTP."""

from __future__ import annotations

from pathlib import Path

from agent.scenes import calls, of, talk, talking, text
from penstock.agent import Agent
from penstock.agent.events import FindingMade
from penstock.agent.rules import Rule, RuleGuard, RuleSettings
from penstock.workspace.edit_guard import EditGuard


async def test_an_answer_that_meets_a_rule_is_stopped_and_given_again() -> None:
    rule = Rule("no-foo", ("foo bar",), "Never say foo bar.")
    async with talking(text("I say foo bar."), text("I say nothing.")) as (model, upstream):
        agent = Agent(model, guards=[RuleGuard([rule])])
        events = await talk(agent, "Say it.")
        [finding] = of(FindingMade, events)
        assert (finding.source, finding.names) == ("rule", ["no-foo"])
        assert "I say nothing." in str(agent.messages[-1])
        assert "I say foo" not in str(agent.messages)
        assert "Never say foo bar." in str(upstream.seen[1].body)


async def test_a_model_that_does_not_learn_is_not_told_for_ever() -> None:
    rule = Rule("no-foo", ("foo",), "No foo.", interrupt="never", repeat="after-gap", gap=1)
    async with talking(text("foo")) as (model, upstream):
        agent = Agent(model, guards=[RuleGuard([rule], RuleSettings(budget=3))])
        assert len(of(FindingMade, await talk(agent, "Say it."))) == 3
        assert len(upstream.seen) == 4


async def test_an_edit_of_what_is_not_there_never_runs(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    wrong = {"path": "a.txt", "old": "three\n", "new": "four\n"}
    async with talking(calls(("edit_file", wrong)), text("I see.")) as (model, upstream):
        agent = Agent(model, guards=[EditGuard(tmp_path)])
        [finding] = of(FindingMade, await talk(agent, "Edit it."))
        assert finding.source == "guard"
        assert "is not in the file" in str(upstream.seen[1].body)
