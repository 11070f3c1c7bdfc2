"""Names for calls that bring none."""

from __future__ import annotations

from itertools import count

from penstock.messages import AssistantMessage
from penstock.request import Request


class Ids:
    """Names calls so that no two of a conversation have one name."""

    def __init__(self, request: Request) -> None:
        answers = [m for m in request.messages if isinstance(m, AssistantMessage)]
        self.taken = {call.id for answer in answers for call in answer.tool_calls}
        self._numbers = count(1)

    def __call__(self) -> str:
        """Give the next name that nobody has."""
        return next(id_ for n in self._numbers if (id_ := f"call_{n}") not in self.taken)
