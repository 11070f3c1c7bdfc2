"""Approval of calls, by the user and by a policy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.agent import Allow, Decision, Deny, Edit, Retry, ToolOutput
from penstock.cli.chat.approval import (
    NO_TERMINAL,
    REJECTED,
    ApprovalPolicy,
    ApprovalQuestion,
    ApprovalQueue,
    Approver,
    InterruptedCalls,
    parse_decision,
    parse_policy,
)
from penstock.errors import UsageError
from penstock.messages import ToolCall
from penstock.workspace import workspace_tools


@pytest.mark.parametrize(
    ("text", "decision"),
    [
        ("y", Allow()),
        (" YES ", Allow()),
        ("a", Allow()),
        ("n", Deny(REJECTED)),
        ("no, never", None),
        ("n use tabs", Deny("use tabs")),
        ("yes but first look", None),
        ("my", None),
        ("", None),
        ("e", None),
    ],
)
def test_only_the_words_of_an_answer_are_a_decision(text: str, decision: Decision | None) -> None:
    assert parse_decision(text) == decision


async def decide(policy: ApprovalPolicy, name: str, approver: Approver | None = None) -> Decision:
    tools = {tool.name: tool for tool in workspace_tools(Path())}
    approver = approver or Approver(policy)
    return await approver(ToolCall("c", name), tools[name])


async def test_without_a_terminal_the_policy_decides() -> None:
    assert await decide("ask", "write_file") == Deny(NO_TERMINAL)
    assert await decide("edits", "write_file") == Allow()
    assert await decide("edits", "run_bash") == Deny(NO_TERMINAL)
    assert await decide("all", "run_bash") == Allow()
    with pytest.raises(UsageError, match="ask, edits, all"):
        parse_policy("some")
    assert parse_policy("edits") == "edits"


async def test_always_applies_to_one_tool() -> None:
    approver = Approver()
    approver.allow_always("run_bash")
    assert await decide("ask", "run_bash", approver) == Allow()
    assert await decide("ask", "write_file", approver) == Deny(NO_TERMINAL)


async def test_a_question_is_asked_when_its_call_has_been_shown() -> None:
    questions = ApprovalQueue()
    first, second = ApprovalQuestion(ToolCall("1", "a")), ApprovalQuestion(ToolCall("2", "b"))
    questions.mark_shown("2")
    questions.add(first)
    questions.add(second)
    assert questions.current is second
    questions.mark_shown("1")
    assert questions.current is first
    questions.remove(first)
    assert questions.current is second
    questions.mark_ended("2")
    assert questions.current is None


async def test_the_text_of_a_call_is_edited_or_else_all_its_arguments() -> None:
    shell = ApprovalQuestion(ToolCall("1", "run_bash", {"command": "ls", "seconds": 1}))
    assert shell.begin_edit() == "ls"
    assert shell.parse_edit("ls -l") == Edit({"command": "ls -l", "seconds": 1})
    other = ApprovalQuestion(ToolCall("1", "search", {"query": "x"}))
    assert other.begin_edit() == '{"query":"x"}'
    assert other.parse_edit('{"query": "y"}') == Edit({"query": "y"})
    for wrong in ("{", "[]"):
        with pytest.raises(UsageError):
            other.parse_edit(wrong)


async def test_the_question_of_a_cancelled_call_is_withdrawn() -> None:
    approver, questions = Approver(), ApprovalQueue()
    approver.ask, approver.withdraw = questions.add, questions.remove
    tool = next(tool for tool in workspace_tools(Path()) if tool.name == "run_bash")
    task = asyncio.create_task(approver(ToolCall("1", "run_bash"), tool))
    await asyncio.sleep(0)
    questions.mark_shown("1")
    assert questions.current is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert questions.current is None


def test_the_outcome_of_an_interrupted_call_is_given_by_a_word() -> None:
    interrupted = InterruptedCalls()
    assert interrupted.current is None
    calls = [ToolCall(f"c{number}", "pay", {}) for number in range(3)]
    interrupted.begin(calls)
    for word in ("y", "a", "done", "r it", "yes", "", "please go on"):
        assert not interrupted.decide(word)
        assert interrupted.current is calls[0]
    for word in ("R", "d it was paid", "u"):
        assert interrupted.decide(word)
    assert interrupted.current is None
    assert interrupted.decisions == {"c0": Retry(), "c1": ToolOutput("it was paid")}
