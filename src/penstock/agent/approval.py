"""Approval of tool calls: the decisions, and the function that makes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, get_args

from msgspec import Struct

from penstock.agent.tools.base import AgentTool, ToolOutput
from penstock.errors import UsageError
from penstock.messages import ToolCall


class Allow(Struct, frozen=True, tag="allow"):
    """Run the call as it is."""


class Deny(Struct, frozen=True, tag="deny"):
    """Do not run the call; *reason* is sent to the model."""

    reason: str = ""


class Edit(Struct, frozen=True, tag="edit"):
    """Run the call with these *arguments* instead of its own."""

    arguments: dict[str, Any]


class Defer(Struct, frozen=True, tag="defer"):
    """Decide later: the run ends after this turn, and `Agent.resume` continues with a decision."""


class Retry(Struct, frozen=True, tag="retry"):
    """Run an interrupted call again, with other *arguments* if there are any."""

    arguments: dict[str, Any] | None = None


Decision = Allow | Deny | Edit | Defer
"""A decision about a call."""

Resolution = Decision | Retry | ToolOutput | bool
"""A decision about a call that waits, or its result; True and False allow and deny.

An interrupted call may have run already, so it needs an explicit `Retry` to run again.
"""

Resolutions = Mapping[str, Resolution]
"""Resolutions by call id."""

Approve = Callable[[ToolCall, AgentTool], Decision | bool | Awaitable[Decision | bool]]
"""Decides about a call of a tool; may take as long as it needs."""

Approval = Literal["", "approved", "edited", "retried"]
"""Why a call was run; empty if no approval was needed."""


def read_approve(approve: Approve | Literal["all"] | None) -> Approve | None:
    """Return the approver that *approve* means; raise `UsageError` if it is not one."""
    if approve == "all":
        return lambda _call, _tool: Allow()
    if approve is not None and not callable(approve):
        raise UsageError(f'approve must be a function (call, tool), "all" or None, not {approve!r}')
    return approve


def read_decision(value: object) -> Decision | None:
    """Return *value* as a decision, or None if it is not one."""
    # Only a real bool counts: 1, "yes" or None must not approve a call.
    if isinstance(value, bool):
        return Allow() if value else Deny()
    return value if isinstance(value, get_args(Decision)) else None


def check_resolution(call: ToolCall, value: object, *, interrupted: bool) -> None:
    """Raise `UsageError` if *value* is not a valid resolution of *call*."""
    if isinstance(value, Retry) and not interrupted:
        raise UsageError(f"call {call.id!r} was not interrupted: use Allow() instead of Retry()")
    # A blanket approval must not repeat a payment that may have been made.
    if interrupted and (value is True or isinstance(value, Allow | Edit)):
        raise UsageError(
            f"call {call.id!r} was interrupted and may have run: use Retry() to run it again, or"
            " pass its result as a ToolOutput"
        )
    if read_decision(value) is None and not isinstance(value, Retry | ToolOutput):
        raise UsageError(
            f"{value!r} is not a decision about call {call.id!r}; expected True, False, Allow,"
            " Deny, Edit, Defer, Retry or ToolOutput"
        )


def explain_denial(reason: str) -> str:
    """Return the result of a call that was denied because of *reason*, which may be empty."""
    return f"The call was denied: {reason}" if reason else "The call was denied."


def explain_missing_approver(name: str) -> str:
    """Return why a call of the tool *name* is denied without an approver, and what to do."""
    return (
        f"`{name}` needs approval, but the agent has no approver: pass a function as `approve=` to"
        ' the Agent, or `approve="all"`'
    )
