"""Messages that wait for their moment: what steers a run, and what follows it."""

from __future__ import annotations

from collections import deque
from typing import Literal

from penstock.requests import UserMessage

Order = Literal["one", "all"]
"""Whether waiting messages are said one a turn, or all at once."""


class Queue:
    """Messages in the order in which they came; what is not taken stays for the next run."""

    def __init__(self, order: Order = "one") -> None:
        self.order = order
        self._waiting: deque[UserMessage] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: UserMessage) -> None:
        """Let *message* wait."""
        self._waiting.append(message)

    def take(self) -> list[UserMessage]:
        """Take what is to be said next; nothing where nothing waits."""
        count = min(1, len(self)) if self.order == "one" else len(self)
        return [self._waiting.popleft() for _ in range(count)]

    def clear(self) -> list[UserMessage]:
        """Take everything, to be shown or edited instead of said."""
        return [self._waiting.popleft() for _ in range(len(self))]
