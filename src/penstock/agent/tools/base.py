"""What a tool is to an agent: a description for the model, and a function that runs.

The return value of `run` becomes the result that the model sees: text, a list of blocks, any JSON
value, or a `ToolOutput` with more. An exception becomes an error result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Struct

from penstock.errors import UsageError
from penstock.messages import Usage
from penstock.tools import Tool

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # it has defaults, as Python has from 3.13 on

    DepsT = TypeVar("DepsT", default=Any)
else:
    from typing import TypeVar

    DepsT = TypeVar("DepsT")


class ToolContext(Generic[DepsT]):
    """The call that a tool runs for, the dependencies of the run, and a way to show progress.

    A parameter ``context: ToolContext[Database]`` has `deps` of the type ``Database``: what was
    passed to `Agent.run`, or else to the agent.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the field's name
        name: str,
        on_update: Callable[[object], None],
        deps: DepsT | None = None,
        on_spend: Callable[[str, Usage], object] = lambda _model, _usage: None,
    ) -> None:
        self.id = id
        self.name = name
        self._deps = deps
        self.cancelled = False
        """Whether the call should end; a tool that runs in a thread should check it regularly."""
        self._on_update: Callable[[object], object] = on_update
        self._on_spend = on_spend

    @property
    def deps(self) -> DepsT:
        """The dependencies of the run."""
        return self._deps  # type: ignore[return-value]  # None only if the caller passed none

    def spend(self, usage: Usage, model: str = "") -> None:
        """Add the tokens that the tool spent to those of the run: they count for its limits.

        *model* is the name of the model, for its price; the default is the model of the agent.
        """
        self._on_spend(model, usage)

    def update(self, partial: object) -> None:
        """Emit all of the result so far as an update, while the tool continues."""
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
    do not fit its schema. A call that takes longer than *timeout* seconds is stopped, and its
    result says so; a function in a thread cannot be stopped: its call ends when the function does.
    """

    tool: Tool
    run: Run
    exclusive: bool = False
    abortable: bool = True
    needs_approval: bool | None = None
    lenient: bool = False
    timeout: float | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not self.timeout > 0:
            raise UsageError(f"timeout must be more than 0 seconds, got {self.timeout}")

    @property
    def name(self) -> str:
        """The name that the model calls."""
        return self.tool.name
