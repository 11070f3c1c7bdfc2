"""What a tool is to an agent: a description for the model, and something that runs.

Whatever `run` gives back becomes the result that the model sees: text, a list of blocks, any JSON
value, or a `ToolOutput` that says more. Whatever it raises becomes an error result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct

from penstock.tools import Tool


class ToolContext:
    """What a running tool knows of its call, and whom it can tell how far it is."""

    def __init__(self, id: str, name: str, on_update: Callable[[object], None]) -> None:  # noqa: A002
        self.id = id
        self.name = name
        self.cancelled = False
        """Whether the call is to end; a tool that runs in a thread should look now and then."""
        self._on_update: Callable[[object], object] = on_update

    def update(self, partial: object) -> None:
        """Show all of the result that there is, while the tool runs on."""
        self._on_update(partial)

    def tell_through(self, carry: Callable[..., object]) -> None:
        """Send updates by way of *carry*: those of a thread have to go over the loop."""
        tell = self._on_update
        self._on_update = lambda partial: carry(tell, partial)


class ToolOutput(Struct, frozen=True):
    """A result that says more: *details* are for people, *is_error* says that the tool failed."""

    content: Any = ""
    is_error: bool = False
    details: Any = None


Run = Callable[[dict[str, Any], ToolContext], Awaitable[object]]
"""Runs a tool: arguments that fit its schema in, its result out."""


class AgentTool(Struct, frozen=True):
    """A tool that an agent can run.

    An *exclusive* one runs alone: after all calls before it and before all after it. One that is
    not *abortable* is never cancelled, and waited for. One that *asks* needs approval for each
    call, and is denied where nobody can approve; one that does not (False) never asks. Left open
    (None, as for plain functions) an approver is asked if there is one. A *lenient* tool runs even
    if its arguments do not fit.
    """

    tool: Tool
    run: Run
    exclusive: bool = False
    abortable: bool = True
    asks: bool | None = None
    lenient: bool = False

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.tool.name
