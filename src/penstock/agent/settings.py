"""How an agent works: everything about it that is not the conversation."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct, field

from penstock.agent.approval import Approve
from penstock.agent.hooks import Hooks
from penstock.agent.recovery import AgentRetry, Compaction
from penstock.agent.tools.base import AgentTool
from penstock.agent.watch import Watch
from penstock.errors import UsageError
from penstock.models.base import Model
from penstock.request import Request

MAX_TURNS: Final = 200
"""How many turns one prompt may take, so that a model that only calls tools ends some day."""

MAX_INTERRUPTIONS: Final = 20
"""How often watches may stop an answer in one prompt, whatever budgets they have of their own."""


class AgentSettings(Struct):
    """The model, the tools, and what holds for every run.

    *request* is what every request to the model begins as; the conversation, the tools and the
    system prompt are put in. *eager* starts a tool as soon as its own call is complete, while the
    model continues. *steering* says whether a steering message stops the tools that run (``now``)
    or waits for them (``later``).

    Raises `UsageError` for what cannot be.
    """

    model: Model
    tools: list[AgentTool] = field(default_factory=list)
    system: str = ""
    request: Request = field(default_factory=Request)
    approve: Approve | None = None
    guards: tuple[Watch, ...] = ()
    retry: AgentRetry = field(default_factory=AgentRetry)
    compaction: Compaction | None = None
    eager: bool = False
    steering: Literal["now", "later"] = "now"
    max_turns: int = MAX_TURNS
    hooks: Hooks = field(default_factory=Hooks)
    chance: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        if self.max_turns < 1:
            raise UsageError(f"a prompt takes one turn or more, not {self.max_turns}")
        if self.steering not in ("now", "later"):
            raise UsageError(f"steering is 'now' or 'later', not {self.steering!r}")
