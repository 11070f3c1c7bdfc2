"""Who says yes to a call: a policy, or the person at the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, get_args

from penstock.agent import AgentTool, Allow, Decision, Deny
from penstock.cli.chat.questions import Question
from penstock.errors import UsageError
from penstock.messages import ToolCall

Policy = Literal["ask", "edits", "all"]
"""What runs without a question: nothing that asks, changes to files, or everything."""

EDITS: Final = ("write_file", "edit_file")
"""The tools that only change files in the folder."""

NOBODY: Final = "nobody is there to ask; --approve says what may run"


def read_policy(text: str) -> Policy:
    """Read a policy; raise `UsageError` for what is none."""
    for known in get_args(Policy):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise UsageError(f"--approve is {', '.join(get_args(Policy))}, not {text!r}")


class Approver:
    """Decides by *policy*; what it leaves open is asked, where there is somebody to ask."""

    def __init__(self, policy: Policy = "ask") -> None:
        self.policy = policy
        self.ask: Callable[[Question], None] | None = None
        """Is told of a question, which it has answered at some time."""
        self.withdraw: Callable[[Question], None] | None = None
        """Is told that a question is over, answered or not."""
        self._always: set[str] = set()

    def allow_always(self, name: str) -> None:
        """Ask no more about the tool *name*."""
        self._always.add(name)

    async def __call__(self, call: ToolCall, tool: AgentTool) -> Decision:
        """Decide about *call*."""
        if self._allows(tool.name):
            return Allow()
        if self.ask is None:
            return Deny(NOBODY)
        question = Question(call)
        self.ask(question)
        try:
            return await question.answer
        finally:
            if self.withdraw is not None:
                self.withdraw(question)

    def _allows(self, name: str) -> bool:
        if self.policy == "all" or name in self._always:
            return True
        return self.policy == "edits" and name in EDITS
