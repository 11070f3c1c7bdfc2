"""What a tool is to an agent: a description for the model, and a function that runs.

The return value of `run` becomes the result that the model sees: text, a list of blocks, any JSON
value, or a `ToolOutput` with more. An exception becomes an error result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from penstock.tools import Tool


class ToolContext:
    """The call that a tool runs for, and a way to show progress."""

    def __init__(self, id: str, name: str, on_update: Callable[[object], None]) -> None:  # noqa: A002
        self.id = id
        self.name = name
        self.cancelled = False
        """Whether the call should end; a tool that runs in a thread should check it regularly."""
        self._on_update: Callable[[object], object] = on_update

    def update(self, partial: object) -> None:
        """Show all of the result that there is so far, while the tool continues."""
        self._on_update(partial)

    def update_through(self, forward: Callable[..., object]) -> None:
        """Send updates through *forward*: those of a thread have to be passed to the loop."""
        on_update = self._on_update
        self._on_update = lambda partial: forward(on_update, partial)


class ToolOutput(Struct, frozen=True):
    """A result with more: *details* are for people, *is_error* marks a failure of the tool."""

    content: Any = ""
    is_error: bool = False
    details: Any = None


Run = Callable[[dict[str, Any], ToolContext], Awaitable[object]]
"""Runs a tool: takes arguments that fit its schema, returns its result."""


class AgentTool(Struct, frozen=True):
    """A tool that an agent can run.

    An *exclusive* tool runs alone: after all calls before it and before all after it. A tool that
    is not *abortable* is never cancelled: the agent waits for it. With *needs_approval* each call
    is approved first, and denied without an approver; with False none is. With None, the default
    for functions, the approver decides if there is one. A *lenient* tool runs even if its arguments
    do not fit its schema.
    """

    tool: Tool
    run: Run
    exclusive: bool = False
    abortable: bool = True
    needs_approval: bool | None = None
    lenient: bool = False

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.tool.name
