"""A call's context that keeps what it was told."""

from __future__ import annotations

from penstock.agent.tools import ToolContext


class Heard(ToolContext):
    """A context; `updates` is what the tool showed on its way."""

    def __init__(self, name: str = "tool") -> None:
        self.updates: list[object] = []
        super().__init__("call_1", name, self.updates.append)
