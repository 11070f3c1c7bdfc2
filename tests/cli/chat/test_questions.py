"""What can be said to a call, by a person and by a policy."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from penstock.agent import Allow, Decision, Deny, Edit, Retry, ToolOutput
from penstock.agent.workspace import workspace_tools
from penstock.cli.chat.approving import NOBODY, Approver, Policy, read_policy
from penstock.cli.chat.questions import NO, Interruptions, Question, Questions, decision_of
from penstock.errors import UsageError
from penstock.messages import ToolCall


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("y", Allow()),
        (" YES ", Allow()),
        ("a", Allow()),
        ("n", Deny(NO)),
        ("no, never", None),
        ("n use tabs", Deny("use tabs")),
        ("yes but first look", None),
        ("my", None),
        ("", None),
        ("e", None),
    ],
)
def test_only_an_answer_decides(text: str, decision: Decision | None) -> None:
    assert decision_of(text) == decision


def asked(policy: Policy, name: str, approver: Approver | None = None) -> Decision:
    tools = {tool.name: tool for tool in workspace_tools(Path())}
    approver = approver or Approver(policy)

    async def main() -> Decision:
        return await approver(ToolCall("c", name), tools[name])

    return asyncio.run(main())


def test_a_policy_decides_where_nobody_can_be_asked() -> None:
    assert asked("ask", "write_file") == Deny(NOBODY)
    assert asked("edits", "write_file") == Allow()
    assert asked("edits", "run_bash") == Deny(NOBODY)
    assert asked("all", "run_bash") == Allow()
    with pytest.raises(UsageError, match="ask, edits, all"):
        read_policy("some")
    assert read_policy("edits") == "edits"


def test_always_is_about_one_tool() -> None:
    approver = Approver()
    approver.allow_always("run_bash")
    assert asked("ask", "run_bash", approver) == Allow()
    assert asked("ask", "write_file", approver) == Deny(NOBODY)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_a_question_is_asked_once_the_page_has_come_to_it() -> None:
    async def main() -> None:
        questions = Questions()
        first, second = Question(ToolCall("1", "a")), Question(ToolCall("2", "b"))
        questions.reach("2")
        questions.add(first)
        questions.add(second)
        assert questions.current is second
        questions.reach("1")
        assert questions.current is first
        questions.remove(first)
        assert questions.current is second
        questions.pass_by("2")
        assert questions.current is None

    run(main())


def test_the_text_of_a_call_is_edited_or_else_all_of_it() -> None:
    async def main() -> None:
        shell = Question(ToolCall("1", "run_bash", {"command": "ls", "seconds": 1}))
        assert shell.editable() == "ls"
        assert shell.edited("ls -l") == Edit({"command": "ls -l", "seconds": 1})
        other = Question(ToolCall("1", "search", {"query": "x"}))
        assert other.editable() == '{"query":"x"}'
        assert other.edited('{"query": "y"}') == Edit({"query": "y"})
        for wrong in ("{", "[]"):
            with pytest.raises(UsageError):
                other.edited(wrong)

    run(main())


def test_a_call_that_is_stopped_takes_its_question_with_it() -> None:
    async def main() -> None:
        approver, questions = Approver(), Questions()
        approver.ask, approver.withdraw = questions.add, questions.remove
        tool = next(tool for tool in workspace_tools(Path()) if tool.name == "run_bash")
        task = asyncio.create_task(approver(ToolCall("1", "run_bash"), tool))
        await asyncio.sleep(0)
        questions.reach("1")
        assert questions.current is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert questions.current is None

    run(main())


def test_what_became_of_an_interrupted_call_is_said_in_a_word() -> None:
    asked = Interruptions()
    assert asked.current is None
    calls = [ToolCall(f"c{number}", "pay", {}) for number in range(3)]
    asked.begin(calls)
    for word in ("y", "a", "done", "r it", "yes", "", "please go on"):
        assert not asked.decide(word)
        assert asked.current is calls[0]
    for word in ("R", "d it was paid", "u"):
        assert asked.decide(word)
    assert asked.current is None
    assert asked.decisions == {"c0": Retry(), "c1": ToolOutput("it was paid")}
