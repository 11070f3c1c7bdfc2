"""Whether a call may run: who is asked, and what they can say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from penstock.agent.tools.base import AgentTool, ToolOutput
from penstock.errors import UsageError
from penstock.messages import ToolCall


class Allow(Struct, frozen=True, tag="allow"):
    """The call may run as it is."""


class Deny(Struct, frozen=True, tag="deny"):
    """The call may not run, and the model is told *reason*."""

    reason: str = ""


class Edit(Struct, frozen=True, tag="edit"):
    """The call may run with these *arguments* in place of its own."""

    arguments: dict[str, Any]


class Defer(Struct, frozen=True, tag="defer"):
    """Nobody can say yet: the run ends after this turn, and `Agent.proceed` continues with it."""


class Retry(Struct, frozen=True, tag="retry"):
    """A call that was interrupted runs again, with these *arguments* if there are any."""

    arguments: dict[str, Any] | None = None


Decision = Allow | Deny | Edit | Defer
"""What can be said to a call."""

Resolution = Decision | Retry | ToolOutput | bool
"""What can be said to a call that waits: a decision, or its result; True and False are decisions.

A call that was interrupted is not allowed a second time by accident: it takes a `Retry`.
"""

Resolutions = Mapping[str, Resolution]
"""What was decided about calls that wait, by their ids."""

Approve = Callable[[ToolCall, AgentTool], Decision | bool | Awaitable[Decision | bool]]
"""Decides about a call of a tool; may take as long as it needs to."""

Approval = Literal["", "approved", "edited", "retried"]
"""Why a call was run: nobody had to be asked, or what was decided about it."""


def read_approve(approve: Approve | Literal["all"] | None) -> Approve | None:
    """Return who approves; raise `UsageError` for what cannot."""
    if approve == "all":
        return _allow
    if approve is not None and not callable(approve):
        raise UsageError(f'approve is a function (call, tool), "all" or None, not {approve!r}')
    return approve


def read_decision(said: object) -> Decision | None:
    """Return the decision that *said* is; None for what is not one."""
    if isinstance(said, bool):
        return Allow() if said else Deny()
    return said if isinstance(said, get_args(Decision)) else None


def check_resolution(call: ToolCall, said: object, *, interrupted: bool) -> None:
    """Raise `UsageError` for what cannot be said to *call*, which waits."""
    if isinstance(said, Retry) and not interrupted:
        raise UsageError(
            f"call {call.id!r} has not begun: allow it, Retry() is for interrupted ones"
        )
    if interrupted and (said is True or isinstance(said, Allow | Edit)):
        raise UsageError(
            f"call {call.id!r} was interrupted and may have run: decide with Retry(), or give its"
            " result as a ToolOutput"
        )
    if read_decision(said) is None and not isinstance(said, Retry | ToolOutput):
        raise UsageError(f"{said!r} is no decision about call {call.id!r}")


def no_approver(name: str) -> str:
    """Say why a call that needs approval cannot run, and what to do about it."""
    return (
        f"`{name}` needs approval, and nobody can approve: give the Agent `approve=`, a function"
        ' that decides, or `approve="all"`'
    )


def _allow(_call: ToolCall, _tool: AgentTool) -> Decision:
    return Allow()
