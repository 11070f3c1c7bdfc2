"""Approval of tool calls: by a policy, or by the user at the terminal.

A question is asked only when its call has been shown completely. An input counts as an answer only
if it is one of a few words; all other text is sent to the model, so that a user who was typing when
the question appeared does not approve a call by accident.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, get_args

from penstock import _json
from penstock.agent import (
    AgentTool,
    Allow,
    Decision,
    Defer,
    Deny,
    Edit,
    Resolution,
    Retry,
    ToolOutput,
)
from penstock.cli.chat.render import shorten_value
from penstock.errors import JSONParseError, UsageError
from penstock.messages import ToolCall

ApprovalPolicy = Literal["ask", "edits", "all"]
"""What runs without a question: only tools that need no approval, edits of files, or everything."""

EDITS: Final = ("write_file", "edit_file", "apply_patch")
"""The tools that change nothing but files in the folder."""

NO_TERMINAL: Final = "approval is required, and there is no terminal to ask; see --approve"
REJECTED: Final = "the user rejected it"

ALL_ARGUMENTS: Final = "*"
# The arguments that are edited as plain text; without one of them, all are edited as JSON.
_EDITABLE: Final = ("command", "content", "diff", "new", "patch")


def parse_policy(text: str) -> ApprovalPolicy:
    """Return the policy *text*; raise `UsageError` for an unknown one."""
    for known in get_args(ApprovalPolicy):
        if text == known:
            return known  # type: ignore[no-any-return]
    raise UsageError(
        f"--approve is {text!r}; expected one of {', '.join(get_args(ApprovalPolicy))}"
    )


class ApprovalQuestion:
    """A tool call that waits for approval."""

    def __init__(self, call: ToolCall) -> None:
        self.call = call
        self.decision: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        self.edited = ""
        """The name of the argument that is being edited, or `ALL_ARGUMENTS`."""

    def decide(self, decision: Decision) -> None:
        """Answer the question, unless it has been answered."""
        if not self.decision.done():
            self.decision.set_result(decision)

    def begin_edit(self) -> str:
        """Choose the argument to edit, and return its text."""
        # A command or a text is edited as it is, without quotes and escapes of JSON.
        arguments = self.call.arguments
        texts = (name for name in _EDITABLE if isinstance(arguments.get(name), str))
        self.edited = next(texts, ALL_ARGUMENTS)
        if self.edited == ALL_ARGUMENTS:
            return _json.encode(arguments).decode()
        return str(arguments[self.edited])

    def parse_edit(self, text: str) -> Edit:
        """Return the arguments with *text* in place of the edited one.

        Raises `UsageError` if all arguments are edited and *text* is not a JSON object.
        """
        if self.edited != ALL_ARGUMENTS:
            return Edit({**self.call.arguments, self.edited: text})
        try:
            arguments: Any = _json.decode(text)
        except JSONParseError as exc:
            raise UsageError(f"The arguments are not valid JSON: {exc}") from exc
        if not isinstance(arguments, dict):
            raise UsageError("The arguments must be a JSON object.")
        return Edit(arguments)


class Approver:
    """Decides by *policy*; asks through `ask` where the policy does not decide."""

    def __init__(self, policy: ApprovalPolicy = "ask") -> None:
        self.policy = policy
        self.ask: Callable[[ApprovalQuestion], None] | None = None
        """Receives each question; without it, calls that need approval are denied."""
        self.withdraw: Callable[[ApprovalQuestion], None] | None = None
        """Receives each question that is answered or cancelled."""
        self.is_closing = False
        """Whether the chat ends: what is not decided yet is asked again when it is resumed."""
        # By the name of the tool, for this chat only: nothing is written to a file.
        self._always: set[str] = set()

    def allow_always(self, name: str) -> None:
        """Approve every later call of the tool *name*."""
        self._always.add(name)

    async def __call__(self, call: ToolCall, tool: AgentTool) -> Decision:
        """Return the decision about *call*."""
        if self.policy == "all" or tool.name in self._always:
            return Allow()
        if self.policy == "edits" and tool.name in EDITS:
            return Allow()
        # With --print, or without a terminal.
        if self.ask is None:
            return Deny(NO_TERMINAL)
        if self.is_closing:
            return Defer()
        question = ApprovalQuestion(call)
        self.ask(question)
        try:
            return await question.decision
        finally:
            if self.withdraw is not None:
                self.withdraw(question)


class ApprovalQueue:
    """The open questions of a run, in the order of their calls."""

    def __init__(self) -> None:
        self._open: dict[str, ApprovalQuestion] = {}
        self._shown: set[str] = set()

    @property
    def current(self) -> ApprovalQuestion | None:
        """The question to ask now: the first whose call has been shown."""
        # A user must not approve arguments that are not on the screen yet.
        shown = (question for id_, question in self._open.items() if id_ in self._shown)
        return next(shown, None)

    def add(self, question: ApprovalQuestion) -> None:
        """Add *question*; it is asked once its call has been shown."""
        self._open[question.call.id] = question

    def remove(self, question: ApprovalQuestion) -> None:
        """Remove *question*."""
        self._open.pop(question.call.id, None)
        self._shown.discard(question.call.id)

    def defer_all(self) -> bool:
        """Leave the open questions for the next chat; return whether there was one."""
        waiting = list(self._open.values())
        for question in waiting:
            question.decide(Defer())
        return bool(waiting)

    def mark_shown(self, call_id: str) -> None:
        """Record that a call has been shown completely."""
        self._shown.add(call_id)

    def mark_ended(self, call_id: str) -> None:
        """Record that a call has ended."""
        self._shown.discard(call_id)


class InterruptedCalls:
    """Calls that were running when the last process ended; the user is asked about each."""

    def __init__(self) -> None:
        self._open: list[ToolCall] = []
        self.decisions: dict[str, Resolution] = {}
        """The decisions by call id; calls that stay unknown are absent."""

    @property
    def current(self) -> ToolCall | None:
        """The call to ask about now."""
        return self._open[0] if self._open else None

    def begin(self, calls: Iterable[ToolCall]) -> None:
        """Ask about *calls*, and drop all earlier decisions."""
        self._open, self.decisions = list(calls), {}

    def decide(self, text: str) -> bool:
        """Apply *text* to the current call; return whether it is a decision."""
        word, _, rest = text.strip().partition(" ")
        call = self._open[0]
        match word.lower(), rest.strip():
            case (("r" | "retry"), ""):
                self.decisions[call.id] = Retry()
            # The user knows what has happened, and says so to the model in place of the tool.
            case (("d" | "done"), result) if result:
                self.decisions[call.id] = ToolOutput(result)
            case (("u" | "unknown"), ""):
                pass
            case _:
                return False
        del self._open[0]
        return True


def describe_interrupted(call: ToolCall) -> str:
    """Return a sentence about a call that was interrupted."""
    arguments = shorten_value(_json.encode(call.arguments).decode())
    return f"{call.name} {arguments} was running when the last chat ended: its outcome is unknown"


def parse_decision(text: str) -> Decision | None:
    """Return the decision in *text*, or None if it has none."""
    word, _, reason = text.strip().partition(" ")
    match word.lower(), reason.strip():
        case (("y" | "yes" | "a" | "always"), ""):
            return Allow()
        case (("n" | "no"), given):
            return Deny(given or REJECTED)
    return None


def is_edit(text: str) -> bool:
    """Return whether *text* asks to edit the call."""
    return text.strip().lower() in ("e", "edit")


def is_always(text: str) -> bool:
    """Return whether *text* approves all later calls of the tool too."""
    return text.strip().lower() in ("a", "always")


def is_answer(text: str) -> bool:
    """Return whether *text* is one of the letters that answer a question, and nothing else."""
    return text.strip().lower() in ("y", "n", "e", "a")
