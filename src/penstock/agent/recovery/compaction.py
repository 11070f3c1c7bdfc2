"""When a conversation is too long for its model, and how much of it stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from penstock.agent.recovery.cutting import Cut, plan
from penstock.agent.recovery.summarizing import LEAST_ROOM, ROOM
from penstock.agent.recovery.tokens import ratio
from penstock.errors import UsageError
from penstock.models.base import Model
from penstock.requests import Message
from penstock.tools import Tool

RESERVE: Final = 16_384
"""How many tokens of the window are left for the answer, and for what guesses are wrong by."""

KEEP: Final = 20_000
"""How many tokens of the conversation stay as they are."""

MOST_RESERVED: Final = 4
"""The reserve is at most one part of so many of the window: small windows are all reserve else."""


class Compaction(Struct, frozen=True):
    """Sums up a conversation that no longer fits into *window* less *reserve* tokens.

    About *keep* tokens of it stay as they are; with *prune*, old outputs of tools are shortened
    first, which may be enough. *model* sums up, in place of the agent's own. Without a window (0)
    nobody knows what fits: then only a model that refuses makes a compaction.

    Of a small window at most a quarter is reserved, and at most half of the rest stays.

    Raises `UsageError` for a number below zero.
    """

    window: int = 0
    reserve: int = RESERVE
    keep: int = KEEP
    prune: bool = True
    model: Model | None = None

    def __post_init__(self) -> None:
        if min(self.window, self.reserve, self.keep) < 0:
            raise UsageError("a window, a reserve and what is kept are zero or more tokens")

    @property
    def threshold(self) -> int:
        """How long a conversation may be; 0 where nobody knows."""
        return self.window - min(self.reserve, self.window // MOST_RESERVED)

    @property
    def kept(self) -> int:
        """How many tokens stay as they are: *keep*, or as many as the window allows."""
        return min(self.keep, self.threshold // 2) if self.window else self.keep

    @property
    def room(self) -> int:
        """How many tokens of conversation one question for a summary may hold."""
        return max(LEAST_ROOM, min(ROOM, self.threshold // 2)) if self.window else ROOM

    def is_due(self, tokens: int) -> bool:
        """Tell whether a conversation of *tokens* is too long."""
        return 0 < self.threshold < tokens

    def cut(
        self, messages: Sequence[Message], system: str = "", tools: Sequence[Tool] = ()
    ) -> Cut | None:
        """Say where to cut *messages*; None where there is nothing to sum up.

        *system* and *tools* go along with the conversation: they tell what its tokens weigh.
        """
        return plan(messages, round(self.kept / ratio(messages, system, tools)))
