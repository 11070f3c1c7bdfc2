"""Whether a call may run: who is asked, and what they can say."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from penstock.agent.tools.base import AgentTool
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
    """Nobody can say yet: the run ends behind this turn, and `Agent.proceed` goes on with it."""


Decision = Allow | Deny | Edit | Defer
"""What can be said to a call."""

Approve = Callable[[ToolCall, AgentTool], Decision | Awaitable[Decision]]
"""Decides about a call of a tool; may take as long as it needs to."""
